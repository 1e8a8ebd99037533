"""Which results of an instruction may be written over which operands."""

from __future__ import annotations

from .hlo import OPCODES, Instruction, Shape


def must_share(instruction: Instruction) -> bool:
    """Whether the instruction's kernel only changes part of its result: the rest must be there already."""
    opcode = instruction.opcode
    if opcode == "fusion":
        return bool(instruction.attributes["kind"] == "dynamic-update-slice")
    return opcode in ("dynamic-update-slice", "scatter") or (
        opcode == "custom-call" and bool(instruction.attributes["output_operand_aliases"])
    )


def in_place_operands(instruction: Instruction) -> list[tuple[int, ...]]:
    """For each result the operands in whose memory it may be written (if they are of one size, and die here).

    An operand is listed for a result only if each element is read, if at all, before or when the element at the same
    place of the result is written. For instructions with :func:`must_share` there is exactly one.
    """
    opcode = instruction.opcode
    count = len(instruction.result_shapes)
    if opcode == "fusion":
        kind = instruction.attributes["kind"]
        if kind == "loop":
            return _loop_in_place(instruction)
        if kind == "dynamic-update-slice":
            (body,) = instruction.called
            target = body.root.operands[0]
            return [(target.attributes["index"],)]
    elif opcode == "dynamic-update-slice":
        return [(0,)]
    elif opcode == "scatter":
        return [(n,) for n in range(count)]
    elif opcode == "custom-call":
        aliases = dict(instruction.attributes["output_operand_aliases"])
        return [(aliases[n],) if n in aliases else () for n in range(count)]
    return [()] * count


def _loop_in_place(fusion: Instruction) -> list[tuple[int, ...]]:
    """Operands that a loop fusion reads at the index it writes and nowhere else.

    All results are computed before any is stored, so one list serves every result.
    """
    (body,) = fusion.called
    dims = body.results[0].dims
    elsewhere: set[Instruction] = set()  # read at another index than the loop's own
    here = set(body.results)
    for instruction in reversed(body.instructions):
        at_index = instruction in here
        if instruction in elsewhere:
            elsewhere.update(instruction.operands)
        if not at_index:
            continue
        if OPCODES[instruction.opcode].elementwise:
            for operand in instruction.operands:
                (here if operand.dims == dims else elsewhere).add(operand)
        elif instruction.opcode != "tuple":
            elsewhere.update(instruction.operands)
    usable = tuple(
        p.attributes["index"]
        for p in body.parameters
        if p in here and p not in elsewhere and isinstance(p.shape, Shape) and p.dims == dims
    )
    sizes = [p.dtype.size for p in body.parameters]
    return [tuple(n for n in usable if sizes[n] == r.dtype.size) for r in body.results]
