"""log and log1p.

The argument is m 2^k with m in [sqrt(1/2), sqrt 2), and f = m - 1 is exact. Then

    float:   log(1 + f) = f - f^2/2 + f^3 q(f)
    double:  log(1 + f) = 2 s + s z (2/3 + z q(z)),  s = f / (2 + f),  z = s^2

with q minimax for the relative error of log(1 + f) (benchmarks/minimax.py): 2^-27.2 and 2^-66.3.
For double (and for pow) all but q has two words, and the last rounding is nearly all of the error.
k ln 2 is added in two words, the first of which times k is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Arithmetic, Pair

_FLOAT: Final = (
    0.3333333134651184, -0.2500081956386566, 0.20001228153705597, -0.1662335991859436, 0.1420174092054367,
    -0.131601482629776, 0.127616748213768, -0.0763469934463501,
)  # fmt: skip
_DOUBLE: Final = (
    0.40000000000002256, 0.28571428570099555, 0.22222222519930027, 0.1818178436633302,
    0.15386757372724102, 0.1325681668320253, 0.13196339400815527,
)  # fmt: skip
# In two words of the format.
_TWO_THIRDS: Final = {
    "float": (0.6666666865348816, -1.9868215517249155e-08),
    "double": (0.6666666666666666, 3.700743415417188e-17),
}
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


def log_words(m: Arithmetic, f: Pair, series: Callable[[Pair], Pair]) -> Pair:
    """log(1 + f) in two words, for f from sqrt(1/2) - 1 to sqrt 2 - 1; ``series``: z -> 2/3 + z q(z)."""
    denominator = m.fast_two_sum(m.constant(2.0), f.high)
    inverse = m.div(1.0, denominator.high)
    quotient = m.mul(f.high, inverse)
    back = m.two_product(quotient, denominator.high)
    rest = m.sub(m.sub(f.high, back.high), back.low)
    rest = m.add(rest, m.fnma(quotient, m.add(denominator.low, f.low), f.low))
    s = m.fast_two_sum(quotient, m.mul(rest, inverse))
    z = m.pair_product(s, s)
    u = m.pair_product(m.pair_product(s, z), series(z))
    value = m.fast_two_sum(m.add(s.high, s.high), u.high)
    return Pair(value.high, m.add(value.low, m.add(m.add(s.low, s.low), u.low)))


def two_thirds_and(m: Arithmetic, rest: Pair) -> Pair:
    """2/3 + rest, for a small rest."""
    high, low = _TWO_THIRDS[m.scalar]
    total = m.fast_two_sum(m.constant(high), rest.high)
    return Pair(total.high, m.add(total.low, m.add(rest.low, low)))


def _series(m: Arithmetic, z: Pair) -> Pair:
    rest = m.mul(z.high, m.polynomial(z.high, _DOUBLE))
    return two_thirds_and(m, Pair(rest, m.constant(0.0)))


def _log_reduced(m: Arithmetic, f: Pair, k: Value) -> Value:
    """log(1 + f) + k ln 2. float: f's second word does not count."""
    high, low = _LN2[m.scalar]
    kf = to_floating(m, k)
    if m.is_double:
        value = log_words(m, f, lambda z: _series(m, z))
        total = m.fast_two_sum(m.mul(kf, high), value.high)
        return m.add(total.high, m.add(total.low, m.fma(kf, low, value.low)))
    q = m.polynomial(f.high, _FLOAT)
    square = m.mul(f.high, f.high)
    half_square = m.mul(m.mul(f.high, 0.5), f.high)
    tail = m.fma(kf, low, m.mul(m.mul(square, f.high), q))
    return m.fma(kf, high, m.add(f.high, m.sub(tail, half_square)))


def log(builder: Builder, target: Target, x: Value) -> Value:
    """Natural logarithm. float: below 0.9 ulp; double: below 0.51 ulp. 0 -> -inf, negative -> NaN."""
    m = Arithmetic(builder, target, x.type)
    mantissa, k = normalise(m, x)
    value = _log_reduced(m, Pair(m.sub(mantissa, 1.0), m.constant(0.0)), k)
    value = m.select(m.compare("olt", x, INFINITY), value, x)  # +inf and NaN stay
    value = m.select(m.compare("oeq", x, 0.0), -INFINITY, value)
    return m.select(m.compare("olt", x, 0.0), NAN, value)


def log1p(builder: Builder, target: Target, x: Value) -> Value:
    """log(1 + x), accurate near 0 too. float: below 1.5 ulp; double: below 0.51 ulp. -1 -> -inf, below -> NaN.

    1 + x is rounded only to choose k; f = x 2^-k + (2^-k - 1) is then found in two words.
    """
    m = Arithmetic(builder, target, x.type)
    mantissa, k = split_exponent(m, m.add(x, 1.0))
    scale = m.exp2_integer(m.int_sub(0, k))
    f = m.two_sum(m.mul(x, scale), m.sub(scale, 1.0))
    # 2^-k would be denormal for the largest x; from 2^60 on the rounding of 1 + x does no harm.
    huge = m.int_compare("sgt", k, 60)
    f = Pair(m.select(huge, m.sub(mantissa, 1.0), f.high), m.select(huge, 0.0, f.low))
    value = _log_reduced(m, f, k)
    # The smallest stay, -0 too: the words of a denormal number's logarithm would be less than any number.
    tiny = m.compare("olt", m.absolute(x), 2.0**-60)
    value = m.select(m.either(tiny, m.compare("uge", x, INFINITY)), x, value)
    value = m.select(m.compare("oeq", x, -1.0), -INFINITY, value)
    return m.select(m.compare("olt", x, -1.0), NAN, value)
