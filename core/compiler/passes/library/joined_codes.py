"""Parts that are computed alike of one array and joined, as one computation of it: two codes of a byte.

    concatenate(w & 15, w >> 4)  ->  (broadcast(w) >> [0, 4]) & 15

Programs that keep two weights of four bits in a byte take them apart one by one and join them by a concatenation or a
stack, which is an array in memory. Written as one shift by an array of constants they are what other programs have, and
a product computes them where it reads the bytes (:mod:`.weights`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...ir.hlo import Instruction, Shape, broadcast, constant
from ...ir.patterns import reshape
from ...ir.ranges import Range, range_of
from ...ir.registry import OPS

_MOST_PARTS: Final = 8
_DEEPEST: Final = 12
# Neighbours of a part that are whole vectors of any CPU.
_RUN: Final = 64
# Operations that leave a number as it is for some second operand, in the order in which they are looked for: a mask
# last of all, which says that the number is four bits of a word.
_SHIFTS: Final = ("shift-right-logical", "shift-right-arithmetic", "shift-left")
_NEUTRAL: Final = ("and", "subtract", "add", *_SHIFTS)

Parts = tuple[Instruction, ...]


def joined_codes(i: Instruction, *, side_by_side: bool = False) -> Instruction | None:
    """A ``concatenate`` of parts of one size as elementwise operations on the arrays that all of them are computed of,
    and on constants; None if they are computed in other ways. ``side_by_side``: only if it is a stack, whose codes of a
    byte are in one row or in neighbouring ones: a matrix that is read once would read each byte twice otherwise.
    """
    sizes = {o.dims for o in i.operands}
    if i.opcode != "concatenate" or not i.dtype.is_integer or len(sizes) != 1:
        return None
    if not 2 <= len(i.operands) <= _MOST_PARTS:
        return None
    place = i.attributes["dimension"]
    (dims,) = sizes
    if side_by_side and dims[place] != 1:
        return None
    if place == len(dims) - 1 and dims[place] > 1 and dims[place] % _RUN:
        return None  # vectors would have numbers of two parts
    before = [d for d in dims[:place] if d != 1]
    after = [d for d in dims[place:] if d != 1]
    joined = _Joined((*before, len(i.operands), *after), len(before))
    made = joined.value(i.operands, _DEEPEST)
    return None if made is None else reshape(made, i.dims)


class _Joined:
    """Arrays of ``dims``, in which the parts are places of dimension ``axis``."""

    def __init__(self, dims: tuple[int, ...], axis: int) -> None:
        self.dims, self.axis = dims, axis
        self.kept = tuple(d for d in range(len(dims)) if d != axis)
        self.done: dict[Parts, Instruction | None] = {}

    def value(self, parts: Sequence[Instruction], deepest: int) -> Instruction | None:
        """The parts in one array."""
        key = tuple(_without_reshapes(p) for p in parts)
        if key not in self.done:
            self.done[key] = self._value(key, deepest)
        return self.done[key]

    def _value(self, parts: Parts, deepest: int) -> Instruction | None:
        first = parts[0]
        if deepest == 0 or len({p.dtype for p in parts}) > 1:
            return None
        numbers = [_number(p) for p in parts]
        known = [n for n in numbers if n is not None]
        if len(known) == len(parts):
            return self.numbers(known, first)
        if all(p is first for p in parts) and not _is_computed(first):
            sizes = tuple(self.dims[d] for d in self.kept)
            return first.derive(
                "broadcast",
                (reshape(first, sizes),),
                {"dimensions": self.kept},
                shape=Shape(first.dtype, self.dims),
            )
        if all(_is_computed(p) and p.opcode == first.opcode for p in parts):
            made = self.computed(parts, first, deepest)
            if made is not None:
                return made
        for opcode in _NEUTRAL:
            if any(p.opcode == opcode for p in parts):
                return self.neutral(parts, opcode, deepest)
        return None

    def computed(self, parts: Parts, first: Instruction, deepest: int) -> Instruction | None:
        """Parts that the same operation gives."""
        if any(p.attributes != first.attributes for p in parts):
            return None
        operands = []
        for operand in zip(*(p.operands for p in parts), strict=True):
            made = self.value(operand, deepest - 1)
            if made is None:
                return None
            operands.append(made)
        return first.replace(shape=Shape(first.dtype, self.dims), operands=operands)

    def neutral(self, parts: Parts, opcode: str, deepest: int) -> Instruction | None:
        """Parts of which some are the result of ``opcode`` with a number: the others are with a number that changes
        nothing.
        """
        first = next(p for p in parts if p.opcode == opcode)
        if not first.dtype.is_integer:
            return None
        values, numbers = [], []
        for part in parts:
            number = _number(part.operands[1]) if part.opcode == opcode else None
            if part.opcode == opcode and number is None:
                return None
            values.append(part if number is None else part.operands[0])
            numbers.append(number)
        given = {n for n in numbers if n is not None}
        for n, part in enumerate(parts):
            if numbers[n] is None:
                numbers[n] = _unchanged(opcode, part, given)
        value = self.value(values, deepest - 1)
        if value is None:
            return None
        by = self.numbers([n for n in numbers if n is not None], first)
        shape = Shape(first.dtype, self.dims)
        return first.replace(shape=shape, operands=[value, by])

    def numbers(self, values: list[int], origin: Instruction) -> Instruction:
        """A number for each part."""
        dtype = origin.dtype
        if len(set(values)) == 1:
            return broadcast(constant(np.array(values[0], dtype.numpy), dtype), self.dims)
        literal = constant(np.array(values).astype(dtype.numpy), dtype)
        shape = Shape(dtype, self.dims)
        return origin.derive("broadcast", (literal,), {"dimensions": (self.axis,)}, shape=shape)


def _without_reshapes(i: Instruction) -> Instruction:
    while i.opcode in ("reshape", "bitcast"):
        i = i.operands[0]
    return i


def _is_computed(i: Instruction) -> bool:
    return i.is_elementwise and OPS[i.opcode].is_indexable and i.operands != ()


def _number(i: Instruction) -> int | None:
    """The integer that all elements of ``i`` are."""
    i = _without_reshapes(i)
    while i.opcode in ("broadcast", "reshape", "bitcast"):
        i = i.operands[0]
    if i.opcode != "constant" or i.elements != 1 or not i.dtype.is_integer:
        return None
    return int(np.asarray(i.attributes["literal"]).reshape(()))


def _unchanged(opcode: str, part: Instruction, given: set[int]) -> int:
    """The number with which ``opcode`` leaves ``part`` as it is: of masks, one that is ``given`` if that does."""
    if opcode != "and":
        return 0
    for mask in given:
        found = range_of(part)
        if mask > 0 and mask & (mask + 1) == 0 and found.within(Range(0, mask)):
            return mask
    return -1
