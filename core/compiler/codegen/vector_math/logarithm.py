"""log and log1p.

The argument is m 2^k with m in [sqrt(1/2), sqrt 2), and f = m - 1 is exact. Then

    float:   log(1 + f) = f - f^2/2 + f^3 q(f)
    double:  log(1 + f) = 2 s + s z (2/3 + z q(z)),  s = f / (2 + f),  z = s^2

with q minimax for the relative error of log(1 + f) (benchmarks/minimax.py): 2^-27.2 and 2^-66.3
(2^-36.8 for the double's formula in float).
For double (and for pow, lgamma and digamma) all but q has two words, and the last rounding is nearly all of the error.
k ln 2 is added in two words, the first of which times k is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .tiny import is_ordinary

_FLOAT: Final = (
    0.3333333134651184, -0.2500081956386566, 0.20001228153705597, -0.1662335991859436, 0.1420174092054367,
    -0.131601482629776, 0.127616748213768, -0.0763469934463501,
)  # fmt: skip
_WORDS: Final = {
    "float": (0.40000152587890625, 0.2854709029197693, 0.23419645428657532),
    "double": (
        0.40000000000002256, 0.28571428570099555, 0.22222222519930027, 0.1818178436633302,
        0.15386757372724102, 0.1325681668320253, 0.13196339400815527,
    ),
}  # fmt: skip
# In two words of the format.
_TWO_THIRDS: Final = {
    "float": (0.6666666865348816, -1.9868215517249155e-08),
    "double": (0.6666666666666666, 3.700743415417188e-17),
}
_LN2: Final = {
    "float": (0.693359375, -2.12194440054690583e-4),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}
# log(1 + f) = s p(s^2), the first coefficients in two words: 2^-55.5, 2^-112.5.
_PAIRS: Final = {
    "float": (
        (2.0, -1.0316794862594949e-22), (0.6666666865348816, -1.9868215517249155e-08),
        (0.4000000059604645, -5.960465454535324e-09), (0.2857142984867096, -1.2772085611345574e-08),
        (0.2222222238779068, -1.7301973187500153e-09), (0.1818181872367859, 3.989537145088207e-09),
        0.1538454294204712, 0.13336755335330963, 0.11667212843894958, 0.12044382095336914,
    ),
    "double": (
        (2.0, -2.8593916610311304e-44), (0.6666666666666666, 3.700743415417188e-17),
        (0.4, -2.2204460492503132e-17), (0.2857142857142857, 1.5860328923216527e-17),
        (0.2222222222222222, 1.2335811384718023e-17), (0.18181818181818182, -5.0464682903138874e-18),
        (0.15384615384615385, -8.540178436840304e-18), (0.13333333333333333, 1.85073091925893e-18),
        (0.11764705882352941, 1.5614473948289373e-18), (0.10526315789473685, 2.5685863106434045e-18),
        (0.09523809523809403, 6.428001751882931e-18), 0.08695652173923653, 0.07999999999274023,
        0.07407407446083868, 0.06896550127416413, 0.06451663401112828, 0.06059407895862939,
        0.0573486702368978, 0.0516511338070893, 0.06807244331195612,
    ),
}  # fmt: skip
# What the first word of _LN2 lacks, in two words.
_LN2_REST: Final = {
    "float": (-0.00021219444170128554, 1.6465949697480609e-12),
    "double": (1.9082149292705877e-10, 1.1612227229362532e-26),
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
    s, u = _log_terms(m, f, series)
    value = m.fast_two_sum(m.add(s.high, s.high), u.high)
    return Pair(value.high, m.add(value.low, m.add(m.add(s.low, s.low), u.low)))


def without_log(m: Arithmetic, f: Pair) -> Pair:
    """f - log(1 + f) in two words, to 2^-60 of its own size for double; f as in :func:`log_words`.

    f - 2 s is f s: nothing is lost where f is small.
    """
    s, u = _log_terms(m, f, lambda z: _series(m, z))
    product = m.pair_product(f, s)
    return m.pair_add(m.fast_two_sum(*product), m.pair_negate(m.fast_two_sum(*u)))


def _log_terms(m: Arithmetic, f: Pair, series: Callable[[Pair], Pair]) -> tuple[Pair, Pair]:
    """s = f / (2 + f) and s z (2/3 + z q(z)), whose sum with 2 s is that logarithm."""
    denominator = m.fast_two_sum(m.constant(2.0), f.high)
    inverse = m.div(1.0, denominator.high)
    quotient = m.mul(f.high, inverse)
    rest = m.residual(f.high, quotient, denominator.high)
    rest = m.add(rest, m.fnma(quotient, m.add(denominator.low, f.low), f.low))
    s = m.fast_two_sum(quotient, m.mul(rest, inverse))
    z = m.pair_product(s, s)
    return s, m.pair_product(m.pair_product(s, z), series(z))


def two_thirds_and(m: Arithmetic, rest: Pair) -> Pair:
    """2/3 + rest, for a small rest."""
    high, low = _TWO_THIRDS[m.scalar]
    total = m.fast_two_sum(m.constant(high), rest.high)
    return Pair(total.high, m.add(total.low, m.add(rest.low, low)))


def _series(m: Arithmetic, z: Pair) -> Pair:
    rest = m.mul(z.high, m.polynomial(z.high, _WORDS[m.scalar]))
    return two_thirds_and(m, Pair(rest, m.constant(0.0)))


def log_pair(m: Arithmetic, x: Pair) -> Pair:
    """log x in two words (not normalised), to about 2^-37 and 2^-66, for x > 0.

    What has a second word must be a normal number.
    """
    mantissa, k = normalise(m, x.high)
    f = m.sub(mantissa, 1.0)
    if x.low.constant == 0:
        return _log_reduced_pair(m, Pair(f, x.low), k)
    low = m.mul(x.low, m.exp2_integer(m.int_sub(0, k)))
    return _log_reduced_pair(m, m.two_sum(f, low), k)


def _log_reduced_pair(m: Arithmetic, f: Pair, k: Value) -> Pair:
    value = log_words(m, f, lambda z: _series(m, z))
    high, low = _LN2[m.scalar]
    kf = to_floating(m, k)
    total = m.fast_two_sum(m.mul(kf, high), value.high)
    return Pair(total.high, m.add(total.low, m.fma(kf, low, value.low)))


def log_one_and(m: Arithmetic, f: Pair, k: Value) -> Pair:
    """log(1 + f) + k log 2 in two words, for f above -1 of an ordinary size; k has the format's integer type."""
    _, j = split_exponent(m, m.add(f.high, 1.0))
    scale = m.exp2_integer(m.int_sub(0, j))
    g = m.two_sum(m.mul(f.high, scale), m.sub(scale, 1.0))
    g = m.fast_two_sum(g.high, m.fma(f.low, scale, g.low))
    return _log_reduced_pair(m, g, m.int_add(k, j))


