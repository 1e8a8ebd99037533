"""Sessions of TensorFlow 1 on XPU, opened and closed: ``python tests/nextpluggable/sessions.py 2500 4``.

That many on each of so many threads at once: small sessions, each of a graph of its own, whose tensors go to the CPU
and come back.
"""

from __future__ import annotations

import sys
import threading

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def sessions(first: int, count: int, failures: list[BaseException]) -> None:
    try:
        for i in range(first, first + count):
            with tf.Graph().as_default():
                with tf.device("XPU:0"):
                    x = v1.placeholder(tf.float32, (64,))
                    v = v1.get_variable("v", (), initializer=v1.zeros_initializer())
                    y = x + float(i)
                with tf.device("CPU:0"):
                    z = tf.identity(y)
                with tf.device("XPU:0"):
                    w = z * 2
                with v1.Session() as session:
                    # A variable of another session must not be seen.
                    assert not session.run(v1.is_variable_initialized(v))
                    session.run(v.initializer)
                    a, b = session.run([y, w], {x: np.ones(64)})
                    assert (a == i + 1).all(), (i, a)
                    assert (b == 2 * (i + 1)).all(), (i, b)
    except BaseException as error:
        failures.append(error)
        raise


def main() -> int:
    count, number = int(sys.argv[1]), int(sys.argv[2])
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=sessions, args=(t * count, count, failures)) for t in range(number)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        return 1
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
