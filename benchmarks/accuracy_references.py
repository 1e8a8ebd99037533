"""What :mod:`benchmarks.accuracy` compares with: each function of ``jax.lax`` by NumPy or SciPy in a wider format or by
mpmath, and the arguments that it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import mpmath  # type: ignore[import-untyped]
import numpy as np
from scipy import special  # type: ignore[import-untyped]

Array = np.ndarray[Any, Any]
Number = Any  # mpmath's


class Function(NamedTuple):
    """A function of ``jax.lax`` and its reference. ``exact``: by mpmath, where ``reference`` takes no long double, or
    everywhere if there is no ``reference``. ``arguments``: of a generator and a count, else bit patterns and ranges.
    """

    reference: Callable[..., Array] | None
    exact: Callable[..., Any] | None = None
    operands: int = 1
    arguments: Callable[[np.random.Generator, int], list[Array]] | None = None


def _logistic(x: Array) -> Array:
    return np.asarray(np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))))


def _rsqrt(x: Array) -> Array:
    return np.asarray(np.where(x == 0, np.copysign(np.inf, x), 1 / np.sqrt(x)))


def _lgamma(x: Any) -> Any:
    """log |gamma x|: by the reflection formula for negative arguments."""
    if mpmath.isinf(x) or (x <= 0 and x == mpmath.floor(x)):
        return mpmath.inf
    if x > 0:
        return mpmath.loggamma(x)
    with mpmath.workprec(1200):
        return mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.re(mpmath.loggamma(1 - x))


def _digamma(x: Any) -> Any:
    """NaN at its poles, as JAX defines it."""
    return mpmath.nan if x <= 0 and x == mpmath.floor(x) else mpmath.digamma(x)


def _erfc(x: Any) -> Any:
    return mpmath.erfc(x) if abs(x) < 100 else 1 - mpmath.sign(x)


def _bessel(order: int) -> Callable[..., Any]:
    """The modified Bessel function times exp(-|x|); by its asymptotic series for large arguments."""

    def value(x: Any) -> Any:
        a = abs(x)
        if a < 1e5:
            result = mpmath.besseli(order, a) * mpmath.exp(-a)
        elif mpmath.isinf(a):
            result = mpmath.mpf(0)
        else:
            m, term, series = 4 * order * order, mpmath.mpf(1), mpmath.mpf(1)
            for k in range(1, 12):
                term *= -(m - (2 * k - 1) ** 2) / (k * 8 * a)
                series += term
            result = series / mpmath.sqrt(2 * mpmath.pi * a)
        return -result if order and x < 0 else result

    return value


def _erf_inv(x: Any) -> Any:
    """Newton's iteration on erfc, beginning with SciPy's value."""
    if not abs(x) < 1:
        return x * mpmath.inf if abs(x) == 1 else mpmath.nan
    y = mpmath.mpf(float(special.erfinv(float(x))))
    for _ in range(3):
        error = (1 - abs(x) - mpmath.erfc(abs(y))) * (1 if y >= 0 else -1)
        y -= error * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
    return y


def _logarithmic(rng: np.random.Generator, low: float, high: float, count: int) -> Array:
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


def _positive_pairs(rng: np.random.Generator, count: int) -> list[Array]:
    a, x = (_logarithmic(rng, 1e-3, 1e3, count) for _ in range(2))
    near = slice(0, count // 3)
    x[near] = a[near] * rng.uniform(0.8, 1.2, near.stop)
    return [a, x]


def _modest_pairs(rng: np.random.Generator, count: int) -> list[Array]:
    return [_logarithmic(rng, 0.05, 30, count), _logarithmic(rng, 0.01, 50, count)]


def _beta_arguments(rng: np.random.Generator, count: int) -> list[Array]:
    return [
        *(_logarithmic(rng, 0.003, 300, count) for _ in range(2)),
        rng.uniform(0.01, 0.99, count),
    ]


def _zeta_arguments(rng: np.random.Generator, count: int) -> list[Array]:
    return [1 + _logarithmic(rng, 1e-3, 40, count), _logarithmic(rng, 1e-3, 1e3, count)]


def _polygamma_arguments(rng: np.random.Generator, count: int) -> list[Array]:
    return [np.floor(rng.uniform(1, 8, count)), _logarithmic(rng, 1e-3, 1e3, count)]


def _incomplete_gamma(a: Number, x: Number, lower: bool) -> Number:
    if lower and x < a + 1:
        return _series(a, x)
    if lower and x > a + 400 + 60 * mpmath.sqrt(a):
        return mpmath.mpf(1)
    return mpmath.gammainc(a, *((0, x) if lower else (x, mpmath.inf)), regularized=True)


def _series(a: Number, x: Number) -> Number:
    """The lower incomplete gamma function, for x that are not too large."""
    term = total = mpmath.mpf(1)
    n = 0
    while term > total * mpmath.eps:
        n += 1
        term = term * x / (a + n)
        total += term
    return total * mpmath.exp(a * mpmath.log(x) - x - mpmath.loggamma(a + 1))


def _lower_slope(a: Number, x: Number) -> Number:
    """The derivative by a, as a difference."""
    precision = mpmath.mp.prec
    with mpmath.workprec(2 * precision + 200 + int(3 * x)):
        h = mpmath.mpf(2) ** (-precision // 2 - 60)
        return (_series(a + h, x) - _series(a - h, x)) / (2 * h)


def _gamma_sample_slope(a: Number, x: Number) -> Number:
    """How a sample x of the gamma distribution changes with a."""
    density = mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))
    return -_lower_slope(a, x) / density


def _incomplete_beta(a: Number, b: Number, x: Number) -> Number:
    return mpmath.betainc(a, b, 0, x, regularized=True)


def _hurwitz(s: Number, q: Number) -> Number:
    with mpmath.workprec(300 + int(2 * s * abs(mpmath.log(q, 2)))):  # zeta's error is absolute
        return mpmath.zeta(s, q)


def _polygamma(n: Number, x: Number) -> Number:
    return (-1) ** int(n + 1) * mpmath.gamma(n + 1) * _hurwitz(n + 1, x)


FUNCTIONS: Final[dict[str, Function]] = {
    "exp": Function(np.exp),
    "exp2": Function(np.exp2),
    "expm1": Function(np.expm1),
    "log": Function(np.log),
    "log1p": Function(np.log1p),
    "sin": Function(np.sin),
    "cos": Function(np.cos),
    "tan": Function(np.tan),
    "asin": Function(np.arcsin),
    "acos": Function(np.arccos),
    "atan": Function(np.arctan),
    "sinh": Function(np.sinh),
    "cosh": Function(np.cosh),
    "tanh": Function(np.tanh),
    "asinh": Function(np.arcsinh),
    "acosh": Function(np.arccosh),
    "atanh": Function(np.arctanh),
    "logistic": Function(_logistic),
    "sqrt": Function(np.sqrt),
    "rsqrt": Function(_rsqrt),
    "cbrt": Function(np.cbrt),
    "erf": Function(special.erf, mpmath.erf),
    "erfc": Function(special.erfc, _erfc),
    "erf_inv": Function(special.erfinv, _erf_inv),
    "lgamma": Function(lambda x: np.where(np.isinf(x), np.inf, special.gammaln(x)), _lgamma),
    "digamma": Function(lambda x: np.where(x == 0, np.nan, special.psi(x)), _digamma),
    "bessel_i0e": Function(special.i0e, _bessel(0)),
    "bessel_i1e": Function(special.i1e, _bessel(1)),
    "div": Function(np.divide, operands=2),
    "rem": Function(np.fmod, operands=2),
    "pow": Function(np.power, operands=2),
    "atan2": Function(np.arctan2, operands=2),
    "nextafter": Function(np.nextafter, operands=2),
    "igamma": Function(None, lambda a, x: _incomplete_gamma(a, x, True), 2, _positive_pairs),
    "igammac": Function(None, lambda a, x: _incomplete_gamma(a, x, False), 2, _positive_pairs),
    "betainc": Function(None, _incomplete_beta, 3, _beta_arguments),
    "igamma_grad_a": Function(None, _lower_slope, 2, _modest_pairs),
    "random_gamma_grad": Function(None, _gamma_sample_slope, 2, _modest_pairs),
    "zeta": Function(None, _hurwitz, 2, _zeta_arguments),
    "polygamma": Function(None, _polygamma, 2, _polygamma_arguments),
}


def _expm1(z: Number) -> Number:
    """Also of numbers far less than the precision."""
    with mpmath.workprec(2500):
        return mpmath.exp(z) - 1


def _log1p(z: Number) -> Number:
    with mpmath.workprec(2500):
        return mpmath.log(1 + z)


def _precise(function: Callable[..., Any]) -> Callable[..., Any]:
    """mpmath's function, where what leaves each other on the way is far apart."""

    def value(z: Number) -> Number:
        with mpmath.workprec(2500):
            return function(z)

    return value


