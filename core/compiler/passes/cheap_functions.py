"""Functions of an array that take less time than reading them from memory, as x (1 - x)."""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

from ..ir import dtypes
from ..ir.hlo import Instruction

CHEAP: Final = frozenset(("add", "subtract", "multiply", "negate"))
_MOST: Final = 4  # operations
# What is stored in fewer bits is rounded, and the function of it would be one of rounded values.
_DTYPES: Final = (dtypes.F32, dtypes.F64)


class CheapFunction(NamedTuple):
    """A value that the operations ``inside`` compute from the arrays ``sources``, and from numbers."""

    inside: tuple[Instruction, ...]
    sources: tuple[Instruction, ...]


def cheap_function(value: Instruction, sources: Container[Instruction]) -> CheapFunction | None:
    """How ``value``, of f32 or f64, follows from others among ``sources``; None if it does not, or not cheaply."""
    if value.dtype not in _DTYPES:
        return None
    leaves: dict[Instruction, None] = {}
    inside: dict[Instruction, None] = {}
    todo = [value]
    while todo:
        i = todo.pop()
        if i is not value and i in sources:
            leaves[i] = None
        elif i.opcode in CHEAP and i.dims == value.dims and i.dtype is value.dtype:
            if i not in inside and len(inside) == _MOST:
                return None
            inside[i] = None
            todo += i.operands
        elif not _is_splat(i):
            return None
    return CheapFunction(tuple(inside), tuple(leaves)) if leaves else None


def _is_splat(i: Instruction) -> bool:
    if i.opcode == "broadcast":
        i = i.operands[0]
    return i.opcode == "constant" and i.elements == 1
