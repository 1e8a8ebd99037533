"""Where a loop reads its operands: how far from the place that it computes.

Stencils read the neighbours of a place: slices, pads and concatenations (``jnp.roll``) with elementwise operations
around them. For such an operand each dimension has the offsets of what is read from what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..ir.hlo import Computation, Instruction

# What is read at any place along a dimension.
ANYWHERE: Final = None
# An offset along each dimension of a result; ANYWHERE if it is not always the same.
Offsets = tuple[int | None, ...]
# Ways through a computation that are looked at.
_MOST_WAYS: Final = 2048


def offsets_read(computation: Computation) -> dict[Instruction, set[Offsets]] | None:
    """The offsets at which each array parameter of a loop's computation is read from the index of its results.

    None: there are too many ways. A parameter that is read otherwise, through a broadcast, a transpose or a gather, has
    ANYWHERE along each of its dimensions.
    """
    found: dict[Instruction, set[Offsets]] = {}
    seen: set[tuple[Instruction, Offsets]] = set()
    stack: list[tuple[Instruction, Offsets]] = [
        (root, (0,) * len(root.dims)) for root in computation.results
    ]
    while stack:
        way = stack.pop()
        if way in seen:
            continue
        seen.add(way)
        if len(seen) > _MOST_WAYS:
            return None
        i, offsets = way
        if i.opcode == "parameter":
            found.setdefault(i, set()).add(offsets)
        else:
            stack += _operands(i, offsets)
    return found


def _operands(i: Instruction, offsets: Offsets) -> list[tuple[Instruction, Offsets]]:
    """The operands of ``i``, each with where it is read if ``i`` is read at ``offsets``."""
    if i.opcode == "slice":
        moved = zip(offsets, i.attributes["starts"], i.attributes["strides"], strict=True)
        return [
            (i.operands[0], tuple([_add(o, at) if by == 1 else ANYWHERE for o, at, by in moved]))
        ]
    if i.opcode == "pad":
        moved = zip(offsets, i.attributes["low"], i.attributes["interior"], strict=True)
        places = tuple([ANYWHERE if between else _add(o, -low) for o, low, between in moved])
        return [(i.operands[0], places), (i.operands[1], ())]
    if i.opcode == "concatenate":
        dimension, start, pieces = i.attributes["dimension"], 0, []
        for operand in i.operands:
            behind = _add(offsets[dimension], -start)
            start += operand.dims[dimension]
            if operand.elements:
                places = (*offsets[:dimension], behind, *offsets[dimension + 1 :])
                pieces.append((operand, places))
        return pieces
    if i.opcode == "reverse":
        turned = i.attributes["dimensions"]
        return [
            (i.operands[0], tuple([ANYWHERE if d in turned else o for d, o in enumerate(offsets)]))
        ]
    if i.opcode == "copy" or i.is_elementwise:
        return [(o, offsets if o.dims == i.dims else (ANYWHERE,) * len(o.dims)) for o in i.operands]
    return [(o, (ANYWHERE,) * len(o.dims)) for o in i.operands]


def _add(offset: int | None, by: int) -> int | None:
    return ANYWHERE if offset is ANYWHERE else offset + by


class Window(NamedTuple):
    """The places along a dimension that are read for place p: p + low to p + high. ``wraps``: modulo its size."""

    low: int
    high: int
    wraps: bool = False


def window_along(
    dimension: int, offsets: Sequence[Offsets], size: int, of_reader: int
) -> Window | None:
    """The window of what is read at ``offsets`` of a dimension of ``size`` elements by a loop over ``of_reader``; None
    if places anywhere are read.

    Where both have one size, an offset of more than half of it is one in the other direction: ``jnp.roll`` reads the
    first place behind the last one, which is size - 1 before it.
    """
    along = [o[dimension] for o in offsets]
    known = [o for o in along if o is not ANYWHERE]
    if len(known) < len(along):
        return None
    wraps = size == of_reader and any(abs(o) > size // 2 for o in known)
    if wraps:
        known = [(o + size // 2) % size - size // 2 for o in known]
    return Window(min(known), max(known), wraps)
