"""Readers of what only HLO has that XLA has optimised: fusions, and bitcasts, whose meaning depends on layouts.

A program that is fused already is fused anew: what one of its fusions computes is read as if it stood outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..hlo import Instruction, Shape
from .attributes import integers
from .ops_control import read_named_computation

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results


def read_bitcast(block: BlockReader, operation: Any) -> Results:
    """The elements in the order in which they lie in memory, read with another shape and layout. Layouts are
    minor-to-major: dimension 0 of the attribute is the one whose elements lie next to each other.
    """
    (operand,) = block.operands(operation)
    shape = block.shape(operation)
    if operand.dtype.size != shape.dtype.size:
        raise block.unimplemented(operation, "a bitcast to elements of another size")
    source = _major_to_minor(block, operation, "source_layout", len(operand.dims))
    result = _major_to_minor(block, operation, "result_layout", shape.rank)
    operand = _transpose(block, operand, source)
    lying = Shape(operand.dtype, tuple(shape.dims[d] for d in result))
    if operand.shape != lying:
        operand = block.emit("reshape", lying, (operand,))
    operand = _transpose(block, operand, tuple(result.index(d) for d in range(shape.rank)))
    if operand.dtype is not shape.dtype:
        operand = block.emit("bitcast-convert", shape, (operand,))
    return operand


def _major_to_minor(block: BlockReader, operation: Any, name: str, rank: int) -> tuple[int, ...]:
    if name not in operation.attributes:
        return tuple(range(rank))
    return tuple(reversed(block.program.attribute(integers, operation.attributes[name])))


def _transpose(
    block: BlockReader, operand: Instruction, dimensions: tuple[int, ...]
) -> Instruction:
    if dimensions == tuple(range(len(dimensions))):
        return operand
    shape = Shape(operand.dtype, tuple(operand.dims[d] for d in dimensions))
    return block.emit("transpose", shape, (operand,), {"dimensions": dimensions})


READERS: Final[dict[str, Reader]] = {
    "mhlo.fusion": read_named_computation,
    "mhlo.bitcast": read_bitcast,
}
