"""How many bytes the thunks of a compiled program read and write, counted from the program and not measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tripont.core.compiler.formats.artifact import Conditional, Copy, Kernel, Thunk, While
from tripont.core.compiler.ir.hlo import Computation, Instruction, Shape


def size(value: Instruction) -> int:
    return sum(s.bytes for s in value.result_shapes if isinstance(s, Shape))


def read(parameter: Instruction, computation: Computation) -> int:
    """The bytes of a parameter that a fused computation reads."""
    total = 0
    for user in computation.instructions:
        for position, operand in enumerate(user.operands):
            if operand is not parameter:
                continue
            if user.opcode in ("dynamic-slice", "gather", "slice") and position == 0:
                total += size(user)
            elif user.opcode in ("dynamic-update-slice", "scatter") and position == 0:
                total += 0  # the result is in its place
            elif user.opcode in ("bitcast", "reshape"):
                total += read(user, computation)
            else:
                total += size(parameter)
    return min(total, size(parameter))


def moved(instruction: Instruction) -> int:
    """The bytes that the kernel of an instruction reads and writes."""
    operands = instruction.operands
    if instruction.opcode == "dynamic-update-slice":
        return 2 * size(operands[1])
    if instruction.opcode == "scatter":
        return sum(map(size, operands[len(operands) // 3 :])) * 2
    if instruction.opcode != "fusion":
        return size(instruction) + sum(map(size, operands))
    (computation,) = instruction.called
    if instruction.attributes["kind"] == "while":
        return sum(trips(i) * step(i) for i in computation.instructions if i.opcode == "while")
    total = sum(read(p, computation) for p in computation.parameters)
    for root in computation.results:
        in_place = root.opcode in ("dynamic-update-slice", "scatter")
        total += size(root.operands[1]) if in_place else size(root)
    return total


def trips(loop: Instruction) -> int:
    return max(1, loop.attributes.get("trip_count", 1))


def step(loop: Instruction) -> int:
    """The bytes that a step of a loop in registers reads and writes in memory."""
    total = 0
    for i in loop.called[1].instructions:
        if i.opcode == "dynamic-update-slice":
            total += size(i.operands[1])
        elif i.opcode in ("dynamic-slice", "gather"):
            total += size(i)
    return total


def of_thunks(thunks: Iterable[Thunk], instructions: Sequence[Instruction]) -> int:
    total = 0
    for thunk in thunks:
        match thunk:
            case Copy():
                total += 2 * thunk.source.size
            case Kernel():
                total += moved(instructions[thunk.debug])
            case While():
                once = [*thunk.condition, *thunk.body]
                total += max(1, thunk.trip_count) * of_thunks(once, instructions)
            case Conditional():
                total += max(of_thunks(b, instructions) for b in thunk.branches)
    return total
