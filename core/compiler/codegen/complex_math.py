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
        """Smith's method: scale by the ratio of the divisor's smaller part to its larger."""
        b = self.b
        swap = b.fcmp("olt", self.abs(y.real), self.abs(y.imag))
        large, small = b.select(swap, y.imag, y.real), b.select(swap, y.real, y.imag)
        ratio = self.div(small, large)
        denominator = self.add(large, self.mul(small, ratio))
        p, q = b.select(swap, x.imag, x.real), b.select(swap, x.real, x.imag)
        real = self.div(self.add(p, self.mul(q, ratio)), denominator)
        imag = self.div(self.sub(q, self.mul(p, ratio)), denominator)
        imag = b.select(swap, b.fneg(imag), imag)
        # x / 0 is infinite or NaN in each part.
        zero = self.is_zero(large)
        real = b.select(zero, self.div(x.real, self.abs(large)), real)
        return Complex(real, b.select(zero, self.div(x.imag, self.abs(large)), imag))

    def exp(self, x: Complex) -> Complex:
        b = self.b
        size = self.call("exp", x.real)
        imag = self.mul(size, self.call("sin", x.imag))
        imag = b.select(self.is_zero(x.imag), x.imag, imag)  # also where the size is infinite
        return Complex(self.mul(size, self.call("cos", x.imag)), imag)

    def log(self, x: Complex) -> Complex:
        """Near the unit circle log|x| is log1p(|x|^2 - 1) / 2, with |x|^2 - 1 as (a - 1)(a + 1) + b^2."""
        b = self.b
        real, imag = self.abs(x.real), self.abs(x.imag)
        swap = b.fcmp("olt", real, imag)
        large, small = b.select(swap, imag, real), b.select(swap, real, imag)
        one = self.constant(large, 1.0)
        excess = self.mul(self.sub(large, one), self.add(large, one))
        near = self.scale(self.call("log1p", self.add(excess, self.mul(small, small))), 0.5)
        far = self.call("log", self.hypot(x.real, x.imag))
        is_near = b.fcmp(
            "olt", self.abs(self.sub(large, self.constant(large, 1.0))), self.constant(large, 0.3)
        )
        return Complex(b.select(is_near, near, far), self.call("atan2", x.imag, x.real))

    def sqrt_complex(self, x: Complex) -> Complex:
        b = self.b
        size = self.hypot(x.real, x.imag)
        # Halve before adding: no overflow.
        t = self.sqrt(self.add(self.scale(self.abs(x.real), 0.5), self.scale(size, 0.5)))
        other = self.div(self.scale(x.imag, 0.5), t)
        other = b.select(self.is_zero(t), x.imag, other)
        positive = b.fcmp("oge", x.real, self.constant(x.real, 0.0))
        signed = b.intrinsic("copysign", [t, x.imag])
        return Complex(b.select(positive, t, self.abs(other)), b.select(positive, other, signed))

    def tanh(self, x: Complex) -> Complex:
        """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y), where |x| = 20 is as good as infinite."""
        b = self.b
        limit = self.constant(x.real, 20.0)
        a = b.select(b.fcmp("ogt", x.real, limit), limit, x.real)
        a = b.select(b.fcmp("olt", a, b.fneg(limit)), b.fneg(limit), a)
        sinh, cosh = self.call("sinh", a), self.call("cosh", a)
        sin, cos = self.call("sin", x.imag), self.call("cos", x.imag)
        denominator = self.add(self.mul(sinh, sinh), self.mul(cos, cos))
        return Complex(
            self.div(self.mul(sinh, cosh), denominator), self.div(self.mul(sin, cos), denominator)
        )


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
    return Complex(real, r.mul(r.call("exp", x.real), r.call("sin", x.imag)))


