"""Choices between single floats without mask registers.

Where there is AVX-512, LLVM compares floats into a mask register and moves by it, which takes Zen longer than a
comparison into a vector register and a blend: much, for a loop whose every step waits for the one before. LLVM keeps
the intrinsics of SSE in vector registers.
"""

from __future__ import annotations

from typing import Final

from .builder import Builder
from .instructions import Instruction
from .values import Value, integer, poison, vector

# Of VCMPSS and VCMPSD; those that raise no exception for quiet NaNs.
_PREDICATES: Final = {
    "oeq": 0x00, "uno": 0x03, "une": 0x04, "ord": 0x07, "ueq": 0x08, "one": 0x0C, "olt": 0x11,
    "ole": 0x12, "uge": 0x15, "ugt": 0x16, "ult": 0x19, "ule": 0x1A, "oge": 0x1D, "ogt": 0x1E,
}  # fmt: skip
_FORMS: Final = {"float": (4, "sse.cmp.ss", "ps"), "double": (2, "sse2.cmp.sd", "pd")}


def without_masks(builder: Builder) -> None:
    """Rewrite every ``select`` between single floats, by a comparison of floats of their type, in the function."""
    compared: dict[int, Instruction] = {}
    for block in builder.function.blocks:
        for i in block.instructions:
            if i.code == "fcmp" and i.operands[0].type in _FORMS and i.detail in _PREDICATES:
                assert i.result is not None
                compared[i.result.number] = i
    if not compared:
        return
    for block in builder.function.blocks:
        before = block.instructions[:]
        block.instructions.clear()
        with builder.append_to(block.instructions):
            for i in before:
                comparison = compared.get(i.operands[0].number) if i.code == "select" else None
                if comparison is None or not _is_slow(comparison, i):
                    block.instructions.append(i)
                else:
                    _choose(builder, comparison, i)


def _is_slow(comparison: Instruction, select: Instruction) -> bool:
    """Whether the choice is one between single floats that is not a minimum or maximum as the machine has them."""
    type_ = comparison.operands[0].type
    _, *chosen = select.operands
    if chosen[0].type != type_:
        return False
    ordered = comparison.detail in ("olt", "ogt")
    return not (ordered and set(chosen) == set(comparison.operands))


def _choose(b: Builder, comparison: Instruction, select: Instruction) -> None:
    type_ = comparison.operands[0].type
    lanes, compare, suffix = _FORMS[type_]
    wide = vector(type_, lanes)

    def widened(value: Value) -> Value:
        return b.insert(poison(wide), value, 0)

    x, y = map(widened, comparison.operands)
    predicate = integer("i8", _PREDICATES[comparison.detail])
    mask = b.call(wide, f"llvm.x86.{compare}", [x, y, predicate])
    _, then, otherwise = select.operands
    chosen = b.call(
        wide, f"llvm.x86.sse41.blendv{suffix}", [widened(otherwise), widened(then), mask]
    )
    b.lines.append(Instruction("extractelement", select.result, (chosen, integer("i64", 0))))


__all__ = ["without_masks"]
