"""Elementwise operations on complex numbers, as pairs of real values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .. import hlo
from . import llvm_ir
from .llvm_ir import Value
from .representation import Complex, Element

if TYPE_CHECKING:
    from .generator import Generator

Operation = Callable[["Generator", hlo.Instruction, list[Element]], Element]


def _componentwise(opcode: str) -> Operation:
    def operation(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
        x, y = o
        assert isinstance(x, Complex)
        assert isinstance(y, Complex)
        b = g.builder
        return Complex(b.binary(opcode, x.real, y.real), b.binary(opcode, x.imag, y.imag))

    return operation


def _part(index: int) -> Operation:
    return lambda g, i, o: o[0][index] if isinstance(o[0], Complex) else o[0]


def _make(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
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


def _multiply(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    return multiply(g, o[0], o[1])  # type: ignore[arg-type]


def _negate(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    x = o[0]
    assert isinstance(x, Complex)
    return Complex(g.builder.fneg(x.real), g.builder.fneg(x.imag))


def _compare(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    x, y = o
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    b = g.builder
    if i.attributes["direction"] == "EQ":
        return b.binary("and", b.fcmp("oeq", x.real, y.real), b.fcmp("oeq", x.imag, y.imag))
    return b.binary("or", b.fcmp("une", x.real, y.real), b.fcmp("une", x.imag, y.imag))


def _select(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    condition, x, y = o
    assert isinstance(condition, Value)
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    b = g.builder
    return Complex(b.select(condition, x.real, y.real), b.select(condition, x.imag, y.imag))


# ------------------------------------------------------------------------------------- functions of one variable


class _Real:
    """Real arithmetic by short names, for formulas."""

    def __init__(self, g: Generator) -> None:
        self.b = g.builder
        self.g = g

    def call(self, name: str, *arguments: Value) -> Value:
        from . import vector_math

        return vector_math.FUNCTIONS[name](self.b, self.g.target, *arguments)

    def call_complex(self, name: str, *arguments: Complex) -> Complex:
        from . import vector_math

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

    def grown(self, factor: Value, size: Value, exponent: Value, share: float) -> Value:
        """factor * size, with |size| = share * e^exponent where that is infinite, though the product may be finite."""
        half = self.call("exp", self.scale(exponent, 0.5))
        signed = self.b.intrinsic("copysign", [self.constant(size, share), size])
        large = self.mul(self.mul(self.mul(factor, signed), half), half)
        return self.b.select(self.is_infinity(size), large, self.mul(factor, size))

    def exp(self, x: Complex) -> Complex:
        """e^(a + i b) = e^a (cos b + i sin b). For infinite a and an angle without a value: infinity + i NaN, and 0."""
        b = self.b
        size, sin, cos = (
            self.call("exp", x.real),
            self.call("sin", x.imag),
            self.call("cos", x.imag),
        )
        real, imag = (self.grown(v, size, x.real, 1.0) for v in (cos, sin))
        lost = b.binary("and", self.is_nan(sin), self.is_infinity(x.real))
        real = b.select(lost, size, real)
        imag = b.select(b.binary("and", lost, self.is_zero(size)), size, imag)
        imag = b.select(self.is_zero(x.imag), x.imag, imag)  # also where the size is infinite
        return Complex(real, imag)

    def sine_product(self, sine: Value, size: Value, b: Value) -> Value:
        """sine * size, for ``size`` = sinh b or cosh b, where a sine of 0 leaves 0 of an infinite size too."""
        product = self.grown(sine, size, self.abs(b), 0.5)
        zero = self.mul(sine, self.b.intrinsic("copysign", [self.constant(size, 1.0), size]))
        return self.b.select(self.is_zero(sine), zero, product)

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

    def tanh(self, x: Complex) -> Complex:
        """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y), with e = e^(2 |x|) - 1

            (e (e + 2) + 4 i (e + 1) sin y cos y) / (e^2 + 4 (e + 1) cos^2 y);

        for large x 1 + 4 i e^(-2 |x|) sin y cos y.

        Special values: C99 Annex G, but +-0 + i y for infinite y and NaN is +-0 + NaN i, as in NumPy.
        """
        b = self.b
        limit = self.constant(x.real, 20.0)
        size = self.abs(x.real)
        is_large = b.fcmp("ogt", size, limit)
        a = b.select(is_large, limit, size)
        e = self.call("expm1", self.add(a, a))
        sin, cos = self.call("sin", x.imag), self.call("cos", x.imag)
        share = self.scale(self.add(e, self.constant(e, 1.0)), 4.0)
        denominator = self.add(self.mul(e, e), self.mul(share, self.mul(cos, cos)))
        real = self.div(self.mul(e, self.add(e, self.constant(e, 2.0))), denominator)
        real = b.intrinsic("copysign", [real, x.real])
        imag = self.div(self.mul(share, self.mul(sin, cos)), denominator)
        small = self.scale(self.call("exp", b.fneg(size)), 2.0)
        beyond = self.mul(self.mul(small, sin), self.mul(small, cos))
        # At infinity the angle counts for no more than a sign, if it has one.
        infinite = self.is_infinity(size)
        nothing = b.intrinsic("copysign", [self.constant(size, 0.0), x.imag])
        beyond = b.select(b.binary("and", infinite, self.is_nan(beyond)), nothing, beyond)
        one = b.intrinsic("copysign", [self.constant(size, 1.0), x.real])
        one = b.select(b.binary("or", infinite, self.b.fcmp("ord", sin, sin)), one, sin)
        real = b.select(self.is_zero(x.real), x.real, b.select(is_large, one, real))
        imag = b.select(self.is_zero(x.imag), x.imag, b.select(is_large, beyond, imag))
        return Complex(real, imag)


def _function(formula: Callable[[_Real, Complex], Element]) -> Operation:
    def operation(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
        x = o[0]
        assert isinstance(x, Complex)
        return formula(_Real(g), x)

    return operation


def _expm1(r: _Real, x: Complex) -> Element:
    half = r.call("sin", r.scale(x.imag, 0.5))
    real = r.sub(
        r.mul(r.call("expm1", x.real), r.call("cos", x.imag)), r.scale(r.mul(half, half), 2.0)
    )
    imag = r.b.select(r.is_nan(half), half, r.exp(x).imag)  # no angle, no value: -1 + 0i neither
    return Complex(real, imag)


def _rsqrt(r: _Real, x: Complex) -> Element:
    """The root's conjugate by the absolute value; of what has none, 1 by the root."""
    b, root = r.b, r.sqrt_complex(x)
    quotient, size = r.by_size(Complex(root.real, b.fneg(root.imag)), x)
    special = b.binary("or", r.is_zero(size), r.is_infinity(size))
    one = Complex(r.constant(x.real, 1.0), r.constant(x.real, 0.0))
    return r.select(special, r.divide(one, root), quotient)


