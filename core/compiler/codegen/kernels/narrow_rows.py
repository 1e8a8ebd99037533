"""Loops whose last dimensions have fewer elements than a vector, and cannot be merged with the one before.

Ten classes with a bias for each, pixels of three colours that are repeated along rows, a border of one column around
rows of five: a vector along such a row is half empty, and each row takes a step. Here vectors run across the rows, in
the order of memory. A step is as many vectors as it takes until one begins with a row again, so that each lane's place
in its row is known when compiling: the elements of an operand are a few neighbours, which are read and shuffled, and
pads and concatenations know which of their pieces each lane is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from ...ir import hlo
from ..generator import Coordinate, Generator, Index, fixed
from ..llvm_ir import i64

#: Elements of rows at most.
_LONGEST: Final = 16
#: The part of a vector that a row fills at most. Longer rows take masked vectors of their own in as little time.
_PART_OF_VECTOR: Final = 3 / 8
#: Vectors of the rows of one leading place at most, if there are too few rows for a step.
_MOST_VECTORS: Final = 8
#: Operations whose operands lie along the rows of their results.
_ALONG: Final = frozenset(
    ("broadcast", "concatenate", "constant", "copy", "iota", "pad", "parameter", "reverse", "slice", "tuple")
)  # fmt: skip


class NarrowRows(NamedTuple):
    """The last dimensions of a loop, ``dims``, from dimension ``first`` on; the rows are the dimensions behind it.

    ``step``: elements of a step, a whole number of rows and of vectors of ``lanes``.
    """

    first: int
    dims: tuple[int, ...]
    lanes: int
    step: int

    @property
    def row(self) -> int:
        """Elements of a row."""
        return math.prod(self.dims[1:])

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def whole_steps(self) -> int:
        return self.elements // self.step

    @property
    def steps(self) -> int:
        return -(-self.elements // self.step)

    @property
    def vectors(self) -> int:
        """Vectors that the code of a loop has, of a step and of what is left behind the last one."""
        left = self.elements % self.step
        written = self.step if self.whole_steps else 0
        return written // self.lanes + left // self.lanes + (left % self.lanes).bit_count()


def narrow_rows_of(
    roots: Sequence[hlo.Instruction], lanes: int, seams: Callable[[int], Sequence[int]]
) -> NarrowRows | None:
    """How the rows of a loop are put into vectors across them; None where they are long enough, or too few.

    ``seams``: the places along a dimension at which other code would begin.
    """
    dims = roots[0].dims
    if len(dims) < 2 or not 1 < dims[-1] <= _PART_OF_VECTOR * lanes:
        return None
    first, row = len(dims) - 2, dims[-1]
    step = math.lcm(row, lanes)
    while dims[first] * row < step and first > 0 and dims[first] * row <= _LONGEST:
        row *= dims[first]
        first -= 1
        step = math.lcm(row, lanes)
    found = NarrowRows(first, dims[first:], lanes, step)
    if found.elements < step and not 2 * lanes <= found.elements <= _MOST_VECTORS * lanes:
        return None
    computed = hlo.topological_order(roots)
    if seams(first) or not all(_lies_along(i, dims[first]) for i in computed):
        return None
    # Bytes and words are shuffled among many lanes, which takes longer than masked vectors of short rows.
    moved = [i for i in computed if i in roots or i.opcode == "parameter"]
    return None if any(i.dtype.bits < 32 and i.dims for i in moved) else found


def _lies_along(i: hlo.Instruction, rows: int) -> bool:
    """Whether the operands of ``i`` lie along its rows, so that lanes near one another read what is near."""
    if not isinstance(i.shape, hlo.Shape):
        return i.opcode == "tuple"
    if i.opcode in ("reshape", "bitcast"):
        same = 1
        for n, m in zip(reversed(i.dims), reversed(i.operands[0].dims), strict=False):
            if n != m:
                break
            same *= n
        return same >= rows or i.elements == 1
    return i.is_elementwise or i.opcode in _ALONG


def write_step(
    g: Generator, rows: NarrowRows, index: Index, element: Callable[[Index, Coordinate], None]
) -> None:
    """Write one step, whose number is the last coordinate of ``index``. ``element(index, place)`` writes a vector, or
    one element: ``place`` is where it begins among all elements of the rows.
    """
    leading, step = index[:-1], index[-1]

    def vectors(row: Coordinate, count: int) -> None:
        start = g.scale(row, rows.row)
        at, width = 0, rows.lanes
        while at < count:
            while width > count - at:
                width //= 2
            place = g.shift(start, at)
            within = _within(g, rows, row, at, width)
            element((*leading, *within), place._replace(stride=int(width > 1), lanes=width))
            at += width

    def whole() -> None:
        number = step._replace(high=max(rows.whole_steps - 1, 0))
        vectors(g.scale(number, rows.step // rows.row), rows.step)

    def left() -> None:
        done = rows.whole_steps * rows.step
        vectors(fixed(done // rows.row), rows.elements - done)

    if rows.whole_steps == rows.steps:
        whole()
    elif rows.whole_steps == 0:
        left()
    else:
        condition = g.compare("slt", step.base, i64(rows.whole_steps))
        g.either(condition, whole, left, ("step", "left", "row"))


def _within(
    g: Generator, rows: NarrowRows, row: Coordinate, at: int, width: int
) -> tuple[Coordinate, ...]:
    """The index in ``rows.dims`` of ``width`` lanes, ``at`` elements behind the beginning of ``row``."""
    outer, inner = np.divmod(np.arange(at, at + width), rows.row)
    parts = np.unravel_index(inner, rows.dims[1:])
    return (
        g.spread(row, [int(n) for n in outer], rows.dims[0]),
        *(
            g.spread(fixed(0), [int(n) for n in part], size)
            for part, size in zip(parts, rows.dims[1:], strict=True)
        ),
    )
