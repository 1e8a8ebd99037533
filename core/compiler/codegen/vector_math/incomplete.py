"""The regularized incomplete gamma and beta functions: igamma (P), igammac (Q = 1 - P) and betainc (I).

    P(a, x) = f/a (1 + x/(a+1) + x^2/((a+1)(a+2)) + ...),                        x < 1 or x <= a
    Q(a, x) = f / (x+1-a - (1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))),                else;  f = x^a e^-x / gamma(a)
    I_x(a, b) = x^a (1-x)^b / (a B(a, b)) / (1 + d1/(1 + d2/(1 + ...))),         x <= (a+1)/(a+b+2)

and I_x(a, b) = 1 - I_{1-x}(b, a) else. (DLMF 8.7.1, 8.9.2, 8.17.22. The fractions by Lentz's method: W. J. Lentz, 1976;
I. J. Thompson, A. R. Barnett, 1986.) The loops go on until the terms of all lanes are nothing.

The factors before them are e to the power of a sum in which large terms leave each other, so those have two words.
Float is computed in double where the target has it: one minus a number near one has digits enough then.

    Q(a, x) = 1 - x^a / gamma(1+a) (1 + a (-x/(1!(a+1)) + x^2/(2!(a+2)) - ...))

by expm1 of the logarithm, for x < 1 and a < 1/2, has all digits. What is left: I_x where it is much smaller than 1 and
had from its complement, for b below 1/2 and x above 0.95.
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .branches import any_lane, where_any
from .exponential import expm1
from .gamma import lgamma_of_one_and, lgamma_of_positive
from .logarithm import log1p, log_pair
from .series import NOTHING, Precision, called, exp_of_pair

# Below this second parameter a fraction beyond its range of fast convergence is better than a difference.
_SMALL_PARAMETER: Final = 0.5
_DIRECT_UP_TO: Final = 0.95


def igamma(builder: Builder, target: Target, a: Value, x: Value) -> Value:
    """The regularized lower incomplete gamma function P(a, x).

    float: below 1 ulp for a up to 1,000 where the target has double. double: below 12 ulp there. P(0, x) is 1 but
    NaN for x = 0; P(a, inf) is 1; NaN for negative arguments.
    """
    return called(builder, target, "igamma", _lower, a, x)


def igammac(builder: Builder, target: Target, a: Value, x: Value) -> Value:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x). Errors as of :func:`igamma`."""
    return called(builder, target, "igammac", _upper, a, x)


def betainc(builder: Builder, target: Target, a: Value, b: Value, x: Value) -> Value:
    """The regularized incomplete beta function I_x(a, b).

    float: below 1 ulp for a and b up to 1,000 where the target has double, double: below 40 ulp there, but for what
    the module says is left. For a or b 0 or infinite the limit, NaN where there is none.
    """
    return called(builder, target, "betainc", _beta, a, b, x)


# --------------------------------------------------------------------------------------------------------- gamma


def _lower(m: Precision, a: Value, x: Value) -> Value:
    from_above, lower, upper, valid = _gamma_parts(m, a, x)
    value = m.select(from_above, m.sub(1.0, upper), lower)
    return m.select(valid, value, _gamma_limit(m, a, x))


def _upper(m: Precision, a: Value, x: Value) -> Value:
    from_above, lower, upper, valid = _gamma_parts(m, a, x)
    value = m.select(from_above, upper, m.sub(1.0, lower))
    small = m.both(m.compare("olt", a, 0.5), m.compare("olt", x, 1.0))
    value = where_any(m, m.both(small, valid), (a, x), value, "igammac_small", _upper_of_small)
    return m.select(valid, value, m.sub(1.0, _gamma_limit(m, a, x)))


def _gamma_limit(m: Arithmetic, a: Value, x: Value) -> Value:
    """P(a, x) where an argument is 0 or infinite; NaN elsewhere."""
    limit = m.select(m.compare("oeq", x, 0.0), 0.0, m.constant(NAN))
    limit = m.select(m.both(m.compare("oeq", a, INFINITY), m.compare("oge", x, 0.0)), 0.0, limit)
    limit = m.select(m.compare("oeq", a, 0.0), m.select(m.compare("ogt", x, 0.0), 1.0, NAN), limit)
    limit = m.select(m.compare("oeq", x, INFINITY), 1.0, limit)
    return m.select(m.either(m.compare("olt", a, 0.0), m.compare("uno", a, x)), NAN, limit)


