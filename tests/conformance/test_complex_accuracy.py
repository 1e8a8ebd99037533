"""Complex functions in every quadrant: how far from the true values, and the same in all of them."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.conformance import device
from tests.conformance.device import run
from tests.conformance.test_complex_values import FORMATS, grid, program

Array = np.ndarray[Any, Any]


def numbers(dtype: Any, count: int = 2000) -> Array:
    """Of every size and angle; beside the axes; angles of many turns, and beside multiples of pi/2."""
    random = np.random.default_rng(3)
    end = np.log10(float(np.finfo(dtype).max)) - 0.5

    def size(low: float, high: float) -> Array:
        return random.choice([-1.0, 1.0], count) * 10.0 ** random.uniform(low, high, count)

    poles = np.pi / 2 * random.integers(-20, 20, count) + size(-6, -1)
    parts = [
        random.uniform(-4, 4, count) + 1j * random.uniform(-4, 4, count),
        size(-6, 2) + 1j * size(-6, 2),
        size(-end, end) + 1j * size(-end, end),
        size(-6, 0.5) + 1j * poles,
        poles + 1j * size(-6, 0.5),
        size(-3, 1) + 1j * size(2, 12),
        size(0, np.log10(end * 4.6)) + 1j * size(-end - 6, -2),
    ]
    z = np.concatenate(parts).astype(dtype)
    return np.concatenate([z, z * dtype(1j)])


def cube_root(z: Array) -> Array:
    root = np.asarray(z ** (np.ones((), z.real.dtype) / 3))
    return root - (root - z / root / root) / 3


def logistic(z: Array) -> Array:
    e = np.exp(np.where(z.real < 0, z, -z))
    far = np.where(z.real < 0, e, 1) / (1 + e)
    return np.asarray(np.where(np.abs(1 + e) < 0.5, (1 + np.tanh(z / 2)) / 2, far))


def units(got: Array, exact: Array, size: Array) -> float:
    """The largest error in units of the last place of ``size``, where the true part is in the format's range."""
    form = np.finfo(got.dtype)
    inside = np.abs(exact) < form.max
    unit = np.spacing(np.minimum(np.abs(size[inside]), form.max / 2).astype(got.dtype))
    return float(np.max(np.abs(got[inside].astype(exact.dtype) - exact[inside]) / unit))


# Of the larger part, and of each part in its own units.
ACCURACY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "tan": (np.tan, 1, 1.9),
    "tanh": (np.tanh, 1, 1.9),
    "cbrt": (cube_root, 2.6, 3.6),
    "exponential": (np.exp, 2.1, 2.2),
    "logistic": (logistic, 4.6, np.inf),  # its real part changes sign
    "sine": (np.sin, 2.9, 3.2),
    "cosine": (np.cos, 2.9, 3.2),
}


@pytest.mark.parametrize(("name", "dtype", "wider"), FORMATS)
@pytest.mark.parametrize("op", ACCURACY)
def test_accuracy(op: str, name: str, dtype: Any, wider: Any) -> None:
    function, of_number, of_part = ACCURACY[op]
    z = numbers(dtype)
    (got,) = run(program(op, name, z.size, 1), [z])
    with np.errstate(all="ignore"):
        exact = function(z.astype(wider))
    size = np.maximum(np.abs(exact.real), np.abs(exact.imag))
    for part, true in ((got.real, exact.real), (got.imag, exact.imag)):
        assert units(part, true, size) <= of_number
        assert units(part, true, true) <= of_part


@pytest.mark.skipif(
    platform.machine() != "x86_64" or device.TARGET != "host",
    reason="a CPU without fused multiply-add is an old one of x86-64",
)
@pytest.mark.parametrize(("name", "dtype", "wider"), FORMATS)
def test_tanh_without_fused_multiply_add(
    name: str, dtype: Any, wider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a product of denormal numbers has no exact low word."""
    monkeypatch.setitem(device.OPTIONS, "cpu", "x86-64-v2")
    test_accuracy("tanh", name, dtype, wider)


ODD = ["tan", "tanh", "sine", "sign"]
SYMMETRIC = [
    *ODD, "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "sqrt",
    "rsqrt", "cbrt",
]  # fmt: skip


def assert_same(z: Array, x: Array, y: Array) -> None:
    """Bit by bit, but for the signs of NaNs and of what is beside NaN or of an angle without a value."""
    beside = np.isnan(x.real) | np.isnan(x.imag) | ~np.isfinite(z.imag)
    differ = np.zeros(z.shape, bool)
    for v, w in ((x.real, y.real), (x.imag, y.imag)):
        equal = (v == w) | (np.isnan(v) & np.isnan(w)) | (beside & (np.abs(v) == np.abs(w)))
        differ |= ~equal | ((np.signbit(v) != np.signbit(w)) & ~beside)
    lines = [f"{z[i]}: {x[i]}, not {y[i]}" for i in np.flatnonzero(differ)[:10]]
    assert not lines, "\n".join([f"{differ.sum()} of {z.size}:", *lines])


@pytest.mark.parametrize(("name", "dtype", "wider"), FORMATS)
@pytest.mark.parametrize("op", SYMMETRIC)
def test_quadrants(op: str, name: str, dtype: Any, wider: Any) -> None:
    """f(conj z) = conj f(z), and f(-z) = -f(z) of odd functions: of zeros, infinities and denormal numbers too."""
    z = np.concatenate([grid(dtype), numbers(dtype, 100)])
    (got,), (mirrored,) = (run(program(op, name, z.size, 1), [v]) for v in (z, np.conj(z)))
    assert_same(z, np.conj(mirrored), got)
    if op in ODD:
        (negated,) = run(program(op, name, z.size, 1), [-z])
        assert_same(z, -negated, got)
