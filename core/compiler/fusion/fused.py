"""Fusion instructions: making them, and recognising equal ones.

Two fusions with equal bodies get one computation object, and so one kernel.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..ir import keys
from ..ir.hlo import Computation, Instruction, TupleShape, parameter


def make_fusion(
    members: list[Instruction],
    roots: list[Instruction],
    kind: str,
    mapped: dict[Instruction, Instruction],
    made: dict[Hashable, Computation],
) -> Instruction:
    """A fusion instruction of ``members`` (in dependency order) with ``roots`` as results.

    ``mapped`` gives the operands' instructions outside. A computation equal to one made before
    (in ``made``) is reused, so that equal fusions are recognised by the identity of their
    computation.
    """
    inner: dict[Instruction, Instruction] = {}
    operands: list[Instruction] = []
    parameters: list[Instruction] = []
    instructions: list[Instruction] = []
    numbers: dict[Instruction, int] = {}
    key: list[Hashable] = [kind]
    for member in members:
        for operand in member.operands:
            if operand not in inner:
                p = parameter(len(parameters), operand.shape)
                inner[operand] = p
                numbers[operand] = len(numbers)
                parameters.append(p)
                operands.append(mapped[operand])
                key.append(operand.shape)
        new = member.replace(operands=[inner[o] for o in member.operands])
        inner[member] = new
        instructions.append(new)
        numbers[member] = len(numbers)
        key.append(
            (
                member.opcode,
                member.shape,
                tuple([numbers[o] for o in member.operands]),
                attributes_key(member),
            )
        )
    key.append(tuple(numbers[r] for r in roots))
    name = fusion_name(members, roots)
    if len(roots) == 1:
        root = inner[roots[0]]
        shape = root.shape
    else:
        shape = TupleShape(tuple(r.shape for r in roots))  # type: ignore[misc]
        root = Instruction("tuple", shape, [inner[r] for r in roots])
        instructions.append(root)
    frozen = tuple(key)
    computation = made.get(frozen)
    if computation is None:
        computation = Computation(f"fused_{name}", parameters, [*parameters, *instructions], root)
        made[frozen] = computation
    metadata = next((r.metadata for r in reversed(roots) if r.metadata), None)
    return Instruction(
        "fusion", shape, operands, {"kind": kind}, [computation], f"{name}_fusion", metadata
    )


def fusion_name(members: list[Instruction], roots: list[Instruction]) -> str:
    """A short name that says what the fusion does: the first interesting opcodes and the last."""
    dull = (
        "broadcast",
        "constant",
        "reshape",
        "convert",
        "parameter",
        "slice",
        "get-tuple-element",
    )
    interesting = [m.opcode for m in members if m.opcode not in dull]
    last = roots[-1].opcode
    words = list(dict.fromkeys([*[w for w in interesting if w != last][:2], last]))
    return "_".join(words).replace("-", "_")


def attributes_key(instruction: Instruction) -> Hashable:
    """Hashable, equal for instructions with the same attributes and called computations that do the same.

    Raises CompileError INTERNAL for an attribute of a type that has no exact key.
    """
    if not instruction.called:
        return keys.of_attributes(instruction) if instruction.attributes else None
    called = [computation_key(c) for c in instruction.called]
    return (keys.of_attributes(instruction), *called)


def computation_key(computation: Computation) -> Hashable:
    """Hashable, equal for computations that do the same."""
    numbers: dict[Instruction, int] = {}
    parts: list[Hashable] = []
    for instruction in computation.instructions:
        numbers[instruction] = len(numbers)
        operands = tuple([numbers[o] for o in instruction.operands])
        parts.append((instruction.opcode, instruction.shape, operands, attributes_key(instruction)))
    parts.append(numbers[computation.root])
    return tuple(parts)
