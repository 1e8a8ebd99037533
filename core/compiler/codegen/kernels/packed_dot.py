"""The "packed-dot" kernel: a matrix product, in tiles that stay in registers.

    result[b..., m, n] = epilogue(alpha * sum over k of lhs[b..., m, k] * rhs[b..., k, n])

rhs was packed before (:mod:`.pack`), or is read where it lies if that is as fast. lhs is read a scalar at a time: where
it lies, or, if its elements are of another type or the last group is not full, from a copy that each unit of work makes
of its rows. The result is cut into tiles of some rows by some vectors, the last ones moved back to end with the result.
A unit of work is a block of tiles: for each panel of rhs, all tiles of the block. Long sums are cut into pieces: the
part of a panel that is in use stays in the nearest cache, the block is accumulated in scratch memory, and written to
the result behind the last piece. Sums of floats start from zero in each piece, and the sum of the piece is added to
scratch memory: a term goes through as many roundings as a piece has groups and a sum has pieces, not through one for
each term of a long sum. While a tile is computed, a part of the next panel and the place of the tile in the
result are fetched into the caches. Sums do not depend on how units are shared out to threads.

Attributes (``config``): ``batch`` (sizes), ``m``, ``n``, ``k``; ``lhs_strides`` of [b..., m, k] in elements,
``rhs_strides`` of [b...] in packed matrices, or, if rhs is not packed, of [b..., k] in elements (its columns are
neighbours); ``packed``, whether it is; ``copies``, whether units copy the part of a panel that is in use (rhs may be of
another type then), which the first tile of a block does with the rows that it reads, or, with ``first``, the unit with
those of all its panels before its tiles; ``made``, whether these copies are computed of what the fusion holds before
the product, and rhs is not in memory (``turns`` and ``in_word`` are those of a "pack" then); ``result_strides`` of
[b..., m, n], the last of them 1; ``rows`` and ``width`` of a tile; ``form``, a
:class:`~.product_forms.ProductForm`; ``alpha`` (1 if it is not there) and ``epilogue``: "add" adds the third operand,
which has the result's strides, "bias" a vector of n elements.

A "packed-dot" fusion holds such an instruction, what makes its rhs if that is ``made``, and elementwise instructions
behind it, all of [b..., m, n] (the library pass :mod:`...passes.library.packed_epilogue` makes them): they are computed
from the registers, and only their results are written. Where the fusion selects something else by positions (the lower
triangle of a product), the sums of tiles that lie outside of what is left are not computed: zeros stand for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import llvm_ir
from ..generator import Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from . import tiles
from .emit import EmittedKernel, Frame, emitter
from .loops import count
from .product_blocks import product_of
from .product_copies import ProductCopies
from .product_fetches import ProductFetches
from .product_forms import last_vectors
from .product_tiles import Panel, PlacedTile
from .product_writes import ProductWrites


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a ``packed-dot`` instruction."""
    from .matrix_dot import MatrixDot

    dot = product_of(frame)
    return (MatrixDot if dot.attributes["config"]["form"].is_matrix else PackedDot)(frame).emit()


