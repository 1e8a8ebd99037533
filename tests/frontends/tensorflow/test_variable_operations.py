"""Ops that update variables, by name: on XPU eagerly, in a tf.function and compiled, against the CPU device."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from .cases import difference

op = tf.raw_ops
DIMS = (5, 3)
# The updated variables and the numbers that the op takes, in the order of its inputs; "grad" is an array.
OPTIMIZERS: dict[str, tuple[list[str], dict[str, float]]] = {
    "ApplyGradientDescent": (["var"], {"alpha": 0.1, "delta": 0}),
    "ApplyProximalGradientDescent": (["var"], {"alpha": 0.1, "l1": 0.05, "l2": 0.2, "delta": 0}),
    "ApplyMomentum": (["var", "accum"], {"lr": 0.1, "grad": 0, "momentum": 0.9}),
    "ApplyKerasMomentum": (["var", "accum"], {"lr": 0.1, "grad": 0, "momentum": 0.9}),
    "ApplyAdagrad": (["var", "accum"], {"lr": 0.1, "grad": 0}),
    "ApplyAdagradV2": (["var", "accum"], {"lr": 0.1, "epsilon": 1e-3, "grad": 0}),
    "ApplyProximalAdagrad": (["var", "accum"], {"lr": 0.1, "l1": 0.05, "l2": 0.2, "grad": 0}),
    "ApplyAdadelta": (
        ["var", "accum", "accum_update"],
        {"lr": 0.1, "rho": 0.9, "epsilon": 1e-3, "grad": 0},
    ),
    "ApplyAdaMax": (
        ["var", "m", "v"],
        {"beta1_power": 0.8, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3, "grad": 0},
    ),
    "ApplyAdam": (
        ["var", "m", "v"],
        {
            "beta1_power": 0.8,
            "beta2_power": 0.9,
            "lr": 0.1,
            "beta1": 0.9,
            "beta2": 0.99,
            "epsilon": 1e-3,
            "grad": 0,
        },
    ),
    "ApplyRMSProp": (
        ["var", "ms", "mom"],
        {"lr": 0.1, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-3, "grad": 0},
    ),
    "ApplyFtrl": (
        ["var", "accum", "linear"],
        {"grad": 0, "lr": 0.1, "l1": 0.05, "l2": 0.2, "lr_power": -0.5},
    ),
    "ApplyFtrlV2": (
        ["var", "accum", "linear"],
        {"grad": 0, "lr": 0.1, "l1": 0.05, "l2": 0.2, "l2_shrinkage": 0.1, "lr_power": -0.5},
    ),
    "ApplyAddSign": (
        ["var", "m"],
        {"lr": 0.1, "alpha": 1.0, "sign_decay": 0.9, "beta": 0.9, "grad": 0},
    ),
    "ApplyPowerSign": (
        ["var", "m"],
        {"lr": 0.1, "logbase": 1.0, "sign_decay": 0.9, "beta": 0.9, "grad": 0},
    ),
}
SCATTERS = [f"Scatter{what}" for what in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update")]
SCATTERS_ND = [f"ScatterNd{what}" for what in ("Add", "Sub", "Update")]
ASSIGNMENTS = ["AssignAddVariableOp", "AssignSubVariableOp", "StridedSliceAssign"]
NAMES = [*OPTIMIZERS, *SCATTERS, *SCATTERS_ND, *ASSIGNMENTS]


def _arguments(name: str, random: np.random.Generator) -> tuple[int, Callable[[list[Any]], Any]]:
    """How many variables the op has, and the op on their handles."""

    def array(*dims: int) -> tf.Tensor:
        return tf.constant(random.uniform(0.5, 1.5, dims).astype(np.float32))

    if name in OPTIMIZERS:
        names, numbers = OPTIMIZERS[name]
        arrays = ("grad", "delta")
        given = {k: array(*DIMS) if k in arrays else tf.constant(v) for k, v in numbers.items()}
        return len(names), lambda handles: getattr(op, f"Resource{name}")(
            **dict(zip(names, handles, strict=True)), **given
        )
    if name in SCATTERS:
        updates = array(3, 3)
        return 1, lambda handles: getattr(op, f"Resource{name}")(
            resource=handles[0], indices=tf.constant([3, 0, 4]), updates=updates
        )
    if name in SCATTERS_ND:
        updates = array(2)
        return 1, lambda handles: getattr(op, f"Resource{name}")(
            ref=handles[0], indices=tf.constant([[3, 0], [1, 2]]), updates=updates
        )
    if name == "StridedSliceAssign":
        value = array(2, 3)
        return 1, lambda handles: op.ResourceStridedSliceAssign(
            ref=handles[0], begin=[1, 0], end=[3, 3], strides=[1, 1], value=value
        )
    value = array(*DIMS)
    return 1, lambda handles: getattr(op, name)(resource=handles[0], value=value)


def results(name: str, device: str, way: str) -> list[np.ndarray]:
    """The variables after two updates, and what was read between them and held on to."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    with tf.device(device):
        count, apply = _arguments(name, random)
        variables = [
            tf.Variable(random.uniform(0.5, 1.5, DIMS).astype(np.float32)) for _ in range(count)
        ]

        def update() -> None:
            apply([v.handle for v in variables])

        run = (
            update
            if way == "eager"
            else tf.function(update, autograph=False, jit_compile=way == "jit")
        )
        run()
        held = [v.read_value() for v in variables]
        run()
        return [tensor.numpy() for tensor in (*held, *variables)]


@cache
def expected(name: str) -> list[np.ndarray]:
    return results(name, "CPU:0", "eager")


@pytest.mark.parametrize("way", ["eager", "function", "jit"])
@pytest.mark.parametrize("name", NAMES)
def test_updates(name: str, way: str) -> None:
    for mine, theirs in zip(results(name, "XPU:0", way), expected(name), strict=True):
        assert not difference(mine, theirs, 64)
