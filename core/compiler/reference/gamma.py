"""lgamma, digamma, zeta and polygamma of one number each, for :mod:`.elementwise`: in decimal arithmetic of 60
digits, so that what is left is the last rounding, beside the functions' zeros too.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

from . import NotEvaluatedError

_CONTEXT: Final = decimal.Context(prec=60, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
_PI: Final = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640629")
_TERMS: Final = 25
_FROM: Final = 40  # Stirling's series is good for 60 digits there
_MOST_STEPS: Final = 200


def lgamma(x: float) -> float:
    """log|gamma x|: infinite at the poles and at infinities."""
    if math.isnan(x):
        return x
    if x == math.inf or _is_pole(x):
        return math.inf
    return 0.0 if x in (1.0, 2.0) else _in_context(log_gamma, x)


def digamma(x: float) -> float:
    """The derivative of lgamma: NaN at the poles and at -infinity."""
    if math.isnan(x) or x == math.inf:
        return x
    if _is_pole(x):
        return math.nan
    return _in_context(_digamma, x)


def zeta(s: float, q: float) -> float:
    """The Hurwitz zeta function: infinite for s = 1 and at the poles q = 0, -1, ...; NaN for s < 1 and, unless s is
    whole, other negative q.
    """
    if math.isnan(s) or math.isnan(q) or s < 1:
        return math.nan
    if s == 1 or _is_pole(q):
        return math.inf
    if q < 0 and (s == math.inf or s != math.floor(s)):
        return math.nan
    if math.inf in (s, q):
        return 0.0 if q > 1 else 1.0 if q == 1 else math.inf
    with decimal.localcontext(_CONTEXT):
        return float(_zeta(Decimal(s), Decimal(q)))


def polygamma(n: float, x: float) -> float:
    """The n-th derivative of digamma, whose poles, -infinity too, are zeta's; NaN for n that are negative or not
    whole.
    """
    if n == 0:
        return digamma(x)
    if not 0 < n < math.inf or n != math.floor(n) or math.isnan(x):
        return math.nan
    sign = -1 if n % 2 == 0 else 1
    if x == math.inf:
        return sign * 0.0
    if _is_pole(x):
        return sign * math.inf
    if n > _MOST_STEPS:
        raise NotEvaluatedError("zeta")
    with decimal.localcontext(_CONTEXT):
        return float(sign * math.factorial(int(n)) * _zeta(Decimal(n) + 1, Decimal(x)))


def _is_pole(x: float) -> bool:
    return x == -math.inf or (x <= 0 and x == math.floor(x))


def _in_context(function: Callable[[Decimal], Decimal], x: float) -> float:
    with decimal.localcontext(_CONTEXT):
        return float(function(Decimal(x)))


def log_gamma(x: Decimal) -> Decimal:
    """log|gamma x|, where it is finite."""
    if x < 0:
        sine, _ = _sine_and_cosine(x)
        return (_PI / abs(x * sine)).ln() - log_gamma(-x)
    product = Decimal(1)
    while x < _FROM:
        product *= x
        x += 1
    total = (x - Decimal("0.5")) * x.ln() - x + _half_log_of_two_pi() - product.ln()
    return total + _polynomial(_series_of_log_gamma(), 1 / (x * x)) / x


def _digamma(x: Decimal) -> Decimal:
    if x < 0:
        sine, cosine = _sine_and_cosine(x)
        return _digamma(-x) - 1 / x - _PI * cosine / sine
    # The sum of the reciprocals of x, x + 1, .. as one fraction.
    above, below = Decimal(0), Decimal(1)
    while x < _FROM:
        above, below = above * x + below, below * x
        x += 1
    square = 1 / (x * x)
    return x.ln() - 1 / (2 * x) - above / below - _polynomial(_series_of_digamma(), square) * square


def _zeta(s: Decimal, q: Decimal) -> Decimal:
    """By Euler and Maclaurin's formula (DLMF 25.11.28); negative q for whole s alone."""
    if max(s, Decimal(_FROM)) - q > _MOST_STEPS:
        raise NotEvaluatedError("zeta")
    total = Decimal(0)
    while q < _FROM or q < s:
        total += q**-s
        q += 1
    total += q ** (1 - s) / (s - 1) + q**-s / 2
    term = s / 2 * q ** (-s - 1)
    for k, b in enumerate(_bernoulli(), 1):
        total += term * b
        term *= (s + 2 * k - 1) * (s + 2 * k) / ((2 * k + 1) * (2 * k + 2) * q * q)
    return total


def _sine_and_cosine(x: Decimal) -> tuple[Decimal, Decimal]:
    """Sine and cosine of pi times the distance to the nearest whole number: those of pi x but for one common sign."""
    angle = _PI * (x - x.to_integral_value(decimal.ROUND_HALF_EVEN))
    sine, cosine, term = Decimal(0), Decimal(0), Decimal(1)
    for n in range(60):
        if n % 2:
            sine += term if n % 4 == 1 else -term
        else:
            cosine += term if n % 4 == 0 else -term
        term *= angle / (n + 1)
    return sine, cosine


def _polynomial(coefficients: tuple[Decimal, ...], x: Decimal) -> Decimal:
    total = Decimal(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


@functools.cache
def _half_log_of_two_pi() -> Decimal:
    with decimal.localcontext(_CONTEXT):
        return (2 * _PI).ln() / 2


@functools.cache
def _series_of_log_gamma() -> tuple[Decimal, ...]:
    """Of 1 / x, 1 / x^3, 1 / x^5, ..."""
    with decimal.localcontext(_CONTEXT):
        return tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_bernoulli(), 1))


@functools.cache
def _series_of_digamma() -> tuple[Decimal, ...]:
    """Of 1 / x^2, 1 / x^4, 1 / x^6, ..."""
    with decimal.localcontext(_CONTEXT):
        return tuple(b / (2 * k) for k, b in enumerate(_bernoulli(), 1))


@functools.cache
def _bernoulli() -> tuple[Decimal, ...]:
    """B_2, B_4, ..."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * _TERMS + 1):
        total = sum(math.comb(n + 1, k) * b for k, b in enumerate(numbers))
        numbers.append(-Fraction(total) / (n + 1))
    return tuple(Decimal(b.numerator) / b.denominator for b in numbers[2::2])
