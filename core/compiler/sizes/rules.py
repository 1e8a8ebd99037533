"""What each instruction does with arrays whose sizes depend on values (see :mod:`.resolve`).

A rule gets the scope, the old instruction and its new operands, some of which have sizes. It adds the new instruction,
notes the sizes of its results, and gives these. Where the old instruction would let elements that are not there into
elements that are, the rule masks them first. :mod:`.table` says which rule an op has;
a program is refused if it needs one of an op that has none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import dtypes
from ..ir.hlo import (
    Computation,
    Instruction,
    Shape,
    TupleShape,
    constant,
    get_tuple_element,
    parameter,
)
from ..ir.patterns import identity_value
from .resolve import NONE, Scope, Sizes, same

# ------------------------------------------------------------------------------------------------ building blocks


def _unified(
    scope: Scope, arrays: Sequence[Instruction], dimensions: Sequence[int]
) -> dict[int, Instruction]:
    """The sizes of some dimensions of arrays of one shape."""
    sizes = {}
    for d in dimensions:
        size = scope.unify([(a, d) for a in arrays])
        if size is not None:
            sizes[d] = size
    return sizes


def _renumbered(sizes: Sizes, kept: Sequence[int]) -> dict[int, Instruction]:
    """Sizes of an array that has the dimensions ``kept`` of another one, in this order."""
    return {n: sizes[d] for n, d in enumerate(kept) if d in sizes}


def _but(rank: int, *groups: Sequence[int]) -> list[int]:
    taken = {d for group in groups for d in group}
    return [d for d in range(rank) if d not in taken]


def clamp(scope: Scope, value: Instruction, low: int, high: Instruction | int) -> Instruction:
    """An s32 scalar within [low, high]; low if there is nothing between."""
    limit = scope.number(high) if isinstance(high, int) else high
    return scope.op("maximum", scope.op("minimum", value, limit), scope.number(low))


def _plus(scope: Scope, value: Instruction, addend: int) -> Instruction:
    return scope.op("add", value, scope.number(addend)) if addend else value


# ---------------------------------------------------------------------------------------------------- elementwise


def of_elementwise(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    arrays = [o for o in operands if len(o.dims) == len(old.dims)]
    return same(scope, old, operands, _unified(scope, arrays, range(len(old.dims))))


def of_bitcast_convert(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    sizes = scope.sizes.get(operands[0], NONE)
    if len(old.dims) < len(operands[0].dims) and len(operands[0].dims) - 1 in sizes:
        raise scope.refuse(old, "the type's width changes along a size that depends on values")
    return same(scope, old, operands, sizes)


def of_barrier(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    results = same(scope, old, operands)
    for operand, result in zip(operands, results, strict=True):
        scope.has(result, scope.sizes.get(operand, NONE))
    return results


# -------------------------------------------------------------------------------------------------- data movement


def of_broadcast(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    dimensions = old.attributes["dimensions"]
    sizes = {dimensions[d]: size for d, size in scope.sizes[operands[0]].items()}
    results = same(scope, old, operands, sizes)
    scope.boundless[results[0]] = frozenset(_but(len(old.dims), dimensions))
    return results


def of_transpose(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    sizes = _renumbered(scope.sizes[operands[0]], old.attributes["dimensions"])
    return same(scope, old, operands, sizes)


def of_slice(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    sizes = {}
    for d, size in scope.sizes[operands[0]].items():
        start, stride = old.attributes["starts"][d], old.attributes["strides"][d]
        # Of the elements that are there: ceil((size - start) / stride), as many as the bound's slice has at most.
        left = _plus(scope, size, stride - 1 - start)
        if stride > 1:
            left = scope.op("divide", left, scope.number(stride))
        sizes[d] = (
            size if old.dims[d] == operands[0].dims[d] else clamp(scope, left, 0, old.dims[d])
        )
    return same(scope, old, operands, sizes)


def of_pad(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    """The padding value stands where elements are missing, so that it also follows the elements that exist."""
    x, filler = operands
    sizes = {}
    for d, size in scope.sizes[x].items():
        low, high, interior = (old.attributes[n][d] for n in ("low", "high", "interior"))
        new = size
        if interior:
            between = clamp(scope, _plus(scope, size, -1), 0, x.dims[d])
            new = scope.op("add", size, scope.op("multiply", between, scope.number(interior)))
        sizes[d] = (
            new
            if low == high == interior == 0
            else clamp(scope, _plus(scope, new, low + high), 0, old.dims[d])
        )
    return same(scope, old, (scope.masked(x, scope.sizes[x], filler), filler), sizes)


def of_concatenate(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """One after the other, each over what follows the end of the one before."""
    along = old.attributes["dimension"]
    sizes = _unified(scope, operands, _but(len(old.dims), [along]))
    if not any(along in scope.sizes.get(o, NONE) for o in operands):
        return same(scope, old, operands, sizes)
    zero = scope.number(0)
    whole = scope.broadcast(scope.zero(old.dtype), old.dims)
    offset = zero
    for operand in operands:
        starts = [offset if d == along else zero for d in range(len(old.dims))]
        whole = scope.add(
            Instruction("dynamic-update-slice", old.shape, (whole, operand, *starts), {})
        )
        offset = scope.op("add", offset, scope.size(operand, along))
    sizes[along] = offset
    return [scope.has(whole, sizes)]


def of_reverse(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Reversed, the elements that are not there come first: they are cut away."""
    sizes = scope.sizes[operands[0]]
    (new,) = same(scope, old, operands)
    moved = [d for d in old.attributes["dimensions"] if d in sizes]
    if moved:
        high = tuple(b if d in moved else 0 for d, b in enumerate(old.dims))
        none = (0,) * len(high)
        longer = Shape(old.dtype, tuple(b + h for b, h in zip(old.dims, high, strict=True)))
        padding = {"low": none, "high": high, "interior": none}
        padded = scope.add(Instruction("pad", longer, (new, scope.zero(old.dtype)), padding))
        starts = [
            scope.op("subtract", scope.number(b), sizes[d]) if d in moved else scope.number(0)
            for d, b in enumerate(old.dims)
        ]
        new = scope.add(
            Instruction("dynamic-slice", old.shape, (padded, *starts), {"slice_sizes": old.dims})
        )
    return [scope.has(new, sizes)]


