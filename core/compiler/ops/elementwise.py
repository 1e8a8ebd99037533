"""Elementwise ops: arithmetic, comparisons, bits and conversions. (Functions: :mod:`.functions`.)"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..formats.hlo_proto import Field
from ..formats.wire_format import integer, text
from ..importer import ops_elementwise
from ..ir import dtypes
from ..ir.hlo import Instruction, Shape
from ..ir.printer import renamed
from ..ir.registry import (
    AS_IT_STANDS,
    CHOOSES,
    EXACT,
    IN_DTYPE,
    ROUNDED,
    WORTH,
    Array,
    Evaluation,
    Price,
    Reader,
    both,
    register,
)
from ..ir.shape_rules import array_of, arrays_of, require, same_shape
from ..reference import elementwise as reference


def component_of_same(instruction: Instruction) -> Shape:
    shape = same_shape(instruction)
    return shape.with_dtype(shape.dtype.component)


def _to_pred(instruction: Instruction) -> Shape:
    return same_shape(instruction).with_dtype(dtypes.PRED)


def _compare_shape(instruction: Instruction) -> Shape:
    require(
        instruction.attributes["direction"] in ("EQ", "NE", "LT", "LE", "GT", "GE"),
        "unknown direction",
    )
    kinds = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
    require(instruction.attributes["comparison_type"] in kinds, "unknown comparison type")
    return _to_pred(instruction)


def _complex_shape(instruction: Instruction) -> Shape:
    shape = same_shape(instruction)
    require(shape.dtype in (dtypes.F32, dtypes.F64), f"complex does not take {shape.dtype}")
    return shape.with_dtype(dtypes.C64 if shape.dtype is dtypes.F32 else dtypes.C128)


def _convert_shape(instruction: Instruction) -> Shape:
    return array_of(instruction).with_dtype(instruction.dtype)


def _bitcast_convert_shape(instruction: Instruction) -> Shape:
    source, target = array_of(instruction), instruction.dtype
    if source.dtype.bits == target.bits:
        return source.with_dtype(target)
    if source.dtype.bits > target.bits:
        require(source.dtype.bits % target.bits == 0, "widths do not fit")
        return Shape(target, (*source.dims, source.dtype.bits // target.bits))
    require(
        source.rank > 0 and source.dims[-1] * source.dtype.bits == target.bits, "widths do not fit"
    )
    return Shape(target, source.dims[:-1])


def _select_shape(instruction: Instruction) -> Shape:
    predicate, on_true, on_false = arrays_of(instruction)
    require(predicate.dtype is dtypes.PRED, "the first operand is not pred")
    require(on_true == on_false, "the operands' shapes differ")
    require(
        predicate.dims in ((), on_true.dims),
        "the first operand has neither the result's dimensions nor none",
    )
    return on_true


def _clamp_shape(instruction: Instruction) -> Shape:
    low, shape, high = arrays_of(instruction)
    for bound in (low, high):
        require(
            bound.dtype is shape.dtype and bound.dims in ((), shape.dims),
            "a bound does not fit the operand",
        )
    return shape


def _bitcast_convert_value(i: Instruction, a: Array) -> list[Array]:
    source, target = i.operands[0].dtype, i.dtype
    if source is target:
        return [a]
    data = np.ascontiguousarray(a)
    if source.bits == 8 * source.size and target.bits == 8 * target.size:
        return [np.frombuffer(data.tobytes(), target.numpy).reshape(i.dims)]
    # An element of less than a byte has one of its own: cut into single bits, and put together again.
    bits = np.unpackbits(data.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
    bits = bits[:, : source.bits].reshape(-1, target.bits)
    filled = np.zeros((len(bits), 8 * target.size), np.uint8)
    filled[:, : target.bits] = bits
    if target.is_signed and not target.is_float:
        filled[:, target.bits :] = bits[:, -1:]
    packed = np.packbits(filled, axis=1, bitorder="little")
    return [np.frombuffer(packed.tobytes(), target.numpy).reshape(i.dims)]


def _compare_fields(i: Instruction) -> bytes:
    return text(Field.COMPARISON_DIRECTION, i.attributes["direction"]) + text(
        Field.COMPARISON_TYPE, i.attributes["comparison_type"]
    )


def _reduce_precision_fields(i: Instruction) -> bytes:
    return integer(Field.EXPONENT_BITS, i.attributes["exponent_bits"]) + integer(
        Field.MANTISSA_BITS, i.attributes["mantissa_bits"]
    )


_BITS: Final = ("int", "uint")
_LOGICAL: Final = ("pred", "int", "uint")
_NUMBERS: Final = ("int", "uint", "float", "complex")
_FLOATS: Final = ("float",)


def _names(name: str, operands: int) -> dict[str, Reader | str]:
    """The operations of StableHLO and MHLO, and CHLO's of operands that are broadcast."""
    spelled = name.replace("-", "_")
    if operands < 2:
        return both(**{spelled: AS_IT_STANDS})
    broadcasting = {f"chlo.broadcast_{spelled}": ops_elementwise.broadcasting(name)}
    return both(**{spelled: AS_IT_STANDS}) | broadcasting


def _register(name: str, operands: int, evaluate: Evaluation, **parts: Any) -> None:
    """An elementwise op of operands of one shape, which is the result's, and read from operations of its name: unless
    ``parts`` say otherwise.
    """
    parts = {"shape": same_shape, "price": Price(), "read": _names(name, operands), **parts}
    register(name, operands=operands, elementwise=True, evaluate=evaluate, **parts)


