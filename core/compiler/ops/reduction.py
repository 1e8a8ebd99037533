"""Ops that apply a body on scalars to whole arrays: reduce and map."""

from __future__ import annotations

import math

import numpy as np

from ..codegen.elements import elemental
from ..formats.hlo_proto import dimensions_field
from ..importer import hlo_instructions, ops_reduction
from ..ir.cost import elements_of_operands
from ..ir.hlo import AnyShape, Instruction, Shape
from ..ir.registry import ANY, WORTH, Array, both, register
from ..ir.shape_rules import (
    arrays_of,
    check_distinct,
    check_signature,
    one_or_tuple,
    reduced_operands,
    same_dimensions,
)
from ..passes import decompose
from ..reference.evaluate import evaluate_elementwise, fold
from .kernels import kernel


def _reduce_shape(instruction: Instruction) -> AnyShape:
    arrays, accumulators = reduced_operands(instruction)
    dimensions = instruction.attributes["dimensions"]
    check_distinct(dimensions, arrays[0].rank, "dimensions")
    kept = [s for d, s in enumerate(arrays[0].dims) if d not in dimensions]
    return one_or_tuple([Shape(a.dtype, tuple(kept)) for a in accumulators])


def _map_shape(instruction: Instruction) -> Shape:
    shapes = arrays_of(instruction)
    same_dimensions(shapes)
    result = Shape(instruction.dtype)
    check_signature(instruction.called[0], [Shape(s.dtype) for s in shapes], [result], "the body")
    return Shape(instruction.dtype, shapes[0].dims)


def _reduce_value(i: Instruction, *operands: Array) -> list[Array]:
    count = len(operands) // 2
    reduced = i.attributes["dimensions"]
    kept = [n for n in range(operands[0].ndim) if n not in reduced]
    dims = [operands[0].shape[n] for n in kept]
    lines = [
        np.transpose(o, [*reduced, *kept]).reshape([math.prod(o.shape[n] for n in reduced), *dims])
        for o in operands[:count]
    ]
    results = fold(i.called[0], lines, list(operands[count:]))
    return [np.broadcast_to(r, dims) for r in results]


register(  # operands..., initial values...; body(accumulators..., values...) -> the results
    "reduce",
    operands=ANY,
    attributes=("dimensions",),
    called=1,
    shape=_reduce_shape,
    evaluate=_reduce_value,
    kernel=kernel("reductions"),
    from_hlo=hlo_instructions.reduce,
    read=both(reduce=ops_reduction.read_reduce),
    fields=dimensions_field,
    flops=elements_of_operands,
    counts_bodies=True,
    hoisting=WORTH,
)
register(  # body on scalars, applied elementwise
    "map",
    operands=ANY,
    attributes=("dimensions",),
    called=1,
    shape=_map_shape,
    evaluate=lambda i, *o: evaluate_elementwise(i.called[0], o),
    expand=decompose.inline_map,
    elements=elemental.of_map,
    from_hlo=hlo_instructions.map_,
    read=both(map=ops_reduction.read_map),
    fields=dimensions_field,
    counts_bodies=True,
)
