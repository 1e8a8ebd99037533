"""Copies between arrays and the stack in the "fft" kernel, where a pass cannot read its operand, or write its result,
in whole vectors: real arrays, and lanes that are not neighbours. Where the transformed dimension is contiguous, squares
are turned in registers; else elements are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..llvm_ir import Value, i64
from .butterflies import Butterflies, Complex
from .fft_lengths import inner_length
from .fft_real import RealRows
from .fft_vectors import Ahead, Lines, Numbers, RealLines, Vectors, loop


class Copies:
    """Copies of the units of work of one pass. ``pairs``: whether real rows are taken for pairs."""

    def __init__(
        self,
        config: Mapping[str, Any],
        vectors: Vectors,
        ops: Butterflies,
        real: RealRows,
        ahead: Ahead,
    ) -> None:
        self.v, self.b = vectors, vectors.b
        self.ops = ops
        self.real = real
        self.ahead = ahead
        self.form: str = config["form"]
        self.real_length: int = config["n"]
        self.n = inner_length(config)
        self.pairs = self.form != "complex" and self.real_length % 2 == 0
        self.columns: bool = config.get("columns", False)
        self.exchanged_in, self.exchanged_out = config["exchanged"]
        self.scale: float = config["scale"]
        *_, self.from_lane, self.from_step = config["source"]
        *_, self.to_lane, self.to_step = config["target"]

    @property
    def spectrum(self) -> int:
        """The complex numbers of a row in an array of complex ones: a real row has half of a spectrum there."""
        return self.n if self.form == "complex" else self.real_length // 2 + 1

    def scaled(self, value: Complex) -> Complex:
        """A number of the result."""
        if self.scale == 1.0:
            return value
        return Complex(*(self.ops.scaled(part, self.scale) for part in value))

    # ------------------------------------------------------------------------------------- lanes that are neighbours
    def source_lines(self, source: Value) -> Lines | None:
        """The numbers of a unit whose first element is at ``source``, if the first pass reads them itself."""
        if self.form == "complex" and self.from_lane == 1:
            return self.lines_from(source)
        if self.form == "from_real" and self.columns:
            ahead = self.ahead.source(self.from_step)
            return RealLines(self.v, source, self.from_step, ahead, pairs=self.pairs)
        return None

    def target_lines(self, target: Value) -> Lines | None:
        """Likewise of the result, if the last pass writes them."""
        if self.form == "complex" and self.to_lane == 1:
            return self.lines_to(target)
        if self.form == "to_real" and self.columns:
            ahead = self.ahead.target(self.to_step)
            return RealLines(self.v, target, self.to_step, ahead, pairs=self.pairs)
        return None

    def lines_from(self, source: Value) -> Lines:
        """Complex numbers that are read. Real forms exchange their parts later."""
        ahead = self.ahead.source(2 * self.from_step)
        exchanged = self.exchanged_in and self.form == "complex"
        return Lines(self.v, source, self.from_step, exchanged, ahead)

    def lines_to(self, target: Value) -> Lines:
        """Complex numbers that are written."""
        ahead = self.ahead.target(2 * self.to_step)
        exchanged = self.exchanged_out and self.form == "complex"
        return Lines(self.v, target, self.to_step, exchanged, ahead)

    # ----------------------------------------------------------------------------------------------------- all numbers
    def read(self, source: Value, numbers: Numbers) -> None:
        """All numbers of a unit whose first element is at ``source``."""
        if self.form == "from_real" and not self.pairs:
            self.read_real(source, numbers)
            return
        if self.columns:
            self.move(self.lines_from(source), numbers)
        else:
            self.read_blocks(source, numbers)
        if self.form == "to_real":
            (self.real.to_pairs if self.pairs else self.real.mirror)(numbers)

    def read_blocks(self, source: Value, numbers: Numbers) -> None:
        """All numbers where lanes are not neighbours."""
        length = self.n if self.form == "from_real" else self.spectrum
        # Real and imaginary parts are exchanged by what follows on these.
        exchanged = self.exchanged_in and self.form == "complex"
        with self.blocks(length, max(1, self.v.lanes // 2), self.from_step) as (index, width):
            loaded = self.read_block(source, index, width, exchanged)
            place = numbers.at(index)
            for offset, value in enumerate(loaded):
                numbers.store(place, value, offset)

    def move(self, source: Lines | Numbers, target: Lines | Numbers) -> None:
        """All numbers of a spectrum, one after the other."""
        with loop(self.b, self.spectrum) as index:
            value = source.load(source.at(index))
            if isinstance(target, Lines):
                value = self.scaled(value)
            target.store(target.at(index), value)

    def write(self, numbers: Numbers, target: Value) -> None:
        """All numbers to a unit whose first element is at ``target``."""
        if self.form == "to_real" and not self.pairs:
            self.write_real(numbers, target)
            return
        if self.form == "from_real" and self.pairs:
            self.real.from_pairs(numbers)
        if self.columns:
            self.move(numbers, self.lines_to(target))
            return
        length = self.n if self.form == "to_real" else self.spectrum
        with self.blocks(length, max(1, self.v.lanes // 2), self.to_step) as (index, width):
            place = numbers.at(index)
            values = [self.scaled(numbers.load(place, offset)) for offset in range(width)]
            self.write_block(target, index, values)

    @contextmanager
    def blocks(self, length: int, width: int, step: int) -> Iterator[tuple[Value, int]]:
        """Blocks of ``width`` numbers, or of 1, that cover [0, length)."""
        b = self.b
        if step != 1 or length < width:
            with loop(b, length) as index:
                yield index, 1
            return
        with loop(b, -(-length // width)) as number:
            index = b.mul(number, i64(width))
            if length % width:
                index = b.intrinsic("smin", [index, i64(length - width)])
            yield index, width

    # ------------------------------------------------------------------------------------------------- complex numbers
    def read_block(self, source: Value, index: Value, width: int, exchanged: bool) -> list[Complex]:
        """Numbers [index, index + width) of all lanes."""
        b, v, lanes = self.b, self.v, self.v.lanes
        first = b.gep(v.scalar, source, b.mul(index, i64(2 * self.from_step)))
        if lanes == 1 or (width == 1 and lanes > 2):
            parts = [v.gather(first, part, 2 * self.from_lane) for part in (0, 1)]
            return [Complex(*(reversed(parts) if exchanged else parts))]
        apart = 2 * self.from_lane
        self.prefetch(first, apart, self.ahead.source(apart).caches)
        low, high = (
            v.read_turned(v.element(first, lane * apart), apart, lanes // 2, 2)
            for lane in (0, lanes // 2)
        )
        return [v.parted(*pair, exchanged) for pair in zip(low, high, strict=True)]

    def write_block(self, target: Value, index: Value, values: list[Complex]) -> None:
        """The inverse of :meth:`read_block`."""
        b, v = self.b, self.v
        first = b.gep(v.scalar, target, b.mul(index, i64(2 * self.to_step)))
        exchanged = (self.exchanged_out and self.form == "complex") or self.form == "to_real"
        if (len(values) == 1 and v.lanes > 2) or v.lanes == 1:
            for part, value in enumerate(reversed(values[0]) if exchanged else values[0]):
                v.scatter(value, first, part, 2 * self.to_lane)
            return
        joined = [v.joined(value, exchanged) for value in values]
        lines = v.turned([low for low, _ in joined], 2) + v.turned([high for _, high in joined], 2)
        self.store_lines(lines, first, 2 * self.to_lane)

    # ------------------------------------------------------------------------------------------ real rows of odd length
    def read_real(self, source: Value, numbers: Numbers) -> None:
        b, v = self.b, self.v
        zero = v.zero
        with self.blocks(self.n, v.lanes, self.from_step) as (index, width):
            first = b.gep(v.scalar, source, b.mul(index, i64(self.from_step)))
            if width == 1:
                values = [v.gather(first, 0, self.from_lane)]
            else:
                self.prefetch(first, self.from_lane, self.ahead.source(self.from_lane).caches)
                values = v.read_turned(first, self.from_lane, v.lanes, 1)
            place = numbers.at(index)
            for offset, value in enumerate(values):
                numbers.store(place, Complex(value, zero), offset)

    def write_real(self, numbers: Numbers, target: Value) -> None:
        """The real parts, which stand in the places of imaginary ones."""
        b, v = self.b, self.v
        with self.blocks(self.n, v.lanes, self.to_step) as (index, width):
            first = b.gep(v.scalar, target, b.mul(index, i64(self.to_step)))
            place = numbers.at(index)
            values = [self.scaled(numbers.load(place, offset)).im for offset in range(width)]
            if width == 1:
                v.scatter(values[0], first, 0, self.to_lane)
            else:
                self.store_lines(v.turned(values, 1), first, self.to_lane)

    # ----------------------------------------------------------------------------------------------- a line for a lane
    def store_lines(self, lines: list[Value], first: Value, apart: int) -> None:
        """As many vectors as there are lanes, ``apart`` elements from one another."""
        v = self.v
        self.prefetch(first, apart, self.ahead.target(apart).caches)
        for lane, line in enumerate(lines):
            v.b.store(line, v.element(first, lane * apart), v.size)

    def prefetch(self, first: Value, apart: int, caches: int) -> None:
        """Ask for the lines of the following unit, into these ``caches`` (0: none)."""
        b, v = self.b, self.v
        for lane in range(v.lanes, 2 * v.lanes if caches else v.lanes):
            address = b.gep(v.scalar, first, i64(lane * apart), inbounds=False)
            b.prefetch(address, locality=caches)