def _log_reduced(m: Arithmetic, f: Pair, k: Value) -> Value:
    """log(1 + f) + k ln 2. float: f's second word does not count."""
    if m.is_double:
        return m.pair_sum(_log_reduced_pair(m, f, k))
    high, low = _LN2[m.scalar]
    kf = to_floating(m, k)
    q = m.polynomial(f.high, _FLOAT)
    square = m.mul(f.high, f.high)
    half_square = m.mul(m.mul(f.high, 0.5), f.high)
    tail = m.fma(kf, low, m.mul(m.mul(square, f.high), q))
    return m.fma(kf, high, m.add(f.high, m.sub(tail, half_square)))


def log_of_pair(m: Arithmetic, x: Pair) -> Pair:
    """log x in two words, to all their digits (2^-45, 2^-102), for normal numbers."""
    high, k = split_exponent(m, x.high)
    low = m.mul(x.low, m.exp2_integer(m.int_sub(0, k)))
    f = m.two_sum(m.sub(high, 1.0), low)
    denominator = m.fast_two_sum(m.constant(2.0), f.high)
    denominator = Pair(denominator.high, m.add(denominator.low, f.low))
    s = m.fast_two_sum(*m.pair_quotient(f, denominator))
    z = m.fast_two_sum(*m.pair_product(s, s))
    value = m.pair_product(s, m.pair_polynomial(z, _PAIRS[m.scalar]))
    kf = to_floating(m, k)
    rest = m.pair_scale(m.pair_constant(*_LN2_REST[m.scalar]), kf)
    multiple = m.fast_two_sum(m.mul(kf, _LN2[m.scalar][0]), rest.high)
    return m.pair_add(Pair(multiple.high, m.add(multiple.low, rest.low)), value)


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
    ordinary = is_ordinary(m, x, odd=False)
    y = m.select(ordinary, x, 0.0)
    mantissa, k = split_exponent(m, m.add(y, 1.0))
    scale = m.exp2_integer(m.int_sub(0, k))
    f = m.two_sum(m.mul(y, scale), m.sub(scale, 1.0))
    # 2^-k would be denormal for the largest x; from 2^60 on the rounding of 1 + x does no harm.
    huge = m.int_compare("sgt", k, 60)
    f = Pair(m.select(huge, m.sub(mantissa, 1.0), f.high), m.select(huge, 0.0, f.low))
    value = _log_reduced(m, f, k)
    # Tiny ones stay, -0 too.
    value = m.select(m.both(ordinary, m.compare("olt", x, INFINITY)), value, x)
    value = m.select(m.compare("oeq", x, -1.0), -INFINITY, value)
    return m.select(m.compare("olt", x, -1.0), NAN, value)
