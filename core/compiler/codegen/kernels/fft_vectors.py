"""How the "fft" kernel keeps complex numbers: in vectors that have a transform in each lane.

:class:`Vectors` knows the type and moves numbers between lanes and memory; :class:`Numbers` are complex numbers on the
stack, :class:`Lines` those of an array whose lanes are neighbours, :class:`RealLines` those that real ones are taken
for there, and :class:`Factors` the table of twiddle factors.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ...ir.dtypes import DType
from .. import llvm_ir
from ..llvm_ir import Builder, Value, i64
from ..representation import memory_type
from .butterflies import Complex
from .fft_lengths import PAGE

if TYPE_CHECKING:
    from ...targets.target import Target


# Bytes of rows whose next one a CPU fetches late. It fetches none by itself from another page.
_ROW: Final = 1 << 9
# Caches that lines are asked into (Builder.prefetch).
_NEAREST: Final = 3
_SECOND: Final = 2


@contextmanager
def loop(b: Builder, count: int) -> Iterator[Value]:
    """A loop over [0, count); none for one."""
    if count == 1:
        yield i64(0)
        return
    with b.loop(i64(0), i64(count)) as index:
        yield index


class Vectors:
    """Vectors of ``lanes`` real numbers of ``dtype``, one of each of as many transforms."""

    def __init__(self, builder: Builder, dtype: DType, lanes: int, target: Target) -> None:
        self.b = builder
        self.lanes = lanes
        self.size = dtype.size
        self.scalar = memory_type(dtype)
        self.type = llvm_ir.vector(self.scalar, lanes)
        self.line = target.costs.memory.line // self.size  # elements
        self.far = target.costs.transforms.ahead
        self.far_rows = target.costs.transforms.rows_ahead

    @property
    def zero(self) -> Value:
        return llvm_ir.zero(self.type)

    def array(self, length: int) -> Value:
        """Memory on the stack for ``length`` complex numbers of each transform."""
        return self.b.alloca(self.scalar, 2 * length * self.lanes)

    def element(self, pointer: Value, number: int) -> Value:
        """The address of an element behind ``pointer``."""
        return self.b.gep(self.scalar, pointer, i64(number))

    # ----------------------------------------------------------------------------------------------------- shuffles
    def parted(self, low: Value, high: Value, exchanged: bool) -> Complex:
        """Real and imaginary parts of numbers one after the other in two vectors."""
        re, im = low, high
        if self.lanes > 1:
            re, im = (self.b.shuffle(low, high, range(m, 2 * self.lanes, 2)) for m in (0, 1))
        return Complex(im, re) if exchanged else Complex(re, im)

    def joined(self, value: Complex, exchanged: bool) -> tuple[Value, Value]:
        """The inverse of :meth:`parted`."""
        re, im = reversed(value) if exchanged else value
        if self.lanes == 1:
            return re, im
        mask = [lane // 2 + lane % 2 * self.lanes for lane in range(2 * self.lanes)]
        return (
            self.b.shuffle(re, im, mask[: self.lanes]),
            self.b.shuffle(re, im, mask[self.lanes :]),
        )

    # ------------------------------------------------------------------------------------- squares, a line for a lane
    def read_turned(self, first: Value, apart: int, size: int, unit: int) -> list[Value]:
        """The transpose of a square of ``size`` lines of units of ``unit`` elements, which lie ``apart`` elements from
        one another in memory.

        The halves of the lines are exchanged by the loads: an x86 CPU puts a half from memory into a vector without the
        one unit that shuffles, and that unit is what limits a transpose.
        """
        half = size // 2
        if self.lanes == 2 or not half:
            places = (self.element(first, line * apart) for line in range(size))
            return self.turned([self.b.load(self.type, place, self.size) for place in places], unit)
        lines = []
        for part in (0, 1):
            halves = [self.load_half(first, line * apart, part) for line in range(size)]
            for near, far in zip(halves[:half], halves[half:], strict=True):
                lines.append(self.b.shuffle(near, far, range(self.lanes)))
        return self.turned(lines, unit, half)

    def load_half(self, first: Value, offset: int, part: int) -> Value:
        """The lower (``part`` 0) or the upper half (1) of the vector ``offset`` elements behind ``first``."""
        lanes = self.lanes // 2
        type_ = llvm_ir.vector(self.scalar, lanes)
        return self.b.load(type_, self.element(first, offset + part * lanes), self.size)

    def turned(self, lines: list[Value], unit: int, size: int | None = None) -> list[Value]:
        """The transpose of a square of units of ``unit`` elements; with ``size``, as far as lines less than that many
        from one another exchange units.
        """
        lines = list(lines)
        step = 1
        while step < (size or len(lines)):
            first, second = _exchange(len(lines), step, unit)
            for line in range(len(lines)):
                if not line & step:
                    a, c = lines[line], lines[line | step]
                    lines[line] = self.b.shuffle(a, c, first)
                    lines[line | step] = self.b.shuffle(a, c, second)
            step *= 2
        return lines

    # ------------------------------------------------------------------------------------------- elements far apart
    def gather(self, first: Value, offset: int, stride: int) -> Value:
        """Elements ``stride`` apart, one a lane."""
        b = self.b
        if self.lanes == 1:
            return b.load(self.scalar, self.element(first, offset), self.size)
        addresses = b.gep(
            self.scalar, self.element(first, offset), b.lane_offsets(self.lanes, stride)
        )
        return b.gather(self.type, addresses, self.size)

    def scatter(self, value: Value, first: Value, offset: int, stride: int) -> None:
        """The inverse of :meth:`gather`."""
        for lane in range(self.lanes):
            place = self.element(first, offset + lane * stride)
            self.b.store(self.b.extract(value, lane), place, self.size)


@functools.cache
def _exchange(size: int, step: int, unit: int) -> tuple[list[int], list[int]]:
    """Shuffles of two lines ``step`` apart that exchange the squares off the diagonal."""
    all_lanes = size * unit
    first: list[int] = []
    second: list[int] = []
    for place in range(size):
        own, other = ((place, size + (place ^ step)), (place ^ step, size + place))
        for mask, (near, far) in ((first, own), (second, other)):
            start = (far if place & step else near) * unit
            mask.extend(range(start, start + unit))
    assert len(first) == all_lanes
    return first, second


class Asked(NamedTuple):
    """Into which caches lines are asked for (``Builder.prefetch``; 0: they are not), and how many elements behind those
    of this unit the following unit has them.
    """

    caches: int = 0
    distance: int = 0


@dataclass(frozen=True)
class Ahead:
    """Into which caches a transform asks for what its following unit reads and writes (``Builder.prefetch``; 0: it does
    not). ``reads``, ``writes``: bytes of the arrays. A core waits longer for lines of large arrays than the few
    requests that it has under way hide, and fetches none by itself where a unit has some lines of every row.
    ``row``: elements of a row where rows are the units of work, 0 where neighbouring transforms are. The next group of
    columns is in the same row, so that of large arrays the next row is asked for.
    """

    vectors: Vectors
    reads: int
    writes: int
    row: int = 0

    def source(self, apart: int) -> Asked:
        """``apart``: elements from line to line of what is read at a time."""
        asked = self._asked(self.reads, apart)
        if not asked.caches and self._is_apart(apart, PAGE):
            return Asked(_NEAREST, 2 * self.vectors.lanes)
        return asked

    def target(self, apart: int) -> Asked:
        return self._asked(self.writes, apart)

    def _asked(self, size: int, apart: int) -> Asked:
        if self.row and size >= self.vectors.far_rows:
            return Asked(_SECOND, self.row)
        is_far = size >= self.vectors.far and self._is_apart(apart, _ROW)
        return Asked(_SECOND if is_far else 0, 2 * self.vectors.lanes)

    def _is_apart(self, apart: int, least: int) -> bool:
        return apart * self.vectors.size >= least


class Numbers:
    """Complex numbers on the stack, vectors of real and of imaginary parts."""

    def __init__(self, vectors: Vectors, pointer: Value) -> None:
        self.v = vectors
        self.pointer = pointer
        self.align = vectors.lanes * vectors.size

    def at(self, index: Value) -> Value:
        """The place of number ``index``."""
        b = self.v.b
        return b.gep(self.v.scalar, self.pointer, b.mul(index, i64(2 * self.v.lanes)))

    def load(self, place: Value, offset: int = 0) -> Complex:
        v = self.v
        address = [v.element(place, (2 * offset + part) * v.lanes) for part in (0, 1)]
        return Complex(*(v.b.load(v.type, a, self.align) for a in address))

    def store(self, place: Value, value: Complex, offset: int = 0) -> None:
        v = self.v
        for part in (0, 1):
            address = v.element(place, (2 * offset + part) * v.lanes)
            v.b.store(value[part], address, self.align)


class Lines:
    """Complex numbers of an array whose lanes are neighbours, ``step`` of them apart. ``ahead``: how what the
    following unit has at the same place is asked for.
    """

    def __init__(
        self,
        vectors: Vectors,
        pointer: Value,
        step: int,
        exchanged: bool,
        ahead: Asked | None = None,
    ) -> None:
        self.v = vectors
        self.pointer = pointer
        self.step = step
        self.exchanged = exchanged
        self.ahead = ahead or Asked()

    def at(self, index: Value) -> Value:
        """The place of number ``index``."""
        b = self.v.b
        return b.gep(self.v.scalar, self.pointer, b.mul(index, i64(2 * self.step)))

    def load(self, place: Value, offset: int = 0) -> Complex:
        v = self.v
        self.prefetch(place, offset)
        start = v.element(place, 2 * self.step * offset)
        low = v.b.load(v.type, start, v.size)
        high = v.b.load(v.type, v.element(start, v.lanes), v.size)
        return v.parted(low, high, self.exchanged)

    def prefetch(self, place: Value, offset: int) -> None:
        """Ask for the numbers at the same place of the following unit."""
        if not self.ahead.caches:
            return
        v = self.v
        for element in range(0, 2 * v.lanes, v.line):
            following = i64(2 * self.step * offset + self.ahead.distance + element)
            address = v.b.gep(v.scalar, place, following, inbounds=False)
            v.b.prefetch(address, locality=self.ahead.caches)

    def store(self, place: Value, value: Complex, offset: int = 0) -> None:
        v = self.v
        self.prefetch(place, offset)
        start = v.element(place, 2 * self.step * offset)
        low, high = v.joined(value, self.exchanged)
        v.b.store(low, start, v.size)
        v.b.store(high, v.element(start, v.lanes), v.size)


class RealLines(Lines):
    """Complex numbers that real ones are taken for, in a real array whose lanes are neighbours, ``step`` elements from
    one number of a transform to the next: pairs of those (``pairs``), or single ones with zeros.
    """

    def __init__(
        self, vectors: Vectors, pointer: Value, step: int, ahead: Asked, *, pairs: bool
    ) -> None:
        super().__init__(vectors, pointer, step, False, ahead)
        self.parts = 2 if pairs else 1

    def at(self, index: Value) -> Value:
        b = self.v.b
        return b.gep(self.v.scalar, self.pointer, b.mul(index, i64(self.parts * self.step)))

    def load(self, place: Value, offset: int = 0) -> Complex:
        v = self.v
        found = [v.b.load(v.type, a, v.size) for a in self.addresses(place, offset)]
        return Complex(*found, *([v.zero] * (2 - self.parts)))

    def store(self, place: Value, value: Complex, offset: int = 0) -> None:
        """A number of an inverse transform, whose real and imaginary parts are exchanged."""
        v = self.v
        for address, part in zip(self.addresses(place, offset), reversed(value), strict=False):
            v.b.store(part, address, v.size)

    def addresses(self, place: Value, offset: int) -> list[Value]:
        """Those of the parts of a number, where the following unit's are asked for."""
        v = self.v
        places = [(self.parts * offset + part) * self.step for part in range(self.parts)]
        if self.ahead.caches:
            for following in places:
                distance = i64(following + self.ahead.distance // 2)
                address = v.b.gep(v.scalar, place, distance, inbounds=False)
                v.b.prefetch(address, locality=self.ahead.caches)
        return [v.element(place, p) for p in places]


class Factors:
    """The table of twiddle factors (:mod:`.fft_tables`), each the same in all lanes where nothing else is said."""

    def __init__(self, vectors: Vectors, pointer: Value) -> None:
        self.v = vectors
        self.pointer = pointer

    def address(self, place: Value) -> Value:
        """The address of element ``place``."""
        return self.v.b.gep(self.v.scalar, self.pointer, place)

    def load(self, address: Value, number: int = 0) -> tuple[Value, Value]:
        """Real and imaginary part of factor ``number`` behind ``address``."""
        v = self.v
        addresses = (v.element(address, 2 * number + part) for part in (0, 1))
        loaded = [v.b.load(v.scalar, a, v.size) for a in addresses]
        return v.b.splat(loaded[0], v.lanes), v.b.splat(loaded[1], v.lanes)

    def number(self, start: int, index: Value) -> tuple[Value, Value]:
        """Factor ``index`` of those that begin at element ``start``."""
        b = self.v.b
        return self.load(self.address(b.add(b.mul(index, i64(2)), i64(start))))

    def in_lanes(self, place: Value, apart: int) -> tuple[Value, Value]:
        """Factors that differ between lanes: real parts at element ``place``, imaginary ones ``apart`` behind them."""
        v = self.v
        address = self.address(place)
        re = v.b.load(v.type, address, v.size)
        return re, v.b.load(v.type, v.element(address, apart), v.size)
