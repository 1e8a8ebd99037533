"""Run a function on xpu and on JAX's CPU backend, and compare: what the tables of configurations are checked with."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import ml_dtypes
import numpy as np

from tests.integration.tolerances import Exact, Tolerance, is_inexact

DTYPES: dict[str, np.dtype] = {
    "pred": np.dtype(bool),
    "s4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    **{f"s{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}

# Numbers on which implementations of elementwise functions differ from each other, if they do.
SPECIAL = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"))


def make_array(specification: str, seed: int = 0) -> np.ndarray:
    """An array from ``f32[3,4]`` (standard normal), ``f32[3]:0.5..2`` (uniform) or ``f32[3]:-5..5!`` (and
    SPECIAL values).

    Integers without a range come from [-100, 100), or [0, 100) if unsigned; ranges exclude their end. The same
    specification and seed give the same array.
    """
    match = re.fullmatch(r"(\w+)\[([\d,]*)\](?::(.+?)\.\.(.+?))?(!?)", specification)
    assert match is not None, specification
    dtype = DTYPES[match[1]]
    dims = tuple(int(d) for d in match[2].split(",") if d)
    rng = np.random.default_rng(zlib.crc32(specification.encode()) + seed)
    if dtype == np.bool_:
        return np.asarray(rng.random(dims) < 0.5)
    if not is_inexact(dtype):
        info = ml_dtypes.iinfo(dtype)
        low = int(match[3]) if match[3] else max(-100, int(info.min))
        high = int(match[4]) if match[4] else min(100, int(info.max))
        return np.asarray(rng.integers(low, high, dims)).astype(dtype)
    if match[3]:
        values = rng.uniform(float(match[3]), float(match[4]), dims)
    else:
        values = rng.standard_normal(dims)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(dims)
    if match[5]:
        flat = values.reshape(-1)
        flat[: len(SPECIAL)] = SPECIAL[: flat.size]
    return np.asarray(values).astype(dtype)


@dataclass(frozen=True)
class Config:
    """One line of a table: a function, its arguments' specifications, and how far results may differ."""

    name: str
    function: Callable[..., Any]
    arguments: str | Sequence[str] = ()
    tolerance: Tolerance = field(default_factory=Exact)
    x64: bool = False

    def __str__(self) -> str:
        return self.name

    def make_arguments(self) -> tuple[np.ndarray, ...]:
        specifications = (
            self.arguments.split() if isinstance(self.arguments, str) else self.arguments
        )
        return tuple(make_array(s, i) for i, s in enumerate(specifications))


def run(device: Any, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The results of ``jit(function)`` on ``device``, as NumPy arrays.

    Its arguments say where it runs, used or not: with another default device JAX would trace it once more.
    """
    with contextlib.nullcontext() if arguments else jax.default_device(device):
        placed = jax.device_put(list(arguments), device)
        results = jax.jit(function, keep_unused=True)(*placed)
        for leaf in jax.tree.leaves(results):
            assert leaf.devices() == {device}, f"the result is on {leaf.devices()}, not on {device}"
        return jax.tree.map(np.asarray, results)


def describe_difference(actual: np.ndarray, expected: np.ndarray, allowed: np.ndarray) -> str:
    """Empty if ``actual`` is within ``allowed`` of ``expected``; else the largest difference and its place."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return (
            f"{actual.dtype}{list(actual.shape)} instead of {expected.dtype}{list(expected.shape)}"
        )
    if not is_inexact(expected.dtype):
        wrong = actual != expected
        difference = np.where(wrong, 1.0, 0.0)
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        a, e = actual.astype(wide), expected.astype(wide)
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.where(same, 0.0, np.abs(a - e))
        difference = np.where(np.isnan(difference), np.inf, difference)
        wrong = difference > np.broadcast_to(allowed, difference.shape)
    if not wrong.any():
        return ""
    worst = np.unravel_index(np.argmax(np.where(wrong, difference, -1)), wrong.shape)
    return (
        f"{int(wrong.sum())} of {wrong.size} differ; at {[int(i) for i in worst]} {actual[worst]!r} instead of "
        f"{expected[worst]!r} (difference {difference[worst]:.3g}, allowed "
        f"{np.broadcast_to(allowed, wrong.shape)[worst]:.3g})"
    )


def assert_close(
    actual: Any, expected: Any, tolerance: Tolerance, arguments: tuple[Any, ...] = ()
) -> None:
    """Compare two trees of arrays leaf by leaf."""
    actual_leaves, actual_tree = jax.tree.flatten(actual)
    expected_leaves, expected_tree = jax.tree.flatten(expected)
    assert actual_tree == expected_tree
    for index, (a, e) in enumerate(zip(actual_leaves, expected_leaves, strict=True)):
        a, e = np.asarray(a), np.asarray(e)
        difference = describe_difference(a, e, np.asarray(tolerance.allowed(e, arguments)))
        assert not difference, f"result {index}: {difference}"


def check(config: Config, xpu: Any, cpu: Any) -> None:
    """Fail unless ``config`` gives the same on both devices."""
    arguments = config.make_arguments()
    with jax.enable_x64(config.x64):
        expected = run(cpu, config.function, arguments)
        actual = run(xpu, config.function, arguments)
        with jax.default_device(cpu):  # a tolerance may use JAX
            assert_close(actual, expected, config.tolerance, arguments)
