"""Elementwise operations on complex numbers, as pairs of real values."""

from __future__ import annotations

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
    mul = lambda p, q: b.binary("fmul contract", p, q)
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
}

__all__ = ["OPERATIONS", "llvm_ir", "multiply"]
