"""Which keys a mask leaves to a query, where the positions alone say it.

Logits are often ``select(condition, x, fill)`` with a constant ``fill`` and a condition on positions, or the sum of
``x`` and ``select(condition, 0, -inf)``. Outside of the bounds that the condition sets (:mod:`.position_ranges`), every
logit is ``fill``. A sum is NaN there where ``x`` is NaN or positive infinity, which is ignored (docs/attention.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir import hlo
from .position_ranges import Axes, Bounds, Ranges, inside


@dataclass(slots=True)
class KeyRanges(Ranges):
    """Logits of query i and key j are ``fill`` unless they are inside."""

    fill: float = -math.inf


def ranges_of(logits: hlo.Instruction, scores: hlo.Instruction, query: int, key: int) -> KeyRanges:
    """The bounds that ``logits`` has for dimensions ``query`` (-1: none) and ``key`` of ``scores``."""
    ranges = KeyRanges()
    i = logits
    fills: list[float] = []
    dims = tuple(range(len(scores.dims)))
    while True:
        if i.opcode == "convert" and i.dtype.is_float and i.operands[0].dtype.is_float:
            i = i.operands[0]
            continue
        found = Bounds(ranges, query, key)
        if i.opcode == "add":
            masks = [_mask(o, dims) for o in i.operands]
            if (masks[0] is None) == (masks[1] is None) or any(f != -math.inf for f in fills):
                break
            fills.append(-math.inf)
            if masks[0] is not None:
                found.add(*masks[0])
                i = i.operands[1]
            elif masks[1] is not None:
                found.add(*masks[1])
                i = i.operands[0]
            continue
        if i.opcode != "select" or i.operands[0].dims != scores.dims:
            break
        condition, yes, no = i.operands
        fill, truth = _constant(no), True
        following = yes
        if fill is None:
            fill, truth, following = _constant(yes), False, no
        if fill is None or fill > 0 or math.isnan(fill):
            break
        if fills and fill != fills[0]:
            break
        found.add(condition, dims, truth)
        fills.append(fill)
        i = following
    if not ranges.any:
        return KeyRanges()
    ranges.fill = fills[0]
    return ranges


def _mask(i: hlo.Instruction, axes: Axes) -> tuple[hlo.Instruction, Axes, bool] | None:
    """The condition of ``i``, a selection of -inf or something else; the dimensions of the condition; and whether the
    condition is true where ``i`` is not -inf. None if ``i`` is not such a selection.
    """
    inner: tuple[hlo.Instruction, Axes] | None = (i, axes)
    while inner is not None:
        i, axes = inner
        inner = inside(i, axes)
    if i.opcode == "convert" and i.dtype.is_float and i.operands[0].dtype.is_float:
        return _mask(i.operands[0], axes)
    if i.opcode != "select" or i.operands[0].dims != i.dims:
        return None
    condition, yes, no = i.operands
    masked = [_constant(o) == -math.inf for o in (yes, no)]
    return None if masked[0] == masked[1] else (condition, axes, masked[1])


def _constant(i: hlo.Instruction) -> float | None:
    if i.opcode == "convert":
        return _constant(i.operands[0])
    if i.opcode == "broadcast":
        i = i.operands[0]
    if i.opcode == "convert":
        i = i.operands[0]
    if i.opcode == "constant" and not i.dims:
        return float(i.attributes["literal"])
    return None
