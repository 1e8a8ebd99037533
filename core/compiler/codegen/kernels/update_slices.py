"""The "dynamic-update-slice" kernel: writes the update, computed on the way, into the result's memory.

The rest of the result must be there already: the result shares the memory of operand 0, or has been made a copy
of it before. Only the updated region is touched, so the time is the update's and not the array's.
"""

from __future__ import annotations

import math

from ...ir import errors
from .. import costs
from ..elements.elemental import element, start_coordinate
from ..generator import Generator, Index
from ..llvm_ir import Value
from . import loops
from .emit import EmittedKernel, Frame, emitter


@emitter(collapsed=True)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a "dynamic-update-slice" fusion (its root is one) or of a single instruction."""
    computation = frame.computation
    if len(computation.results) != 1 or computation.root.opcode != "dynamic-update-slice":
        raise errors.of_instruction(
            "INTERNAL", "the root is not a dynamic-update-slice", frame.instruction
        )
    operand, update, *starts = computation.root.operands
    g = frame.generator
    offsets = [
        start_coordinate(g, start, (), dim - size)
        for start, dim, size in zip(starts, operand.dims, update.dims, strict=True)
    ]

    def body(g: Generator, index: Index, mask: Value | None) -> None:
        value = element(g, update, index)
        place = tuple(g.sum(c, offset) for c, offset in zip(index, offsets, strict=True))
        g.store(frame.results[0], place, value, mask)

    if math.prod(update.dims) == 0:
        return frame.finish(0, 0.0)
    lanes = loops.lanes_for(frame.target, computation)
    units = loops.iterate(
        frame, update.dims, lanes, loops.can_mask(frame.target, computation), body
    )
    cost = costs.of_instructions(
        frame.target,
        [i for i in computation.instructions if i not in (operand, computation.root)],
        [update],
    )
    return frame.finish(units, cost)
