"""Errors of the vector functions against NumPy in a wider type, over the whole domain, with and without FMA."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special
from tripont.core.compiler.codegen.vector_math import FUNCTIONS

from tests.core.compiler.codegen.native import elementwise

Array = np.ndarray
BASELINE = "x86-64-v2"


def _logistic(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


# name: (reference in the wider type, largest error of float in ulp, of double)
UNARY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "exp": (np.exp, 1.0, 1.0),
    "exp2": (np.exp2, 1.1, 1.1),
    "expm1": (np.expm1, 1.9, 1.9),
    "log": (np.log, 0.9, 1.0),
    "log1p": (np.log1p, 1.5, 1.5),
    "tanh": (np.tanh, 2.5, 2.6),
    "logistic": (_logistic, 2.5, 2.5),
    "erf": (special.erf, 1.4, 3.1),  # the reference for double is itself only double
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.6, 1.6),
    "cbrt": (np.cbrt, 0.6, 0.6),
    "sinh": (np.sinh, 2.5, 2.7),
    "cosh": (np.cosh, 2.5, 2.7),
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0]


def floats(count: int = 1 << 20) -> Array:
    """Evenly over the representations (every exponent), the ranges where functions bend, and special values."""
    generator = np.random.default_rng(7)
    step = 2**32 // count
    pattern = np.arange(count, dtype=np.uint64) * step + generator.integers(0, step, count).astype(
        np.uint64
    )
    ranges = [generator.uniform(-r, r, count // 4) for r in (1.5, 20, 110)]
    extremes = [
        1e-45,
        -1e-45,
        1.1754944e-38,
        3.4028235e38,
        -3.4028235e38,
        88.72283,
        88.72284,
        -103.97,
        -103.98,
    ]
    parts = [
        pattern.astype(np.uint32).view(np.float32),
        *ranges,
        1 + ranges[0] / 4,
        extremes,
        SPECIAL,
    ]
    return np.concatenate([np.asarray(p, np.float32) for p in parts])


def doubles(count: int = 1 << 18) -> Array:
    generator = np.random.default_rng(7)
    pattern = generator.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    ranges = [generator.uniform(-r, r, count // 4) for r in (1.5, 20, 750)]
    extremes = [
        5e-324,
        -5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        709.782712893384,
        -745.13,
        -745.14,
    ]
    return np.concatenate([pattern, *ranges, 1 + ranges[0] / 4, extremes, SPECIAL])


def errors(got: Array, exact: Array) -> Array:
    """The error in units in the last place of ``got``'s format; infinite where the kind of value is wrong."""
    digits, least = (23, -126) if got.dtype == np.float32 else (52, -1022)
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        _, exponent = np.frexp(exact)
        unit = np.ldexp(exact.dtype.type(1), np.maximum(exponent - 1, least) - digits)
        error = np.abs(got.astype(exact.dtype) - exact) / unit
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        error = np.where(np.isfinite(got) & np.isfinite(rounded), error, np.where(same, 0, np.inf))
        wrong_zero = (got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))
        return np.where(wrong_zero, np.inf, error)


def check(name: str, got: Array, exact: Array, bound: float, *arguments: Array) -> None:
    error = errors(got, exact)
    worst = int(np.argmax(error))
    where = ", ".join(repr(a[worst]) for a in arguments)
    message = f"{name}({where}) = {got[worst]!r}, not {exact[worst]!r}: {error[worst]:.3f} ulp"
    assert error[worst] <= bound, message


@pytest.mark.parametrize("cpu", ["host", BASELINE])
@pytest.mark.parametrize("name", list(UNARY))
def test_float_over_all_exponents(name: str, cpu: str) -> None:
    reference, bound, _ = UNARY[name]
    x = floats()
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
    check(name, elementwise(FUNCTIONS[name], "float", 1, cpu)(x), exact, bound, x)


@pytest.mark.parametrize("cpu", ["host", BASELINE])
@pytest.mark.parametrize("name", list(UNARY))
def test_double_over_all_exponents(name: str, cpu: str) -> None:
    reference, _, bound = UNARY[name]
    x = doubles()
    wide = x if name == "erf" else x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        exact = reference(wide)
    check(name, elementwise(FUNCTIONS[name], "double", 1, cpu)(x), exact, bound, x)


@pytest.mark.parametrize("lanes", [1, 3, 64])
def test_any_number_of_lanes(lanes: int) -> None:
    x = np.linspace(-9, 9, 192, dtype=np.float32)
    for name in ("exp", "tanh", "erf"):
        exact = UNARY[name][0](x.astype(np.float64))
        check(
            name, elementwise(FUNCTIONS[name], "float", 1, lanes=lanes)(x), exact, UNARY[name][1], x
        )
