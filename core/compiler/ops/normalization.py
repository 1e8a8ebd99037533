"""Batch normalisation, as HLO has it: ops of whole layers. ``passes/decompose.py`` expands them.

``feature_index``: the dimension that has a mean and a variance of its own for each index.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..formats.hlo_proto import Field
from ..formats.wire_format import float32, integer
from ..importer import hlo_instructions, ops_reduction
from ..ir.hlo import AnyShape, Instruction, Shape, TupleShape
from ..ir.registry import SUMMED, Array, Evaluation, both, register
from ..ir.shape_rules import array_of, require
from ..passes import decompose


def _shape(instruction: Instruction) -> AnyShape:
    operand = array_of(instruction)
    feature = instruction.attributes["feature_index"]
    vector = Shape(array_of(instruction, 1).dtype, (operand.dims[feature],))
    last = len(instruction.operands) - (1 if instruction.opcode == "batch-norm-grad" else 0)
    for i in range(1, last):
        require(array_of(instruction, i) == vector, f"operand {i} is not of shape {vector}")
    if instruction.opcode == "batch-norm-inference":
        return operand
    if instruction.opcode == "batch-norm-grad":
        require(array_of(instruction, 4) == operand, "the gradient's shape is not the operand's")
    return TupleShape((operand, vector, vector))


def _along(i: Instruction, vector: Array, rank: int) -> Array:
    """A vector of features, to be combined with the whole array, in f64."""
    dims = [1] * rank
    dims[i.attributes["feature_index"]] = -1
    return vector.astype(np.float64).reshape(dims)


def _moments(i: Instruction, x: Array) -> tuple[tuple[int, ...], Array, Array]:
    others = tuple(n for n in range(x.ndim) if n != i.attributes["feature_index"])
    wide = x.astype(np.float64)
    return others, wide.mean(axis=others), wide.var(axis=others)


def _inference(
    i: Instruction, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
) -> list[Array]:
    scale, offset, mean, variance = (_along(i, v, x.ndim) for v in (scale, offset, mean, variance))
    return [(x - mean) / np.sqrt(variance + i.attributes["epsilon"]) * scale + offset]


def _training(i: Instruction, x: Array, scale: Array, offset: Array) -> list[Array]:
    _, mean, variance = _moments(i, x)
    return [*_inference(i, x, scale, offset, mean, variance), mean, variance]


def _gradient(
    i: Instruction, x: Array, scale: Array, mean: Array, variance: Array, gradient: Array
) -> list[Array]:
    others = tuple(n for n in range(x.ndim) if n != i.attributes["feature_index"])
    count = math.prod(x.shape[n] for n in others)
    gradient = gradient.astype(np.float64)
    deviation = np.sqrt(_along(i, variance, x.ndim) + i.attributes["epsilon"])
    normal = (x - _along(i, mean, x.ndim)) / deviation
    of_offset = gradient.sum(axis=others)
    of_scale = (gradient * normal).sum(axis=others)
    rest = gradient - (_along(i, of_offset, x.ndim) + normal * _along(i, of_scale, x.ndim)) / count
    return [_along(i, scale, x.ndim) / deviation * rest, of_scale, of_offset]


def _fields(i: Instruction) -> bytes:
    return float32(Field.EPSILON, i.attributes["epsilon"]) + integer(
        Field.FEATURE_INDEX, i.attributes["feature_index"]
    )


def _register(
    name: str,
    operands: int,
    evaluate: Evaluation,
    expand: Callable[[Instruction], Instruction],
) -> None:
    attributes = ("epsilon", "feature_index")
    register(
        name,
        operands=operands,
        attributes=attributes,
        shape=_shape,
        evaluate=evaluate,
        from_hlo=hlo_instructions.batch_norm(name),
        read=both(**{name.replace("-", "_"): ops_reduction.batch_norm(name)}),
        expand=expand,
        fields=_fields,
        error=SUMMED,
    )


_register("batch-norm-training", 3, _training, decompose.batch_norm_training)
_register("batch-norm-inference", 5, _inference, decompose.batch_norm_inference)
_register("batch-norm-grad", 5, _gradient, decompose.batch_norm_grad)
