"""The "window-product" kernel: sums of products of two strided arrays, in tiles that stay in registers.

    result[o..., r, v] = sum over s... of lhs[o..., r, v, s...] * rhs[o..., r, v, s...] (+ bias[v])

Each dimension has one stride in each array, which may be 0: a convolution whose padding is part of its input is such a
sum, and no array of its windows is ever made. Its strides along a spatial dimension of the result are those of its
input times the convolution's stride, and along a dimension of the window those times the dilation. Depthwise
convolutions and the gradients are other assignments of strides; :mod:`...passes.library.window_products` makes them.

A tile has some rows (``r``) by some vectors (``v``). Along the vectors an operand has the stride 1, and is loaded a
vector at a time, or 0, and is loaded a scalar at a time; what does not change from row to row is loaded once for all
of them. The last tiles are moved back to end with the result. A unit of work is a block of tiles.

A sum of floats longer than ``PIECE`` terms is taken in pieces that start from zero and are added up, and so are those
sums if they are many: a term goes through at most PIECE roundings at each of the levels, which are the logarithm of the
length to that base. Neither depends on how units are shared out to threads.

Attributes (``config``): ``outer``, the dimensions before the rows, and ``row`` and ``vector``, as (size, stride in lhs,
in rhs, in the result); ``sums``, the contracted ones, outermost first, as (size, stride in lhs, in rhs); strides are in
elements, those of ``sums`` between *groups* (:mod:`.product_forms`); ``rows`` and ``vectors`` of a tile; ``form``. The
third operand, if there is one, is ``bias``, with the strides ``bias`` along the outer dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from .. import llvm_ir
from ..elements import conversion
from ..generator import Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .emit import EmittedKernel, Frame, emitter
from .loops import count
from .product_forms import ProductForm
from .tiles import Places

PIECE: Final = 256  # terms of a float sum that are added up one after the other
_WRITTEN_OUT: Final = 64  # multiply-adds of a loop's body
_LEAST_TILES: Final = 3  # that read the copy of a part of a panel


class Summed(NamedTuple):
    """A contracted dimension."""

    size: int
    lhs: int
    rhs: int


class Outer(NamedTuple):
    """A dimension of the result that is neither that of the rows nor of the vectors."""

    size: int
    lhs: int
    rhs: int
    result: int


class Place(NamedTuple):
    """A tile of a block: its number, its first column, and its distances from the block's first in the arrays."""

    number: Value
    left: Value
    lhs: Value
    rhs: Value
    result: Value


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a ``window-product`` instruction."""
    from .matrix_window import MatrixWindow

    is_matrix = frame.instruction.attributes["config"]["form"].is_matrix
    return (MatrixWindow if is_matrix else WindowProduct)(frame).emit()


class WindowProduct(Places):
    """The kernel with tiles in vector registers."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.b = frame.builder
        config: dict[str, Any] = frame.instruction.attributes["config"]
        self.form: ProductForm = config["form"]
        self.outer = [Outer(*d) for d in config["outer"]]
        self.row: tuple[int, ...] = config["row"]
        self.vector: tuple[int, ...] = config["vector"]
        self.sums = [Summed(*s) for s in config["sums"]]
        self.bias_strides: tuple[int, ...] = config.get("bias", (0,) * len(self.outer))
        self.rows, self.vectors = config["rows"], config["vectors"]
        form = self.form
        self.width = self.vectors * form.lanes
        self.tiles = -(-self.row[0] // self.rows)
        self.panels = -(-self.vector[0] // self.width)
        self.lhs_type, self.rhs_type = memory_type(form.lhs), memory_type(form.rhs)
        self.type = memory_type(form.result)
        self.written = self.frame.results[0].shape.dtype
        self.scratch: list[Value] = []  # a tile for each level of pieces inside of a block's
        self.copy: Value | None = None  # of a part of a panel
        self.copied = 0  # elements of it
        self.terms = math.prod(s.size for s in self.sums)
        self.speed = self.rate()
        self.split()

    def rate(self) -> float:
        """Vectors of products that are added in a nanosecond."""
        return self.frame.target.costs.kernels.tiled_multiply_adds

    def longest_piece(self) -> int:
        """Terms of a piece of a long sum."""
        # Floats are exact enough in pieces of PIECE terms, and PIECE pieces. (Integers are exact anyway.)
        return max(PIECE, -(-self.terms // PIECE)) if self.form.result.is_float else PIECE

    def split(self) -> None:
        """Choose the pieces of sums, and the block of tiles that is a unit of work.

        A block has some panels of vectors by some rows of tiles, and those at several indices of the outer dimensions
        that rhs does not have: the part of rhs that a piece needs is read from the caches by all of them. Where that
        part is copied first, all tiles of a panel are in the block if they can be: they share the copy.
        """
        form, costs = self.form, self.frame.target.costs
        self.piece = self.longest_piece() if self.terms > PIECE else max(1, self.terms)
        rows = costs.blocks.long_rows if self.piece < self.terms else costs.blocks.rows
        least = costs.threads.long_units if self.piece < self.terms else costs.threads.product_units
        self.tile_ns = self.rows * self.vectors * self.terms / self.speed
        tall = max(1, min(self.tiles, rows // self.rows))
        wide = max(1, min(self.panels, costs.blocks.columns // self.width))
        inside = [1] * len(self.outer)
        covered = tall * self.rows
        if tall == self.tiles:
            for n in reversed(range(len(self.outer))):
                size, _, rhs, _ = self.outer[n]
                if rhs or self.bias_strides[n]:
                    continue
                inside[n] = max(
                    d
                    for d in range(1, size + 1)
                    if (size % d == 0 and d * covered <= rows) or d == 1
                )
                covered *= inside[n]
                if inside[n] < size:
                    break
        while tall * wide * math.prod(inside) > 1:
            units = math.prod(d[0] for d in self.outer) // math.prod(inside)
            units *= -(-self.tiles // tall) * -(-self.panels // wide)
            block = tall * wide * math.prod(inside)
            fits = block * self.rows * self.width * form.result.size <= costs.memory.kept
            if fits and (units >= least or block * self.tile_ns <= 2 * costs.threads.unit):
                break
            covered = tall * math.prod(inside) * self.rows
            if wide > 1 and self.copies(self.sums, self.piece, tall * math.prod(inside)):
                wide = -(-wide // 2)
            elif (covered >= wide * self.width and covered > self.rows) or wide == 1:
                several = [n for n, d in enumerate(inside) if d > 1]
                if several:
                    n = several[0]
                    inside[n] = max(d for d in range(1, inside[n]) if inside[n] % d == 0)
                else:
                    tall = -(-tall // 2)
            else:
                wide = -(-wide // 2)
        self.cut_into_blocks(tall, wide, inside)

    def cut_into_blocks(self, tall: int, wide: int, inside: Sequence[int]) -> None:
        """Units of work of at most ``tall`` rows of tiles by ``wide`` panels, at ``inside`` indices of the outer
        dimensions, which divide their sizes.
        """
        # Blocks of one size: 5 tiles are 3 and 2, not 4 and 1.
        self.tall = -(-self.tiles // -(-self.tiles // tall))
        self.wide = -(-self.panels // -(-self.panels // wide))
        self.inside = [
            Outer(chunk, *strides) for chunk, (_, *strides) in zip(inside, self.outer, strict=True)
        ]
        self.outside = [
            Outer(size // d, *(stride * d for stride in strides))
            for d, (size, *strides) in zip(inside, self.outer, strict=True)
        ]
        self.block = self.tall * self.wide * math.prod(inside)

    def emit(self) -> EmittedKernel:
        b = self.b
        operands = [a.pointer for a in self.frame.operands]
        scratch = None
        if self.piece < self.terms:
            scratch = b.alloca(self.type, self.block * self.rows * self.width)

        def unit(index: Index) -> None:
            *outer, tall, wide = (c.base for c in index)
            lhs, rhs, result = (
                self.offset(outer, [d[which] for d in self.outside]) for which in (1, 2, 3)
            )
            self.bias = self.offset(outer, self.bias_strides)
            self.first_tile = b.mul(tall, i64(self.tall))
            self.first_panel = b.mul(wide, i64(self.wide))
            self.last_tile = self.end(self.first_tile, self.tall, self.tiles)
            self.last_panel = self.end(self.first_panel, self.wide, self.panels)
            lhs = b.gep(self.lhs_type, operands[0], lhs)
            rhs = b.gep(self.rhs_type, operands[1], rhs)
            written = memory_type(self.written)
            result = b.gep(written, self.frame.results[0].pointer, result)
            if scratch is None:
                for tile, part, x, y in self.tiles_of_block(self.sums, lhs, rhs):
                    self.write_sums(part, x, y, b.gep(written, result, tile.result), tile.left)
                return
            zero = llvm_ir.zero(self.form.accumulator)
            with b.loop(i64(0), i64(self.block * self.rows * self.vectors)) as n:
                b.store(zero, b.gep(zero.type, scratch, n), 4)

            def piece(part: list[Summed], x: Value, y: Value) -> None:
                for tile, own, left, right in self.tiles_of_block(part, x, y):
                    self.add_sums(own, left, right, self.place(scratch, tile))

            self.cut(self.sums, self.piece, lhs, rhs, piece)
            for panel in self.panels_of_block():
                for tile in self.tiles_of_panel(panel):
                    to = b.gep(written, result, tile.result)
                    self.write_kept(self.place(scratch, tile), to, tile.left)

        dims = [
            *(d.size for d in self.outside),
            -(-self.tiles // self.tall),
            -(-self.panels // self.wide),
        ]
        self.do_units(dims, unit)
        return self.frame.finish_large(math.prod(dims), self.block * self.tile_ns)

    def do_units(self, dims: list[int], unit: Callable[[Index], None]) -> None:
        """The loop over the units of work that the kernel is called for."""
        count(self.frame.generator, self.frame.begin, self.frame.end, dims, unit)

    def write_sums(
        self, sums: list[Summed], lhs: Value, rhs: Value, to: Value, left: Value
    ) -> None:
        """Compute the sums of a tile, and write it to ``to``; it begins at column ``left``."""
        self.write(to, left, self.total(sums, lhs, rhs))

    def add_sums(self, sums: list[Summed], lhs: Value, rhs: Value, place: Value) -> None:
        """Compute a part of the sums of a tile, and add it to those at ``place``."""
        totals = self.total(sums, lhs, rhs)
        self.keep(place, self.added(self.kept(place), totals))

    def write_kept(self, place: Value, to: Value, left: Value) -> None:
        """Write the tile whose sums are at ``place``."""
        self.write(to, left, self.kept(place))

    def tiles_of_block(
        self, sums: list[Summed], lhs: Value, rhs: Value
    ) -> Iterator[tuple[Place, list[Summed], Value, Value]]:
        """The tiles of a unit, as :meth:`panels_of_block` and :meth:`tiles_of_panel` give them, and their sums: the
        dimensions, and where the first element of each operand is.
        """
        b = self.b
        for panel in self.panels_of_block():
            left = b.mul(self.left(panel), i64(self.vector[2]))
            y = b.gep(self.rhs_type, rhs, left)
            part = sums
            tiles = self.tall * math.prod(d.size for d in self.inside)
            if self.copies(sums, math.prod(s.size for s in sums), tiles):
                part, y = self.staged(sums, y)
            for tile in self.tiles_of_panel(panel):
                x = b.gep(self.lhs_type, lhs, tile.lhs)
                own = y if part is not sums else b.gep(self.rhs_type, y, tile.rhs)
                yield tile, part, x, own

    def panels_of_block(self) -> Iterator[Value]:
        """The code of a loop over the panels of vectors of a unit: once, for any of them."""
        with self.b.loop(self.first_panel, self.last_panel) as panel:
            yield panel

    def left(self, panel: Value) -> Value:
        return self.start(panel, self.width, self.vector[0])

    def tiles_of_panel(self, panel: Value) -> Iterator[Place]:
        """The same over the tiles of a panel."""
        b = self.b
        with ExitStack() as loops:
            index = [
                loops.enter_context(b.loop(i64(0), i64(d.size))) if d.size > 1 else i64(0)
                for d in self.inside
            ]
            tile = loops.enter_context(b.loop(self.first_tile, self.last_tile))
            yield self.place_of(panel, index, tile)

    def place_of(self, panel: Value, index: Sequence[Value], tile: Value) -> Place:
        """Where a tile is: its panel, its place along the dimensions inside of the unit, and its place in the rows."""
        b = self.b
        left = self.left(panel)
        top = self.start(tile, self.rows, self.row[0])
        number = b.sub(panel, self.first_panel)
        for value, d in zip(index, self.inside, strict=True):
            number = b.add(b.mul(number, i64(d.size)), value)
        number = b.add(b.mul(number, i64(self.tall)), b.sub(tile, self.first_tile))
        places = []
        for which in (1, 2, 3):
            at = self.offset(index, [d[which] for d in self.inside])
            places.append(b.add(at, b.mul(top, i64(self.row[which]))))
        places[0] = b.add(places[0], b.mul(left, i64(self.vector[1])))
        places[2] = b.add(places[2], left)
        return Place(number, left, *places)

    def copies(self, sums: list[Summed], terms: int, tiles: int) -> bool:
        """Whether ``tiles`` tiles of a panel read a copy of the part of it that ``terms`` terms of ``sums`` need.

        Rows that are far apart in memory, often by a power of two, fall on few places of the nearest cache.
        """
        each = self.width * self.form.group
        dense = not sums or abs(sums[-1].rhs) <= each
        depends = self.row[2] or any(rhs for _, _, rhs, _ in self.outer)
        if dense or depends or tiles < _LEAST_TILES:
            return False
        size: int = terms * each * self.form.rhs.size
        most: int = self.frame.target.costs.memory.copied_panel
        return size <= most

    def staged(self, sums: list[Summed], rhs: Value) -> tuple[list[Summed], Value]:
        """``sums`` over the copy of what they need of a panel."""
        b, form = self.b, self.form
        each = self.width * form.group
        part: list[Summed] = []
        for s in reversed(sums):
            part.insert(0, s._replace(rhs=each))
            each *= s.size
        if each > self.copied:
            self.copied, self.copy = each, None
        if self.copy is None:
            self.copy = b.alloca(self.rhs_type, each)
        with ExitStack() as loops:
            source, to = rhs, self.copy
            for s, dense in zip(sums, part, strict=True):
                n = loops.enter_context(b.loop(i64(0), i64(s.size)))
                source = b.gep(self.rhs_type, source, b.mul(n, i64(s.rhs)))
                to = b.gep(self.rhs_type, to, b.mul(n, i64(dense.rhs)))
            for v in range(self.vectors):
                at = i64(v * form.lanes * form.group)
                value = b.load(form.vector, b.gep(self.rhs_type, source, at), form.rhs.size)
                b.store(value, b.gep(self.rhs_type, to, at), form.rhs.size)
        return part, self.copy

    def place(self, scratch: Value, tile: Place) -> Value:
        """Where the accumulators of a tile are kept."""
        size = self.rows * self.width
        return self.b.gep(self.type, scratch, self.b.mul(tile.number, i64(size)))

    # ------------------------------------------------------------------------------------------------------- sums

    def zeros(self) -> list[Value]:
        return [llvm_ir.zero(self.form.accumulator)] * (self.rows * self.vectors)

    def total(self, sums: list[Summed], lhs: Value, rhs: Value) -> list[Value]:
        """The accumulators of the tile whose first elements are at ``lhs`` and ``rhs``."""
        terms = math.prod(s.size for s in sums)
        levels = 1
        while self.form.result.is_float and PIECE**levels < terms:
            levels += 1
        return self.in_pieces(levels, sums, lhs, rhs)

    def in_pieces(self, level: int, sums: list[Summed], lhs: Value, rhs: Value) -> list[Value]:
        """The same in pieces of PIECE ** (level - 1) terms at most, each of which is the sum of smaller ones."""
        if level == 1:
            return self.nest(sums, lhs, rhs, self.zeros())
        while len(self.scratch) < level - 1:
            self.scratch.append(self.b.alloca(self.type, self.rows * self.width))
        kept = self.scratch[level - 2]
        self.keep(kept, self.zeros())

        def piece(part: list[Summed], x: Value, y: Value) -> None:
            totals = self.in_pieces(level - 1, part, x, y)
            self.keep(kept, self.added(self.kept(kept), totals))

        self.cut(sums, PIECE ** (level - 1), lhs, rhs, piece)
        return self.kept(kept)

    def added(self, a: list[Value], b: list[Value]) -> list[Value]:
        opcode = "fadd" if self.form.result.is_float else "add"
        return [self.b.binary(opcode, *pair) for pair in zip(a, b, strict=True)]

    def cut(
        self,
        sums: list[Summed],
        most: int,
        lhs: Value,
        rhs: Value,
        piece: Callable[[list[Summed], Value, Value], None],
    ) -> None:
        """Call ``piece`` for parts of the contracted dimensions that have at most ``most`` terms."""
        if math.prod(s.size for s in sums) <= most:
            piece(sums, lhs, rhs)
            return
        first, *rest = sums
        inside = math.prod(s.size for s in rest)
        length = max(1, most // inside)
        whole = first.size // length
        with self.b.loop(i64(0), i64(whole)) as n:
            part = [first._replace(size=length), *rest] if length > 1 else rest
            x, y = self.moved(first, self.b.mul(n, i64(length)), lhs, rhs)
            self.cut(part, most, x, y, piece)
        if first.size % length:
            x, y = self.moved(first, i64(whole * length), lhs, rhs)
            self.cut([first._replace(size=first.size % length), *rest], most, x, y, piece)

    def moved(self, along: Summed, by: Value, lhs: Value, rhs: Value) -> tuple[Value, Value]:
        b = self.b
        return (
            b.gep(self.lhs_type, lhs, b.mul(by, i64(along.lhs))),
            b.gep(self.rhs_type, rhs, b.mul(by, i64(along.rhs))),
        )

    def kept(self, place: Value) -> list[Value]:
        form = self.form
        return [
            self.b.load(form.accumulator, self.b.gep(form.accumulator, place, i64(n)), 4)
            for n in range(self.rows * self.vectors)
        ]

    def keep(self, place: Value, totals: list[Value]) -> None:
        for n, value in enumerate(totals):
            self.b.store(value, self.b.gep(value.type, place, i64(n)), 4)

    def nest(self, sums: list[Summed], lhs: Value, rhs: Value, totals: list[Value]) -> list[Value]:
        """``totals`` and all terms, in registers."""
        if not sums:
            return self.step(lhs, rhs, totals)
        first, *rest = sums
        inside = math.prod(s.size for s in rest)
        most = max(1, _WRITTEN_OUT // (self.rows * self.vectors))
        several = max(1, min(first.size, most // inside))

        def some(at: Value, number: int, values: list[Value]) -> list[Value]:
            x, y = self.moved(first, at, lhs, rhs)
            for n in range(number):
                values = self.nest(rest, *self.moved(first, i64(n), x, y), values)
            return values

        whole = first.size // several
        if whole <= 1:
            return some(i64(0), first.size, totals)
        with self.b.loop_carrying(i64(0), i64(whole * several), several, totals) as (
            at,
            carried,
            results,
        ):
            carried[:] = some(at, several, list(carried))
        return some(i64(whole * several), first.size % several, list(results))

    def step(self, lhs: Value, rhs: Value, totals: list[Value]) -> list[Value]:
        """``totals`` and one group of products for each of them."""
        form = self.form
        totals = list(totals)
        for r in range(self.rows):
            if r == 0 or self.row[1]:
                left = self.loads(
                    lhs, self.lhs_type, r * self.row[1], self.vector[1], form.lhs.size
                )
            if r == 0 or self.row[2]:
                right = self.loads(
                    rhs, self.rhs_type, r * self.row[2], self.vector[2], form.rhs.size
                )
            for v in range(self.vectors):
                n = r * self.vectors + v
                totals[n] = form.multiply_add(self.b, left[v], right[v], totals[n])
        return totals

    def loads(self, base: Value, type_: str, offset: int, stride: int, size: int) -> list[Value]:
        """An operand of the vectors of a row."""
        b, form = self.b, self.form
        if stride:
            return [
                b.load(form.vector, b.gep(type_, base, i64(offset + v * form.lanes * stride)), size)
                for v in range(self.vectors)
            ]
        scalar = b.load(form.scalar, b.gep(type_, base, i64(offset)), size)
        return [form.repeated(b, scalar)] * self.vectors

    def write(self, place: Value, left: Value, totals: list[Value]) -> None:
        b, form = self.b, self.form
        bias: list[Value] = []
        if len(self.frame.operands) > 2:
            vector = b.gep(self.type, self.frame.operands[2].pointer, b.add(self.bias, left))
            bias = [
                b.load(
                    form.accumulator,
                    b.gep(self.type, vector, i64(v * form.lanes)),
                    form.result.size,
                )
                for v in range(self.vectors)
            ]
        opcode = "fadd" if form.result.is_float else "add"
        written, size = memory_type(self.written), self.written.size
        for n, value in enumerate(totals):
            r, v = divmod(n, self.vectors)
            if bias:
                value = b.binary(opcode, value, bias[v])
            if self.written is not form.result:
                value = conversion.in_memory(self.frame.generator, value, form.result, self.written)
            at = b.gep(written, place, i64(r * self.row[3] + v * form.lanes))
            b.store(value, at, size)
