"""Which arrays of a kernel are read or written at places that the program computes."""

from __future__ import annotations

from typing import Final

from ..ir.hlo import Instruction, TupleShape

#: Where the indices of an instruction begin among its operands; the first operand is the array.
_INDICES: Final = {"dynamic-slice": 1, "gather": 1, "scatter": 1, "dynamic-update-slice": 2}
_WRITING: Final = ("scatter", "dynamic-update-slice")
_THE_SAME: Final = ("bitcast", "reshape", "convert")


def computed_places(instruction: Instruction) -> frozenset[int]:
    """The positions of such arrays among the kernel's arguments, which are the operands and then the results."""
    operands = instruction.operands
    if instruction.opcode != "fusion":
        if not _is_placed(instruction):
            return frozenset()
        writes = instruction.opcode in _WRITING
        return frozenset((0, len(operands)) if writes else (0,))
    computation = instruction.called[0]
    number = {p: n for n, p in enumerate(computation.parameters)}
    is_tuple = isinstance(instruction.shape, TupleShape)
    results = computation.root.operands if is_tuple else (computation.root,)
    found: set[int] = set()
    for i in computation.instructions:
        if not _is_placed(i):
            continue
        array = i.operands[0]
        while array.opcode in _THE_SAME:
            array = array.operands[0]
        if array in number:
            found.add(number[array])
        if i.opcode in _WRITING:
            found.update(len(operands) + n for n, result in enumerate(results) if result is i)
    return frozenset(found)


def _is_placed(i: Instruction) -> bool:
    """Whether the program computes a place. Gathers and scatters have an array of them, others a scalar a dimension."""
    first = _INDICES.get(i.opcode)
    if first is None:
        return False
    last = first + 1 if i.opcode in ("gather", "scatter") else len(i.operands)
    return any(o.opcode != "constant" for o in i.operands[first:last])
