"""The derivative of the incomplete gamma function P(a, x) by a.

With the series S and the fraction h of :mod:`.incomplete`, and l = log x - digamma(a + 1),

    dP/da = f S/a (l + S'/S),    dP/da = -f h (l + 1/a + h'/h),    f = x^a e^-x / gamma(a)

S' and h' are summed beside S and h, term by term; for large a and x near it the derivative of :mod:`.uniform_gamma`'s
expansion.
"""

from __future__ import annotations

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import NAN, Pair
from .gamma import digamma_of_positive
from .incomplete import gamma_factor, is_ordinary, not_tiny
from .logarithm import log_pair
from .series import Precision, called
from .uniform_gamma import slope_by_parameter


def igamma_grad_a(builder: Builder, target: Target, a: Value, x: Value) -> Value:
    """dP(a, x)/da. float: below 1 ulp where the target has double; double: below 40 ulp.

    0 for x = 0; NaN for a or x that are infinite or below 0, and for a = 0.
    """
    return called(builder, target, "igamma_grad_a", _slope, a, x)


def _slope(m: Precision, a: Value, x: Value) -> Value:
    valid = m.both(is_ordinary(m, a), is_ordinary(m, x))
    nothing = m.both(m.compare("oeq", x, 0.0), m.compare("ogt", a, 0.0))
    a, x = m.select(valid, a, 1.0), m.select(valid, x, 0.5)
    a, _ = not_tiny(m, a)
    factor, near, distance = gamma_factor(m, a, x)
    from_above = m.both(m.compare("ogt", x, 1.0), m.compare("ogt", x, a))
    logarithm = m.pair_sum(log_pair(m, Pair(x, m.constant(0.0))))
    common = m.sub(logarithm, digamma_of_positive(m, m.add(a, 1.0)))
    inverse = m.div(1.0, a)
    total, slope = _lower_series(m, a, x, m.either(near, from_above))
    lower = m.mul(m.mul(total, inverse), m.add(common, m.div(slope, total)))
    fraction, relative = _upper_fraction(m, a, x, m.both(from_above, m.is_not(near)))
    upper = m.negate(m.mul(fraction, m.add(m.add(common, inverse), relative)))
    value = m.mul(m.select(from_above, upper, lower), factor)
    value = m.select(near, slope_by_parameter(m, a, distance), value)
    return m.select(valid, value, m.select(nothing, 0.0, NAN))


def _still(m: Precision, change: Value, total: Value) -> Value:
    """Whether a change still counts, in each lane."""
    return m.compare("ogt", m.absolute(change), m.mul(m.absolute(total), m.nothing))


def _lower_series(m: Precision, a: Value, x: Value, not_wanted: Value) -> tuple[Value, Value]:
    """S = 1 + x/(a+1) + x^2/((a+1)(a+2)) + ... and its derivative by a."""
    more: list[Value] = []
    one, zero = m.constant(1.0), m.constant(0.0)
    x = m.select(not_wanted, 0.0, x)
    with m.builder.loop_carrying(
        llvm_ir.i64(0),
        llvm_ir.i64(m.most_steps),
        1,
        [m.add(a, 1.0), one, zero, one, zero],
        more=more,
    ) as (_, carried, results):
        n, term, slope, total, slopes = carried
        inverse = m.div(1.0, n)
        ratio = m.mul(x, inverse)
        term = m.mul(term, ratio)
        slope = m.sub(m.mul(slope, ratio), m.mul(term, inverse))
        total, slopes = m.add(total, term), m.add(slopes, slope)
        carried[:] = [m.add(n, 1.0), term, slope, total, slopes]
        goes_on = m.either(_still(m, term, total), _still(m, slope, slopes))
        more.append(m.builder.any_lane(goes_on))
    return results[3], results[4]


def _upper_fraction(m: Precision, a: Value, x: Value, wanted: Value) -> tuple[Value, Value]:
    """h = 1/(x+1-a - (1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))) and its derivative by a over h: sums of changes."""
    a, x = m.select(wanted, a, 1.5), m.select(wanted, x, 10.0)
    partial = m.sub(m.add(x, 1.0), a)
    d = m.div(1.0, partial)
    square = m.mul(d, d)  # the derivative of 1/partial
    more: list[Value] = []
    # Step, denominator of the step, Steed's d, a change and the sum of changes, each with its derivative.
    initial = [m.constant(1.0), partial, d, square, d, square, d, square]
    with m.builder.loop_carrying(
        llvm_ir.i64(0), llvm_ir.i64(m.most_steps), 1, initial, more=more
    ) as (_, carried, results):
        i, partial, before, before_slope, change, change_slope, value, slope = carried
        numerator = m.mul(i, m.sub(a, i))  # its derivative is i, the denominator's -1
        partial = m.add(partial, 2.0)
        product = m.mul(numerator, before)
        product_slope = m.fma(i, before, m.mul(numerator, before_slope))
        d = m.div(1.0, m.add(partial, product))
        d_slope = m.negate(m.mul(m.mul(d, d), m.add(product_slope, -1.0)))
        factor = m.negate(m.mul(product, d))
        factor_slope = m.negate(m.fma(product_slope, d, m.mul(product, d_slope)))
        change_slope = m.fma(factor, change_slope, m.mul(factor_slope, change))
        change = m.mul(factor, change)
        value, slope = m.add(value, change), m.add(slope, change_slope)
        carried[:] = [m.add(i, 1.0), partial, d, d_slope, change, change_slope, value, slope]
        goes_on = m.either(_still(m, change, value), _still(m, change_slope, slope))
        more.append(m.builder.any_lane(goes_on))
    return results[6], m.div(results[7], results[6])
