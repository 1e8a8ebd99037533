"""Products of groups of rows, each by a matrix of its own: ``ragged-dot``.

``dimension_numbers``: as of ``dot``, without the groups. ``ragged``: the dimension of lhs whose places are the groups',
one after the other. ``group``: the dimension of rhs that has a matrix for each group; -1 where the ragged dimension is
contracted, with that of rhs which it is paired with, and each group has a product of its own. ``precision``: as of
``dot``. Operands: lhs, rhs, and the groups' sizes, integers [groups]; places behind the last group belong to none, and
what they would give is 0. ``passes/ragged_products.py`` expands it. Result dimensions: the groups, if they are
contracted; then as of ``dot``. (XLA's semantics: ``RaggedDotDimensionNumbers`` in xla_data.proto.)
"""

from __future__ import annotations

import math

import numpy as np

from ..formats import hlo_records
from ..formats.hlo_proto import Field
from ..formats.wire_format import integers, message
from ..importer import hlo_instructions, ops_ragged
from ..ir.hlo import DotDimensionNumbers, Instruction, Shape
from ..ir.registry import SUMMED, Array, register
from ..ir.shape_rules import arrays_of, dot_dims, require
from ..passes import ragged_products
from .contraction import accumulator, precision_fields, product


def _shape(instruction: Instruction) -> Shape:
    lhs, rhs, sizes = arrays_of(instruction)
    attributes = instruction.attributes
    numbers: DotDimensionNumbers = attributes["dimension_numbers"]
    ragged, group = attributes["ragged"], attributes["group"]
    dims = dot_dims(lhs.dims, rhs.dims, numbers, [group] if group >= 0 else [])
    require(len(sizes.dims) == 1, f"the groups' sizes are {sizes}, not a vector")
    require(sizes.dtype.is_integer, f"the groups' sizes are {sizes}, not integers")
    require(0 <= ragged < lhs.rank, "lhs has no such ragged dimension")
    require(ragged not in numbers.lhs_batch, "the ragged dimension is one of the batch")
    contracted = ragged in numbers.lhs_contracting
    require(
        contracted == (group < 0), "rhs has a dimension of groups where they are not contracted"
    )
    groups = sizes.dims[0]
    if not contracted:
        require(rhs.dims[group] == groups, f"rhs has {rhs.dims[group]} groups and not {groups}")
    return Shape(instruction.dtype, (groups, *dims) if contracted else dims)


def _value(i: Instruction, lhs: Array, rhs: Array, sizes: Array) -> list[Array]:
    """A product for each group, of whole arrays in which the places of other groups are 0."""
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    ragged, group = i.attributes["ragged"], i.attributes["group"]
    wide = accumulator(i.dtype)
    lhs, rhs = lhs.astype(wide), rhs.astype(wide)
    places = np.arange(lhs.shape[ragged])
    result = np.zeros(i.dims, wide)
    end = 0
    for n, size in enumerate(sizes.tolist()):
        inside = (places >= end) & (places < end + size)
        end += size
        left = np.where(_along(inside, ragged, lhs.ndim), lhs, 0)
        if group >= 0:
            matrix = np.take(rhs, n, group)
            result += product(ragged_products.of_one_group(i), left, matrix)
        else:
            paired = numbers.rhs_contracting[numbers.lhs_contracting.index(ragged)]
            right = np.where(_along(inside, paired, rhs.ndim), rhs, 0)
            result[n] = product(numbers, left, right)
    return [result.astype(i.dtype.numpy)]


def _along(mask: Array, dimension: int, rank: int) -> Array:
    return mask.reshape([-1 if d == dimension else 1 for d in range(rank)])


def _fields(i: Instruction) -> bytes:
    dot = hlo_records.DOT.write(i.attributes["dimension_numbers"])
    body = message(1, dot) + integers(2, (i.attributes["ragged"],))
    if i.attributes["group"] >= 0:
        body += integers(3, (i.attributes["group"],))
    return message(Field.RAGGED_DOT_DIMENSION_NUMBERS, body) + precision_fields(i)


def _flops(i: Instruction) -> float:
    """As many as there are if each row belongs to a group."""
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    contracted = math.prod(i.operands[0].dims[d] for d in numbers.lhs_contracting)
    results = i.elements // (1 if i.attributes["group"] >= 0 else max(i.dims[0], 1))
    return 2.0 * results * float(contracted)


register(
    "ragged-dot",
    operands=3,
    attributes=("dimension_numbers", "ragged", "group", "precision"),
    shape=_shape,
    evaluate=_value,
    expand=ragged_products.expand,
    from_hlo=hlo_instructions.ragged_dot,
    read={"chlo.ragged_dot": ops_ragged.read_ragged_dot},
    calls={"tripont.ragged_dot": ops_ragged.read_call},
    composites={"tripont.ragged_dot": ops_ragged.read_composite},
    fields=_fields,
    flops=_flops,
    reads_memory=True,
    error=SUMMED,
)