def _gamma_parts(m: Precision, a: Value, x: Value) -> tuple[Value, Value, Value, Value]:
    """(whether Q is the one computed, P, Q, whether this is so: both arguments are above 0 and finite)."""
    valid = m.both(is_ordinary(m, a), is_ordinary(m, x))
    a, x = m.select(valid, a, 1.0), m.select(valid, x, 0.5)
    from_above = m.both(m.compare("oge", x, 1.0), m.compare("ogt", x, a))
    factor = gamma_factor(m, a, x)
    lower = m.mul(m.div(factor, a), _lower_series(m, a, x, from_above))
    upper = m.mul(factor, _upper_fraction(m, a, x, from_above))
    return from_above, lower, upper, valid


def gamma_factor(m: Arithmetic, a: Value, x: Value) -> Value:
    """x^a e^-x / gamma(a)"""
    zero = m.constant(0.0)
    power = m.pair_scale(log_pair(m, Pair(x, zero)), a)
    exponent = m.pair_add(m.fast_two_sum(*power), m.pair_negate(Pair(x, zero)))
    whole = m.pair_negate(m.fast_two_sum(*lgamma_of_positive(m, a)))
    return exp_of_pair(m, m.pair_add(exponent, whole))


def is_ordinary(m: Arithmetic, x: Value) -> Value:
    return m.both(m.compare("ogt", x, 0.0), m.compare("olt", x, INFINITY))


def _lower_series(m: Precision, a: Value, x: Value, not_wanted: Value) -> Value:
    """1 + x/(a+1) + x^2/((a+1)(a+2)) + ..."""
    one = m.constant(1.0)
    first = m.select(not_wanted, 0.0, one)
    more: list[Value] = []
    with m.builder.loop_carrying(
        llvm_ir.i64(0), llvm_ir.i64(m.most_steps), 1, [m.add(a, 1.0), first, first], more=more
    ) as (_, carried, results):
        n, term, total = carried
        term = m.mul(term, m.div(x, n))
        total = m.add(total, term)
        carried[:] = [m.add(n, 1.0), term, total]
        more.append(any_lane(m.builder, m.compare("ogt", term, m.mul(total, m.nothing)), m.lanes))
    return results[2]


def _upper_fraction(m: Precision, a: Value, x: Value, wanted: Value) -> Value:
    """1/(x+1-a - (1-a)/(x+3-a - 2(2-a)/(x+5-a - ...)))"""
    a, x = m.select(wanted, a, 1.0), m.select(wanted, x, 10.0)
    partial = m.sub(m.add(x, 1.0), a)
    d = m.div(1.0, partial)
    more: list[Value] = []
    # The numerator is i (a - i).
    initial = [m.constant(1.0), partial, m.constant(2.0**100), d, d]
    with m.builder.loop_carrying(
        llvm_ir.i64(0), llvm_ir.i64(m.most_steps), 1, initial, more=more
    ) as (_, carried, results):
        i, partial, c, d, value = carried
        numerator = m.mul(i, m.sub(a, i))
        partial = m.add(partial, 2.0)
        d = m.div(1.0, m.fma(numerator, d, partial))
        c = m.add(partial, m.div(numerator, c))
        change = m.mul(c, d)
        carried[:] = [m.add(i, 1.0), partial, c, d, m.mul(value, change)]
        more.append(_has_changed(m, change))
    return results[4]


def _has_changed(m: Precision, factor: Value) -> Value:
    """Whether a factor is other than 1 in a lane."""
    rest = m.absolute(m.sub(factor, 1.0))
    return any_lane(m.builder, m.compare("ogt", rest, 2 * m.nothing), m.lanes)


def _upper_of_small(m: Arithmetic, a: Value, x: Value) -> Value:
    """Q(a, x) for x < 1 and a < 1/2."""
    # Other lanes are computed too; their numbers must not make the loop longer.
    a, x = m.at_most(a, 0.5), m.at_most(x, 1.0)
    more: list[Value] = []
    initial = [m.constant(1.0), m.constant(1.0), m.constant(0.0)]
    with m.builder.loop_carrying(llvm_ir.i64(0), llvm_ir.i64(40), 1, initial, more=more) as (
        _,
        carried,
        results,
    ):
        n, term, total = carried
        term = m.negate(m.mul(term, m.div(x, n)))
        part = m.div(term, m.add(a, n))
        total = m.add(total, part)
        carried[:] = [m.add(n, 1.0), term, total]
        size = m.absolute(m.mul(total, NOTHING[m.scalar]))
        more.append(any_lane(m.builder, m.compare("ogt", m.absolute(part), size), m.lanes))
    series = log1p(m.builder, m.target, m.mul(a, results[2]))
    zero = m.constant(0.0)
    power = m.pair_scale(log_pair(m, Pair(x, zero)), a)
    logarithm = m.add(m.pair_sum(power), m.sub(series, lgamma_of_one_and(m, a)))
    return m.negate(expm1(m.builder, m.target, logarithm))


# ---------------------------------------------------------------------------------------------------------- beta