# One operand.
_register("abs", 1, reference.absolute, kinds=_NUMBERS, shape=component_of_same, rounding=CHOOSES)
_register("negate", 1, reference.plain(np.negative), kinds=_NUMBERS, rounding=CHOOSES)
_register("sign", 1, reference.wide(reference.sign), kinds=_NUMBERS, rounding=CHOOSES)
_register("not", 1, reference.invert, kinds=_LOGICAL)
_register("floor", 1, reference.wide(np.floor), kinds=_FLOATS, rounding=EXACT, jumps=True)
_register("ceil", 1, reference.wide(np.ceil), kinds=_FLOATS, rounding=EXACT, jumps=True)
_register(
    *("round-nearest-afz", 1, reference.wide(reference.round_away)),
    kinds=_FLOATS, rounding=EXACT, jumps=True,
)  # fmt: skip
_register(
    "round-nearest-even", 1, reference.wide(np.rint), kinds=_FLOATS, rounding=EXACT, jumps=True
)
_register("popcnt", 1, reference.popcount, kinds=_BITS, price=Price(instructions=4.0))
_register("count-leading-zeros", 1, reference.leading_zeros, kinds=_BITS)
_register("is-finite", 1, reference.is_finite, kinds=_FLOATS, shape=_to_pred, rounding=IN_DTYPE)
_register(
    *("real", 1, lambda i, a: np.real(a)), read=both(real=ops_elementwise.read_part("real")),
    kinds=("complex",), shape=component_of_same, price=Price(instructions=0.0),
)  # fmt: skip
_register(
    *("imag", 1, lambda i, a: np.imag(a)), read=both(imag=ops_elementwise.read_part("imag")),
    kinds=("complex",), shape=component_of_same, price=Price(instructions=0.0),
)  # fmt: skip
_register(  # to the dtype of the result's shape
    *("convert", 1, reference.convert),
    shape=_convert_shape, rounding=IN_DTYPE, error=ROUNDED, hoisting=WORTH,
)  # fmt: skip
_register(
    *("reduce-precision", 1, reference.reduce_precision),
    read=both(reduce_precision=ops_elementwise.read_reduce_precision),
    attributes=("exponent_bits", "mantissa_bits"), kinds=_FLOATS, fields=_reduce_precision_fields,
    rounding=IN_DTYPE, error=ROUNDED,
)  # fmt: skip
# Of one width: elementwise; else the minor dimension appears or goes.
register(
    "bitcast-convert",
    operands=1,
    shape=_bitcast_convert_shape,
    evaluate=_bitcast_convert_value,
    read=both(bitcast_convert=ops_elementwise.read_bitcast_convert),
    price=Price(instructions=2.0),
    rounding=IN_DTYPE,
)

# Two operands of one shape.
_register("add", 2, reference.add, kinds=(*_NUMBERS, "pred"), error=ROUNDED)
_register("subtract", 2, reference.plain(np.subtract), kinds=_NUMBERS, error=ROUNDED)
_register("multiply", 2, reference.multiply, kinds=(*_NUMBERS, "pred"), error=ROUNDED)
_register(
    *("divide", 2, reference.divide),
    kinds=_NUMBERS, price=Price(5.0, 1.0, of_integers=Price(20.0, 4.0)), error=ROUNDED, hoisting=WORTH,
)  # fmt: skip
_register(
    *("remainder", 2, reference.remainder),
    kinds=("int", "uint", "float"), price=Price(5.0, 60.0, of_integers=Price(5.0, 4.0)), jumps=True,
)  # fmt: skip
_register("maximum", 2, reference.extremum, kinds=(*_NUMBERS, "pred"), rounding=CHOOSES)
_register("minimum", 2, reference.extremum, kinds=(*_NUMBERS, "pred"), rounding=CHOOSES)
_register("and", 2, reference.plain(np.bitwise_and), kinds=_LOGICAL)
_register("or", 2, reference.plain(np.bitwise_or), kinds=_LOGICAL)
_register("xor", 2, reference.plain(np.bitwise_xor), kinds=_LOGICAL)
_register("shift-left", 2, reference.shift, kinds=_BITS)
_register("shift-right-logical", 2, reference.shift, kinds=_BITS)
_register("shift-right-arithmetic", 2, reference.shift, kinds=_BITS)
_register(  # f32, f32 -> c64; f64, f64 -> c128
    "complex", 2, reference.complex_of, shape=_complex_shape, price=Price(instructions=0.0)
)
_register(  # direction: EQ NE LT LE GT GE; comparison_type: FLOAT TOTALORDER SIGNED UNSIGNED. -> pred
    *("compare", 2, reference.compare),
    read=both(compare=ops_elementwise.read_compare)
    | {"chlo.broadcast_compare": ops_elementwise.broadcasting("compare")},
    attributes=("direction", "comparison_type"), shape=_compare_shape, fields=_compare_fields,
    text={"comparison_type": renamed("type")}, rounding=IN_DTYPE, jumps=True,
)  # fmt: skip

# Three operands: pred, on_true, on_false; and min, operand, max.
_register(
    "select",
    3,
    reference.select,
    read=_names("select", 2),
    shape=_select_shape,
    rounding=CHOOSES,
    moves=True,
)
_register(
    "clamp", 3, reference.clamp, read=both(clamp=AS_IT_STANDS), shape=_clamp_shape, rounding=CHOOSES
)
