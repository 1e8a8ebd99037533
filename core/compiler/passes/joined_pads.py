"""A sum of arrays that are zero but for a piece of each, which do not overlap, is the pieces behind one another.

The gradient of a function that takes an array apart, x[0], x[1], ..., pads what comes back for each piece with zeros
and sums them up: n arrays of n elements for n numbers. One concatenation has each piece once.

An element of such a sum is a piece's element, the one other term that may be among the terms, and zeros. Zeros change
nothing but the sign of a zero: a sum with +0 in it is never -0. One +0 that is added in the end keeps that.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..ir.hlo import Computation, Instruction, Module, constant
from ..ir.moves import concatenate
from ..ir.patterns import constant_value, splat, splat_value
from .rewrite import map_computations, substitute

# Pieces of one concatenation: each may be code of its own.
MOST_PIECES: Final = 256


@dataclass(frozen=True)
class _Sum:
    """What a sum adds up: ``pads`` along one dimension, in the order of their places, and up to one other term."""

    dimension: int
    pads: tuple[Instruction, ...]
    other: Instruction | None = None


def join_pads(module: Module) -> Module:
    """Sums of pads that do not overlap as one concatenation of what they pad."""
    return map_computations(module, _join)


def _join(computation: Computation) -> Computation:
    if not any(_padded(i) is not None for i in computation.instructions):
        return computation
    joined = {i: _joined(i, s) for i, s in _sums(computation).items() if len(s.pads) > 1}
    return substitute(computation, joined)


def _sums(computation: Computation) -> dict[Instruction, _Sum]:
    """The sums of a computation in which pads are terms, without those that are a part of another one of them."""
    users = computation.users()
    sums: dict[Instruction, _Sum] = {}

    def term(operand: Instruction) -> _Sum | Instruction:
        dimension = _padded(operand)
        if dimension is not None:
            return _Sum(dimension, (operand,))
        read_once = len(users[operand]) == 1 and operand is not computation.root
        return sums.get(operand, operand) if read_once else operand

    for i in computation.instructions:
        if i.opcode != "add" or not i.dims or i.dtype.kind == "pred":
            continue
        terms = [term(o) for o in i.operands]
        found = _together(*terms)
        if found is not None:
            sums[i] = found
            for operand, part in zip(i.operands, terms, strict=True):
                if part is not operand:
                    sums.pop(operand, None)
    return sums


def _padded(i: Instruction) -> int | None:
    """The dimension before and behind which ``i`` has zeros, if there is just one and they are nowhere else."""
    if i.opcode != "pad" or any(i.attributes["interior"]):
        return None
    low, high = i.attributes["low"], i.attributes["high"]
    padded = [d for d, both in enumerate(zip(low, high, strict=True)) if any(both)]
    if len(padded) != 1 or min(*low, *high) < 0:
        return None
    value = constant_value(i.operands[1])
    if value is None or value != 0 or _is_negative(value):
        return None
    return padded[0]


def _is_negative(zero: np.generic) -> bool:
    """Whether a zero, or a part of a complex one, is -0."""
    if not np.issubdtype(zero.dtype, np.integer):
        wide = np.asarray(zero).astype(np.complex128)
        return bool(np.signbit(wide.real) or np.signbit(wide.imag))
    return False


def _together(first: _Sum | Instruction, second: _Sum | Instruction) -> _Sum | None:
    """The sum of two terms; None if there are no pads in them, if these overlap, or if there would be two others."""
    if isinstance(first, Instruction):
        first, second = second, first
    if isinstance(first, Instruction):
        return None
    if isinstance(second, Instruction):
        return _Sum(first.dimension, first.pads, second) if first.other is None else None
    if first.dimension != second.dimension or (first.other and second.other):
        return None
    d = first.dimension
    pads = sorted((*first.pads, *second.pads), key=lambda pad: _place(pad, d))
    if len(pads) > MOST_PIECES:
        return None
    if any(_place(a, d)[1] > _place(b, d)[0] for a, b in itertools.pairwise(pads)):
        return None
    return _Sum(d, tuple(pads), first.other or second.other)


def _place(pad: Instruction, dimension: int) -> tuple[int, int]:
    """Where what is padded begins and ends."""
    start: int = pad.attributes["low"][dimension]
    return start, start + pad.operands[0].dims[dimension]


def _joined(i: Instruction, found: _Sum) -> Instruction:
    """The sum ``i`` with its pads as one array."""
    d, end = found.dimension, 0
    pieces: list[Instruction] = []
    zero = constant(np.zeros((), i.dtype.numpy), i.dtype, i.metadata)

    def fill(stop: int) -> None:
        if end < stop:
            pieces.append(splat(zero, (*i.dims[:d], stop - end, *i.dims[d + 1 :])))

    for pad in found.pads:
        start, stop = _place(pad, d)
        fill(start)
        pieces.append(pad.operands[0])
        end = stop
    fill(i.dims[d])
    total = concatenate(pieces, d, i.metadata)
    if found.other is not None:
        total = i.replace(operands=(found.other, total))
    if i.dtype.is_integer:
        return total
    return i.derive("add", (total, splat_value(0, i)))
