"""The regularized incomplete beta function I_x(a, b): betainc.

    I_x(a, b) = F / (c1 + d2/(c2 + d3/(c3 + ...))),   x <= a/(a+b);   F = x^a (1-x)^b / B(a, b)

and I_x(a, b) = 1 - I_{1-x}(b, a) else. With s = a (1-x) - b x, what F is largest for s = 0 of,

    d_{m+1} = (a+m-1) (a+b+m-1) m (b-m) x^2 / (a+2m-1)^2
    c_{m+1} = m + m (b-m) x / (a+2m-1) + (a+m) (s + 1 + m (2-x)) / (a+2m+1)

(A. R. Didonato, A. H. Morris, 1992), where nothing leaves anything for parameters of very different sizes either. With
n = a + b and phi(u) = u - log(1 + u)

    F = sqrt(a b / (2 pi n)) e^(-a phi(-s/a) - b phi(s/b) + r(n) - r(a) - r(b))

where r is what lgamma has beside (a - 1/2) log a - a + log(2 pi)/2; the exponent has two words. Where both parameters
are large and x is not far from a/n :mod:`.uniform_beta` replaces the fraction. It gets long where b is below 1/2 and
1 - x small beside 1/a, and I_x, which is small too, would be lost in a difference; there

    I_{1-x}(b, a) = (1-x)^b / (b B(a, b)) (1 + b ((1-a) (1-x)/(1!(b+1)) + (1-a)(2-a) (1-x)^2/(2!(b+2)) + ...))

is e to the power of something small, of which expm1 has all digits. (Likewise for a below 1/2 and x small beside 1/b.)
"""

from __future__ import annotations

import math
from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from . import uniform_beta
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .branches import where_any
from .exponential import exp_of_pair, expm1
from .gamma import lgamma_of_one_and, lgamma_step, stirling_rest
from .incomplete import is_ordinary, series_of_parts, steed_step, still_counts
from .logarithm import log1p, log_pair
from .series import Precision, called
from .uniform_gamma import exponent_of, phi_of

# Below this second parameter the series or, beyond its range of fast convergence, the fraction, but no difference.
_SMALL_PARAMETER: Final = 0.5
# Up to here (1 - x) (1 + a) may be for the series.
_SERIES_UP_TO: Final = 0.5
# A smaller parameter is as good as this one times a number, if the other one is not small too.
_TINY: Final = {"float": 2.0**-110, "double": 2.0**-900}
# Two smaller ones are as good as both times _SCALE.
_BOTH_TINY: Final = {"float": 2.0**-80, "double": 2.0**-700}
_SCALE: Final = {"float": 2.0**50, "double": 2.0**256}
# In two words of the format.
_LN2: Final = {
    "float": (0.6931471824645996, -1.904654323148236e-09),
    "double": (0.6931471805599453, 2.3190468138462996e-17),
}
# e to the power of this is nothing.
_NOTHING: Final = {"float": -160.0, "double": -1000.0}


def betainc(builder: Builder, target: Target, a: Value, b: Value, x: Value) -> Value:
    """The regularized incomplete beta function I_x(a, b).

    float: below 1 ulp where the target has double, double: below 16 ulp. For a or b 0 or infinite the limit, NaN where
    there is none.
    """
    return called(builder, target, "betainc", _beta, a, b, x)


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
    a, b, share = _ordinary_sizes(m, a, b)
    y = m.two_sum(m.constant(1.0), m.negate(x))
    total = m.two_sum(a, b)
    distance = m.pair_add(m.fast_two_sum(*m.pair_scale(y, a)), m.pair_negate(m.two_product(b, x)))
    is_below = m.compare("oge", distance.high, 0.0)
    deviance = m.pair_add(
        _part_of_deviance(m, a, m.pair_negate(distance), total, Pair(x, m.constant(0.0))),
        _part_of_deviance(m, b, distance, total, y),
    )
    rests = [m.pair_negate(stirling_rest(m, a)), m.pair_negate(stirling_rest(m, b))]
    rest = m.pair_add(stirling_rest(m, total.high), m.pair_add(*rests))
    exponent = m.pair_add(rest, m.pair_negate(deviance))
    exponent = Pair(m.at_least(exponent.high, _NOTHING[m.scalar]), exponent.low)

    of_small_b, of_small_a = (
        m.both(m.compare("olt", q, _SMALL_PARAMETER), m.compare("olt", limit, _SERIES_UP_TO))
        for q, limit in ((b, m.mul(y.high, m.add(a, 1.0))), (a, m.mul(x, m.add(b, 1.0))))
    )
    of_small_a = m.both(of_small_a, m.is_not(is_below))
    by_series = m.either(of_small_a, of_small_b)
    uniform = uniform_beta.holds(m, a, b, deviance.high)
    tail = uniform_beta.tail_by_density(m, a, b, deviance.high, is_below)
    by_fraction = m.is_not(m.either(uniform, by_series))
    first, second = m.select(is_below, a, b), m.select(is_below, b, a)
    places = Pair(m.select(is_below, x, y.high), m.select(is_below, y.high, x))
    fraction = _fraction(m, first, second, places, m.absolute(distance.high), by_fraction)
    is_less = m.compare("olt", a, b)
    lesser, larger = m.select(is_less, a, b), m.select(is_less, b, a)
    root = m.sqrt(m.mul(m.mul(m.div(larger, total.high), lesser), 0.5 / math.pi))
    factor = m.select(uniform, tail, m.mul(root, fraction))
    value = exp_of_pair(m, exponent.high, exponent.low, factor)

    large, little = m.select(of_small_a, b, a), m.select(of_small_a, a, b)
    arguments = large, little, m.select(of_small_a, x, y.high)
    value = where_any(m, by_series, arguments, value, "betainc_small", _of_small)
    is_lower = m.either(of_small_b, m.both(is_below, m.is_not(of_small_a)))
    return m.mul(m.select(is_lower, value, m.sub(1.0, value)), share)


