"""lgamma and digamma of one number, for :mod:`.evaluate_elementwise`: in decimal arithmetic of 60 digits, so that what
is left is the last rounding, beside the functions' zeros too.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

_CONTEXT: Final = decimal.Context(prec=60, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
_PI: Final = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640629")
_TERMS: Final = 25
_FROM: Final = 40  # Stirling's series is good for 60 digits there


def lgamma(x: float) -> float:
    """log|gamma x|: infinite at the poles and at infinities."""
    if math.isnan(x):
        return x
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return 0.0 if x in (1.0, 2.0) else _in_context(log_gamma, x)


def digamma(x: float) -> float:
    """The derivative of lgamma: NaN at the poles and at -infinity."""
    if math.isnan(x) or x == math.inf:
        return x
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan
    return _in_context(_digamma, x)


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
    total = (x - Decimal("0.5")) * x.ln() - x + (2 * _PI).ln() / 2 - product.ln()
    for k, b in enumerate(_bernoulli(), 1):
        total += b / (2 * k * (2 * k - 1) * x ** (2 * k - 1))
    return total


def _digamma(x: Decimal) -> Decimal:
    if x < 0:
        sine, cosine = _sine_and_cosine(x)
        return _digamma(-x) - 1 / x - _PI * cosine / sine
    total = Decimal(0)
    while x < _FROM:
        total -= 1 / x
        x += 1
    total += x.ln() - 1 / (2 * x)
    for k, b in enumerate(_bernoulli(), 1):
        total -= b / (2 * k * x ** (2 * k))
    return total


def _sine_and_cosine(x: Decimal) -> tuple[Decimal, Decimal]:
    """Of pi times the distance to the nearest whole number: those of pi x but for a sign that they share."""
    angle = _PI * (x - x.to_integral_value(decimal.ROUND_HALF_EVEN))
    sine, cosine, term = Decimal(0), Decimal(0), Decimal(1)
    for n in range(60):
        if n % 2:
            sine += term if n % 4 == 1 else -term
        else:
            cosine += term if n % 4 == 0 else -term
        term *= angle / (n + 1)
    return sine, cosine


@functools.cache
def _bernoulli() -> tuple[Decimal, ...]:
    """B_2, B_4, ..."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * _TERMS + 1):
        total = sum(math.comb(n + 1, k) * b for k, b in enumerate(numbers))
        numbers.append(-Fraction(total) / (n + 1))
    return tuple(Decimal(b.numerator) / b.denominator for b in numbers[2::2])
