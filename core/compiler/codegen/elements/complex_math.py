"""Elementwise operations on complex numbers, as pairs of real values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir import hlo
from .. import llvm_ir
from ..llvm_ir import Value
from ..representation import Complex, Element

if TYPE_CHECKING:
    from ..generator import Generator

Operation = Callable[["Generator", hlo.Instruction, list[Element]], Element]


def part(index: int) -> Operation:
    return lambda g, i, o: o[0][index] if isinstance(o[0], Complex) else o[0]


def of_complex(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    real, imag = o
    assert isinstance(real, Value)
    assert isinstance(imag, Value)
    return Complex(real, imag)


def multiply(g: Generator, x: Complex, y: Complex) -> Complex:
    b = g.builder
    mul = functools.partial(b.binary, "fmul contract")
    return Complex(
        b.binary("fsub contract", mul(x.real, y.real), mul(x.imag, y.imag)),
        b.binary("fadd contract", mul(x.real, y.imag), mul(x.imag, y.real)),
    )


def of_compare(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    x, y = o
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    b = g.builder
    if i.attributes["direction"] == "EQ":
        return b.binary("and", b.fcmp("oeq", x.real, y.real), b.fcmp("oeq", x.imag, y.imag))
    return b.binary("or", b.fcmp("une", x.real, y.real), b.fcmp("une", x.imag, y.imag))


def of_select(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    condition, x, y = o
    assert isinstance(condition, Value)
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    return _Real(g).select(condition, x, y)


# ------------------------------------------------------------------------------------- functions of one variable


class _Real:
    """Real arithmetic by short names, for formulas."""

    def __init__(self, g: Generator) -> None:
        self.b = g.builder
        self.g = g

    def call(self, name: str, *arguments: Value) -> Value:
        from .. import vector_math

        return vector_math.FUNCTIONS[name](self.b, self.g.target, *arguments)

    def call_complex(self, name: str, *arguments: Complex) -> Complex:
        from .. import vector_math

        parts = vector_math.COMPLEX_FUNCTIONS[name](self.b, self.g.target, *arguments)
        return Complex(*parts)

    def constant(self, like: Value, value: float) -> Value:
        return llvm_ir.floating(like.type, value)

    def add(self, x: Value, y: Value) -> Value:
        return self.b.binary("fadd contract", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.b.binary("fsub contract", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.b.binary("fmul contract", x, y)

    def div(self, x: Value, y: Value) -> Value:
        return self.b.binary("fdiv", x, y)

    def scale(self, x: Value, factor: float) -> Value:
        return self.mul(x, self.constant(x, factor))

    def abs(self, x: Value) -> Value:
        return self.b.intrinsic("fabs", [x])

    def sqrt(self, x: Value) -> Value:
        return self.b.intrinsic("sqrt", [x])

    def is_zero(self, x: Value) -> Value:
        return self.b.fcmp("oeq", x, self.constant(x, 0.0))

    def hypot(self, x: Value, y: Value) -> Value:
        """sqrt(x^2 + y^2) without overflow: the larger times sqrt(1 + ratio^2)."""
        b, x, y = self.b, self.abs(x), self.abs(y)
        swap = b.fcmp("olt", x, y)
        large, small = b.select(swap, y, x), b.select(swap, x, y)
        ratio = self.div(small, large)
        result = self.mul(large, self.sqrt(self.add(self.mul(ratio, ratio), self.constant(x, 1.0))))
        infinity = self.constant(x, float("inf"))
        infinite = b.binary("or", b.fcmp("oeq", x, infinity), b.fcmp("oeq", y, infinity))
        # The ratio is NaN for 0/0 (the result is 0) and inf/inf (the result is infinite).
        result = b.select(self.is_zero(large), large, result)
        result = b.select(b.fcmp("uno", x, y), self.add(x, y), result)
        return b.select(infinite, infinity, result)

    def divide(self, x: Complex, y: Complex) -> Complex:
        """Smith's method: scale by the ratio of the divisor's smaller part to its larger. Infinities: C99 Annex G."""
        b = self.b
        swap = b.fcmp("olt", self.abs(y.real), self.abs(y.imag))
        large, small = b.select(swap, y.imag, y.real), b.select(swap, y.real, y.imag)
        ratio = self.div(small, large)
        denominator = self.add(large, self.mul(small, ratio))
        p, q = b.select(swap, x.imag, x.real), b.select(swap, x.real, x.imag)
        scaled = self.mul(p, ratio)
        real = self.div(self.add(p, self.mul(q, ratio)), denominator)
        difference = self.sub(b.select(swap, scaled, q), b.select(swap, q, scaled))
        quotient = Complex(real, self.div(difference, denominator))
        # Where both parts are NaN: a number by 0 and infinity by a number are infinite, a number by infinity is 0.
        lost = b.binary("and", self.is_nan(quotient.real), self.is_nan(quotient.imag))
        by_zero = self.both_zero(y)
        infinite_x, infinite_y = self.is_infinite(x), self.is_infinite(y)
        quarter = Complex(self.scale(x.real, 0.25), self.scale(x.imag, 0.25))  # sums stay finite
        u = self.select(infinite_x, self.signs_of_infinities(x), quarter)
        v = self.select(infinite_y, self.signs_of_infinities(y), y)
        real = self.add(self.mul(u.real, v.real), self.mul(u.imag, v.imag))
        imag = self.sub(self.mul(u.imag, v.real), self.mul(u.real, v.imag))
        infinity, zero = self.constant(large, float("inf")), self.constant(large, 0.0)
        factor = b.select(infinite_y, zero, infinity)
        limit = Complex(self.mul(factor, real), self.mul(factor, imag))
        signed = b.intrinsic("copysign", [infinity, y.real])
        limit = self.select(
            by_zero, Complex(self.mul(signed, x.real), self.mul(signed, x.imag)), limit
        )
        # Infinity by infinity has no value, and what is NaN already stays.
        has_limit = b.binary("or", by_zero, b.binary("xor", infinite_x, infinite_y))
        return self.select(b.binary("and", lost, has_limit), limit, quotient)

    def is_nan(self, x: Value) -> Value:
        return self.b.fcmp("uno", x, x)

    def both_zero(self, x: Complex) -> Value:
        return self.b.binary("and", self.is_zero(x.real), self.is_zero(x.imag))

    def is_infinity(self, x: Value) -> Value:
        return self.b.fcmp("oeq", self.abs(x), self.constant(x, float("inf")))

    def is_infinite(self, x: Complex) -> Value:
        """Whether one part is."""
        return self.b.binary("or", self.is_infinity(x.real), self.is_infinity(x.imag))

    def signs_of_infinities(self, x: Complex) -> Complex:
        """1 for an infinite part and 0 for another, with the part's sign."""
        zero, one = (self.constant(x.real, v) for v in (0.0, 1.0))
        parts = []
        for v in x:
            size = self.b.select(self.is_infinity(v), one, zero)
            parts.append(self.b.intrinsic("copysign", [size, v]))
        return Complex(*parts)

    def select(self, condition: Value, x: Complex, y: Complex) -> Complex:
        return Complex(
            self.b.select(condition, x.real, y.real), self.b.select(condition, x.imag, y.imag)
        )

    def log(self, x: Complex) -> Complex:
        return self.call_complex("complex_log", x)

    def scaled(self, x: Complex) -> tuple[Complex, Value, Value]:
        """(x times a power of 4 with which its squares are in the range, that power, the root of its inverse)."""
        b = self.b
        real, imag = self.abs(x.real), self.abs(x.imag)
        large = b.select(b.fcmp("olt", real, imag), imag, real)
        wide = llvm_ir.scalar_of(large.type) == "double"
        high, down, low, up = (500, 540, -500, 600) if wide else (60, 66, -60, 96)
        is_high = b.fcmp("ogt", large, self.constant(large, 2.0**high))
        is_low = b.fcmp("olt", large, self.constant(large, 2.0**low))

        def choose(at_high: float, at_low: float) -> Value:
            of_low = b.select(is_low, self.constant(large, at_low), self.constant(large, 1.0))
            return b.select(is_high, self.constant(large, at_high), of_low)

        factor = choose(2.0**-down, 2.0**up)
        root = choose(2.0 ** (down // 2), 2.0 ** (-up // 2))
        return Complex(self.mul(x.real, factor), self.mul(x.imag, factor)), factor, root

    def sqrt_complex(self, x: Complex) -> Complex:
        b = self.b
        y, _, root = self.scaled(x)
        t = self.sqrt(self.scale(self.add(self.abs(y.real), self.size(y)), 0.5))
        zero = self.is_zero(t)
        t = self.mul(t, root)
        other = b.select(zero, x.imag, self.div(x.imag, self.add(t, t)))
        positive = b.fcmp("oge", x.real, self.constant(x.real, 0.0))
        signed = b.intrinsic("copysign", [t, x.imag])
        result = Complex(b.select(positive, t, self.abs(other)), b.select(positive, other, signed))
        infinity = self.constant(t, float("inf"))
        return self.select(self.is_infinity(x.imag), Complex(infinity, x.imag), result)

    def size(self, y: Complex) -> Value:
        """The absolute value of a number that :meth:`scaled` gave; infinite if one part is."""
        result = self.sqrt(self.add(self.mul(y.real, y.real), self.mul(y.imag, y.imag)))
        infinity = self.constant(result, float("inf"))
        return self.b.select(self.is_infinite(y), infinity, result)

    def by_size(self, x: Complex, y: Complex) -> tuple[Complex, Value]:
        """(x / |y|, |y| times a power of 4)."""
        scaled, factor, _ = self.scaled(y)
        size, one = self.size(scaled), self.constant(factor, 1.0)
        is_up = self.b.fcmp("ogt", factor, one)
        before, after = self.b.select(is_up, factor, one), self.b.select(is_up, one, factor)
        real, imag = (self.mul(self.div(self.mul(v, before), size), after) for v in x)
        return Complex(real, imag), size


def function(formula: Callable[..., Element]) -> Operation:
    """The operation whose value ``formula`` gives, of a :class:`_Real` and the operands."""

    def operation(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
        assert all(isinstance(x, Complex) for x in o)
        return formula(_Real(g), *o)

    return operation


def componentwise(opcode: str) -> Operation:
    return function(lambda r, x, y: Complex(*map(functools.partial(r.b.binary, opcode), x, y)))


def vector_function(name: str) -> Operation:
    return function(lambda r, *x: r.call_complex(name, *x))


def rsqrt(r: _Real, x: Complex) -> Element:
    """The root's conjugate by the absolute value; of 0, 1 by the root; of infinity 0."""
    b, root = r.b, r.sqrt_complex(x)
    conjugate = Complex(root.real, b.fneg(root.imag))
    quotient, size = r.by_size(conjugate, x)
    one, zero = (Complex(r.constant(x.real, v), r.constant(x.real, 0.0)) for v in (1.0, 0.0))
    quotient = r.select(r.is_zero(size), r.divide(one, root), quotient)
    nothing = Complex(*(b.intrinsic("copysign", [zero.real, v]) for v in conjugate))
    return r.select(r.is_infinity(size), nothing, quotient)


def tan(r: _Real, x: Complex) -> Element:
    t = r.call_complex("complex_tanh", Complex(r.b.fneg(x.imag), x.real))  # tan z = -i tanh(i z)
    return Complex(t.imag, r.b.fneg(t.real))


def logistic(r: _Real, x: Complex) -> Element:
    """1 / (1 + e^-(a + i b)). With E = e^-|a| and D = |1 + E e^(i b)|^2 = (1 - E)^2 + 4 E cos^2(b/2)

        (1 + E cos b) / D + i E sin b / D,    E (E + cos b) / D + i E sin b / D  to the left of 0,

    where near the poles, E = 1 and b = pi, a sum is written with 1 - E and 1 + cos b = 2 cos^2(b/2): nothing is lost.
    """
    b = r.b
    one, zero = (r.constant(x.real, v) for v in (1.0, 0.0))
    size = b.fneg(r.abs(x.real))
    e, rest = r.call("exp", size), r.call("expm1", size)
    sin, cos = r.call("sin", x.imag), r.call("cos", x.imag)
    half = r.call("cos", r.scale(x.imag, 0.5))
    square = r.mul(half, half)
    denominator = r.add(r.mul(rest, rest), r.scale(r.mul(e, square), 4.0))
    far = b.binary("or", b.fcmp("oge", cos, zero), b.fcmp("olt", e, r.constant(one, 0.5)))
    right = r.add(r.mul(cos, rest), r.scale(square, 2.0))
    right = b.select(far, r.add(one, r.mul(e, cos)), right)
    left = r.mul(e, b.select(far, r.add(e, cos), r.add(rest, r.scale(square, 2.0))))
    to_left = b.fcmp("olt", x.real, zero)
    real = r.div(b.select(to_left, left, right), denominator)
    imag = r.div(r.mul(e, sin), denominator)
    # At infinity the angle does not count.
    infinite = r.is_infinity(x.real)
    real = b.select(infinite, b.select(to_left, zero, one), real)
    without = b.binary("and", infinite, r.is_nan(sin))
    return Complex(real, b.select(without, b.intrinsic("copysign", [zero, x.imag]), imag))


def sign(r: _Real, x: Complex) -> Element:
    quotient, size = r.by_size(x, x)
    return r.select(r.is_zero(size), x, quotient)


of_multiply = function(lambda r, x, y: multiply(r.g, x, y))
of_divide = function(_Real.divide)
of_power = vector_function("complex_pow")
of_negate = function(lambda r, x: Complex(*map(r.b.fneg, x)))


def cbrt(r: _Real, x: Complex) -> Element:
    """The principal root: that of the absolute value, turned by a third of the angle."""
    b, one = r.b, r.constant(x.real, 1.0)
    # A power of 8 with which the absolute value is a normal number.
    is_large = b.binary("or", b.fcmp("ogt", r.abs(x.real), one), b.fcmp("ogt", r.abs(x.imag), one))
    factor = b.select(is_large, r.constant(one, 2.0**-3), r.constant(one, 2.0**90))
    back = b.select(is_large, r.constant(one, 2.0), r.constant(one, 2.0**-30))
    size = r.mul(r.call("cbrt", r.hypot(r.mul(x.real, factor), r.mul(x.imag, factor))), back)
    third = r.constant(one, 3.0)
    angle = r.div(r.call("atan2", x.imag, x.real), third)
    # A small angle may be denormal where the imaginary part is not.
    small = r.div(r.mul(r.div(size, x.real), x.imag), third)
    is_small = b.fcmp("olt", r.abs(angle), r.constant(one, 2.0**-30))
    imag = b.select(is_small, small, r.mul(size, r.call("sin", angle)))
    imag = b.select(b.binary("and", r.is_zero(angle), r.is_infinity(size)), angle, imag)
    root = Complex(r.mul(size, r.call("cos", angle)), imag)
    return r.select(r.both_zero(x), x, root)


def atan2(r: _Real, y: Complex, x: Complex) -> Element:
    """-i log((x + i y) / sqrt(x^2 + y^2)), as XLA defines it for complex numbers."""
    squares = [multiply(r.g, v, v) for v in (x, y)]
    size = r.sqrt_complex(
        Complex(r.add(squares[0].real, squares[1].real), r.add(squares[0].imag, squares[1].imag))
    )
    log = r.log(r.divide(Complex(r.sub(x.real, y.imag), r.add(x.imag, y.real)), size))
    return Complex(log.imag, r.b.fneg(log.real))


def extremum(predicate: str) -> Operation:
    """By the real parts, and by the imaginary parts where those are equal."""

    def formula(r: _Real, x: Complex, y: Complex) -> Element:
        b = r.b
        equal = b.binary(
            "and", b.fcmp("oeq", x.real, y.real), b.fcmp(predicate + "e", x.imag, y.imag)
        )
        first = b.binary("or", b.fcmp(predicate + "t", x.real, y.real), equal)
        return r.select(first, x, y)

    return function(formula)


def is_finite(r: _Real, x: Complex) -> Element:
    finite = [r.b.fcmp("one", r.abs(v), r.constant(v, float("inf"))) for v in x]
    return r.b.binary("and", *finite)
