"""The regularized incomplete gamma functions: igamma (P) and igammac (Q = 1 - P).

    P(a, x) = f/a (1 + x/(a+1) + x^2/((a+1)(a+2)) + ...),                        x < 1 or x <= a
    Q(a, x) = f / (x+1-a - (1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))),                else;  f = x^a e^-x / gamma(a)

(DLMF 8.7.1, 8.9.2), and where a is large and x near it by :mod:`.uniform_gamma`. The loops go on until the terms of all
lanes are nothing.

The factor before them is e to the power of a sum in which large terms leave each other, so that has two words. Float is
computed in double where the target has it: one minus a number near one has digits enough then.

    Q(a, x) = 1 - x^a / gamma(1+a) (1 + a (-x/(1!(a+1)) + x^2/(2!(a+2)) - ...))

by expm1 of the logarithm, for x < 1 and a < 1/2, has all digits.
"""

from __future__ import annotations

from collections.abc import Callable

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .branches import where_any
from .exponential import expm1
from .gamma import lgamma_of_one_and, lgamma_of_positive
from .logarithm import log1p, log_pair
from .series import NOTHING, Precision, called, exp_of_pair
from .uniform_gamma import Deviation, deviation, factor_of_large, smaller_tail


def igamma(builder: Builder, target: Target, a: Value, x: Value) -> Value:
    """The regularized lower incomplete gamma function P(a, x).

    float: below 1 ulp where the target has double. double: below 10 ulp. P(0, x) is 1 but NaN for x = 0; P(a, inf) is
    1 but NaN for a = inf; NaN for negative arguments.
    """
    return called(builder, target, "igamma", _lower, a, x)


def igammac(builder: Builder, target: Target, a: Value, x: Value) -> Value:
    """The regularized upper incomplete gamma function Q = 1 - P. double: below 24 ulp; else as :func:`igamma`."""
    return called(builder, target, "igammac", _upper, a, x)


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
    limit = m.select(
        m.compare("oeq", x, INFINITY), m.select(m.compare("oeq", a, INFINITY), NAN, 1.0), limit
    )
    return m.select(m.either(m.compare("olt", a, 0.0), m.compare("uno", a, x)), NAN, limit)


def _gamma_parts(m: Precision, a: Value, x: Value) -> tuple[Value, Value, Value, Value]:
    """(whether Q is the one computed, P, Q, whether this is so: both arguments are above 0 and finite)."""
    valid = m.both(is_ordinary(m, a), is_ordinary(m, x))
    a, x = m.select(valid, a, 1.0), m.select(valid, x, 0.5)
    a, share = not_tiny(m, a)
    factor, near, distance = gamma_factor(m, a, x)
    from_above = m.both(m.compare("oge", x, 1.0), m.compare("ogt", x, a))
    from_above = m.either(from_above, m.both(near, m.compare("oge", x, a)))
    lower = m.mul(m.div(factor, a), _lower_series(m, a, x, m.either(near, from_above)))
    upper = m.mul(factor, _upper_fraction(m, a, x, m.both(from_above, m.is_not(near))))
    upper = m.mul(upper, share)
    tail = smaller_tail(m, a, distance)
    lower = m.at_most(m.select(near, tail, lower), 1.0)
    return from_above, lower, m.select(near, tail, upper), valid


def not_tiny(m: Arithmetic, a: Value) -> tuple[Value, Value]:
    """A parameter of which 1/a is a number, and how many times that a is: Q(a, x) is a multiple of so small an a."""
    tiny = 2.0**-900 if m.is_double else 2.0**-100
    return m.at_least(a, tiny), m.select(m.compare("olt", a, tiny), m.mul(a, 1 / tiny), 1.0)


