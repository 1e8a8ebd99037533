"""Bodies on scalars (a reduction's sum), of which programs write one for each use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.hlo import Instruction

# Bodies of more instructions are not compared.
_LONG = 8


def structure(
    parameters: Sequence[Instruction],
    instructions: Sequence[Instruction],
    results: Sequence[Instruction],
) -> Any:
    """A hashable description equal for equal computations, or None for one that is too big or calls others."""
    if len(instructions) > _LONG:
        return None
    numbers = {p: i for i, p in enumerate(parameters)}
    parts: list[Any] = [tuple(p.shape for p in parameters)]
    for instruction in instructions:
        if instruction.called:
            return None
        attributes: Any = instruction.attributes
        if instruction.opcode == "constant":
            attributes = {"literal": attributes["literal"].tobytes()}
        numbers[instruction] = len(numbers)
        parts.append(
            (
                instruction.opcode,
                instruction.shape,
                tuple(numbers[o] for o in instruction.operands),
                tuple(attributes.items()),
            )
        )
    parts.append(tuple(numbers[r] for r in results))
    return tuple(parts)
