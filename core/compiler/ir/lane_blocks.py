"""Blocks of a transpose that are turned about in registers, for transposes that no single dimension fills a vector of.

A transpose is taken apart into digits of places: dimensions, or runs of them that stay neighbours, with their strides
in the operand and in the result; those of two, four, ... elements into bits. A vector of the operand has the operand's
last bits, a vector of the result has the result's. All these together are a block. A vector is read for each value of
those bits that are not the operand's last; they change places, one by one, with those that are not the result's last,
between registers and lanes; and as many vectors are written. Every vector is one run of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from .hlo import Instruction, strides_of


class Digit(NamedTuple):
    """A dimension of the result, or several that lie in one run in the operand. Strides are in elements."""

    size: int
    source: int
    target: int


class LaneBlocks(NamedTuple):
    """``read``, ``written``: the bits of a vector of the operand, and of the result, the nearest elements last.
    ``outer``: the digits that are not of a block, in the result's order.
    """

    read: tuple[Digit, ...]
    written: tuple[Digit, ...]
    outer: tuple[Digit, ...]

    @property
    def lanes(self) -> int:
        return 1 << len(self.read)

    @property
    def between_registers(self) -> tuple[Digit, ...]:
        """The result's bits that tell the registers of a block apart when it is read."""
        return tuple([bit for bit in self.written if bit not in self.read])

    @property
    def leaving(self) -> tuple[Digit, ...]:
        """The bits of a vector of the operand that tell the registers apart when the block is written."""
        return tuple([bit for bit in self.read if bit not in self.written])


def digits(transpose: Instruction) -> list[Digit]:
    """The result's dimensions of more than one element, neighbours in the operand taken together."""
    dims = transpose.operands[0].dims
    sources, targets = strides_of(dims), strides_of(transpose.dims)
    found: list[Digit] = []
    for place, d in enumerate(transpose.attributes["dimensions"]):
        if dims[d] == 1:
            continue
        digit = Digit(dims[d], sources[d], targets[place])
        if found and found[-1].source == digit.size * digit.source:
            digit = digit._replace(size=digit.size * found.pop().size)
        found.append(digit)
    return found


def places(parts: Sequence[Digit], strides: Literal["source", "target"]) -> np.ndarray:
    """Where the elements of a few of a transpose's digits are, from their first one: in the result's order, as s64."""
    found = np.zeros(1, np.int64)
    for part in parts:
        stride: int = getattr(part, strides)
        found = (found[:, None] + stride * np.arange(part.size)).ravel()
    return found


def lane_blocks(transpose: Instruction, most_lanes: int) -> LaneBlocks | None:
    """The blocks of a transpose, in vectors of up to ``most_lanes`` elements; None if vectors of four are too long."""
    parts: list[Digit] = []
    for size, source, target in digits(transpose):
        bits = (size & -size).bit_length() - 1
        if size >> bits > 1:
            parts.append(Digit(size >> bits, source << bits, target << bits))
        parts += [Digit(2, source << bit, target << bit) for bit in reversed(range(bits))]
    by_source = sorted(parts, key=lambda part: -part.source)
    count = most_lanes.bit_length() - 1
    while count >= 2:
        read, written = by_source[-count:], parts[-count:]
        if len(read) == count and all(bit.size == 2 for bit in (*read, *written)):
            inside = {*read, *written}
            outer = _joined([part for part in parts if part not in inside])
            return LaneBlocks(tuple(read), tuple(written), outer)
        count -= 1
    return None


def _joined(parts: Sequence[Digit]) -> tuple[Digit, ...]:
    """``parts``, those taken together that are neighbours in both arrays."""
    joined: list[Digit] = []
    for part in parts:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.source == part.size * part.source
            and before.target == part.size * part.target
        ):
            part = part._replace(size=part.size * joined.pop().size)
        joined.append(part)
    return tuple(joined)


__all__ = ["Digit", "LaneBlocks", "digits", "lane_blocks", "places"]
