"""Transposes of many small dimensions, as those of qubits: elements that are gathered, a row of the result at a time.

Other transposes are written in tiles, along the last dimension of the result and that of the operand, or in rows. Here
these dimensions have two or three elements, which fill no vector, and so have those before them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ..ir import dtypes
from ..ir.hlo import (
    GatherDimensionNumbers,
    Instruction,
    Module,
    Shape,
    broadcast,
    constant,
    strides_of,
)
from ..ir.patterns import reshape, splat_value
from .rewrite import map_computations, sweep

if TYPE_CHECKING:
    from ..targets.costs import Transposes
    from ..targets.target import Target

# Places are integers of 32 bits.
_MOST: Final = 1 << 31


class _Run(NamedTuple):
    """A dimension of the result, or several that lie in one run in the operand. ``stride``: elements of the operand."""

    size: int
    stride: int


def gather_transposes(module: Module, target: Target) -> Module:
    """transpose -> reshape(gather(the operand as one row, places[rows, elements])), places computed from the shape."""
    costs = target.costs.transposes
    return map_computations(module, lambda c: sweep(c, lambda i: _gathered(i, costs), repeat=False))


def _gathered(i: Instruction, costs: Transposes) -> Instruction | None:
    if i.opcode != "transpose" or i.dtype.bits < 8 or not costs.least <= i.elements < _MOST:
        return None
    runs = _runs(i)
    if len(runs) < costs.runs or math.prod(run.size for run in runs[-2:]) > costs.short:
        return None
    (operand,) = i.operands
    cut, size = len(runs), 1
    while cut > 0 and size < costs.row and size * runs[cut - 1].size <= costs.longest_row:
        cut -= 1
        size *= runs[cut].size
    outer, inner = runs[:cut], runs[cut:]
    row = constant(_places(inner), dtypes.U32, i.metadata)
    starts = _starts(outer, i)
    dims = (starts.elements, row.elements)
    # Both are below the number of elements, and so is their sum.
    places = Instruction(
        "add",
        Shape(dtypes.U32, dims),
        (broadcast(starts, dims, (0,)), broadcast(row, dims, (1,))),
        metadata=i.metadata,
    )
    attributes = {
        "dimension_numbers": GatherDimensionNumbers((), (0,), (0,), 2),
        "slice_sizes": (1,),
        "indices_are_sorted": False,
    }
    gathered = Instruction(
        "gather",
        Shape(i.dtype, dims),
        (reshape(operand, (operand.elements,)), places),
        attributes,
        metadata=i.metadata,
    )
    return reshape(gathered, i.dims)


def _runs(transpose: Instruction) -> list[_Run]:
    """The result's dimensions of more than one element, neighbours in the operand taken together."""
    dims = transpose.operands[0].dims
    strides = strides_of(dims)
    runs: list[_Run] = []
    for d in transpose.attributes["dimensions"]:
        if dims[d] == 1:
            continue
        if runs and runs[-1].stride == dims[d] * strides[d]:
            runs[-1] = _Run(runs[-1].size * dims[d], strides[d])
        else:
            runs.append(_Run(dims[d], strides[d]))
    return runs


def _places(runs: Sequence[_Run]) -> np.ndarray:
    """Where in the operand the elements of a row of the result are, from the row's first."""
    places = np.zeros(1, np.uint32)
    for run in runs:
        steps = np.arange(run.size, dtype=np.uint32) * np.uint32(run.stride)
        places = (places[:, None] + steps).ravel()
    return places


def _starts(runs: Sequence[_Run], like: Instruction) -> Instruction:
    """Where in the operand the first elements of the result's rows are."""
    shape = Shape(dtypes.U32, (math.prod(run.size for run in runs),))

    def with_number(opcode: str, x: Instruction, number: int) -> Instruction:
        return Instruction(opcode, shape, (x, splat_value(number, x)), metadata=like.metadata)

    row = Instruction("iota", shape, (), {"dimension": 0}, metadata=like.metadata)
    starts, step = splat_value(0, row), 1
    for run in reversed(runs):
        index = with_number("remainder", with_number("divide", row, step), run.size)
        terms = (starts, with_number("multiply", index, run.stride))
        starts = Instruction("add", shape, terms, metadata=like.metadata)
        step *= run.size
    return starts
