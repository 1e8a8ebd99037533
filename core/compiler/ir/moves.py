"""Instructions that put elements elsewhere, leave some out or add some; and the sum that reductions take."""

from __future__ import annotations

from collections.abc import Sequence

from .dtypes import DType
from .hlo import Computation, Instruction, Metadata, Shape, constant, parameter

# ``metadata``: that of the operand if it is None.


def transpose(
    operand: Instruction, order: Sequence[int], metadata: Metadata | None = None
) -> Instruction:
    """``operand`` with its dimensions in ``order``; itself if they are."""
    order = tuple(order)
    if order == tuple(range(len(order))):
        return operand
    shape = Shape(operand.dtype, tuple([operand.dims[d] for d in order]))
    attributes = {"dimensions": order}
    return Instruction(
        "transpose", shape, (operand,), attributes, metadata=metadata or operand.metadata
    )


def cut(
    operand: Instruction, dimension: int, start: int, stop: int, metadata: Metadata | None = None
) -> Instruction:
    """The places [start, stop) of a dimension; ``operand`` itself if these are all."""
    if (start, stop) == (0, operand.dims[dimension]):
        return operand
    starts, dims = [0] * len(operand.dims), list(operand.dims)
    starts[dimension], dims[dimension] = start, stop - start
    return block(operand, starts, dims, metadata)


def block(
    operand: Instruction,
    starts: Sequence[int],
    dims: Sequence[int],
    metadata: Metadata | None = None,
) -> Instruction:
    """The ``dims`` elements from ``starts`` on."""
    limits = tuple([s + d for s, d in zip(starts, dims, strict=True)])
    attributes = {"starts": tuple(starts), "limits": limits, "strides": (1,) * len(limits)}
    shape = Shape(operand.dtype, tuple(dims))
    return Instruction(
        "slice", shape, (operand,), attributes, metadata=metadata or operand.metadata
    )


def concatenate(
    operands: Sequence[Instruction], dimension: int, metadata: Metadata | None = None
) -> Instruction:
    first = operands[0]
    dims = list(first.dims)
    dims[dimension] = sum(o.dims[dimension] for o in operands)
    shape, attributes = Shape(first.dtype, tuple(dims)), {"dimension": dimension}
    return Instruction(
        "concatenate", shape, operands, attributes, metadata=metadata or first.metadata
    )


def pad(
    operand: Instruction,
    value: Instruction,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
    metadata: Metadata | None = None,
) -> Instruction:
    """``operand`` with so many elements more before each dimension, behind it and between its elements (or fewer, for
    negative numbers); itself if there are none.
    """
    interior = interior or (0,) * len(operand.dims)
    if not any((*low, *high, *interior)):
        return operand
    dims = tuple(
        [
            n + before + after + max(n - 1, 0) * between
            for n, before, after, between in zip(operand.dims, low, high, interior, strict=True)
        ]
    )
    attributes = {"low": tuple(low), "high": tuple(high), "interior": tuple(interior)}
    return Instruction(
        "pad",
        Shape(operand.dtype, dims),
        (operand, value),
        attributes,
        metadata=metadata or operand.metadata,
    )


def pad_dimension(
    operand: Instruction, value: Instruction, dimension: int, low: int, high: int
) -> Instruction:
    """:func:`pad` of one dimension."""
    lows, highs = [0] * len(operand.dims), [0] * len(operand.dims)
    lows[dimension], highs[dimension] = low, high
    return pad(operand, value, lows, highs)


def sum_over(
    operand: Instruction,
    dimensions: Sequence[int],
    metadata: Metadata | None = None,
    body: str = "add",
) -> Instruction:
    """The sum over ``dimensions``. ``body``: the name of the reduction's computation."""
    kept = tuple([n for d, n in enumerate(operand.dims) if d not in dimensions])
    return Instruction(
        "reduce",
        Shape(operand.dtype, kept),
        (operand, constant(0, operand.dtype)),
        {"dimensions": tuple(dimensions)},
        (addition(operand.dtype, body),),
        metadata=metadata or operand.metadata,
    )


def addition(dtype: DType, name: str = "add") -> Computation:
    """The body of a reduction, or of a collective, that sums up."""
    a, b = parameter(0, Shape(dtype), "a"), parameter(1, Shape(dtype), "b")
    return Computation.from_root(name, [a, b], Instruction("add", Shape(dtype), (a, b)))