def _starts(
    scope: Scope, x: Instruction, extents: Sequence[int], starts: Sequence[Instruction]
) -> list[Instruction]:
    """Start indices within the array that is there; HLO clamps them to its bounds alone.

    One that is too large or negative is an error all the same: frameworks make it of a size and an index that the user
    wrote, and clamped it would be some other slice.
    """
    new = []
    for d, (extent, start) in enumerate(zip(extents, _wide(scope, starts), strict=True)):
        size = scope.sizes.get(x, NONE).get(d)
        if size is not None and extent < x.dims[d]:
            last = scope.op("subtract", size, scope.number(extent))
            enough = scope.compare("GE", last, scope.number(0))
            if start.dtype is not dtypes.S32:
                last = scope.add(Instruction("convert", Shape(start.dtype), (last,)))
            kind = "SIGNED" if start.dtype.is_signed else "UNSIGNED"
            inside = scope.compare("LE", start, last, kind)
            if start.dtype.is_signed:
                inside = scope.op(
                    "and", inside, scope.compare("GE", start, scope.zero(start.dtype))
                )
            scope.check(
                scope.op("and", enough, inside),
                "more is read or written than an array has whose size depends on values",
            )
            start = scope.op("minimum", start, last)
        new.append(start)
    return new


def _wide(scope: Scope, indices: Sequence[Instruction]) -> list[Instruction]:
    """Indices, of one type, in one that has every size."""
    if indices and indices[0].dtype.bits >= 32:
        return list(indices)
    return [
        scope.has(
            scope.add(Instruction("convert", Shape(dtypes.S32, i.dims), (i,))),
            scope.sizes.get(i, NONE),
        )
        for i in indices
    ]


