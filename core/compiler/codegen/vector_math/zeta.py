"""The Hurwitz zeta function and polygamma.

    zeta(s, q) = q^-s + (q+1)^-s + ... + y^-s (y/(s-1) + 1/2 + s/(12 y) - s(s+1)(s+2)/(720 y^3) + ...)

with y = q + n at least as large as 1.5 s and 10 (for float in double s and 6): Euler and Maclaurin's formula (DLMF
25.11.28, 2.10.1). The sum ends where its terms no longer change it. For whole s, q may be negative; the terms up to 0
are summed one by one.

    polygamma(n, x) = (-1)^(n+1) n! zeta(n + 1, x),  polygamma(0, x) = digamma(x)
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Pair
from .gamma import digamma, lgamma_of_positive
from .logarithm import log_pair
from .power import pow, power_for_float
from .series import Precision, called, exp_of_pair

# B_2, B_4, ... as numerator and denominator.
_BERNOULLI: Final = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798),
    (-174611, 330), (854513, 138), (-236364091, 2730),
)  # fmt: skip


def zeta(builder: Builder, target: Target, s: Value, q: Value) -> Value:
    """The Hurwitz zeta function. float: below 1 ulp where the target has double; double: below 4 ulp for positive q.

    NaN for s < 1, infinite for s = 1 and at the poles q = 0, -1, ...; NaN for other negative q unless s is whole (and
    below -10,000).
    """
    return called(builder, target, "zeta", _zeta, s, q)


def polygamma(builder: Builder, target: Target, n: Value, x: Value) -> Value:
    """The n-th derivative of digamma. float: below 1 ulp where the target has double; double: below 30 ulp.

    NaN for n that are negative or not whole (and for float without double, for n above 56: n! is too large).
    """
    return called(builder, target, "polygamma", _polygamma, n, x)


def _zeta(m: Precision, s: Value, q: Value, root: Value | None = None) -> Value:
    """zeta(s, q), times ``root`` squared if it is given."""
    whole_s, whole_q = (m.compare("oeq", v, m.builder.intrinsic("trunc", [v])) for v in (s, q))
    positive = m.compare("ogt", q, 0.0)
    summed = m.both(m.both(whole_s, m.is_not(whole_q)), m.compare("ogt", q, -m.most_steps + 20.0))
    valid = m.both(m.either(positive, summed), m.compare("ogt", s, 1.0))
    for v in (s, q):
        valid = m.both(valid, m.compare("olt", v, INFINITY))
    value = _sum(m, m.select(valid, s, 2.0), m.select(valid, q, 12.0), root)
    at_pole = m.both(m.compare("ole", q, 0.0), whole_q)
    limit = m.select(at_pole, INFINITY, m.constant(NAN))
    of_endless = pow(m.builder, m.target, q, m.negate(s))
    limit = m.select(m.both(positive, m.compare("oeq", s, INFINITY)), of_endless, limit)
    limit = m.select(m.both(m.compare("oeq", q, INFINITY), m.compare("ogt", s, 1.0)), 0.0, limit)
    limit = m.select(m.compare("oeq", s, 1.0), INFINITY, limit)
    limit = m.select(m.either(m.compare("olt", s, 1.0), m.compare("uno", s, q)), NAN, limit)
    return m.select(valid, value, limit)


def _sum(m: Precision, s: Value, q: Value, root: Value | None) -> Value:
    """zeta(s, q) for s > 1 and a q that is not a pole, times ``root`` squared if it is given."""
    zero = m.constant(0.0)
    half = m.mul(s, -0.5)
    odd = m.compare("une", half, m.builder.intrinsic("trunc", [half]))

    def power(x: Value) -> Value:
        """x^-s (root squared): that alone may be too small, or the square too large."""
        exponent = m.negate(s) if root is None else half
        if m.of_float:
            value = power_for_float(m, m.absolute(x), exponent, limit=1000.0)
        elif root is None:
            value = _quick_power(m, m.absolute(x), exponent)
        else:  # terms of polygamma leave each other
            value = pow(m.builder, m.target, m.absolute(x), exponent)
        negative = m.both(odd, m.compare("olt", x, 0.0))
        if root is None:
            return m.select(negative, m.negate(value), value)
        value = m.mul(root, value)
        return m.mul(value, m.select(negative, m.negate(value), value))

    end = m.at_least(s, 6.0) if m.of_float else m.at_least(m.mul(s, 1.5), 10.0)
    more: list[Value] = []
    # Terms summed, the place, whether it goes on (1 or 0), the sum.
    start = m.select(m.compare("olt", q, end), 1.0, zero)
    with m.builder.loop_carrying(
        llvm_ir.i64(0), llvm_ir.i64(m.most_steps), 1, [zero, start, zero, zero], more=more
    ) as (_, carried, results):
        count, going, high, low = carried
        active = m.compare("une", going, 0.0)
        place = m.add(q, count)
        term = m.select(active, power(place), 0.0)
        total = m.two_sum(high, term)
        finite = m.compare("olt", m.absolute(total.high), INFINITY)
        low = m.select(finite, m.add(low, total.low), 0.0)
        count = m.select(active, m.add(count, 1.0), count)
        size = m.mul(m.absolute(total.high), m.nothing / 16)
        nothing = m.both(m.compare("ogt", place, 0.0), m.compare("ole", term, size))
        goes_on = m.both(active, m.both(m.is_not(nothing), m.compare("olt", m.add(q, count), end)))
        carried[:] = [count, m.select(goes_on, 1.0, zero), total.high, low]
        more.append(m.builder.any_lane(goes_on))
    y = m.add(q, results[0])
    inverse = m.div(1.0, y)
    square = m.mul(inverse, inverse)
    # B_2j / (2j)! s (s+1) ... (s+2j-2) / y^(2j-1)
    term, tail = m.mul(s, inverse), m.constant(0.0)
    for j, b in enumerate(_BERNOULLI, 1):
        coefficient = float(Fraction(*b) / math.factorial(2 * j))
        tail = m.fma(term, coefficient, tail)
        factors = m.mul(m.add(s, 2.0 * j - 1), m.add(s, 2.0 * j))
        term = m.mul(m.mul(term, factors), square)
    # Where the sum has ended early, y may be too small for the formula, and nothing is missing.
    is_whole = m.compare("oge", y, end)
    rest = m.mul(power(y), m.add(m.add(tail, 0.5), m.div(y, m.sub(s, 1.0))))
    rest = m.select(is_whole, rest, 0.0)
    return m.add(results[2], m.add(results[3], rest))


def _quick_power(m: Precision, x: Value, y: Value) -> Value:
    """x^y for x > 0, to one unit in the last place or so."""
    exponent = m.fast_two_sum(*m.pair_scale(log_pair(m, Pair(x, m.constant(0.0))), y))
    # Beyond, the power is infinite or nothing, and the second word may be NaN.
    is_modest = m.compare("olt", m.absolute(exponent.high), 1e4)
    high = m.at_most(m.at_least(exponent.high, -1e4), 1e4)
    return exp_of_pair(m, Pair(high, m.select(is_modest, exponent.low, 0.0)))


def _polygamma(m: Precision, n: Value, x: Value) -> Value:
    b = m.builder
    whole = m.both(m.compare("oeq", n, b.intrinsic("trunc", [n])), m.compare("ogt", n, 0.0))
    whole = m.both(whole, m.compare("olt", n, INFINITY))
    order = m.select(whole, n, 1.0)
    factorial = m.fast_two_sum(*lgamma_of_positive(m, m.add(order, 1.0)))
    root = exp_of_pair(m, Pair(m.mul(factorial.high, 0.5), m.mul(factorial.low, 0.5)))
    value = _zeta(m, m.add(order, 1.0), x, root)
    half = m.mul(order, 0.5)
    is_even = m.compare("oeq", half, b.intrinsic("trunc", [half]))
    value = m.select(is_even, m.negate(value), value)
    value = m.select(whole, value, NAN)
    return m.select(m.compare("oeq", n, 0.0), digamma(b, m.target, x), value)
