"""The derivative of the incomplete gamma function P(a, x) by a.

With the series S and the fraction h of :mod:`.incomplete`, and l = log x - digamma(a + 1),

    dP/da = f S/a (l + S'/S),    dP/da = -f h (l + 1/a + h'/h),    f = x^a e^-x / gamma(a)

S' and h' are summed beside S and h, term by term.
"""

from __future__ import annotations

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import NAN, Pair
from .branches import any_lane
from .gamma import digamma_of_positive
from .incomplete import gamma_factor, is_ordinary
from .logarithm import log_pair
from .series import Precision, called


def igamma_grad_a(builder: Builder, target: Target, a: Value, x: Value) -> Value:
    """dP(a, x)/da. float: below 1 ulp where the target has double; double: below 60 ulp for a up to 100.

    0 for x = 0; NaN for a or x that are infinite or below 0, and for a = 0.
    """
    return called(builder, target, "igamma_grad_a", _slope, a, x)


def _slope(m: Precision, a: Value, x: Value) -> Value:
    valid = m.both(is_ordinary(m, a), is_ordinary(m, x))
    nothing = m.both(m.compare("oeq", x, 0.0), m.compare("ogt", a, 0.0))
    a, x = m.select(valid, a, 1.0), m.select(valid, x, 0.5)
    from_above = m.both(m.compare("ogt", x, 1.0), m.compare("ogt", x, a))
    logarithm = m.pair_sum(log_pair(m, Pair(x, m.constant(0.0))))
    common = m.sub(logarithm, digamma_of_positive(m, m.add(a, 1.0)))
    inverse = m.div(1.0, a)
    total, slope = _lower_series(m, a, x, from_above)
    lower = m.mul(m.mul(total, inverse), m.add(common, m.div(slope, total)))
    fraction, relative = _upper_fraction(m, a, x, from_above)
    upper = m.negate(m.mul(fraction, m.add(m.add(common, inverse), relative)))
    value = m.mul(m.select(from_above, upper, lower), gamma_factor(m, a, x))
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
        more.append(any_lane(m.builder, goes_on, m.lanes))
    return results[3], results[4]


def _upper_fraction(m: Precision, a: Value, x: Value, wanted: Value) -> tuple[Value, Value]:
    """h = 1/(x+1-a - (1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))) and its derivative by a over h."""
    a, x = m.select(wanted, a, 1.5), m.select(wanted, x, 10.0)
    partial = m.sub(m.add(x, 1.0), a)
    d = m.div(1.0, partial)
    more: list[Value] = []
    # Step, denominator of the step, Lentz's c and d and their derivatives, h, its derivative over it.
    initial = [
        m.constant(1.0),
        partial,
        m.constant(2.0**100),
        m.constant(0.0),
        d,
        m.mul(d, d),
        d,
        d,
    ]
    with m.builder.loop_carrying(
        llvm_ir.i64(0), llvm_ir.i64(m.most_steps), 1, initial, more=more
    ) as (_, carried, results):
        i, partial, c, c_slope, d, d_slope, value, relative = carried
        numerator = m.mul(i, m.sub(a, i))  # its derivative is i, the denominator's -1
        partial = m.add(partial, 2.0)
        inner = m.add(m.fma(i, d, m.mul(numerator, d_slope)), -1.0)
        d = m.div(1.0, m.fma(numerator, d, partial))
        d_slope = m.negate(m.mul(m.mul(d, d), inner))
        quotient = m.div(1.0, c)
        c_slope = m.mul(quotient, m.fnma(m.mul(numerator, quotient), c_slope, i))
        c_slope = m.add(c_slope, -1.0)
        c = m.fma(numerator, quotient, partial)
        factor = m.mul(c, d)
        change = m.add(m.div(c_slope, c), m.div(d_slope, d))
        value, relative = m.mul(value, factor), m.add(relative, change)
        carried[:] = [m.add(i, 1.0), partial, c, c_slope, d, d_slope, value, relative]
        goes_on = m.compare("ogt", m.absolute(m.sub(factor, 1.0)), 2 * m.nothing)
        goes_on = m.either(goes_on, _still(m, change, relative))
        more.append(any_lane(m.builder, goes_on, m.lanes))
    return results[6], results[7]
