"""Ops that find elements by indices that the program computes: gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..codegen.elements import elemental
from ..formats import hlo_records
from ..formats.hlo_proto import Field
from ..formats.wire_format import integer, integers, message
from ..importer import hlo_instructions, ops_data
from ..ir.cost import elements_of_operands
from ..ir.hlo import AnyShape, Instruction, Shape
from ..ir.registry import ANY, WORTH, Array, Price, both, register
from ..ir.shape_rules import (
    arrays_of,
    check_distinct,
    check_signature,
    check_slice_sizes,
    one_or_tuple,
    require,
)
from ..reference.evaluate import evaluate_elementwise
from .kernels import kernel


def _batching(
    operand: Shape, operand_dims: Sequence[int], indices: Shape, indices_dims: Sequence[int]
) -> None:
    """Batching dimensions of a gather or scatter: those of the operand and of the indices belong together."""
    check_distinct(operand_dims, operand.rank, "the operand's batching dimensions")
    check_distinct(indices_dims, indices.rank, "the indices' batching dimensions")
    sizes = [operand.dims[d] for d in operand_dims], [indices.dims[d] for d in indices_dims]
    require(sizes[0] == sizes[1], f"batching dimensions have sizes {sizes[0]} and {sizes[1]}")


def _index_map(
    dimensions: Sequence[int], name: str, numbers: Any, indices: Shape, operand: Shape
) -> None:
    """``dimensions``: those of the operand that the components of an index are about."""
    along = numbers.index_vector_dim
    size = 1 if along == indices.rank else indices.dims[along]
    require(size == len(dimensions), f"{name} does not match the indices")
    check_distinct(dimensions, operand.rank, name)


def _gather_shape(instruction: Instruction) -> Shape:
    operand, indices = arrays_of(instruction)
    numbers = instruction.attributes["dimension_numbers"]
    sizes = instruction.attributes["slice_sizes"]
    require(indices.dtype.is_integer, "indices are not integers")
    check_slice_sizes(sizes, operand)
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    require(all(sizes[d] <= 1 for d in dropped), "a dropped slice dimension is larger than 1")
    window = [s for d, s in enumerate(sizes) if d not in dropped]
    require(len(window) == len(numbers.offset_dims), "offset dimensions do not match the slice")
    batch = [s for d, s in enumerate(indices.dims) if d != numbers.index_vector_dim]
    _index_map(numbers.start_index_map, "start_index_map", numbers, indices, operand)
    _batching(operand, numbers.operand_batching_dims, indices, numbers.start_indices_batching_dims)
    rank = len(window) + len(batch)
    check_distinct(numbers.offset_dims, rank, "offset_dims")
    window_iterator, batch_iterator = iter(window), iter(batch)
    offsets = set(numbers.offset_dims)
    return operand.with_dims(
        next(window_iterator if d in offsets else batch_iterator) for d in range(rank)
    )


def _scatter_shape(instruction: Instruction) -> AnyShape:
    shapes = arrays_of(instruction)
    require(len(shapes) % 2 == 1 and len(shapes) >= 3, f"{len(shapes)} operands")
    count = len(shapes) // 2
    operands, indices, updates = shapes[:count], shapes[count], shapes[count + 1 :]
    numbers = instruction.attributes["dimension_numbers"]
    require(indices.dtype.is_integer, "indices are not integers")
    batch = [s for d, s in enumerate(indices.dims) if d != numbers.index_vector_dim]
    places = numbers.scatter_dims_to_operand_dims
    _index_map(places, "scatter_dims_to_operand_dims", numbers, indices, operands[0])
    _batching(
        operands[0],
        numbers.input_batching_dims,
        indices,
        numbers.scatter_indices_batching_dims,
    )
    dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    for operand, update in zip(operands, updates, strict=True):
        require(
            operand.dims == operands[0].dims and update.dims == updates[0].dims,
            "the operands' shapes differ",
        )
        require(operand.dtype is update.dtype, "operand and updates differ in dtype")
        window = [s for d, s in enumerate(operand.dims) if d not in dropped]
        require(
            len(window) == len(numbers.update_window_dims),
            "update_window_dims do not match the operand",
        )
        in_window = set(numbers.update_window_dims)
        update_batch = [s for d, s in enumerate(update.dims) if d not in in_window]
        require(update_batch == batch, "the updates' batch dimensions differ from the indices'")
        update_window = [update.dims[d] for d in numbers.update_window_dims]
        require(
            all(u <= w for u, w in zip(update_window, window, strict=True)),
            "updates are larger than the operand",
        )
    scalars = [Shape(o.dtype) for o in operands]
    check_signature(instruction.called[0], [*scalars, *scalars], scalars, "the body")
    return one_or_tuple(operands)


def _gather_value(i: Instruction, operand: Array, indices: Array) -> list[Array]:
    d = i.attributes["dimension_numbers"]
    sizes = i.attributes["slice_sizes"]
    if 0 in sizes:  # the slices have no elements, though the result may have some
        return [np.zeros(i.dims, i.dtype.numpy)]
    result = np.empty(i.dims, i.dtype.numpy)
    batch_positions = [n for n in range(len(i.dims)) if n not in d.offset_dims]
    kept = [
        n
        for n in range(operand.ndim)
        if n not in d.collapsed_slice_dims and n not in d.operand_batching_dims
    ]
    batch_dims = [i.dims[n] for n in batch_positions]
    for batch in np.ndindex(*batch_dims):
        start = [0] * operand.ndim
        for component, dimension in enumerate(d.start_index_map):
            start[dimension] = int(
                indices[_with(batch, d.index_vector_dim, component, indices.ndim)]
            )
        start = [max(0, min(s, n - z)) for s, n, z in zip(start, operand.shape, sizes, strict=True)]
        for dimension, source in zip(
            d.operand_batching_dims, d.start_indices_batching_dims, strict=True
        ):
            start[dimension] = batch[source - (source > d.index_vector_dim)]
        piece = operand[tuple(slice(s, s + z) for s, z in zip(start, sizes, strict=True))]
        piece = piece.reshape([sizes[n] for n in kept])
        place: list[Any] = [slice(None)] * len(i.dims)
        for position, index in zip(batch_positions, batch, strict=True):
            place[position] = index
        result[tuple(place)] = piece
    return [result]


def _with(
    batch: tuple[int, ...], index_vector_dim: int, component: int, rank: int
) -> tuple[int, ...]:
    """The position of an index component: ``batch`` with ``component`` put at ``index_vector_dim``."""
    if index_vector_dim == rank:
        return batch
    return (*batch[:index_vector_dim], component, *batch[index_vector_dim:])


def _scatter_value(i: Instruction, *operands: Array) -> list[Array]:
    count = (len(operands) - 1) // 2
    results = [o.reshape(-1).copy() for o in operands[:count]]
    updates = operands[count + 1 :]
    sources, places = _scatter_places(i, operands[0].shape, operands[count], updates[0].shape)
    # Updates of one element come one after another, those of several at once: first each element's first one.
    by_place = np.argsort(places, kind="stable")
    begins = np.flatnonzero(np.diff(places[by_place], prepend=-1))
    lengths = np.diff(begins, append=len(places))
    turn = np.arange(len(places)) - np.repeat(begins, lengths)
    by_turn = by_place[np.argsort(turn, kind="stable")]
    for now in np.split(by_turn, np.cumsum(np.bincount(turn)))[:-1]:
        at = places[now]
        given = [r[at] for r in results] + [u.reshape(-1)[sources[now]] for u in updates]
        for r, value in zip(results, evaluate_elementwise(i.called[0], given), strict=True):
            r[at] = value
    return [r.reshape(operands[0].shape) for r in results]


def _scatter_places(
    i: Instruction, shape: tuple[int, ...], indices: Array, update_dims: tuple[int, ...]
) -> tuple[Array, Array]:
    """The elements of the updates that a scatter makes, one index after another, and the elements that they change.

    Both are numbers of elements in row-major order.
    """
    d = i.attributes["dimension_numbers"]
    window = d.update_window_dims
    batch = [n for n in range(len(update_dims)) if n not in window]
    given_up = (*d.inserted_window_dims, *d.input_batching_dims)
    kept = [n for n in range(len(shape)) if n not in given_up]
    order = [*batch, *window]
    at = np.indices([update_dims[n] for n in order]).reshape(len(order), math.prod(update_dims))
    source = dict(zip(order, at, strict=True))
    number = tuple(at[: len(batch)])
    place = [np.zeros(at.shape[1], np.int64) for _ in shape]
    for component, dimension in enumerate(d.scatter_dims_to_operand_dims):
        where = _with(number, d.index_vector_dim, component, indices.ndim)
        place[dimension] = np.broadcast_to(indices[where], at.shape[1]).astype(np.int64)
    for dimension, n in zip(d.input_batching_dims, d.scatter_indices_batching_dims, strict=True):
        place[dimension] = number[n - (n > d.index_vector_dim)].astype(np.int64)
    sizes = dict(zip(kept, (update_dims[n] for n in window), strict=True))
    # As XLA has it, an update whose window does not fit is left out whole.
    fits = np.ones(at.shape[1], np.bool_)
    for n, start in enumerate(place):
        fits &= (start >= 0) & (start <= shape[n] - sizes.get(n, 1))
    for dimension, n in zip(kept, window, strict=True):
        place[dimension] = place[dimension] + source[n]

    def numbers(places: Sequence[Array], dims: tuple[int, ...]) -> Array:
        flat = np.zeros(at.shape[1], np.int64)
        for p, size in zip(places, dims, strict=True):
            flat = flat * size + p
        return flat[fits]

    elements = [source[n] for n in range(len(update_dims))]
    return numbers(elements, update_dims), numbers(place, shape)


def _gather_fields(i: Instruction) -> bytes:
    body = hlo_records.GATHER.write(i.attributes["dimension_numbers"])
    return (
        message(Field.GATHER_DIMENSION_NUMBERS, body)
        + integers(Field.GATHER_SLICE_SIZES, i.attributes["slice_sizes"])
        + integer(Field.INDICES_ARE_SORTED, int(i.attributes["indices_are_sorted"]))
    )


def _scatter_fields(i: Instruction) -> bytes:
    body = hlo_records.SCATTER.write(i.attributes["dimension_numbers"])
    return (
        message(Field.SCATTER_DIMENSION_NUMBERS, body)
        + integer(Field.INDICES_ARE_SORTED, int(i.attributes["indices_are_sorted"]))
        + integer(Field.UNIQUE_INDICES, int(i.attributes["unique_indices"]))
    )


register(  # operand, indices. dimension_numbers: GatherDimensionNumbers
    "gather",
    operands=2,
    attributes=("dimension_numbers", "slice_sizes", "indices_are_sorted"),
    shape=_gather_shape,
    evaluate=_gather_value,
    elements=elemental.of_gather,
    from_hlo=hlo_instructions.gather,
    read=both(
        gather=ops_data.read_gather,
        dynamic_gather=ops_data.read_dynamic_gather,
        torch_index_select=ops_data.read_torch_index_select,
    ),
    fields=_gather_fields,
    price=Price(2.0, 8.0),
    moves=True,
    hoisting=WORTH,
)
register(  # operands..., indices, updates...; dimension_numbers: ScatterDimensionNumbers; body(lhs..., rhs...)
    "scatter",
    operands=ANY,
    attributes=("dimension_numbers", "indices_are_sorted", "unique_indices"),
    called=1,
    shape=_scatter_shape,
    evaluate=_scatter_value,
    kernel=kernel("scatter"),
    from_hlo=hlo_instructions.scatter,
    read=both(scatter=ops_data.read_scatter),
    fields=_scatter_fields,
    flops=elements_of_operands,
    counts_bodies=True,
)
