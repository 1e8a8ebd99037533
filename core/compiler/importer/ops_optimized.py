"""Readers of what only HLO has, most of it after XLA has optimised it.

* fusions: a program that is fused already is fused anew; what one of its fusions computes is read as if it stood
  outside.
* bitcasts, whose meaning depends on layouts.
* ``rng-get-and-update-state``, which XLA makes of ``rng``.
* ``stochastic-convert``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir import dtypes
from ..ir.hlo import Instruction, Shape
from ..passes.random import STATE_SHAPE, state_call
from .attributes import integers
from .ops_elementwise import splat

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Results


def read_bitcast(block: BlockReader, operation: Any) -> Results:
    """The elements in the order in which they lie in memory, read with another shape and layout. Layouts are
    minor-to-major: dimension 0 of the attribute is the one whose elements lie next to each other.
    """
    (operand,) = block.operands(operation)
    shape = block.shape(operation)
    if operand.dtype.size != shape.dtype.size:
        raise block.unimplemented(operation, "a bitcast to elements of another size")
    source = _major_to_minor(block, operation, "source_layout", len(operand.dims))
    result = _major_to_minor(block, operation, "result_layout", shape.rank)
    operand = _transpose(block, operand, source)
    lying = Shape(operand.dtype, tuple(shape.dims[d] for d in result))
    if operand.shape != lying:
        operand = block.emit("reshape", lying, (operand,))
    operand = _transpose(block, operand, tuple(result.index(d) for d in range(shape.rank)))
    if operand.dtype is not shape.dtype:
        operand = block.emit("bitcast-convert", shape, (operand,))
    return operand


def _major_to_minor(block: BlockReader, operation: Any, name: str, rank: int) -> tuple[int, ...]:
    if name not in operation.attributes:
        return tuple(range(rank))
    return tuple(reversed(block.program.attribute(integers, operation.attributes[name])))


def _transpose(
    block: BlockReader, operand: Instruction, dimensions: tuple[int, ...]
) -> Instruction:
    if dimensions == tuple(range(len(dimensions))):
        return operand
    shape = Shape(operand.dtype, tuple(operand.dims[d] for d in dimensions))
    return block.emit("transpose", shape, (operand,), {"dimensions": dimensions})


def read_rng_state(block: BlockReader, operation: Any) -> Results:
    """The 128 bits from which a generator of XLA's counts on: another stream each time, in the upper word.

    XLA's own state goes on by ``delta``; here a stream has 2^64 numbers for itself, and 2^16 devices have 2^48 streams.
    """
    shape = block.shape(operation)
    if shape != Shape(dtypes.U64, (2,)):
        raise block.unimplemented(operation, "a state of this shape")
    state = state_call(block.metadata)
    block.instructions.append(state)
    device, lower, stream = (
        block.emit(
            "slice",
            Shape(dtypes.U64, (1,)),
            (state,),
            {"starts": (n,), "limits": (n + 1,), "strides": (1,)},
        )
        for n in range(STATE_SHAPE.dims[0])
    )
    device = block.emit(
        "multiply", device.shape, (device, splat(block, 1 << 48, Shape(dtypes.U64, (1,))))
    )
    upper = block.emit("add", stream.shape, (stream, device))
    return block.emit("concatenate", shape, (lower, upper), {"dimension": 0})


def read_stochastic_convert(block: BlockReader, operation: Any) -> Results:
    """A float becomes one of the two integers next to it: the larger in magnitude where the fraction, in units of the
    random number's range, is above the random number. What lies outside the integer's range becomes its limit.
    """
    x, random = block.operands(operation)
    shape = block.shape(operation)
    if not (x.dtype.is_float and shape.dtype.is_integer and shape.dtype.is_signed):
        raise block.unimplemented(operation, "a stochastic conversion other than float to signed")
    wide = dtypes.F64 if random.dtype.bits > 16 else dtypes.F32
    number = Shape(wide, shape.dims)
    x = block.emit("convert", number, (x,)) if x.dtype is not wide else x
    magnitude = block.emit("abs", number, (x,))
    whole = block.emit("floor", number, (magnitude,))
    fraction = block.emit("subtract", number, (magnitude, whole))
    scaled = block.emit(
        "multiply", number, (fraction, splat(block, 2.0**random.dtype.bits, number))
    )
    threshold = block.emit("convert", random.shape, (scaled,))
    above = block.emit(
        "compare",
        Shape(dtypes.PRED, shape.dims),
        (random, threshold),
        {"direction": "LT", "comparison_type": "UNSIGNED"},
    )
    up = block.emit("add", number, (whole, splat(block, 1, number)))
    rounded = block.emit("select", number, (above, up, whole))
    # A conversion saturates, and NaN becomes 0.
    sign = block.emit("sign", number, (x,))
    return block.emit("convert", shape, (block.emit("multiply", number, (rounded, sign)),))