def gamma_factor(m: Arithmetic, a: Value, x: Value) -> tuple[Value, Value, Deviation]:
    """(x^a e^-x / gamma(a), whether :mod:`.uniform_gamma`'s expansion holds, what that asks for)."""
    zero = m.constant(0.0)
    is_large = m.compare("oge", a, 8.0)
    modest = m.select(is_large, 1.0, a)
    power = m.pair_scale(log_pair(m, Pair(x, zero)), modest)
    exponent = m.pair_add(m.fast_two_sum(*power), m.pair_negate(Pair(x, zero)))
    whole = m.pair_negate(m.fast_two_sum(*lgamma_of_positive(m, modest)))
    factor = exp_of_pair(m, m.pair_add(exponent, whole))
    distance = deviation(m, m.select(is_large, a, 8.0), x)
    of_large = factor_of_large(m, a, distance.exponent)
    return m.select(is_large, of_large, factor), distance.is_near(m, a), distance


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
        more.append(m.builder.any_lane(m.compare("ogt", term, m.mul(total, m.nothing))))
    return results[2]


def _upper_fraction(m: Precision, a: Value, x: Value, wanted: Value) -> Value:
    """1/(x+1-a - (1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))), as the sum of the changes that each step makes (J. Steed)."""
    a, x = m.select(wanted, a, 1.0), m.select(wanted, x, 10.0)
    partial = m.sub(m.add(x, 1.0), a)
    d = m.div(1.0, partial)
    more: list[Value] = []
    # The numerator is i (a - i).
    initial = [m.constant(1.0), partial, d, d, d]
    with m.builder.loop_carrying(
        llvm_ir.i64(0), llvm_ir.i64(m.most_steps), 1, initial, more=more
    ) as (_, carried, results):
        i, partial, d, change, value = carried
        numerator = m.mul(i, m.sub(a, i))
        partial = m.add(partial, 2.0)
        d, change, value = steed_step(m, numerator, partial, d, change, value)
        carried[:] = [m.add(i, 1.0), partial, d, change, value]
        more.append(still_counts(m, change, value))
    return results[4]


def steed_step(
    m: Precision, numerator: Value, partial: Value, d: Value, change: Value, value: Value
) -> tuple[Value, Value, Value]:
    """A step of a continued fraction: the denominators' ratio, the change that the step makes, and the value so far."""
    product = m.mul(numerator, d)
    d = m.div(1.0, m.add(partial, product))
    change = m.negate(m.mul(m.mul(product, d), change))
    return d, change, m.add(value, change)


def still_counts(m: Precision, change: Value, total: Value) -> Value:
    """Whether a change is more than nothing beside a total in a lane."""
    size = m.mul(m.absolute(total), m.nothing)
    return m.builder.any_lane(m.compare("ogt", m.absolute(change), size))


def _upper_of_small(m: Arithmetic, a: Value, x: Value) -> Value:
    """Q(a, x) for x < 1 and a < 1/2."""
    # Other lanes are computed too; their numbers must not make the loop longer.
    a, x = m.at_most(a, 0.5), m.at_most(x, 1.0)
    total = series_of_parts(m, a, 40, lambda n, term: m.negate(m.mul(term, m.div(x, n))))
    series = log1p(m.builder, m.target, m.mul(a, total))
    zero = m.constant(0.0)
    power = m.pair_scale(log_pair(m, Pair(x, zero)), a)
    logarithm = m.add(m.pair_sum(power), m.sub(series, lgamma_of_one_and(m, a)))
    return m.negate(expm1(m.builder, m.target, logarithm))


def series_of_parts(
    m: Arithmetic, a: Value, most: int, following: Callable[[Value, Value], Value]
) -> Value:
    """The sum of t(n) / (a + n) from n = 1 on, where t(n) = ``following`` (n, t(n - 1)) and t(0) = 1; of at most
    ``most`` terms.
    """
    more: list[Value] = []
    initial = [m.constant(1.0), m.constant(1.0), m.constant(0.0)]
    with m.builder.loop_carrying(llvm_ir.i64(0), llvm_ir.i64(most), 1, initial, more=more) as (
        _,
        carried,
        results,
    ):
        n, term, total = carried
        term = following(n, term)
        part = m.div(term, m.add(a, n))
        total = m.add(total, part)
        carried[:] = [m.add(n, 1.0), term, total]
        size = m.absolute(m.mul(total, NOTHING[m.scalar]))
        more.append(m.builder.any_lane(m.compare("ogt", m.absolute(part), size)))
    return results[2]
