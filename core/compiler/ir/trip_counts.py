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
# The fusions that an instruction lies in, the outermost first; none if it is one of the loop's body itself.
Around = tuple[Instruction, ...]
# These have the values of their operand.
_NAMES: Final = ("bitcast", "reshape", "copy", "convert")


class Steps:
    """The single integers in the body of a ``while``, and in its fusions, that are lines: that grow by the same number
    with each of its ``count`` steps. One that leaves the range of its dtype in a step is not a line.
    """

    def __init__(self, loop: Instruction, count: int) -> None:
        self.loop, self.count = loop, count
        self.known: dict[tuple[Instruction, Around], Line | None] = {}

    def line(self, value: Instruction, around: Around = ()) -> Line | None:
        """The line that ``value`` is, if it is one that is plain to see."""
        return self._line(value, around, LONGEST_CHAIN)

    def stays_in(self, value: Instruction, low: int, high: int, around: Around = ()) -> bool:
        """Whether ``value`` is a line of numbers from ``low`` to ``high``."""
        line = self.line(value, around)
        return line is not None and all(low <= end <= high for end in self._ends(line))

    def chosen(self, select: Instruction) -> Instruction | None:
        """What a select of the body gives in all steps, if its predicate compares two lines, always with the same
        result.
        """
        return self._chosen(select, (), LONGEST_CHAIN)

    def _line(self, value: Instruction, around: Around, links: int) -> Line | None:
        key = value, around
        if key in self.known:
            return self.known[key]
        if not links or not isinstance(value.shape, Shape) or value.elements != 1:
            return None
        found = self._found(value, around, links - 1) if value.dtype.is_integer else None
        if found is not None:
            low, high = bounds(value.dtype.bits, value.dtype.is_signed)
            if not all(low <= end <= high for end in self._ends(found)):
                found = None
        self.known[key] = found
        return found

    def _ends(self, line: Line) -> Line:
        """The numbers of the first and of the last step."""
        first, slope = line
        return first, first + slope * (self.count - 1)

    def _found(self, value: Instruction, around: Around, links: int) -> Line | None:
        opcode = value.opcode
        if opcode == "constant":
            return _number(value), 0
        if opcode == "parameter":
            if not around:
                return self._state(value)
            *outer, fusion = around
            return self._line(fusion.operands[value.attributes["index"]], tuple(outer), links)
        inside, fusions = _inside(value)
        if fusions:
            return self._line(inside, around + fusions, links)
        if opcode == "select":
            chosen = self._chosen(value, around, links)
            return None if chosen is None else self._line(chosen, around, links)
        if opcode not in ("add", "subtract", "multiply", "negate", *_NAMES):
            return None
        lines = [self._line(o, around, links) for o in value.operands]
        known = [line for line in lines if line is not None]
        if len(known) < len(lines):
            return None
        if opcode in _NAMES:
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
        if following is p:
            return _number(start), 0
        inside, fusions = _inside(following)
        if inside.opcode not in ("add", "subtract"):
            return None
        x, y = (_outside(o, fusions) for o in inside.operands)
        if y is p and inside.opcode == "add":
            x, y = y, x
        if x is not p or y.opcode != "constant":
            return None
        by = _number(y)
        return _number(start), -by if inside.opcode == "subtract" else by

    def _chosen(self, select: Instruction, around: Around, links: int) -> Instruction | None:
        predicate, yes, no = select.operands
        if predicate.opcode != "compare":
            return None
        lines = [self._line(o, around, links) for o in predicate.operands]
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


def _number(value: Instruction) -> int:
    """The integer that a constant of one element is."""
    return int(value.attributes["literal"].item())


def _inside(value: Instruction) -> tuple[Instruction, Around]:
    """What computes a result of a fusion, and the fusion; else ``value`` itself."""
    fusion, number = value, 0
    if value.opcode == "get-tuple-element":
        fusion, number = value.operands[0], value.attributes["index"]
    if fusion.opcode != "fusion":
        return value, ()
    return fusion.called[0].results[number], (fusion,)


def _outside(value: Instruction, around: Around) -> Instruction:
    """The operand of a fusion that ``value`` in it is; else ``value`` itself."""
    if not around or value.opcode != "parameter":
        return value
    operand: Instruction = around[-1].operands[value.attributes["index"]]
    return operand
