"""Fourier transforms along another dimension than the last, which read and write their numbers where they lie.

The op transforms the last dimensions alone, and frameworks bring another one there: ``jnp.fft.fft(x, axis=0)`` is
transpose(fft(transpose(x))). The kernel of a transform goes over its operand and its result by strides of their own, so
that it does without the transposes before and behind it, or without the only one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...ir.hlo import Computation, Instruction, Shape, strides_of
from .. import rewrite
from .fft import Line, Plans, strided

if TYPE_CHECKING:
    from ...targets.target import Target

_FLOATS: Final = frozenset(["f32", "f64", "c64", "c128"])


def fold_transposes(computation: Computation, target: Target) -> Computation:
    """``computation`` with transforms that do without transposes, where that takes less time on ``target``."""
    if not target.packs_products or not any(i.opcode == "fft" for i in computation.instructions):
        return computation
    found: dict[Instruction, Instruction] = {}  # what is replaced, and the transform that it is of
    users = computation.users()
    for fft in computation.instructions:
        if fft.opcode != "fft" or not _may_be_strided(fft):
            continue
        behind = users[fft][0] if _has_one_reader(fft, users[fft], computation) else fft
        is_moved = behind.opcode == "transpose"
        if is_moved or fft.operands[0].opcode == "transpose":
            found[behind if is_moved else fft] = fft
    if not found:
        return computation
    originals = iter(computation.instructions)

    def rule(instruction: Instruction) -> Instruction | None:
        original = next(originals)  # sweep gives every instruction once, in order
        if original not in found:
            return None
        if found[original] is original:
            return _strided(instruction, None, target)
        return _strided(instruction.operands[0], instruction, target)

    return rewrite.sweep(computation, rule, repeat=False)


def _may_be_strided(fft: Instruction) -> bool:
    return (
        fft.operands[0].dtype.name in _FLOATS
        and len(fft.attributes["fft_length"]) == 1
        and 0 not in (*fft.dims, *fft.attributes["fft_length"])
    )


def _has_one_reader(
    fft: Instruction, readers: Sequence[Instruction], computation: Computation
) -> bool:
    return len(readers) == 1 and fft is not computation.root


def _strided(fft: Instruction, behind: Instruction | None, target: Target) -> Instruction | None:
    """The kernel that ``fft`` becomes with the transposes before and ``behind`` it. None where it takes as long."""
    kind: str = fft.attributes["fft_type"]
    (n,), (operand,) = fft.attributes["fft_length"], fft.operands
    rows = math.prod(fft.dims[:-1])
    plans = Plans(target, operand.dtype.component.size)
    before = operand if operand.opcode == "transpose" else None
    moved = plans.moved(rows * n if kind in ("FFT", "IFFT") else rows * n // 2)
    apart = plans.along_last(kind, n, rows)
    apart += moved * sum(transpose is not None for transpose in (before, behind))
    lines, steps = _places(fft, before, behind)
    if plans.strided(kind, lines, steps)[0] >= apart:
        return None
    x = operand if before is None else before.operands[0]
    shape = fft.shape if behind is None else behind.shape
    assert isinstance(shape, Shape)
    return strided(fft, x, shape, lines, steps, target)


def _places(
    fft: Instruction, before: Instruction | None, behind: Instruction | None
) -> tuple[list[Line], Line]:
    """Where the transforms of ``fft`` lie, and the numbers of each, if it reads what is ``before`` that transpose, and
    writes what is ``behind`` this one.
    """
    source, target = strides_of(fft.operands[0].dims), strides_of(fft.dims)
    if before is not None:
        strides = strides_of(before.operands[0].dims)
        source = [strides[d] for d in before.attributes["dimensions"]]
    if behind is not None:
        order, strides = behind.attributes["dimensions"], strides_of(behind.dims)
        target = [strides[order.index(d)] for d in range(len(order))]
    *outer, _ = map(Line, source, target, fft.dims)
    return _merged(outer), Line(source[-1], target[-1], *fft.attributes["fft_length"])


def _merged(lines: Sequence[Line]) -> list[Line]:
    """The lines, the longest strides first, with those that are one in the operand and in the result."""
    merged: list[Line] = []
    for line in sorted((line for line in lines if line.size > 1), reverse=True):
        last = merged[-1] if merged else None
        if last and (last.source, last.target) == (
            line.source * line.size,
            line.target * line.size,
        ):
            merged[-1] = Line(line.source, line.target, last.size * line.size)
        else:
            merged.append(line)
    return merged or [Line(1, 1, 1)]
