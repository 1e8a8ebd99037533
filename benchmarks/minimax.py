"""The coefficients of ``core/compiler/codegen/vector_math``: minimax polynomials by Remez exchange.

python -m benchmarks.minimax                  the fits there are
python -m benchmarks.minimax sin_float        coefficients as they stand in the code, and the error they leave

A :class:`Fit` asks for the polynomial p of a degree that makes the largest |weight(x) (f(x) - p(x))| on an interval
smallest; the weight turns that into the relative error of the function that is computed with p. Coefficients are
rounded to the format one after the other, from the constant on, and the rest is fitted again each time (but not where
the interval holds 0 inside, where fits without the first terms have no sign).
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import mpmath  # type: ignore[import-untyped]
import numpy as np
from mpmath import mp, mpf
from scipy import special  # type: ignore[import-untyped]

from benchmarks import uniform_gamma

Number = Any  # mpmath's numbers
Function = Callable[[Number], Number]

PRECISION: Final = 240  # bits
_DENSITY: Final = 40  # points looked at between two nodes


class Fit(NamedTuple):
    """``f``, ``weight`` on [low, high]; ``degree`` of the polynomial; ``double``: the format of its coefficients."""

    f: Function
    weight: Function
    low: Number
    high: Number
    degree: int
    double: bool
    pairs: int = 0  # so many coefficients, from the constant on, have two words


def minimax(fit: Fit, fixed: Sequence[Number] = ()) -> tuple[list[Number], Number]:
    """(coefficients from the constant on, largest weighted error). The first ones are ``fixed``."""
    unknown = fit.degree + 1 - len(fixed)
    low, high = mpf(fit.low), mpf(fit.high)
    # Chebyshev's nodes, mapped; never the very ends, where functions like sin(x)/x have no value.
    span, middle = (high - low) / 2, (high + low) / 2

    def point(t: Number) -> Number:
        return middle - span * mpmath.cos(mpmath.pi * t) * (1 - mpf(2) ** -40)

    def residual(x: Number) -> Number:
        return fit.f(x) - mpmath.polyval([*reversed(list(fixed)), 0][:-1] or [0], x)

    count = _DENSITY * (unknown + 2)
    grid = [point(mpf(k) / count) for k in range(count + 1)]
    targets = [fit.weight(x) * residual(x) for x in grid]
    weights = [fit.weight(x) * x ** len(fixed) for x in grid]
    if not unknown:
        return list(fixed), max(abs(t) for t in targets)
    nodes = [round(count * k / (unknown)) for k in range(unknown + 1)]
    for _ in range(40):
        matrix = mpmath.matrix(unknown + 1, unknown + 1)
        right = mpmath.matrix(unknown + 1, 1)
        for row, n in enumerate(nodes):
            for column in range(unknown):
                matrix[row, column] = weights[n] * grid[n] ** column
            matrix[row, unknown] = (-1) ** row
            right[row] = targets[n]
        solution = mpmath.lu_solve(matrix, right)
        coefficients = [solution[c] for c in range(unknown)]
        error = [
            t - w * mpmath.polyval(coefficients[::-1], x)
            for t, w, x in zip(targets, weights, grid, strict=True)
        ]
        level = abs(solution[unknown])
        found = _alternating(error, unknown + 1)
        if found == nodes or max(map(abs, error)) < level * mpf("1.001"):
            break
        nodes = found
    return [*fixed, *coefficients], max(map(abs, error))


def _alternating(error: list[Number], count: int) -> list[int]:
    """Indices of ``count`` extrema whose signs alternate."""
    found: list[int] = []
    for i, e in enumerate(error):
        if found and (e >= 0) == (error[found[-1]] >= 0):
            if abs(e) > abs(error[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > count:
        if len(found) == count + 1:
            found.pop(0 if abs(error[found[0]]) < abs(error[found[-1]]) else -1)
        else:  # drop the smallest together with a neighbour
            k = min(
                range(len(found) - 1), key=lambda j: max(abs(error[n]) for n in found[j : j + 2])
            )
            del found[k : k + 2]
    while len(found) < count:  # too few: add points between
        gaps = [(found[j + 1] - found[j], j) for j in range(len(found) - 1)]
        _, j = max(gaps)
        found.insert(j + 1, (found[j] + found[j + 1]) // 2)
    return found


def rounded(fit: Fit) -> tuple[list[Number], float]:
    """(coefficients in the format, log2 of the largest error that they leave)."""
    fixed: list[Number] = []

    def in_format(c: Number) -> Number:
        return sum(map(mpf, words(c, fit.double)[: 2 if len(fixed) < fit.pairs else 1]))

    while len(fixed) <= fit.degree:
        coefficients, _ = minimax(fit, fixed)
        fixed.append(in_format(coefficients[len(fixed)]))
        if fit.low < 0 or fit.pairs or (fit.double and len(fixed) > 2):
            # The rest matters less than its rounding.
            for c in coefficients[len(fixed) :]:
                fixed.append(in_format(c))
    _, error = minimax(fit, fixed)
    return fixed, float(mpmath.log(error, 2))


def words(value: Number, double: bool) -> tuple[float, float]:
    """A constant as two words of the format."""
    form: Any = float if double else lambda v: float(np.float32(float(v)))
    high = form(value)
    return high, form(value - mpf(high))


def _root(z: Number) -> Number:
    return mpmath.sqrt(z)


def _both(name: str, degrees: tuple[int, int], *fit: Any) -> dict[str, Fit]:
    """The fits of a function in float and in double; ``fit``: f, weight, low, high."""
    return {
        f"{name}_{form}": Fit(*fit, degree, form == "double")
        for form, degree in zip(("float", "double"), degrees, strict=True)
    }


_QUARTER: Final = mpf("0.62")  # (pi/4)^2 and a little more
_TAN_EIGHTH: Final = mpf("0.1717")  # tan(pi/8)^2 and a little more

_LOG_END: Final = mpf("0.02944")  # ((sqrt 2 - 1)/(sqrt 2 + 1))^2 and a little more


def _log_series(z: Number) -> Number:
    """2 atanh(s)/s, s^2 = z."""
    return 2 * mpmath.atanh(_root(z)) / _root(z)


def _erfc_series(t: Number, centre: Number) -> Number:
    """erfc(x) e^(x^2) (1 + 2 x), with t = (x - centre)/(x + centre)."""
    x = centre * (1 + t) / (1 - t)
    return mpmath.erfc(x) * mpmath.exp(x * x) * (1 + 2 * x)


def _erf_inv_series(w: Number) -> Number:
    """erf_inv(x)/x, w = -log(1 - x^2): Halley's iteration on erfc, beginning with SciPy's value."""
    x = mpmath.sqrt(-mpmath.expm1(-w))
    complement = mpmath.exp(-w) / (1 + x)  # 1 - x
    y = mpf(float(special.erfcinv(float(complement))))
    for _ in range(3):
        step = (mpmath.erfc(y) - complement) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
        y += step / (1 - y * step)
    return y / x


def _erf_inv(middle: str, low: str, high: str, degree: int, double: bool, root: bool) -> Fit:
    """In w - middle or in sqrt(w) - middle, from low to high."""
    centre = mpf(middle)
    # A fit asks for the same points again and again.
    of = functools.cache(lambda t: _erf_inv_series((t + centre) ** 2 if root else t + centre))
    return Fit(of, lambda t: 1 / of(t), mpf(low) - centre, mpf(high) - centre, degree, double)


def _lgamma_series(e: Number) -> Number:
    """lgamma(2 + e) / (e (1 + e))"""
    if abs(e) < mpf(2) ** -80:
        return 1 - mpmath.euler
    return mpmath.loggamma(2 + e) / (e * (1 + e))


def _stirling(z: Number) -> Number:
    """What the logarithm of the gamma function has beside (x - 1/2) log x - x + log(2 pi)/2, times x; z = 1/x^2."""
    x = 1 / _root(z)
    rest = mpmath.loggamma(x) - (x - mpf(1) / 2) * mpmath.log(x) + x - mpmath.log(2 * mpmath.pi) / 2
    return rest * x if x < 2000 else _asymptotic(z, lambda k: 2 * k * (2 * k - 1))


def _asymptotic(z: Number, divisor: Callable[[int], int]) -> Number:
    """The sum of B_2k z^(k - 1) / divisor(k)."""
    return sum(mpmath.bernoulli(2 * k) * z ** (k - 1) / divisor(k) for k in range(1, 8))


def _digamma_tail(z: Number) -> Number:
    """(log x - 1/(2x) - digamma x) x^2; z = 1/x^2."""
    x = 1 / _root(z)
    if x > 2000:
        return _asymptotic(z, lambda k: 2 * k)
    return (mpmath.log(x) - 1 / (2 * x) - mpmath.digamma(x)) / z


@functools.cache
def _digamma_root() -> Number:
    """Where digamma is 0."""
    return mpmath.findroot(mpmath.digamma, mpf("1.4616321449683623"))


def _digamma_series(u: Number) -> Number:
    """digamma(root + u) / u"""
    x = _digamma_root()
    return mpmath.polygamma(1, x) if abs(u) < mpf(2) ** -80 else mpmath.digamma(x + u) / u


def _sine_series(z: Number) -> Number:
    """sin(pi d) / d, d^2 = z."""
    return mpmath.sinpi(_root(z)) / _root(z)


def _cotangent_series(z: Number) -> Number:
    """pi d cot(pi d), d^2 = z."""
    d = mpmath.pi * _root(z)
    return d * mpmath.cot(d)


def _mapped(x: str, centre: Number) -> Number:
    return (mpf(x) - centre) / (mpf(x) + centre)


def _uniform_gamma() -> dict[str, Fit]:
    """The series of the uniform expansion of the incomplete gamma function, beside each other for a from 64 on."""
    degrees = (13, 11, 10, 8, 7, 5, 4, 2)
    series = uniform_gamma.series
    return {
        f"uniform_gamma_{k}": Fit(
            functools.partial(series, k), lambda e: mpf(1), -0.5, 0.5, d, True
        )
        for k, d in enumerate(degrees)
    }


FITS: Final[dict[str, Fit]] = {
    # sin h = h + h z (-1/6 + z p(z)), z = h^2
    **_both("sin", (2, 5), lambda z: ((mpmath.sin(_root(z)) / _root(z) - 1) / z + mpf(1) / 6) / z,
            lambda z: z * z * _root(z) / mpmath.sin(_root(z)), 0, _QUARTER),
    # cos h = 1 + z (-1/2 + z p(z))
    **_both("cos", (2, 6), lambda z: ((mpmath.cos(_root(z)) - 1) / z + mpf(1) / 2) / z,
            lambda z: z * z / mpmath.cos(_root(z)), 0, _QUARTER),
    # atan t = t + t z (-1/3 + z p(z)), z = t^2
    # erf_inv x = x p(w - m), w = -log(1 - x^2), or x p(sqrt(w) - m)
    "erf_inv_float_0": _erf_inv("2.5", "0", "5", 11, False, False),
    "erf_inv_float_1": _erf_inv("3", "2.236", "4", 11, False, True),
    "erf_inv_double_0": _erf_inv("3.125", "0", "6.25", 25, True, False),
    "erf_inv_double_1": _erf_inv("3.25", "2.5", "4", 20, True, True),
    "erf_inv_double_2": _erf_inv("5", "4", "6.01", 19, True, True),
    # erf x = x + x p(z), z = x^2, for x < 1
    "erf_double": Fit(lambda z: mpmath.erf(_root(z)) / _root(z) - 1,
                      lambda z: _root(z) / mpmath.erf(_root(z)), 0, 1, 12, True),
    # erfc x = e^(-x^2) p(t) / (1 + 2 x), t = (x - c)/(x + c), x from 0 to 10.2 (c = 3) or 27.4 (c = 4)
    "erfc_float": Fit(lambda t: _erfc_series(t, 3), lambda t: 1 / _erfc_series(t, 3),
                      _mapped("0", 3), _mapped("10.2", 3), 11, False),
    "erfc_double": Fit(lambda t: _erfc_series(t, 4), lambda t: 1 / _erfc_series(t, 4),
                       _mapped("0", 4), _mapped("27.4", 4), 23, True),
    **_uniform_gamma(),
    # log m = 2 s + s z (2/3 + z p(z)), s = (m - 1)/(m + 1), z = s^2
    **_both("log", (2, 6), lambda z: (_log_series(z) - 2 - 2 * z / 3) / z**2, lambda z: z * z / 2,
            0, _LOG_END),
    # log m = 2 s + s z (2/3 + z (2/5 + z p(z)))
    **_both("log_words", (2, 7), lambda z: (_log_series(z) - 2 - 2 * z / 3 - 2 * z * z / 5) / z**3,
            lambda z: z**3 / 2, 0, _LOG_END),
    # lgamma(2 + e) = e (1 + e) p(e), in one word and in two
    "lgamma_float": Fit(_lgamma_series, lambda e: 1 / _lgamma_series(e), -0.5, 0.5, 8, False, 1),
    "lgamma_double": Fit(_lgamma_series, lambda e: 1 / _lgamma_series(e), -0.5, 0.5, 18, True, 1),
    "lgamma_float_words": Fit(_lgamma_series, lambda e: 1 / _lgamma_series(e), -0.5, 0.5, 16, False, 10),
    "lgamma_double_words": Fit(_lgamma_series, lambda e: 1 / _lgamma_series(e), -0.5, 0.5, 35, True, 24),
    # lgamma x = (x - 1/2) log x - x + log(2 pi)/2 + p(1/x^2)/x, x from 8 on; as a part of lgamma 8
    **_both("stirling", (2, 6), _stirling, lambda z: _root(z) / 8, 0, mpf(1) / 64),
    # sin(pi d) = d p(d^2), |d| <= 1/2
    "sine_float_words": Fit(_sine_series, lambda z: 1 / _sine_series(z), 0, 0.25, 7, False, 3),
    "sine_double_words": Fit(_sine_series, lambda z: 1 / _sine_series(z), 0, 0.25, 12, True, 5),
    # digamma(root + u) = u p(u), root + u from 1 to 2
    "digamma_float": Fit(_digamma_series, lambda u: 1 / _digamma_series(u), -0.46164, 0.53837, 10, False, 1),
    "digamma_double": Fit(_digamma_series, lambda u: 1 / _digamma_series(u), -0.46164, 0.53837, 21, True, 1),
    # digamma(2 + e) = p(e)
    "digamma_float_words": Fit(lambda e: mpmath.digamma(2 + e), lambda e: mpf(1), -0.5, 0.5, 16, False, 10),
    "digamma_double_words": Fit(lambda e: mpmath.digamma(2 + e), lambda e: mpf(1), -0.5, 0.5, 35, True, 24),
    # digamma x = log x - 1/(2x) - p(1/x^2)/x^2, x from 8 on; as a part of digamma 8
    **_both("digamma_tail", (2, 6), _digamma_tail, lambda z: z / 2, 0, mpf(1) / 64),
    # the same in two words, x from 12 or 20 on
    "digamma_tail_float_words": Fit(_digamma_tail, lambda z: z, 0, mpf(1) / 144, 3, False, 2),
    "digamma_tail_double_words": Fit(_digamma_tail, lambda z: z, 0, mpf(1) / 400, 10, True, 6),
    # pi cot(pi d) = p(d^2) / d, |d| <= 1/2
    "cotangent_float_words": Fit(_cotangent_series, lambda z: mpf(1), 0, 0.25, 13, False, 10),
    "cotangent_double_words": Fit(_cotangent_series, lambda z: mpf(1), 0, 0.25, 28, True, 24),
    # log m = s p(z), s = (m - 1)/(m + 1), z = s^2, in two words
    "log_float_pairs": Fit(_log_series, lambda z: mpf(1), 0, _LOG_END, 9, False, 6),
    "log_double_pairs": Fit(_log_series, lambda z: mpf(1), 0, _LOG_END, 19, True, 11),
    **_both("atan", (4, 11), lambda z: ((mpmath.atan(_root(z)) / _root(z) - 1) / z + mpf(1) / 3) / z,
            lambda z: z * z * _root(z) / mpmath.atan(_root(z)), 0, _TAN_EIGHTH),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minimax", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *FITS], help="fits; their names without")
    options = parser.parse_args()
    if not options.names:
        print("\n".join(FITS))
    mp.prec = PRECISION
    for name in options.names:
        fit = FITS[name]
        coefficients, error = rounded(fit)
        rows = [
            words(c, fit.double) if n < fit.pairs else float(c) for n, c in enumerate(coefficients)
        ]
        print(f"{name}: 2^{error:.1f}\n    {', '.join(map(repr, rows))},")
    return 0


if __name__ == "__main__":
    sys.exit(main())
