"""Choices that LLVM must not make masked stores of.

Of ``store (select mask, new, (load address)), address`` LLVM makes a store of the lanes of ``mask``, where the CPU has
an instruction for it. AVX has one for vectors of 32-bit and 64-bit elements, but it is slow: on a Zen 3 it takes a
dozen cycles, and what is read there next waits until it is done. Without registers for masks (AVX-512) a choice and a
plain store are better.
"""

from __future__ import annotations

from typing import Final

from .instructions import Function
from .values import scalar_of

# The elements of which AVX stores vectors with a mask.
_ELEMENTS: Final = ("i32", "i64", "float", "double")


def stored_choices(function: Function) -> set[int]:
    """The numbers of the selections between vectors that are stored where one of the two was loaded from."""
    found: set[int] = set()
    for block in function.blocks:
        loaded: dict[int, int] = {}  # what was loaded -> where from
        choices: dict[int, tuple[int, int]] = {}
        for code, result, operands, _, __ in block.instructions:
            if code == "store":
                value, address = operands
                if any(loaded.get(n) == address.number for n in choices.get(value.number, ())):
                    found.add(value.number)
            elif result is None or result.type[0] != "<" or scalar_of(result.type) not in _ELEMENTS:
                continue
            elif code == "load":
                loaded[result.number] = operands[0].number
            elif code == "select":
                choices[result.number] = operands[1].number, operands[2].number
    return found


__all__ = ["stored_choices"]
