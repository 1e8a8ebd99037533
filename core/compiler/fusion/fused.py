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
    numbers: dict[Instruction, int] = {}
    number_of = numbers.__getitem__
    read: list[Instruction] = []  # what is computed outside
    key: list[Hashable] = [kind]
    for member in members:
        for operand in member.operands:
            if operand not in numbers:
                numbers[operand] = len(numbers)
                read.append(operand)
                key.append(operand.shape)
        numbers[member] = len(numbers)
        key.append(
            (
                member.opcode,
                member.shape,
                tuple(map(number_of, member.operands)),
                attributes_key(member),
            )
        )
    key.append(tuple(numbers[r] for r in roots))
    name = fusion_name(members, roots)
    frozen = tuple(key)
    computation = made.get(frozen)
    if computation is None:
        computation = made[frozen] = _computation(f"fused_{name}", read, members, roots)
    metadata = next((r.metadata for r in reversed(roots) if r.metadata), None)
    return Instruction(
        "fusion",
        computation.root.shape,
        [mapped[o] for o in read],
        {"kind": kind},
        [computation],
        f"{name}_fusion",
        metadata,
    )


def _computation(
    name: str, read: list[Instruction], members: list[Instruction], roots: list[Instruction]
) -> Computation:
    """The computation of ``members`` with parameters in the places of ``read``."""
    inner = {o: parameter(n, o.shape) for n, o in enumerate(read)}
    parameters = list(inner.values())
    for member in members:
        inner[member] = member.replace(operands=[inner[o] for o in member.operands])
    instructions = list(inner.values())
    root = inner[roots[0]]
    if len(roots) > 1:
        shape = TupleShape(tuple(r.shape for r in roots))  # type: ignore[misc]
        root = Instruction("tuple", shape, [inner[r] for r in roots])
        instructions.append(root)
    return Computation(name, parameters, instructions, root)


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
    """Hashable, equal for computations that do the same; made once for each."""
    if computation.key is None:
        computation.key = _key_of(computation)
    return computation.key


def _key_of(computation: Computation) -> Hashable:
    numbers: dict[Instruction, int] = {}
    number_of = numbers.__getitem__
    parts: list[Hashable] = []
    for instruction in computation.instructions:
        numbers[instruction] = len(numbers)
        operands = tuple(map(number_of, instruction.operands))
        parts.append((instruction.opcode, instruction.shape, operands, attributes_key(instruction)))
    parts.append(numbers[computation.root])
    return tuple(parts)
