"""pow: x^y = 2^(y log2 |x|), the logarithm in more precision than the result has.

|x| = m 2^k with m in [sqrt(1/2), sqrt 2), s = (m - 1)/(m + 1) and z = s^2, so that log m = 2 atanh s.

``float`` computes in ``double``: log2 m = s L(z) with relative error 2^-45, 2^f to 2^-34.5; the
conversion of the result rounds once, overflows and makes denormals. ``double`` (and ``float`` on
devices without ``double``) computes log m = 2 s + s z (2/3 + z (2/5 + z P(z))) in double words, all but P,
to about 2^-70 (2^-40), and the power as 1 + r + r^2 (1/2 + r E(r)), all but E in double words. Coefficients are minimax
for the relative error (benchmarks/minimax.py: P, 2^-78.5 and 2^-43.0).
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value, mangle
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .branches import function_of, if_any
from .exponential import _EXPM1
from .logarithm import log_words, normalise, split_exponent, to_floating, two_thirds_and
from .scaling import scale_gradually

_LOG2: Final = (
    2.8853900817778495, 0.9617966941142595, 0.577077942074736, 0.4122092838779623,
    0.3199043221052746, 0.28292090595468833,
)  # fmt: skip
_EXP2: Final = (
    0.9999999999616219, 0.6931471807287579, 0.24022651198710906, 0.055504103525815765,
    0.00961802717314033, 0.0013333923027573976, 0.00015469317952038629, 1.5201870391958842e-05,
)  # fmt: skip
_LOG: Final = {
    "float": (0.2857159674167633, 0.2219826877117157, 0.19265197217464447),
    "double": (
        0.2857142857142852, 0.22222222222252885, 0.18181818174443706, 0.15384616334705167,
        0.13333260882732348, 0.11768077857834502, 0.10432437124380271, 0.10948909340188634,
    ),
}  # fmt: skip
# In two words of the format.
_TWO_FIFTHS: Final = {
    "float": (0.4000000059604645, -5.9604645663569045e-09),
    "double": (0.4, -2.2204460492503132e-17),
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
    """x to the power of y. float, double: below 0.51 ulp; denormal results 0.8 (in words they are rounded twice).

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


# The odd numbers n for which x^(n/2) is a root and a few products: :func:`half_power`.
HALVES: Final = (-5, -3, -1, 1, 3, 5)


