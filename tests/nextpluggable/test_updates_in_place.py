"""Variables are updated in their own memory: the address of a variable's array stays, whatever updates it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

DEVICE = "/device:XPU:0"
SIZE = 100_000
WAYS = ["eager", "function", "jit"]


def wrapped(step: Callable[[], None], way: str) -> Callable[[], Any]:
    return step if way == "eager" else tf.function(step, jit_compile=way == "jit")


def address(test_ops: Any, variable: Any) -> int:
    return int(test_ops.tripont_address(variable.read_value()))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("update", ["assign_add", "assign_sub", "computed"])
def test_assignments(test_ops: Any, update: str, way: str) -> None:
    """``computed`` assigns a value of the variable's own, which only a program that holds both can do in place."""
    with tf.device(DEVICE):
        variable = tf.Variable(tf.fill([SIZE], 1.0))
        amount = tf.fill([SIZE], 0.5)

        def step() -> None:
            if update == "computed":
                variable.assign(variable * 2 + amount)
            else:
                getattr(variable, update)(amount)

        run = wrapped(step, way)
        run()
        before = address(test_ops, variable)
        seen = set()
        for _ in range(4):
            run()
            seen.add(address(test_ops, variable))
        if update != "computed" or way == "jit":
            assert seen == {before}
    expected = np.float32(1)
    for _ in range(5):
        expected = {
            "assign_add": expected + 0.5,
            "assign_sub": expected - 0.5,
            "computed": 2 * expected + 0.5,
        }[update]
    np.testing.assert_array_equal(variable, np.full(SIZE, expected))


@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_is_held_is_not_overwritten(test_ops: Any, way: str) -> None:
    with tf.device(DEVICE):
        variable = tf.Variable(tf.zeros([SIZE]))

        def step() -> None:
            variable.assign_add(tf.ones([SIZE]))

        run = wrapped(step, way)
        run()
        held = variable.read_value()
        before = int(test_ops.tripont_address(held))
        run()
        assert address(test_ops, variable) != before
        np.testing.assert_array_equal(held, np.ones(SIZE))
        np.testing.assert_array_equal(variable, np.full(SIZE, 2.0))


@pytest.mark.parametrize(
    ("name", "way"),
    [*((n, w) for n in ("SGD", "Adam") for w in WAYS), ("Momentum", "jit"), ("RMSprop", "jit")],
)
def test_optimizers(test_ops: Any, name: str, way: str) -> None:
    """The weights and the optimizer's moments.

    Where Keras computes a moment and then assigns it, outside of one program the new tensor becomes the variable's.
    """
    with tf.device(DEVICE):
        weights = keras.Variable(np.ones(SIZE, np.float32))
        optimizer = (
            keras.optimizers.SGD(0.1, momentum=0.9)
            if name == "Momentum"
            else getattr(keras.optimizers, name)(0.1)
        )
        optimizer.build([weights])
        gradient = tf.fill([SIZE], 0.25)
        run = wrapped(lambda: optimizer.apply([gradient]), way)
        run()
        variables = [v.value for v in (weights, *optimizer.variables) if v.shape == (SIZE,)]
        assert len(variables) == {"SGD": 1, "Momentum": 2, "Adam": 3, "RMSprop": 2}[name]
        before = [address(test_ops, v) for v in variables]
        for _ in range(3):
            run()
            assert [address(test_ops, v) for v in variables] == before
    assert float(tf.reduce_max(weights)) < 0.95
