"""A device with little memory (TRIPONT_MEMORY_LIMIT): what does not fit is ResourceExhausted, and the process lives."""

from __future__ import annotations

import subprocess
import sys

# A limit of 16 MiB, and arrays of 6 MiB: two fit, a third does not.
LIMIT = 16 << 20
PROGRAM = """
import gc
import tensorflow as tf

SIZE = 3 << 19
exhausted = tf.errors.ResourceExhaustedError


def refused(function):
    try:
        function()
    except exhausted as error:
        assert "memory" in str(error) and "TRIPONT_MEMORY_LIMIT" in str(error), error
        return True
    return False


with tf.device("XPU:0"):
    steps = {
        "eager": lambda x: x + 1.0,
        "function": tf.function(lambda x: tf.sin(x + 1.0)),
        "jit": tf.function(lambda x: (tf.sin(x), tf.cos(x), tf.cumsum(x)), jit_compile=True),
        "kernel": lambda x: tf.random.shuffle(x),
        "variable": lambda x: tf.Variable(x + 1.0),
        "constant": lambda x: tf.identity(tf.fill([SIZE], 2.0)),
    }
    for way, step in [*steps.items(), *steps.items()]:
        kept = [tf.fill([SIZE], 1.0)]
        for _ in range(3):  # at the latest the third does not fit
            if refused(lambda: kept.append(step(kept[0]))):
                break
        else:
            raise AssertionError(f"{way}: 18 MiB fit into 16")
        assert float(kept[0][3]) == 1.0, way
        kept.clear()
        gc.collect()
        small = step(tf.fill([8], 0.0))
        assert all(t.shape in ((8,), (SIZE,)) for t in tf.nest.flatten(small)), way
        del small
        gc.collect()

    # A variable whose update does not fit keeps its value.
    variable = tf.Variable(tf.fill([SIZE], 3.0))
    other = tf.fill([SIZE], 1.0)
    assert refused(lambda: variable.assign(tf.sin(variable * other) * other))
    assert float(tf.reduce_max(variable)) == 3.0
print("done")
"""


def test_what_does_not_fit_is_an_error(subprocess_environment: dict[str, str]) -> None:
    """Of eager ops, functions, compiled functions, kernels written by hand, variables and fills, twice each.

    In a Python of its own: in a fork of one that has imported TensorFlow, arrays are freed later than the program
    counts on.
    """
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=subprocess_environment | {"TRIPONT_MEMORY_LIMIT": str(LIMIT)},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "done"