def _log1p(r: _Real, x: Complex) -> Element:
    """log|1 + x| is log1p(2a + a^2 + b^2) / 2 for small x, else as in log."""
    b = r.b
    one = r.constant(x.real, 1.0)
    shifted = Complex(r.add(x.real, one), x.imag)
    square = r.add(r.mul(x.real, r.add(x.real, r.constant(x.real, 2.0))), r.mul(x.imag, x.imag))
    near = r.scale(r.call("log1p", square), 0.5)
    far = r.log(shifted)
    size = r.add(r.abs(x.real), r.abs(x.imag))
    return Complex(b.select(b.fcmp("olt", size, r.constant(size, 0.5)), near, far.real), far.imag)


def _rsqrt(r: _Real, x: Complex) -> Element:
    root = r.sqrt_complex(x)
    return r.divide(Complex(r.constant(x.real, 1.0), r.constant(x.real, 0.0)), root)


def _tan(r: _Real, x: Complex) -> Element:
    t = r.tanh(Complex(r.b.fneg(x.imag), x.real))  # tan z = -i tanh(i z)
    return Complex(t.imag, r.b.fneg(t.real))


def _sine(r: _Real, x: Complex) -> Element:
    return Complex(
        r.mul(r.call("sin", x.real), r.call("cosh", x.imag)),
        r.mul(r.call("cos", x.real), r.call("sinh", x.imag)),
    )


def _cosine(r: _Real, x: Complex) -> Element:
    return Complex(
        r.mul(r.call("cos", x.real), r.call("cosh", x.imag)),
        r.b.fneg(r.mul(r.call("sin", x.real), r.call("sinh", x.imag))),
    )


def _logistic(r: _Real, x: Complex) -> Element:
    e = r.exp(Complex(r.b.fneg(x.real), r.b.fneg(x.imag)))
    one, zero = r.constant(x.real, 1.0), r.constant(x.real, 0.0)
    return r.divide(Complex(one, zero), Complex(r.add(e.real, one), e.imag))


def _sign(r: _Real, x: Complex) -> Element:
    size = r.hypot(x.real, x.imag)
    zero = r.is_zero(size)
    return Complex(
        r.b.select(zero, x.real, r.div(x.real, size)), r.b.select(zero, x.imag, r.div(x.imag, size))
    )


def _divide(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    x, y = o
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    return _Real(g).divide(x, y)


def _power(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    """exp(y log x); x^0 is 1, and 0^y is 0 for a positive real part of y."""
    x, y = o
    assert isinstance(x, Complex)
    assert isinstance(y, Complex)
    r, b = _Real(g), g.builder
    result = r.exp(multiply(g, y, r.log(x)))
    x_zero = b.binary("and", r.is_zero(x.real), r.is_zero(x.imag))
    y_zero = b.binary("and", r.is_zero(y.real), r.is_zero(y.imag))
    positive = b.fcmp("ogt", y.real, r.constant(y.real, 0.0))
    vanishes = b.binary("and", x_zero, positive)
    one, zero = r.constant(x.real, 1.0), r.constant(x.real, 0.0)
    real = b.select(y_zero, one, b.select(vanishes, zero, result.real))
    return Complex(real, b.select(b.binary("or", y_zero, vanishes), zero, result.imag))


def _cbrt(r: _Real, x: Complex) -> Element:
    """The principal root, exp(log(x) / 3)."""
    log = r.log(x)
    third = r.constant(x.real, 3.0)
    root = r.exp(Complex(r.div(log.real, third), r.div(log.imag, third)))
    zero = r.b.binary("and", r.is_zero(x.real), r.is_zero(x.imag))
    return Complex(r.b.select(zero, x.real, root.real), r.b.select(zero, x.imag, root.imag))


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
    "log-plus-one": _function(_log1p),
    "sqrt": _function(lambda r, x: r.sqrt_complex(x)),
    "rsqrt": _function(_rsqrt),
    "tanh": _function(lambda r, x: r.tanh(x)),
    "tan": _function(_tan),
    "sine": _function(_sine),
    "cosine": _function(_cosine),
    "logistic": _function(_logistic),
}
