"""Ops that put elements in order: sort and topk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..formats.hlo_proto import Field, dimension_field
from ..formats.wire_format import integer
from ..importer import hlo_instructions, ops_reduction
from ..ir import dtypes
from ..ir.hlo import AnyShape, Computation, Instruction, Shape, TupleShape
from ..ir.printer import dimension_as_list
from ..ir.registry import ANY, NEVER, Array, both, register
from ..ir.shape_rules import (
    array_of,
    arrays_of,
    check_distinct,
    check_signature,
    one_or_tuple,
    require,
    same_dimensions,
)
from ..passes.library import other
from ..passes.library.sort import match_sort
from ..reference.elementwise import native_int, total_order
from ..reference.evaluate import evaluate_elementwise


def _sort_shape(instruction: Instruction) -> AnyShape:
    shapes = arrays_of(instruction)
    same_dimensions(shapes)
    check_distinct([instruction.attributes["dimension"]], shapes[0].rank, "dimension")
    pairs = [Shape(s.dtype) for s in shapes for _ in range(2)]
    check_signature(instruction.called[0], pairs, [Shape(dtypes.PRED)], "the comparator")
    return one_or_tuple(shapes)


def _topk_shape(instruction: Instruction) -> AnyShape:
    operand, k = array_of(instruction), instruction.attributes["k"]
    require(
        operand.rank > 0 and 0 <= k <= operand.dims[-1], f"k = {k} is not within the last dimension"
    )
    dims = (*operand.dims[:-1], k)
    return TupleShape((Shape(operand.dtype, dims), Shape(dtypes.S32, dims)))


def _sort_value(i: Instruction, *operands: Array) -> list[Array]:
    axis = i.attributes["dimension"]
    moved = [np.moveaxis(o, axis, -1) for o in operands]
    dims = moved[0].shape
    if moved[0].size == 0:
        return [o.copy() for o in operands]
    rows = [m.reshape(-1, dims[-1]) for m in moved]
    order = _stable_order(i.called[0], rows)
    results = [np.take_along_axis(r, order, 1).reshape(dims) for r in rows]
    return [np.moveaxis(r, -1, axis) for r in results]


def _stable_order(comparator: Computation, rows: Sequence[Array]) -> Array:
    """For each row of the operands, where its elements stand in order: runs are merged, those of all rows at once.

    A comparator that contradicts itself gives a permutation, too.
    """
    count, length = rows[0].shape
    whole = 1 << max(0, length - 1).bit_length()
    # What is behind a row's end is behind everything.
    order = np.broadcast_to(np.arange(whole), (count, whole))
    width = 1
    while width < whole:
        runs = order.reshape(count, -1, 2, width)
        first, second = runs[:, :, 0], runs[:, :, 1]
        # How many elements of the second run come before each of the first one, by halving.
        before = np.zeros(first.shape, np.int64)
        step = width
        while step:
            tried = before + step
            other = np.take_along_axis(second, np.minimum(tried, width) - 1, 2)
            comes = (tried <= width) & (other < length)
            before = np.where(comes & _is_less(comparator, rows, other, first), tried, before)
            step //= 2
        places = np.arange(width) + np.maximum.accumulate(before, axis=2)
        is_first = np.zeros((*first.shape[:2], 2 * width), np.bool_)
        np.put_along_axis(is_first, places, True, 2)
        merged = np.empty(is_first.shape, order.dtype)
        merged[is_first] = first.reshape(-1)
        merged[~is_first] = second.reshape(-1)
        order = merged.reshape(count, whole)
        width *= 2
    return order[:, :length]


def _is_less(comparator: Computation, rows: Sequence[Array], a: Array, b: Array) -> Array:
    """Whether elements come before others, by their places in their rows."""
    last = rows[0].shape[1] - 1
    x, y = (np.minimum(n, last).reshape(a.shape[0], -1) for n in (a, b))
    pairs = [np.take_along_axis(r, n, 1) for r in rows for n in (x, y)]
    (less,) = evaluate_elementwise(comparator, pairs)
    return np.broadcast_to(np.asarray(less, np.bool_), x.shape).reshape(a.shape)


def _topk_value(i: Instruction, a: Array) -> list[Array]:
    keys = total_order(a) if dtypes.from_numpy(a.dtype).is_float else native_int(a)
    if i.attributes["largest"]:
        keys = ~keys
    order = np.argsort(keys, axis=-1, kind="stable")[..., : i.attributes["k"]]
    return [np.take_along_axis(a, order, -1), order.astype(np.int32)]


def _sort_fields(i: Instruction) -> bytes:
    return dimension_field(i) + integer(Field.IS_STABLE, int(i.attributes["is_stable"]))


def _topk_fields(i: Instruction) -> bytes:
    return integer(Field.K, i.attributes["k"]) + integer(
        Field.LARGEST, int(i.attributes["largest"])
    )


register(  # operands...; body(a0, b0, a1, b1, ...) -> pred
    "sort",
    operands=ANY,
    attributes=("dimension", "is_stable"),
    called=1,
    shape=_sort_shape,
    evaluate=_sort_value,
    library=match_sort,
    from_hlo=hlo_instructions.sort,
    read=both(sort=ops_reduction.read_sort),
    calls={"ApproxTopK": ops_reduction.read_approximate_topk},
    fields=_sort_fields,
    text={"dimension": dimension_as_list},
    counts_bodies=True,
    reads_memory=True,
    folding=NEVER,
)
register(  # along the last dimension -> (values, s32 indices), stable
    "topk",
    operands=1,
    attributes=("k", "largest"),
    shape=_topk_shape,
    evaluate=_topk_value,
    library=other.match_topk,
    read={"chlo.top_k": ops_reduction.read_topk, "mhlo.topk": ops_reduction.read_topk},
    calls=dict.fromkeys(
        ("tripont.top_k", "tripont.topk", "mhlo.topk", "TopK"), ops_reduction.read_topk_call
    ),
    composites={"chlo.top_k": ops_reduction.read_topk_call},
    fields=_topk_fields,
    reads_memory=True,
)
