"""Decomposition: operations that are shorthand for others become the others, so that fusion sees
through them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..fusion.fused import computation_key
from ..ir.dtypes import F32
from ..ir.hlo import Computation, Instruction, Module, Shape, TupleShape, broadcast, constant
from ..ir.moves import sum_over
from ..ir.patterns import body_on_arrays, convert, splat
from ..ir.registry import OPS
from . import extrema
from .rewrite import sweep_module


def decompose(module: Module) -> Module:
    """Batch normalisation and ``map`` become elementwise operations and reductions, whose equal bodies are one.

    Bodies that :mod:`.extrema` would change are changed at once: everything behind a reduction is made anew for that,
    and here it mostly is anyway.
    """
    if not any(OPS[opcode].expand for c in module.computations() for opcode in c.opcodes):
        return module
    bodies: dict[Hashable, Computation] = {}

    def rule(i: Instruction) -> Instruction | None:
        if i.opcode == "get-tuple-element":
            return element_of_tuple(i)
        expand = OPS[i.opcode].expand
        if expand is not None:
            return expand(i)
        if i.opcode != "reduce":
            return None
        (body,) = i.called
        key = computation_key(body)
        shared = bodies.get(key)
        if shared is None:
            shared = bodies[key] = extrema.ordered(body) or body
        return None if shared is body else i.on(i.operands, (shared,))

    return sweep_module(module, rule)


def remove_barriers(module: Module) -> Module:
    """Optimization barriers have done their work once no pass moves code any more."""

    def rule(i: Instruction) -> Instruction | None:
        if i.opcode == "optimization-barrier":
            if len(i.operands) == 1 and not isinstance(i.shape, TupleShape):
                return i.operands[0]
            return i.derive("tuple", i.operands)
        if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
            return element_of_tuple(i)
        return None

    if not module.has("optimization-barrier"):
        return module
    return sweep_module(module, rule)


def _op(opcode: str, *operands: Instruction) -> Instruction:
    return Instruction(opcode, operands[0].shape, operands, metadata=operands[-1].metadata)


def _number(value: float, like: Instruction) -> Instruction:
    return splat(constant(np.asarray(value).astype(like.dtype.numpy)), like.dims)


def _sum(x: Instruction, feature: int) -> Instruction:
    """The sum over all dimensions but ``feature``."""
    dimensions = [n for n in range(len(x.dims)) if n != feature]
    return sum_over(x, dimensions, body=f"sum_{x.dtype.name}")


def _wide(x: Instruction) -> Instruction:
    """Half-precision statistics are taken in f32."""
    if x.dtype.name in ("f16", "bf16"):
        return convert(x, F32)
    return x


def _as(x: Instruction, like: Instruction) -> Instruction:
    if x.dtype is like.dtype:
        return x
    return like.derive("convert", (x,), shape=Shape(like.dtype, x.dims))


def _tuple(i: Instruction, values: Sequence[Instruction]) -> Instruction:
    return i.derive("tuple", values)


def batch_norm_training(i: Instruction) -> Instruction:
    """(x - mean) * rsqrt(variance + epsilon) * scale + offset, with the batch's mean and variance."""
    source, scale, offset = i.operands
    x = _wide(source)
    feature = i.attributes["feature_index"]
    count = x.elements / max(1, x.dims[feature])

    def spread(v: Instruction) -> Instruction:
        return broadcast(v, x.dims, (feature,))

    total = _sum(x, feature)
    mean = _op("divide", total, _number(count, total))
    centred = _op("subtract", x, spread(mean))
    squares = _sum(_op("multiply", centred, centred), feature)
    variance = _op("divide", squares, _number(count, squares))
    factor = _op(
        "multiply",
        _op("rsqrt", _op("add", variance, _number(i.attributes["epsilon"], variance))),
        _as(scale, mean),
    )
    result = _op("add", _op("multiply", centred, spread(factor)), spread(_as(offset, mean)))
    return _tuple(i, (_as(result, source), _as(mean, scale), _as(variance, scale)))


def batch_norm_inference(i: Instruction) -> Instruction:
    """(x - mean) * rsqrt(variance + epsilon) * scale + offset, with given mean and variance."""
    source, scale, offset, mean, variance = i.operands
    x = _wide(source)
    feature = i.attributes["feature_index"]

    def spread(v: Instruction) -> Instruction:
        return broadcast(_as(v, x), x.dims, (feature,))

    wide = _as(variance, x)
    inverse = _op("rsqrt", _op("add", wide, _number(i.attributes["epsilon"], wide)))
    factor = _op("multiply", inverse, _as(scale, x))
    result = _op(
        "add", _op("multiply", _op("subtract", x, spread(mean)), spread(factor)), spread(offset)
    )
    return _as(result, source)


def batch_norm_grad(i: Instruction) -> Instruction:
    """Gradients of batch_norm_training with respect to operand, scale and offset.

    With h = (x - mean) * rsqrt(variance + epsilon) and N elements a feature:
    dx = scale * rsqrt(variance + epsilon) * (dy - sum(dy) / N - h * sum(dy * h) / N).
    """
    source, scale, mean, variance, gradient = i.operands
    x, dy = _wide(source), _wide(gradient)
    feature = i.attributes["feature_index"]
    count = x.elements / max(1, x.dims[feature])

    def spread(v: Instruction) -> Instruction:
        return broadcast(v, x.dims, (feature,))

    wide = _as(variance, x)
    inverse = _op("rsqrt", _op("add", wide, _number(i.attributes["epsilon"], wide)))
    normalised = _op("multiply", _op("subtract", x, spread(_as(mean, x))), spread(inverse))
    offset_gradient = _sum(dy, feature)
    scale_gradient = _sum(_op("multiply", dy, normalised), feature)
    n = _number(count, offset_gradient)
    inner = _op("subtract", dy, spread(_op("divide", offset_gradient, n)))
    inner = _op(
        "subtract", inner, _op("multiply", normalised, spread(_op("divide", scale_gradient, n)))
    )
    operand_gradient = _op("multiply", spread(_op("multiply", _as(scale, x), inverse)), inner)
    return _tuple(
        i, (_as(operand_gradient, source), _as(scale_gradient, scale), _as(offset_gradient, scale))
    )


def inline_map(i: Instruction) -> Instruction | None:
    """A map of scalar operations is those operations on arrays."""
    results = body_on_arrays(i.called[0], i.operands)
    return results[0] if results is not None else None


def element_of_tuple(i: Instruction) -> Instruction | None:
    operand = i.operands[0]
    number: int = i.attributes["index"]
    return operand.operands[number] if operand.opcode == "tuple" else None
