"""HLO's ``rng``, random numbers without a state among the operands, becomes ``rng-bit-generator`` and arithmetic.

The state comes from the device: the library call ``rng-state`` (core/runtime/library/rng_state.cc) gives another one
each time it runs, so a program called twice, or a loop's body, draws new numbers. A process that runs the same programs
in the same order on a device gets the same numbers; there is no seed to set. Programs that hold their own seed
(TensorFlow's stateless operations and generators, JAX's keys) do not use ``rng``.

* uniform floats: the topmost bits of a word, as many as the significand has, times their place: [0, 1). Times
  (high - low), plus low.
* uniform integers: 64 bits modulo (high - low), plus low. The bias is below (high - low) / 2^64.
* normal: Box and Muller, "A note on the generation of random normal deviates", Ann. Math. Statist. 29 (1958).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.errors import of_instruction
from ..ir.hlo import Instruction, Metadata, Module, Shape, TupleShape, constant
from ..ir.moves import cut
from ..ir.patterns import reshape, splat
from .rewrite import sweep_module

STATE: Final = "tripont.rng_state"
STATE_SHAPE: Final = Shape(dtypes.U64, (3,))
_SIGNIFICAND_BITS: Final = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


def state_call(metadata: Metadata | None) -> Instruction:
    """A state for ``rng-bit-generator`` that no other call gets: the device's number, 0, and a stream's number."""
    given = {
        "custom_call_target": STATE,
        "backend_config": b"",
        "api_version": 1,
        "has_side_effect": True,
        "output_operand_aliases": (),
    }
    return Instruction("custom-call", STATE_SHAPE, (), given, metadata=metadata)


def expand_random(module: Module) -> Module:
    """Replace every ``rng``. Raises CompileError UNIMPLEMENTED for element types without such numbers."""
    if not module.has("rng"):
        return module
    return sweep_module(module, _expand, repeat=False)


def _expand(i: Instruction) -> Instruction | None:
    if i.opcode != "rng":
        return None
    assert isinstance(i.shape, Shape)
    dtype = i.dtype
    writer = _Writer(i)
    normal = i.attributes["distribution"] == "normal"
    if dtype.name in _SIGNIFICAND_BITS:
        return writer.normal() if normal else writer.uniform()
    if (dtype.is_integer or dtype is dtypes.PRED) and not normal:
        return writer.integers()
    raise of_instruction("UNIMPLEMENTED", f"{i.attributes['distribution']} {dtype} numbers", i)


class _Writer:
    """Instructions with the metadata of the one they replace."""

    def __init__(self, rng: Instruction) -> None:
        self.rng = rng
        self.dims = rng.dims
        # Half precision is computed in f32.
        self.wide = dtypes.F64 if rng.dtype.size == 8 else dtypes.F32

    def op(self, opcode: str, dtype: DType, *operands: Instruction, **given: Any) -> Instruction:
        shape = Shape(dtype, operands[0].dims)
        return self.rng.derive(opcode, operands, given, shape=shape)

    def full(self, value: Any, like: Instruction) -> Instruction:
        return splat(constant(np.asarray(value).astype(like.dtype.numpy)), like.dims)

    def spread(self, scalar: Instruction) -> Instruction:
        return splat(scalar, self.dims)

    def bits(self, dtype: DType, count: int) -> list[Instruction]:
        """``count`` arrays of the result's dimensions, of random bits."""
        state = state_call(self.rng.metadata)
        size = math.prod(self.dims)
        flat = Shape(dtype, (count * size,))
        both = self.rng.derive(
            "rng-bit-generator",
            (state,),
            {"algorithm": "PHILOX"},
            shape=TupleShape((STATE_SHAPE, flat)),
        )
        drawn = Instruction("get-tuple-element", flat, (both,), {"index": 1})
        found = []
        for n in range(count):
            found.append(reshape(cut(drawn, 0, n * size, (n + 1) * size), self.dims))
        return found

    def unit(self, bits: Instruction, dtype: DType) -> Instruction:
        """Numbers in [0, 1) of the computing dtype, with as many bits as ``dtype`` holds."""
        kept = _SIGNIFICAND_BITS[dtype.name]
        shifted = self.op(
            "shift-right-logical", bits.dtype, bits, self.full(bits.dtype.bits - kept, bits)
        )
        number = self.op("convert", self.wide, shifted)
        return self.op("multiply", self.wide, number, self.full(2.0**-kept, number))

    def word(self) -> DType:
        return dtypes.U64 if self.wide is dtypes.F64 else dtypes.U32

    def scaled(self, value: Instruction, factor: Instruction, offset: Instruction) -> Instruction:
        value = self.op("multiply", self.wide, value, self.spread(factor))
        value = self.op("add", self.wide, value, self.spread(offset))
        return (
            self.op("convert", self.rng.dtype, value)
            if value.dtype is not self.rng.dtype
            else value
        )

    def bounds(self) -> list[Instruction]:
        return [
            self.op("convert", self.wide, o) if o.dtype is not self.wide else o
            for o in self.rng.operands
        ]

    def uniform(self) -> Instruction:
        low, high = self.bounds()
        (bits,) = self.bits(self.word(), 1)
        return self.scaled(
            self.unit(bits, self.rng.dtype), self.op("subtract", self.wide, high, low), low
        )

    def normal(self) -> Instruction:
        mean, deviation = self.bounds()
        first, second = self.bits(self.word(), 2)
        # Half precision too takes all bits of f32: the radius of 8 would end at 3.3, and the angle have 256 values.
        radius_of, angle_of = self.unit(first, self.wide), self.unit(second, self.wide)
        # 1 - u is in (0, 1], where the logarithm is finite.
        positive = self.op("subtract", self.wide, self.full(1.0, radius_of), radius_of)
        logarithm = self.op("log", self.wide, positive)
        radius = self.op(
            "sqrt", self.wide, self.op("multiply", self.wide, logarithm, self.full(-2.0, logarithm))
        )
        angle = self.op("multiply", self.wide, angle_of, self.full(2 * math.pi, angle_of))
        value = self.op("multiply", self.wide, radius, self.op("cosine", self.wide, angle))
        return self.scaled(value, deviation, mean)

    def integers(self) -> Instruction:
        low, high = (self.op("convert", dtypes.U64, o) for o in self.rng.operands)
        (bits,) = self.bits(dtypes.U64, 1)
        width = self.spread(self.op("subtract", dtypes.U64, high, low))
        value = self.op("remainder", dtypes.U64, bits, width)
        value = self.op("add", dtypes.U64, value, self.spread(low))
        return self.op("convert", self.rng.dtype, value)