def _beta(m: Precision, a: Value, b: Value, x: Value) -> Value:
    valid = m.both(is_ordinary(m, a), is_ordinary(m, b))
    inside = m.both(m.compare("ogt", x, 0.0), m.compare("olt", x, 1.0))
    value = _beta_inside(m, *(m.select(m.both(valid, inside), v, 0.5) for v in (a, b, x)))
    at_zero, at_one = m.compare("oeq", x, 0.0), m.compare("oeq", x, 1.0)
    # All of the distribution is at 0, or at 1.
    low = m.either(m.compare("oeq", a, 0.0), m.compare("oeq", b, INFINITY))
    high = m.either(m.compare("oeq", b, 0.0), m.compare("oeq", a, INFINITY))
    value = m.select(at_one, 1.0, m.select(at_zero, 0.0, value))
    value = m.select(low, m.select(at_zero, 0.0, 1.0), value)
    value = m.select(high, m.select(at_one, 1.0, 0.0), value)
    nan = m.either(m.both(low, high), m.either(m.compare("uno", a, b), m.compare("uno", x, x)))
    for is_outside in (
        m.compare("olt", a, 0.0),
        m.compare("olt", b, 0.0),
        m.compare("olt", x, 0.0),
    ):
        nan = m.either(nan, is_outside)
    return m.select(m.either(nan, m.compare("ogt", x, 1.0)), NAN, value)


def _beta_inside(m: Precision, a: Value, b: Value, x: Value) -> Value:
    """I_x(a, b) for 0 < x < 1 and positive, finite a and b."""
    one, zero = m.constant(1.0), m.constant(0.0)
    fast = m.compare("ole", x, m.div(m.add(a, 1.0), m.add(m.add(a, b), 2.0)))
    small = m.both(m.compare("olt", b, _SMALL_PARAMETER), m.compare("olt", x, _DIRECT_UP_TO))
    direct = m.either(fast, small)
    y = m.two_sum(one, m.negate(x))
    log_x, log_y = (m.fast_two_sum(*log_pair(m, v)) for v in (Pair(x, zero), y))
    powers = m.pair_add(
        m.fast_two_sum(*m.pair_scale(log_x, a)), m.fast_two_sum(*m.pair_scale(log_y, b))
    )
    exponent = m.pair_add(powers, m.pair_negate(_log_beta(m, a, b)))
    first, second = m.select(direct, a, b), m.select(direct, b, a)
    factor = m.div(exp_of_pair(m, exponent), first)
    value = m.mul(factor, _beta_fraction(m, first, second, m.select(direct, x, y.high)))
    return m.select(direct, value, m.sub(1.0, value))


def _log_beta(m: Arithmetic, a: Value, b: Value) -> Pair:
    """log B(a, b) = lgamma a + lgamma b - lgamma(a + b) in two words."""
    parts = [m.fast_two_sum(*lgamma_of_positive(m, v)) for v in (a, b)]
    total = m.two_sum(a, b)
    # What rounds in a + b times the derivative, nearly.
    whole = log_pair(m, Pair(total.high, m.constant(0.0))).high
    slope = m.sub(whole, m.div(0.5, total.high))
    both = m.pair_add(*parts)
    of_total = m.fast_two_sum(*lgamma_of_positive(m, total.high))
    of_total = Pair(of_total.high, m.fma(slope, total.low, of_total.low))
    return m.pair_add(both, m.pair_negate(of_total))


def _beta_fraction(m: Precision, a: Value, b: Value, x: Value) -> Value:
    """1/(1 + d1/(1 + d2/(1 + ...))), two steps at a time."""
    total = m.add(a, b)
    one = m.constant(1.0)
    d = m.div(1.0, m.sub(1.0, m.div(m.mul(total, x), m.add(a, 1.0))))
    more: list[Value] = []
    with m.builder.loop_carrying(
        llvm_ir.i64(0), llvm_ir.i64(m.most_steps), 1, [one, one, d, d], more=more
    ) as (_, carried, results):
        i, c, d, value = carried
        place = m.add(a, m.add(i, i))
        even = m.mul(m.mul(i, m.sub(b, i)), x)
        odd = m.negate(m.mul(m.mul(m.add(a, i), m.add(total, i)), x))
        for numerator, denominator in (
            (even, m.mul(m.sub(place, 1.0), place)),
            (odd, m.mul(place, m.add(place, 1.0))),
        ):
            d = m.div(denominator, m.fma(numerator, d, denominator))
            c = m.add(m.div(numerator, m.mul(denominator, c)), 1.0)
            change = m.mul(c, d)
            value = m.mul(value, change)
        carried[:] = [m.add(i, 1.0), c, d, value]
        more.append(_has_changed(m, change))
    return results[3]
