"""atan2, atan, asin and acos: all are the angle of a point (x, y), whose coordinates may have two words.

The angle of (large, small), the two magnitudes, is atan of their quotient t, or pi/4 more than that of
(small - large) / (small + large); the point's is a multiple of pi/4 more or less. For |t| <= tan(pi/8), with z = t^2,

    atan t = t + t z (-1/3 + z A(z))

A is minimax for the relative error of atan (benchmarks/minimax.py): 2^-34.7 for float, 2^-64.1 for double. It alone has
one word; all else has two, so that what is left is the last rounding.
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .tiny import is_ordinary

_ATAN: Final = {
    "float": (
        0.1999996155500412, -0.14283381402492523, 0.11059455573558807, -0.08549785614013672,
        0.04882092773914337,
    ),
    "double": (
        0.19999999999999962, -0.14285714285704584, 0.11111111110122272, -0.09090909036297352,
        0.07692305830763348, -0.06666624715412259, 0.058817035087708386, -0.052561182091268345,
        0.047082444169400946, -0.040630352074375195, 0.02974535913480819, -0.013074698197947394,
    ),
}  # fmt: skip
# In two words of the format.
_MINUS_THIRD: Final = {
    "float": (-0.3333333432674408, 9.934107758624577e-09),
    "double": (-0.3333333333333333, -1.850371707708594e-17),
}
# pi/4; the first word has 20 (float) or 49 (double) significant bits.
_QUARTER_PI: Final = {
    "float": (0.7853975296020508, 6.337954232549237e-07),
    "double": (0.7853981633974474, 9.18794589678809e-16),
}


def _angle(m: Arithmetic, x: Pair, y: Pair, left: Value | None = None) -> Pair:
    """The angle of (x, y), from 0 to pi. Both are finite and not negative; where ``left``, x counts as -x.

    In two words, not normalised.
    """
    swap = m.compare("ogt", y.high, x.high)
    large = Pair(*(m.select(swap, b, a) for a, b in zip(x, y, strict=True)))
    small = Pair(*(m.select(swap, a, b) for a, b in zip(x, y, strict=True)))
    reduce = m.compare("ogt", small.high, m.mul(large.high, 0.4142135623730950))
    difference = m.fast_two_sum(m.negate(large.high), small.high)
    total = m.fast_two_sum(large.high, small.high)
    if not all(low.constant == 0 for low in (x.low, y.low)):
        difference = Pair(difference.high, m.add(difference.low, m.sub(small.low, large.low)))
        total = Pair(total.high, m.add(total.low, m.add(small.low, large.low)))
    difference = m.fast_two_sum(*difference)
    numerator = Pair(*(m.select(reduce, a, b) for a, b in zip(difference, small, strict=True)))
    denominator = Pair(*(m.select(reduce, a, b) for a, b in zip(total, large, strict=True)))
    t = m.pair_quotient(numerator, denominator)
    # A tiny angle is the rounded quotient; its low word may be less than the smallest denormal number.
    t = Pair(t.high, m.select(m.compare("uge", m.absolute(t.high), 2.0**-70), t.low, 0.0))
    angle = _arc(m, t)
    # Now multiples of pi/4, whose first word has zeros enough to be multiplied exactly.
    eighths = m.select(reduce, 1.0, 0.0)
    eighths = m.select(swap, m.sub(2.0, eighths), eighths)
    flip = swap
    if left is not None:
        eighths = m.select(left, m.sub(4.0, eighths), eighths)
        flip = m.builder.binary("xor", swap, left)
    high, low = (m.select(flip, m.negate(part), part) for part in angle)
    quarter = _QUARTER_PI[m.scalar]
    s = m.fast_two_sum(m.mul(eighths, quarter[0]), high)
    return Pair(s.high, m.add(s.low, m.fma(eighths, quarter[1], low)))


def _arc(m: Arithmetic, t: Pair) -> Pair:
    """atan t in two words, |t| <= tan(pi/8); t's low word comes in by the derivative."""
    ordinary = is_ordinary(m, t.high, odd=True)
    high = m.select(ordinary, t.high, 0.0)
    z = m.two_product(high, high)
    third = _MINUS_THIRD[m.scalar]
    q = m.fast_two_sum(m.constant(third[0]), m.mul(z.high, m.polynomial(z.high, _ATAN[m.scalar])))
    u = m.pair_product(m.pair_scale(z, high), Pair(q.high, m.add(q.low, third[1])))
    derivative = m.fma(z.high, m.sub(z.high, 1.0), 1.0)
    s = m.fast_two_sum(t.high, u.high)
    return Pair(s.high, m.add(s.low, m.fma(t.low, derivative, u.low)))


