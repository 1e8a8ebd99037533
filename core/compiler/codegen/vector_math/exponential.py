"""exp, exp2, expm1, logistic, tanh, sinh, cosh.

All begin with the same reduction: x = n ln 2 + r with n an integer and |r| <= ln(2)/2 (a little
more when the rounding of x log2(e) is off), ln 2 in two words of which the first times n is exact,
so that no fused multiply-add is needed. On that interval

    exp(r) = 1 + r + r^2 q(r),    expm1(r) = r + r^2 q(r)

with q the minimax polynomial (Remez exchange in 180-bit arithmetic, coefficients then rounded to
the format, for float one after the other with the rest fitted again) for the relative error of exp
or expm1. Approximation errors: float 2^-28.2 (exp), 2^-26.1 (expm1); double 2^-59.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import Arithmetic, Pair
from .branches import where_any
from .scaling import has_scalef, scale_gradually, scalef
from .tiny import is_ordinary

_LOG2_E: Final = 1.4426950408889634
# ln 2 = high + low; high has 9 (float) or 33 (double) significant bits.
_LN2: Final = {
    "float": (0.693359375, -2.12194440054690583e-4),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}
_EXPM1: Final = {
    "float": (
        0.4999999701976776, 0.16666539013385773, 0.04166775569319725, 0.008367124013602734,
        0.0013835640856996179,
    ),
    "double": (
        0.5, 0.16666666666666677, 0.04166666666666651, 0.008333333333321691, 0.0013888888888962383,
        0.00019841269885966236, 2.480158717251588e-05, 2.7557244373810235e-06,
        2.7557402660061107e-07, 2.5108979033673004e-08, 2.087532539497715e-09,
    ),
}  # fmt: skip
_EXP: Final = {
    "float": (
        0.4999999403953552, 0.16666516661643982, 0.04166810214519501, 0.008369192481040955,
        0.0013838860904797912,
    ),
    "double": _EXPM1["double"],
}  # fmt: skip
# Beyond these exp overflows to infinity, or is nearer to 0 than to the smallest denormal.
_LIMITS: Final = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}

# From here on exp is a normal number, and here less than twice the smallest one.
_LEAST_NORMAL: Final = {"float": -87.0, "double": -708.0}

# For lesser x logistic x is e^x: 1 + e^x is rounded to 1.
_LEAST_QUOTIENT: Final = {"float": -20.0, "double": -40.0}

# e to the power of this times the smallest denormal number is infinite, and that of its negative times 1 is nothing.
_GREATEST: Final = {"float": 200.0, "double": 1500.0}


def _reduce(m: Arithmetic, x: Value) -> tuple[Value, Value, Value]:
    """(r, n as floating, n as integer) with x = n ln 2 + r."""
    high, low = _LN2[m.scalar]
    n, n_integer = m.round(x, _LOG2_E)
    return m.fma(n, -low, m.fma(n, -high, x)), n, n_integer


def _exp_reduced(m: Arithmetic, r: Value) -> Value:
    """exp(r) for |r| <= ln(2)/2."""
    q = m.polynomial(r, _EXP[m.scalar])
    return m.add(m.fma(m.mul(r, r), q, r), 1.0)


def _expm1_reduced(m: Arithmetic, r: Value) -> Value:
    return m.fma(m.mul(r, r), m.polynomial(r, _EXPM1[m.scalar]), r)


class _Scaled(NamedTuple):
    """exp(r) * 2^n; ``shifted``: n + bias - 1 in its low bits."""

    r: Value
    n: Value
    shifted: Value


def _exp_scaled(m: Arithmetic, r: Value, n: Value, shifted: Value, there: Value) -> Value:
    """exp(r) * 2^n, rounded once but where it is denormal, and 0 where not ``there``.

    1 + y with y = expm1(r) is scaled by 2^(n - 1), or by a fixed small power where that is not a normal number, and
    then by what is missing: overflow and gradual underflow happen in the last multiplication.
    """
    y = m.fma(m.mul(r, r), m.polynomial(r, _EXP[m.scalar]), r)
    if has_scalef(m):
        return scalef(m, m.add(y, 1.0), n, there, 0.0)
    bias, small = (
        m.format.bias,
        m.format.bias // 4,
    )  # `small`: the biased exponent of the fixed power
    # Biased, of 2^(n - 1); negative below normal numbers.
    exponent = m.shift_left(shifted, m.format.mantissa)
    power = m.from_bits(m.int_at_least(exponent, small << m.format.mantissa))
    rest = m.int_at_most(exponent, small << m.format.mantissa)
    rest = m.int_add(rest, (bias + 1 - small) << m.format.mantissa)
    return m.mul(m.fma(power, y, power), m.select(there, m.from_bits(rest), 0.0))


def exp(builder: Builder, target: Target, x: Value) -> Value:
    """e^x. float: below 1.02 ulp; double: below 1 ulp. Denormal results are rounded once."""
    m = Arithmetic(builder, target, x.type)
    return _power(m, "exp", x, _reduce_exp, _LIMITS[m.scalar], _LEAST_NORMAL[m.scalar])


def _reduce_exp(m: Arithmetic, x: Value) -> _Scaled:
    n, shifted = m.round_shifted(x, _LOG2_E, m.format.bias - 1)
    high, low = _LN2[m.scalar]
    return _Scaled(m.fma(n, -low, m.fma(n, -high, x)), n, shifted)


def _power(
    m: Arithmetic,
    name: str,
    x: Value,
    reduce: Callable[[Arithmetic, Value], _Scaled],
    limits: tuple[float, float],
    normal: float,
) -> Value:
    """e^x or 2^x by its reduction; ``limits`` of x, and the least x with a result that is surely a normal number.

    No denormal number, and no result that is nothing, may be made by rounding: Intel's CPUs take some 300 cycles for a
    vector in which a number underflows. Results that are nothing are left out of the last operation. Denormal ones are
    few: on x86 those vectors are computed twice.
    """
    low, high = limits
    there = m.compare("uge", x, normal if m.target.is_x86 else low)
    limited = m.at_most(x, high)
    if not has_scalef(m):
        limited = m.at_least(limited, low)
    result = _exp_scaled(m, *reduce(m, limited), there)
    if not m.target.is_x86:
        return result
    denormal = m.both(m.compare("oge", x, low), m.is_not(there))
    compute = lambda m, x: _denormal(m, reduce(m, x))
    return where_any(m, denormal, x, result, f"{name}.denormal", compute)


def _denormal(m: Arithmetic, scaled: _Scaled) -> Value:
    """exp(r) * 2^n where it is denormal or less than twice as much: its representation is a multiple of the smallest
    number's, which is rounded as a whole number.
    """
    y = m.fma(m.mul(scaled.r, scaled.r), m.polynomial(scaled.r, _EXP[m.scalar]), scaled.r)
    units = m.format.bias - 1 + m.format.mantissa
    n = m.builder.cast("fptosi", scaled.n, m.integer_type)
    multiple = m.mul(m.add(y, 1.0), m.exp2_integer(m.int_add(n, units)))
    whole = m.builder.intrinsic("rint", [multiple])
    return m.from_bits(m.builder.cast("fptosi", whole, m.integer_type))


def exp_normal(m: Arithmetic, x: Value) -> Value:
    """e^x for arguments known to give normal numbers; for use inside other functions."""
    r, _, n = _reduce(m, x)
    return m.scale_normal(_exp_reduced(m, r), n)


def expm1_pair(m: Arithmetic, x: Value) -> Pair:
    """e^x - 1 in two words for 0 <= x: some five (float: two) bits more than one word has."""
    high, low = _LN2[m.scalar]
    n, n_integer = m.round(x, _LOG2_E)
    product = m.two_product(n, m.constant(-low))
    r = m.two_sum(m.fma(n, -high, x), product.high)
    r = m.fast_two_sum(r.high, m.add(r.low, product.low))
    # r^2 / 2 has two words as well, and the rest of the series one.
    half, *rest = _EXPM1[m.scalar]
    square = m.two_product(r.high, r.high)
    beyond = m.mul(m.mul(square.high, r.high), m.polynomial(r.high, rest))
    p = m.two_sum(r.high, m.mul(square.high, half))
    tail = m.fma(square.low, half, m.fma(r.high, r.low, r.low))
    p = m.fast_two_sum(p.high, m.add(p.low, m.add(beyond, tail)))
    s = m.exp2_integer(n_integer)
    return m.pair_add(m.two_sum(s, m.constant(-1.0)), Pair(m.mul(s, p.high), m.mul(s, p.low)))


def expm1_and_power(m: Arithmetic, high: Value, low: Value) -> tuple[Value, Value]:
    """(y, s) with e^(high + low) = s (1 + y), s a power of two and |y| < 0.42."""
    r, _, n = _reduce(m, high)
    return _expm1_reduced(m, m.add(r, low)), m.exp2_integer(n)


def exp_of_pair(m: Arithmetic, high: Value, low: Value, factor: Value) -> Value:
    """e^(high + low) * factor, also where the power alone or the result is denormal; for a factor near 1."""
    r, *n = _reduce(m, high)
    return scale_gradually(m, m.mul(_exp_reduced(m, m.add(r, low)), factor), *n)


def exp_times(m: Arithmetic, x: Value, factors: Sequence[Value], shift: int = 0) -> list[Value]:
    """factor * e^x * 2^shift for factors from -2 to 2, also where e^x is beyond the range or a factor is denormal.

    For infinite x as for a large number: a factor of 0 stays 0.
    """
    limit = _GREATEST[m.scalar]
    r, _, n = _reduce(m, m.at_least(m.at_most(x, limit), -limit))
    e = _exp_reduced(m, r)
    # Denormal factors become normal numbers before anything is rounded. (None is much larger than 1.)
    ahead = 64
    n = m.int_add(n, shift - ahead)
    quarter = m.shift_right_signed(n, 2)
    power = m.exp2_integer(quarter)
    last = m.exp2_integer(m.int_sub(n, m.int_add(m.shift_left(quarter, 1), quarter)))
    results = []
    for factor in factors:
        value = m.mul(m.mul(factor, 2.0**ahead), e)
        for p in (power, power, power, last):
            value = m.mul(value, p)
        results.append(value)
    return results


def exp2(builder: Builder, target: Target, x: Value) -> Value:
    """2^x. float, double: below 1.1 ulp."""
    m = Arithmetic(builder, target, x.type)
    limits = (-151.0, 128.0) if not m.is_double else (-1076.0, 1024.0)
    return _power(m, "exp2", x, _reduce_exp2, limits, 1.0 - m.format.bias)


def _reduce_exp2(m: Arithmetic, x: Value) -> _Scaled:
    n, shifted = m.round_shifted(x, 1.0, m.format.bias - 1)
    f = m.sub(x, n)  # exact
    return _Scaled(m.mul(f, 0.6931471805599453), n, shifted)


def _expm1_scaled(m: Arithmetic, x: Value, n_limit: int | None) -> Value:
    """2^n expm1(r) + (2^n - 1) = expm1(x) for x clamped; where n would be n_limit it is taken one
    less and made good.
    """
    r, _, n = _reduce(m, x)
    p = _expm1_reduced(m, r)
    if n_limit is None:
        s = m.exp2_integer(n)
        return m.fma(s, p, m.sub(s, 1.0))
    is_last = m.int_compare("eq", n, n_limit)
    s = m.exp2_integer(m.builder.select(is_last, m.integer(n_limit - 1), n))
    value = m.fma(s, p, m.sub(s, 1.0))
    return m.select(is_last, m.add(value, value), value)


def expm1(builder: Builder, target: Target, x: Value) -> Value:
    """e^x - 1, accurate near 0 too. float, double: below 1.9 ulp."""
    m = Arithmetic(builder, target, x.type)
    _, high = _LIMITS[m.scalar]
    ordinary = is_ordinary(m, x, odd=False)
    clamped = m.at_least(m.select(ordinary, m.at_most(x, high), 0.0), -50.0)
    value = _expm1_scaled(m, clamped, m.format.bias + 1)
    return m.select(ordinary, value, x)


def logistic(builder: Builder, target: Target, x: Value) -> Value:
    """1 / (1 + e^-x), without overflow: denormal results are right. float, double: below 2.5 ulp."""
    m = Arithmetic(builder, target, x.type)
    e = exp(builder, target, m.negate(m.absolute(x)))
    # Where e is small it is the quotient itself: Intel's CPUs divide denormal numbers in microcode.
    divides = m.compare("uge", x, _LEAST_QUOTIENT[m.scalar])
    numerator = m.select(m.both(divides, m.compare("olt", x, 0.0)), e, 1.0)
    return m.select(divides, m.div(numerator, m.add(e, 1.0)), e)


def tanh(builder: Builder, target: Target, x: Value) -> Value:
    """tanh x = t / (t + 2) with t = expm1(2|x|). float, double: below 2.6 ulp."""
    m = Arithmetic(builder, target, x.type)
    # From here on the result rounds to 1.
    a = m.at_most(m.absolute(x), 22.0 if m.is_double else 10.0)
    ordinary = is_ordinary(m, x, odd=True)
    t = _expm1_scaled(m, m.select(ordinary, m.add(a, a), 0.0), None)
    return m.copysign(m.select(ordinary, m.div(t, m.add(t, 2.0)), a), x)


def sinh_of_modest(m: Arithmetic, a: Value) -> Value:
    """sinh a = (t + t / (t + 1)) / 2 with t = expm1 a, for a >= 0 of which e^a is finite."""
    t = expm1(m.builder, m.target, a)
    return m.mul(m.add(t, m.div(t, m.add(t, 1.0))), 0.5)


def cosh_of_modest(m: Arithmetic, a: Value) -> Value:
    """cosh a = (e^a + e^-a) / 2, for a >= 0 of which e^a is finite."""
    e = exp(m.builder, m.target, a)
    return m.add(m.mul(e, 0.5), m.div(0.5, e))


def _by_halves(m: Arithmetic, a: Value, modest: Value) -> Value:
    """e^a / 2 where e^a is infinite or nearly so, ``modest`` else."""
    half = exp(m.builder, m.target, m.mul(a, 0.5))
    large = m.compare("ogt", a, 709.0 if m.is_double else 88.0)
    return m.select(large, m.mul(m.mul(half, 0.5), half), modest)


def sinh(builder: Builder, target: Target, x: Value) -> Value:
    """sinh x. Below 2.6 ulp; overflows where the result does."""
    m = Arithmetic(builder, target, x.type)
    ordinary = is_ordinary(m, x, odd=True)
    a = m.select(ordinary, m.absolute(x), 0.0)
    return m.select(ordinary, m.copysign(_by_halves(m, a, sinh_of_modest(m, a)), x), x)


def cosh(builder: Builder, target: Target, x: Value) -> Value:
    """cosh x. Below 2.6 ulp; overflows where the result does."""
    m = Arithmetic(builder, target, x.type)
    ordinary = is_ordinary(m, x, odd=True)
    a = m.select(ordinary, m.absolute(x), 0.0)
    return _by_halves(m, a, cosh_of_modest(m, a))
