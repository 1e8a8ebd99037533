"""How often loops run, and how their numbers go along with the steps."""

from __future__ import annotations

import operator
from typing import Final

from .hlo import Instruction, Shape

# Links of a chain of instructions from a place to the counter that it comes from.
LONGEST_CHAIN: Final = 12
_COMPARISONS: Final = {"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge}


def known_trip_count(loop: Instruction) -> int:
    """How many times a ``while`` runs if the program says so plainly, else -1.

    Known: a scalar integer state that starts at a constant, is advanced by a constant, and is
    compared with a constant.
    """
    condition, body = loop.called
    test = condition.results[0]
    if test.opcode != "compare":
        return -1
    a, b = test.operands
    direction = test.attributes["direction"]
    if a.opcode == "constant":
        a, b = b, a
        direction = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(direction, direction)
    if a.opcode != "parameter" or b.opcode != "constant" or not a.dtype.is_integer or a.dims:
        return -1
    index = a.attributes["index"]
    start = loop.operands[index]
    following = body.results[index]
    if start.opcode != "constant" or following.opcode not in ("add", "subtract"):
        return -1
    x, y = following.operands
    if x.opcode == "constant" and following.opcode == "add":
        x, y = y, x
    if x.opcode != "parameter" or x.attributes["index"] != index or y.opcode != "constant":
        return -1
    first, limit, step = (int(i.attributes["literal"][()]) for i in (start, b, y))
    if following.opcode == "subtract":
        step = -step
    return _count(first, limit, step, direction, a.dtype.bits, a.dtype.is_signed)


def _count(first: int, limit: int, step: int, direction: str, bits: int, signed: bool) -> int:
    if direction in ("LE", "GE"):
        limit += 1 if direction == "LE" else -1
    if direction in ("LT", "LE"):
        if first >= limit:
            return 0
        count = -(-(limit - first) // step) if step > 0 else -1
    elif direction in ("GT", "GE"):
        if first <= limit:
            return 0
        count = -(-(first - limit) // -step) if step < 0 else -1
    elif direction == "NE":
        distance = limit - first
        count = distance // step if step and distance % step == 0 and distance // step >= 0 else -1
    else:
        return -1
    if count < 0:
        return -1
    last = first + count * step  # the comparison is only right if the counter never wraps
    low, high = bounds(bits, signed)
    return count if low <= last <= high else -1


def bounds(bits: int, signed: bool) -> tuple[int, int]:
    """The smallest and the largest integer of so many bits."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


# An integer that is first + t * slope in step t: (first, slope).
Line = tuple[int, int]


class Steps:
    """The scalar integers in the body of a ``while`` that are lines: that grow by the same number with each of its
    ``count`` steps. One that leaves the range of its dtype in a step is not a line.
    """

    def __init__(self, loop: Instruction, count: int) -> None:
        self.loop, self.count = loop, count
        self.known: dict[Instruction, Line | None] = {}

    def line(self, value: Instruction) -> Line | None:
        """The line that an instruction of the body is, if it is one that is plain to see."""
        return self._line(value, LONGEST_CHAIN)

    def stays_in(self, value: Instruction, low: int, high: int) -> bool:
        """Whether an instruction is a line of numbers from ``low`` to ``high``."""
        line = self.line(value)
        return line is not None and all(low <= end <= high for end in self._ends(line))

    def chosen(self, select: Instruction) -> Instruction | None:
        """What a select gives in all steps, if its predicate compares two lines, always with the same result."""
        return self._chosen(select, LONGEST_CHAIN)

    def _line(self, value: Instruction, links: int) -> Line | None:
        if value in self.known:
            return self.known[value]
        if not links or not isinstance(value.shape, Shape) or value.dims:
            return None
        found = self._found(value, links - 1) if value.dtype.is_integer else None
        if found is not None:
            low, high = bounds(value.dtype.bits, value.dtype.is_signed)
            if not all(low <= end <= high for end in self._ends(found)):
                found = None
        self.known[value] = found
        return found

    def _ends(self, line: Line) -> Line:
        """The numbers of the first and of the last step."""
        first, slope = line
        return first, first + slope * (self.count - 1)

    def _found(self, value: Instruction, links: int) -> Line | None:
        opcode = value.opcode
        if opcode == "constant":
            return int(value.attributes["literal"][()]), 0
        if opcode == "parameter":
            return self._state(value)
        if opcode == "select":
            chosen = self._chosen(value, links)
            return None if chosen is None else self._line(chosen, links)
        if opcode not in ("add", "subtract", "multiply", "negate", "convert"):
            return None
        lines = [self._line(o, links) for o in value.operands]
        known = [line for line in lines if line is not None]
        if len(known) < len(lines):
            return None
        if opcode == "convert":
            return known[0]
        if opcode == "negate":
            first, slope = known[0]
            return -first, -slope
        (a, by_a), (b, by_b) = known
        if opcode == "add":
            return a + b, by_a + by_b
        if opcode == "subtract":
            return a - b, by_a - by_b
        return None if by_a and by_b else (a * b, a * by_b + b * by_a)

    def _state(self, p: Instruction) -> Line | None:
        """A state that begins at a constant, and stays or is advanced by a constant."""
        n = p.attributes["index"]
        start, following = self.loop.operands[n], self.loop.called[1].results[n]
        if start.opcode != "constant":
            return None
        first = int(start.attributes["literal"][()])
        if following is p:
            return first, 0
        if following.opcode not in ("add", "subtract"):
            return None
        x, y = following.operands
        if y is p and following.opcode == "add":
            x, y = y, x
        if x is not p or y.opcode != "constant":
            return None
        by = int(y.attributes["literal"][()])
        return first, -by if following.opcode == "subtract" else by

    def _chosen(self, select: Instruction, links: int) -> Instruction | None:
        predicate, yes, no = select.operands
        if predicate.opcode != "compare":
            return None
        lines = [self._line(o, links) for o in predicate.operands]
        if lines[0] is None or lines[1] is None:
            return None
        (a, by_a), (b, by_b) = lines[0], lines[1]
        compare = _COMPARISONS.get(predicate.attributes["direction"])
        if compare is None:
            return None
        # A line crosses zero once, so that its ends tell of all steps.
        ends = [compare(end, 0) for end in self._ends((a - b, by_a - by_b))]
        if ends[0] != ends[1]:
            return None
        return yes if ends[0] else no
