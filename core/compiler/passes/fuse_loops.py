"""Loops that run element by element become one kernel each: see :mod:`..fusion.element_loops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..fusion.element_loops import Plan, changes, pays, plan
from ..ir.hlo import Computation, Instruction, Module, TupleShape, get_tuple_element, parameter
from ..ir.patterns import constant_value
from .carried_rows import carry_rows
from .rewrite import with_entry

if TYPE_CHECKING:
    from ..targets.target import Target


def fuse_loops(module: Module, target: Target) -> Module:
    """Put each ``while`` that can run element by element into a fusion of the kind "while"."""
    if not module.has("while"):
        return module
    return with_entry(module, _fuse_in(module.entry, target))


def _fuse_in(computation: Computation, target: Target) -> Computation:
    """The computation with its loops fused, outer ones first: what is inside of a fused one goes along."""
    if not any(i.opcode in ("while", "conditional", "call") for i in computation.instructions):
        return computation
    users = computation.users()
    mapped: dict[Instruction, Instruction] = {}
    output: list[Instruction] = []
    for instruction in computation.instructions:
        if instruction in mapped:
            continue
        new = instruction.with_operands([mapped[o] for o in instruction.operands])
        if instruction.opcode in ("while", "conditional", "call"):
            fused = None
            if instruction.opcode == "while" and instruction is not computation.root:
                fused = _fused(new, _results(instruction, users[instruction]), target)
            if fused is not None:
                fusion, values = fused
                output += [*_windows(fusion, new), fusion]
                output += [
                    v
                    for v in values.values()
                    if v.opcode == "get-tuple-element" and v.operands[0] is fusion
                ]
                mapped[instruction] = fusion
                for user in users[instruction]:
                    if user.opcode == "get-tuple-element":
                        mapped[user] = values[user.attributes["index"]]
                continue
            new = new.with_operands(new.operands, [_fuse_in(c, target) for c in instruction.called])
        mapped[instruction] = new
        output.append(new)
    if all(mapped[i] is i for i in computation.instructions):
        return computation
    return Computation(computation.name, computation.parameters, output, mapped[computation.root])


def _results(loop: Instruction, users: list[Instruction]) -> list[int] | None:
    """The states of a loop that somebody reads after it; None if it is read as a whole."""
    if not isinstance(loop.shape, TupleShape):
        return [0]
    if any(u.opcode != "get-tuple-element" for u in users):
        return None
    return sorted({u.attributes["index"] for u in users})


def _planned(loop: Instruction, target: Target) -> tuple[Instruction, Plan] | None:
    """The loop, or what it is with the rows that its last steps wrote as states, and how it runs element by element."""
    found = plan(loop)
    carried = carry_rows(loop) if found is None else None
    if carried is not None:
        loop, found = carried, plan(carried)
    if found is None or not pays(found, target.costs, saves=carried is not None):
        return None
    return loop, found


def _windows(fusion: Instruction, loop: Instruction) -> list[Instruction]:
    """The first rows of arrays, which the loop did not take as they are."""
    return [o for o in fusion.operands if o not in loop.operands]


def _fused(
    loop: Instruction, results: list[int] | None, target: Target
) -> tuple[Instruction, dict[int, Instruction]] | None:
    """The loop as a fusion, and the value of each of ``results``; None if it is to stay a loop."""
    if results is None:
        return None
    planned = _planned(loop, target)
    if planned is None:
        return None
    loop, found = planned
    changed = changes(loop)
    wanted = [n for n in results if n in changed]
    if not wanted or not found.written <= set(wanted):
        return None
    overwritten = {n for n in found.written if loop.operands[n].opcode == "allocate-buffer"}
    updated = sorted(found.written - overwritten)
    before = [_memory(o) for n, o in enumerate(loop.operands) if n not in overwritten]
    if any(before.count(_memory(loop.operands[n])) > 1 for n in updated):
        return None  # it would write what it reads
    # The kernel writes states into memory that is its operand's; others that are splats it makes itself, even where
    # the program has one value for both.
    inner: dict[Instruction, Instruction] = {}
    splats: dict[Instruction, Instruction] = {}
    operands: list[Instruction] = []
    inside: list[Instruction] = []
    states: list[Instruction] = []
    for n, o in enumerate(loop.operands):
        if n in overwritten or (constant_value(o) is not None and n not in updated):
            if o not in splats:
                clone = (o.operands[0] if o.operands else o).replace()
                inside.append(clone)
                if o.operands:
                    clone = o.replace(operands=[clone])
                    inside.append(clone)
                splats[o] = clone
            states.append(splats[o])
            continue
        if o not in inner:
            inner[o] = parameter(len(operands), o.shape)
            operands.append(o)
        states.append(inner[o])
    body = loop.replace(operands=states)
    parameters = [inner[o] for o in operands]
    instructions = [*parameters, *inside, body]
    roots = [body]
    if isinstance(loop.shape, TupleShape):
        roots = [get_tuple_element(body, n) for n in wanted]
        instructions += roots
    in_place = tuple((wanted.index(n), operands.index(loop.operands[n])) for n in updated)
    name = loop.name or "while"
    computation = Computation.of_results(f"fused_{name}", parameters, instructions, roots)
    fusion = Instruction(
        "fusion",
        computation.root.shape,
        operands,
        {"kind": "while", "in_place": in_place},
        [computation],
        f"{name}_fusion",
        loop.metadata,
    )
    values = {n: loop.operands[n] for n in results}
    for k, n in enumerate(wanted):
        values[n] = get_tuple_element(fusion, k) if len(wanted) > 1 else fusion
    return fusion, values


def _memory(value: Instruction) -> Instruction:
    """The instruction whose memory a value is."""
    while value.opcode in ("reshape", "bitcast", "copy"):
        value = value.operands[0]
    return value
