"""Sessions of TensorFlow 1 on XPU: closing one must not take from TensorFlow's threads what they still hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Small sessions, each of a graph of its own, whose tensors go to the CPU and come back, on several threads at once.
PROGRAM = """
import sys, threading
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
SESSIONS, THREADS = int(sys.argv[1]), int(sys.argv[2])
failures = []


def sessions(first):
    try:
        for i in range(first, first + SESSIONS):
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
                    assert (a == i + 1).all() and (b == 2 * (i + 1)).all(), (i, a, b)
    except BaseException as error:
        failures.append(error)
        raise


threads = [threading.Thread(target=sessions, args=(t * SESSIONS,)) for t in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures
print("done")
"""


@pytest.mark.parametrize(
    ("sessions", "threads"), [(20, 2), pytest.param(300, 4, marks=pytest.mark.slow)]
)
def test_sessions_can_be_closed(
    sessions: int, threads: int, subprocess_environment: dict[str, str]
) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(sessions), str(threads)],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "done"


# What a thread does that is late, at a time of our choosing: a tensor is given back when its session, and all that
# belonged to the session, are gone.
LATE = """
import ctypes, gc, sys
import tensorflow as tf

v1 = tf.compat.v1
library = sys.argv[1]
ops = tf.load_op_library(library)
for i in range(5):
    with tf.Graph().as_default():
        with tf.device("XPU:0"):
            y = ops.tripont_hold(x=tf.fill([100], 2.0) + float(i))
        with v1.Session() as session:
            assert session.run(y)[0] == 2 + i
gc.collect()
assert ctypes.CDLL(library).tripont_test_let_go() == 5
print("done")
"""


def test_a_tensor_may_outlive_its_session(
    test_ops_library: Path, subprocess_environment: dict[str, str]
) -> None:
    result = subprocess.run(
        [sys.executable, "-c", LATE, str(test_ops_library)],
        # glibc's allocator overwrites what is freed.
        env=subprocess_environment | {"MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "done"
