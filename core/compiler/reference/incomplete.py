"""The regularized incomplete gamma and beta functions of one number each, for :mod:`.elementwise`: in decimal
arithmetic, so that what is left is the last rounding. Parameters so large or small that the
series take too long raise :class:`NotEvaluatedError`.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from . import NotEvaluatedError
from .gamma import log_gamma

_CONTEXT: Final = decimal.Context(prec=60, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
_NOTHING: Final = Decimal(10) ** -45
_MOST_STEPS: Final = 5000
# Of parameters between these sixty digits are enough for differences of numbers near 1.
_PARAMETERS: Final = (1e-12, 1e12)


def igamma(a: float, x: float) -> float:
    """The regularized lower incomplete gamma function P(a, x); NaN for negative arguments, P(0, 0) and P(inf, inf)."""
    return _gamma(a, x, lower=True)


def igammac(a: float, x: float) -> float:
    """Q(a, x) = 1 - P(a, x)."""
    return _gamma(a, x, lower=False)


def igamma_grad_a(a: float, x: float) -> float:
    """The derivative of P(a, x) by a, by a difference; NaN for infinite or negative arguments and for a = 0."""
    if x == 0 and a > 0:
        return 0.0
    if not (0 < a < math.inf and 0 < x < math.inf):
        return math.nan
    _check(a)
    with decimal.localcontext(_CONTEXT):
        p, z = Decimal(a), Decimal(x)
        h, lower = p * Decimal(10) ** -15, z <= p + 1  # of P and Q, the one that has more digits
        ends = [_lower(v, z) if lower else -_upper(v, z) for v in (p + h, p - h)]
        return float((ends[0] - ends[1]) / (2 * h))


def betainc(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b), or its limit for an a or b of 0 or infinity."""
    at_low, at_high = a == 0 or b == math.inf, b == 0 or a == math.inf
    if not (a >= 0 and b >= 0 and 0 <= x <= 1) or (at_low and at_high):
        return math.nan
    if at_low or at_high or x in (0, 1):
        return float(x > 0 if at_low else x == 1)
    _check(a, b)
    with decimal.localcontext(_CONTEXT):
        p, q, z = Decimal(a), Decimal(b), Decimal(x)
        log_factor = p * z.ln() + q * (1 - z).ln() + log_gamma(p + q) - log_gamma(p) - log_gamma(q)
        if z <= (p + 1) / (p + q + 2):
            return float(log_factor.exp() / p * _beta_fraction(p, q, z))
        return float(1 - log_factor.exp() / q * _beta_fraction(q, p, 1 - z))


def _check(*parameters: float) -> None:
    low, high = _PARAMETERS
    if not all(low <= p <= high for p in parameters):
        raise NotEvaluatedError


def _gamma(a: float, x: float, *, lower: bool) -> float:
    if not (a >= 0 and x >= 0) or (a == x and a in (0, math.inf)):
        return math.nan
    if x in (0, math.inf) or a in (0, math.inf):
        return float((x == math.inf or (a == 0 and x > 0)) == lower)
    _check(a)
    with decimal.localcontext(_CONTEXT):
        p, z = Decimal(a), Decimal(x)
        if z <= p + 1:
            return float(_lower(p, z) if lower else 1 - _lower(p, z))
        return float(1 - _upper(p, z) if lower else _upper(p, z))


def _factor(a: Decimal, x: Decimal) -> Decimal:
    """x^a e^-x / gamma(a)"""
    return (a * x.ln() - x - log_gamma(a)).exp()


def _lower(a: Decimal, x: Decimal) -> Decimal:
    return _factor(a, x) / a * _series(a, x)


def _upper(a: Decimal, x: Decimal) -> Decimal:
    return _factor(a, x) * _upper_fraction(a, x)


def _series(a: Decimal, x: Decimal) -> Decimal:
    """1 + x/(a+1) + x^2/((a+1)(a+2)) + ... (DLMF 8.7.1)"""
    total = term = Decimal(1)
    for n in range(1, _MOST_STEPS):
        term *= x / (a + n)
        total += term
        if term < total * _NOTHING:
            return total
    raise NotEvaluatedError


def _upper_fraction(a: Decimal, x: Decimal) -> Decimal:
    """1/(x+1-a - (1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))) (DLMF 8.9.2)"""
    return 1 / _fraction(x + 1 - a, lambda n: (n * (a - n), x + 2 * n + 1 - a))


def _beta_fraction(a: Decimal, b: Decimal, x: Decimal) -> Decimal:
    """1/(1 + d1/(1 + d2/(1 + ...))) (DLMF 8.17.22)"""

    def term(n: int) -> tuple[Decimal, Decimal]:
        m, place = n // 2, a + n
        if n % 2:
            return -(a + m) * (a + b + m) * x / ((place - 1) * place), Decimal(1)
        return m * (b - m) * x / ((place - 1) * place), Decimal(1)

    return 1 / _fraction(Decimal(1), term)


def _fraction(first: Decimal, term: Callable[[int], tuple[Decimal, Decimal]]) -> Decimal:
    """first + n1/(d1 + n2/(d2 + ...)), where ``term(i)`` is (n, d) of step i, by Lentz's method."""
    value, c, d = first, first, Decimal(0)
    for n in range(1, _MOST_STEPS):
        numerator, denominator = term(n)
        d = 1 / (denominator + numerator * d)
        c = denominator + numerator / c
        value *= c * d
        if abs(c * d - 1) < _NOTHING:
            return value
    raise NotEvaluatedError
