"""Which keys a mask leaves to a query, where the positions alone say it.

Logits are often ``select(condition, x, fill)`` with a constant ``fill`` and a condition on positions. Outside of the
bounds that it sets (:mod:`.position_ranges`), every logit is ``fill``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir import hlo
from .position_ranges import Bounds, Ranges


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
        found = Bounds(ranges, query, key)
        found.add(condition, dims, truth)
        fills.append(fill)
        i = following
    if not ranges.any:
        return KeyRanges()
    ranges.fill = fills[0]
    return ranges


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
