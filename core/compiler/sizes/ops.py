"""Ops on sizes that depend on values.

The array has its bound's shape, and a dimension's size is a scalar of its own: :mod:`.resolve` resolves
these ops before any other pass. ``dynamic_dimensions``: those of the result that the program says to have such a size.
"""

from __future__ import annotations

from typing import Final

from ..importer import ops_data
from ..ir import dtypes
from ..ir.hlo import AnyShape, Instruction, Shape
from ..ir.registry import ANY, PROTO_REWRITES, Absent, both, register
from ..ir.shape_rules import array_of, arrays_of, require
from ..ops.data import reshape_shape
from . import bounded_shapes, table


def _set_dimension_size_shape(instruction: Instruction) -> AnyShape:
    operand, size = arrays_of(instruction)
    require(size == Shape(dtypes.S32), "the size is not s32[]")
    require(0 <= instruction.attributes["dimension"] < operand.rank, "no such dimension")
    return operand


def _get_dimension_size_shape(instruction: Instruction) -> AnyShape:
    dimension = instruction.attributes["dimension"]
    require(0 <= dimension < array_of(instruction).rank, "no such dimension")
    return Shape(dtypes.S32)


def _dynamic_reshape_shape(instruction: Instruction) -> AnyShape:
    sizes = arrays_of(instruction)[1:]
    require(all(s == Shape(dtypes.S32) for s in sizes), "a size is not s32[]")
    require(len(sizes) in (0, len(instruction.dims)), "not one size for each dimension")
    return reshape_shape(instruction)


_RESOLVED: Final = Absent("the second pass replaces it")

register(  # operand, s32 size
    "set-dimension-size",
    operands=2,
    attributes=("dimension", "dynamic_dimensions"),
    shape=_set_dimension_size_shape,
    evaluate=_RESOLVED,
    code=_RESOLVED,
    read=both(set_dimension_size=ops_data.read_set_dimension_size),
    calls={"tripont.set_dimension_size": bounded_shapes.read_call},
    fields=_RESOLVED,
)
register(  # -> s32
    "get-dimension-size",
    operands=1,
    attributes=("dimension",),
    shape=_get_dimension_size_shape,
    evaluate=_RESOLVED,
    code=_RESOLVED,
    read=both(get_dimension_size=ops_data.read_get_dimension_size),
    calls={"tripont.get_dimension_size": bounded_shapes.read_call},
    fields=_RESOLVED,
)
register(  # operand, s32 sizes... or none
    "dynamic-reshape",
    operands=ANY,
    attributes=("dynamic_dimensions",),
    shape=_dynamic_reshape_shape,
    evaluate=_RESOLVED,
    code=_RESOLVED,
    read=Absent("StableHLO's is a reshape to a type with bounds"),
    calls={"tripont.dynamic_reshape": bounded_shapes.read_call},
    fields=_RESOLVED,
)

PROTO_REWRITES.append(bounded_shapes.without_computed_sizes)

__all__ = ["table"]
