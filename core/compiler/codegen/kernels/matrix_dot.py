"""The "packed-dot" kernel where the CPU multiplies matrices (AMX): the tiles of :mod:`.packed_dot` in its registers.

Sums go from the registers to memory before anything is computed from them: to the result where they are all that is
written, else to memory that the kernel keeps for a tile, or for two of them (:mod:`.matrix_overlap`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .. import llvm_ir
from ..generator import Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .emit import EmittedKernel, Frame
from .made_panels import interleave
from .matrix_overlap import OverlappedTiles, overlaps
from .matrix_tiles import MatrixTile, Rows
from .packed_dot import PackedDot
from .product_tiles import Panel, PlacedTile

#: Terms of a sum that are added up in a register, one step after the other: a step is one rounding of the whole sum.
LONGEST_SUM: Final = 1 << 13


class MatrixDot(PackedDot):
    """The kernel with tiles in registers of matrices."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        # The registers' instructions make zeros of subnormal sums; sums of registers' sums are other instructions'.
        self.gives_normal_sums = self.form.result.is_float and self.k <= LONGEST_SUM
        self.matrix = MatrixTile(self.form, self.rows, self.vectors)
        self.overlaps = overlaps(self)

    def keeps_rows(self, far: bool) -> bool:
        return not far  # what a unit copies of rhs, or reads of it, is for all of its rows

    def choose_rates(self) -> None:
        costs = self.frame.target.costs
        self.unroll = self.form.depth
        self.speed = costs.matrices.multiply_adds
        self.panel_bytes = costs.matrices.copied_panel if self.copies else costs.matrices.panel
        self.block_rows, self.block_columns = costs.matrices.rows, costs.blocks.columns
        panel = self.groups * self.form.group * self.width * self.form.rhs.size
        self.copy_ns = panel * costs.kernels.packed_byte if self.copies else 0.0
        self.block_bytes = costs.memory.block
        self.short_ns = costs.threads.unit
        self.reading = 1.0

    def emit(self) -> EmittedKernel:
        # Many products need no scratch memory: sums are the result. A register stores each of its rows by itself, which
        # takes longer than vectors' whole lines where the result is far away.
        plain = self.pieces == 1 and self.alpha == 1.0 and not self.epilogue and not self.roots
        near = self.dot.shape.bytes <= self.frame.target.costs.memory.second  # type: ignore[union-attr]
        self.writes_sums = plain and near
        return super().emit()

    def do_units(self, dims: list[int], unit: Callable[[Index], None]) -> None:
        with self.matrix.configured(self.b):
            super().do_units(dims, unit)

    def tile_memory(self) -> Value | None:
        if self.writes_sums:
            return None
        tiles = 2 if self.overlaps else 1
        return self.b.alloca(self.type, tiles * self.rows * self.width)

    def fetch_tile(
        self, tile: PlacedTile, stop: Value | None = None, place: Value | None = None
    ) -> None:
        """Nothing: lines of the result come while registers are stored."""

    def do_tiles(self, start: Value, stop: Value, scratch: Value | None) -> None:
        if self.overlaps:
            assert self.finished is not None
            OverlappedTiles(self, self.matrix, self.add_products, self.finished).emit()
        else:
            super().do_tiles(start, stop, scratch)

    def begin_block(self, start: Value, stop: Value) -> None:
        """Copy the groups [start, stop) of all panels of the unit: rows are read in long runs."""
        if self.copy is None:
            return
        b, form = self.b, self.form
        whole, rest = divmod(self.k, form.group)
        with b.loop(start, b.intrinsic("smin", [stop, i64(whole)])) as k:
            self.copy_group(k, start, form.group)
        if self.k % form.step:
            with b.only_if(b.icmp("eq", stop, i64(self.groups)), "behind", "copied"):
                if rest:
                    self.copy_group(i64(whole), start, rest)
                with b.loop(i64(whole + (rest > 0)), stop) as k:
                    self.copy_group(k, start, 0)

    def copy_group(self, k: Value, start: Value, rows: int) -> None:
        """Copy group ``k``, of which the first ``rows`` are there."""
        b, form = self.b, self.form
        type_ = memory_type(form.rhs)
        zero = llvm_ir.zero(llvm_ir.vector(type_, self.width))
        first = b.mul(k, i64(form.group * self.rhs_row))
        ahead = i64(self.frame.target.costs.memory.rows_ahead * form.group * self.rhs_row)
        with b.loop(self.first_panel, self.last_panel) as panel:
            left = b.add(first, self.start(panel, self.width, self.n))
            parts = []
            for r in range(rows):
                row = b.gep(type_, self.rhs, b.add(left, i64(r * self.rhs_row)))
                self.prefetch(b.gep(type_, row, ahead, inbounds=False), 0, 2)
                parts.append(b.load(zero.type, row, form.rhs.size))
            parts += [zero] * (form.group - rows)
            value = interleave(b, parts, 8 * form.rhs.size)
            at = b.mul(b.sub(k, start), i64(self.width * form.group))
            to = b.gep(type_, self.copied_part(panel), at)
            b.store(value, to, form.lanes * form.group * form.rhs.size)

    def fetch_panel(self, panel: Panel, number: Value, start: Value) -> None:
        self.following = None
        if not self.copies:  # which ask for rows ahead themselves
            super().fetch_panel(panel, number, start)

    def pad(self, place: Value) -> None:
        count = -self.k % self.form.step
        if count:
            zeros = llvm_ir.zero(llvm_ir.vector(memory_type(self.form.lhs), count))
            self.b.store(zeros, place, self.form.lhs.size)

    def whole_tile(self, tile: PlacedTile) -> None:
        self.multiply(tile, i64(0), i64(self.groups))
        if self.writes_sums:
            to = self.b.gep(self.type, self.frame.results[0].pointer, self.place(tile))
            self.matrix.store(self.b, Rows(to, self.result_row * self.size))
        else:
            assert self.finished is not None
            self.matrix.store(self.b, Rows(self.finished, self.width * self.size))
            self.write_sums(tile, self.finished)

    def part_of_tile(self, tile: PlacedTile, start: Value, stop: Value, place: Value) -> None:
        b, form = self.b, self.form
        kept = Rows(place, self.width * self.size)
        if form.result.is_float and self.k > LONGEST_SUM:
            assert self.finished is not None
            self.multiply(tile, start, stop)
            self.matrix.store(b, Rows(self.finished, kept.apart))
            self.matrix.add(b, place, self.finished)
        else:
            self.multiply(tile, start, stop, kept)
            self.matrix.store(b, kept)
        self.in_the_last_piece(stop, lambda: self.write_sums(tile, place))

    def multiply(
        self, tile: PlacedTile, start: Value, stop: Value, kept: Rows | None = None
    ) -> None:
        """The tile's sums over the groups [start, stop) in the registers, on top of those that are ``kept``."""
        if kept is None:
            self.matrix.clear(self.b)
        else:
            self.matrix.load(self.b, kept)
        self.add_products(tile, start, stop)

    def add_products(self, tile: PlacedTile, start: Value, stop: Value) -> None:
        """Add the products of the groups [start, stop) to the tile's sums in the registers."""
        row = self.staged_row if self.staged is not None else self.lhs_row
        left = Rows(tile.row, row * self.form.lhs.size, passes=True)
        right = Rows(tile.packed, self.width * self.form.group * self.form.rhs.size)
        if self.ranges.any:
            stop = self.b.select(self.is_outside(tile), start, stop)
        self.matrix.add_products(
            self.b, left, right, start, stop, lambda k: self.fetch_step(k, self.unroll)
        )

    def write_sums(self, tile: PlacedTile, sums: Value) -> None:
        """Write a tile whose sums are in memory."""
        b, form = self.b, self.form
        start = self.place(tile)
        epilogue = self.epilogue_of(start, tile.left)
        if self.roots:
            self.write_roots(tile, sums, epilogue)
            return
        base = b.gep(self.type, self.frame.results[0].pointer, start)
        with b.loop(i64(0), i64(self.rows)) as r:
            row = b.gep(self.type, sums, b.mul(r, i64(self.width)))
            to = b.gep(self.type, base, b.mul(r, i64(self.result_row)))
            for v in range(self.vectors):
                value = b.load(form.accumulator, self.part(row, v), form.lanes * self.size)
                b.store(epilogue(value, r, v), self.part(to, v), self.size)
