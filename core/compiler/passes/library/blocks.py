"""A dot whose sums are too long for an exact library call, as a batch of shorter ones that are added up.

    dot [m, k] x [k, n]  ->  dot [b, m, k/b] x [b, k/b, n]  ->  convert  ->  reduce over b

The blocks are views of the operands (other strides of a gemm) unless the contracted dimension does not divide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ...ir import dtypes
from ...ir.dtypes import DType
from ...ir.hlo import DotDimensionNumbers, Instruction, Shape, constant
from ...ir.moves import pad_dimension, sum_over
from ...ir.patterns import convert, reshape

# Bytes that the blocks' results may take before they are added up. They are memory that the program does not have
# otherwise, and are written and read once more.
_MAXIMUM_BYTES: Final = 1 << 28


def contracted(dot: Instruction) -> int:
    """How many products each sum of a dot has."""
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    return math.prod(dot.operands[0].dims[d] for d in numbers.lhs_contracting)


def in_blocks(
    dot: Instruction, depth: int, multiply: Callable[[Instruction], Instruction | None]
) -> Instruction | None:
    """``dot``, whose result is of integers, from dots whose sums have ``depth`` products at most.

    ``multiply`` computes those, and may give integers or floats that hold integers of 32 bits. None if it gives None,
    or if the blocks would take too much memory.
    """
    length = contracted(dot)
    if length <= depth:
        product = multiply(dot)
        return None if product is None else as_integers(product, dot.dtype)
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    lhs, rhs = dot.operands
    sizes = [lhs.dims[d] for d in numbers.lhs_contracting]
    which = max(range(len(sizes)), key=sizes.__getitem__)
    limit = depth // (length // sizes[which])
    blocks = -(-sizes[which] // limit) if limit > 0 else 0
    if blocks == 0 or blocks * math.prod(dot.dims) * 4 > _MAXIMUM_BYTES:
        return None
    left, right = numbers.lhs_contracting[which], numbers.rhs_contracting[which]
    split = dot.replace(
        operands=[_split(lhs, left, blocks), _split(rhs, right, blocks)],
        shape=Shape(dot.dtype, _with_blocks(dot.dims, len(numbers.lhs_batch), blocks)),
        attributes={**dot.attributes, "dimension_numbers": _split_numbers(numbers, left, right)},
    )
    product = multiply(split)
    if product is None:
        return None
    return sum_over(as_integers(product, dot.dtype), (len(numbers.lhs_batch),), dot.metadata)


def as_integers(product: Instruction, dtype: DType) -> Instruction:
    """Integers of up to 32 bits as ``dtype``; what does not fit wraps around, as StableHLO's sums do."""
    for target in (dtypes.S32, dtype):
        product = convert(product, target)
    return product


def _split(operand: Instruction, dimension: int, blocks: int) -> Instruction:
    """``operand`` with ``dimension`` as [blocks, its size / blocks], zeros appended where it does not divide."""
    size = operand.dims[dimension]
    block = -(-size // blocks)
    if block * blocks != size:
        zero = constant(0, operand.dtype)
        operand = pad_dimension(operand, zero, dimension, 0, block * blocks - size)
    return reshape(operand, _with_blocks(operand.dims, dimension, blocks, block))


def _with_blocks(
    dims: tuple[int, ...], at: int, blocks: int, block: int | None = None
) -> tuple[int, ...]:
    """``dims`` with a dimension of size ``blocks`` at ``at``; with ``block``, that is the size of the one behind it."""
    rest = dims[at:] if block is None else (block, *dims[at + 1 :])
    return (*dims[:at], blocks, *rest)


def _split_numbers(numbers: DotDimensionNumbers, left: int, right: int) -> DotDimensionNumbers:
    """The dimension numbers when a batch dimension stands at ``left`` of lhs and at ``right`` of rhs."""

    def moved(dimensions: tuple[int, ...], at: int) -> tuple[int, ...]:
        return tuple(d + (d >= at) for d in dimensions)

    return DotDimensionNumbers(
        lhs_contracting=moved(numbers.lhs_contracting, left),
        rhs_contracting=moved(numbers.rhs_contracting, right),
        lhs_batch=(*moved(numbers.lhs_batch, left), left),
        rhs_batch=(*moved(numbers.rhs_batch, right), right),
    )
