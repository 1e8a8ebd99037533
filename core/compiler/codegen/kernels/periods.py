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
from typing import Final

from ...fusion.clusters import LONGEST_SHORT_ROW
from ...ir import hlo
from ..generator import Array, Coordinate, Generator, Index
from ..representation import Element
from . import short_rows
from .seams import pieces_along

#: Vectors of as many elements of a row at least, for each place in the period.
_LEAST_VECTORS: Final = 2


def period_of(roots: Sequence[hlo.Instruction], lanes: int) -> int:
    """How many elements of a row of ``roots`` are computed in vectors of their own; 1 for loops over neighbours."""
    if lanes == 1 or not roots[0].dims or any(r.dtype.is_complex for r in roots):
        return 1
    period = 1
    for i, along, _, distance in pieces_along(len(roots[0].dims) - 1, roots, through_gaps=True):
        if i.opcode == "pad" and i.attributes["interior"][along] > 0:
            # In a period the pad's own places advance by a multiple of its distance between elements.
            gap = distance.numerator * (i.attributes["interior"][along] + 1)
            period = math.lcm(period, gap // math.gcd(distance.denominator, gap))
    enough = roots[0].dims[-1] >= _LEAST_VECTORS * period * lanes
    return period if period <= LONGEST_SHORT_ROW and enough else 1


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
