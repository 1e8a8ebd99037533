"""The "reduce" kernel: reductions over the same dimensions of one iteration space, in one pass over it.

What computes their operands is fused in; results of the whole iteration space may be written in the same pass;
elementwise instructions on the reduced values follow at the end (a mean is one kernel).

One dimension runs in vector lanes. If it is a reduced one, a unit of work is one result: several vector
accumulators run along the dimension and are combined at the end, across lanes too. If it is a kept one, a unit
is a block of neighbouring results, with the loops over the reduced dimensions inside. Both reassociate, and take
many terms in blocks (:mod:`.accumulation`): a long floating-point sum is as exact as a pairwise one.
"""

from __future__ import annotations

import math
from typing import Final

from ...fusion.clusters import SHORTEST_VECTOR, shortest_vector
from ...ir import errors
from .. import costs, effort
from ..generator import Coordinate, Index
from ..llvm_ir import Value, i64
from . import loops, work_groups
from .accumulators import Reduction
from .emit import EmittedKernel, Frame, emitter
from .row_blocks import SMALLEST_GATHERED
from .row_totals import RowTotals

# Rows that are reduced together, and the weight of the code for all their vectors at most. (A vector of bytes has more
# lanes, and not every CPU has a shuffle of bytes across two vectors.)
FEWEST_ROWS: Final = 4
MOST_ROWS: Final = 16
MOST_CODE: Final = 64


