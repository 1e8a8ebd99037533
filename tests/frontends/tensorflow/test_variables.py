"""Variables: in-place updates by donation, optimizers, and what becomes of a deleted one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

XPU = "XPU:0"


@pytest.mark.parametrize("jit", [False, True], ids=["function", "jit"])
def test_updates_in_a_function(jit: bool) -> None:
    def results(device: str) -> list[np.ndarray]:
        with tf.device(device):
            v = tf.Variable(tf.reshape(tf.range(12.0), [3, 4]))
            counter = tf.Variable(0, dtype=tf.int64)

            @tf.function(jit_compile=jit)
            def update(x: tf.Tensor) -> tf.Tensor:
                v.assign_add(x)
                v.assign(v * 2)
                counter.assign_add(1)
                return tf.reduce_sum(v)

            totals = [update(tf.ones([3, 4])).numpy() for _ in range(3)]
            return [*totals, v.numpy(), counter.numpy()]

    for actual, expected in zip(results(XPU), results("CPU:0"), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_eager_updates() -> None:
    with tf.device(XPU):
        v = tf.Variable([1.0, 2.0, 3.0])
        v.assign_add([1, 1, 1])
        v.assign_sub([0, 1, 0])
        v[1].assign(7.0)
        v.scatter_nd_add([[0]], [10.0])
        assert v.device.endswith("XPU:0")
    np.testing.assert_array_equal(v.numpy(), [12, 7, 4])


def test_variables_in_a_conditional_update() -> None:
    with tf.device(XPU):
        v = tf.Variable(1.0)

        @tf.function
        def step(x: tf.Tensor) -> tf.Tensor:
            if x > 0:
                v.assign_add(x)
            else:
                v.assign(0.0)
            return v.read_value()

        assert [step(tf.constant(x)).numpy() for x in (2.0, 3.0, -1.0)] == [3, 6, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "int64", "bool"])
def test_dtypes(dtype: str) -> None:
    with tf.device(XPU):
        v = tf.Variable(tf.cast([0, 1, 1], dtype))
        v.assign(tf.reverse(v, [0]))
    assert v.dtype == dtype
    np.testing.assert_array_equal(v.numpy().astype(np.float32), [1, 1, 0])


def test_a_read_value_does_not_change_with_the_variable() -> None:
    with tf.device(XPU):
        v = tf.Variable(tf.zeros([1000]))
        before = v.read_value() + 0
        held = v.read_value()

        @tf.function(jit_compile=True)
        def update() -> None:
            v.assign_add(tf.ones([1000]))

        update()
        update()
        np.testing.assert_array_equal(held.numpy(), before.numpy())
        np.testing.assert_array_equal(v.numpy(), 2 * np.ones(1000))


@pytest.mark.parametrize("counted", [False, True], ids=["by_name", "counted"])
def test_an_operation_on_a_deleted_variable_is_as_on_the_cpu(counted: bool) -> None:
    """A handle by name finds nothing after the variable is gone; a counted one keeps it alive."""

    def outcome(device: str) -> object:
        with tf.device(device):
            name = (
                tf.raw_ops.VarHandleOp.__name__ + device
                if not counted
                else "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
            )
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name=name)
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant([1.0, 2.0]))
            tf.raw_ops.DestroyResourceOp(resource=handle)
            try:
                return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32).numpy().tolist()
            except tf.errors.OpError as error:
                return type(error)
            finally:
                assert (tf.constant([1.0]) + 1).numpy() == [2]

    assert outcome(XPU) == outcome("CPU:0")


_OPTIMIZERS: dict[str, Callable[[], tf.keras.optimizers.Optimizer]] = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.05),
    "momentum": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: tf.keras.optimizers.Adam(0.05),
    "adamw": lambda: tf.keras.optimizers.AdamW(0.05),
    "rmsprop": lambda: tf.keras.optimizers.RMSprop(0.05, centered=True),
    "adagrad": lambda: tf.keras.optimizers.Adagrad(0.05),
    "lamb": lambda: tf.keras.optimizers.Lamb(0.05),
    "ftrl": lambda: tf.keras.optimizers.Ftrl(0.05),
    "lion": lambda: tf.keras.optimizers.Lion(0.01),
    "nadam_clipped": lambda: tf.keras.optimizers.Nadam(0.05, global_clipnorm=1.0),
    "schedule": lambda: tf.keras.optimizers.SGD(
        tf.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    ),
}


@pytest.mark.parametrize("jit", [False, True], ids=["function", "jit"])
@pytest.mark.parametrize("name", _OPTIMIZERS)
def test_optimizers(name: str, jit: bool) -> None:
    """Five steps of a linear regression: the weights agree with the CPU's to 200 roundings."""
    numbers = np.random.default_rng(3)
    x, w = numbers.normal(size=(16, 5)).astype("f"), numbers.normal(size=(5, 2)).astype("f")

    def train(device: str) -> np.ndarray:
        with tf.device(device):
            v = tf.Variable(tf.constant(w))
            inputs, target = tf.constant(x), tf.constant(x @ w + 1)
            optimizer = _OPTIMIZERS[name]()
            optimizer.build([v])

            @tf.function(jit_compile=jit)
            def step() -> None:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(inputs @ v - target))
                optimizer.apply_gradients([(tape.gradient(loss, v), v)])

            for _ in range(5):
                step()
            return np.asarray(v.numpy())

    np.testing.assert_allclose(
        train(XPU), train("CPU:0"), rtol=0, atol=200 * 2.0**-23 * np.abs(w).max()
    )
