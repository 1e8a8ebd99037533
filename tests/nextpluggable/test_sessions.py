"""Sessions of TensorFlow 1 on XPU: closing one must not take from TensorFlow's threads what they still hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run

PROGRAM = """
import sys
from tests.nextpluggable import sessions

sys.exit(sessions.main())
"""


# Many of them only ever found what the next test finds by itself.
@pytest.mark.parametrize(
    ("sessions", "threads"), [(30, 4), pytest.param(300, 4, marks=pytest.mark.nightly)]
)
def test_sessions_can_be_closed(
    sessions: int, threads: int, subprocess_environment: dict[str, str], run_program: Run
) -> None:
    result = run_program(PROGRAM, subprocess_environment, str(sessions), str(threads), timeout=1500)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "done"


# What a thread does that is late, at a time of our choosing: a tensor is given back when its session, and all that
# belonged to the session, are gone.
LATE = """
import ctypes, gc, os, sys
import tensorflow as tf

M_PERTURB = -6  # glibc's allocator overwrites what is freed; the address sanitizer's tells of it
overwrites = ctypes.CDLL(None).mallopt(M_PERTURB, 165)
assert overwrites == 1 or "libasan" in os.environ.get("LD_PRELOAD", "")

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
    test_ops_library: Path, subprocess_environment: dict[str, str], run_program: Run
) -> None:
    result = run_program(LATE, subprocess_environment, str(test_ops_library))
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "done"
