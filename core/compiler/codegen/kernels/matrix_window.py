"""The "window-product" kernel where the CPU multiplies matrices (AMX).

The innermost contracted dimension is that of groups of neighbours: whole steps of AMX's instructions. The registers of
sums go on from what is at a tile's place in scratch memory where sums are cut into pieces. A step is one rounding of a
sum of floats: sums of more than ``LONGEST_SUM`` steps start from zero in each piece, and the pieces are added up.

Outer dimensions in which lhs moves by less than the only sum is long are *near*: gradients of weights have the window
there, whose elements read nearly the same part of lhs. A unit of work computes them for some rows, one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

from ..elements import conversion
from ..generator import Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .emit import Frame
from .matrix_tiles import MatrixTile, Rows
from .window_product import PIECE, Place, Summed, WindowProduct

# Steps of a sum of floats that are added up in a register, each with one rounding of the whole sum.
LONGEST_SUM: Final = 4096


class MatrixWindow(WindowProduct):
    """The kernel with tiles in registers of matrices."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.matrix = MatrixTile(self.form, self.rows, self.vectors)
        self.finished: Value | None = None  # memory of a tile

    def rate(self) -> float:
        return self.frame.target.costs.matrices.multiply_adds

    def longest_piece(self) -> int:
        return PIECE  # whole steps

    def split(self) -> None:
        run = self.sums[-1].size * self.sums[-1].lhs if len(self.sums) == 1 else 0
        self.near = [0 < d.lhs < min(run, self.row[1]) and not d.rhs for d in self.outer]
        if not any(self.near):
            super().split()
            return
        costs = self.frame.target.costs
        each = self.width * self.form.group * self.form.rhs.size
        most = costs.memory.panel // each // self.form.depth * self.form.depth
        self.piece = self.terms if self.terms <= most * 3 // 2 else most
        self.tile_ns = self.rows * self.vectors * self.terms / self.speed
        inside = [d.size if near else 1 for d, near in zip(self.outer, self.near, strict=True)]
        tile = self.rows * self.width * self.form.result.size
        if self.piece < self.terms:  # sums are kept in memory
            for n in range(len(inside)):
                while inside[n] > 1 and math.prod(inside) * tile > costs.memory.kept:
                    inside[n] = max(d for d in range(1, inside[n]) if inside[n] % d == 0)
        outside = self.tiles * math.prod(d.size for d in self.outer) // math.prod(inside)
        wide = self.panels
        while wide > 1:
            several = wide * math.prod(inside)
            fits = self.piece == self.terms or several * tile <= costs.memory.kept
            enough = outside * -(-self.panels // wide) >= costs.threads.long_units
            if fits and (enough or several * self.tile_ns <= 2 * costs.threads.unit):
                break
            wide = -(-wide // 2)
        self.cut_into_blocks(1, wide, inside)

    def do_units(self, dims: list[int], unit: Callable[[Index], None]) -> None:
        with self.matrix.configured(self.b):
            super().do_units(dims, unit)

    def tiles_of_block(
        self, sums: list[Summed], lhs: Value, rhs: Value
    ) -> Iterator[tuple[Place, list[Summed], Value, Value]]:
        if not any(self.near):
            yield from super().tiles_of_block(sums, lhs, rhs)
            return
        b = self.b
        with ExitStack() as loops:
            tile = loops.enter_context(b.loop(self.first_tile, self.last_tile))
            index = [
                loops.enter_context(b.loop(i64(0), i64(d.size))) if d.size > 1 else i64(0)
                for d in self.inside
            ]
            panel = loops.enter_context(b.loop(self.first_panel, self.last_panel))
            place = self.place_of(panel, index, tile)
            right = b.add(place.rhs, b.mul(place.left, i64(self.vector[2])))
            left = b.gep(self.lhs_type, lhs, place.lhs)
            yield place, sums, left, b.gep(self.rhs_type, rhs, right)

    def write_sums(
        self, sums: list[Summed], lhs: Value, rhs: Value, to: Value, left: Value
    ) -> None:
        self.matrix.clear(self.b)
        self.multiply(sums, lhs, rhs)
        if self.written is self.form.result:
            self.matrix.store(self.b, Rows(to, self.row[3] * self.form.result.size))
            return
        self.matrix.store(self.b, self.kept_rows(self.memory_of_tile()))
        self.write_rounded(self.memory_of_tile(), to)

    def add_sums(self, sums: list[Summed], lhs: Value, rhs: Value, place: Value) -> None:
        kept = self.kept_rows(place)
        if self.form.result.is_float and self.terms > LONGEST_SUM * self.form.depth:
            self.matrix.clear(self.b)
            self.multiply(sums, lhs, rhs)
            self.matrix.store(self.b, self.kept_rows(self.memory_of_tile()))
            self.matrix.add(self.b, place, self.memory_of_tile())
            return
        self.matrix.load(self.b, kept)
        self.multiply(sums, lhs, rhs)
        self.matrix.store(self.b, kept)

    def write_kept(self, place: Value, to: Value, left: Value) -> None:
        if self.written is self.form.result:
            self.matrix.load(self.b, self.kept_rows(place))
            self.matrix.store(self.b, Rows(to, self.row[3] * self.form.result.size))
        else:
            self.write_rounded(place, to)

    def memory_of_tile(self) -> Value:
        """Memory for the sums of one tile."""
        if self.finished is None:
            self.finished = self.b.alloca(self.type, self.rows * self.width)
        return self.finished

    def kept_rows(self, place: Value) -> Rows:
        """The rows of a tile in memory of the kernel."""
        return Rows(place, self.width * self.form.result.size)

    def write_rounded(self, place: Value, to: Value) -> None:
        """Write the tile whose sums are at ``place`` in the type of the result."""
        b, form = self.b, self.form
        type_ = memory_type(self.written)
        with b.loop(i64(0), i64(self.rows)) as r:
            row = b.gep(self.type, place, b.mul(r, i64(self.width)))
            result = b.gep(type_, to, b.mul(r, i64(self.row[3])))
            for v in range(self.vectors):
                at = i64(v * form.lanes)
                sums = b.load(form.accumulator, b.gep(self.type, row, at), 4)
                value = conversion.in_memory(self.frame.generator, sums, form.result, self.written)
                b.store(value, b.gep(type_, result, at), self.written.size)

    def multiply(self, sums: list[Summed], lhs: Value, rhs: Value) -> None:
        """Add the products of ``sums`` to the registers."""
        b, form = self.b, self.form
        *outer, groups = sums
        with ExitStack() as loops:
            for s in outer:
                n = loops.enter_context(b.loop(i64(0), i64(s.size)))
                lhs, rhs = self.moved(s, n, lhs, rhs)
            left = Rows(lhs, self.row[1] * form.lhs.size)
            right = Rows(rhs, groups.rhs * form.rhs.size)
            self.matrix.add_products(b, left, right, i64(0), i64(groups.size))
