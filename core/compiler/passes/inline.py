"""Inlining of calls, and one caller for each control flow computation."""

from __future__ import annotations

from collections.abc import Sequence

from ..hlo import Computation, Instruction, Module
from .rewrite import with_entry

CONTROL_FLOW = ("while", "conditional")


def inline_calls(module: Module) -> Module:
    """Replace every ``call`` by the body of what it calls, and drop optimization barriers of one
    operand's own value.
    """
    done: dict[Computation, Computation] = {}
    for computation in module.computations():
        done[computation] = _inline(computation, done)
    return with_entry(module, done[module.entry])


def _inline(computation: Computation, done: dict[Computation, Computation]) -> Computation:
    if not any(i.called for i in computation.instructions):
        return computation
    mapped: dict[Instruction, Instruction] = {}
    # A call of several results is replaced by their instructions; its get-tuple-elements pick from
    # them.
    results: dict[Instruction, Sequence[Instruction]] = {}
    output: list[Instruction] = []
    changed = False
    for instruction in computation.instructions:
        opcode = instruction.opcode
        if opcode == "call":
            changed = True
            body = done[instruction.called[0]]
            inner = clone_into(body, [mapped[o] for o in instruction.operands], output)
            values = [inner[r] for r in body.results]
            if body.root.opcode == "tuple":
                results[instruction] = values
            else:
                mapped[instruction] = values[0]
            continue
        if opcode == "get-tuple-element" and instruction.operands[0] in results:
            mapped[instruction] = results[instruction.operands[0]][instruction.attributes["index"]]
            continue
        operands = [mapped[o] for o in instruction.operands]
        called = [done[c] for c in instruction.called]
        same = all(a is b for a, b in zip(operands, instruction.operands, strict=True)) and all(
            a is b for a, b in zip(called, instruction.called, strict=True)
        )
        if not same:
            changed = True
        new = instruction if same else instruction.replace(operands=operands, called=called)
        mapped[instruction] = new
        output.append(new)
    if not changed:
        return computation
    root = computation.root
    if root in results:
        new_root = Instruction("tuple", root.shape, results[root])
        output.append(new_root)
    else:
        new_root = mapped[root]
    return Computation(computation.name, computation.parameters, output, new_root)


def clone_into(
    body: Computation, arguments: Sequence[Instruction], output: list[Instruction]
) -> dict[Instruction, Instruction]:
    """Append a copy of ``body`` on ``arguments`` to ``output``; a map from its instructions to the
    copies.
    """
    mapped: dict[Instruction, Instruction] = {}
    for instruction in body.instructions:
        if instruction.opcode == "parameter":
            mapped[instruction] = arguments[instruction.attributes["index"]]
        elif instruction.opcode == "tuple" and instruction is body.root:
            continue
        else:
            new = instruction.replace(operands=[mapped[o] for o in instruction.operands])
            mapped[instruction] = new
            output.append(new)
    return mapped


def unshare_control_flow(module: Module) -> Module:
    """Give every loop and branch computation exactly one caller, by copying: buffer assignment
    needs that.
    """
    # Of instructions: a pass that changes a loop leaves what it does not change, so that two
    # computations that were one may have instructions in common.
    seen: set[Instruction] = set()

    def unshare(computation: Computation) -> Computation:
        """The computation, or a copy if another one has any of its instructions already, with its
        callees unshared.
        """
        fresh = not seen.isdisjoint(computation.instructions)
        seen.update(computation.instructions)
        mapped: dict[Instruction, Instruction] = {}
        output: list[Instruction] = []
        changed = fresh
        for instruction in computation.instructions:
            operands = [mapped[o] for o in instruction.operands]
            called = instruction.called
            if instruction.opcode in CONTROL_FLOW:
                called = tuple(unshare(c) for c in called)
            same = not fresh and all(
                a is b for a, b in zip(operands, instruction.operands, strict=True)
            )
            same = same and all(a is b for a, b in zip(called, instruction.called, strict=True))
            new = instruction if same else instruction.replace(operands=operands, called=called)
            changed = changed or not same
            mapped[instruction] = new
            output.append(new)
        if not changed:
            return computation
        parameters = [mapped[p] for p in computation.parameters]
        return Computation(computation.name, parameters, output, mapped[computation.root])

    if not any(i.opcode in CONTROL_FLOW for i in module.entry.instructions):
        return module
    return with_entry(module, unshare(module.entry))
