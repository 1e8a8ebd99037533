"""Whether a cluster computes a value that it reads: whether it may, and what that costs more than reading it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ..ir.hlo import Instruction, Shape
from ..ir.patterns import UPDATES, reshaped_broadcast
from ..ir.registry import OPS
from .clusters import (
    FORBIDDEN,
    MAXIMUM_INPUTS,
    MAXIMUM_MEMBERS,
    MOST_SHORT_ROW_CODE,
    SCALAR,
    Cluster,
    is_free,
)
from .sweep import Sweep
from .updates import keeps_update_in_place, reads_across_rows

# Instructions between a concatenation and a transpose that are looked at.
_LOOK_AHEAD: Final = 24
# Pieces of a concatenation that a vector does not compute all.
_PIECES: Final = 3
# Contexts in which one cluster may compute an instruction.
_CONTEXTS: Final = 4


def recomputation(
    sweep: Sweep,
    instruction: Instruction,
    cost: float,
    cluster: Cluster,
    contexts: tuple[int, ...],
) -> float | None:
    """Operations an element that ``cluster`` does more than once if it computes ``instruction`` in ``contexts``; None
    if it must not compute it.
    """
    if not _may_compute(sweep, instruction, cluster, contexts):
        return None
    once = (SCALAR, cluster.rows)
    if contexts[0] in once and len(contexts) == 1:
        return 0.0
    many = [c for c in contexts if c not in once]
    if not many or is_free(instruction):
        return 0.0
    elements, limits = instruction.elements, sweep.limits
    ratio = _elements_computed(cluster, many) / elements if elements else 1.0
    if cluster.cost + cost * len(many) > limits.most:
        return None
    if len(many) > _CONTEXTS or (ratio > 1.25 and cost >= limits.expensive):
        return None
    if ratio <= 1.0:
        return 0.0
    recomputed = max(cost, 0.25) * min(len(many) - 1 + (cluster.elements > elements), _CONTEXTS)
    return None if cluster.recomputed + recomputed > limits.recomputed else recomputed


def _may_compute(
    sweep: Sweep, instruction: Instruction, cluster: Cluster, contexts: tuple[int, ...]
) -> bool:
    """Whether ``cluster`` may compute ``instruction`` at all, whatever it costs."""
    if not contexts or FORBIDDEN in contexts:
        return False
    if cluster.kind in UPDATES and not keeps_update_in_place(sweep, instruction, cluster):
        return False
    if ends_short_rows(sweep, instruction, cluster):
        return False
    opcode = instruction.opcode
    if opcode == "transpose" and reads_across_rows(instruction, cluster):
        return False
    if opcode == "concatenate" and _mixes_pieces(sweep, instruction, cluster):
        return False
    if opcode == "reshape" and _repeats_elements(sweep, instruction, cluster):
        return False
    if len(cluster.members) >= MAXIMUM_MEMBERS and not is_free(instruction):
        return False  # what is free would be an array in memory instead
    return len(cluster.inputs) + len(instruction.operands) - 1 <= MAXIMUM_INPUTS or all(
        o in cluster.inputs or o in cluster.members for o in instruction.operands
    )


def _elements_computed(cluster: Cluster, contexts: Sequence[int]) -> int:
    """How many elements of an instruction the loop of ``cluster`` computes in ``contexts``."""
    by_column = cluster.computed and cluster.has_short_rows
    if by_column and cluster.row_code <= MOST_SHORT_ROW_CODE:
        return sum(cluster.computed.get(c, cluster.elements) for c in contexts)
    return len(contexts) * cluster.elements


def ends_short_rows(sweep: Sweep, instruction: Instruction, cluster: Cluster) -> bool:
    """Whether ``instruction`` is too much for a loop that computes the pieces of its short rows column by column.
    With it the loop would compute all pieces, those that it has already too, for each element of a row.
    """
    if not cluster.computed or not cluster.has_short_rows or is_free(instruction):
        return False
    code = cluster.row_code
    return code <= MOST_SHORT_ROW_CODE < code + sweep.row_code(instruction, cluster)


def _mixes_pieces(sweep: Sweep, concatenate: Instruction, cluster: Cluster) -> bool:
    """Whether ``concatenate`` puts several arrays behind one another along a dimension that a transpose in ``cluster``
    makes the last one: each vector there would compute all of them, and choose.
    """
    if len(concatenate.operands) < _PIECES:
        return False
    stack = [(concatenate, concatenate.attributes["dimension"])]
    for _ in range(_LOOK_AHEAD):
        if not stack:
            return False
        value, dimension = stack.pop()
        for user in sweep.users[value]:
            if user not in cluster.members:
                continue
            if user.opcode == "transpose":
                moved = user.attributes["dimensions"].index(dimension)
                if moved == len(user.dims) - 1 != dimension:
                    return True
                stack.append((user, moved))
            elif user.is_elementwise or user.opcode in ("reverse", "copy"):
                stack.append((user, dimension))
            elif user.opcode == "reshape":
                stack += [
                    (user, d)
                    for d, size in enumerate(user.dims)
                    if size == value.dims[dimension]
                    and math.prod(user.dims[:d]) == math.prod(value.dims[:dimension])
                ]
    return False


def _repeats_elements(sweep: Sweep, reshape: Instruction, cluster: Cluster) -> bool:
    """Whether ``reshape`` gives each element of a small array several times in a row, as the features of a group have
    their sum, and ``cluster`` reads that again and again: each time it would divide an index.
    """
    (operand,) = reshape.operands
    return (
        operand.opcode == "broadcast"
        and reshape.elements * sweep.limits.repeated <= cluster.elements
        and reshaped_broadcast(operand, reshape.dims) is None
    )


def is_worth_copying(
    sweep: Sweep, instruction: Instruction, cost: float, cluster: Cluster, *, stored: bool
) -> bool:
    """Whether ``cluster`` should compute a value itself though others need it too.

    ``stored``: it is in memory anyway, so the reader has to read less than the value's own size for it.
    """
    if is_free(instruction) or not instruction.operands:
        return True
    limits = sweep.limits
    if cost > limits.cheap or cluster.recomputed + cost > limits.recomputed:
        return False
    shape = instruction.shape
    assert isinstance(shape, Shape)
    if not shape.dims:
        return False
    opcode = instruction.opcode
    if opcode in ("slice", "dynamic-slice", "reshape"):
        return True
    if opcode in ("transpose", "gather", "concatenate", "pad", "reverse"):
        return False
    read = 0
    for operand in instruction.operands:
        if operand not in cluster.inputs and operand not in cluster.members:
            read += _bytes_behind(operand)
    return read <= shape.bytes / 2 if stored else read <= shape.bytes * 1.25


def _bytes_behind(operand: Instruction) -> int:
    """The bytes of memory that computing ``operand`` reads, for those that are cheap to fuse in turn."""
    if operand.opcode == "broadcast" or operand.opcode == "convert":
        operand = operand.operands[0]
    if OPS[operand.opcode].stays_in_registers or not isinstance(operand.shape, Shape):
        return 0
    return operand.shape.bytes
