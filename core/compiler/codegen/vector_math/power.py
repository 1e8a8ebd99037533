"""pow: x^y = 2^(y log2 |x|), the logarithm in more precision than the result has.

|x| = m 2^k with m in [sqrt(1/2), sqrt 2) and s = (m - 1)/(m + 1), so that log m = 2 atanh s.

``float`` computes in ``double``: log2 m = s L(s^2) with relative error 2^-45, 2^f to 2^-34.5; the
conversion of the result rounds once, overflows and makes denormals. ``double`` (and ``float`` on
devices without ``double``) computes log m = 2 s + s^3 (2/3 + s^2 P(s^2)) in double words, all but P,
to about 2^-64 (2^-38). Coefficients are minimax for
the relative error (Remez exchange in 180-bit arithmetic).
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .exponential import _EXP
from .logarithm import normalise, split_exponent, to_floating

_LOG2: Final = (
    2.8853900817778495, 0.9617966941142595, 0.577077942074736, 0.4122092838779623,
    0.3199043221052746, 0.28292090595468833,
)  # fmt: skip
_EXP2: Final = (
    0.9999999999616219, 0.6931471807287579, 0.24022651198710906, 0.055504103525815765,
    0.00961802717314033, 0.0013333923027573976, 0.00015469317952038629, 1.5201870391958842e-05,
)  # fmt: skip
_LOG: Final = (
    0.4, 0.28571428571428376, 0.22222222222291063, 0.18181818169176509, 0.15384616760168032,
    0.13333240056721993, 0.11768686023209778, 0.10422689063234197, 0.11014901365388598,
)  # fmt: skip
# In two words of the format.
_TWO_THIRDS: Final = {
    "float": (0.6666666865348816, -1.9868215517249155e-08),
    "double": (0.6666666666666666, 3.700743415417188e-17),
}
_LN2: Final = {
    "float": (0.6931471824645996, -1.9046542121259336e-09),
    "double": (0.6931471805599453, 2.3190468138462996e-17),
}
_LOG2_E: Final = {
    "float": (1.4426950216293335, 1.925963033500011e-08),
    "double": (1.4426950408889634, 2.0355273740931033e-17),
}


def pow(builder: Builder, target: Target, x: Value, y: Value) -> Value:
    """x to the power of y. float: below 0.51 ulp (1 ulp without double); double: below 1 ulp.

    Special values as in C99.
    """
    m = Arithmetic(builder, target, x.type)
    in_double = not m.is_double and target.has_double
    magnitude = _power_float_in_double(m, x, y) if in_double else _power_in_words(m, x, y)
    # 1 to any power is 1, infinite ones too.
    is_one = m.both(m.compare("oeq", m.absolute(x), 1.0), m.compare("ord", y, y))
    magnitude = m.select(is_one, 1.0, magnitude)
    is_integer = m.compare("oeq", y, _truncate(m, y))
    half = m.mul(y, 0.5)
    is_odd = m.both(is_integer, m.compare("une", half, _truncate(m, half)))
    sign_bit = m.int_and(m.bits(x), -(1 << (m.format.bits - 1)))
    sign = builder.select(is_odd, sign_bit, m.integer(0))
    value = m.from_bits(m.int_or(m.bits(magnitude), sign))
    negative = m.both(m.compare("olt", x, 0.0), m.compare("ogt", x, -INFINITY))
    no_real = m.both(negative, m.compare("une", y, _truncate(m, y)))
    value = m.select(no_real, NAN, value)
    return m.select(m.either(m.compare("oeq", y, 0.0), m.compare("oeq", x, 1.0)), 1.0, value)


def _truncate(m: Arithmetic, x: Value) -> Value:
    return m.builder.intrinsic("trunc", [x])


def _power_float_in_double(m: Arithmetic, x: Value, y: Value) -> Value:
    """|x|^y; NaN for 0^0, inf^0 and 1^inf."""
    b = m.builder
    d = Arithmetic(b, m.target, llvm_ir.vector("double", m.lanes))
    a = b.cast("fpext", m.absolute(x), d.type)
    mantissa, k = split_exponent(d, a)
    s = d.div(d.sub(mantissa, 1.0), d.add(mantissa, 1.0))
    z = d.mul(s, s)
    logarithm = d.fma(s, d.polynomial(z, _LOG2), to_floating(d, k))
    logarithm = d.select(d.compare("olt", a, INFINITY), logarithm, a)  # inf, NaN
    logarithm = d.select(d.compare("oeq", a, 0.0), -INFINITY, logarithm)
    t = d.mul(b.cast("fpext", y, d.type), logarithm)
    t = d.at_least(d.at_most(t, 300.0), -300.0)
    n, n_integer = d.round(t)
    p = d.polynomial(d.sub(t, n), _EXP2)
    return b.cast("fptrunc", d.mul(p, d.exp2_integer(n_integer)), m.type)


def _power_in_words(m: Arithmetic, x: Value, y: Value) -> Value:
    """|x|^y; NaN for 0^0, inf^0 and 1^inf."""
    two_thirds, ln2, log2_e = (c[m.scalar] for c in (_TWO_THIRDS, _LN2, _LOG2_E))
    a = m.absolute(x)
    mantissa, k = normalise(m, a)
    # s = numerator / denominator in two words; the numerator is exact.
    numerator = m.sub(mantissa, 1.0)
    denominator = m.two_sum(mantissa, m.constant(1.0))
    s_high = m.div(numerator, denominator.high)
    back = m.two_product(s_high, denominator.high)
    residual = m.sub(m.sub(numerator, back.high), back.low)
    residual = m.fnma(s_high, denominator.low, residual)
    s = Pair(s_high, m.div(residual, denominator.high))
    z = m.pair_multiply(s, s)
    tail = m.mul(z.high, m.polynomial(z.high, _LOG))
    series = m.fast_two_sum(m.constant(two_thirds[0]), tail)
    series = Pair(series.high, m.add(series.low, two_thirds[1]))
    cubic = m.pair_multiply(m.pair_multiply(s, z), series)
    logarithm = m.pair_add(Pair(m.add(s.high, s.high), m.add(s.low, s.low)), cubic)
    logarithm = m.pair_multiply(logarithm, m.pair_constant(*log2_e))
    logarithm = m.pair_add(Pair(to_floating(m, k), m.constant(0.0)), logarithm)
    high = m.select(m.compare("olt", a, INFINITY), logarithm.high, a)  # inf, NaN
    high = m.select(m.compare("oeq", a, 0.0), -INFINITY, high)
    # t = y log2 |x| in two words, 2^t = 2^n e^(r + tail).
    product = m.two_product(y, high)
    limit = 1100.0 if m.is_double else 200.0
    t = m.at_least(m.at_most(product.high, limit), -limit)
    in_range = m.compare("olt", m.absolute(product.high), limit)
    tail = m.select(in_range, m.fma(y, logarithm.low, product.low), 0.0)
    n, n_integer = m.round(t)
    f = m.two_sum(m.sub(t, n), tail)  # the difference is exact
    scaled = m.two_product(f.high, m.constant(ln2[0]))
    r = scaled.high
    r_tail = m.fma(f.low, ln2[0], m.fma(f.high, ln2[1], scaled.low))
    q = m.polynomial(r, _EXP[m.scalar])
    p = m.add(m.add(m.fma(m.mul(r, r), q, m.fma(r_tail, r, r_tail)), r), 1.0)
    return m.scale(p, n_integer)
