"""Invariants: values that are the same in every iteration of a loop."""

from __future__ import annotations

from ..ir.hlo import Computation, Instruction, Shape
from ..ir.registry import OPS


def unchanged_parameters(body: Computation) -> set[Instruction]:
    """The states that a loop's body hands on as they are."""
    if body.root.opcode != "tuple":
        return set()
    return {p for p, r in zip(body.parameters, body.root.operands, strict=True) if p is r}


def invariants_of(body: Computation) -> set[Instruction]:
    """Those states, and what the body computes from them alone that may as well be computed in front of the loop."""
    invariant = unchanged_parameters(body)
    for i in body.instructions:
        op = OPS[i.opcode]
        may_move = op.hoisting or (op.elementwise and not op.side_effect)
        if may_move and isinstance(i.shape, Shape) and all(o in invariant for o in i.operands):
            invariant.add(i)
    return invariant
