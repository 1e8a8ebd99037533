"""Rounding after every operation, for programs compiled with ``xla_allow_excess_precision`` off.

Kernels compute floats of at most 16 bits in f32 and round what they store (codegen/representation.py), as XLA lets
itself do too unless it is told not to. Two conversions after an operation round its result.
"""

from __future__ import annotations

from typing import Final

from ..ir import dtypes
from ..ir.hlo import OPCODES, Computation, Instruction, Module, Shape
from .rewrite import map_computations, sweep

# Elementwise operations whose results are numbers of the dtype as they come.
_AS_THEY_COME: Final = frozenset(
    ("abs", "bitcast-convert", "clamp", "convert", "copy", "maximum", "minimum", "negate")
) | {"reduce-precision", "select", "sign"}
# Others that compute.
_SUMS: Final = frozenset(("convolution", "dot", "reduce", "reduce-window"))
# Those that call computations for their own sake; other operations combine elements with theirs.
_CONTROL: Final = frozenset(("call", "conditional", "while"))


def round_each_operation(module: Module) -> Module:
    """x -> convert(convert(x)) for every float of at most 16 bits that an operation computes, in modules that are
    ``exact``.

    Not in the bodies of reductions: sums are rounded when they are done.
    """
    if not module.exact:
        return module
    bodies = {
        body
        for computation in module.computations()
        for i in computation.instructions
        if i.opcode not in _CONTROL
        for body in i.called
    }

    def rounded(computation: Computation) -> Computation:
        return computation if computation in bodies else sweep(computation, _round, repeat=False)

    return map_computations(module, rounded)


def _round(i: Instruction) -> Instruction | None:
    if not isinstance(i.shape, Shape) or not i.dtype.is_float or i.dtype.bits > 16:
        return None
    computes = OPCODES[i.opcode].elementwise and i.opcode not in _AS_THEY_COME and i.operands
    if not computes and i.opcode not in _SUMS:
        return None
    wide = Instruction(
        "convert", i.shape.with_dtype(dtypes.F32), (i.replace(),), metadata=i.metadata
    )
    return Instruction("convert", i.shape, (wide,), metadata=i.metadata)
