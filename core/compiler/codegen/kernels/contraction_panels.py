"""Dots of a few rows by a large matrix with columns minor: see "panels" in :mod:`.contraction`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from .. import llvm_ir
from ..generator import ZERO, Coordinate, Index, fixed
from ..llvm_ir import Value, i64
from ..representation import Element
from . import accumulation
from .contraction_loops import BLOCK, Coordinates, Loops
from .loops import count


@dataclass(frozen=True, slots=True)
class _Panels:
    """How a product is cut into blocks of columns, for which several rows of the matrix stream by at a time."""

    vectors: int  # of columns at a time
    block: int  # columns
    blocks: int  # of the whole matrix
    merged: int  # blocks that a thread takes at once, if it has so many
    in_a_word: int  # numbers along the contracted dimension
    parts: list[range]  # rows of lhs at a time
    # Rows of the matrix that each buffer takes at a time: the first takes a few such chunks and is added to the second
    # one, which is added to the third one after some, and so on (see :mod:`.accumulation`).
    spans: list[int]

    @property
    def stride(self) -> int:
        """How many sums of a row of lhs are in a buffer."""
        return self.block * self.merged


def _plan(loops: Loops) -> _Panels:
    """Sizes with which each block's sums stay in the caches."""
    c, row, column = loops.c, loops.row, loops.column
    depth = c.contracted[0]
    costs = loops.target.costs
    # One row has little to add up for each line of the matrix: fewer pages are read at once. (Words of several
    # numbers along the contracted dimension are read once for all of them.)
    in_a_word = max(1, math.prod(c.rhs) // loops.fetched_elements)
    panel_rows = costs.blocks.streamed_rows // (2 if row.size == 1 and in_a_word == 1 else 1)
    lanes = loops.lanes
    vectors = 4 if row.size <= 2 else 2
    while column.size < vectors * lanes:
        vectors //= 2
    step = vectors * lanes
    sums = costs.memory.sums // (row.size * loops.register_bytes)
    wide = min(costs.blocks.streamed_columns, sums)
    blocks = -(-column.size // max(step, wide))
    if blocks == 1 and column.size >= 4 * step:
        blocks = 2
    block = -(-column.size // (blocks * step)) * step
    if block > column.size:
        block -= step
    blocks = -(-column.size // block)
    merged = 1
    if not c.batch and not c.columns[:-1]:
        # Processors fetch pages ahead: what they fetch of other blocks is for nothing.
        most_sums = costs.memory.merged_sums // (row.size * loops.register_bytes)
        merged = max(1, min(column.size, most_sums) // block)
    tall = -(-row.size // -(-row.size // loops.most_rows))
    # (Not overlapping ones: what is added to a row's sums is added once.)
    parts = [range(n, min(n + tall, row.size)) for n in range(0, row.size, tall)]
    spans = [panel_rows]
    most = BLOCK // 2
    while loops.rounds and (depth.size - depth.size % panel_rows) // spans[-1] > most:
        spans.append(spans[-1] * most)
        most = accumulation.BLOCK
    return _Panels(vectors, block, blocks, merged, in_a_word, parts, spans)


def panels(loops: Loops) -> int:
    """Blocks of columns accumulated in memory, while several rows of the matrix stream by, and the next ones are
    fetched.
    """
    g, b, column = loops.g, loops.g.builder, loops.column
    outer = [*loops.c.batch, *loops.c.columns[:-1]]
    plan = _plan(loops)
    block, merged = plan.block, plan.merged
    sums = _Sums(loops, plan)

    def one(index: Index) -> None:
        left = loops.start(index[-1], block, column.size)
        sums.unit(dict(zip(outer, index, strict=False)), left, i64(block))

    dims = [*(d.size for d in outer), plan.blocks]
    if merged == 1:
        count(g, loops.frame.begin, loops.frame.end, dims, one)
        return math.prod(dims)
    with g.loop(loops.frame.begin, loops.frame.end, merged) as (first, _, _):
        last = b.intrinsic("smin", [g.add(first, i64(merged)), loops.frame.end])
        width = b.mul(b.sub(last, first), i64(block))
        lowest = b.sub(i64(column.size), width)
        base = b.intrinsic("smin", [b.mul(first, i64(block)), lowest])
        g.note(width, base)
        multiple = math.gcd(block, column.size)
        sums.unit({}, Coordinate(base, 0, 1, None, 0, column.size - 1, multiple), width)
    return math.prod(dims)


class _Sums:
    """The sums of :func:`panels` in memory: a buffer for each number of rows of the matrix that it takes."""

    def __init__(self, loops: Loops, plan: _Panels) -> None:
        self.loops = loops
        self.g = loops.g
        self.plan = plan
        self.column = loops.column
        self.depth = loops.c.contracted[0]
        self.row = loops.row
        self.lanes = loops.lanes
        size = self.row.size * plan.stride
        self.buffers = [self.g.builder.alloca(loops.type, size) for _ in plan.spans]
        self.g.note(*self.buffers)

    def unit(self, fixed_at: Coordinates, left: Coordinate, width: Value) -> None:
        """Write ``width`` columns of the result from ``left`` on."""
        self.fixed_at, self.left, self.width = fixed_at, left, width
        total = self.buffers[-1]
        rest = self.depth.size % self.plan.spans[0]  # the rows that come first
        if rest:
            self.chunk(rest, ZERO, total, True)
        else:
            self.clear(total)
        self.rows(len(self.plan.spans) - 1, i64(rest), i64(self.depth.size))
        for r in range(self.row.size):
            with self.g.loop(i64(0), width, self.lanes) as (i, _, _):
                value = self.load(total, self.g.add(i, i64(r * self.plan.stride)))
                at = {**fixed_at, self.row: fixed(r), self.column: self.columns_at(i)}
                self.loops.store(at, value)

    def rows(self, level: int, start: Value, stop: Value) -> None:
        """Take rows [start, stop) of the matrix into the buffer of ``level``."""
        g, spans = self.g, self.plan.spans
        with g.loop(start, stop, spans[level]) as (k, _, _):
            if level == 0:
                multiple = math.gcd(self.depth.size % spans[0], spans[0])
                at = Coordinate(k, 0, 1, None, 0, self.depth.size - 1, multiple)
                self.chunk(spans[0], at, self.buffers[0], False)
                return
            part, into = self.buffers[level - 1], self.buffers[level]
            self.clear(part)
            end = g.builder.intrinsic("smin", [g.add(k, i64(spans[level])), stop])
            g.note(end)
            self.rows(level - 1, k, end)
            for i in self.each_vector():
                total = self.loops.add(self.load(into, i), self.load(part, i))
                self.loops.store_vector(into, i, total)

    def chunk(self, rows: int, k: Coordinate, into: Value, first: bool) -> None:
        """Take ``rows`` rows of the matrix from ``k`` on into a buffer, which holds none before the ``first`` ones."""
        loops, g, plan, depth = self.loops, self.g, self.plan, self.depth
        step = plan.vectors * self.lanes
        k_at = [loops.offset(k, n, 1, depth.size) for n in range(rows)]
        for part in plan.parts:
            row_at = [fixed(r) for r in part]
            places = [i64(r * plan.stride) for r in part]
            scalars = [
                [loops.read(0, {**self.fixed_at, depth: at, self.row: r}) for r in row_at]
                for at in k_at
            ]
            with g.loop(i64(0), self.width, step) as (i, _, _):
                at = [g.add(i, i64(v * self.lanes)) for v in range(plan.vectors)]
                into_at = [g.add(place, i) for place in places for i in at]
                totals: list[Element] = [
                    loops.zeros(self.lanes) if first else self.load(into, i) for i in into_at
                ]
                for number, (factors, k_coordinate) in enumerate(zip(scalars, k_at, strict=True)):
                    if part is plan.parts[0] and number % plan.in_a_word == 0:
                        self.fetch(loops.offset(k, number + plan.spans[0], 1, depth.size), i, step)
                    matrix_at = {**self.fixed_at, depth: k_coordinate}
                    right = [
                        loops.read(1, {**matrix_at, self.column: self.columns_at(i, by)})
                        for by in range(0, step, self.lanes)
                    ]
                    for n, total in enumerate(totals):
                        r, v = divmod(n, plan.vectors)
                        totals[n] = loops.multiply_add(factors[r], right[v], total)
                for i, total in zip(into_at, totals, strict=True):
                    assert isinstance(total, Value)
                    loops.store_vector(into, i, total)

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
                yield self.g.add(i, i64(r * self.plan.stride))

    def clear(self, buffer: Value) -> None:
        for i in self.each_vector():
            zero = llvm_ir.zero(llvm_ir.vector(self.loops.type, self.lanes))
            self.loops.store_vector(buffer, i, zero)

    def load(self, buffer: Value, i: Value) -> Value:
        return self.loops.load_vector(buffer, i, self.lanes)