COMPLEX: Final[dict[str, Function]] = {
    **{name: Function(None, getattr(mpmath, name)) for name in ("exp", "log", "sqrt", "sin", "cos", "tan")},
    **{name: Function(None, getattr(mpmath, name)) for name in ("sinh", "cosh", "tanh")},
    **{name: Function(None, _precise(getattr(mpmath, name))) for name in ("asin", "acos", "atan")},
    **{name: Function(None, _precise(getattr(mpmath, name))) for name in ("asinh", "acosh", "atanh")},
    "expm1": Function(None, _expm1),
    "log1p": Function(None, _log1p),
    "rsqrt": Function(None, lambda z: 1 / mpmath.sqrt(z)),
    "logistic": Function(None, lambda z: 1 / (1 + mpmath.exp(-z))),
    "sign": Function(None, lambda z: z / abs(z)),
    "abs": Function(None, abs),
    "square": Function(None, lambda z: z * z),
    "mul": Function(None, lambda x, y: x * y, 2),
    "div": Function(None, lambda x, y: x / y, 2),
    "pow": Function(None, lambda x, y: mpmath.exp(y * mpmath.log(x)), 2),
}  # fmt: skip


def complex_arguments(name: str, dtype: Any, rng: np.random.Generator, count: int) -> list[Array]:
    """Numbers of every size, and beside 1, -1, i, -i and the unit circle. Powers' exponents are modest."""
    form = np.finfo(dtype)
    bits = np.log10(float(form.max)) - 0.5

    def small() -> Array:
        return rng.normal(size=count) * 10.0 ** rng.uniform(-7, -1, count)

    def sign() -> Array:
        return rng.choice([-1.0, 1.0], count)

    def numbers() -> Array:
        turn = np.exp(1j * rng.uniform(-np.pi, np.pi, count)) * (1 + small())
        sizes = [rng.normal(size=count) * 10.0 ** rng.uniform(-6, 2, count) for _ in range(2)]
        ends = [sign() * 10.0 ** rng.uniform(-bits, bits, count) for _ in range(2)]
        near = sign() * (1 + small()) + 1j * small()
        modest = rng.uniform(-4, 4, count) + 1j * rng.uniform(-4, 4, count)
        parts = [modest, sizes[0] + 1j * sizes[1], ends[0] + 1j * ends[1], turn, near, 1j * near]
        return np.concatenate(parts).astype(dtype)

    z = numbers()
    if COMPLEX[name].operands == 1:
        return [z]
    if name == "pow":
        exponent = rng.uniform(-4, 4, z.size) + 1j * rng.uniform(-4, 4, z.size)
        return [z, exponent.astype(dtype)]
    return [z, rng.permutation(z)]
