"""Common subexpressions: equal instructions on equal operands are computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from ..fusion.fused import computation_key
from ..ir import keys
from ..ir.hlo import Computation, Instruction, Module
from .inline import CONTROL_FLOW
from .rewrite import map_computations, on_mapped, with_called, with_entry

MAXIMUM_LITERAL = 1 << 16  # bytes of a constant that is compared with others
_NEVER_MERGED: Final = (dict, list, np.ndarray)  # custom and library calls hold dicts


def share_computations(module: Module) -> Module:
    """Equal bodies of reductions, scatters and sorts become one object, so that what calls them can
    be equal.
    """
    known: dict[Hashable, Computation] = {}
    new: dict[Computation, Computation] = {}
    flow = {
        c
        for x in module.computations()
        for i in x.instructions
        if i.opcode in CONTROL_FLOW
        for c in i.called
    }

    for computation in module.computations():
        updated = with_called(computation, new)
        if computation is not module.entry and computation not in flow:
            updated = known.setdefault(computation_key(updated), updated)
        new[computation] = updated
    return with_entry(module, new[module.entry])


def eliminate_common_subexpressions(module: Module) -> Module:
    """One instruction for all that are equal."""
    return map_computations(module, _eliminate)


def _eliminate(computation: Computation) -> Computation:
    known: dict[Hashable, Instruction] = {}
    mapped: dict[Instruction, Instruction] = {}  # what has taken the place of another instruction
    output: list[Instruction] = []
    for instruction in computation.instructions:
        new = on_mapped(instruction, mapped)
        if instruction.opcode != "parameter" and not instruction.has_side_effect:
            key = _key(new)
            if key is not None:
                first = known.setdefault(key, new)
                if first is not new:
                    mapped[instruction] = first
                    continue
        if new is not instruction:
            mapped[instruction] = new
        output.append(new)
    if not mapped:
        return computation
    root = mapped.get(computation.root, computation.root)
    return Computation(computation.name, computation.parameters, output, root)


def _key(instruction: Instruction) -> Hashable | None:
    """Equal for equal instructions; None for those that are never merged."""
    attributes: Any = instruction.attributes
    if instruction.opcode == "constant":
        literal: np.ndarray = attributes["literal"]
        if literal.nbytes > MAXIMUM_LITERAL:
            return None
        return ("constant", instruction.shape, literal.tobytes())
    same = None
    if attributes:
        for value in attributes.values():
            if isinstance(value, _NEVER_MERGED):
                return None
        same = keys.of_attributes(instruction)
    return (instruction.opcode, instruction.shape, instruction.operands, same, instruction.called)
