"""A product with one of its dimensions as several: what a reshape before or behind it would do, done by the product."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.hlo import DotDimensionNumbers, Instruction, Shape
from ...ir.patterns import reshape, reshape_groups, squeezed


def without_transposes(dot: Instruction) -> Instruction:
    """``dot`` of the arrays that its operands are transposes of, where its result has the same order nevertheless."""
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    operands, sides = list(dot.operands), list(numbers.sides)
    for side, (batch, contracting) in enumerate(numbers.sides):
        operand = operands[side]
        if operand.opcode != "transpose":
            continue
        order = operand.attributes["dimensions"]
        free = [order[d] for d in range(len(order)) if d not in (*batch, *contracting)]
        if free != sorted(free):
            continue
        operands[side] = operand.operands[0]
        sides[side] = tuple(order[d] for d in batch), tuple(order[d] for d in contracting)
    if operands == list(dot.operands):
        return dot
    (lhs_batch, lhs_contracting), (rhs_batch, rhs_contracting) = sides
    turned = DotDimensionNumbers(lhs_contracting, rhs_contracting, lhs_batch, rhs_batch)
    return without_transposes(
        dot.derive("dot", operands, {**dot.attributes, "dimension_numbers": turned})
    )


def split_operand(dot: Instruction, side: int) -> Instruction | None:
    """``dot`` with what its operand ``side``, a reshape but for transposes, is made of: one dimension of the operand is
    several. None if it is otherwise.
    """
    dot = without_transposes(dot)
    given = dot.operands[side]
    if given.opcode != "reshape" or squeezed(given.dims) == squeezed(given.operands[0].dims):
        return None
    inner = given.operands[0]
    parts = _parts(inner.dims, given.dims)
    if parts is None:
        return None
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    batch, contracting = numbers.sides[side]
    if any(len(parts[d]) > 1 for d in contracting):
        return None
    other = dot.operands[1 - side]
    theirs = (numbers.rhs_batch, numbers.lhs_batch)[side]
    others: list[tuple[int, ...]] = [(size,) for size in other.dims]
    for ours, place in zip(batch, theirs, strict=True):
        others[place] = parts[ours]
    if side == 0:
        return _split(dot, (parts, others), (inner, None))
    return _split(dot, (others, parts), (None, inner))


def split_result(dot: Instruction, dims: Sequence[int]) -> Instruction | None:
    """``dot`` with a result of ``dims`` but for those of size 1, where each dimension of ``dot`` is one or several."""
    dot = without_transposes(dot)
    parts = _parts(dims, dot.dims)
    if parts is None or 1 in dot.dims:
        return None
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    sides: list[list[tuple[int, ...]]] = []
    free = iter(parts[len(numbers.lhs_batch) :])
    for operand, batch, contracting in (
        (dot.operands[0], numbers.lhs_batch, numbers.lhs_contracting),
        (dot.operands[1], numbers.rhs_batch, numbers.rhs_contracting),
    ):
        sides.append(
            [
                parts[batch.index(d)] if d in batch else (size,) if d in contracting else next(free)
                for d, size in enumerate(operand.dims)
            ]
        )
    return _split(dot, (sides[0], sides[1]), (None, None))


def _parts(dims: Sequence[int], merged: Sequence[int]) -> list[tuple[int, ...]] | None:
    """Which of ``dims`` each dimension of ``merged`` consists of, without those of size 1; None if it is otherwise."""
    result: list[tuple[int, ...]] = []
    for ours, theirs in reshape_groups(dims, merged):
        large = [d for d in theirs if merged[d] != 1]
        if len(large) > 1:
            return None
        sizes = tuple(dims[d] for d in ours if dims[d] != 1)
        result += [sizes if d in large else (1,) for d in theirs]
    return result if len(result) == len(merged) else None


def _split(
    dot: Instruction,
    sides: tuple[list[tuple[int, ...]], list[tuple[int, ...]]],
    operands: tuple[Instruction | None, Instruction | None],
) -> Instruction:
    """``dot`` with each dimension of its operands in parts. ``operands``: those that are there already."""
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    new: list[Instruction] = []
    places: list[list[list[int]]] = []
    for given, parts, operand in zip(operands, sides, dot.operands, strict=True):
        dims = tuple(size for part in parts for size in part)
        source = operand.operands[0] if operand.opcode == "reshape" else operand
        new.append(reshape(source if given is None else given, dims))
        start, places_ = 0, []
        for part in parts:
            places_.append(list(range(start, start + len(part))))
            start += len(part)
        places.append(places_)

    def spread(side: int, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place for d in dimensions for place in places[side][d])

    split = DotDimensionNumbers(
        spread(0, numbers.lhs_contracting),
        spread(1, numbers.rhs_contracting),
        spread(0, numbers.lhs_batch),
        spread(1, numbers.rhs_batch),
    )
    sizes = [new[0].dims[d] for d in split.lhs_batch]
    for side, used in (
        (0, (*split.lhs_batch, *split.lhs_contracting)),
        (1, (*split.rhs_batch, *split.rhs_contracting)),
    ):
        sizes += [size for d, size in enumerate(new[side].dims) if d not in used]
    attributes = {**dot.attributes, "dimension_numbers": split}
    shape = Shape(dot.dtype, tuple(sizes))
    return dot.derive("dot", new, attributes, shape=shape)
