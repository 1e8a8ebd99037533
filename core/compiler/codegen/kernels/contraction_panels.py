"""Dots of a few rows by a large matrix with columns minor: see "panels" in :mod:`.contraction`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Final

from .. import llvm_ir
from ..generator import ZERO, Coordinate, Index, fixed
from ..llvm_ir import Value, i64
from ..representation import Element
from . import accumulation
from .contraction_loops import BLOCK, Coordinates, Loops
from .loops import count
from .shared_scales import any_not_finite, shared_scales, zero_if_finite

# The fewest rows of the matrix that are summed before they are multiplied by their scale.
_LEAST_SUMMED: Final = 16


class Panels:
    """Blocks of columns whose sums are in memory, while several rows of the matrix stream by and the next ones are
    fetched.
    """

    def __init__(self, loops: Loops) -> None:
        c, costs = loops.c, loops.target.costs
        row, column = loops.row, loops.column
        self.loops, self.g, self.lanes = loops, loops.g, loops.lanes
        self.row, self.column, self.depth = row, column, c.contracted[0]
        # Numbers along the contracted dimension that are read at once, as a word.
        self.in_a_word = max(1, math.prod(c.rhs) // loops.fetched_elements)
        self.vectors = 4 if row.size <= 2 else 2  # of columns at a time
        while column.size < self.vectors * self.lanes:
            self.vectors //= 2
        step = self.vectors * self.lanes
        # Each block's sums stay in the caches.
        sums = costs.memory.sums // (row.size * loops.register_bytes)
        blocks = -(-column.size // max(step, min(costs.blocks.streamed_columns, sums)))
        if blocks == 1 and column.size >= 4 * step:
            blocks = 2
        self.block = -(-column.size // (blocks * step)) * step  # columns
        if self.block > column.size:
            self.block -= step
        if not c.batch and not c.columns[:-1] and column.size % step == 0:
            # The last block would be moved back, and compute columns again that others have: narrow blocks, of which
            # a thread takes several at once, do not.
            self.block = self.block if column.size % self.block == 0 else step
        self.blocks = -(-column.size // self.block)
        self.merged = 1  # blocks that a thread takes at once, if it has so many
        if not c.batch and not c.columns[:-1]:
            # Processors fetch pages ahead: what they fetch of other blocks is for nothing.
            most_sums = costs.memory.merged_sums // (row.size * loops.register_bytes)
            self.merged = max(1, min(column.size, most_sums) // self.block)
        self.stride = self.block * self.merged  # of the sums of a row of lhs
        tall = -(-row.size // -(-row.size // loops.most_rows))
        # Rows of lhs at a time. (Not overlapping ones: what is added to a row's sums is added once.)
        self.parts = [range(n, min(n + tall, row.size)) for n in range(0, row.size, tall)]
        self.scales = shared_scales(loops)
        self.scaled = 0  # rows of the matrix whose sums are multiplied by a scale; 0: none are
        self.spans = self.rows_of_buffers()
        self.ahead = self.rows_ahead()
        # The least rows of the matrix that have as many bytes as are fetched ahead, where it is read in one run.
        row_bytes = column.size * loops.streamed_size
        self.ahead_of_run = -(-costs.blocks.streamed_ahead // row_bytes)
        size = row.size * self.stride
        self.buffers = [self.g.builder.alloca(loops.type, size) for _ in self.spans]
        self.g.note(*self.buffers)

    def rows_of_buffers(self) -> list[int]:
        """Rows of the matrix that each buffer takes at a time: the first takes a few such chunks and is added to the
        second one, which is added to the third one after some, and so on (see :mod:`.accumulation`).
        """
        # One row has little to add up for each line of the matrix: fewer pages are read at once, if they are fetched
        # into the nearest cache and rows of the matrix are long. (Words of several numbers along the contracted
        # dimension are read once for all of them.)
        blocks = self.loops.target.costs.blocks
        single = self.row.size == 1 and self.in_a_word == 1
        are_long = self.column.size > blocks.streamed_narrow
        pages = 2 if single and are_long and not self.loops.is_far else 1
        rows = blocks.streamed_rows // pages
        spans, most = [rows], BLOCK // 2
        if self.scales is not None:
            self.scaled = self.scales.part(rows, rows * most)
            # The sums of each row of lhs are multiplied, which takes as long as to multiply so many rows of the matrix.
            least = _LEAST_SUMMED if self.scales.divides else _LEAST_SUMMED * self.row.size
            if self.scaled < least:
                self.scales = None
        if self.scales is not None:
            spans.append(self.scaled)
            most = accumulation.BLOCK
        while self.loops.rounds and (self.depth.size - self.depth.size % rows) // spans[-1] > most:
            spans.append(spans[-1] * most)
            most = accumulation.BLOCK
        return spans

    def rows_ahead(self) -> int:
        """How far ahead rows of the matrix are fetched: whole steps, and so many bytes that they arrive in time."""
        loops, costs = self.loops, self.loops.target.costs
        lines = -(-self.stride // (loops.line * self.lanes)) * self.spans[0] // self.in_a_word
        steps = -(-costs.blocks.streamed_ahead // (max(1, lines) * costs.memory.line))
        return self.spans[0] * max(1, steps)

    def can_be_one_run(self) -> bool:
        """Whether a thread that takes all columns reads one row of the matrix after the other, in the order of memory,
        rather than several beside each other. (Each sum is of the same terms in the same order.)

        Only for numbers of 16 bits: f32 reads as fast either way, and bytes have as many loads and stores of sums for
        fewer lines.
        """
        loops = self.loops
        return (
            self.merged >= self.blocks > 1
            and self.row.size == 1
            and self.in_a_word == 1
            and self.scales is None
            and loops.streamed_size == 2
            and self.column.size * loops.register_bytes <= loops.target.costs.memory.streamed_run
        )

    def emit(self) -> int:
        """Write the kernel; the units of work."""
        loops, g, b, size = self.loops, self.g, self.g.builder, self.column.size
        outer = [*loops.c.batch, *loops.c.columns[:-1]]
        dims = [*(d.size for d in outer), self.blocks]

        def one(index: Index) -> None:
            left = loops.start(index[-1], self.block, size)
            self.unit(dict(zip(outer, index, strict=False)), left, i64(self.block))

        if self.merged == 1:
            count(g, loops.frame.begin, loops.frame.end, dims, one)
            return math.prod(dims)
        with g.loop(loops.frame.begin, loops.frame.end, self.merged) as (first, _, _):
            last = b.intrinsic("smin", [g.add(first, i64(self.merged)), loops.frame.end])
            width = b.mul(b.sub(last, first), i64(self.block))
            lowest = b.sub(i64(size), width)
            base = b.intrinsic("smin", [b.mul(first, i64(self.block)), lowest])
            g.note(width, base)
            multiple = math.gcd(self.block, size)
            self.unit({}, Coordinate(base, 0, 1, None, 0, size - 1, multiple), width)
        return math.prod(dims)

    def unit(self, fixed_at: Coordinates, left: Coordinate, width: Value) -> None:
        """Write ``width`` columns of the result from ``left`` on."""
        self.fixed_at, self.left, self.width = fixed_at, left, width
        total = self.buffers[-1]
        self.sums(total)
        if self.scales is not None:
            scales, self.scales = self.scales, None
            with self.g.only_if(self.not_finite(total)):
                self.sums(total)
            self.scales = scales
        for r in range(self.row.size):
            with self.g.loop(i64(0), width, self.lanes) as (i, _, _):
                value = self.load(total, self.g.add(i, i64(r * self.stride)))
                at = {**fixed_at, self.row: fixed(r), self.column: self.columns_at(i)}
                self.loops.store(at, value)

    def sums(self, total: Value) -> None:
        """Make the sums of the unit's columns."""
        rest = self.depth.size % self.spans[0]  # the rows that come first
        if rest:
            self.chunk(rest, ZERO, total, True, self.ahead)
        else:
            self.clear(total)
        self.rows(len(self.spans) - 1, i64(rest), i64(self.depth.size))

    def not_finite(self, total: Value) -> Value:
        """Whether one of the unit's sums, which are in the buffer ``total``, is infinite or NaN."""
        g, loops = self.g, self.loops
        found = llvm_ir.zero(llvm_ir.vector(loops.type, self.lanes))
        for r in range(self.row.size):
            with g.loop(i64(0), self.width, self.lanes, [found]) as (i, carried, results):
                value = self.load(total, g.add(i, i64(r * self.stride)))
                carried[:] = [loops.add(carried[0], zero_if_finite(loops, value))]
            (found,) = results
        return any_not_finite(loops, found)

    def rows(self, level: int, start: Value, stop: Value) -> None:
        """Take rows [start, stop) of the matrix into the buffer of ``level``."""
        g, spans = self.g, self.spans
        if level == 0:
            self.steps(start, stop)
            return
        with g.loop(start, stop, spans[level]) as (k, _, _):
            part, into = self.buffers[level - 1], self.buffers[level]
            self.clear(part)
            end = g.builder.intrinsic("smin", [g.add(k, i64(spans[level])), stop])
            g.note(end)
            self.rows(level - 1, k, end)
            if level == 1 and self.scales is not None:
                self.add_scaled(k, part, into)
                return
            for i in self.each_vector():
                total = self.loops.add(self.load(into, i), self.load(part, i))
                self.loops.store_vector(into, i, total)

    def steps(self, start: Value, stop: Value) -> None:
        """Take rows [start, stop) of the matrix into the first buffer."""

        def take(rows: int, ahead: int) -> None:
            with self.g.loop(start, stop, rows) as (k, _, _):
                multiple = math.gcd(self.depth.size % rows, rows)
                at = Coordinate(k, 0, 1, None, 0, self.depth.size - 1, multiple)
                self.chunk(rows, at, self.buffers[0], False, ahead)

        if not self.can_be_one_run():
            take(self.spans[0], self.ahead)
            return
        whole = self.g.builder.icmp("eq", self.width, i64(self.column.size))
        self.g.either(
            whole,
            lambda: take(1, self.ahead_of_run),
            lambda: take(self.spans[0], self.ahead),
            ("one.run", "beside", "taken"),
        )

    def add_scaled(self, k: Value, part: Value, into: Value) -> None:
        """Add the sums in ``part``, of rows from ``k`` on that have the same scales, to those in ``into``."""
        assert self.scales is not None
        loops, g = self.loops, self.g
        at = {
            **self.fixed_at,
            self.depth: Coordinate(k, high=self.depth.size - 1, multiple=self.scaled),
        }
        with g.loop(i64(0), self.width, self.lanes) as (i, _, _), self.scales.scales_alone():
            scale = loops.read(1, {**at, self.column: self.columns_at(i)})
            for r in range(self.row.size):
                place = g.add(i, i64(r * self.stride))
                sums = self.load(into, place), self.load(part, place)
                total = self.scales.add(*sums, scale)
                loops.store_vector(into, place, total)

    def chunk(self, rows: int, k: Coordinate, into: Value, first: bool, ahead: int) -> None:
        """Take ``rows`` rows of the matrix from ``k`` on into a buffer, which holds none before the ``first`` ones, and
        fetch those ``ahead``.
        """
        loops, g, depth = self.loops, self.g, self.depth
        step = self.vectors * self.lanes
        k_at = [loops.offset(k, n, 1, depth.size) for n in range(rows)]
        for part in self.parts:
            row_at = [fixed(r) for r in part]
            places = [i64(r * self.stride) for r in part]
            scalars = [
                [loops.read(0, {**self.fixed_at, depth: at, self.row: r}) for r in row_at]
                for at in k_at
            ]
            with g.loop(i64(0), self.width, step) as (i, _, _):
                at = [g.add(i, i64(v * self.lanes)) for v in range(self.vectors)]
                into_at = [g.add(place, i) for place in places for i in at]
                totals: list[Element] = [
                    loops.zeros(self.lanes) if first else self.load(into, i) for i in into_at
                ]
                for number, (factors, k_coordinate) in enumerate(zip(scalars, k_at, strict=True)):
                    if part is self.parts[0] and number % self.in_a_word == 0:
                        self.fetch(loops.offset(k, number + ahead, 1, depth.size), i, step)
                    matrix_at = {**self.fixed_at, depth: k_coordinate}
                    right = self.read_columns(matrix_at, i)
                    for n, total in enumerate(totals):
                        r, v = divmod(n, self.vectors)
                        totals[n] = loops.multiply_add(factors[r], right[v], total)
                for i, total in zip(into_at, totals, strict=True):
                    assert isinstance(total, Value)
                    loops.store_vector(into, i, total)

    def read_columns(self, at: Coordinates, i: Value) -> list[Element]:
        """The vectors of columns of the matrix from the ``i``-th one of the unit on, but for their scales if sums are
        multiplied by them.
        """
        apart = self.scales.integers_alone() if self.scales is not None else nullcontext()
        with apart:
            return [
                self.loops.read(1, {**at, self.column: self.columns_at(i, v * self.lanes)})
                for v in range(self.vectors)
            ]

    def fetch(self, ahead: Coordinate, i: Value, step: int) -> None:
        """Ask for the row ``ahead`` of the matrix, of ``step`` columns."""
        lines = range(0, step, self.loops.line * self.lanes)
        places = [self.columns_at(i, n) for n in lines]
        self.loops.fetch({**self.fixed_at, self.depth: ahead}, places)

    def columns_at(self, i: Value, by: int = 0) -> Coordinate:
        """The columns of a vector, ``by`` behind the ``i``-th one of the unit."""
        multiple = math.gcd(self.left.multiple, self.lanes)
        place = self.left._replace(base=self.g.add(self.left.base, i), multiple=multiple)
        return self.loops.offset(place, by, self.lanes, self.column.size)

    def each_vector(self) -> Iterator[Value]:
        """Where each vector of the unit is in a buffer, in a loop for each row of lhs."""
        for r in range(self.row.size):
            with self.g.loop(i64(0), self.width, self.lanes) as (i, _, _):
                yield self.g.add(i, i64(r * self.stride))

    def clear(self, buffer: Value) -> None:
        for i in self.each_vector():
            zero = llvm_ir.zero(llvm_ir.vector(self.loops.type, self.lanes))
            self.loops.store_vector(buffer, i, zero)

    def load(self, buffer: Value, i: Value) -> Value:
        return self.loops.load_vector(buffer, i, self.lanes)
