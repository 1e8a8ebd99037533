"""Readers of elementwise operations that are more than an opcode."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir import dtypes, hlo
from ..ir.hlo import Instruction, Shape
from ..ir.registry import OPS, CallReader
from . import attributes, bindings, ops_data

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results


def read_compare(block: BlockReader, operation: Any) -> Results:
    lhs, rhs = block.operands(operation)
    direction = block.program.attribute(_direction, operation.attributes["comparison_direction"])
    comparison_type = "NOTYPE"
    if "compare_type" in operation.attributes:
        comparison_type = block.program.attribute(
            _comparison_type, operation.attributes["compare_type"]
        )
    if comparison_type == "NOTYPE":
        comparison_type = default_comparison_type(lhs.dtype)
    kind = {"direction": direction, "comparison_type": comparison_type}
    return block.emit("compare", block.shape(operation), (lhs, rhs), kind)


def default_comparison_type(dtype: dtypes.DType) -> str:
    """The comparison that HLO uses for a dtype when the program does not say."""
    if dtype.is_float or dtype.is_complex:
        return "FLOAT"
    return "SIGNED" if dtype.is_signed else "UNSIGNED"


def _direction(attribute: Any) -> str:
    return str(bindings.ComparisonDirection(attribute).value)


def _comparison_type(attribute: Any) -> str:
    return str(bindings.ComparisonType(attribute).value)


def read_part(opcode: str) -> Reader:
    """``real`` and ``imag``, which StableHLO also allows on real operands."""

    def read(block: BlockReader, operation: Any) -> Results:
        (operand,) = block.operands(operation)
        if operand.dtype.is_complex:
            return block.emit(opcode, block.shape(operation), (operand,))
        return operand if opcode == "real" else splat(block, 0, operand.shape)  # type: ignore[arg-type]

    return read


def read_bitcast_convert(block: BlockReader, operation: Any) -> Results:
    """Bits as they are; of one type, which complex numbers have too, they are the value."""
    (operand,), shape = block.operands(operation), block.shape(operation)
    return operand if shape == operand.shape else block.emit("bitcast-convert", shape, (operand,))


read_reduce_precision = ops_data.plain(
    "reduce-precision",
    exponent_bits=lambda _, operation: attributes.integer(operation, "exponent_bits"),
    mantissa_bits=lambda _, operation: attributes.integer(operation, "mantissa_bits"),
)


# --------------------------------------------------------------------------------------------------------- chlo

# Functions whose values at complex numbers are those of others.
OF_COMPLEX: Final = {"sinh": "sine", "cosh": "cosine"}


def read_real(opcode: str) -> Reader:
    def read(block: BlockReader, operation: Any) -> Results:
        operands = block.operands(operation)
        if not operands[0].dtype.is_complex:
            return block.emit(opcode, block.shape(operation), operands)
        if opcode not in OF_COMPLEX:
            raise block.unknown(operation)
        return hyperbolic(block, opcode, operands[0])

    return read


def hyperbolic(block: BlockReader, opcode: str, z: Instruction) -> Instruction:
    """sinh z = -i sin(i z) and cosh z = cos(i z), of complex numbers."""
    real, imag = _parts(block, z)
    turned = block.emit("complex", z.shape, (block.emit("negate", imag.shape, (imag,)), real))
    value = block.emit(OF_COMPLEX[opcode], z.shape, (turned,))
    if opcode == "cosh":
        return value
    real, imag = _parts(block, value)
    return block.emit("complex", z.shape, (imag, block.emit("negate", real.shape, (real,))))


def _parts(block: BlockReader, z: Instruction) -> tuple[Instruction, Instruction]:
    shape = Shape(z.dtype.component, z.dims)
    return block.emit("real", shape, (z,)), block.emit("imag", shape, (z,))


def splat(block: BlockReader, value: float, shape: Shape) -> Instruction:
    """A scalar constant broadcast to ``shape``."""
    scalar = hlo.constant(np.array(value).astype(shape.dtype.numpy), shape.dtype, block.metadata)
    block.instructions.append(scalar)
    if not shape.dims:
        return scalar
    return block.emit("broadcast", shape, (scalar,), {"dimensions": ()})


def read_square(block: BlockReader, operation: Any) -> Results:
    (operand,) = block.operands(operation)
    return block.emit("multiply", operand.shape, (operand, operand))


def read_constant_like(block: BlockReader, operation: Any) -> Results:
    value = operation.attributes["value"].value
    return splat(block, value, block.shape(operation))


def read_infinity_test(value: float) -> Reader:
    """``is_inf`` (of either sign: NaN as ``value``), ``is_pos_inf`` and ``is_neg_inf``."""

    def read(block: BlockReader, operation: Any) -> Results:
        (operand,) = block.operands(operation)
        compared = operand
        if math.isnan(value):
            compared = block.emit("abs", operand.shape, (operand,))
        infinity = splat(block, math.inf if math.isnan(value) else value, operand.shape)  # type: ignore[arg-type]
        kind = {"direction": "EQ", "comparison_type": "FLOAT"}
        return block.emit("compare", block.shape(operation), (compared, infinity), kind)

    return read


def broadcasting(opcode: str) -> Reader:
    """``chlo.broadcast_*``: a binary operation whose operands may have fewer dimensions than the result."""

    def read(block: BlockReader, operation: Any) -> Results:
        shape = block.shape(operation)
        operands = [
            implicit_broadcast(block, operation, o, shape.dims) for o in block.operands(operation)
        ]
        if opcode == "compare":
            direction = attributes.enumerator(operation, "comparison_direction", None, "EQ")
            kind = {
                "direction": direction,
                "comparison_type": default_comparison_type(operands[0].dtype),
            }
            return block.emit("compare", shape, operands, kind)
        return block.emit(opcode, shape, operands)

    return read


def implicit_broadcast(
    block: BlockReader, operation: Any, operand: Instruction, dims: tuple[int, ...]
) -> Instruction:
    """``operand`` broadcast to ``dims`` by NumPy's rule, or by the operation's ``broadcast_dimensions``."""
    if operand.dims == dims:
        return operand
    given = attributes.optional_integers(operation, "broadcast_dimensions")
    if given is None or len(given) != len(operand.dims):
        given = tuple(range(len(dims) - len(operand.dims), len(dims)))
    return ops_data.broadcast_in_dim(block, operand, dims, given)


# ------------------------------------------------------------------------------------- custom calls and composites


def call(opcode: str) -> CallReader:
    """A custom call or composite that means ``opcode``; of complex numbers only if the op takes them."""

    def read(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
        del config
        op, operands = OPS[opcode], block.operands(operation)
        if not operands or len(operands) != op.operands:
            return None
        if operands[0].dtype.is_complex and "complex" not in op.kinds:
            return hyperbolic(block, opcode, operands[0]) if opcode in OF_COMPLEX else None
        return block.emit(opcode, block.shape(operation), operands)

    return read


def read_exp2(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    del config
    (x,) = block.operands(operation)
    two = splat(block, 2, x.shape)  # type: ignore[arg-type]
    return block.emit("power", block.shape(operation), (two, x))


def read_log2(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    del config
    (x,) = block.operands(operation)
    scale = splat(block, math.log2(math.e), x.shape)  # type: ignore[arg-type]
    logarithm = block.emit("log", x.shape, (x,))
    return block.emit("multiply", block.shape(operation), (logarithm, scale))


def read_square_composite(
    block: BlockReader, operation: Any, config: dict[str, Any]
) -> Results | None:
    del config
    return read_square(block, operation)
