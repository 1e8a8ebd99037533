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
those of all its panels before its tiles; ``result_strides`` of
[b..., m, n], the last of them 1; ``rows`` and ``width`` of a tile; ``form``, a
:class:`~.product_forms.ProductForm`; ``alpha`` (1 if it is not there) and ``epilogue``: "add" adds the third operand,
which has the result's strides, "bias" a vector of n elements.

A "packed-dot" fusion holds such an instruction and elementwise ones behind it, all of [b..., m, n] (the library pass
:mod:`...passes.library.packed_epilogue` makes them): they are computed from the registers, and only their results are
written. Where the fusion selects something else by positions (the lower triangle of a product), the sums of tiles that
lie outside of what is left are not computed: zeros stand for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...ir import dtypes
from ...ir.dtypes import DType
from .. import llvm_ir
from ..elements import conversion
from ..elements.elemental import element
from ..generator import Array, Coordinate, Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from . import tiles
from .emit import EmittedKernel, Frame, emitter
from .loops import count
from .pack import interleave
from .product_blocks import ProductBlocks, product_of
from .product_forms import BF16_PAIRS, last_vectors

# The bytes of the shortest vector with which an instruction sums bytes.
_SHORTEST: Final = 16


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of rhs that is in use: where it lies, where its copy is (or would be, if the part of the sums that is in
    use began with the matrix; itself, where there is none), and its first column.
    """

    lying: Value
    packed: Value
    left: Value


@dataclass(frozen=True, slots=True)
class PlacedTile:
    """A tile that is being computed: where its rows of lhs and its panel of rhs are (or would be, if the part of the
    sums that is in use began with the matrix), its first row and column, and its number among those of its block.
    ``lying``: where the panel lies that ``packed`` is a copy of.
    """

    row: Value
    packed: Value
    lying: Value
    top: Value
    left: Value
    number: Value


@dataclass(frozen=True, slots=True)
class Awaited:
    """The part of an array in the place of a tile, which the tile reads or writes behind its sums: its first element,
    how many bytes its rows lie apart, the lines of a row, and 1 if it is written.
    """

    base: Value
    apart: Value
    lines: int
    write: int


# A vector of sums, the row of a tile that it is in and its number in the row -> what the product gives for them.
Epilogue = Callable[[Value, Value, int], Value]


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a ``packed-dot`` instruction."""
    from .matrix_dot import MatrixDot

    dot = product_of(frame)
    return (MatrixDot if dot.attributes["config"]["form"].is_matrix else PackedDot)(frame).emit()


