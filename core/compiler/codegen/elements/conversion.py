"""Between memory and registers, and between dtypes: exact, rounding to nearest even where a value does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import dtypes
from ...ir.dtypes import DType
from ...ir.errors import unimplemented
from .. import llvm_ir
from ..llvm_ir import Value, lanes_of, vector
from ..representation import Complex, Element, register_type
from . import nibbles, small_floats

if TYPE_CHECKING:
    from ..generator import Generator


def from_memory(g: Generator, raw: Value, dtype: DType) -> Value:
    """The register value of what was loaded."""
    b = g.builder
    dtype = dtype.component
    if dtype.kind == "pred":
        return b.icmp("ne", raw, llvm_ir.zero(raw.type))
    if dtype.is_integer:
        return wrap(g, raw, dtype)
    if dtype in (dtypes.F32, dtypes.F64):
        return raw
    return small_floats.decode(g, raw, dtype)


def to_memory(g: Generator, value: Value, dtype: DType) -> Value:
    """What to store for a register value."""
    dtype = dtype.component
    if dtype.kind == "pred":
        return g.builder.cast("zext", value, vector("i8", lanes_of(value.type)))
    if dtype.is_integer or dtype in (dtypes.F32, dtypes.F64):
        return value
    return small_floats.encode(g, value, dtype)


def wrap(g: Generator, value: Value, dtype: DType) -> Value:
    """An integer reduced to the width of a sub-byte dtype; other integers are in range already."""
    if dtype.bits >= 8:
        return value
    b = g.builder
    if dtype.is_signed:
        by = llvm_ir.integer(value.type, 8 - dtype.bits)
        result = b.binary("ashr", b.binary("shl", value, by), by)
    else:
        result = b.binary("and", value, llvm_ir.integer(value.type, (1 << dtype.bits) - 1))
    nibbles.note_wrapped(g, value, result, dtype)
    return result


def round_to(g: Generator, value: Value, dtype: DType) -> Value:
    """A float register value rounded to a dtype narrower than its register."""
    if dtype in (dtypes.F32, dtypes.F64) or not dtype.is_float:
        return value
    return small_floats.round_to(g, value, dtype)


def number(g: Generator, value: Element, source: DType, target: DType) -> Value:
    """:func:`convert` between types that are not complex."""
    converted = convert(g, value, source, target)
    assert isinstance(converted, Value)
    return converted


def to_memory_of(g: Generator, value: Value, source: DType, target: DType) -> Value:
    """What to store in an array of ``target`` for a register value of ``source``."""
    if source is not target:
        value = number(g, value, source, target)
    return to_memory(g, value, target)


def in_memory(g: Generator, raw: Value, source: DType, target: DType) -> Value:
    """What to store in an array of ``target`` for a value that an array of ``source`` holds."""
    if source is target:
        return raw
    return to_memory(g, number(g, from_memory(g, raw, source), source, target), target)


def convert(g: Generator, element: Element, source: DType, target: DType) -> Element:
    """StableHLO's ``convert``.

    Floats saturate into integers (NaN gives 0), anything but 0 is true, a complex number gives its real part (so i is
    false), integers wrap.
    """
    if target.is_complex:
        if isinstance(element, Complex):
            parts = [_convert(g, v, source.component, target.component) for v in element]
            return Complex(parts[0], parts[1])
        real = _convert(g, element, source, target.component)
        return Complex(real, llvm_ir.zero(real.type))
    if isinstance(element, Complex):
        element = element.real
    return _convert(g, element, source.component, target)


def _convert(g: Generator, value: Value, source: DType, target: DType) -> Value:
    b = g.builder
    if source is target:
        return value
    count = lanes_of(value.type)
    type_ = vector(register_type(target), count)
    if source.kind == "token" or target.kind == "token":
        raise unimplemented(f"convert from {source} to {target}")
    if target.kind == "pred":
        if source.is_float:
            return b.fcmp("une", value, llvm_ir.floating(value.type, 0.0))
        return b.icmp("ne", value, llvm_ir.zero(value.type))
    if source.kind == "pred" or source.is_integer:
        signed = source.is_signed
        if target.is_integer:
            wide, narrow = int(register_type(source)[1:]), int(register_type(target)[1:])
            result = value
            if wide > narrow:
                result = b.cast("trunc", value, type_)
            elif wide < narrow:
                result = b.cast("sext" if signed else "zext", value, type_)
            nibbles.note_converted(g, value, result, source)
            return wrap(g, result, target)
        number = nibbles.convert_to_float(g, value, source) if target is dtypes.F32 else None
        if number is not None:
            return number
        return round_to(g, b.cast("sitofp" if signed else "uitofp", value, type_), target)
    if target.is_integer:
        return _float_to_integer(g, value, target)
    return _float_to_float(g, value, source, target)


def _float_to_integer(g: Generator, value: Value, target: DType) -> Value:
    b = g.builder
    count = lanes_of(value.type)
    type_ = vector(register_type(target), count)
    if count > 1 and not g.target.saturates_vectors:
        return _saturate(g, value, target)
    name = f"llvm.fpto{'s' if target.is_signed else 'u'}i.sat.{llvm_ir.mangle(type_)}.{llvm_ir.mangle(value.type)}"
    result = b.call(type_, name, [value])
    if target.bits >= 8:
        return result
    low, high = _range_of(target)
    prefix = "s" if target.is_signed else "u"
    result = b.intrinsic(f"{prefix}min", [result, llvm_ir.integer(type_, high)])
    return b.intrinsic(f"{prefix}max", [result, llvm_ir.integer(type_, low)])


def _saturate(g: Generator, value: Value, target: DType) -> Value:
    """The integers nearest to a vector of floats: those out of range become the ends of the range first.

    LLVM converts one lane after the other for x86's saturating intrinsics, with a branch each.
    """
    b = g.builder
    count = lanes_of(value.type)
    low, high = _range_of(target)
    # An end that the float's digits cannot hold is chosen behind the conversion, whose own result means nothing there.
    holds_high = target.bits <= (24 if value.type.endswith("float>") else 53)

    def constant(number: float) -> Value:
        return llvm_ir.floating(value.type, float(number))

    if target.is_signed:  # else a NaN becomes 0 as negative numbers do
        value = b.select(b.fcmp("ord", value, value), value, constant(0.0))
    value = b.select(b.fcmp("ogt", value, constant(low)), value, constant(low))
    if holds_high:
        value = b.select(b.fcmp("olt", value, constant(high)), value, constant(high))
    # Numbers of 8 and 16 bits have no conversions of their own.
    narrow = target.bits < 32
    wide = vector("i32" if narrow else register_type(target), count)
    opcode = "fptosi" if target.is_signed or narrow else "fptoui"
    result = b.cast(opcode, value, wide)
    if narrow:
        return b.cast("trunc", result, vector(register_type(target), count))
    if holds_high:
        return result
    above = b.fcmp("oge", value, constant(high + 1))
    return b.select(above, llvm_ir.integer(wide, high), result)


def _range_of(dtype: DType) -> tuple[int, int]:
    """The least and the largest number of an integer dtype."""
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def _float_to_float(g: Generator, value: Value, source: DType, target: DType) -> Value:
    b = g.builder
    count = lanes_of(value.type)
    if target is dtypes.F64:
        return b.cast("fpext", value, vector("double", count))
    if source is dtypes.F64:
        if target is dtypes.F32:
            return b.cast("fptrunc", value, vector("float", count))
        value = small_floats.truncate_to_odd(g, value)
    return round_to(g, value, target)
