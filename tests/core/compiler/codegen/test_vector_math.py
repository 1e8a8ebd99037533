"""Errors of the vector functions against NumPy in a wider type, over the whole domain, with and without FMA."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import special  # type: ignore[import-untyped]
from tripont.core.compiler.codegen.vector_math import FUNCTIONS
from tripont.core.compiler.codegen.vector_math.power import HALVES, half_power
from tripont.core.compiler.reference import gamma as evaluate_gamma

from tests.core.compiler.codegen.native import elementwise, flushing_denormals, without_double

Array = np.ndarray[Any, Any]
BASELINE = "x86-64-v2"


def _logistic(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, e) / (1 + e))


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.vectorize(function, otypes=[np.float64])(x)


def _erf_inv(x: Array) -> Array:
    """SciPy's, which takes 300 times as long for each number outside of the function's domain."""
    result = np.where(x == 0, x, np.nan)
    inside = (np.abs(x) <= 1) & (x != 0)
    result[inside] = special.erfinv(x[inside])
    return result


# name: (reference in the wider type, largest error of float in ulp, of double)
UNARY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "exp": (np.exp, 1.02, 1.0),
    "exp2": (np.exp2, 1.1, 1.1),
    "expm1": (np.expm1, 1.9, 1.9),
    "log": (np.log, 0.9, 0.51),
    "log1p": (np.log1p, 1.5, 0.51),
    "tanh": (np.tanh, 2.6, 2.6),
    "logistic": (_logistic, 2.5, 2.5),
    # The references of these three for double are themselves only double.
    "erf": (_each(math.erf), 1.4, 1.5),
    "erfc": (_each(math.erfc), 4.4, 4.0),
    "erf_inv": (_erf_inv, 3.2, 4.0),
    "asin": (np.arcsin, 0.52, 0.52),
    "acos": (np.arccos, 0.52, 0.52),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.51, 0.51),
    "cbrt": (np.cbrt, 0.6, 0.6),
    "sinh": (np.sinh, 2.6, 2.7),
    "cosh": (np.cosh, 2.6, 2.7),
    "sin": (np.sin, 0.52, 0.52),
    "cos": (np.cos, 0.52, 0.52),
    "tan": (np.tan, 0.53, 0.53),
    "atan": (np.arctan, 0.52, 0.52),
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


def check(name: str, got: Array, exact: Array, bounds: float | Array, *arguments: Array) -> None:
    """``bounds``: of the errors in ulp, one for all or one for each."""
    error = errors(got, exact)
    worst = int(np.argmax(error / bounds))
    bound = np.broadcast_to(bounds, error.shape)[worst]
    where = ", ".join(repr(a[worst]) for a in arguments)
    message = f"{name}({where}) = {got[worst]!r}, not {exact[worst]!r}: {error[worst]:.3f} ulp"
    assert error[worst] <= bound, message


@functools.lru_cache(maxsize=1)  # for both CPUs
def exact_of_floats(name: str) -> tuple[Array, Array]:
    x = floats()
    with np.errstate(all="ignore"):
        return x, UNARY[name][0](x.astype(np.float64))


@pytest.mark.parametrize("cpu", ["host", BASELINE])
@pytest.mark.parametrize("name", list(UNARY))
def test_float_over_all_exponents(name: str, cpu: str) -> None:
    _, bound, _ = UNARY[name]
    x, exact = exact_of_floats(name)
    check(name, elementwise(FUNCTIONS[name], "float", 1, cpu)(x), exact, bound, x)


@functools.lru_cache(maxsize=1)  # for both CPUs
def exact_of_doubles(name: str) -> tuple[Array, Array]:
    x = doubles()
    wide = x if name in ("erf", "erfc", "erf_inv") else x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        return x, UNARY[name][0](wide)


@pytest.mark.parametrize("cpu", ["host", BASELINE])
@pytest.mark.parametrize("name", list(UNARY))
def test_double_over_all_exponents(name: str, cpu: str) -> None:
    _, _, bound = UNARY[name]
    x, exact = exact_of_doubles(name)
    check(name, elementwise(FUNCTIONS[name], "double", 1, cpu)(x), exact, bound, x)


# What C99 Annex F and IEEE 754 say: name -> (argument, result), signs of zeros included.
INF, NAN = float("inf"), float("nan")
SPECIAL_VALUES: dict[str, list[tuple[float, float]]] = {
    "exp": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0)],
    "exp2": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (3.0, 8.0), (-1.0, 0.5)],
    "expm1": [(INF, INF), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0)],
    "log": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN)],
    "log1p": [(INF, INF), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN)],
    "sin": [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "cos": [(INF, NAN), (-INF, NAN), (0.0, 1.0), (-0.0, 1.0)],
    "tan": [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asin": [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (2.0, NAN), (-1.5, NAN)],
    "acos": [(INF, NAN), (-INF, NAN), (1.0, 0.0), (2.0, NAN), (-1.5, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0)],
    "sinh": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0)],
    "cosh": [(INF, INF), (-INF, INF), (0.0, 1.0), (-0.0, 1.0)],
    "tanh": [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0)],
    "logistic": [(INF, 1.0), (-INF, 0.0), (0.0, 0.5), (-0.0, 0.5)],
    "rsqrt": [(INF, 0.0), (-INF, NAN), (0.0, INF), (-0.0, -INF), (-1.0, NAN), (4.0, 0.5)],
    "cbrt": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (8.0, 2.0)],
    "erf": [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0)],
    "erf_inv": [(1.0, INF), (-1.0, -INF), (INF, NAN), (2.0, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "erfc": [(INF, 0.0), (-INF, 2.0), (0.0, 1.0), (-0.0, 1.0)],
    "lgamma": [
        (INF, INF),
        (-INF, INF),
        (0.0, INF),
        (-0.0, INF),
        (1.0, 0.0),
        (2.0, 0.0),
        (-1.0, INF),
    ],
    "digamma": [(INF, INF), (-INF, NAN), (0.0, NAN), (-0.0, NAN), (-1.0, NAN), (-2.0, NAN)],
}


@pytest.mark.parametrize("cpu", ["host", BASELINE])
@pytest.mark.parametrize("scalar", ["float", "double"])
def test_special_values(scalar: str, cpu: str) -> None:
    """Each function of one argument at zeros, infinities and NaN; odd ones leave the smallest numbers as they are."""
    assert set(SPECIAL_VALUES) == {*UNARY, *GAMMA}
    dtype: Any = np.float32 if scalar == "float" else np.float64
    least = np.finfo(dtype).smallest_subnormal
    tiny = np.array([least, -least, 3 * least, -np.finfo(dtype).tiny], dtype)
    for name, values in SPECIAL_VALUES.items():
        x = np.array([*(a for a, _ in values), np.nan], dtype)
        function = elementwise(FUNCTIONS[name], scalar, 1, cpu)
        got, wanted = function(x), np.array([*(r for _, r in values), np.nan], dtype)
        same = (got == wanted) & (np.signbit(got) == np.signbit(wanted))
        same |= np.isnan(got) & np.isnan(wanted)
        assert same.all(), f"{name}({x[~same]}) = {got[~same]}, not {wanted[~same]}"
        if name in ("expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh"):
            np.testing.assert_array_equal(function(tiny), tiny, err_msg=name)


# name: (reference, correctly rounded; a zero in each stretch between poles; largest error of float in ulp, of double)
GAMMA: dict[str, tuple[Callable[[float], float], list[float], float, float]] = {
    "lgamma": (
        evaluate_gamma.lgamma,
        [1, 2, -2.4570247382208006, -2.7476826467274127, -3.1435808883499798, -3.9552942848585980]
        + [-4.0392953, -4.9915442, -5.0082181, -9.9999997, -11.9999999979],
        2.4,
        2.4,
    ),
    "digamma": (
        evaluate_gamma.digamma,
        [1.4616321449683623, -0.5040830082644554, -1.5734984731623905, -2.6107208684441447]
        + [-7.6877883250, -11.7104230, -20.7534710, -50.7977],
        3.1,
        3.1,
    ),
}


def gamma_arguments(dtype: Any, zeros: list[float]) -> Array:
    """Every stretch where another formula holds, either side of poles, and numbers nearer and nearer to the zeros."""
    generator = np.random.default_rng(11)
    limits = np.finfo(dtype)
    ends = [
        (0, 0.5),
        (0.5, 1.5),
        (1.5, 2.5),
        (2.5, 8),
        (8, 30),
        (-1, 0),
        (-8, -1),
        (-20, -8),
        (-90, -20),
    ]
    parts = [generator.uniform(*e, 60) for e in ends]
    sizes = np.exp(generator.uniform(np.log(limits.tiny), np.log(limits.max), 150))
    poles = -np.repeat(np.arange(25.0), 4) + generator.normal(size=100) * 2.0 ** -generator.uniform(
        3, 40, 100
    )
    parts += [sizes, -sizes[sizes < 1e15], poles]
    for zero in zeros:
        step = np.spacing(np.asarray(abs(zero), dtype)).astype(np.float64)
        offsets = np.concatenate(
            [np.arange(-3, 4), 2.0 ** np.arange(3, 20), -(2.0 ** np.arange(3, 20))]
        )
        parts.append(zero + step * offsets)
    with np.errstate(over="ignore"):
        x = np.concatenate(parts).astype(dtype)
    return x[np.isfinite(x)]


@pytest.mark.parametrize("cpu", ["host", BASELINE])
@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("name", GAMMA)
def test_gamma(name: str, scalar: str, cpu: str) -> None:
    """Beside zeros too, where all digits come from the second words. (At the very zeros of digamma 10 ulp.)"""
    reference, zeros, *bounds = GAMMA[name]
    x = gamma_arguments(np.float32 if scalar == "float" else np.float64, zeros)
    exact = _each(reference)(x)
    bound = bounds[scalar == "double"] + (
        0.5 if scalar == "double" else 0
    )  # the reference is rounded too
    got = elementwise(FUNCTIONS[name], scalar, 1, cpu)(x)
    with np.errstate(all="ignore"):
        at_zero = np.abs(exact) < 64 * np.spacing(np.abs(x)).astype(np.float64)
    check(name, got[~at_zero], exact[~at_zero], bound, x[~at_zero])
    check(
        name,
        got[at_zero],
        exact[at_zero],
        max(bound, 11.0 if name == "digamma" else bound),
        x[at_zero],
    )


# name: reference, correctly rounded; largest error of float (computed in double), of double, of float alone.
ZETAS: dict[str, tuple[Callable[..., float], float, float, float]] = {
    "zeta": (evaluate_gamma.zeta, 0.51, 4, 8),
    "polygamma": (evaluate_gamma.polygamma, 0.51, 16, 24),
}


@pytest.mark.parametrize("kind", ["float", "double", "float alone"])
@pytest.mark.parametrize("name", ZETAS)
def test_zeta_and_polygamma(name: str, kind: str) -> None:
    """Small, large and (for whole orders) negative arguments; poles, infinities and NaN."""
    reference, *bounds = ZETAS[name]
    dtype: Any = np.float64 if kind == "double" else np.float32
    generator = np.random.default_rng(13)
    order = 1 + np.exp(generator.uniform(np.log(1e-3), np.log(30), 200))
    order = np.floor(order) if name == "polygamma" else order
    order[100:140] = generator.integers(2, 9, 40)
    place = np.exp(generator.uniform(np.log(1e-2), np.log(1e3), 200))
    place[100:140] = -generator.uniform(0.01, 15, 40)
    limits = np.array([0, 1, 2, 3, 0.5, INF, -1, -2, -0.5, NAN], dtype)
    grid = np.stack(np.meshgrid(limits, limits)).reshape(2, -1)
    s, q = (np.concatenate([v.astype(dtype), w]) for v, w in ((order, grid[0]), (place, grid[1])))
    scalar = "double" if kind == "double" else "float"
    cpu = without_double() if kind == "float alone" else "host"
    got = elementwise(FUNCTIONS[name], scalar, 2, cpu)(s, q)
    exact = np.array([reference(float(v), float(w)) for v, w in zip(s, q, strict=True)])
    check(name, got, exact, bounds[["float", "double", "float alone"].index(kind)], s, q)


@pytest.mark.parametrize("lanes", [1, 3, 64])
def test_any_number_of_lanes(lanes: int) -> None:
    x = np.linspace(-9, 9, 192, dtype=np.float32)
    for name in ("exp", "tanh", "erf"):
        exact = UNARY[name][0](x.astype(np.float64))
        check(
            name, elementwise(FUNCTIONS[name], "float", 1, lanes=lanes)(x), exact, UNARY[name][1], x
        )


SCALARS = [("float", np.float32, np.float64), ("double", np.float64, np.longdouble)]
EDGES = [
    *SPECIAL,
    3.0,
    -3.0,
    1.5,
    -2.5,
    1e30,
    -1e30,
    1e-45,
    2.0**23 + 0.5,
    2.0**24,
    2.0**53,
    7.0,
    -7.0,
]


def power_arguments(dtype: Any) -> tuple[Array, Array]:
    """Bases of all sizes and near 1, with exponents that reach over- and underflow; all pairs of edges."""
    generator = np.random.default_rng(3)
    count, limit = 1 << 16, 90 if dtype == np.float32 else 750
    bits = generator.integers(0, 2**31 if dtype == np.float32 else 2**63, count)
    wide = bits.astype(np.uint32 if dtype == np.float32 else np.uint64).view(dtype)
    near = 1 + generator.uniform(-1, 1, count) * 10.0 ** generator.uniform(-8, 0, count)
    x = np.concatenate([wide, near.astype(dtype)])
    with np.errstate(all="ignore"):
        y = generator.uniform(-1, 1, x.size) * limit / np.log(x.astype(np.longdouble))
    edges = np.array(EDGES, dtype)
    x = np.concatenate([x, np.repeat(edges, edges.size)])
    return x, np.concatenate([y.astype(dtype), np.tile(edges, edges.size)])


@pytest.mark.parametrize("cpu", ["host", BASELINE])
@pytest.mark.parametrize(("scalar", "dtype", "wide"), SCALARS)
def test_pow(scalar: str, dtype: Any, wide: Any, cpu: str) -> None:
    x, y = power_arguments(dtype)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), y.astype(wide))
    got = elementwise(FUNCTIONS["pow"], scalar, 2, cpu)(x, y)
    check("pow", got, exact, 0.51 if scalar == "float" else 0.8, x, y)


@pytest.mark.parametrize(
    ("n", "cpu"), [*((n, "host") for n in HALVES), (-5, BASELINE), (3, BASELINE)]
)
@pytest.mark.parametrize(("scalar", "dtype", "wide"), SCALARS)
def test_half_power(scalar: str, dtype: Any, wide: Any, cpu: str, n: int) -> None:
    x = np.concatenate([power_arguments(dtype)[0], floats() if dtype == np.float32 else doubles()])
    x = np.concatenate([x, -x])
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), np.full(x.shape, n / 2, wide))  # no root, as of a scalar
    power = partial(half_power, n=n)
    got = elementwise(power, scalar, 1, cpu)(x)
    with np.errstate(all="ignore"):
        normal = np.abs(exact.astype(np.float64)) > np.finfo(dtype).tiny
    bounds = np.where(normal | (dtype == np.float32), 0.51, 0.8)
    check(f"{n}/2", got, exact, bounds, x)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), False)
    assert elementwise(power, scalar, 1, cpu)(dtype([1.0] * 8)).tolist() == [1.0] * 8


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", BASELINE])
def test_half_power_of_ordinary_numbers_beside_others(cpu: str) -> None:
    """A vector of ordinary numbers takes another way than one with a zero, an infinity or a NaN: to the same bits."""
    generator = np.random.default_rng(9)
    x = generator.uniform(1, 2, (1 << 12, 8)) * 2.0 ** generator.integers(-230, 230, (1 << 12, 1))
    others = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 5e-324, 1e308])
    for n in HALVES:
        power = elementwise(partial(half_power, n=n), "double", 1, cpu)
        alone = power(x.reshape(-1)).reshape(x.shape)
        assert (alone > 0).all()
        for start in range(4):
            mixed = x.copy()
            mixed[:, start::4] = others[[start, start + 4]]
            beside = power(mixed.reshape(-1)).reshape(x.shape)
            kept = [lane for lane in range(8) if lane % 4 != start]
            np.testing.assert_array_equal(beside[:, kept], alone[:, kept])


def test_half_power_without_double() -> None:
    x = np.concatenate([power_arguments(np.float32)[0], floats()])
    for n in HALVES:
        with np.errstate(all="ignore"):
            exact = np.power(x.astype(np.float64), np.full(x.shape, n / 2))
        got = elementwise(partial(half_power, n=n), "float", 1, without_double())(x)
        check(f"{n}/2", got, exact, 0.8, x)


@pytest.mark.parametrize("cpu", ["host", BASELINE])
@pytest.mark.parametrize(("scalar", "dtype", "wide"), SCALARS)
def test_atan2(scalar: str, dtype: Any, wide: Any, cpu: str) -> None:
    generator = np.random.default_rng(4)
    near = generator.standard_normal((2, 1 << 16))
    far = near * 10.0 ** generator.uniform(-30, 30, near.shape)
    edges = np.array(EDGES)
    y = np.concatenate([near[0], far[0], np.repeat(edges, edges.size)]).astype(dtype)
    x = np.concatenate([near[1], far[1], np.tile(edges, edges.size)]).astype(dtype)
    got = elementwise(FUNCTIONS["atan2"], scalar, 2, cpu)(y, x)
    check("atan2", got, np.arctan2(y.astype(wide), x.astype(wide)), 0.51, y, x)


def without_underflow(function: Callable[..., Array], *arguments: Array) -> Array:
    """The function's results; fails if an operation underflowed, which is a flag that it leaves behind."""
    library = ctypes.CDLL("libm.so.6")
    underflow = 0x10
    library.feclearexcept(underflow)
    got = function(*arguments)
    assert not library.fetestexcept(underflow)
    return got


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", BASELINE])
@pytest.mark.parametrize(("scalar", "dtype"), [("float", np.float32), ("double", np.float64)])
@pytest.mark.parametrize("name", ["exp", "exp2", "logistic"])
def test_masked_numbers_do_not_underflow(name: str, scalar: str, dtype: Any, cpu: str) -> None:
    """Powers that are nothing or denormal are not made by rounding, which would cost a CPU hundreds of cycles a vector:
    the flag that it would leave behind is not set. (logistic divides a denormal number by one near 1.)
    """
    function = elementwise(FUNCTIONS[name], scalar, 1, cpu)
    denormal = {"exp": -87.5, "exp2": -126.5, "logistic": 0.0}[name]
    if dtype is np.float64:
        denormal = {"exp": -709.0, "exp2": -1022.5, "logistic": 0.0}[name]
    x = np.array([-INF, -1e9, 0, -np.finfo(dtype).max, -1, -1e4, 2, denormal] * 8, dtype)
    got = without_underflow(function, x)
    np.testing.assert_array_equal(got[x < -5000], 0)
    assert (got[x > -5000] > 0).all()


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", BASELINE])
@pytest.mark.parametrize("scalar", ["float", "double"])
def test_tiny_arguments_do_not_underflow(scalar: str, cpu: str) -> None:
    """Squares of an argument near 0, and the second words of its products, would be less than any number."""
    dtype = np.float32 if scalar == "float" else np.float64
    size = 10.0 ** -np.arange(4, 37 if scalar == "float" else 270)
    x = np.concatenate([size, -size]).astype(dtype)
    for name in TINY:
        got = without_underflow(elementwise(FUNCTIONS[name], scalar, 1, cpu), x)
        check(name, got, UNARY[name][0](x.astype(np.longdouble if name != "erf" else dtype)), 4, x)