class PackedDot(ProductBlocks):
    """The kernel with tiles in vector registers."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        # The first vectors of a panel that the tiles being written leave out: those of the last panel may be narrower.
        self.skipped = 0
        # Whether no sum is a subnormal number: the instruction for pairs of bf16 makes none, adding pieces might.
        scaled = self.alpha != 1.0 or self.epilogue != ""
        self.gives_normal_sums = self.form.name == BF16_PAIRS and self.pieces == 1 and not scaled

    def emit(self) -> EmittedKernel:
        b, form = self.b, self.form
        lhs, rhs = self.operands[0].pointer, self.operands[1].pointer
        scratch = self.sums = self.staged = self.copy = None
        source = memory_type(self.operands[0].shape.dtype)
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
            matrix = 1 if self.rhs_row else self.panels * self.groups * self.width * form.group
            packed = b.mul(self.offset(batch, self.rhs_batch), i64(matrix))
            self.rhs = b.gep(memory_type(self.operands[1].shape.dtype), rhs, packed)
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
            panel = self.panel(number, start, stop)
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

    def panel(self, number: Value, start: Value, stop: Value) -> Panel:
        """Panel ``number``, whose groups [start, stop) are copied here if each panel's are copied by itself."""
        b, form = self.b, self.form
        panel_size = self.groups * self.width * form.group
        left = self.start(number, self.width, self.n)
        place = left if self.rhs_row else b.mul(number, i64(panel_size))
        packed = lying = b.gep(memory_type(self.operands[1].shape.dtype), self.rhs, place)
        if self.copy is not None:
            part = self.copied_part(number, lying, start, stop)
            before = b.mul(start, i64(-self.width * form.group))  # as if it began with rhs
            packed = b.gep(memory_type(form.rhs), part, before, inbounds=False)
        return Panel(lying, packed, left)

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

    def kept(self, place: Value) -> list[Value]:
        """The accumulators of the tile at ``place`` in scratch memory."""
        form = self.form
        return [
            self.b.load(form.accumulator, self.part(place, n), form.lanes * self.size)
            for n in range(self.rows * self.vectors)
        ]

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
        # Rows are read in runs of all panels.
        with (
            self.b.loop(start, stop) as k,
            self.b.loop(self.first_panel, self.last_panel) as number,
        ):
            self.copied_group(self.panel(number, start, stop), k)

    def copied_part(self, panel: Value, lying: Value, start: Value, stop: Value) -> Value:
        """Where the copy of the groups [start, stop) of ``panel`` is, which lies at ``lying``. The first tile of a
        block makes the copy while it is computed (:meth:`copying_step`), or the unit before its tiles.
        """
        assert self.copy is not None
        if not self.copies_first:
            return self.copy
        number = self.b.sub(panel, self.first_panel)
        place = self.b.mul(number, i64(self.panel_part))
        return self.b.gep(memory_type(self.form.rhs), self.copy, place)

    def converted(self, value: Value, given: DType, wanted: DType) -> Value:
        return conversion.in_memory(self.frame.generator, value, given, wanted)

    def stage(self, start: Value, stop: Value) -> None:
        """Copy the groups [start, stop) of the unit's rows, converted, zeros behind the last element."""
        b, form = self.b, self.form
        given = self.operands[0].shape.dtype
        source, to = memory_type(given), memory_type(form.lhs)
        lanes = self.frame.target.lane_count(
            max(given.size, form.lhs.size, 4 if form.lhs.is_float else 1)
        )
        first = b.mul(start, i64(form.group))
        last = b.mul(stop, i64(form.group))
        if self.k % form.step:
            last = b.intrinsic("smin", [last, i64(self.k)])
        length = b.sub(last, first)
        main = b.sub(length, b.binary("urem", length, i64(lanes)))

        def copy(row: Value, place: Value, k: Value, count_: int) -> None:
            pointer = b.gep(source, row, b.mul(b.add(first, k), i64(self.lhs_depth)))
            value = b.load(llvm_ir.vector(source, count_), pointer, given.size)
            value = self.converted(value, given, form.lhs)
            b.store(value, b.gep(to, place, k), form.lhs.size)

        assert self.staged is not None
        with b.loop(self.near_tile, self.near_end) as tile:
            top = self.start(tile, self.rows, self.m)
            number = b.mul(b.sub(tile, self.near_tile), i64(self.rows))
            with b.loop(i64(0), i64(self.rows)) as r:
                row = b.gep(source, self.lhs, b.mul(b.add(top, r), i64(self.lhs_row)))
                at = b.mul(b.add(number, r), i64(self.staged_row))
                place = b.gep(to, self.staged, at)
                if self.lhs_depth == 1:
                    with b.loop(i64(0), main, lanes) as k:
                        copy(row, place, k, lanes)
                with b.loop(main if self.lhs_depth == 1 else i64(0), length) as k:
                    copy(row, place, k, 1)
                self.pad(b.gep(to, place, length))

    def pad(self, place: Value) -> None:
        """Zeros behind the last element of a staged row, where its last step is not full. Another piece than the last
        one overwrites them, or does not read them.
        """
        to = memory_type(self.form.lhs)
        for n in range(-self.k % self.form.step):
            self.b.store(llvm_ir.zero(to), self.b.gep(to, place, i64(n)), self.form.lhs.size)

    def in_the_last_piece(self, stop: Value, write: Callable[[], None]) -> None:
        """Code that runs if ``stop`` is the end of the sums."""
        is_last = self.b.icmp("sge", stop, i64(self.groups))
        with self.b.only_if(is_last, "last", "fetched"):
            write()

    def keep_or_write(
        self, tile: PlacedTile, stop: Value, place: Value, totals: list[Value]
    ) -> None:
        """Behind the last piece of the sums write the tile to the result, else keep it at ``place``."""
        b, form = self.b, self.form
        last, more, done = (b.new_label(x) for x in ("last", "more", "stored"))
        b.branch_if(b.icmp("sge", stop, i64(self.groups)), last, more)
        b.start_block(more)
        for n, total in enumerate(totals):
            b.store(total, self.part(place, n), form.lanes * self.size)
        b.branch(done)
        b.start_block(last)
        self.write(tile, totals)
        b.branch(done)
        b.start_block(done)

    def fetch_tile(
        self, tile: PlacedTile, stop: Value | None = None, place: Value | None = None
    ) -> None:
        """Ask for the lines of the results that the tile is going to be written to, and of the arrays that its epilogue
        reads in the same places: they are on their way meanwhile. Before the last piece, which ends with ``stop``, they
        are the lines of the sums at ``place``. More lines than a core waits for at a time would keep the rows of lhs
        waiting: long sums ask for them one after the other (:meth:`fetch_lines`).
        """
        b = self.b
        arrays = [(array, 1) for array in self.frame.results]
        arrays += [(array, 0) for array in self.residuals()]
        self.awaited: list[Awaited] = []
        for array, write in arrays:
            type_, size = memory_type(array.shape.dtype), array.shape.dtype.size
            base = b.gep(type_, array.pointer, self.place(tile))
            apart: Value = i64(self.result_row * size)
            if stop is not None and place is not None:
                is_last = b.icmp("sge", stop, i64(self.groups))
                base = b.select(is_last, base, place)
                apart = b.select(is_last, apart, i64(self.tile_width * self.size))
            lines = -(-self.tile_width * size // self.frame.target.costs.memory.line)
            self.awaited.append(Awaited(base, apart, lines, write))
        if self.steps_of_lines:
            return
        for awaited in self.awaited:
            for r in range(self.rows):
                for line in range(awaited.lines):
                    self.fetch_line(awaited, i64(r), i64(line))

    @property
    def steps_of_lines(self) -> int:
        """The steps of a sum in which the lines that a tile waits for are asked for; 0: before the sums."""
        last = self.groups - (self.pieces - 1) * self.piece
        steps = (
            last // self.unroll * 7 // 8
        )  # so that the last ones have come when the sums are done
        lines = self.rows * max(awaited.lines for awaited in self.awaited)
        return steps if steps >= lines > self.frame.target.costs.memory.requests else 0

    def fetch_lines(self, k: Value) -> None:
        """Ask for the lines that the step at group ``k`` of the piece asks for."""
        b, steps = self.b, self.steps_of_lines
        if not steps:
            return
        for awaited in self.awaited:
            # A fraction of 2^16: how many lines a group is.
            share = (self.rows * awaited.lines << 16) // (steps * self.unroll)
            number = b.binary("lshr", b.mul(k, i64(share)), i64(16))
            row, line = number, i64(0)
            if awaited.lines > 1:
                row = b.binary("udiv", number, i64(awaited.lines))
                line = b.binary("urem", number, i64(awaited.lines))
            self.fetch_line(awaited, row, line)

    def fetch_line(self, awaited: Awaited, row: Value, line: Value) -> None:
        b = self.b
        offset = b.add(
            b.mul(row, awaited.apart), b.mul(line, i64(self.frame.target.costs.memory.line))
        )
        pointer = b.gep("i8", awaited.base, offset, inbounds=False)
        self.prefetch(pointer, awaited.write, 3)

    def residuals(self) -> list[Array]:
        """The arrays of the result's dimensions that the epilogue reads."""
        if self.epilogue == "add":
            return [self.operands[2]]
        factors = self.operands[:2]
        arrays = [a for a in self.frame.operands if a not in factors] if self.roots else []
        return [a for a in arrays if a.shape.dims == self.dot.dims]

    def fetch_panel(self, panel: Panel, number: Value, start: Value) -> None:
        """Where :meth:`step` begins to fetch what tile ``number`` of a block is to fetch of the next panel."""
        b, form = self.b, self.form
        self.following: Value | None = None
        group = self.width * form.group * form.rhs.size
        if self.copies_first:  # the next one has been copied
            if self.wide > 1:
                self.follow(panel.packed, self.piece * group, number, start)
            return
        if self.copies:  # some lines of each row, others with the next tile; the first tile, which copies, fetches none
            if self.tall == 1 or (self.panels == 1 and self.pieces == 1):
                return
            self.fetched_lines = -(-self.lying_lines // (self.tall - 1))
            turn = b.binary("urem", number, i64(-(-self.lying_lines // self.fetched_lines)))
            line = b.mul(turn, i64(self.fetched_lines * self.frame.target.costs.memory.line))
            self.fetched = form.group * self.rhs_row * self.operands[1].shape.dtype.size
            self.following = b.gep("i8", self.next_lying(panel), line, inbounds=False)
            return
        if self.panels == 1 or self.rhs_row:
            return
        self.follow(panel.lying, self.groups * group, number, start)

    def follow(self, panel: Value, distance: int, number: Value, start: Value) -> None:
        """Have tile ``number`` fetch its part of the panel ``distance`` bytes behind ``panel``."""
        b, form = self.b, self.form
        group = self.width * form.group * form.rhs.size
        self.fetched = -(-group // self.near)  # bytes a group
        begin = b.add(i64(distance), b.mul(number, i64(self.piece * self.fetched)))
        begin = b.add(begin, b.mul(start, i64(group - self.fetched)))
        self.following = b.gep("i8", panel, begin, inbounds=False)

    @property
    def tile_width(self) -> int:
        """The columns of a tile that is being written."""
        columns: int = self.vectors * self.form.lanes
        return columns

    @property
    def lying_lines(self) -> int:
        """The lines in which a row of a panel lies: one more where rows begin anywhere in a line."""
        size, line = self.operands[1].shape.dtype.size, self.frame.target.costs.memory.line
        return -(-self.width * size // line) + (self.rhs_row * size % line != 0)

    def next_lying(self, panel: Panel) -> Value:
        """Where the panel lies that is copied behind ``panel``: the next one of the block, or the first one, whose next
        groups are as if they were these.
        """
        b, source = self.b, memory_type(self.operands[1].shape.dtype)
        first = self.start(self.first_panel, self.width, self.n)
        last = self.start(b.sub(self.last_panel, i64(1)), self.width, self.n)
        piece = self.piece * self.form.group
        below = b.sub(b.add(first, i64(piece * self.rhs_row)), panel.left)
        is_last = b.icmp("eq", panel.left, last)
        step = b.select(is_last, below, i64(self.width))
        return b.gep(source, panel.lying, step, inbounds=False)

    def prefetch(self, pointer: Value, write: int, locality: int) -> None:
        self.b.prefetch(pointer, write=bool(write), locality=locality)

    def place(self, tile: PlacedTile) -> Value:
        """The number of the first element of ``tile`` in the result."""
        row = self.b.mul(tile.top, i64(self.result_row))
        return self.b.add(self.b.add(self.result, row), tile.left)

    def part(self, place: Value, number: int) -> Value:
        """Where accumulator ``number`` of a tile in scratch memory is."""
        return self.b.gep(self.type, place, i64(number * self.form.lanes))

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

    def is_outside(self, tile: PlacedTile) -> Value:
        """Whether no result depends on the sums of ``tile``."""
        b = self.b
        last = b.add(tile.top, i64(self.rows - 1))
        first, stop = self.ranges.columns(b, tile.top, last, self.n)
        is_before = b.icmp("sle", b.add(tile.left, i64(self.tile_width)), first)
        return b.binary("or", is_before, b.icmp("sge", tile.left, stop))

    def fetch_step(self, k: Value, count: int) -> None:
        """Ask for the part of the next panel that the steps at ``count`` groups from ``k`` on fetch."""
        if self.following is None:
            return
        b, line_bytes = self.b, self.frame.target.costs.memory.line
        ahead = b.gep("i8", self.following, b.mul(k, i64(self.fetched)), inbounds=False)
        if self.copies and not self.copies_first:
            group = self.form.group
            places = [
                n * (self.fetched // group) + line * line_bytes
                for n in range(count * group)
                for line in range(self.fetched_lines)
            ]
        else:
            places = list(range(0, count * self.fetched, line_bytes))
        for place in places:
            self.prefetch(b.gep("i8", ahead, i64(place), inbounds=False), 0, 2)

    def copying_step(self, tile: PlacedTile, k: Value, totals: list[Value]) -> list[Value]:
        """A tile's sums with one more group, whose rows of rhs are read where they lie, converted, and copied."""
        return self.multiply_rows(tile, k, self.copied_group(tile, k), totals)

    def copied_group(self, panel: PlacedTile | Panel, k: Value) -> list[Value]:
        """The vectors of group ``k`` of a panel, read where they lie, converted, and copied."""
        b, form = self.b, self.form
        given = self.operands[1].shape.dtype
        source, to = memory_type(given), memory_type(form.rhs)
        row = b.gep(source, panel.lying, b.mul(k, i64(form.group * self.rhs_row)))
        place = b.gep(to, panel.packed, b.mul(k, i64(self.width * form.group)))
        ahead = self.frame.target.costs.memory.rows_ahead * form.group
        for n in range(ahead, ahead + form.group):
            below = b.gep(source, row, i64(n * self.rhs_row), inbounds=False)
            for line in range(self.lying_lines):
                at = i64(line * self.frame.target.costs.memory.line)
                self.prefetch(b.gep("i8", below, at, inbounds=False), 0, 3)
        right = []
        # Whole rows are turned into groups by fewer instructions than their vectors are.
        columns = form.lanes if form.group == 1 else self.tile_width
        for column in range(self.skipped * form.lanes, self.width, columns):
            parts = []
            for n in range(form.group):
                pointer = b.gep(source, row, i64(n * self.rhs_row + column))
                value = b.load(llvm_ir.vector(source, columns), pointer, given.size)
                parts.append(self.converted(value, given, form.rhs))
            value = interleave(b, parts, 8 * form.rhs.size)
            if form.flips:
                value = b.binary("xor", value, llvm_ir.integer(value.type, -128))
            each = form.lanes * form.group
            for first in range(0, columns * form.group, each):
                part = value
                if columns > form.lanes:
                    part = b.shuffle(value, value, range(first, first + each))
                right.append(part)
                to_place = b.gep(to, place, i64(column * form.group + first))
                b.store(part, to_place, each * form.rhs.size)
        return right

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

    def fetch_row(self, tile: PlacedTile, k: Value) -> None:
        """Ask for what one of the tile's rows of lhs has some groups behind ``k``; each row has its turn."""
        b, form = self.b, self.form
        lhs, memory = memory_type(form.lhs), self.frame.target.costs.memory
        ahead = b.mul(b.add(k, i64(memory.groups_ahead)), i64(form.group))
        turn = b.binary("and", k, i64(self.row_turns - 1))
        place = b.add(ahead, b.mul(turn, i64(self.lhs_row)))
        row = b.gep(lhs, tile.row, place, inbounds=False)
        for at in range(0, self.row_turns * form.group * form.lhs.size, memory.line):
            self.prefetch(b.gep("i8", row, i64(at), inbounds=False), 0, 3)

    def sum_rows(self, sums: Value) -> None:
        """``correction`` times the sum of each row of lhs that the unit reads."""
        b, form = self.b, self.form
        lanes = 4 * form.lanes
        while lanes > max(self.k, _SHORTEST):  # a shorter vector for rows that do not fill one
            lanes //= 2
        instruction = f"{form.instruction.rpartition('.')[0]}.{8 * lanes}"
        vector, sums_type = f"<{lanes} x i8>", f"<{lanes // 4} x i32>"
        rest = self.k % lanes
        main = self.k - rest
        extend = "zext" if form.lhs is dtypes.U8 else "sext"

        def added(row: Value, first: Value, ones: Value, total: Value) -> Value:
            """``total`` and the elements from ``first`` on whose lane is 1 in ``ones``."""
            value = b.load(vector, b.gep("i8", row, first), 1)
            pair = [value, ones] if form.lhs is dtypes.U8 else [ones, value]
            return b.call(sums_type, instruction, [total, *pair])

        with b.loop(self.first_tile, self.last_tile) as tile:
            top = self.start(tile, self.rows, self.m)
            first = b.mul(b.sub(tile, self.first_tile), i64(self.rows))
            with b.loop(i64(0), i64(self.rows)) as r:
                row = b.gep("i8", self.lhs, b.mul(b.add(top, r), i64(self.lhs_row)))
                total = llvm_ir.zero(sums_type)
                with b.loop_carrying(i64(0), i64(main), lanes, [total]) as (k, carried, results):
                    carried[:] = [added(row, k, llvm_ir.integer(vector, 1), carried[0])]
                total = results[0]
                if main and rest:  # the vector that ends with the row, without what is in the sum
                    ones = llvm_ir.lanes_constant("i8", [0] * (lanes - rest) + [1] * rest)
                    total = added(row, i64(self.k - lanes), ones, total)
                name = f"llvm.vector.reduce.add.{llvm_ir.mangle(sums_type)}"
                whole = b.call("i32", name, [total])
                if not main:
                    with b.loop_carrying(i64(0), i64(rest), 1, [whole]) as (k, carried, results):
                        value = b.cast(extend, b.load("i8", b.gep("i8", row, k), 1), "i32")
                        carried[:] = [b.add(carried[0], value)]
                    (whole,) = results
                value = b.mul(whole, llvm_ir.integer("i32", form.correction))
                b.store(value, b.gep("i32", sums, b.add(first, r)), 4)

    def write(self, tile: PlacedTile, totals: list[Value]) -> None:
        """Write a finished tile to the result."""
        b, form = self.b, self.form
        start = self.place(tile)
        base = b.gep(self.type, self.frame.results[0].pointer, start)
        finished: list[Value] = []
        first = b.mul(tile.number, i64(self.rows))
        epilogue = self.epilogue_of(start, tile.left)
        for n, value in enumerate(totals):
            r, v = divmod(n, self.vectors)
            if self.sums is not None:
                place = b.gep("i32", self.sums, b.add(first, i64(r)))
                value = b.add(value, b.splat(b.load("i32", place, 4), form.lanes))
            value = epilogue(value, i64(r), v)
            if self.roots:
                finished.append(value)
            else:
                offset = i64(r * self.result_row + v * form.lanes)
                b.store(value, b.gep(self.type, base, offset), self.size)
        if finished:
            assert self.finished is not None
            for n, value in enumerate(finished):
                b.store(value, self.part(self.finished, n), form.lanes * self.size)
            self.write_roots(tile, self.finished)

    def epilogue_of(self, start: Value, left: Value) -> Epilogue:
        """What a tile whose first element is ``start`` of the result, in column ``left``, applies to its sums."""
        b, form = self.b, self.form
        bias: list[Value] = []
        if self.epilogue == "bias":
            vector = b.gep(self.type, self.operands[2].pointer, left)
            bias = [
                b.load(form.accumulator, b.gep(self.type, vector, i64(v * form.lanes)), self.size)
                for v in range(self.vectors)
            ]
        added = None
        if self.epilogue == "add":
            added = b.gep(self.type, self.operands[2].pointer, start)

        def apply(value: Value, r: Value, v: int) -> Value:
            if self.alpha != 1.0:
                value = b.binary("fmul", value, llvm_ir.floating(value.type, self.alpha))
            if bias:
                value = b.binary("fadd", value, bias[v])
            elif added is not None:
                offset = b.add(b.mul(r, i64(self.result_row)), i64(v * form.lanes))
                other = b.load(value.type, b.gep(self.type, added, offset), self.size)
                value = b.binary("fadd", value, other)
            return value

        return apply

    def write_roots(self, tile: PlacedTile, sums: Value, epilogue: Epilogue | None = None) -> None:
        """Write what is computed from the sums of ``tile`` (at ``sums``, row by row, without ``epilogue`` where that is
        given), a row at a time: long code is there once for each vector.
        """
        with self.b.loop(i64(0), i64(self.rows)) as r:
            self.write_row_of_roots(tile, sums, r, epilogue)

    def write_row_of_roots(
        self, tile: PlacedTile, sums: Value, r: Value, epilogue: Epilogue | None
    ) -> None:
        """Row ``r`` of :meth:`write_roots`."""
        b, g, form = self.b, self.frame.generator, self.form
        with g.level():  # what is computed here is known here only
            block = b.new_label("roots")
            b.branch(block)
            b.start_block(block)
            finished = b.gep(self.type, sums, b.mul(r, i64(self.tile_width)))
            row = Coordinate(b.add(tile.top, r), high=self.m - 1)
            for v in range(self.vectors):
                at = b.add(tile.left, i64(v * form.lanes))
                column = Coordinate(at, 1, form.lanes, None, 0, self.n - 1)
                index = (*self.at, row, column)
                value = b.load(form.accumulator, self.part(finished, v), form.lanes * self.size)
                if self.gives_normal_sums:
                    g.normal.add(value.number)
                if epilogue is not None:
                    value = epilogue(value, r, v)
                g.know(self.dot, index, value)
                results = [element(g, root, index) for root in self.roots]
                for array, result in zip(self.frame.results, results, strict=True):
                    g.store(array, index, result)
