"""Ops that put elements in order: sort and topk."""

from __future__ import annotations

import functools

import numpy as np

from ..formats.hlo_proto import Field, dimension_field
from ..formats.wire_format import integer
from ..importer import hlo_instructions, ops_reduction
from ..ir import dtypes
from ..ir.hlo import AnyShape, Instruction, Shape, TupleShape
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
    body = i.called[0]
    moved = [np.moveaxis(o, axis, -1) for o in operands]
    results = [np.empty(m.shape, m.dtype) for m in moved]

    for line in np.ndindex(*moved[0].shape[:-1]):
        rows = [m[line] for m in moved]

        def order(a: int, b: int, rows: list[Array] = rows) -> int:
            def less(x: int, y: int) -> bool:
                pairs = [np.asarray(v) for r in rows for v in (r[x], r[y])]
                return bool(evaluate_elementwise(body, pairs)[0])

            return -1 if less(a, b) else 1 if less(b, a) else 0

        permutation = sorted(range(rows[0].shape[0]), key=functools.cmp_to_key(order))
        for result, row in zip(results, rows, strict=True):
            result[line] = row[permutation]
    return [np.moveaxis(r, -1, axis) for r in results]


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
