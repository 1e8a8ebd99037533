"""Dots whose matrix has scales for groups of neighbours along the contracted dimension: sums are multiplied by them.

The dot's attribute ``shared_scales`` says that its matrix is integers times, or divided by, scales: which operand the
scales are, and how many neighbours share one (:mod:`...passes.library.shared_scales` says why the results are as
exact). A kernel sums a part of a group without the scale, and multiplies the sum as it adds it to the others.
Results that are not finite are computed again with the matrix as the program has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from ...ir import hlo
from ..elements.elemental import element
from ..llvm_ir import Value, lanes_of
from ..representation import Element
from .contraction_loops import Loops


class SharedScales:
    """The matrix of a dot in two parts, its integers and its scales, of which ``group`` neighbours share one."""

    def __init__(self, loops: Loops, operand: int, group: int) -> None:
        self.loops = loops
        self.group = group
        matrix = loops.sources[1]
        self.divides = matrix.opcode == "divide"
        self._scales = matrix.operands[operand]
        self._integers = matrix.operands[1 - operand]

    def part(self, multiple: int, longest: int) -> int:
        """How many neighbours are summed without the scale: a multiple of ``multiple`` that groups are whole numbers
        of, ``longest`` at most; 0 if there is none.
        """
        parts = range(longest // multiple * multiple, 0, -multiple)
        return next((p for p in parts if self.group % p == 0), 0)

    def integers_alone(self) -> AbstractContextManager[None]:
        """The dot reads the integers in the place of the matrix."""
        return self._reading(self._integers)

    def scales_alone(self) -> AbstractContextManager[None]:
        """The dot reads the scales in the place of the matrix."""
        return self._reading(self._scales)

    def add(self, total: Element, part: Element, scale: Element) -> Value:
        """``total`` plus ``part``, a vector of sums of integers, times ``scale`` or divided by it."""
        loops = self.loops
        assert isinstance(total, Value)
        assert isinstance(part, Value)
        assert isinstance(scale, Value)
        if self.divides:
            scale = loops.g.splat(scale, lanes_of(part.type))
            return loops.add(total, loops.g.builder.binary("fdiv", part, scale))
        added = loops.multiply_add(scale, part, total)
        assert isinstance(added, Value)
        return added

    @contextmanager
    def _reading(self, part: hlo.Instruction) -> Iterator[None]:
        readers, matrix = self.loops.readers, self.loops.readers[1]
        readers[1] = lambda index: element(self.loops.g, part, index)
        yield
        readers[1] = matrix


def shared_scales(loops: Loops) -> SharedScales | None:
    """The scales of a dot that has the attribute."""
    found = loops.dot.attributes.get("shared_scales")
    if found is None or loops.type != "float":
        return None
    return SharedScales(loops, *found)


def zero_if_finite(loops: Loops, value: Value) -> Value:
    """0 for a finite float, or in the lanes that are finite; NaN otherwise, which sums of these keep."""
    return loops.g.builder.binary("fsub", value, value)


def any_not_finite(loops: Loops, zeros: Value) -> Value:
    """Whether ``zeros``, a sum of :func:`zero_if_finite`, or one of its lanes is NaN."""
    b = loops.g.builder
    return b.any_lane(b.fcmp("uno", zeros, zeros))