def of_dynamic_slice(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    x, *starts = operands
    extents = old.attributes["slice_sizes"]
    sizes = {d: n for d, n in scope.sizes.get(x, NONE).items() if extents[d] == x.dims[d]}
    return same(scope, old, (x, *_starts(scope, x, extents, starts)), sizes)


def of_dynamic_update_slice(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    x, update, *starts = operands
    whole = [d for d in range(len(x.dims)) if x.dims[d] == update.dims[d]]
    if any(d not in whole for d in scope.sizes.get(update, NONE)):
        raise scope.refuse(old, "the update has a size that depends on values")
    sizes = dict(scope.sizes.get(x, NONE))
    sizes.update({d: n for d in whole if (n := scope.unify([(x, d), (update, d)])) is not None})
    return same(scope, old, (x, update, *_starts(scope, x, update.dims, starts)), sizes)


def of_gather(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    x, indices = operands
    numbers, extents = old.attributes["dimension_numbers"], old.attributes["slice_sizes"]
    sizes = {}
    # Result dimensions: those of the indices but the vector's, in the places that are no offsets.
    batch = _but(len(old.dims), numbers.offset_dims)
    kept = _but(len(indices.dims), [numbers.index_vector_dim])
    of_indices = scope.sizes.get(indices, NONE)
    if numbers.index_vector_dim in of_indices:
        raise scope.refuse(old, "the indices' number of coordinates depends on values")
    for place, d in zip(batch, kept, strict=True):
        if d in of_indices:
            sizes[place] = of_indices[d]
    window = _but(len(x.dims), numbers.collapsed_slice_dims, numbers.operand_batching_dims)
    limits = {}
    for d, size in scope.sizes.get(x, NONE).items():
        if d in window and extents[d] == x.dims[d]:
            sizes[numbers.offset_dims[window.index(d)]] = size
        elif d in numbers.operand_batching_dims:
            twin = numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(d)]
            scope.unify([(x, d), (indices, twin)])
        elif d in numbers.start_index_map:
            limits[numbers.start_index_map.index(d)] = _plus(scope, size, -extents[d])
        else:
            raise scope.refuse(old, "slices are taken of a size that depends on values")
    for limit in limits.values():
        _check_not_empty(scope, indices, limit)
    for coordinate, limit in limits.items():
        indices = _limited(scope, indices, numbers.index_vector_dim, coordinate, limit)
    return same(scope, old, (x, indices), sizes)


def _check_not_empty(scope: Scope, indices: Instruction, limit: Instruction) -> None:
    """Indices beyond the end are moved to it, as HLO says; but not where there is no element to move to."""
    there = scope.compare("GE", limit, scope.number(0))
    if 0 in indices.dims:
        return
    none = [
        scope.compare("EQ", size, scope.number(0))
        for size in scope.sizes.get(indices, NONE).values()
    ]
    for no_index in none:
        there = scope.op("or", there, no_index)
    scope.check(there, "an element is taken of an array that has none")


def _limited(
    scope: Scope, indices: Instruction, vector: int, coordinate: int, limit: Instruction
) -> Instruction:
    """``indices`` with one coordinate at most ``limit``, as HLO clamps it for an array of a known size."""
    (indices,) = _wide(scope, [indices])
    if limit.dtype is not indices.dtype:
        limit = scope.add(Instruction("convert", Shape(indices.dtype), (limit,)))
    least = scope.op("minimum", indices, scope.broadcast(limit, indices.dims))
    if vector < len(indices.dims) and indices.dims[vector] > 1:
        shape = Shape(dtypes.S32, indices.dims)
        number = scope.add(Instruction("iota", shape, (), {"dimension": vector}))
        is_it = scope.compare("EQ", number, scope.broadcast(scope.number(coordinate), indices.dims))
        least = scope.op("select", is_it, least, indices)
    if indices in scope.sizes:
        scope.sizes[least] = scope.sizes[indices]
    return least


def of_scatter(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Updates that are not there go to an index that does not exist, where HLO drops them."""
    count = (len(operands) - 1) // 2
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    numbers = old.attributes["dimension_numbers"]
    vector = numbers.index_vector_dim
    if vector in scope.sizes.get(indices, NONE):
        raise scope.refuse(old, "the indices' number of coordinates depends on values")
    kept = _but(len(indices.dims), [vector])
    places = _but(len(updates[0].dims), numbers.update_window_dims)
    sizes = {}
    for place, d in zip(places, kept, strict=True):
        size = scope.unify([(indices, d), *((u, place) for u in updates)])
        if size is not None:
            sizes[d] = size
    window = _but(len(arrays[0].dims), numbers.inserted_window_dims, numbers.input_batching_dims)
    for u in updates:
        for place in scope.sizes.get(u, NONE):
            if place in places:
                continue
            d = window[numbers.update_window_dims.index(place)]
            if u.dims[place] != arrays[0].dims[d]:
                raise scope.refuse(old, "the updates' windows have a size that depends on values")
            scope.unify([(u, place), *((a, d) for a in arrays)])
    if sizes:
        (indices,) = _wide(scope, [indices])
        signed = indices.dtype.is_signed
        nowhere = -1 if signed else np.iinfo(indices.dtype.numpy).max
        filler = scope.add(constant(nowhere, indices.dtype))
        indices = scope.masked(indices, sizes, filler)
    results = same(scope, _unsorted(old) if sizes else old, (*arrays, indices, *updates))
    for array, result in zip(arrays, results, strict=True):
        scope.has(result, scope.sizes.get(array, NONE))
    return results


def _unsorted(old: Instruction) -> Instruction:
    """A scatter of which nothing is known about the order of its indices."""
    attributes = {**old.attributes, "indices_are_sorted": False, "unique_indices": False}
    return old.replace(attributes=attributes)


# ----------------------------------------------------------------------------------------------------- reductions


def of_reduce(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    """Initial values, which a reduction may take any number of times, stand for what is not there."""
    count = len(operands) // 2
    arrays, initial = operands[:count], operands[count:]
    reduced = old.attributes["dimensions"]
    rank = len(arrays[0].dims)
    sizes = _unified(scope, arrays, range(rank))
    hidden = {d: n for d, n in sizes.items() if d in reduced}
    masked = [scope.masked(a, hidden, i) for a, i in zip(arrays, initial, strict=True)]
    return same(scope, old, (*masked, *initial), _renumbered(sizes, _but(rank, reduced)))


def of_reduce_window(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    count = len(operands) // 2
    arrays, initial = operands[:count], operands[count:]
    sizes = _unified(scope, arrays, range(len(arrays[0].dims)))
    new, hidden = {}, {}
    for d, size in sizes.items():
        w = old.attributes["window"][d]
        if (w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation) == (1, 1, 0, 0, 1):
            new[d] = size
            continue
        # With a stride, how much is padded depends on the size in most programs, which the window does not tell.
        padded = w.padding_low != 0 or w.padding_high != 0
        if w.base_dilation != 1 or (w.stride != 1 and padded):
            raise scope.refuse(old, "windows with a stride go over a size that depends on values")
        hidden[d] = size
        extent = (w.size - 1) * w.window_dilation + 1
        left = _plus(scope, size, w.padding_low + w.padding_high - extent + w.stride)
        if w.stride != 1:
            left = scope.op("divide", left, scope.number(w.stride))
        new[d] = clamp(scope, left, 0, old.result_shapes[0].dims[d])  # type: ignore[union-attr]
    masked = [scope.masked(a, hidden, i) for a, i in zip(arrays, initial, strict=True)]
    return same(scope, old, (*masked, *initial), new)


def of_sort(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    """Missing elements go to the end: whether an element exists is compared first."""
    along = old.attributes["dimension"]
    sizes = _unified(scope, operands, range(len(operands[0].dims)))
    if along not in sizes:
        return same(scope, old, operands, sizes)
    there = scope.mask(operands[0].dims, {along: sizes[along]})
    shapes = (*(o.shape for o in operands), there.shape)
    new = scope.add(
        Instruction(
            "sort",
            TupleShape(shapes),  # type: ignore[arg-type]
            (*operands, there),
            old.attributes,
            (_with_existence(old.called[0]),),
        )
    )
    return [scope.has(scope.add(get_tuple_element(new, n)), sizes) for n in range(len(operands))]


def of_topk(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    """Positions past the size get the least value; among equal values topk takes the first, a real element."""
    (x,) = operands
    sizes = dict(scope.sizes[x])
    last = len(x.dims) - 1
    if last in sizes:
        least = identity_value("maximum", x)
        if not old.attributes["largest"] or least is None:
            raise scope.refuse(
                old, "the least elements are sought along a size that depends on values"
            )
        filler = scope.add(constant(least, x.dtype))
        x = scope.masked(x, {last: sizes[last]}, filler)
        sizes[last] = clamp(scope, sizes[last], 0, old.attributes["k"])
    return same(scope, old, (x,), sizes)


def _with_existence(comparator: Computation) -> Computation:
    """A comparator with two more parameters: of elements, one of which is not there, that one comes last."""
    inner = Scope()
    (less,) = inner.read(comparator, [frozenset()] * len(comparator.parameters))
    count = len(comparator.parameters)
    truth = Shape(dtypes.PRED)
    a, b = (inner.add(parameter(count + n, truth)) for n in range(2))
    result = inner.op("select", inner.op("xor", a, b), a, less)
    return inner.computation(comparator.name, [result])


# --------------------------------------------------------------------------------------------------- contractions


def of_dot(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    lhs, rhs = operands
    n = old.attributes["dimension_numbers"]
    sizes = {}
    for result, (a, b) in enumerate(zip(n.lhs_batch, n.rhs_batch, strict=True)):
        size = scope.unify([(lhs, a), (rhs, b)])
        if size is not None:
            sizes[result] = size
    place = len(n.lhs_batch)
    new = []
    for x, batch, contracting in (
        (lhs, n.lhs_batch, n.lhs_contracting),
        (rhs, n.rhs_batch, n.rhs_contracting),
    ):
        for d in _but(len(x.dims), batch, contracting):
            if d in scope.sizes.get(x, NONE):
                sizes[place] = scope.sizes[x][d]
            place += 1
    hidden: tuple[dict[int, Instruction], ...] = ({}, {})
    for a, b in zip(n.lhs_contracting, n.rhs_contracting, strict=True):
        size = scope.unify([(lhs, a), (rhs, b)])
        if size is not None:
            hidden[0][a] = hidden[1][b] = size
    for x, missing in zip(operands, hidden, strict=True):
        new.append(scope.masked(x, missing, scope.zero(x.dtype)) if missing else x)
    return same(scope, old, new, sizes)


def of_convolution(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Batches and features of any size; what is convolved over has a known one."""
    x, kernel = operands
    n = old.attributes["dimension_numbers"]
    groups = old.attributes["feature_group_count"], old.attributes["batch_group_count"]
    if (
        any(d in scope.sizes.get(x, NONE) for d in n.input_spatial)
        or any(d in scope.sizes.get(kernel, NONE) for d in n.kernel_spatial)
        or groups != (1, 1)
    ):
        raise scope.refuse(old, "a convolution goes over a size that depends on values")
    sizes = {}
    for source, d, result in (
        (x, n.input_batch, n.output_batch),
        (kernel, n.kernel_output_feature, n.output_feature),
    ):
        if d in scope.sizes.get(source, NONE):
            sizes[result] = scope.sizes[source][d]
    features = [(x, n.input_feature), (kernel, n.kernel_input_feature)]
    size = scope.unify(features)
    new = [
        s if size is None else scope.masked(s, {d: size}, scope.zero(s.dtype)) for s, d in features
    ]
    return same(scope, old, new, sizes)


def of_matrices(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Any number of matrices, or of signals, of a known size each."""
    rank = len(old.dims)
    inner = len(old.attributes["fft_length"]) if old.opcode == "fft" else 2
    for o in operands:
        for d in scope.sizes.get(o, NONE):
            if d >= len(o.dims) - inner:
                raise scope.refuse(old, "a matrix or signal has a size that depends on values")
    return same(scope, old, operands, _unified(scope, operands, range(rank - inner)))


# ---------------------------------------------------------------------------------------------------------- sizes


def of_get_dimension_size(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    return [scope.size(operands[0], old.attributes["dimension"])]


def of_set_dimension_size(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """The smaller of the size and the one before: no program makes elements by saying that there are more.

    TensorFlow's bridge makes an array static in this way, by its bound, and then gives it its size again. It computes
    -1 for ``x[:-1]`` where x has no elements: as many as 0.
    """
    x, size = operands
    d = old.attributes["dimension"]
    sizes = dict(scope.sizes.get(x, NONE))
    before = sizes.get(d)
    whole = size.opcode == "constant" and int(size.attributes["literal"]) >= x.dims[d]
    if not whole:
        if size.opcode != "constant" or int(size.attributes["literal"]) < 0:
            size = scope.op("maximum", size, scope.number(0))
        smaller = before is not None and size is not before
        sizes[d] = scope.op("minimum", size, before) if smaller else size  # type: ignore[arg-type]
    # Another instruction, because the operand keeps its own sizes.
    copy = scope.add(Instruction("copy", x.shape, (x,)))
    if d not in sizes and d in scope.boundless.get(x, frozenset()):
        scope.boundless[copy] = scope.boundless[x]
    return [scope.has(copy, sizes)]
