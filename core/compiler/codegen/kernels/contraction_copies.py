"""Dots whose right-hand side is copied: see "copied panels" in :mod:`.contraction`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .. import llvm_ir
from ..generator import Coordinate, Index
from ..llvm_ir import Value, i64
from ..representation import components
from .contraction_loops import BLOCK, Dimension, Loops
from .loops import count


@dataclass(frozen=True, slots=True)
class _Copies:
    """How a product is cut into blocks of rows by panels of columns that are copied."""

    height: int  # rows of a tile
    lanes: int
    width: int  # vectors of a tile
    pieces: int  # of the contracted dimension
    piece: int  # its elements in one
    tiles: int  # that have all rows
    tall: int  # tiles of a block
    blocks: int
    panels: int


def _plan(loops: Loops) -> _Copies:
    costs = loops.target.costs
    rows, columns, depth = loops.row.size, loops.column.size, loops.c.contracted[0].size
    height, lanes, width = loops.vectors_of_tiles(rows, columns)
    bytes_ = width * loops.parts * lanes * loops.register_bytes  # of a row of the panel
    pieces = -(-depth // min(2 * BLOCK, max(1, costs.memory.panel // bytes_)))
    tiles, panels = -(-rows // height), -(-columns // (width * lanes))
    # Blocks whose sums the caches keep; more of them for the threads, but each with rows that pay for its copies.
    most = max(1, costs.memory.copied_panel // (height * bytes_))
    least = -(-costs.products.copied_complex_rows // height)
    wanted = -(-costs.threads.product_units // (panels * math.prod(d.size for d in loops.outer)))
    tall = -(-tiles // max(-(-tiles // most), min(wanted, tiles // least), 1))
    blocks, piece = -(-tiles // tall), -(-depth // pieces)
    return _Copies(height, lanes, width, pieces, piece, tiles, tall, blocks, panels)


def copied_panels(loops: Loops) -> int:
    """The function of a product, whose result is the number of its units of work."""
    return _CopiedPanels(loops).emit()


@dataclass(frozen=True, slots=True)
class _Block:
    """A unit's part of the result: the tiles [first, last) of the panel with ``columns``, at the ``fixed`` places of
    the outer dimensions.
    """

    fixed: dict[Dimension, Coordinate]
    columns: list[Coordinate]
    first: Value
    last: Value


class _CopiedPanels:
    """A unit of work is a block of rows by a panel of columns.

    Sums are cut into pieces. The part of the panel that a piece reads is copied to the stack, where all tiles of
    the block read it from the nearest cache. Each tile starts a piece from zero and adds it to the sums of the
    pieces before, on the stack too.
    """

    def __init__(self, loops: Loops) -> None:
        self.loops, self.g, self.b = loops, loops.g, loops.g.builder
        self.depth = loops.c.contracted[0]
        self.plan = plan = _plan(loops)
        self.type = llvm_ir.vector(loops.type, plan.lanes)
        self.across = plan.width * loops.parts  # vectors of a row of the panel, or of a tile
        self.row_size = self.across * plan.lanes
        self.panel = self.b.alloca(loops.type, plan.piece * self.row_size)
        self.sums = self.b.alloca(loops.type, plan.tall * plan.height * self.row_size)
        self.g.note(self.panel, self.sums)

    def emit(self) -> int:
        loops, plan = self.loops, self.plan
        dims = [*(d.size for d in loops.outer), plan.blocks, plan.panels]
        count(self.g, loops.frame.begin, loops.frame.end, dims, self.unit)
        return math.prod(dims)

    def unit(self, index: Index) -> None:
        g, b, plan = self.g, self.b, self.plan
        fixed = dict(zip(self.loops.outer, index, strict=False))
        first = g.mul(index[-2].base, i64(plan.tall))
        last = b.intrinsic("smin", [g.add(first, i64(plan.tall)), i64(plan.tiles)])
        g.note(last)
        block = _Block(fixed, self.columns_of(index[-1]), first, last)
        if plan.pieces == 1:
            self.copy(block, i64(0), i64(self.depth.size))
            with g.loop(first, last) as (tile, _, _):
                rows = self.rows_of(tile)
                self.write(block, rows, self.product(block, rows, i64(0), i64(self.depth.size)))
        else:
            self.add_pieces(block)

    def add_pieces(self, block: _Block) -> None:
        g, b = self.g, self.b
        sums = self.plan.height * self.across
        with g.loop(block.first, block.last) as (tile, _, _):
            self.store(self.sums, self.sums_of(block, tile), [llvm_ir.zero(self.type)] * sums)
        with g.loop(i64(0), i64(self.depth.size), self.plan.piece) as (start, _, _):
            stop = b.intrinsic("smin", [g.add(start, i64(self.plan.piece)), i64(self.depth.size)])
            g.note(stop)
            self.copy(block, start, stop)
            with g.loop(block.first, block.last) as (tile, _, _):
                terms = self.product(block, self.rows_of(tile), start, stop)
                before = self.load(self.sums, self.sums_of(block, tile), sums)
                totals = [self.loops.add(*pair) for pair in zip(before, terms, strict=True)]
                self.store(self.sums, self.sums_of(block, tile), totals)
        with g.loop(block.first, block.last) as (tile, _, _):
            rows = self.rows_of(tile)
            self.write(block, rows, self.load(self.sums, self.sums_of(block, tile), sums))

    def columns_of(self, panel: Coordinate) -> list[Coordinate]:
        loops, lanes, width = self.loops, self.plan.lanes, self.plan.width
        left = loops.start(panel, width * lanes, loops.column.size)
        return [loops.offset(left, v * lanes, lanes, loops.column.size) for v in range(width)]

    def rows_of(self, tile: Value) -> list[Coordinate]:
        loops, height = self.loops, self.plan.height
        number = Coordinate(tile, high=self.plan.tiles - 1)
        top = loops.start(number, height, loops.row.size)
        return [loops.offset(top, r, 1, loops.row.size) for r in range(height)]

    def copy(self, block: _Block, start: Value, stop: Value) -> None:
        """Copy the rows [start, stop) of the panel."""
        with self.g.loop(start, stop) as (k, _, _):
            at = {**block.fixed, self.depth: self.term(k)}
            values = [
                self.loops.read(1, {**at, self.loops.column: place}) for place in block.columns
            ]
            parts = [part for value in values for part in components(value)]
            self.store(self.panel, self.row_of_panel(k, start), parts)

    def product(
        self, block: _Block, rows: list[Coordinate], start: Value, stop: Value
    ) -> list[Value]:
        """The sums of a tile over the rows [start, stop) of the panel."""
        loops = self.loops
        zeros = [llvm_ir.zero(self.type)] * (self.plan.height * self.across)
        with self.g.loop(start, stop, 1, zeros) as (k, carried, results):
            at = {**block.fixed, self.depth: self.term(k)}
            right = self.load(self.panel, self.row_of_panel(k, start), self.across)
            totals = loops.grouped(list(carried))
            loops.add_products(at, rows, loops.grouped(right), totals)
            carried[:] = [part for total in totals for part in components(total)]
        return list(results)

    def write(self, block: _Block, rows: Sequence[Coordinate], totals: Sequence[Value]) -> None:
        loops = self.loops
        for n, value in enumerate(loops.grouped(totals)):
            r, v = divmod(n, self.plan.width)
            place = {**block.fixed, loops.row: rows[r], loops.column: block.columns[v]}
            loops.store(place, value)

    def term(self, k: Value) -> Coordinate:
        return Coordinate(k, high=self.depth.size - 1)

    def row_of_panel(self, k: Value, start: Value) -> Value:
        return self.b.mul(self.b.sub(k, start), i64(self.row_size))

    def sums_of(self, block: _Block, tile: Value) -> Value:
        return self.b.mul(self.b.sub(tile, block.first), i64(self.plan.height * self.row_size))

    def load(self, buffer: Value, first: Value, count: int) -> list[Value]:
        lanes = self.plan.lanes
        places = (self.b.add(first, i64(n * lanes)) for n in range(count))
        return [self.loops.load_vector(buffer, place, lanes) for place in places]

    def store(self, buffer: Value, first: Value, values: Sequence[Value]) -> None:
        for n, value in enumerate(values):
            place = self.b.add(first, i64(n * self.plan.lanes))
            self.loops.store_vector(buffer, place, value)