def _ordinary_sizes(m: Arithmetic, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """(a, b, a factor of the result): the same function of parameters that leave room above and below."""
    larger = m.select(m.compare("ogt", a, b), a, b)
    scale = m.select(m.compare("olt", larger, _BOTH_TINY[m.scalar]), _SCALE[m.scalar], 1.0)
    # The distribution of parameters whose sum is infinite is all at one number.
    scale = m.select(m.compare("oeq", m.add(a, b), INFINITY), 2.0**-60, scale)
    a, b = m.mul(a, scale), m.mul(b, scale)
    tiny = _TINY[m.scalar]
    share = m.select(m.compare("olt", b, tiny), m.mul(b, 1 / tiny), 1.0)
    return m.at_least(a, tiny), m.at_least(b, tiny), share


def _part_of_deviance(m: Arithmetic, a: Value, s: Pair, total: Pair, x: Pair) -> Pair:
    """a phi(s/a), where 1 + s/a is x total/a."""
    whole = Pair(a, m.constant(0.0))
    # The second word of a small ratio has to be a normal number.
    is_tiny = m.compare("olt", x.high, _TINY[m.scalar])
    bits = 128.0 if m.is_double else 32.0
    scale, shift = m.select(is_tiny, 2.0**bits, 1.0), m.select(is_tiny, bits, 0.0)
    scaled = Pair(m.mul(x.high, scale), m.mul(x.low, scale))
    ratio = m.pair_quotient(m.fast_two_sum(*m.pair_product(total, scaled)), whole)
    logarithm = m.fast_two_sum(*log_pair(m, m.fast_two_sum(*ratio)))
    unscaled = Pair(*(m.mul(shift, -word) for word in _LN2[m.scalar]))
    logarithm = m.pair_add(logarithm, unscaled)
    phi = phi_of(m, m.fast_two_sum(*m.pair_quotient(s, whole)), logarithm)
    return exponent_of(m, phi, a)


def _fraction(m: Precision, a: Value, b: Value, x: Pair, s: Value, wanted: Value) -> Value:
    """1/(c1 + d2/(c2 + ...)), as the sum of the changes that each step makes (J. Steed); ``x``: x and 1 - x."""
    a, b, s = (m.select(wanted, v, other) for v, other in ((a, 1.0), (b, 1.0), (s, 0.0)))
    place, rest = (m.select(wanted, v, 0.5) for v in x)
    one, start = m.constant(1.0), m.add(s, 1.0)
    total, growth = m.add(a, b), m.add(rest, 1.0)
    inverse = m.div(1.0, m.add(a, 1.0))
    d = m.div(1.0, m.mul(m.mul(a, inverse), start))
    more: list[Value] = []
    initial = [one, inverse, d, d, d]
    with m.builder.loop_carrying(
        llvm_ir.i64(0), llvm_ir.i64(m.most_steps), 1, initial, more=more
    ) as (_, carried, results):
        i, inverse, d, change, value = carried
        before = m.sub(i, 1.0)
        weight = m.mul(m.mul(m.sub(b, i), place), i)
        up = m.mul(m.mul(m.add(total, before), place), inverse)
        numerator = m.mul(m.mul(m.mul(m.add(a, before), inverse), up), weight)
        next_inverse = m.div(1.0, m.add(a, m.add(m.add(i, i), 1.0)))
        partial = m.mul(m.mul(m.add(a, i), next_inverse), m.fma(i, growth, start))
        partial = m.add(m.fma(weight, inverse, i), partial)
        d, change, value = steed_step(m, numerator, partial, d, change, value)
        carried[:] = [m.add(i, 1.0), next_inverse, d, change, value]
        more.append(still_counts(m, change, value))
    return results[4]


def _of_small(m: Arithmetic, a: Value, b: Value, y: Value) -> Value:
    """I_{1-y}(a, b) for b below 1/2 and y small beside 1/a."""
    b = m.at_most(b, _SMALL_PARAMETER)
    # Other lanes are computed too; their numbers must not make the loop longer.
    limit = m.div(_SERIES_UP_TO, m.add(a, 1.0))
    y = m.select(m.compare("olt", y, limit), y, limit)
    total = series_of_parts(m, b, 80, lambda i, term: m.mul(term, m.div(m.mul(m.sub(i, a), y), i)))
    series = log1p(m.builder, m.target, m.mul(b, total))
    logarithm = m.sub(lgamma_step(m, a, b, y), lgamma_of_one_and(m, b))
    return m.negate(expm1(m.builder, m.target, m.add(logarithm, series)))
