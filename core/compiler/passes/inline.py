"""Inlining of calls, and one caller for each control flow computation."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.hlo import Computation, Instruction, Module
from .rewrite import with_entry

CONTROL_FLOW = ("while", "conditional")


def inline_calls(module: Module) -> Module:
    """Replace every ``call`` by the body of what it calls.

    Each instruction of the result is made once, however deep the calls nest.
    """
    if not module.has("call"):
        return module
    computations = module.computations()
    # What is left to be called afterwards: the bodies of loops, branches, reductions, ...
    kept = {c for k in computations for i in k.instructions if i.opcode != "call" for c in i.called}
    done: dict[Computation, Computation] = {}
    for computation in computations:
        if computation in kept or computation is module.entry:
            done[computation] = _inline(computation, done)
    return with_entry(module, done[module.entry])


class _Body:
    """A computation whose instructions are being written where ``call`` stands, or in their own place (None)."""

    def __init__(self, computation: Computation, call: Instruction | None) -> None:
        self.computation = computation
        self.call = call
        self.rest = iter(computation.instructions)
        self.mapped: dict[Instruction, Instruction] = {}
        # A call of several results is replaced by their instructions; its get-tuple-elements pick from them.
        self.results: dict[Instruction, Sequence[Instruction]] = {}

    def finish_call(self, body: _Body) -> None:
        """``body``, which a call of this one calls, has been written."""
        call, root = body.call, body.computation.root
        assert call is not None
        if root in body.results:
            self.results[call] = body.results[root]
        elif root.opcode == "tuple":
            self.results[call] = [body.mapped[r] for r in root.operands]
        else:
            self.mapped[call] = body.mapped[root]


def _inline(computation: Computation, done: dict[Computation, Computation]) -> Computation:
    """A computation without calls. ``done``: those that its other instructions call."""
    if not any(i.called for i in computation.instructions):
        return computation
    whole = _Body(computation, None)
    output: list[Instruction] = []
    stack = [whole]
    changed = False
    while True:
        body = stack[-1]
        entered = _write(body, done, output)
        if entered is not None:
            stack.append(entered)
            changed = True
            continue
        stack.pop()
        if not stack:
            break
        stack[-1].finish_call(body)
    root = computation.root
    if root in whole.results:
        new_root = Instruction("tuple", root.shape, whole.results[root])
        output.append(new_root)
    else:
        new_root = whole.mapped[root]
    if not changed and all(a is b for a, b in zip(output, computation.instructions, strict=True)):
        return computation
    return Computation(computation.name, computation.parameters, output, new_root)


def _write(
    body: _Body, done: dict[Computation, Computation], output: list[Instruction]
) -> _Body | None:
    """Append the instructions of ``body`` up to its next call, whose body it gives, or all that are left (None)."""
    mapped, results = body.mapped, body.results
    copied = body.call is not None  # others may call it too: nothing of it may stand in two places
    for instruction in body.rest:
        opcode = instruction.opcode
        if opcode == "call":
            entered = _Body(instruction.called[0], instruction)
            arguments = [mapped[o] for o in instruction.operands]
            for parameter in entered.computation.parameters:
                entered.mapped[parameter] = arguments[parameter.attributes["index"]]
            return entered
        if copied and (
            opcode == "parameter" or (opcode == "tuple" and instruction is body.computation.root)
        ):
            continue
        if opcode == "get-tuple-element" and instruction.operands[0] in results:
            mapped[instruction] = results[instruction.operands[0]][instruction.attributes["index"]]
            continue
        write = instruction.replace if copied else instruction.with_operands
        new = write(
            operands=[mapped[o] for o in instruction.operands],
            called=[done[c] for c in instruction.called],
        )
        mapped[instruction] = new
        output.append(new)
    return None


def unshare_control_flow(module: Module) -> Module:
    """Give every loop and branch computation exactly one caller, by copying: buffer assignment
    needs that.
    """
    if not any(i.opcode in CONTROL_FLOW for i in module.entry.instructions):
        return module
    return with_entry(module, _unshared(module.entry, set()))


def _unshared(computation: Computation, seen: set[Instruction]) -> Computation:
    """The computation, or a copy if another one has any of its instructions already, with its callees unshared.

    ``seen`` are the instructions of other computations, and not these computations: a pass that changes a loop leaves
    what it does not change, so that two computations that were one may have instructions in common.
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
            called = tuple([_unshared(c, seen) for c in called])
        write = instruction.replace if fresh else instruction.with_operands
        new = write(operands=operands, called=called)
        changed = changed or new is not instruction
        mapped[instruction] = new
        output.append(new)
    if not changed:
        return computation
    parameters = [mapped[p] for p in computation.parameters]
    return Computation(computation.name, parameters, output, mapped[computation.root])
