"""Loops whose rows have few elements: vectors run along the dimension before, and all elements of a row are computed.

A row of three places in space, four parts of a quaternion or two halves would leave most lanes of a vector along it
empty. Here each element of the row is a vector of its own, of neighbouring rows; what they have in common is computed
once. Shuffles put the vectors into the order of memory, which is written in whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...fusion.clusters import LONGEST_SHORT_ROW
from ...ir import hlo
from ..elements import conversion, memory
from ..generator import Array, Generator, Index, fixed
from ..llvm_ir import Builder, Value, i64, lanes_of
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
    first = (*index[:-1], rows._replace(stride=0, lanes=1), fixed(0))
    store_woven(g, array, first, rows.lanes, elements, streaming)


def store_woven(
    g: Generator,
    array: Array,
    first: Index,
    count: int,
    elements: Sequence[Element],
    streaming: bool,
) -> None:
    """Write the ``count`` lanes of ``elements`` behind one another, from ``first`` on: the first lane of each of them,
    then the second of each, ...
    """
    b = g.builder
    dtype = array.shape.dtype
    type_, _ = memory.unit(dtype)
    size = memory.size_of(type_)
    pointer, _ = g.address(array, first)
    parts = [conversion.to_memory(g, g.splat(e, count), dtype) for e in elements]  # type: ignore[arg-type]
    width = size * count
    past_caches = (
        streaming and width == g.target.vector_bytes and memory.is_aligned(array, first, width)
    )
    g.streamed |= past_caches
    for piece, value in enumerate(weave(b, parts)):
        where = b.gep(type_, pointer, i64(piece * count))
        b.store(value, where, width if past_caches else size, nontemporal=past_caches)


class _Pieces(NamedTuple):
    """Pieces of rows, one row after the other through the lanes of ``vectors``, in each row ``size`` elements."""

    vectors: list[Value]
    size: int


def weave(b: Builder, elements: Sequence[Value]) -> list[Value]:
    """Vectors in the order of memory: the first lane of each of ``elements``, then the second lane of each, ...

    Neighbouring elements become pieces of rows, and neighbouring pieces longer ones. So 16 vectors of 16 lanes take 64
    shuffles. Each result for itself would take one for each element but the first: 240.
    """
    found = [_Pieces([element], 1) for element in elements]
    while len(found) > 3:  # of three, pairs first would take as many
        found = [_join(b, found[n : n + 2]) for n in range(0, len(found), 2)]
    return _join(b, found).vectors


def _join(b: Builder, pieces: Sequence[_Pieces]) -> _Pieces:
    """Pieces of the same rows, in each row the elements of the first, then those of the second, ..."""
    if len(pieces) == 1:
        return pieces[0]
    count = lanes_of(pieces[0].vectors[0].type)
    # Of a row of the result: which piece each element is in, and which of that piece's elements it is.
    row = [(piece, element) for piece in pieces for element in range(piece.size)]
    vectors = []
    for number in range(len(row)):
        lanes = []  # of the result: which vector each comes from, and which lane of that
        for place in range(number * count, (number + 1) * count):
            piece, element = row[place % len(row)]
            vector, lane = divmod(place // len(row) * piece.size + element, count)
            lanes.append((piece.vectors[vector], lane))
        vectors.append(_gathered(b, lanes))
    return _Pieces(vectors, len(row))


def unweave(b: Builder, vectors: Sequence[Value]) -> list[Value]:
    """What :func:`weave` was given: of rows of ``len(vectors)`` elements, one behind the other through the lanes of
    ``vectors``, the first element of each row in one vector, the second ones in another, ...

    Rows are halved until they are single elements, so that 16 vectors of 16 lanes take 64 shuffles.
    """
    rows = _Pieces([*vectors], len(vectors))
    return _taken_apart(b, rows)


def _taken_apart(b: Builder, rows: _Pieces) -> list[Value]:
    if rows.size == 1:
        return rows.vectors
    half = rows.size // 2
    first, second = _part(b, rows, 0, half), _part(b, rows, half, rows.size - half)
    return _taken_apart(b, first) + _taken_apart(b, second)


def _part(b: Builder, rows: _Pieces, start: int, size: int) -> _Pieces:
    """``size`` elements of each row, from ``start`` on, as rows of their own."""
    count = lanes_of(rows.vectors[0].type)
    vectors = []
    for number in range(size):
        lanes = []  # of the result: which vector each comes from, and which lane of that
        for place in range(number * count, (number + 1) * count):
            row, element = divmod(place, size)
            vector, lane = divmod(row * rows.size + start + element, count)
            lanes.append((rows.vectors[vector], lane))
        vectors.append(_gathered(b, lanes))
    return _Pieces(vectors, size)


def _gathered(b: Builder, lanes: Sequence[tuple[Value, int]]) -> Value:
    """The vector of these lanes of other ones."""
    count = len(lanes)
    sources = list(dict.fromkeys([source for source, _ in lanes]))
    if len(sources) == 1 and all(lane == n for n, (_, lane) in enumerate(lanes)):
        return sources[0]
    # The first shuffle takes the lanes of two vectors to their places, each of the others those of one.
    one, other = sources[0], sources[1 if len(sources) > 1 else 0]
    starts = {other: count, one: 0}
    value = b.shuffle(one, other, [starts[s] + lane if s in starts else 0 for s, lane in lanes])
    for source in sources[2:]:
        mask = [count + lane if s == source else n for n, (s, lane) in enumerate(lanes)]
        value = b.shuffle(value, source, mask)
    return value
