"""Sums of products in an accumulator of any dtype: what dots and convolutions are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.dtypes import DType
from .. import llvm_ir
from ..llvm_ir import Value
from ..representation import Complex, Element, register_type
from . import conversion

if TYPE_CHECKING:
    from ..generator import Generator


class Products:
    """Accumulates in registers of ``dtype``: small floats in float, integers wrap, predicates with
    and / or.
    """

    def __init__(self, g: Generator, dtype: DType) -> None:
        self.g = g
        self.dtype = dtype
        self.type = register_type(dtype)
        self.parts = 2 if dtype.is_complex else 1
        self._has_fma = g.target.has("fma") or not g.target.is_x86

    def factor(self, value: Element, source: DType) -> Element:
        """An element of an operand in the type of the accumulator."""
        if source is self.dtype:
            return value
        same_register = register_type(source) == self.type and not self.dtype.is_complex
        if source.is_float and same_register:
            return value  # small floats are float in registers; the accumulator is not rounded
        key = ("factor", value, source, self.dtype)
        return self.g.pure(
            key, [value], lambda: conversion.convert(self.g, value, source, self.dtype)
        )

    def zeros(self, lanes: int) -> Element:
        value = llvm_ir.zero(llvm_ir.vector(self.type, lanes))
        return Complex(value, value) if self.dtype.is_complex else value

    def multiply_add(self, a: Element, b: Element, c: Element) -> Element:
        """a*b + c; a and b may be scalars where c is a vector."""
        if isinstance(a, Complex):
            assert isinstance(b, Complex)
            assert isinstance(c, Complex)
            real = self._fma(self._negated(a.imag), b.imag, self._fma(a.real, b.real, c.real))
            imag = self._fma(a.imag, b.real, self._fma(a.real, b.imag, c.imag))
            return Complex(real, imag)
        assert isinstance(b, Value)
        assert isinstance(c, Value)
        return self._fma(a, b, c)

    def _negated(self, a: Value) -> Value:
        return self.g.pure(("fneg", a), [a], lambda: self.g.builder.fneg(a))

    def _fma(self, a: Value, b: Value, c: Value) -> Value:
        builder = self.g.builder
        lanes = llvm_ir.lanes_of(c.type)
        a, b = self.g.splat(a, lanes), self.g.splat(b, lanes)
        if self.dtype.kind == "pred":
            return builder.binary("or", builder.binary("and", a, b), c)
        if self.type[0] == "i":
            return builder.binary("add", builder.binary("mul", a, b), c)
        if self._has_fma:
            return builder.intrinsic("fma", [a, b, c])
        return builder.binary("fadd", builder.binary("fmul", a, b), c)

    def add(self, a: Value, b: Value) -> Value:
        opcode = "or" if self.dtype.kind == "pred" else "add" if self.type[0] == "i" else "fadd"
        return self.g.builder.binary(opcode, a, b)

    def add_elements(self, a: Element, b: Element) -> Element:
        if isinstance(a, Complex):
            assert isinstance(b, Complex)
            return Complex(self.add(a.real, b.real), self.add(a.imag, b.imag))
        assert isinstance(b, Value)
        return self.add(a, b)

    def grouped(self, values: Sequence[Value]) -> list[Element]:
        """Elements of the accumulator's dtype from the values of their components."""
        if self.parts == 1:
            return list(values)
        return [Complex(values[n], values[n + 1]) for n in range(0, len(values), 2)]