# (exp and exp2 compute every number alike.)
TINY = (
    "acos",
    "asin",
    "atan",
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "expm1",
    "log1p",
    "sin",
    "sinh",
    "tan",
    "tanh",
)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", BASELINE])
@pytest.mark.parametrize(
    ("name", "scalar", "x"),
    [
        ("logistic", "float", -87.5),
        ("logistic", "float", -100),
        ("logistic", "double", -709),
        ("logistic", "double", -740),
    ],
)
def test_denormal_results_are_no_operands(name: str, scalar: str, x: float, cpu: str) -> None:
    """The results are the same where the CPU takes denormal operands and results of its operations for 0."""
    argument = np.full(16, x, np.float32 if scalar == "float" else np.float64)
    function = elementwise(FUNCTIONS[name], scalar, 1, cpu)
    expected = function(argument)
    with flushing_denormals():
        got = function(argument)
    assert (expected != 0).all()
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", BASELINE])
@pytest.mark.parametrize(
    ("name", "scalar", "x", "exact"),
    [
        ("erfc", "float", [9.5, 10.0, 10.5, 1e9, INF], [3.7692e-41, 2.0885e-45, 0, 0, 0]),
        ("erfc", "double", [26.6, 27.0, 27.5, 1e9, INF], [1.08851e-309, 5.237e-319, 0, 0, 0]),
        (-3, "double", [1e206, 1e215, 1e217, 1e300, INF], [1e-309, 3.1623e-323, 0, 0, 0]),
        (5, "double", [1e-124, 1e-128, 1e-140, 1e-300, 0], [1e-310, 1e-320, 0, 0, 0]),
        ("pow", "double", [1e-124, 1e-128, 1e-140, 1e-300, 0], [1e-310, 1e-320, 0, 0, 0]),
    ],
)
def test_powers_of_two_do_not_underflow(
    name: str | int, scalar: str, x: list[float], exact: list[float], cpu: str
) -> None:
    """A number that is scaled to a denormal one or to nothing is not so by rounding, which would cost a CPU hundreds of
    cycles a vector: the flag that it would leave behind is not set.
    """
    dtype = np.float32 if scalar == "float" else np.float64
    function = FUNCTIONS[name] if isinstance(name, str) else partial(half_power, n=name)
    arguments = [np.array([*x, 1.0, 2.0, 3.0] * 4, dtype)]
    if name == "pow":
        arguments.append(np.full_like(arguments[0], 2.5))
    got = without_underflow(elementwise(function, scalar, len(arguments), cpu), *arguments)
    # To the digits of `exact`, or the smallest number.
    least = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(got.reshape(4, 8)[:, :5], [exact] * 4, rtol=1e-4, atol=least)
    assert (got.reshape(4, 8)[:, 5:] > 1e-5).all()


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", BASELINE])
@pytest.mark.parametrize(("scalar", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_remainder_is_exact(scalar: str, dtype: Any, cpu: str) -> None:
    """Bit for bit, with the sign of zeros: quotients of all sizes, and numbers next to multiples of the divisor, whose
    quotients are rounded up.
    """
    generator = np.random.default_rng(5)
    digits, count = (24, 1 << 15) if dtype == np.float32 else (53, 1 << 15)
    c = (generator.uniform(1, 2, count) * 2.0 ** generator.integers(-40, 40, count)).astype(dtype)
    factor = np.trunc(2.0 ** generator.uniform(0, digits + 4, count))
    near = (factor * c).astype(dtype)
    steps = [np.nextafter(near, dtype(0)), near, np.nextafter(near, dtype(np.inf))]
    span = 2.0 ** generator.integers(-30, 30, count)
    any_size = (generator.standard_normal(count) * span).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal * generator.integers(1, 1 << 20, (2, count))
    edges = np.array([*EDGES, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    x = np.concatenate([*steps, any_size, tiny[0], c, np.repeat(edges, edges.size)], dtype=dtype)
    y = np.concatenate([c, c, c, c, tiny[1], tiny[1], np.tile(edges, edges.size)], dtype=dtype)
    x *= np.where(generator.integers(0, 2, x.size), dtype(1), dtype(-1))
    with np.errstate(all="ignore"):
        exact = np.fmod(x, y)
    got = elementwise(FUNCTIONS["remainder"], scalar, 2, cpu)(x, y)
    same = (got == exact) & (np.signbit(got) == np.signbit(exact))
    wrong = np.flatnonzero(~(same | (np.isnan(got) & np.isnan(exact))))
    assert not wrong.size, (x[wrong[0]], y[wrong[0]], got[wrong[0]], exact[wrong[0]])


def test_range_reduction_of_multiples_of_pi() -> None:
    """The doubles nearest to multiples of pi/2: all digits of the result come from the reduction."""
    k = np.concatenate([np.arange(1, 4096), 2 ** np.arange(13, 52)]).astype(np.longdouble)
    x = (k * np.longdouble("1.570796326794896619231321691639751442")).astype(np.float64)
    # 6381956970095103 * 2^797 is the double nearest to a multiple of pi/2 of all.
    x = np.concatenate([x, [6381956970095103.0 * 2.0**797]])
    got = elementwise(FUNCTIONS["cos"], "double", 1)(x)
    check("cos", got[:-1], np.cos(x[:-1].astype(np.longdouble)), 0.52, x[:-1])
    assert got[-1] == -4.6871659242546277e-19


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_range_reduction_without_double(name: str) -> None:
    """For devices without 64-bit floats: the same bounds, multiples of pi/2 and the largest floats included."""
    reference, bound, _ = UNARY[name]
    k = np.arange(1, 1 << 20).astype(np.float64) * (np.pi / 2)
    x = np.concatenate([floats(), k, 2.0 ** np.arange(-20, 128)], dtype=np.float32)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.longdouble))
    function = elementwise(FUNCTIONS[name], "float", 1, without_double())
    check(name, function(x), exact, bound, x)


def test_pow_without_double() -> None:
    x, y = power_arguments(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    got = elementwise(FUNCTIONS["pow"], "float", 2, without_double())(x, y)
    check("pow", got, exact, 0.8, x, y)
