"""Loops whose elements alternate along the last dimension, because pads in them have gaps between elements.

Two halves that are pushed into one another (the levels of ``associative_scan``), and the gradient of every second
element, are pads with gaps. An element of such a result comes from one of the pads or from the other, by its place
modulo a period, and a vector of neighbours would compute all of them in every lane. Here a vector runs over places that
are a period apart, for each place in the period, so that what a pad holds there is known when compiling. Shuffles put
the vectors into the order of memory, as those of short rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from ...fusion.clusters import LONGEST_SHORT_ROW
from ...ir import hlo
from ..generator import Array, Coordinate, Generator, Index
from ..representation import Element
from . import short_rows

#: Vectors of as many elements of a row at least, for each place in the period.
_LEAST_VECTORS: Final = 2


def period_of(roots: Sequence[hlo.Instruction], lanes: int) -> int:
    """How many elements of a row of ``roots`` are computed in vectors of their own; 1 for loops over neighbours."""
    if lanes == 1 or not roots[0].dims or any(r.dtype.is_complex for r in roots):
        return 1
    period = 1
    for pad, along, ratio in _gaps(roots):
        # In a period the pad's own places advance by a multiple of its distance between elements.
        distance = ratio.denominator * (pad.attributes["interior"][along] + 1)
        period = math.lcm(period, distance // math.gcd(ratio.numerator, distance))
    enough = roots[0].dims[-1] >= _LEAST_VECTORS * period * lanes
    return period if period <= LONGEST_SHORT_ROW and enough else 1


def _gaps(roots: Sequence[hlo.Instruction]) -> list[tuple[hlo.Instruction, int, Fraction]]:
    """The pads with gaps along the last dimension of ``roots``: which of their dimensions that is, and how many of its
    places a step along the roots takes.
    """
    found: list[tuple[hlo.Instruction, int, Fraction]] = []
    seen: set[tuple[hlo.Instruction, int, Fraction]] = set()
    stack = [(root, len(root.dims) - 1, Fraction(1)) for root in roots]
    while stack:
        place = stack.pop()
        i, along, ratio = place
        if place in seen or not isinstance(i.shape, hlo.Shape) or not i.dims:
            continue
        seen.add(place)
        if i.opcode == "pad":
            if i.attributes["interior"][along] > 0:
                found.append(place)
                ratio /= i.attributes["interior"][along] + 1
            stack.append((i.operands[0], along, ratio))
        elif i.opcode == "slice":
            stack.append((i.operands[0], along, ratio * i.attributes["strides"][along]))
        elif i.opcode == "broadcast":
            mapped = i.attributes["dimensions"]
            if along in mapped:
                stack.append((i.operands[0], mapped.index(along), ratio))
        elif i.opcode in ("copy", "concatenate") or i.is_elementwise:
            stack += [
                (o, along, ratio) for o in i.operands if o.dims and len(o.dims) == len(i.dims)
            ]
    return found


def cuts_of(seams: Sequence[int], size: int, period: int) -> list[int]:
    """The periods of a row of ``size`` elements at which its code changes: at the ``seams`` of the row, and at the last
    period if the row ends in it.
    """
    count = -(-size // period)
    cuts = {seam // period for seam in seams} | {-(-seam // period) for seam in seams}
    if size % period:
        cuts.add(count - 1)
    return sorted(cut for cut in cuts if 0 < cut < count)


def places(g: Generator, index: Index, size: int, period: int) -> list[Index]:
    """The elements of the periods that ``index`` counts along the last dimension, of ``size`` elements: an index of the
    result for each place in the period.
    """
    start = g.scale(index[-1], period)
    left = size - start.low if start.is_uniform and start.low == start.high else period
    return [(*index[:-1], g.shift(start, n)) for n in range(min(period, left))]


def store(
    g: Generator,
    array: Array,
    places: Sequence[Index],
    elements: Sequence[Element],
    streaming: bool,
) -> None:
    """Write ``elements[n]`` at ``places[n]``, the n-th elements of periods."""
    start: Coordinate = places[0][-1]
    if start.is_uniform:
        for place, element in zip(places, elements, strict=True):
            g.store(array, place, element, None, streaming)
        return
    first = (*places[0][:-1], start._replace(stride=0, lanes=1))
    short_rows.store_woven(g, array, first, start.lanes, elements, streaming)