class PackedDot(ProductCopies, ProductFetches, ProductWrites):
    """The kernel with tiles in vector registers: the loops over units, panels, tiles and sums."""

    def emit(self) -> EmittedKernel:
        b, form = self.b, self.form
        lhs = self.lhs_array.pointer
        scratch = self.sums = self.staged = self.copy = None
        source = memory_type(self.lhs_array.shape.dtype)
        if self.stages:
            self.staged = b.alloca(memory_type(form.lhs), self.near * self.rows * self.staged_row)
        self.finished = self.tile_memory()
        if self.copies:
            self.copy = b.alloca(memory_type(form.rhs), self.copied_panels * self.panel_part)
        if self.pieces > 1:
            scratch = b.alloca(self.type, self.tall * self.wide * self.rows * self.width)
        if form.correction:
            self.sums = b.alloca(self.type, self.tall * self.rows)

        def unit(index: Index) -> None:
            *batch, tall, wide = (c.base for c in index)
            self.first_tile = b.mul(tall, i64(self.tall))
            self.last_tile = self.end(self.first_tile, self.tall, self.tiles)
            self.first_panel = b.mul(wide, i64(self.wide))
            self.last_panel = self.end(self.first_panel, self.wide, self.panels)
            self.lhs = b.gep(source, lhs, self.offset(batch, self.lhs_batch))
            if not self.is_made:
                matrix = 1 if self.rhs_row else self.panels * self.groups * self.width * form.group
                packed = b.mul(self.offset(batch, self.rhs_batch), i64(matrix))
                rhs = memory_type(self.rhs_array.shape.dtype)
                self.rhs = b.gep(rhs, self.rhs_array.pointer, packed)
            self.result = self.offset(batch, self.result_batch)
            self.at = tuple(index[: len(batch)])
            if self.sums is not None:
                self.sum_rows(self.sums)
            if scratch is None:
                self.block(i64(0), i64(self.groups), None)
                return
            zero = llvm_ir.zero(form.accumulator)
            size = self.tall * self.wide * self.rows * self.width
            with b.loop(i64(0), i64(size), form.lanes) as i:
                b.store(zero, b.gep(self.type, scratch, i), form.lanes * self.size)
            with b.loop(i64(0), i64(self.groups), self.piece) as start:
                stop = self.end(start, self.piece, self.groups)
                self.block(start, stop, scratch)

        dims = [*self.batch, -(-self.tiles // self.tall), -(-self.panels // self.wide)]
        self.do_units(dims, unit)
        return self.frame.finish_large(math.prod(dims), self.unit_ns)

    def do_units(self, dims: list[int], unit: Callable[[Index], None]) -> None:
        """The loop over the units of work that the kernel is called for."""
        count(self.frame.generator, self.frame.begin, self.frame.end, dims, unit)

    def tile_memory(self) -> Value | None:
        """Memory for a finished tile, if what is written is computed from it."""
        return self.b.alloca(self.type, self.rows * self.width) if self.roots else None

    def block(self, start: Value, stop: Value, scratch: Value | None) -> None:
        """The sums over the groups [start, stop), of all tiles of a unit."""
        b = self.b
        self.begin_block(start, stop)
        self.near_tile, self.near_end = self.first_tile, self.last_tile
        if self.near == self.tall:
            self.do_near_tiles(start, stop, scratch)
            return
        with b.loop(self.first_tile, self.last_tile, self.near) as tile:
            self.near_tile = tile
            self.near_end = b.intrinsic("smin", [b.add(tile, i64(self.near)), self.last_tile])
            self.do_near_tiles(start, stop, scratch)

    def do_near_tiles(self, start: Value, stop: Value, scratch: Value | None) -> None:
        """The sums over the groups [start, stop), of the tiles whose rows of lhs stay in a cache."""
        if self.staged is not None:
            self.stage(start, stop)
        self.do_tiles(start, stop, scratch)

    def do_tiles(self, start: Value, stop: Value, scratch: Value | None) -> None:
        """The loops over the tiles of a block."""
        b = self.b
        with b.loop(self.first_panel, self.last_panel) as number:
            panel = self.panel(number, start)
            last = last_vectors(self.n, self.vectors, self.form.lanes)
            if last == self.vectors or self.form.is_matrix:
                self.tiles_of_panel(panel, number, start, stop, scratch)
            else:
                with self.frame.generator.level():  # what both compute is computed before they part
                    whole, narrow, done = (b.new_label(x) for x in ("whole", "narrow", "computed"))
                    b.branch_if(b.icmp("eq", number, i64(self.panels - 1)), narrow, whole)
                    b.start_block(whole)
                    self.tiles_of_panel(panel, number, start, stop, scratch)
                    b.branch(done)
                    b.start_block(narrow)
                    self.vectors, self.skipped = last, self.vectors - last
                    self.tiles_of_panel(panel, number, start, stop, scratch)
                    self.vectors, self.skipped = self.vectors + self.skipped, 0
                    b.branch(done)
                    b.start_block(done)

    def tiles_of_panel(
        self, panel: Panel, number: Value, start: Value, stop: Value, scratch: Value | None
    ) -> None:
        """The loop over the tiles of panel ``number``."""
        b = self.b
        with b.loop(self.near_tile, self.near_end) as count_:
            tile = self.tile(panel, count_, start)
            if scratch is None:
                self.fetch_tile(tile)
                self.whole_tile(tile)
            else:
                across = b.sub(number, self.first_panel)
                place = b.add(b.mul(across, i64(self.tall)), tile.number)
                place = b.gep(self.type, scratch, b.mul(place, i64(self.rows * self.width)))
                self.fetch_tile(tile, stop, place)
                self.part_of_tile(tile, start, stop, place)

    def panel(self, number: Value, start: Value) -> Panel:
        """Panel ``number``, of which the groups from ``start`` on are in use."""
        b, form = self.b, self.form
        panel_size = self.groups * self.width * form.group
        left = self.start(number, self.width, self.n)
        lying = packed = None
        if not self.is_made:
            place = left if self.rhs_row else b.mul(number, i64(panel_size))
            lying = packed = b.gep(memory_type(self.rhs_array.shape.dtype), self.rhs, place)
        if self.copy is not None:
            part = self.copied_part(number)
            before = b.mul(start, i64(-self.width * form.group))  # as if it began with rhs
            packed = b.gep(memory_type(form.rhs), part, before, inbounds=False)
        assert packed is not None
        return Panel(lying or packed, packed, left)

    def tile(self, panel: Panel, number: Value, start: Value) -> PlacedTile:
        """The tile of ``panel`` and the rows ``number``, which is going to fetch its part of the next panel."""
        top = self.start(number, self.rows, self.m)
        row = self.row_of(number, top, start)
        count = self.b.sub(number, self.first_tile)
        left = self.b.add(panel.left, i64(self.skipped * self.form.lanes))
        tile = PlacedTile(row, panel.packed, panel.lying, top, left, count)
        self.fetch_panel(panel, self.b.sub(number, self.near_tile), start)
        return tile

    def whole_tile(self, tile: PlacedTile) -> None:
        """Compute and write a tile whose sums are not cut into pieces."""
        totals = [llvm_ir.zero(self.form.accumulator)] * (self.rows * self.vectors)
        self.write(tile, self.accumulate(tile, i64(0), i64(self.groups), totals))

    def part_of_tile(self, tile: PlacedTile, start: Value, stop: Value, place: Value) -> None:
        """Add the groups [start, stop) to the sums of a tile, which are at ``place``, and write it behind the last."""
        b, form = self.b, self.form
        if form.result.is_float:
            totals = [llvm_ir.zero(form.accumulator)] * (self.rows * self.vectors)
            totals = self.accumulate(tile, start, stop, totals)
            pairs = zip(self.kept(place), totals, strict=True)
            totals = [b.binary("fadd", *pair) for pair in pairs]
        else:
            totals = self.accumulate(tile, start, stop, self.kept(place))
        self.keep_or_write(tile, stop, place, totals)

    def row_of(self, tile: Value, top: Value, start: Value) -> Value:
        """Where the first element of the first row of ``tile`` is, or would be if the copy began with the matrix."""
        b, type_ = self.b, memory_type(self.form.lhs)
        if self.staged is None:
            return b.gep(type_, self.lhs, b.mul(top, i64(self.lhs_row)))
        number = b.mul(b.sub(tile, self.near_tile), i64(self.rows * self.staged_row))
        return b.gep(type_, self.staged, b.sub(number, b.mul(start, i64(self.form.group))))

    @property
    def copied_panels(self) -> int:
        """The panels that a copy has room for."""
        return self.wide if self.copies_first else 1

    def begin_block(self, start: Value, stop: Value) -> None:
        """What a unit does before its tiles, for the groups [start, stop) of the sums: it may copy all its panels."""
        if not self.copies_first:
            return
        if self.is_made:
            self.make_panels(start, stop)
            return
        # Rows are read in runs of all panels.
        with (
            self.b.loop(start, stop) as k,
            self.b.loop(self.first_panel, self.last_panel) as number,
        ):
            self.copied_group(self.panel(number, start), k)

    def make_panels(self, start: Value, stop: Value) -> None:
        """Compute the groups [start, stop) of the unit's panels of a rhs that is not in memory."""
        b, form, made = self.b, self.form, self.made
        assert made is not None
        rest = self.k % form.group
        whole = b.intrinsic("smin", [stop, i64(self.k // form.group)]) if rest else stop
        if made.turns:
            with b.loop(self.first_panel, self.last_panel) as number:
                panel = self.panel(number, start)
                made.write(panel.packed, panel.left, start, whole)
        else:  # rows are read in runs of all panels
            with b.loop(start, whole) as k, b.loop(self.first_panel, self.last_panel) as number:
                panel = self.panel(number, start)
                made.write_group(panel.packed, panel.left, k, form.group)
        if rest:
            is_last = b.icmp("eq", stop, i64(self.groups))
            with (
                b.only_if(is_last, "behind", "made"),
                b.loop(self.first_panel, self.last_panel) as number,
            ):
                panel = self.panel(number, start)
                made.write_group(panel.packed, panel.left, i64(self.groups - 1), rest)

    def copied_part(self, panel: Value) -> Value:
        """Where the copy of the groups of ``panel`` that are in use is. The first tile of a block makes the copy while
        it is computed (:meth:`copying_step`), or the unit before its tiles.
        """
        assert self.copy is not None
        if not self.copies_first:
            return self.copy
        number = self.b.sub(panel, self.first_panel)
        place = self.b.mul(number, i64(self.panel_part))
        return self.b.gep(memory_type(self.form.rhs), self.copy, place)

    def accumulate(
        self, tile: PlacedTile, start: Value, stop: Value, totals: list[Value]
    ) -> list[Value]:
        """A tile's sums over the groups [start, stop) on top of ``totals``."""
        b, unroll, first = self.b, self.unroll, start
        if self.copy is not None and not self.copies_first:
            middle = b.select(b.icmp("eq", tile.number, i64(0)), stop, start)
            with b.loop_carrying(start, middle, 1, totals, "copied") as (k, carried, results):
                self.fetch_lines(b.sub(k, first))
                carried[:] = self.copying_step(tile, k, carried)
            totals, start = results, middle
        if self.ranges.any:
            stop = b.select(self.is_outside(tile), start, stop)
        if unroll > 1:
            length = b.sub(stop, start)
            main = b.sub(length, b.binary("urem", length, i64(unroll)))
            middle = b.add(start, main)
            with b.loop_carrying(start, middle, unroll, totals, "product") as (k, carried, results):
                self.fetch_lines(b.sub(k, first))
                self.fetch_step(k, unroll)
                for n in range(unroll):
                    carried[:] = self.step(tile, b.add(k, i64(n)), carried)
            totals, start = results, middle
            if self.groups % unroll == 0:  # as pieces are
                return totals
        with b.loop_carrying(start, stop, 1, totals, "product") as (k, carried, results):
            if unroll == 1:
                self.fetch_lines(b.sub(k, first))
            self.fetch_step(k, 1)
            carried[:] = self.step(tile, k, carried)
        return results

    def copying_step(self, tile: PlacedTile, k: Value, totals: list[Value]) -> list[Value]:
        """A tile's sums with one more group, whose rows of rhs are read where they lie, converted, and copied."""
        return self.multiply_rows(tile, k, self.copied_group(tile, k), totals)

    def step(self, tile: PlacedTile, k: Value, totals: list[Value]) -> list[Value]:
        """A tile's sums with one more group."""
        b, form = self.b, self.form
        rhs = memory_type(form.rhs)
        lies = self.rhs_row != 0 and not self.copies
        at = b.gep(
            rhs, tile.packed, b.mul(k, i64(self.rhs_row if lies else self.width * form.group))
        )
        each = form.lanes * form.group
        align = form.rhs.size * (1 if lies else each)
        right = [
            b.load(form.vector, b.gep(rhs, at, i64((self.skipped + v) * each)), align)
            for v in range(self.vectors)
        ]
        return self.multiply_rows(tile, k, right, totals)

    def multiply_rows(
        self, tile: PlacedTile, k: Value, right: list[Value], totals: list[Value]
    ) -> list[Value]:
        """A tile's sums with group ``k``, whose row of rhs is ``right``."""
        b, form = self.b, self.form
        lhs = memory_type(form.lhs)
        row_size, depth = self.lhs_row, self.lhs_depth
        if self.staged is not None:
            row_size, depth = self.staged_row, 1
        elif depth == 1 and self.frame.target.costs.memory.groups_ahead:
            self.fetch_row(tile, k)
        at = b.gep(lhs, tile.row, b.mul(k, i64(form.group * depth)))
        return tiles.step(b, form, self.rows, at, row_size, right, totals)
