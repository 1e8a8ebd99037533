"""rsqrt and cbrt."""

from __future__ import annotations

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, Arithmetic


def rsqrt(builder: Builder, target: Target, x: Value) -> Value:
    """1 / sqrt x. float, double: below 0.51 ulp. -0 -> -inf, as IEEE 754 says.

    With s = sqrt x and y = 1 / s rounded, x = s^2 + e and s y = 1 - d exactly, and 1 / sqrt x = y (1 + d - e y^2 / 2).
    """
    m = Arithmetic(builder, target, x.type)
    # The smallest are scaled by an even power of two, so that e is not lost.
    least, step = (-900, 54) if m.is_double else (-90, 24)
    small = m.compare("olt", x, 2.0**least)
    a = m.select(small, m.mul(x, 2.0 ** (2 * step)), x)
    s = m.sqrt(a)
    y = m.div(1.0, s)
    e, d = m.residual(a, s, s), m.residual(1.0, s, y)
    better = m.fma(y, m.fma(m.mul(e, -0.5), m.mul(y, y), d), y)
    ordinary = m.both(m.compare("ogt", a, 0.0), m.compare("olt", a, INFINITY))
    y = m.select(ordinary, better, y)
    return m.select(small, m.mul(y, 2.0**step), y)


def cbrt(builder: Builder, target: Target, x: Value) -> Value:
    """The cube root. float, double: below 1 ulp.

    Dividing the exponent (with the mantissa as its fraction) by 3 gives the root within 4 %; a step of Halley's
    iteration cubes the error. The last step finds the residual of the rounded square exactly, by a two-product.
    """
    m = Arithmetic(builder, target, x.type)
    magnitude = m.absolute(x)
    # The smallest and the largest are scaled by a power of 8, so that nothing on the way under- or overflows.
    least, greatest, steps = (2.0**-700, 2.0**900, 200) if m.is_double else (2.0**-60, 2.0**100, 25)
    is_small = m.compare("olt", magnitude, least)
    is_large = m.compare("ogt", magnitude, greatest)
    up, down = 2.0 ** (3 * steps), 2.0**-steps
    a = m.mul(magnitude, m.select(is_small, up, m.select(is_large, 1 / up, 1.0)))
    # Only 0 is less.
    a = m.at_least(a, 2.0**-720 if m.is_double else 2.0**-80)
    # 2/3 of the exponent's bias, less a little because the mantissa is not a logarithm.
    third = builder.binary("udiv", m.bits(a), m.integer(3))
    t = m.from_bits(m.int_add(third, 0x2A9F789300000000 if m.is_double else 709958130))
    for _ in range(3 if m.is_double else 2):
        cube = m.mul(m.mul(t, t), t)
        t = m.add(t, m.mul(t, m.div(m.sub(a, cube), m.fma(cube, 2.0, a))))
    # A Newton step on the residual a - t^3, with t^3 in two words.
    square = m.two_product(t, t)
    cube_pair = m.two_product(square.high, t)
    residual = m.sub(m.sub(a, cube_pair.high), m.fma(square.low, t, cube_pair.low))
    t = m.add(t, m.div(residual, m.mul(square.high, 3.0)))
    t = m.mul(t, m.select(is_small, down, m.select(is_large, 1 / down, 1.0)))
    # 0, infinity and NaN stay.
    is_ordinary = m.both(m.compare("ogt", magnitude, 0.0), m.compare("olt", magnitude, INFINITY))
    return m.select(is_ordinary, m.copysign(t, x), x)
