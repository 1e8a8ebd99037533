"""Fusions that write a part of an array in its own memory: ``dynamic-update-slice`` and ``scatter``.

What such a fusion computes must not read elements of the array that it may have written already.
"""

from __future__ import annotations

from ..ir.hlo import Instruction
from ..ir.patterns import scatters_elements, scatters_rows
from ..ir.registry import OPS
from .clusters import MAXIMUM_MEMBERS, Cluster
from .sweep import Sweep


def update_kind(sweep: Sweep, instruction: Instruction) -> str:
    """The kind of fusion that ``instruction`` starts if it is an update in place; "" if it stays an instruction."""
    opcode = instruction.opcode
    if opcode != "dynamic-update-slice":
        scattered = scatters_elements(instruction) or scatters_rows(instruction)
        if not scattered or sweep.costs.memory.places <= 0:
            return ""
    target = instruction.operands[0]
    # A scalar constant is written into code, and has no memory to update.
    if target.opcode == "constant" and not target.dims:
        return ""
    # A fusion names each array once, so that nobody sees from outside that it reads what it changes.
    if target in instruction.operands[1:]:
        return ""
    return "" if _reads_around(sweep, instruction) else opcode


def _reads_around(sweep: Sweep, update: Instruction) -> bool:
    """Whether what a ``dynamic-update-slice`` writes is computed from more elements of the updated array than it
    writes, as a stencil's is. They would be copied before the update, which is in place; the update itself is less.
    """
    if update.opcode != "dynamic-update-slice":
        return False
    target, written, *at = update.operands
    read = 0
    stack, seen = [written], {update}
    while stack and len(seen) < MAXIMUM_MEMBERS:
        value = stack.pop()
        seen.add(value)
        if not OPS[value.opcode].is_indexable:
            continue
        if target in value.operands and list(value.operands[1:]) != at:
            read += value.elements
        for operand in dict.fromkeys(value.operands):
            if operand is not target and seen.issuperset(sweep.users[operand]):
                stack.append(operand)
    return read > written.elements


def keeps_update_in_place(sweep: Sweep, instruction: Instruction, cluster: Cluster) -> bool:
    """Whether ``instruction`` is not the array that ``cluster`` updates (a scalar could be computed in it), and reads
    that array at most where the update will write the same element.
    """
    update = cluster.roots[0]
    target = update.operands[0]
    if instruction is target:
        return False
    if target not in instruction.operands:
        return True
    return (
        cluster.kind == "dynamic-update-slice"
        and instruction.opcode == "dynamic-slice"
        and instruction.operands[0] is target
        and target not in instruction.operands[1:]
        and instruction.operands[1:] == update.operands[2:]
        and instruction.dims == update.operands[1].dims
        and cluster.contexts_for(instruction, sweep.users[instruction]) == (cluster.full,)
    )


def reads_across_rows(transpose: Instruction, cluster: Cluster) -> bool:
    """Whether a scatter of rows in ``cluster`` would read the operand of ``transpose`` along another dimension than its
    last one: a kernel of its own does that in tiles.
    """
    return (
        bool(transpose.dims)
        and transpose.attributes["dimensions"][-1] != len(transpose.dims) - 1
        and scatters_rows(cluster.roots[0])
    )
