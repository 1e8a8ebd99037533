"""Floating-point arithmetic on vectors of any length, as the functions of this package write it.

:class:`Arithmetic` fixes the builder, the target and one floating-point type (``float`` or
``double``, scalar or vector), so that a formula is a line of Python. Nothing here carries fast-math
flags: the order of operations written is the order run.

Double-word numbers (``Pair``: an unevaluated sum high + low with |low| <= ulp(high)/2) follow
Dekker and Knuth; see Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building
blocks of double-word arithmetic" (2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value


class Pair(NamedTuple):
    """A double-word number high + low."""

    high: Value
    low: Value


class _Format(NamedTuple):
    integer: str
    bits: int
    mantissa: int  # explicit bits
    bias: int
    magic: float  # 1.5 * 2^mantissa: adding it rounds to an integer, which is then found in the low bits


_FORMATS: Final = {
    "float": _Format("i32", 32, 23, 127, 1.5 * 2.0**23),
    "double": _Format("i64", 64, 52, 1023, 1.5 * 2.0**52),
}

INFINITY: Final = float("inf")
NAN: Final = float("nan")


class Arithmetic:
    """Operations on values of one floating-point type. Constants may be given as Python floats."""

    def __init__(self, builder: Builder, target: Target, type_: str) -> None:
        self.builder = builder
        self.target = target
        # Without the instruction llvm.fma would be a slow library call.
        self.has_fma = target.has("fma") or not target.is_x86
        self.type = type_
        self.scalar: str = llvm_ir.scalar_of(type_)
        self.lanes = llvm_ir.lanes_of(type_)
        self.format = _FORMATS[self.scalar]
        self.integer_type = llvm_ir.vector(self.format.integer, self.lanes)
        self.is_double = self.scalar == "double"

    # -- values
    def constant(self, value: float | Value) -> Value:
        return llvm_ir.floating(self.type, value) if isinstance(value, int | float) else value

    def integer(self, value: int | Value) -> Value:
        return llvm_ir.integer(self.integer_type, value) if isinstance(value, int) else value

    def bits(self, x: Value) -> Value:
        """The representation of x as integers of the same width."""
        return self.builder.cast("bitcast", x, self.integer_type)

    def from_bits(self, i: Value) -> Value:
        return self.builder.cast("bitcast", i, self.type)

    # -- floating-point operations
    def add(self, a: Value | float, b: Value | float) -> Value:
        return self.builder.binary("fadd", self.constant(a), self.constant(b))

    def sub(self, a: Value | float, b: Value | float) -> Value:
        return self.builder.binary("fsub", self.constant(a), self.constant(b))

    def mul(self, a: Value | float, b: Value | float) -> Value:
        return self.builder.binary("fmul", self.constant(a), self.constant(b))

    def div(self, a: Value | float, b: Value | float) -> Value:
        return self.builder.binary("fdiv", self.constant(a), self.constant(b))

    def fma(self, a: Value | float, b: Value | float, c: Value | float) -> Value:
        """a*b + c: rounded once where the target can, else twice. Formulas must bear both."""
        a, b, c = self.constant(a), self.constant(b), self.constant(c)
        if self.has_fma:
            return self.builder.intrinsic("fma", [a, b, c])
        return self.add(self.mul(a, b), c)

    def fnma(self, a: Value | float, b: Value | float, c: Value | float) -> Value:
        """c - a*b."""
        if isinstance(b, int | float):
            return self.fma(a, -b, c)
        return self.fma(self.negate(self.constant(a)), b, c)

    def negate(self, a: Value) -> Value:
        return self.builder.fneg(a)

    def absolute(self, a: Value) -> Value:
        return self.builder.intrinsic("fabs", [a])

    def sqrt(self, a: Value) -> Value:
        return self.builder.intrinsic("sqrt", [a])

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        return self.builder.intrinsic("copysign", [magnitude, sign])

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """sum coefficients[i] * x^i by Horner's rule."""
        result = self.constant(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            result = self.fma(result, x, c)
        return result

    def pair_polynomial(self, x: Pair, coefficients: Sequence[float | tuple[float, float]]) -> Pair:
        """sum coefficients[i] * x^i in two words: the first coefficients have two, the others one.

        Each must be larger than the next one times |x|. Even and odd powers go beside each other: their chains of
        dependent operations are half as long.
        """
        square = self.pair_product(x, x)
        square = self.fast_two_sum(square.high, square.low)
        even = self._pair_horner(square, coefficients[::2])
        odd = self.pair_product(x, self._pair_horner(square, coefficients[1::2]))
        total = self.two_sum(even.high, odd.high)
        return self.fast_two_sum(total.high, self.add(total.low, self.add(even.low, odd.low)))

    def _pair_horner(self, x: Pair, coefficients: Sequence[float | tuple[float, float]]) -> Pair:
        single = [c for c in coefficients if not isinstance(c, tuple)]
        words = [c for c in coefficients if isinstance(c, tuple)]
        result = Pair(self.polynomial(x.high, single), self.constant(0.0))
        for high, low in reversed(words):
            p = self.pair_product(result, x)
            total = self.fast_two_sum(self.constant(high), p.high)
            result = Pair(total.high, self.add(total.low, self.add(p.low, low)))
        return result

    # -- comparisons and choices
    def compare(self, predicate: str, a: Value | float, b: Value | float) -> Value:
        return self.builder.fcmp(predicate, self.constant(a), self.constant(b))

    def select(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        return self.builder.select(condition, self.constant(a), self.constant(b))

    def at_most(self, x: Value, limit: float) -> Value:
        """min(x, limit); NaN stays NaN. One instruction on x86."""
        return self.select(self.compare("ogt", x, limit), limit, x)

    def at_least(self, x: Value, limit: float) -> Value:
        """max(x, limit); NaN stays NaN. One instruction on x86."""
        return self.select(self.compare("olt", x, limit), limit, x)

    def both(self, a: Value, b: Value) -> Value:
        return self.builder.binary("and", a, b)

    def either(self, a: Value, b: Value) -> Value:
        return self.builder.binary("or", a, b)

    def is_not(self, a: Value) -> Value:
        return self.builder.binary("xor", a, llvm_ir.integer(a.type, -1))

    # -- integers
    def int_add(self, a: Value, b: Value | int) -> Value:
        return self.builder.binary("add", a, self.integer(b))

    def int_sub(self, a: Value | int, b: Value | int) -> Value:
        return self.builder.binary("sub", self.integer(a), self.integer(b))

    def int_and(self, a: Value, b: Value | int) -> Value:
        return self.builder.binary("and", a, self.integer(b))

    def int_or(self, a: Value, b: Value | int) -> Value:
        return self.builder.binary("or", a, self.integer(b))

    def int_xor(self, a: Value, b: Value | int) -> Value:
        return self.builder.binary("xor", a, self.integer(b))

    def shift_left(self, a: Value, count: int) -> Value:
        return self.builder.binary("shl", a, self.integer(count))

    def shift_right_signed(self, a: Value, count: int) -> Value:
        return self.builder.binary("ashr", a, self.integer(count))

    def int_compare(self, predicate: str, a: Value, b: Value | int) -> Value:
        return self.builder.icmp(predicate, a, self.integer(b))

    def int_at_most(self, a: Value, limit: int) -> Value:
        return self.builder.intrinsic("smin", [a, self.integer(limit)])

    def int_at_least(self, a: Value, limit: int) -> Value:
        return self.builder.intrinsic("smax", [a, self.integer(limit)])

    # -- rounding and scaling
    def round(self, x: Value, scale: float = 1.0) -> tuple[Value, Value]:
        """x * scale rounded to a nearby integer, as (floating, integer); for |x * scale| <
        2^(mantissa - 2).
        """
        floating, shifted = self.round_shifted(x, scale, 0)
        return floating, self.int_sub(shifted, self.bits_of(self.format.magic))

    def round_shifted(self, x: Value, scale: float, offset: int) -> tuple[Value, Value]:
        """As :meth:`round`, with the integer plus ``offset`` in the low bits of the second value."""
        magic = self.constant(self.format.magic + offset)
        shifted = self.add(x, magic) if scale == 1.0 else self.fma(x, scale, magic)
        return self.sub(shifted, magic), self.bits(shifted)

    def bits_of(self, value: float) -> Value:
        """The representation of a constant."""
        return self.bits(llvm_ir.floating(self.type, value))

    def exp2_integer(self, n: Value) -> Value:
        """2^n for integers n in the range of normal exponents."""
        biased = self.int_add(n, self.format.bias)
        return self.from_bits(self.shift_left(biased, self.format.mantissa))

    def scale(self, x: Value, n: Value) -> Value:
        """x * 2^n rounded once, for |n| up to twice the range of exponents and x near 1: overflows
        and denormals are right.
        """
        return self.mul(*self.scale_factors(x, n))

    def scale_factors(self, x: Value, n: Value) -> tuple[Value, Value]:
        """x * 2^n as a product: (x 2^h, 2^(n - h)) with h half of n."""
        half = self.shift_right_signed(n, 1)
        return self.mul(x, self.exp2_integer(half)), self.exp2_integer(self.int_sub(n, half))

    def scale_normal(self, x: Value, n: Value) -> Value:
        """x * 2^n where x and the result are normal numbers."""
        return self.from_bits(self.int_add(self.bits(x), self.shift_left(n, self.format.mantissa)))

    # -- double-word arithmetic
    def two_sum(self, a: Value, b: Value) -> Pair:
        """a + b exactly."""
        s = self.add(a, b)
        bb = self.sub(s, a)
        return Pair(s, self.add(self.sub(a, self.sub(s, bb)), self.sub(b, bb)))

    def fast_two_sum(self, a: Value, b: Value) -> Pair:
        """a + b exactly, for |a| >= |b| (or a = 0)."""
        s = self.add(a, b)
        return Pair(s, self.sub(b, self.sub(s, a)))

    def two_product(self, a: Value, b: Value) -> Pair:
        """a * b exactly, barring overflow and underflow."""
        p = self.mul(a, b)
        if self.has_fma:
            return Pair(p, self.builder.intrinsic("fma", [a, b, self.negate(p)]))
        ah, al = self._split(a)
        bh, bl = self._split(b)
        low = self.sub(self.mul(ah, bh), p)
        low = self.add(self.add(low, self.mul(ah, bl)), self.mul(al, bh))
        return Pair(p, self.add(low, self.mul(al, bl)))

    def residual(self, c: Value | float, a: Value, b: Value) -> Value:
        """c - a * b exactly, for a c so near to the product that the difference is a number of the format."""
        if self.has_fma:
            return self.fnma(a, b, c)
        p = self.two_product(a, b)
        return self.sub(self.sub(c, p.high), p.low)

    def _split(self, a: Value) -> Pair:
        """a in two halves of half the precision each: the low bits of the mantissa cut off."""
        dropped = (self.format.mantissa + 2) // 2
        high = self.from_bits(self.int_and(self.bits(a), -(1 << dropped)))
        return Pair(high, self.sub(a, high))

    def pair_add(self, x: Pair, y: Pair) -> Pair:
        s = self.two_sum(x.high, y.high)
        return self.fast_two_sum(s.high, self.add(s.low, self.add(x.low, y.low)))

    def pair_multiply(self, x: Pair, y: Pair) -> Pair:
        p = self.two_product(x.high, y.high)
        low = self.fma(x.high, y.low, self.fma(x.low, y.high, p.low))
        return self.fast_two_sum(p.high, low)

    def pair_scale(self, x: Pair, y: Value) -> Pair:
        """x * y, not normalised: the low word may be some units in the last place of the high one."""
        p = self.two_product(x.high, y)
        return Pair(p.high, self.fma(x.low, y, p.low))

    def pair_product(self, x: Pair, y: Pair) -> Pair:
        """x * y, not normalised."""
        p = self.two_product(x.high, y.high)
        return Pair(p.high, self.fma(x.high, y.low, self.fma(x.low, y.high, p.low)))

    def pair_quotient(self, x: Pair, y: Pair) -> Pair:
        """x / y, not normalised; the high word is the rounded quotient of the high words."""
        q = self.div(x.high, y.high)
        rest = self.residual(x.high, q, y.high)
        return Pair(q, self.div(self.add(rest, self.fnma(q, y.low, x.low)), y.high))

    def pair_sum(self, x: Pair) -> Value:
        """The number that the two words are, rounded."""
        return self.add(x.high, x.low)

    def pair_negate(self, x: Pair) -> Pair:
        return Pair(self.negate(x.high), self.negate(x.low))

    def pair_select(self, condition: Value, x: Pair, y: Pair) -> Pair:
        return Pair(self.select(condition, x.high, y.high), self.select(condition, x.low, y.low))

    def pair_constant(self, high: float, low: float) -> Pair:
        return Pair(self.constant(high), self.constant(low))