def atan2(builder: Builder, target: Target, y: Value, x: Value) -> Value:
    """The angle of the point (x, y). float, double: below 0.52 ulp. Special values: C99."""
    m = Arithmetic(builder, target, x.type)
    return m.copysign(m.pair_sum(_angle_above_axis(m, y, x)), y)


def angle_of_point(m: Arithmetic, y: Value, x: Value) -> Pair:
    """atan2 in two words, not normalised, to about 2^-34 and 2^-64."""
    below_axis = m.int_compare("slt", m.bits(y), 0)
    angle = _angle_above_axis(m, y, x)
    return m.pair_select(below_axis, m.pair_negate(angle), angle)


def _angle_above_axis(m: Arithmetic, y: Value, x: Value) -> Pair:
    """The angle of (x, |y|) in two words, from 0 to pi."""
    ax, ay = m.absolute(x), m.absolute(y)
    infinite_x, infinite_y = m.compare("oeq", ax, INFINITY), m.compare("oeq", ay, INFINITY)
    # Infinity stands for 1 and makes what is finite 0; of two zeros x is 1.
    a = m.select(infinite_x, 1.0, m.select(infinite_y, 0.0, ax))
    b = m.select(infinite_y, 1.0, m.select(infinite_x, 0.0, ay))
    a = m.select(m.both(m.compare("oeq", a, 0.0), m.compare("oeq", b, 0.0)), 1.0, a)
    # Nothing over- or underflows that counts: where a tiny one is not scaled, so is the quotient.
    huge, tiny, step = (1000, -800, 200) if m.is_double else (100, -70, 60)
    larger = m.select(m.compare("ogt", a, b), a, b)
    smaller = m.select(m.compare("olt", a, b), a, b)
    over = m.compare("ogt", larger, 2.0**huge)
    up = m.both(m.compare("olt", smaller, 2.0**tiny), m.compare("olt", larger, 1.0))
    scale = m.select(over, 2.0**-step, m.select(up, 2.0**step, 1.0))
    zero = m.constant(0.0)
    left = m.int_compare("slt", m.bits(x), 0)  # negative or -0
    angle = _angle(m, Pair(m.mul(a, scale), zero), Pair(m.mul(b, scale), zero), left)
    return Pair(m.select(m.compare("uno", x, y), NAN, angle.high), angle.low)


def atan(builder: Builder, target: Target, x: Value) -> Value:
    """The arc tangent. float, double: below 0.52 ulp."""
    return atan2(builder, target, x, llvm_ir.floating(x.type, 1.0))


def _cathetus(m: Arithmetic, x: Value) -> Pair:
    """sqrt(1 - x^2) in two words; NaN beyond 1."""
    ordinary = is_ordinary(m, x, odd=True)
    x = m.select(ordinary, x, 0.0)
    square = m.two_product(x, x)
    rest = m.fast_two_sum(m.constant(1.0), m.negate(square.high))
    rest = m.fast_two_sum(rest.high, m.sub(rest.low, square.low))
    root = m.sqrt(rest.high)
    back = m.two_product(root, root)
    low = m.add(m.sub(m.sub(rest.high, back.high), back.low), rest.low)
    low = m.div(m.mul(low, 0.5), root)
    return Pair(root, m.select(m.compare("oeq", root, 0.0), 0.0, low))


def asin(builder: Builder, target: Target, x: Value) -> Value:
    """The arc sine. float, double: below 0.52 ulp. NaN beyond 1."""
    m = Arithmetic(builder, target, x.type)
    y = Pair(m.absolute(x), m.constant(0.0))
    angle = m.copysign(m.pair_sum(_angle(m, _cathetus(m, x), y)), x)
    # The quotient of a denormal number would be one, too; far above, asin x is x.
    return m.select(m.compare("olt", y.high, 2.0**-70), x, angle)


def acos(builder: Builder, target: Target, x: Value) -> Value:
    """The arc cosine. float, double: below 0.52 ulp. NaN beyond 1."""
    m = Arithmetic(builder, target, x.type)
    left = m.compare("olt", x, 0.0)
    return m.pair_sum(_angle(m, Pair(m.absolute(x), m.constant(0.0)), _cathetus(m, x), left))
