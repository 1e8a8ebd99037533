"""Functions of which TensorFlow compiles parts by itself (``--tf_xla_auto_jit``), with assertions among them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import Run, runner

FUNCTIONS = """
import tensorflow as tf

x = tf.linspace(0.0, 3.0, 64)

def of(checked):
    @tf.function
    def function(x):
        y = tf.sin(x) * 2 + 1
        with tf.control_dependencies([checked(y)]):
            z = tf.cos(y) * 3 - 1
        return z * z + tf.tanh(z)
    return function

CHECKS = {
    "op": lambda y: tf.raw_ops.Assert(condition=tf.reduce_all(y < 3.5), data=["too large:", y]),
    "guarded": lambda y: tf.debugging.Assert(tf.reduce_all(y < 3.5), ["too large:", y]),
    "numerics": lambda y: tf.debugging.check_numerics(y, "not a number:"),
}
unchecked = of(tf.identity)
for name, check in CHECKS.items():
    function = of(check)
    with tf.device("XPU:0"):
        same = tf.reduce_all(function(x) == unchecked(x))
        print(name, "same" if same else "others")
        try:
            function(x / 0)
            print(name, "no error")
        except tf.errors.InvalidArgumentError as error:
            print(name, *[words for words in ("too large:", "not a number:") if words in str(error)])
"""


FLAGS = {
    "TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_enable_lazy_compilation=false"
    " --tf_xla_min_cluster_size=2"
}


@pytest.fixture(scope="module")
def run_clustered() -> Iterator[Run]:
    with runner(**FLAGS) as run_program:
        yield run_program


def test_assertions_stay_outside_of_clusters(
    run_clustered: Run, subprocess_environment: dict[str, str]
) -> None:
    """XLA has no text, and would leave them out."""
    done = run_clustered(FUNCTIONS, subprocess_environment | FLAGS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[:-1] == [
        "op same",
        "op too large:",
        "guarded same",
        "guarded too large:",
        "numerics same",
        "numerics not a number:",
    ]