def _tan(r: _Real, x: Complex) -> Element:
    t = r.tanh(Complex(r.b.fneg(x.imag), x.real))  # tan z = -i tanh(i z)
    return Complex(t.imag, r.b.fneg(t.real))


def _sine(r: _Real, x: Complex) -> Element:
    """sin a cosh b + i cos a sinh b. Without an angle, 0 stays 0, and the imaginary part infinite."""
    b, (real, imag) = r.b, x
    sin, cos = r.call("sin", real), r.call("cos", real)
    product = r.grown(cos, r.call("sinh", imag), r.abs(imag), 0.5)
    lost = b.binary("and", r.is_nan(cos), b.binary("or", r.is_zero(imag), r.is_infinity(imag)))
    return Complex(r.sine_product(sin, r.call("cosh", imag), imag), b.select(lost, imag, product))


def _cosine(r: _Real, x: Complex) -> Element:
    """cos a cosh b - i sin a sinh b. Without an angle, 0 stays 0, and the real part infinite."""
    b, (real, imag) = r.b, x
    sin, cos = r.call("sin", real), r.call("cos", real)
    product = r.grown(cos, r.call("cosh", imag), r.abs(imag), 0.5)
    lost = b.binary("and", r.is_nan(cos), r.is_infinity(imag))
    other = r.sine_product(sin, r.call("sinh", imag), imag)
    other = b.select(b.binary("and", r.is_nan(sin), r.is_zero(imag)), b.fneg(r.abs(imag)), other)
    return Complex(b.select(lost, r.abs(imag), product), b.fneg(other))


