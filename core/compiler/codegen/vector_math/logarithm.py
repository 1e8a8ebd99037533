"""log and log1p.

The argument is m 2^k with m in [sqrt(1/2), sqrt 2), and f = m - 1 is exact. Then

    float:   log(1 + f) = f - f^2/2 + f^3 q(f)
    double:  log(1 + f) = f - (f^2/2 - s (f^2/2 + R)),  s = f / (2 + f),  R = s^2 q(s^2)   (the form of fdlibm's log)

with q minimax for the relative error of log(1 + f) (Remez exchange in 180-bit arithmetic): 2^-27.2
and 2^-57.9. k ln 2 is added in two words, the first of which times k is exact.
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Arithmetic

_FLOAT: Final = (
    0.3333333134651184, -0.2500081956386566, 0.20001228153705597, -0.1662335991859436, 0.1420174092054367,
    -0.131601482629776, 0.127616748213768, -0.0763469934463501,
)  # fmt: skip
_DOUBLE: Final = (
    0.6666666666666734, 0.39999999999414326, 0.285714287424745, 0.22222198563474252, 0.1818356486881029,
    0.1531403575361117, 0.1479610646580776,
)  # fmt: skip
_LN2: Final = {
    "float": (0.693359375, -2.12194440054690583e-4),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}
_SQRT_HALF_BITS: Final = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}
_SMALLEST_NORMAL: Final = {"float": 2.0**-126, "double": 2.0**-1022}


def split_exponent(m: Arithmetic, x: Value) -> tuple[Value, Value]:
    """(mantissa in [sqrt(1/2), sqrt 2), exponent as integer) of a positive normal number."""
    offset = m.int_sub(m.bits(x), _SQRT_HALF_BITS[m.scalar])
    k = m.shift_right_signed(offset, m.format.mantissa)
    return m.from_bits(m.int_sub(m.bits(x), m.shift_left(k, m.format.mantissa))), k


def normalise(m: Arithmetic, x: Value) -> tuple[Value, Value]:
    """As :func:`split_exponent` for denormal numbers too."""
    is_denormal = m.compare("olt", x, _SMALLEST_NORMAL[m.scalar])
    shift = m.format.mantissa + 1
    mantissa, k = split_exponent(m, m.select(is_denormal, m.mul(x, 2.0**shift), x))
    return mantissa, m.builder.select(is_denormal, m.int_sub(k, shift), k)


def to_floating(m: Arithmetic, k: Value) -> Value:
    """A small integer as floating point. (For i64 through the magic number: not every CPU converts those.)"""
    if not m.is_double:
        return m.builder.cast("sitofp", k, m.type)
    return m.sub(m.from_bits(m.int_add(k, m.bits_of(m.format.magic))), m.format.magic)


def _log_reduced(m: Arithmetic, f: Value, k: Value) -> Value:
    """log(1 + f) + k ln 2."""
    high, low = _LN2[m.scalar]
    kf = to_floating(m, k)
    half_square = m.mul(m.mul(f, 0.5), f)
    if m.is_double:
        s = m.div(f, m.add(f, 2.0))
        z = m.mul(s, s)
        r = m.mul(z, m.polynomial(z, _DOUBLE))
        tail = m.fma(s, m.add(half_square, r), m.mul(kf, low))
        return m.fma(kf, high, m.sub(f, m.sub(half_square, tail)))
    q = m.polynomial(f, _FLOAT)
    square = m.mul(f, f)
    tail = m.fma(kf, low, m.mul(m.mul(square, f), q))
    return m.fma(kf, high, m.add(f, m.sub(tail, half_square)))


def log(builder: Builder, target: Target, x: Value) -> Value:
    """Natural logarithm. float: below 0.9 ulp; double: below 1 ulp. 0 -> -inf, negative -> NaN."""
    m = Arithmetic(builder, target, x.type)
    mantissa, k = normalise(m, x)
    value = _log_reduced(m, m.sub(mantissa, 1.0), k)
    value = m.select(m.compare("olt", x, INFINITY), value, x)  # +inf and NaN stay
    value = m.select(m.compare("oeq", x, 0.0), -INFINITY, value)
    return m.select(m.compare("olt", x, 0.0), NAN, value)


def log1p(builder: Builder, target: Target, x: Value) -> Value:
    """log(1 + x), accurate near 0 too. float, double: below 1.5 ulp. -1 -> -inf, below -> NaN.

    1 + x is rounded only to choose k; f = x 2^-k + (2^-k - 1) is then found with one rounding.
    """
    m = Arithmetic(builder, target, x.type)
    mantissa, k = split_exponent(m, m.add(x, 1.0))
    scale = m.exp2_integer(m.int_sub(0, k))
    f = m.add(m.mul(x, scale), m.sub(scale, 1.0))
    # 2^-k would be denormal for the largest x; from 2^60 on the rounding of 1 + x does no harm.
    f = m.select(m.int_compare("sgt", k, 60), m.sub(mantissa, 1.0), f)
    value = _log_reduced(m, f, k)
    value = m.copysign(value, x)
    value = m.select(m.compare("olt", x, INFINITY), value, x)
    value = m.select(m.compare("oeq", x, -1.0), -INFINITY, value)
    return m.select(m.compare("olt", x, -1.0), NAN, value)
