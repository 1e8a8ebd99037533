"""Views: which dimension of a pattern each dimension of an array is, through transposes and dimensions of size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir import dtypes
from ...ir.hlo import Instruction
from ...ir.patterns import squeezed

FLOATS: Final = frozenset((dtypes.F16, dtypes.BF16, dtypes.F32, dtypes.F64))

# For each dimension of an array its label, a dimension of the pattern; None for dimensions of size 1.
View = tuple[int | None, ...]


def own(i: Instruction) -> View:
    return tuple(None if size == 1 else d for d, size in enumerate(i.dims))


def spread(dims: Sequence[int], labels: Sequence[int]) -> View:
    """``labels`` for the dimensions of ``dims`` that are not of size 1."""
    left = iter(labels)
    return tuple(None if size == 1 else next(left) for size in dims)


def labels_of(view: View) -> tuple[int, ...]:
    return tuple(label for label in view if label is not None)


def is_rounding(i: Instruction) -> bool:
    return i.opcode == "convert" and i.dtype in FLOATS and i.operands[0].dtype in FLOATS


def step(i: Instruction, view: View) -> tuple[Instruction, View] | None:
    """What ``i`` is but for the order of its dimensions and for some of size 1, with its view."""
    if i.opcode == "copy":
        return i.operands[0], view
    if i.opcode == "reshape" and squeezed(i.dims) == squeezed(i.operands[0].dims):
        return i.operands[0], spread(i.operands[0].dims, labels_of(view))
    if i.opcode == "transpose":
        inner: list[int | None] = [None] * len(view)
        for ours, theirs in enumerate(i.attributes["dimensions"]):
            inner[theirs] = view[ours]
        return i.operands[0], tuple(inner)
    return None


def peel(i: Instruction, view: View, roundings: bool = True) -> tuple[Instruction, View]:
    while True:
        if roundings and is_rounding(i):
            i = i.operands[0]
            continue
        inner = step(i, view)
        if inner is None:
            return i, view
        i, view = inner
