"""Where a selection by positions leaves an array as it is.

``select(condition, x, y)`` reads ``x`` where the condition holds, and a condition on positions (a comparison of iotas,
or several joined by "and") says where that is before anything is computed. Behind those that are understood here lie
bounds on ``row - column`` and on ``column``; other conditions bound nothing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Final

from ...ir import hlo
from ..llvm_ir import Builder, Value, i64

_FAR: Final = 1 << 40  # no position is as far away
_LARGE: Final = 1 << 28  # numbers in conditions that are less can be added without wrapping around

_OPPOSITE: Final = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "EQ": "NE", "NE": "EQ"}


@dataclass(slots=True)
class Ranges:
    """The elements in row i and column j for which ``least <= i - j <= most`` and ``first <= j < stop``."""

    least: int = -_FAR
    most: int = _FAR
    first: int = -_FAR
    stop: int = _FAR

    @property
    def any(self) -> bool:
        """Whether there are bounds at all."""
        return (self.least, self.most, self.first, self.stop) != (-_FAR, _FAR, -_FAR, _FAR)

    def columns(self, b: Builder, top: Value, last: Value, n: int) -> tuple[Value, Value]:
        """From which column on, and up to which, the rows [top, last] have elements; the first may be behind."""
        low: Value = i64(max(0, self.first))
        high: Value = i64(min(n, self.stop))
        if self.most != _FAR:
            low = b.intrinsic("smax", [low, b.sub(top, i64(self.most))])
        if self.least != -_FAR:
            high = b.intrinsic("smin", [high, b.add(last, i64(1 - self.least))])
        high = b.intrinsic("smax", [high, i64(0)])
        return b.intrinsic("smin", [low, i64(n)]), high

    def share(self, m: int, n: int) -> float:
        """About the part of all elements of m rows and n columns that is inside: 1 where there are no elements."""
        if not self.any or m == 0 or n == 0:
            return 1.0
        total = 0
        rows = range(0, m, max(1, m // 64))
        for i in rows:
            low = max(0, self.first, i - self.most)
            high = min(n, self.stop, i - self.least + 1)
            total += max(0, high - low)
        return max(total / (len(rows) * n), 1.0 / n)

    def hull(self, other: Ranges) -> Ranges:
        """Ranges that hold what is in either."""
        return Ranges(
            min(self.least, other.least),
            max(self.most, other.most),
            min(self.first, other.first),
            max(self.stop, other.stop),
        )


def ranges_read(array: hlo.Instruction, body: hlo.Computation) -> Ranges:
    """The ranges (rows and columns are the last two dimensions) outside of which no result of ``body`` depends on
    ``array``, where what is computed from it is elementwise.
    """
    rank = len(array.dims)
    dims = tuple(range(rank))
    read = {array: Ranges()}  # of what depends on the array

    def branch(condition: hlo.Instruction, value: hlo.Instruction, truth: bool) -> Ranges | None:
        if value not in read:
            return None
        ranges = replace(read[value])
        Bounds(ranges, rank - 2, rank - 1).add(condition, dims, truth)
        return ranges

    for i in body.instructions:
        if i is array or read.keys().isdisjoint(i.operands):
            continue
        if i.opcode == "select" and i.operands[0] not in read and i.operands[0].dims == array.dims:
            condition, yes, no = i.operands
            found = [branch(condition, yes, True), branch(condition, no, False)]
        else:
            found = [read.get(o) for o in i.operands]
        read[i] = functools.reduce(Ranges.hull, (ranges for ranges in found if ranges is not None))
    results = [read[root] for root in body.results if root in read]
    return functools.reduce(Ranges.hull, results, results[0]) if results else Ranges()


# A number that is a * row + b * column + c.
Linear = tuple[int, int, int]
# For each dimension of an instruction the dimension of the whole that it is, or None.
Axes = tuple[int | None, ...]


class Bounds:
    """Narrows ``ranges`` by conditions on dimensions ``row`` (-1: none) and ``column``."""

    def __init__(self, ranges: Ranges, row: int, column: int) -> None:
        self.ranges, self.row, self.column = ranges, row, column

    def add(self, i: hlo.Instruction, axes: Axes, truth: bool) -> None:
        """Take in what follows from ``i`` being ``truth``."""
        inner = inside(i, axes)
        if inner is not None:
            self.add(*inner, truth)
        elif i.opcode == "not":
            self.add(i.operands[0], axes, not truth)
        elif i.opcode == ("and" if truth else "or"):
            for operand in i.operands:
                self.add(operand, axes, truth)
        elif i.opcode == "compare" and i.attributes["comparison_type"] == "SIGNED":
            direction = i.attributes["direction"]
            left, right = (self.linear(o, axes) for o in i.operands)
            if left is not None and right is not None:
                difference = tuple(x - y for x, y in zip(left, right, strict=True))
                self.compare(difference, direction if truth else _OPPOSITE[direction])

    def compare(self, difference: tuple[int, ...], direction: str) -> None:
        """``difference`` compared with 0 holds."""
        a, b, c = difference
        if direction in ("LT", "LE"):
            a, b, c, direction = -a, -b, -c, "GT" if direction == "LT" else "GE"
        if direction == "GT":
            c, direction = c - 1, "GE"
        if direction == "EQ":
            self.compare((a, b, c), "GE")
            self.compare((a, b, c), "LE")
        if direction != "GE":
            return
        ranges = self.ranges
        if (a, b) == (1, -1):
            ranges.least = max(ranges.least, -c)
        elif (a, b) == (-1, 1):
            ranges.most = min(ranges.most, c)
        elif (a, b) == (0, 1):
            ranges.first = max(ranges.first, -c)
        elif (a, b) == (0, -1):
            ranges.stop = min(ranges.stop, c + 1)

    def linear(self, i: hlo.Instruction, axes: Axes) -> Linear | None:
        """``i`` as a number that positions determine."""
        inner = inside(i, axes)
        if inner is not None:
            return self.linear(*inner)
        if not i.dtype.is_integer or not i.dtype.is_signed or i.dtype.bits < 32:
            return None
        result: Linear | None = None
        if i.opcode == "iota":
            d = i.attributes["dimension"]
            if i.dims[d] == 1:
                result = (0, 0, 0)
            elif axes[d] == self.row:
                result = (1, 0, 0)
            elif axes[d] == self.column:
                result = (0, 1, 0)
        elif i.opcode == "constant" and i.elements == 1:
            result = (0, 0, int(i.attributes["literal"].reshape(-1)[0]))
        elif i.opcode == "convert" and i.operands[0].dtype.is_integer:
            result = self.linear(i.operands[0], axes)
        elif i.opcode in ("add", "subtract"):
            x, y = (self.linear(o, axes) for o in i.operands)
            if x is not None and y is not None:
                sign = 1 if i.opcode == "add" else -1
                result = (x[0] + sign * y[0], x[1] + sign * y[1], x[2] + sign * y[2])
        elif i.opcode == "negate":
            part = self.linear(i.operands[0], axes)
            result = None if part is None else (-part[0], -part[1], -part[2])
        if result is None or abs(result[2]) > _LARGE or max(map(abs, result[:2])) > 4:
            return None
        return result


def inside(i: hlo.Instruction, axes: Axes) -> tuple[hlo.Instruction, Axes] | None:
    """What ``i`` has at other indices, with what their dimensions are."""
    operand = i.operands[0] if i.operands else i
    if i.opcode == "broadcast":
        return operand, tuple(axes[d] for d in i.attributes["dimensions"])
    if i.opcode == "transpose":
        inner: list[int | None] = [None] * len(axes)
        for ours, theirs in enumerate(i.attributes["dimensions"]):
            inner[theirs] = axes[ours]
        return operand, tuple(inner)
    if i.opcode == "reshape":
        kept = [a for a, size in zip(axes, i.dims, strict=True) if size != 1]
        sizes = [size for size in i.dims if size != 1]
        if sizes != [size for size in operand.dims if size != 1]:
            return None
        left = iter(kept)
        return operand, tuple(None if size == 1 else next(left) for size in operand.dims)
    return None
