"""Loads and stores of elements: contiguous vectors, single elements, gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...ir.dtypes import DType
from .. import llvm_ir
from ..llvm_ir import Value, i64
from ..representation import Complex, Element, lanes, memory_type, register_type
from . import conversion

if TYPE_CHECKING:
    from ...ir import hlo
    from ..generator import Array, Coordinate, Generator, Index

#: Arrays of at most this size live in registers while a function runs a sequence of kernels (codegen/sequence.py).
SLOT_BYTES: Final = 64
# Arrays of at most this size are read and written without masks. In a loop of small kernels the next kernel reads at
# once what one has written, and a processor that has the masked write under way lets it wait, some 20 cycles on a
# Zen 4; a larger array takes longer than that.
PIECES_BYTES: Final = 256
# So many vectors are read at most, and shuffled, in the place of a gather of as many lanes as one of them has.
_MOST_VECTORS: Final = 12


def unit(dtype: DType) -> tuple[str, int]:
    """The LLVM type that memory of ``dtype`` is addressed in, and how many of them an element takes."""
    return memory_type(dtype), 2 if dtype.is_complex else 1


def load(g: Generator, array: Array, index: Index, floor: int | None = None) -> Element:
    """The element of ``array`` at ``index``: a scalar if the index is the same in all lanes, else a vector.

    ``floor`` is the outermost level that the load may move to; memory that the kernel itself writes needs one.
    """
    pointer, lane = g.address(array, index)
    if g.fetched_bytes is not None:
        return _fetch(g, array, pointer, lane)
    mask = None if lane.is_uniform else g.mask
    operands = [pointer] + [v for v in (lane.vector, mask) if v is not None]
    return g.pure(
        ("load", pointer, lane, mask),
        operands,
        lambda: _load(g, array.shape, pointer, lane, mask),
        g.guard_level() if floor is None else floor,
    )


def _fetch(g: Generator, array: Array, pointer: Value, lane: Coordinate) -> Element:
    """Ask for the line of memory that the first lane is read from, if the array is large; gives 0."""
    dtype = array.shape.dtype
    assert g.fetched_bytes is not None
    if array.shape.bytes >= g.fetched_bytes:
        g.builder.prefetch(pointer, locality=g.fetched_into)
    zero = llvm_ir.zero(llvm_ir.vector(register_type(dtype), lane.lanes))
    return Complex(zero, zero) if dtype.is_complex else zero


def reload(g: Generator, array: Array, index: Index) -> Element:
    """As :func:`load`, but what memory holds now: for arrays that the kernel itself writes."""
    pointer, lane = g.address(array, index)
    return _load(g, array.shape, pointer, lane, None if lane.is_uniform else g.mask)


def load_part(g: Generator, array: Array, first: Index, number: int, count: int) -> Value:
    """As memory has them, ``count`` elements of an array of numbers, ``number`` times as many behind ``first``."""
    type_, _ = unit(array.shape.dtype)
    pointer, _ = g.address(array, first)
    start = g.builder.gep(type_, pointer, i64(number * count))
    return _contiguous(g, type_, start, count, None)


def _load(
    g: Generator, shape: hlo.Shape, pointer: Value, lane: Coordinate, mask: Value | None
) -> Element:
    dtype = shape.dtype
    type_, factor = unit(dtype)
    if factor == 1 and mask is not None and lane.vector is None and lane.stride == 1:
        count = first_lanes(shape, mask)
        if count:
            piecewise = _load_pieces(g, type_, pointer, lane.lanes, count)
            return conversion.from_memory(g, piecewise, dtype)
    near = _near_places(lane, mask, factor)
    parts: list[Value]
    if near is not None:
        masks = shape.bytes > PIECES_BYTES and g.target.can_mask(size_of(type_))
        parts = _picked(g, type_, pointer, near, factor, masks)
    elif factor == 2 and not lane.is_uniform and lane.vector is None and lane.stride == 2:
        count = lane.lanes  # both parts come as one vector
        wide = _contiguous(g, type_, pointer, 2 * count, _interleave(g, mask, mask))
        parts = [g.builder.shuffle(wide, wide, range(n, 2 * count, 2)) for n in (0, 1)]
    else:
        parts = [_load_part(g, type_, factor, pointer, lane, mask, n) for n in range(factor)]
    values = [conversion.from_memory(g, part, dtype) for part in parts]
    return Complex(values[0], values[1]) if dtype.is_complex else values[0]


def _load_part(
    g: Generator,
    type_: str,
    factor: int,
    pointer: Value,
    lane: Coordinate,
    mask: Value | None,
    part: int,
) -> Value:
    b, size, count = g.builder, size_of(type_), lane.lanes
    if lane.is_uniform:
        return b.load(type_, b.gep(type_, pointer, i64(part)), size)
    if lane.vector is None and lane.stride == factor == 1:
        return _contiguous(g, type_, pointer, count, mask)
    offsets = lane.vector or b.lane_offsets(count, lane.stride)
    addresses = b.gep(type_, b.gep(type_, pointer, i64(part)), offsets)
    return b.gather(llvm_ir.vector(type_, count), addresses, size, mask)


def _near_places(lane: Coordinate, mask: Value | None, factor: int) -> list[int | None] | None:
    """Where the lanes are read, from the first element on, if that is known and near enough for a few vectors that are
    shuffled; None for a lane that the mask leaves out.

    Strides and reversed rows are such places, and neighbours that share an element of a smaller array, such as the
    scale of a group.
    """
    if lane.is_uniform or (lane.vector is None and lane.stride == factor):
        return None
    count = lane.lanes
    wanted: object = (True,) * count if mask is None else mask.constant
    if not isinstance(wanted, tuple):
        return None
    offsets = [n * lane.stride for n in range(count)]
    if lane.vector is not None:
        if not isinstance(lane.vector.constant, tuple):
            return None
        offsets = [int(n) for n in lane.vector.constant]
    places = [n if wanted[at] else None for at, n in enumerate(offsets)]
    known = [n for n in places if n is not None]
    if known and max(known) - min(known) + factor > _MOST_VECTORS * count:
        return None
    return places


def _picked(
    g: Generator, type_: str, pointer: Value, places: Sequence[int | None], factor: int, masks: bool
) -> list[Value]:
    """The elements at ``places``, and those ``factor - 1`` behind each: contiguous vectors, and shuffles that pick from
    them; zeros where there is no place. ``masks``: whether a vector may have lanes that are left out.

    The last vector ends with the last element that is needed: nothing behind it is touched.
    """
    b, count = g.builder, len(places)
    known = [n for n in places if n is not None]
    if not known:
        return [llvm_ir.zero(llvm_ir.vector(type_, count))] * factor
    first, span = min(known), max(known) - min(known) + factor
    width, mask = min(1 << (span.bit_length() - 1), count), None
    if masks and width < min(span, count):
        width, mask = count, llvm_ir.lanes_constant("i1", [n < span for n in range(count)])
    starts = [*range(first, first + span - width, width), first + max(span - width, 0)]
    vectors = [_contiguous(g, type_, b.gep(type_, pointer, i64(n)), width, mask) for n in starts]
    found = []
    for part in range(factor):
        lanes: list[
            tuple[int, int] | None
        ] = []  # which vector each comes from, and which lane of that
        for place in places:
            if place is None:
                lanes.append(None)
                continue
            number = min((place + part - first) // width, len(starts) - 1)
            lanes.append((number, place + part - starts[number]))
        found.append(_shuffled(g, vectors, lanes))
    return found


def _shuffled(
    g: Generator, vectors: Sequence[Value], lanes: Sequence[tuple[int, int] | None]
) -> Value:
    """The vector of these lanes of ``vectors``, and of zeros."""
    b = g.builder
    used = sorted({number for number, _ in filter(None, lanes)})
    first, count = vectors[used[0]], len(lanes)
    width = llvm_ir.lanes_of(first.type)
    if width == 1:
        picked = b.splat(first, count)
    else:
        start = [at[1] if at and at[0] == used[0] else 0 for at in lanes]
        picked = b.shuffle(first, first, start)
    for number in used[1:]:
        other = vectors[number]
        if width < count:
            other = b.shuffle(other, other, [min(n, width - 1) for n in range(count)])
        mask = [count + at[1] if at and at[0] == number else n for n, at in enumerate(lanes)]
        picked = b.shuffle(picked, other, mask)
    if None in lanes:
        zero = llvm_ir.zero(picked.type)
        picked = b.shuffle(picked, zero, [n if at else count + n for n, at in enumerate(lanes)])
    return picked


def _contiguous(g: Generator, type_: str, pointer: Value, count: int, mask: Value | None) -> Value:
    result = llvm_ir.vector(type_, count)
    if mask is None:
        return g.builder.load(result, pointer, size_of(type_))
    return g.builder.masked_load(result, pointer, size_of(type_), mask)


def first_lanes(shape: hlo.Shape, mask: Value, masks: bool = True) -> int:
    """How many lanes are meant by a constant mask of the first ones, if vectors of the array go in pieces; else 0.

    LLVM takes an array into registers only if no access to it has a mask. ``masks``: whether accesses with masks are as
    fast as others.
    """
    lanes = mask.constant
    if (masks and shape.bytes > PIECES_BYTES) or not isinstance(lanes, tuple):
        return 0
    count = int(sum(lanes))
    return count if all(lanes[:count]) else 0


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    """Powers of two whose sum is ``count``, the largest first, and where each of them starts."""
    start = 0
    while start < count:
        width = 1 << ((count - start).bit_length() - 1)
        yield start, width
        start += width


def _load_pieces(g: Generator, type_: str, pointer: Value, lanes: int, count: int) -> Value:
    """A vector whose first ``count`` lanes are read, and whose others are zeros."""
    b, size = g.builder, size_of(type_)
    result = llvm_ir.zero(llvm_ir.vector(type_, lanes))
    for start, width in _pieces(count):
        piece = b.load(llvm_ir.vector(type_, width), b.gep(type_, pointer, i64(start)), size)
        if width == 1:
            result = b.insert(result, piece, start)
            continue
        wide = b.shuffle(piece, piece, [min(n, width - 1) for n in range(lanes)])
        taken = range(start, start + width)
        result = b.shuffle(
            result, wide, [lanes + n - start if n in taken else n for n in range(lanes)]
        )
    return result


def _store_pieces(g: Generator, type_: str, value: Value, pointer: Value, count: int) -> None:
    """Store the first ``count`` lanes of a vector."""
    b, size = g.builder, size_of(type_)
    for start, width in _pieces(count):
        piece = (
            b.extract(value, start)
            if width == 1
            else b.shuffle(value, value, range(start, start + width))
        )
        b.store(piece, b.gep(type_, pointer, i64(start)), size)


def store(
    g: Generator, array: Array, index: Index, element: Element, mask: Value | None, streaming: bool
) -> None:
    """Write ``element`` to ``array`` at ``index``, in the lanes of ``mask`` if given; see Generator.store."""
    b = g.builder
    dtype = array.shape.dtype
    type_, factor = unit(dtype)
    size = size_of(type_)
    pointer, lane = g.address(array, index)
    if not lane.is_uniform and lanes(element) == 1:
        element = (
            Complex(*(g.splat(v, lane.lanes) for v in element))
            if isinstance(element, Complex)
            else g.splat(element, lane.lanes)
        )
    parts = [conversion.to_memory(g, v, dtype) for v in (element if factor == 2 else (element,))]  # type: ignore[arg-type]
    if lane.is_uniform:
        for n, part in enumerate(parts):
            b.store(part, b.gep(type_, pointer, i64(n)), size)
    elif lane.vector is None and lane.stride == factor:
        value = parts[0]
        count = 0
        if mask is not None and (factor == 1 or not g.target.masks_stores):
            count = factor * first_lanes(array.shape, mask, g.target.masks_stores)
        if factor == 2:
            value = _interleave(g, parts[0], parts[1])  # type: ignore[assignment]
            mask = _interleave(g, mask, mask)
        if mask is None:
            width = size * llvm_ir.lanes_of(value.type)
            if streaming and width == g.target.vector_bytes and is_aligned(array, index, width):
                b.store(value, pointer, width, nontemporal=True)
                g.streamed = True
                return
            b.store(value, pointer, size)
        elif count:
            _store_pieces(g, type_, value, pointer, count)
        else:
            b.masked_store(value, pointer, size, mask)
    else:
        count = lane.lanes
        offsets = lane.vector or b.lane_offsets(count, lane.stride)
        for n, part in enumerate(parts):
            addresses = b.gep(type_, b.gep(type_, pointer, i64(n)), offsets)
            b.scatter(part, addresses, size, mask)


def is_aligned(array: Array, index: Index, width: int) -> bool:
    """Whether an element's address is known to be a multiple of ``width`` bytes (arrays start at multiples of 64)."""
    stride, multiple = array.shape.bytes, 0
    for c, dim in zip(index, array.shape.dims, strict=True):
        stride //= max(dim, 1)
        if c.vector is not None:
            return False
        if dim != 1:
            multiple = math.gcd(multiple, c.multiple * stride)
    return 0 < width <= 64 and multiple % width == 0


def _interleave(g: Generator, a: Value | None, b: Value | None) -> Value | None:
    """a0 b0 a1 b1 ..."""
    if a is None or b is None:
        return None
    count = llvm_ir.lanes_of(a.type)
    return g.builder.shuffle(a, b, [n // 2 + (n % 2) * count for n in range(2 * count)])


def size_of(type_: str) -> int:
    """Bytes of a scalar LLVM type in memory."""
    return {"float": 4, "double": 8}.get(type_) or int(type_[1:]) // 8
