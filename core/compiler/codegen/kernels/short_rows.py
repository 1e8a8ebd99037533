"""Loops whose rows have few elements: vectors run along the dimension before, and all elements of a row are computed.

A row of three places in space, four parts of a quaternion or two halves would leave most lanes of a vector along it
empty. Here each element of the row is a vector of its own, of neighbouring rows; what they have in common is computed
once. Shuffles put the vectors into the order of memory, which is written in whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...fusion.clusters import LONGEST_SHORT_ROW
from ...ir import hlo
from ..elements import conversion, memory
from ..generator import Array, Generator, Index, fixed
from ..llvm_ir import i64
from ..representation import Element


def fits(roots: Sequence[hlo.Instruction], lanes: int) -> bool:
    """Whether results of equal dimensions are computed so."""
    dims = roots[0].dims
    if len(dims) < 2 or not 2 <= dims[-1] <= LONGEST_SHORT_ROW or not 1 < lanes <= dims[-2]:
        return False
    return not any(r.dtype.is_complex for r in roots)


def store(
    g: Generator, array: Array, index: Index, elements: Sequence[Element], streaming: bool
) -> None:
    """Write whole rows: ``elements[n]`` is the last dimension's element n, at ``index`` in the others, whose last
    coordinate runs along the lanes.
    """
    rows = index[-1]
    if rows.is_uniform:
        for n, element in enumerate(elements):
            g.store(array, (*index, fixed(n)), element, None, streaming)
        return
    b, count, number = g.builder, rows.lanes, len(elements)
    dtype = array.shape.dtype
    type_, _ = memory.unit(dtype)
    size = memory.size_of(type_)
    first = (*index[:-1], rows._replace(stride=0, lanes=1), fixed(0))
    pointer, _ = g.address(array, first)
    parts = [conversion.to_memory(g, g.splat(e, count), dtype) for e in elements]  # type: ignore[arg-type]
    width = size * count
    past_caches = (
        streaming and width == g.target.vector_bytes and memory.is_aligned(array, first, width)
    )
    g.streamed |= past_caches
    for piece in range(number):
        places = [divmod(piece * count + lane, number) for lane in range(count)]
        # The first shuffle takes the first two parts' elements to their places, each of the others one part's.
        value = b.shuffle(
            parts[0],
            parts[1],
            [row + count * which if which < 2 else 0 for row, which in places],
        )
        for n, part in enumerate(parts[2:], 2):
            value = b.shuffle(
                value,
                part,
                [count + row if which == n else lane for lane, (row, which) in enumerate(places)],
            )
        where = b.gep(type_, pointer, i64(piece * count))
        b.store(value, where, width if past_caches else size, nontemporal=past_caches)
