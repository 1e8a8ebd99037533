"""Conversions between floats that LLVM must not see.

It would lose signs of zeros: of ``select (fcmp ogt x, 0), 0, (fpext x)`` LLVM's InstCombine makes
``fpext (select (fcmp oge x, 0), 0, x)``, so that -0 becomes 0. Where a comparison with zero (``ogt``, ``olt``, ``ugt``
or ``ult``) chooses between 0 and a conversion of the number that is compared, it takes the choice for a minimum or
maximum of which any zero will do (LLVM 14 to 22.1). It finds the 0 through nested choices, negated conditions and
conversions of integers too, and it compares ``x`` where the program compares ``fpext x``. Where it cannot see the
conversion, it leaves the choice alone.

And it would call a function that is not there: of ``fptrunc (copysign x, (fptrunc y))``, and of ``frem``, which it
computes by that, it makes ``copysign (fptrunc x), y``, and rounds ``y`` for it. A double becomes a half by a function
of the compiler's runtime library.
"""

from __future__ import annotations

from typing import Final

from .instructions import Function
from .values import scalar_of

CONVERSIONS: Final = ("fpext", "fptrunc")
_STRICT: Final = ("ogt", "olt", "ugt", "ult")
_OTHER: Final = 0  # a number that no conversion has


def hidden_conversions(function: Function) -> set[int]:
    """The numbers of the conversions between floats of which a comparison chooses one or something else, and of those
    whose sign another number takes.
    """
    compared: set[int] = set()  # comparisons of floats, and truth values and integers made of them
    strict: set[int] = set()  # of them the comparisons by "greater" and "less"
    # Of conversions and of what comparisons choose: the conversions that it may be, and _OTHER.
    outcomes: dict[int, set[int]] = {}
    found: set[int] = set()
    for block in function.blocks:
        for code, result, operands, _, detail in block.instructions:
            if result is None:
                continue
            if code in CONVERSIONS:
                # What is chosen may be a constant, which LLVM converts.
                is_chosen = operands[0].number in outcomes
                outcomes[result.number] = {result.number} | ({_OTHER} if is_chosen else set())
            elif code == "fcmp" or (
                scalar_of(result.type)[0] == "i" and any(o.number in compared for o in operands)
            ):
                compared.add(result.number)
                if detail in _STRICT:
                    strict.add(result.number)
            elif code == "select" and operands[0].number in compared:
                chosen = {n for o in operands[1:] for n in outcomes.get(o.number, (_OTHER,))}
                outcomes[result.number] = chosen
                # As in relu: 0 comes to the front if the comparison is negated, which is not one of these four then.
                is_right = operands[0].number in strict and operands[2].is_constant
                if _OTHER in chosen and not is_right:
                    found |= chosen
            elif code == "frem":
                found |= outcomes.get(operands[0].number, set())
            elif code == "call" and detail.startswith("llvm.copysign."):
                found |= outcomes.get(operands[1].number, set())
    return found - {_OTHER}


__all__ = ["CONVERSIONS", "hidden_conversions"]
