"""Quotients by a constant: a product and a fused multiply-add in place of a division, with the same bits.

1 / c is kept in two words, and x / c is computed as fma(x, high, x * low), which rounds once but for the tiny x * low:
Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point division when the divisor is known in advance"
(2004). Both words have one sign, so that infinities give infinities. The result can differ from x / c only where x / c
lies so near to the middle between two numbers that the error crosses it. For a given c these x are few: they solve
2^k x = c m + j with a small j, and are all tried when code is made (:func:`reciprocal`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final, NamedTuple

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import Arithmetic
from .branches import where_any

# Significant bits, and the exponent of the smallest number that has them all.
_PRECISION: Final = {"float": 24, "double": 53}
_SMALLEST: Final = {"float": -126, "double": -1022}
# Divisors so large or small that their reciprocals' words are no ordinary numbers stay divisors.
_EXPONENTS: Final = {"float": 60, "double": 400}


class Reciprocal(NamedTuple):
    """1 / c = high + low; x / c is fma(x, high, x * low) for x = 0 and every |x| >= least, infinities too.

    ``least`` is a power of two, and less than 1.
    """

    high: float
    low: float
    least: float


def divide_by(
    builder: Builder, target: Target, x: Value, y: Value, *, whole: bool = False
) -> Value:
    """x / y, rounded correctly. float, double: no error. ``whole``: x is known to be whole numbers.

    By the reciprocal, if y is a number for which that is exact and x a vector: CPUs divide a vector in 5 to 24 cycles.
    Vectors with an element so near to 0 that x * low would be rounded as a number of few bits are divided.
    """
    scalar = llvm_ir.scalar_of(x.type)
    words = None
    if (
        scalar in _PRECISION
        and llvm_ir.lanes_of(x.type) > 1
        and isinstance(y.constant, float)
        and target.is_x86
        and target.has("fma")
        and target.divides_exactly
    ):
        words = reciprocal(y.constant, scalar)
    if words is None:
        return builder.binary("fdiv", x, y)
    m = Arithmetic(builder, target, x.type)
    quotient = m.fma(x, words.high, m.mul(x, words.low))
    if whole:
        return quotient
    # Without its sign, and less one: 0 is the largest number then.
    doubled = builder.binary("shl", m.bits(x), m.integer(1))
    size = builder.binary("sub", doubled, m.integer(2))
    limit = (_bits(words.least, scalar) << 1) - 2
    near = builder.icmp("ult", size, m.integer(limit))
    return where_any(m, near, (x, y), quotient, "divide", Arithmetic.div)


def _bits(x: float, scalar: str) -> int:
    """The representation of a power of two."""
    exponent = math.frexp(x)[1] - 1
    return (exponent - _SMALLEST[scalar] + 1) << (_PRECISION[scalar] - 1)


@functools.lru_cache(maxsize=1024)
def reciprocal(c: float, scalar: str) -> Reciprocal | None:
    """The words of 1 / c; None if the quotients of some numbers would differ by them."""
    precision = _PRECISION[scalar]
    if not math.isfinite(c) or c == 0:
        return None
    mantissa, exponent = math.frexp(abs(c))
    whole = int(math.ldexp(mantissa, precision))
    if abs(exponent) > _EXPONENTS[scalar] or math.ldexp(whole, -precision) != mantissa:
        return None
    exact = 1 / Fraction(whole)
    high = _rounded(exact, precision, down=True)
    low = _rounded(exact - high, precision)
    # (low = 0: a power of two, whose quotients are products.)
    if low * 2 ** (2 * precision + 10) < high:
        return None
    for x in _near_middles(whole, precision):
        computed = _rounded(x * high + _rounded(x * low, precision), precision)
        if computed != _rounded(x * exact, precision):
            return None
    scale = Fraction(2) ** (precision - exponent)
    sign = math.copysign(1.0, c)
    high, low = high * scale, low * scale
    least = Fraction(2) ** (_SMALLEST[scalar] + 1) / low  # so that x * low has all its bits
    least = max(least, Fraction(2) ** (_SMALLEST[scalar] + 1) / high)
    return Reciprocal(
        sign * float(high), sign * float(low), math.ldexp(1.0, math.frexp(float(least))[1])
    )


def _near_middles(c: int, precision: int) -> Iterator[int]:
    """All x of ``precision`` bits whose quotients by ``c`` of as many bits could be rounded otherwise.

    With k such that x / c has ``precision`` bits and a half before the point of 2^k x / c, middles are the odd m.
    The error of the computed quotient is at most 2^(2 - 2 precision) of it: |2^k x - c m| < 8 where it matters.
    """
    even = c & -c
    odd = c // even
    least = 1 << (precision - 1)
    for k in (precision, precision + 1):
        for j in range(-8, 9):
            if j == 0 or j % even:
                continue
            # 2^k x = j (mod c), and c = odd * even with even <= 8 < 2^k
            first = (j // even) * pow((1 << k) // even, -1, odd) % odd if odd > 1 else 0
            start = first + -(-(least - first) // odd) * odd
            yield from range(start, 2 * least, odd)


def _rounded(x: Fraction, precision: int, *, down: bool = False) -> Fraction:
    """``x`` >= 0 rounded to ``precision`` bits: to the nearest, ties to even, or down."""
    if not x:
        return x
    shift = precision - (x.numerator.bit_length() - x.denominator.bit_length())
    unit = Fraction(2) ** -shift
    if x / unit >= 1 << precision:
        unit *= 2
    elif x / unit < 1 << (precision - 1):
        unit /= 2
    number = x / unit
    return (math.floor(number) if down else round(number)) * unit
