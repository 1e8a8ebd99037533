"""Elementwise ops: arithmetic, comparisons, bits and conversions. (Functions: :mod:`.functions`.)"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..codegen import llvm_ir
from ..codegen.elements import complex_math, elemental, extrema
from ..codegen.elements import elementwise as code
from ..formats.hlo_proto import Field
from ..formats.wire_format import integer, text
from ..importer import hlo_instructions, ops_elementwise
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
    ElementRule,
    Evaluation,
    Price,
    Reader,
    both,
    register,
)
from ..ir.shape_rules import array_of, arrays_of, require, same_shape
from ..passes.library.epilogue import fold_add, fold_multiply, fold_subtract
from ..passes.library.other import fold_triangle
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


def _register(
    name: str,
    operands: int,
    evaluate: Evaluation,
    generate: ElementRule | None,
    generate_complex: ElementRule | None = None,
    **parts: Any,
) -> None:
    """An elementwise op of operands of one shape, which is the result's, and read from operations of its name: unless
    ``parts`` say otherwise.
    """
    parts = {
        "shape": same_shape,
        "read": _names(name, operands),
        "price": Price(),
        **parts,
    }
    register(
        name,
        operands=operands,
        elementwise=True,
        evaluate=evaluate,
        generate=generate,
        generate_complex=generate_complex,
        **parts,
    )


# fmt: off
# One operand: reference, code for real numbers, code for complex ones.
_register(
    "abs", 1, reference.absolute, code.of_abs, complex_math.function(lambda r, x: r.hypot(x.real, x.imag)),
    kinds=_NUMBERS, shape=component_of_same, rounding=CHOOSES,
)
_register(
    "negate", 1, reference.plain(np.negative), code.of_negate, complex_math.of_negate, kinds=_NUMBERS, rounding=CHOOSES
)
_register(
    "sign", 1, reference.wide(reference.sign), code.of_sign, complex_math.function(complex_math.sign),
    kinds=_NUMBERS, rounding=CHOOSES,
)
_register("not", 1, reference.invert, code.of_not, kinds=_LOGICAL)
_register(
    "floor", 1, reference.wide(np.floor), code.intrinsic("floor"), kinds=_FLOATS, rounding=EXACT, jumps=True
)
_register("ceil", 1, reference.wide(np.ceil), code.intrinsic("ceil"), kinds=_FLOATS, rounding=EXACT, jumps=True)
_register(
    "round-nearest-afz", 1, reference.wide(reference.round_away), code.intrinsic("round"),
    kinds=_FLOATS, rounding=EXACT, jumps=True,
)
_register(
    "round-nearest-even", 1, reference.wide(np.rint), code.intrinsic("roundeven"),
    kinds=_FLOATS, rounding=EXACT, jumps=True,
)
_register("popcnt", 1, reference.popcount, code.of_popcnt, kinds=_BITS, price=Price(instructions=4.0))
_register("count-leading-zeros", 1, reference.leading_zeros, code.of_count_leading_zeros, kinds=_BITS)
_register(
    "is-finite", 1, reference.is_finite, code.of_is_finite, complex_math.function(complex_math.is_finite),
    kinds=_FLOATS, shape=_to_pred, rounding=IN_DTYPE,
)
_register(
    "real", 1, lambda i, a: np.real(a), lambda g, i, o: o[0], complex_math.part(0),
    kinds=("complex",), shape=component_of_same, read=both(real=ops_elementwise.read_part("real")),
    from_hlo=hlo_instructions.part("real"),
    price=Price(instructions=0.0),
)
_register(
    "imag", 1, lambda i, a: np.imag(a), lambda g, i, o: llvm_ir.zero(o[0].type), complex_math.part(1),
    kinds=("complex",), shape=component_of_same, read=both(imag=ops_elementwise.read_part("imag")),
    from_hlo=hlo_instructions.part("imag"),
    price=Price(instructions=0.0),
)
_register(  # to the dtype of the result's shape
    "convert", 1, reference.convert, code.of_convert, code.of_convert,
    shape=_convert_shape, from_hlo=hlo_instructions.convert, rounding=IN_DTYPE, error=ROUNDED, hoisting=WORTH,
)
_register(
    "reduce-precision", 1, reference.reduce_precision, code.of_reduce_precision,
    attributes=("exponent_bits", "mantissa_bits"), kinds=_FLOATS,
    from_hlo=hlo_instructions.reduce_precision,
    read=both(reduce_precision=ops_elementwise.read_reduce_precision), fields=_reduce_precision_fields,
    rounding=IN_DTYPE, error=ROUNDED,
)

# Two operands of one shape.
_register(
    "add", 2, reference.add, code.by_kind("add", "fadd contract", pred="or"),
    complex_math.componentwise("fadd contract"), kinds=(*_NUMBERS, "pred"), library=fold_add, error=ROUNDED,
)
_register(
    "subtract", 2, reference.plain(np.subtract), code.by_kind("sub", "fsub contract", pred="xor"),
    complex_math.componentwise("fsub contract"), kinds=_NUMBERS, library=fold_subtract, error=ROUNDED,
)
_register(
    "multiply", 2, reference.multiply, code.by_kind("mul", "fmul contract", pred="and"), complex_math.of_multiply,
    kinds=(*_NUMBERS, "pred"), library=fold_multiply, error=ROUNDED,
)
_register(
    "divide", 2, reference.divide, code.by_kind(code.divide_constant, code.divide_floats, code.divide_constant),
    complex_math.of_divide, kinds=_NUMBERS, price=Price(5.0, 1.0, of_integers=Price(20.0, 4.0)), error=ROUNDED,
    hoisting=WORTH, calls={"tripont.divide": ops_elementwise.call("divide")},
)
_register(
    "remainder", 2, reference.remainder,
    code.by_kind(code.remainder_constant, code.math("remainder"), code.remainder_constant),
    kinds=("int", "uint", "float"), price=Price(10.0, 5.0, of_integers=Price(5.0, 4.0)), jumps=True,
)
_register(
    "maximum", 2, reference.extremum,
    code.by_kind(code.integer_extremum("smax"), extrema.maximum, code.integer_extremum("umax"), "or"),
    complex_math.extremum("og"), kinds=(*_NUMBERS, "pred"), rounding=CHOOSES,
)
_register(
    "minimum", 2, reference.extremum,
    code.by_kind(code.integer_extremum("smin"), extrema.minimum, code.integer_extremum("umin"), "and"),
    complex_math.extremum("ol"), kinds=(*_NUMBERS, "pred"), rounding=CHOOSES,
)
_register("and", 2, reference.plain(np.bitwise_and), code.by_kind("and", "", pred="and"), kinds=_LOGICAL)
_register("or", 2, reference.plain(np.bitwise_or), code.by_kind("or", "", pred="or"), kinds=_LOGICAL)
_register("xor", 2, reference.plain(np.bitwise_xor), code.by_kind("xor", "", pred="xor"), kinds=_LOGICAL)
_register("shift-left", 2, reference.shift, code.shift("shl"), kinds=_BITS)
_register("shift-right-logical", 2, reference.shift, code.shift("lshr"), kinds=_BITS)
_register("shift-right-arithmetic", 2, reference.shift, code.shift("ashr"), kinds=_BITS)
_register(  # f32, f32 -> c64; f64, f64 -> c128
    "complex", 2, reference.complex_of, None, complex_math.of_complex,
    shape=_complex_shape, price=Price(instructions=0.0),
)
_register(  # direction: EQ NE LT LE GT GE; comparison_type: FLOAT TOTALORDER SIGNED UNSIGNED. -> pred
    "compare", 2, reference.compare, code.of_compare, complex_math.of_compare,
    attributes=("direction", "comparison_type"), shape=_compare_shape,
    from_hlo=hlo_instructions.compare,
    read=both(compare=ops_elementwise.read_compare)
    | {"chlo.broadcast_compare": ops_elementwise.broadcasting("compare")},
    fields=_compare_fields, text={"comparison_type": renamed("type")}, rounding=IN_DTYPE, jumps=True,
)

# Three operands: pred, on_true, on_false; and min, operand, max.
_register(
    "select", 3, reference.select, code.of_select, complex_math.of_select,
    shape=_select_shape, library=fold_triangle, rounding=CHOOSES, moves=True,
)
_register(
    "clamp", 3, reference.clamp, code.of_clamp,
    shape=_clamp_shape, read=both(clamp=AS_IT_STANDS), rounding=CHOOSES,
)
# fmt: on

# Of one width: elementwise; else the minor dimension appears or goes.
register(
    "bitcast-convert",
    operands=1,
    shape=_bitcast_convert_shape,
    evaluate=_bitcast_convert_value,
    from_hlo=hlo_instructions.bitcast_convert,
    read=both(bitcast_convert=ops_elementwise.read_bitcast_convert),
    generate=code.of_bitcast_convert,
    elements=elemental.of_bitcast_convert,
    price=Price(instructions=2.0),
    rounding=IN_DTYPE,
)