def half_power(builder: Builder, target: Target, x: Value, n: int) -> Value:
    """x^(n/2) for an odd n of :data:`HALVES`, as :func:`pow`: a fifth of the work."""
    m = Arithmetic(builder, target, x.type)
    if m.is_double or not target.has_double:
        return _half_in_words(m, x, n)
    d = Arithmetic(builder, target, llvm_ir.vector("double", m.lanes))
    wide = builder.cast("fpext", m.absolute(x), d.type)
    power = d.sqrt(wide)
    for _ in range(abs(n) // 2):
        power = d.mul(power, wide)
    magnitude = builder.cast("fptrunc", power if n > 0 else d.div(1.0, power), m.type)
    return _real(m, x, magnitude)


def _real(m: Arithmetic, x: Value, magnitude: Value) -> Value:
    """The power of x with a half in the exponent, by that of |x|."""
    no_real = m.both(m.compare("olt", x, 0.0), m.compare("ogt", x, -INFINITY))
    return m.select(no_real, NAN, magnitude)


# Powers of numbers from 2 to the negative of this to 2 to this, and the second words of those powers, are normal.
_ORDINARY: Final = {"float": 24, "double": 200}


def _half_in_words(m: Arithmetic, x: Value, n: int) -> Value:
    """x^(n/2). Vectors of ordinary numbers, as most are, need no look at exponents, zeros, infinities and NaN."""
    name = f"tripont.half_power.{'inverse.' if n < 0 else ''}{abs(n)}.{mangle(m.type)}"
    if name not in m.builder.module.functions:
        function_of(m, name, 1, lambda m, x: _half_of_any(m, x, n), "cold noinline")
    bias, places = m.format.bias, m.format.mantissa
    least, most = ((bias + sign * _ORDINARY[m.scalar]) << places for sign in (-1, 1))
    other = m.int_compare("ugt", m.int_sub(m.bits(x), least), most - least)
    call = lambda m, _, x: m.builder.call(m.type, name, [x])
    return if_any(m, other, [x], f"{name}.if", call, lambda m, x: _half_of_ordinary(m, x, n))


def _half_of_ordinary(m: Arithmetic, f: Value, n: int) -> Value:
    """f^(n/2): the root of f in two words, by which f or 1 is multiplied."""
    root = m.sqrt(f)
    rest = m.residual(f, root, root)
    power = Pair(root, m.mul(rest, m.div(0.5, root)))
    for _ in range(abs(n) // 2):
        power = m.pair_scale(power, f)
    if n > 0:
        return m.pair_sum(power)
    inverse = m.div(1.0, power.high)
    rest = m.fnma(inverse, power.low, m.residual(1.0, inverse, power.high))
    return m.fma(inverse, rest, inverse)


def _half_of_any(m: Arithmetic, x: Value, n: int) -> Value:
    """x^(n/2) of |x| = f 4^j with f in [sqrt(1/2), sqrt 8)."""
    a = m.absolute(x)
    mantissa, k = normalise(m, a)
    j = m.shift_right_signed(k, 1)
    value = _half_of_ordinary(m, m.scale_normal(mantissa, m.int_sub(k, m.int_add(j, j))), n)
    exponent = j
    for _ in range(abs(n) - 1):
        exponent = m.int_add(exponent, j)
    if n < 0:
        exponent = m.int_sub(0, exponent)
    # Beyond it all powers are 0 or infinite. The halves of an exponent must be exponents of normal numbers.
    limit = 2 * m.format.bias - 4
    exponent = m.int_at_least(m.int_at_most(exponent, limit), -limit)
    value = scale_gradually(m, value, to_floating(m, exponent), exponent)
    at_zero = 0.0 if n > 0 else INFINITY
    beyond = a if n > 0 else m.select(m.compare("oeq", a, INFINITY), 0.0, a)
    value = m.select(m.compare("olt", a, INFINITY), value, beyond)  # inf, NaN
    return _real(m, x, m.select(m.compare("oeq", a, 0.0), at_zero, value))


def _truncate(m: Arithmetic, x: Value) -> Value:
    return m.builder.intrinsic("trunc", [x])


def _power_float_in_double(m: Arithmetic, x: Value, y: Value) -> Value:
    """|x|^y; NaN for 0^0, inf^0 and 1^inf."""
    b = m.builder
    d = Arithmetic(b, m.target, llvm_ir.vector("double", m.lanes))
    wide = [b.cast("fpext", v, d.type) for v in (m.absolute(x), y)]
    return b.cast("fptrunc", power_for_float(d, *wide, limit=300.0), m.type)


def power_for_float(d: Arithmetic, a: Value, y: Value, *, limit: float) -> Value:
    """a^y of doubles to 2^-34, for a normal number a (or 0, infinity) and a result between 2^-limit and 2^limit."""
    mantissa, k = split_exponent(d, a)
    s = d.div(d.sub(mantissa, 1.0), d.add(mantissa, 1.0))
    z = d.mul(s, s)
    logarithm = d.fma(s, d.polynomial(z, _LOG2), to_floating(d, k))
    logarithm = d.select(d.compare("olt", a, INFINITY), logarithm, a)  # inf, NaN
    logarithm = d.select(d.compare("oeq", a, 0.0), -INFINITY, logarithm)
    t = d.mul(y, logarithm)
    t = d.at_least(d.at_most(t, limit), -limit)
    n, n_integer = d.round(t)
    p = d.polynomial(d.sub(t, n), _EXP2)
    return d.mul(p, d.exp2_integer(n_integer))


def _power_in_words(m: Arithmetic, x: Value, y: Value) -> Value:
    """|x|^y; NaN for 0^0, inf^0 and 1^inf."""
    ln2, log2_e = (c[m.scalar] for c in (_LN2, _LOG2_E))
    a = m.absolute(x)
    mantissa, k = normalise(m, a)
    f = Pair(m.sub(mantissa, 1.0), m.constant(0.0))  # exact
    logarithm = m.fast_two_sum(*log_words(m, f, lambda z: _series(m, z)))
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
    # e^r = 1 + r + r^2 q.
    q = m.fast_two_sum(m.constant(0.5), m.mul(r, m.polynomial(r, _EXPM1[m.scalar][1:])))
    u = m.pair_product(m.two_product(r, r), q)
    linear = m.fast_two_sum(m.constant(1.0), r)
    total = m.fast_two_sum(linear.high, u.high)
    low = m.add(m.add(linear.low, total.low), u.low)
    p = m.add(total.high, m.fma(r_tail, total.high, low))
    return scale_gradually(m, p, n, n_integer)


def _series(m: Arithmetic, z: Pair) -> Pair:
    """2/3 + z (2/5 + z P(z))."""
    high, low = _TWO_FIFTHS[m.scalar]
    fifths = m.fast_two_sum(m.constant(high), m.mul(z.high, m.polynomial(z.high, _LOG[m.scalar])))
    return two_thirds_and(m, m.pair_product(z, Pair(fifths.high, m.add(fifths.low, low))))