def _logistic(r: _Real, x: Complex) -> Element:
    """1 / (1 + e^-x), or e^x / (1 + e^x) to the left of 0. Near an angle b of pi little is left of the sum of 1 and
    e^-|a| cos b, which is computed as cos b (e^-|a| - 1) + 2 cos^2(b/2).
    """
    b = r.b
    left = b.fcmp("olt", x.real, r.constant(x.real, 0.0))
    size = b.fneg(r.abs(x.real))
    e, rest = r.call("exp", size), r.call("expm1", size)
    sin, cos = r.call("sin", x.imag), r.call("cos", x.imag)
    half = r.call("cos", r.scale(x.imag, 0.5))
    along, across = r.mul(e, cos), r.mul(e, sin)
    real = r.add(r.mul(cos, rest), r.scale(r.mul(half, half), 2.0))
    denominator = Complex(real, b.select(left, across, b.fneg(across)))
    one = Complex(r.constant(x.real, 1.0), r.constant(x.real, 0.0))
    quotient = r.divide(r.select(left, Complex(along, across), one), denominator)
    # At infinity the angle does not count.
    limit = Complex(b.select(left, r.constant(e, 0.0), r.constant(e, 1.0)), r.constant(e, 0.0))
    return r.select(r.is_infinity(x.real), limit, quotient)


def _sign(r: _Real, x: Complex) -> Element:
    quotient, size = r.by_size(x, x)
    return r.select(r.is_zero(size), x, quotient)


def _divide(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    x, y = o
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    return _Real(g).divide(x, y)


def _power(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    x, y = o
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    return _Real(g).call_complex("complex_pow", x, y)


def _cbrt(r: _Real, x: Complex) -> Element:
    """The principal root, exp(log(x) / 3)."""
    log = r.log(x)
    third = r.constant(x.real, 3.0)
    root = r.exp(Complex(r.div(log.real, third), r.div(log.imag, third)))
    return r.select(r.both_zero(x), x, root)


def _atan2(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    """-i log((x + i y) / sqrt(x^2 + y^2)), as XLA defines it for complex numbers."""
    y, x = o
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    r = _Real(g)
    squares = [multiply(g, v, v) for v in (x, y)]
    size = r.sqrt_complex(
        Complex(r.add(squares[0].real, squares[1].real), r.add(squares[0].imag, squares[1].imag))
    )
    log = r.log(r.divide(Complex(r.sub(x.real, y.imag), r.add(x.imag, y.real)), size))
    return Complex(log.imag, g.builder.fneg(log.real))


def _extremum(predicate: str) -> Operation:
    """By the real parts, and by the imaginary parts where those are equal."""

    def operation(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
        x, y = o
        assert isinstance(x, Complex)
        assert isinstance(y, Complex)
        b = g.builder
        equal = b.binary(
            "and", b.fcmp("oeq", x.real, y.real), b.fcmp(predicate + "e", x.imag, y.imag)
        )
        first = b.binary("or", b.fcmp(predicate + "t", x.real, y.real), equal)
        return Complex(b.select(first, x.real, y.real), b.select(first, x.imag, y.imag))

    return operation


def _is_finite(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    x = o[0]
    assert isinstance(x, Complex)
    b = g.builder
    finite = [
        b.fcmp("one", b.intrinsic("fabs", [v]), llvm_ir.floating(v.type, float("inf"))) for v in x
    ]
    return b.binary("and", finite[0], finite[1])


OPERATIONS: Final[dict[str, Operation]] = {
    "add": _componentwise("fadd contract"),
    "subtract": _componentwise("fsub contract"),
    "multiply": _multiply,
    "negate": _negate,
    "complex": _make,
    "real": _part(0),
    "imag": _part(1),
    "compare": _compare,
    "select": _select,
    "copy": lambda g, i, o: o[0],
    "divide": _divide,
    "power": _power,
    "atan2": _atan2,
    "maximum": _extremum("og"),
    "minimum": _extremum("ol"),
    "cbrt": _function(_cbrt),
    "is-finite": _is_finite,
    "abs": _function(lambda r, x: r.hypot(x.real, x.imag)),
    "sign": _function(_sign),
    "exponential": _function(lambda r, x: r.exp(x)),
    "exponential-minus-one": _function(_expm1),
    "log": _function(lambda r, x: r.log(x)),
    "log-plus-one": _function(lambda r, x: r.call_complex("complex_log1p", x)),
    "sqrt": _function(lambda r, x: r.sqrt_complex(x)),
    "rsqrt": _function(_rsqrt),
    "tanh": _function(lambda r, x: r.tanh(x)),
    "tan": _function(_tan),
    "sine": _function(_sine),
    "cosine": _function(_cosine),
    "logistic": _function(_logistic),
}
