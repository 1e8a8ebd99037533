"""Loops that read what their last steps wrote: a recurrence along an array, which a window of states stands for.

    x[i] = f(x[i - 1], x[i - 2])

Through memory, each step would wait until the store of the last one can be read. The rows that are read, so many behind
the one that is written, are a state of their own: it moves on by a row with each step, and the array is only written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..ir.hlo import Computation, Instruction, TupleShape, constant, parameter
from ..ir.moves import concatenate, cut
from ..ir.patterns import constant_value, only_part, splat
from ..ir.trip_counts import Steps
from .rewrite import substitute

# Rows of a window.
DEEPEST: Final = 16


@dataclass(frozen=True, slots=True)
class _Recurrence:
    """State ``number`` is written row by row along ``dimension``: by ``update``, at ``first`` in the first step, and
    ``slope`` (1 or -1) further in each step. ``reads``: slices of it, and where their first row is, seen from the
    row that is written. ``depth``: how many steps ago the oldest row was written.
    """

    number: int
    dimension: int
    update: Instruction
    first: int
    slope: int
    reads: dict[Instruction, int]
    depth: int


def carry_rows(loop: Instruction) -> Instruction | None:
    """The loop with a further state, at the end, for each window of rows that it reads of an array that it writes; None
    if there is none.
    """
    count = loop.attributes.get("trip_count", -1)
    if count < 1 or loop.called[1].root.opcode != "tuple":
        return None
    condition, body = loop.called
    if not any(r.opcode == "dynamic-update-slice" for r in body.results):
        return None
    steps = Steps(loop, count)
    users = body.users()
    read_outside = condition.users()
    found = [
        recurrence
        for n in range(len(body.parameters))
        if not read_outside[condition.parameters[n]]
        for recurrence in [_recurrence(n, body, users, steps)]
        if recurrence is not None
    ]
    return _carried(loop, found) if found else None


def _recurrence(
    n: int, body: Computation, users: dict[Instruction, list[Instruction]], steps: Steps
) -> _Recurrence | None:
    """The recurrence that state ``n`` is, if all that is read of it are rows that were written just before."""
    p, update = body.parameters[n], body.results[n]
    if update.opcode != "dynamic-update-slice" or update.operands[0] is not p or not p.dims:
        return None
    # As a further state of the loop it would be read in the next step.
    if users[update] != [body.root] or body.root.operands.count(update) > 1:
        return None
    reads = [u for u in users[p] if u is not update]
    if not reads or any(r.opcode != "dynamic-slice" for r in reads):
        return None
    if any(i.operands.count(p) > 1 for i in (update, *reads)):
        return None
    dimension = only_part(update.operands[1].dims, p.dims)
    if dimension is None or update.operands[1].dims[dimension] != 1:
        return None
    line = steps.line(update.operands[2 + dimension])
    if line is None or abs(line[1]) != 1:
        return None
    first, slope = line
    rows = p.dims[dimension]
    if not steps.stays_in(update.operands[2 + dimension], 0, rows - 1):
        return None
    places: dict[Instruction, int] = {}
    depth = 0
    for r in reads:
        size = r.dims[dimension]
        start = r.operands[1 + dimension]
        at = steps.line(start)
        if only_part(r.dims, p.dims) != dimension or at is None or at[1] != slope:
            return None
        if not steps.stays_in(start, 0, rows - size):
            return None
        # How many steps ago its first and its last row were written.
        ages = [(first - row) * slope for row in (at[0], at[0] + size - 1)]
        if min(ages) < 1:
            return None
        places[r] = at[0] - first
        depth = max(depth, *ages)
    if depth > DEEPEST:
        return None
    return _Recurrence(n, dimension, update, first, slope, places, depth)


def _carried(loop: Instruction, found: list[_Recurrence]) -> Instruction:
    condition, body = loop.called
    operands, windows = list(loop.operands), []
    replaced: dict[Instruction, Instruction] = {}
    more: list[Instruction] = []  # of the body
    results = list(body.results)
    for r in found:
        low = r.first - r.depth if r.slope > 0 else r.first + 1
        operands.append(_rows(loop.operands[r.number], r.dimension, low, r.depth))
        window = parameter(len(operands) - 1, operands[-1].shape)
        windows.append(window)
        # The row that the window begins with, seen from the one that is written.
        begin = -r.depth if r.slope > 0 else 1
        for read, place in r.reads.items():
            replaced[read] = _rows(window, r.dimension, place - begin, read.dims[r.dimension])
        row = r.update.operands[1]
        if r.depth > 1:
            kept = _rows(window, r.dimension, 1 if r.slope > 0 else 0, r.depth - 1)
            row = concatenate([kept, row] if r.slope > 0 else [row, kept], r.dimension)
            more += [kept, row]
        results.append(row)
    shape = TupleShape(tuple(o.shape for o in operands))  # type: ignore[misc]
    root = Instruction("tuple", shape, results)
    instructions = [*windows, *(i for i in body.instructions if i is not body.root), *more, root]
    new_body = Computation(body.name, [*body.parameters, *windows], instructions, root)
    unread = [parameter(w.attributes["index"], w.shape) for w in windows]
    new_condition = Computation(
        condition.name,
        [*condition.parameters, *unread],
        [*condition.instructions, *unread],
        condition.root,
    )
    called = [new_condition, substitute(new_body, replaced)]
    return loop.replace(operands=operands, shape=shape, called=called)


def _rows(value: Instruction, dimension: int, start: int, size: int) -> Instruction:
    """``size`` rows of an array, from ``start`` on."""
    known = constant_value(value)
    if known is not None:
        dims = [size if d == dimension else n for d, n in enumerate(value.dims)]
        return splat(constant(known, value.dtype, value.metadata), dims)
    return cut(value, dimension, start, start + size)
