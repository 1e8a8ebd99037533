"""Dots whose right-hand side is copied: see "copied panels" in :mod:`.contraction`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .. import llvm_ir
from ..generator import Coordinate, Index
from ..llvm_ir import Value, i64
from ..representation import components
from .contraction_loops import BLOCK, Loops
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
    """A unit of work is a block of rows by a panel of columns.

    Sums are cut into pieces. The part of the panel that a piece reads is copied to the stack, where all tiles of
    the block read it from the nearest cache. Each tile starts a piece from zero and adds it to the sums of the
    pieces before, on the stack too.
    """
    g, b = loops.g, loops.g.builder
    row, column, depth, outer = loops.row, loops.column, loops.c.contracted[0], loops.outer
    plan = _plan(loops)
    height, lanes, width = plan.height, plan.lanes, plan.width
    tall, tiles = plan.tall, plan.tiles
    type_ = llvm_ir.vector(loops.type, lanes)
    across = width * loops.parts  # vectors of a row of the panel, or of a tile
    panel = b.alloca(loops.type, plan.piece * across * lanes)
    sums = b.alloca(loops.type, tall * height * across * lanes)
    g.note(panel, sums)

    def load(buffer: Value, first: Value, count: int) -> list[Value]:
        steps = (i64(n * lanes) for n in range(count))
        return [loops.load_vector(buffer, b.add(first, step), lanes) for step in steps]

    def store(buffer: Value, first: Value, values: Sequence[Value]) -> None:
        for n, value in enumerate(values):
            loops.store_vector(buffer, b.add(first, i64(n * lanes)), value)

    def unit(index: Index) -> None:
        fixed_at = dict(zip(outer, index, strict=False))
        first = g.mul(index[-2].base, i64(tall))
        last = b.intrinsic("smin", [g.add(first, i64(tall)), i64(tiles)])
        g.note(last)
        left = loops.start(index[-1], width * lanes, column.size)
        column_at = [loops.offset(left, v * lanes, lanes, column.size) for v in range(width)]

        def rows_of(tile: Value) -> list[Coordinate]:
            number = Coordinate(tile, high=tiles - 1)
            top = loops.start(number, height, row.size)
            return [loops.offset(top, r, 1, row.size) for r in range(height)]

        def sums_of(tile: Value) -> Value:
            return b.mul(b.sub(tile, first), i64(height * across * lanes))

        def write(rows: Sequence[Coordinate], totals: Sequence[Value]) -> None:
            for n, value in enumerate(loops.grouped(totals)):
                r, v = divmod(n, width)
                loops.store({**fixed_at, row: rows[r], column: column_at[v]}, value)

        def copy(start: Value, stop: Value) -> None:
            with g.loop(start, stop) as (k, _, _):
                at = {**fixed_at, depth: Coordinate(k, high=depth.size - 1)}
                values = [loops.read(1, {**at, column: place}) for place in column_at]
                to = b.mul(b.sub(k, start), i64(across * lanes))
                store(panel, to, [part for value in values for part in components(value)])

        def product(rows: list[Coordinate], start: Value, stop: Value) -> list[Value]:
            zeros = [llvm_ir.zero(type_)] * (height * across)
            with g.loop(start, stop, 1, zeros) as (k, carried, results):
                at = {**fixed_at, depth: Coordinate(k, high=depth.size - 1)}
                right = loops.grouped(
                    load(panel, b.mul(b.sub(k, start), i64(across * lanes)), across)
                )
                totals = loops.grouped(list(carried))
                loops.add_products(at, rows, right, totals)
                carried[:] = [part for total in totals for part in components(total)]
            return list(results)

        if plan.pieces == 1:
            copy(i64(0), i64(depth.size))
            with g.loop(first, last) as (tile, _, _):
                rows = rows_of(tile)
                write(rows, product(rows, i64(0), i64(depth.size)))
            return
        with g.loop(first, last) as (tile, _, _):
            store(sums, sums_of(tile), [llvm_ir.zero(type_)] * (height * across))
        with g.loop(i64(0), i64(depth.size), plan.piece) as (start, _, _):
            stop = b.intrinsic("smin", [g.add(start, i64(plan.piece)), i64(depth.size)])
            g.note(stop)
            copy(start, stop)
            with g.loop(first, last) as (tile, _, _):
                terms = product(rows_of(tile), start, stop)
                before = load(sums, sums_of(tile), height * across)
                totals = [loops.add(*pair) for pair in zip(before, terms, strict=True)]
                store(sums, sums_of(tile), totals)
        with g.loop(first, last) as (tile, _, _):
            write(rows_of(tile), load(sums, sums_of(tile), height * across))

    dims = [*(d.size for d in outer), plan.blocks, plan.panels]
    count(g, loops.frame.begin, loops.frame.end, dims, unit)
    return math.prod(dims)
