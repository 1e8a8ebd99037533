"""Readers of elementwise operations.

To add one that is a plain opcode, add a line to ``ELEMENTWISE``; else write a reader and enter it in ``READERS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir import dtypes, hlo
from ..ir.hlo import Instruction, Shape
from ..targets import accuracy
from . import attributes, bindings, result_accuracy

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results

# Operations whose name is the opcode's.
_SAME_NAME: Final = (
    "abs add and atan2 ceil clamp complex convert divide erf floor maximum minimum multiply negate not or popcnt power"
    " remainder select sign subtract xor"
)

ELEMENTWISE: Final[dict[str, str]] = {
    f"{dialect}.{name}": opcode
    for dialect in ("stablehlo", "mhlo")
    for name, opcode in {
        **{name: name for name in _SAME_NAME.split()},
        "count_leading_zeros": "count-leading-zeros",
        "is_finite": "is-finite",
        "round_nearest_afz": "round-nearest-afz",
        "round_nearest_even": "round-nearest-even",
        "shift_left": "shift-left",
        "shift_right_arithmetic": "shift-right-arithmetic",
        "shift_right_logical": "shift-right-logical",
    }.items()
}
ELEMENTWISE["chlo.erf"] = "erf"
ELEMENTWISE["chlo.tan"] = "tan"


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


def read_reduce_precision(block: BlockReader, operation: Any) -> Results:
    bits = {
        name: attributes.integer(operation, name) for name in ("exponent_bits", "mantissa_bits")
    }
    return block.emit("reduce-precision", block.shape(operation), block.operands(operation), bits)


# --------------------------------------------------------------------------------------------------------- chlo

# Operations that are opcodes of ours for real numbers; those of complex ones but OF_COMPLEX the passes expand.
REAL: Final = {
    **{name: name for name in ("sinh", "cosh", "asin", "acos", "erfc", "lgamma", "digamma")},
    **{name: name for name in ("zeta", "polygamma")},
    "erf_inv": "erf-inv",
}


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


def read_constant(block: BlockReader, operation: Any) -> Results:
    return ops_data.read_constant(block, operation)


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


_BINARY: Final = "add and atan2 compare complex divide maximum minimum multiply or power remainder select subtract xor"
_BROADCASTING: Final = {
    **{f"chlo.broadcast_{name}": name for name in _BINARY.split()},
    "chlo.broadcast_shift_left": "shift-left",
    "chlo.broadcast_shift_right_arithmetic": "shift-right-arithmetic",
    "chlo.broadcast_shift_right_logical": "shift-right-logical",
}

READERS: Final[dict[str, Callable[[BlockReader, Any], Results]]] = {
    **{
        f"{dialect}.{name}": reader
        for dialect in ("stablehlo", "mhlo")
        for name, reader in {
            "compare": read_compare,
            "real": read_part("real"),
            "imag": read_part("imag"),
            "bitcast_convert": read_bitcast_convert,
            "reduce_precision": read_reduce_precision,
            **{
                opcode.replace("-", "_"): result_accuracy.read_function(opcode)
                for opcode in accuracy.FUNCTIONS
            },
        }.items()
    },
    **{f"chlo.{name}": read_real(opcode) for name, opcode in REAL.items()},
    "chlo.square": read_square,
    "chlo.constant": read_constant,
    "chlo.constant_like": read_constant_like,
    "chlo.is_inf": read_infinity_test(math.nan),
    "chlo.is_pos_inf": read_infinity_test(math.inf),
    "chlo.is_neg_inf": read_infinity_test(-math.inf),
    **{name: broadcasting(opcode) for name, opcode in _BROADCASTING.items()},
}

from . import ops_data  # noqa: E402
