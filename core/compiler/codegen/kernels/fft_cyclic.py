"""Rader's algorithm in the "fft" kernel for several rows at a time, one in each lane (C. M. Rader, Discrete Fourier
transforms when the number of data samples is prime, 1968).

The order of the numbers costs nothing: a row's numbers come out of squares that are turned in registers one by one, and
each is stored where the convolution wants it. The factors of the convolution are multiplied where its second transform
reads them. (:mod:`.fft_convolution` takes a row at a time: few rows do not fill vectors.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..llvm_ir import Value, floating, i64
from .butterflies import Complex
from .emit import Frame
from .fft_pass import Transform
from .fft_tables import Table, cycle
from .fft_vectors import Numbers


class CyclicRows:
    """Writes units of work: the transforms of a prime length ``n`` of as many rows as there are lanes. ``arrays``:
    bytes of those that it reads and writes.
    """

    def __init__(self, frame: Frame, config: Mapping[str, Any], arrays: tuple[int, int]) -> None:
        self.b = frame.builder
        self.n: int = config["n"]
        self.length: int = config["length"]
        inverse, _ = config["exchanged"]
        self.scale: float = config["scale"]
        order, results, spectrum = cycle(self.n, inverse, self.scale)
        self.first_factor = float(spectrum[0].real)  # the sum of all roots but 1 is real
        # Where number k of a row is in the convolution, and where it comes out. Number 0 is behind all others.
        self.sources = self._places(order)
        self.results = self._places(results)
        self.transform = Transform(frame, config["pass"], arrays=arrays)
        self.groups = self.transform.groups
        self.factors = Table(
            config["pass"], frame.target
        ).size  # in the table, behind the transform's
        self.nanoseconds = 2 * self.transform.nanoseconds

    def _places(self, numbers: np.ndarray) -> Value:
        """A table of the place of each number in ``numbers``, from 1 to n - 1; that of number 0 is the last one."""
        places = np.empty(self.n, np.int64)
        places[numbers] = np.arange(self.length)
        places[0] = self.length
        return self.b.constant_array("i32", map(str, places.tolist()))

    def unit(self, operand: Value, result: Value, group: Value) -> None:
        """Write a unit: group ``group`` of the rows."""
        transform = self.transform
        from_, to = transform.places(operand, result, (), group)
        one, two = transform.scratch
        self.read(from_, one)
        first = one.load(one.at(i64(self.length)))
        spectrum = transform.run_stages(one, None, two, one)
        total = self.add_first(spectrum, first)
        other = one if spectrum is two else two
        # An inverse transform is a transform with real and imaginary parts exchanged before and after.
        convolved = transform.run_stages(self.by_factors(spectrum), None, other, spectrum)
        convolved.store(convolved.at(i64(self.length)), Complex(total.im, total.re))
        self.write(convolved, to)

    def read(self, source: Value, numbers: Numbers) -> None:
        """All numbers, each to its place in the convolution."""
        copies = self.transform.copies
        with copies.blocks(self.n, self.width, copies.from_step) as (index, width):
            for offset, value in enumerate(
                copies.read_block(source, index, width, exchanged=False)
            ):
                numbers.store(self.place(numbers, self.sources, index, offset), value)

    def write(self, numbers: Numbers, target: Value) -> None:
        """All numbers from their places in the convolution."""
        copies = self.transform.copies
        with copies.blocks(self.n, self.width, copies.to_step) as (index, width):
            places = [self.place(numbers, self.results, index, offset) for offset in range(width)]
            copies.write_block(target, index, [numbers.load(place) for place in places])

    @property
    def width(self) -> int:
        """The numbers of a square that is turned."""
        return max(1, self.transform.lanes // 2)

    def place(self, numbers: Numbers, table: Value, index: Value, offset: int) -> Value:
        """Where number ``index`` + ``offset`` of a row is."""
        b = self.b
        entry = b.gep("i32", table, b.add(index, i64(offset)))
        return numbers.at(b.cast("zext", b.load("i32", entry, 4), "i64"))

    def add_first(self, spectrum: Numbers, first: Complex) -> Complex:
        """Add number 0 of a row to all results by the sum of all numbers in the ``spectrum``, which is multiplied by
        its factor here. Returns result 0, the sum of all.
        """
        ops, type_ = self.transform.ops, self.transform.vectors.type
        place = spectrum.at(i64(0))
        others = spectrum.load(place)
        own = Complex(*(ops.scaled(part, self.scale) for part in first))
        spectrum.store(place, ops.multiply_add(others, floating(type_, self.first_factor), own))
        return Complex(*(ops.scaled(part, self.scale) for part in ops.add(first, others)))

    def by_factors(self, spectrum: Numbers) -> _Multiplied:
        return _Multiplied(self.transform, spectrum, self.factors, self.length)


class _Multiplied(Numbers):
    """Numbers that are multiplied by factors where they are read, and of which the real and imaginary parts are
    exchanged then. A place is the number's index.
    """

    def __init__(self, transform: Transform, numbers: Numbers, factors: int, length: int) -> None:
        super().__init__(numbers.v, numbers.pointer)
        self.transform = transform
        self.numbers = numbers
        self.factors = factors  # the place in the table of the first one's real part
        self.length = length

    def at(self, index: Value) -> Value:
        return index

    def load(self, place: Value, offset: int = 0) -> Complex:
        b, v, factors = self.v.b, self.v, self.transform.factors
        value = self.numbers.load(self.numbers.at(place), offset)
        address = factors.address(b.add(place, i64(self.factors + offset)))
        parts: Sequence[Value] = [
            b.splat(b.load(v.scalar, v.element(address, apart), v.size), v.lanes)
            for apart in (0, self.length)
        ]
        result = self.transform.ops.times(value, *parts)
        return Complex(result.im, result.re)
