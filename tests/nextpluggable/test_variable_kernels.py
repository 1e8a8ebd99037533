"""Ops that update variables on XPU by the CPU's kernels: they leave in a variable what they leave on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

op = tf.raw_ops
_WAYS: dict[str, Callable[[Any], Any]] = {"eager": lambda f: f, "function": tf.function}

#: Op -> its variables and its numbers.
_UPDATES: dict[str, tuple[tuple[str, ...], dict[str, float]]] = {
    "ResourceSparseApplyAdadelta": (
        ("var", "accum", "accum_update"), {"lr": 0.5, "rho": 0.9, "epsilon": 1e-3},
    ),
    "ResourceSparseApplyAdagrad": (("var", "accum"), {"lr": 0.5}),
    "ResourceSparseApplyAdagradV2": (("var", "accum"), {"lr": 0.5, "epsilon": 1e-3}),
    "ResourceSparseApplyCenteredRMSProp": (
        ("var", "mg", "ms", "mom"), {"lr": 0.5, "rho": 0.9, "momentum": 0.7, "epsilon": 2.0},
    ),
    "ResourceSparseApplyFtrl": (
        ("var", "accum", "linear"), {"lr": 0.5, "l1": 0.1, "l2": 0.2, "lr_power": -0.5},
    ),
    "ResourceSparseApplyFtrlV2": (
        ("var", "accum", "linear"),
        {"lr": 0.5, "l1": 0.1, "l2": 0.2, "l2_shrinkage": 0.1, "lr_power": -0.5},
    ),
    "ResourceSparseApplyKerasMomentum": (("var", "accum"), {"lr": 0.5, "momentum": 0.7}),
    "ResourceSparseApplyMomentum": (("var", "accum"), {"lr": 0.5, "momentum": 0.7}),
    "ResourceSparseApplyProximalAdagrad": (
        ("var", "accum"), {"lr": 0.5, "l1": 0.1, "l2": 0.2},
    ),
    "ResourceSparseApplyProximalGradientDescent": (
        ("var",), {"alpha": 0.5, "l1": 0.1, "l2": 0.2},
    ),
    "ResourceSparseApplyRMSProp": (
        ("var", "ms", "mom"), {"lr": 0.5, "rho": 0.9, "momentum": 0.7, "epsilon": 1e-3},
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def strict_placement() -> Iterator[None]:
    tf.config.set_soft_device_placement(False)
    yield
    tf.config.set_soft_device_placement(True)


def _contents(name: str, device: str, way: str, dtype: str, indices: Any, **wrong: Any) -> Any:
    """What two updates by the op ``name`` leave in its variables. ``wrong`` are other variables."""
    names, numbers = _UPDATES[name]
    random = np.random.default_rng(0)
    rows = random.normal(size=(len(indices), 3))
    with tf.device(device):
        variables = {n: tf.Variable(1 + random.random((6, 3)), dtype=dtype) for n in names} | wrong
        arguments = {n: tf.constant(x, dtype) for n, x in numbers.items()}
        gradient = tf.constant(rows, dtype)

        def update() -> None:
            handles = {n: v.handle for n, v in variables.items()}
            getattr(op, name)(grad=gradient, indices=indices, **handles, **arguments)

        for _ in range(2):
            _WAYS[way](update)()
        return [variable.numpy() for variable in variables.values()]


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("name", _UPDATES)
@pytest.mark.parametrize(
    ("dtype", "indices"),
    [
        ("float32", np.array([4, 0, 4, 1], np.int64)),
        ("float64", np.array([5, 5], np.int32)),
        ("float32", np.array([], np.int32)),
    ],
)
def test_rows_of_a_variable_are_updated(way: str, name: str, dtype: str, indices: Any) -> None:
    ours, theirs = (_contents(name, device, way, dtype, indices) for device in ("XPU:0", "CPU:0"))
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(our, their)


def test_a_row_out_of_range_is_refused_as_on_the_cpu() -> None:
    for device in ("XPU:0", "CPU:0"):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Index 6 at offset 1"):
            _contents("ResourceSparseApplyMomentum", device, "eager", "float32", np.array([1, 6]))


def test_a_variable_of_another_type_is_refused() -> None:
    """On the CPU it ends the process."""
    with tf.device("XPU:0"):
        wrong = tf.Variable(np.ones((6, 3)))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"of type double.*of type float"):
        _contents(
            "ResourceSparseApplyMomentum", "XPU:0", "eager", "float32", np.array([1]), accum=wrong
        )


def test_who_holds_the_old_value_keeps_it() -> None:
    with tf.device("XPU:0"):
        weights, moments = tf.Variable(tf.ones((1000, 8))), tf.Variable(tf.zeros((1000, 8)))
        old, seen = weights.read_value(), weights.numpy()
        op.ResourceSparseApplyMomentum(
            var=weights.handle, accum=moments.handle, lr=1.0, grad=tf.ones((1, 8)),
            indices=[7], momentum=0.0,
        )  # fmt: skip
        assert (old.numpy() == 1).all()
        assert (seen == 1).all()
        expected = np.ones((1000, 8), np.float32)
        expected[7] = 0
        np.testing.assert_array_equal(weights, expected)


def test_optimizers_train_the_rows_of_an_embedding() -> None:
    def trained(device: str) -> np.ndarray:
        with tf.device(device):
            table = tf.Variable(np.arange(12, dtype=np.float32).reshape(6, 2))
            optimizer = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)

            @tf.function
            def step(rows: tf.Tensor) -> None:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.gather(table, rows) ** 2)
                optimizer.apply_gradients([(tape.gradient(loss, table), table)])

            for _ in range(3):
                step(tf.constant([1, 4, 1]))
            result: np.ndarray = table.numpy()
            return result

    np.testing.assert_allclose(trained("XPU:0"), trained("CPU:0"), rtol=1e-6)


@pytest.mark.parametrize("way", _WAYS)
def test_a_generator_draws_binomial_numbers(way: str) -> None:
    def drawn(device: str) -> list[np.ndarray]:
        with tf.device(device):
            generator = tf.random.Generator.from_seed(7)
            draw = _WAYS[way](
                lambda: generator.binomial([5, 3], counts=[10.0, 20.0, 5.0], probs=[0.2, 0.7, 0.5])
            )
            return [draw().numpy(), draw().numpy(), generator.uniform([4]).numpy()]

    for our, their in zip(drawn("XPU:0"), drawn("CPU:0"), strict=True):
        np.testing.assert_array_equal(our, their)


def test_a_variable_counts_up() -> None:
    with tf.device("XPU:0"):
        count = tf.Variable(3, dtype=tf.int64)
        numbers = [op.ResourceCountUpTo(resource=count.handle, limit=5, T=tf.int64) for _ in "ab"]
        assert [int(number) for number in numbers] == [3, 4]
        assert int(count) == 5
        with pytest.raises(tf.errors.OutOfRangeError):
            op.ResourceCountUpTo(resource=count.handle, limit=5, T=tf.int64)


def test_adam_with_the_largest_second_moments() -> None:
    def updated(device: str) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        with tf.device(device):
            variables = [tf.Variable(1 + random.random(9), dtype=tf.float32) for _ in "abcd"]
            names = ("var", "m", "v", "vhat")
            op.ResourceApplyAdamWithAmsgrad(
                **{n: v.handle for n, v in zip(names, variables, strict=True)},
                beta1_power=0.9, beta2_power=0.99, lr=0.1, beta1=0.9, beta2=0.99, epsilon=1e-6,
                grad=tf.constant(random.normal(size=9), tf.float32),
            )  # fmt: skip
            return [variable.numpy() for variable in variables]

    for our, their in zip(updated("XPU:0"), updated("CPU:0"), strict=True):
        np.testing.assert_array_equal(our, their)
