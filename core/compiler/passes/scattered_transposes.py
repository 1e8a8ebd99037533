"""Transposes of small dimensions, as those of qubits: blocks that are turned about in registers, or gathers.

Other transposes are written in tiles, along the last dimension of the result and that of the operand, or in rows. Here
these dimensions have few elements, which fill no vector. Several of them together fill vectors if their sizes are
powers of two (:mod:`..ir.lane_blocks`); else elements are gathered, a row of the result at a time.

Blocks are kernels of their own, and no fusion takes part in them. So transposes of fewer runs become blocks last, when
loops are fused and small dimensions taken out of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ..codegen.kernels.block_transpose import blocks_for
from ..ir import dtypes
from ..ir.control_flow import executable_computations
from ..ir.hlo import (
    GatherDimensionNumbers,
    Instruction,
    Module,
    Shape,
    broadcast,
    constant,
)
from ..ir.lane_blocks import Digit, digits, places
from ..ir.patterns import reshape, splat_value
from .rewrite import map_computations, sweep, sweep_module

if TYPE_CHECKING:
    from ..targets.costs import Transposes
    from ..targets.target import Target

# Places are integers of 32 bits.
_MOST: Final = 1 << 31


def gather_transposes(module: Module, target: Target) -> Module:
    """transpose -> block-transpose, or reshape(gather(the operand as one row, places[rows, elements])), places computed
    from the shape.
    """
    return sweep_module(module, lambda i: _without_small_dimensions(i, target), repeat=False)


def turn_blocks(module: Module, target: Target) -> Module:
    """transpose -> block-transpose, where the last dimensions of the result are short and come from far apart."""
    costs = target.costs.transposes

    def rule(i: Instruction) -> Instruction | None:
        if i.opcode != "transpose" or i.elements < costs.least:
            return None
        runs = digits(i)
        blocks = blocks_for(target, i)
        if blocks is None or len(runs) < costs.turned_runs or runs[-1].size >= blocks.lanes:
            return None
        moved = i.elements
        if runs[0].source == runs[0].target:
            moved //= runs[0].size
        return _turned(i) if moved > costs.turned else None

    computations = executable_computations(module)
    return map_computations(module, lambda c: sweep(c, rule, repeat=False), computations)


def _turned(transpose: Instruction) -> Instruction:
    return transpose.derive("block-transpose", transpose.operands, transpose.attributes)


def _without_small_dimensions(i: Instruction, target: Target) -> Instruction | None:
    costs = target.costs.transposes
    if i.opcode != "transpose" or i.elements < costs.least:
        return None
    runs = digits(i)
    if len(runs) < costs.runs or math.prod(run.size for run in runs[-2:]) > costs.short:
        return None
    if blocks_for(target, i) is not None:
        return _turned(i)
    return _gathered(i, runs, costs) if i.dtype.bits >= 8 and i.elements < _MOST else None


def _gathered(i: Instruction, runs: Sequence[Digit], costs: Transposes) -> Instruction:
    (operand,) = i.operands
    cut, size = len(runs), 1
    while cut > 0 and size < costs.row and size * runs[cut - 1].size <= costs.longest_row:
        cut -= 1
        size *= runs[cut].size
    outer, inner = runs[:cut], runs[cut:]
    row = constant(places(inner, "source").astype(np.uint32), dtypes.U32, i.metadata)
    starts = _starts(outer, i)
    dims = (starts.elements, row.elements)
    # Both are below the number of elements, and so is their sum.
    indices = i.derive(
        "add",
        (broadcast(starts, dims, (0,)), broadcast(row, dims, (1,))),
        shape=Shape(dtypes.U32, dims),
    )
    attributes = {
        "dimension_numbers": GatherDimensionNumbers((), (0,), (0,), 2),
        "slice_sizes": (1,),
        "indices_are_sorted": False,
    }
    gathered = i.derive(
        "gather",
        (reshape(operand, (operand.elements,)), indices),
        attributes,
        shape=Shape(i.dtype, dims),
    )
    return reshape(gathered, i.dims)


def _starts(runs: Sequence[Digit], like: Instruction) -> Instruction:
    """Where in the operand the first elements of the result's rows are."""
    shape = Shape(dtypes.U32, (math.prod(run.size for run in runs),))

    def with_number(opcode: str, x: Instruction, number: int) -> Instruction:
        return like.derive(opcode, (x, splat_value(number, x)), shape=shape)

    row = like.derive("iota", (), {"dimension": 0}, shape=shape)
    starts, step = splat_value(0, row), 1
    for run in reversed(runs):
        index = with_number("remainder", with_number("divide", row, step), run.size)
        terms = (starts, with_number("multiply", index, run.source))
        starts = like.derive("add", terms, shape=shape)
        step *= run.size
    return starts