@emitter(collapsed=True)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a "reduce" fusion or of a single reduce."""
    computation = frame.computation
    reduces = [i for i in computation.instructions if i.opcode == "reduce"]
    if not reduces:  # only dimensions of size one were reduced
        return loops.emit_frame(frame)
    return ReduceKernel(frame, reduces).emit()


class ReduceKernel(Reduction):
    """The kernel whose units of work are results, or blocks of neighbouring ones."""

    def emit(self) -> EmittedKernel:
        frame, dims = self.frame, self.dims
        for root, _ in self.last:
            if root.dims != self.kept_dims:
                raise errors.of_instruction(
                    "INTERNAL",
                    f"result {root.dims} of a reduction of {self.dims}",
                    frame.instruction,
                )
        cost = costs.of_computation(frame.target, frame.computation)
        if math.prod(self.kept_dims) == 0:
            return frame.finish(0, 0.0)
        minor = len(dims) - 1
        if minor in self.reduced:
            lane = minor
            if (
                self.kept
                and self.is_too_short(minor)
                and dims[self.kept[-1]] >= self.lanes
                and not self.full
            ):
                lane = self.kept[-1]
        else:
            lane = minor
        self.shared = (
            lane in self.reduced and not self.once and work_groups.share(frame.target, dims[lane])
        )
        units = self.emit_rows(lane) if lane in self.reduced else self.emit_blocks(lane)
        return frame.finish(units, cost)

    def is_too_short(self, lane: int) -> bool:
        """Whether a row is not to be reduced by vectors along it."""
        size = self.dims[lane]
        if size < SHORTEST_VECTOR:
            return True
        return size < self.shortest_vector() and not self.takes_rows_together(lane)

    def shortest_vector(self) -> int:
        """How many elements a row has at least that is reduced by vectors along it alone."""
        target, computation = self.frame.target, self.frame.computation
        read = [p.dtype.size for p in computation.parameters if p.dims == self.dims]
        if target.work_group > 1 or min(read, default=SMALLEST_GATHERED) < SMALLEST_GATHERED:
            return SHORTEST_VECTOR
        return max(map(shortest_vector, self.reduces))

    def emit_rows(self, lane: int) -> int:
        """A unit of work is one result, or a few neighbouring ones; the lanes run along a reduced dimension."""

        if self.takes_rows_together(lane):
            return loops.iterate(
                self.frame, self.kept_dims, self.lanes, self.masked,
                lambda g, kept, mask: self.write_rows(lane, kept, mask),
            )  # fmt: skip

        def row(kept: Index) -> None:
            totals = RowTotals(self, kept, lane).totals()
            with work_groups.once(self.g, self.shared):
                self.write(totals, kept, None)

        if not self.kept:
            row(())
            return 1
        loops.count(self.g, self.frame.begin, self.frame.end, self.kept_dims, row)
        return math.prod(self.kept_dims)

    def takes_rows_together(self, lane: int) -> bool:
        """Whether neighbouring rows are reduced at the same time: short ones, of which putting the lanes of a vector
        together is the most work.
        """
        size, lanes = self.dims[lane], self.lanes
        if self.once or self.full or self.frame.target.work_group > 1:
            return False
        if self.reduced != (lane,) or not self.kept or self.kept[-1] != lane - 1:
            return False
        if not FEWEST_ROWS <= lanes <= MOST_ROWS or not effort.is_careful(self.g.builder.module):
            return False
        if self.dims[self.kept[-1]] < lanes or size <= lanes // 2:
            return False
        if size % lanes and not self.masked:
            return False
        vectors = -(-size // lanes)
        return vectors * lanes * self.size <= MOST_CODE

    def write_rows(self, lane: int, kept: Index, mask: Value | None) -> None:
        """The results at ``kept``, whose last coordinate runs along the lanes; of those without ``mask`` there are no
        rows.
        """
        g, last = self.g, kept[-1]
        if last.is_uniform:
            self.write(RowTotals(self, kept, lane).totals(), kept, mask)
            return
        there = last.lanes if mask is None else last.high - last.low + 1
        rows = []
        with g.unmasked():  # the lanes of a row are not the rows
            for n in range(there):
                base = g.add(last.base, i64(n))
                place = Coordinate(base, low=last.low + n, high=last.high)
                rows.append(RowTotals(self, (*kept[:-1], place), lane).vectors_of_totals())
        rows += [rows[0]] * (last.lanes - there)
        self.write(self.across_lanes_of_rows(rows), kept, mask)

    def emit_blocks(self, lane: int) -> int:
        """A unit of work is a block of results that are neighbours in the kept dimension ``lane``."""
        g, b = self.g, self.g.builder
        size = self.dims[lane]
        count = min(self.lanes, 1 << (size - 1).bit_length())
        place = self.kept.index(lane)
        vectors = -(-size // count)
        per_block = vectors if vectors <= self.unroll else self.unroll
        while per_block > 2 and vectors > self.unroll and size % (per_block * count):
            per_block //= 2
        block = per_block * count
        whole = size // block  # blocks without a tail
        blocks = -(-size // block)

        def do(prefix: Index, start: Value, first: int, width: int) -> None:
            """Results [start, start + width) of the lane dimension; ``first`` is the least that start can be."""
            pieces: list[tuple[Coordinate, Value | None]] = []

            def piece(c: Coordinate, mask: Value | None) -> None:
                known = c.base.constant
                if c.vector is None and isinstance(known, int) and not start.is_constant:
                    multiple = math.gcd(count, known)
                    base = g.add(start, c.base)
                    c = Coordinate(base, c.stride, c.lanes, None, 0, size - 1, multiple)
                else:
                    c = g.shift(c, first)
                pieces.append((c, mask))

            loops.span(g, 0, width, width, count, self.masked, piece, unrolled=True)
            kept = [self.with_lane(prefix, place, c) for c, _ in pieces]
            each = len(self.initial(1))

            def fresh() -> list[Value]:
                return [v for c, _ in pieces for v in self.initial(c.lanes)]

            def merge(a: list[Value], b: list[Value]) -> list[Value]:
                return self.merge(a, b, each)

            def body(at: dict[int, Coordinate], flat: list[Value]) -> list[Value]:
                result: list[Value] = []
                for part, place_of_part, (_, mask) in zip(
                    self.split(flat, each), kept, pieces, strict=True
                ):
                    with g.masked(mask):
                        result += self.step(part, self.index(place_of_part, at), mask)
                return result

            flat = self.nest(self.reduced, fresh(), body, fresh, merge)
            for part, place_of_part, (_, mask) in zip(
                self.split(flat, each), kept, pieces, strict=True
            ):
                with g.masked(mask):
                    self.write(part, place_of_part, mask)

        def unit(index: Index) -> None:
            number, prefix = index[-1], index[:-1]
            if blocks == 1:
                do(prefix, i64(0), 0, size)
                return
            start = g.mul(number.base, i64(block))
            if whole == blocks:
                do(prefix, start, 0, block)
                return
            condition = b.icmp("slt", number.base, i64(whole))
            end = whole * block
            g.either(
                condition,
                lambda: do(prefix, start, 0, block),
                lambda: do(prefix, i64(end), end, size - end),
                ("block", "tail", "done"),
            )

        outer = tuple(dim for n, dim in enumerate(self.kept_dims) if n != place)
        loops.count(g, self.frame.begin, self.frame.end, (*outer, blocks), unit)
        return math.prod(outer) * blocks

    @staticmethod
    def with_lane(prefix: Index, place: int, c: Coordinate) -> Index:
        return (*prefix[:place], c, *prefix[place:])
