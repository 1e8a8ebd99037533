"""Rounding after every operation, for programs compiled with ``xla_allow_excess_precision`` off.

Kernels compute floats of at most 16 bits in f32 and round what they store (codegen/representation.py), as XLA lets
itself do too unless it is told not to. Two conversions after an operation round its result.
"""

from __future__ import annotations

from typing import Final

from ..ir import dtypes
from ..ir.hlo import Computation, Instruction, Module, Shape
from ..ir.registry import CHOOSES, IN_DTYPE, OPS
from .rewrite import map_computations, sweep

# Others than elementwise operations that compute.
_SUMS: Final = frozenset(("convolution", "dot", "reduce", "reduce-window"))


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
        if not OPS[i.opcode].runs_thunks
        for body in i.called
    }

    def rounded(computation: Computation) -> Computation:
        return computation if computation in bodies else sweep(computation, _round, repeat=False)

    return map_computations(module, rounded)


def _round(i: Instruction) -> Instruction | None:
    if not isinstance(i.shape, Shape) or not i.dtype.is_float or i.dtype.bits > 16:
        return None
    op = OPS[i.opcode]
    computes = op.elementwise and op.rounding not in (CHOOSES, IN_DTYPE) and i.operands
    if not computes and i.opcode not in _SUMS:
        return None
    wide = i.derive("convert", (i.replace(),), shape=i.shape.with_dtype(dtypes.F32))
    return i.derive("convert", (wide,))
