"""How tiles of a packed product are written: what is computed from their sums, and where pieces of sums are kept."""

from __future__ import annotations

from collections.abc import Callable

from .. import llvm_ir
from ..elements.elemental import element
from ..generator import Coordinate
from ..llvm_ir import Value, i64
from .product_tiles import PlacedTile, ProductTiles

# A vector of sums, the row of a tile that it is in and its number in the row -> what the product gives for them.
Epilogue = Callable[[Value, Value, int], Value]


class ProductWrites(ProductTiles):
    """What is done behind the sums of a tile."""

    def kept(self, place: Value) -> list[Value]:
        """The accumulators of the tile at ``place`` in scratch memory."""
        form = self.form
        return [
            self.b.load(form.accumulator, self.part(place, n), form.lanes * self.size)
            for n in range(self.rows * self.vectors)
        ]

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

    def in_the_last_piece(self, stop: Value, write: Callable[[], None]) -> None:
        """Code that runs if ``stop`` is the end of the sums."""
        is_last = self.b.icmp("sge", stop, i64(self.groups))
        with self.b.only_if(is_last, "last", "fetched"):
            write()

    def write(self, tile: PlacedTile, totals: list[Value]) -> None:
        """Write a finished tile to the result."""
        b, form = self.b, self.form
        start = self.place(tile)
        base = b.gep(self.type, self.frame.results[0].pointer, start)
        first = b.mul(tile.number, i64(self.rows))
        epilogue = self.epilogue_of(start, tile.left)

        def finish(n: int) -> Value:
            r, v = divmod(n, self.vectors)
            value = totals[n]
            if self.sums is not None:
                place = b.gep("i32", self.sums, b.add(first, i64(r)))
                value = b.add(value, b.splat(b.load("i32", place, 4), form.lanes))
            return epilogue(value, i64(r), v)

        def store_rows(begin: int, end: int) -> None:
            for n in range(begin * self.vectors, end * self.vectors):
                r, v = divmod(n, self.vectors)
                value = finish(n)
                offset = i64(r * self.result_row + v * form.lanes)
                b.store(value, b.gep(self.type, base, offset), self.size)

        if self.roots:
            assert self.finished is not None
            for n in range(len(totals)):
                b.store(finish(n), self.part(self.finished, n), form.lanes * self.size)
            self.write_roots(tile, self.finished)
            return
        shared = -self.m % self.rows if self.epilogue == "add" else 0
        if shared:
            # The result may lie over the operand that is added, to whose rows the tile before has added already.
            with b.only_if(b.icmp("slt", tile.top, i64(self.m - self.rows)), "shared", "own"):
                store_rows(0, shared)
        store_rows(shared, self.rows)

    def epilogue_of(self, start: Value, left: Value) -> Epilogue:
        """What a tile whose first element is ``start`` of the result, in column ``left``, applies to its sums."""
        b, form = self.b, self.form
        bias: list[Value] = []
        if self.epilogue == "bias":
            vector = b.gep(self.type, self.added_array.pointer, left)
            bias = [
                b.load(form.accumulator, b.gep(self.type, vector, i64(v * form.lanes)), self.size)
                for v in range(self.vectors)
            ]
        added = None
        if self.epilogue == "add":
            added = b.gep(self.type, self.added_array.pointer, start)

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
        given), a row at a time: long code is there once for each vector. Rows that the tile before has written are left
        out, as the result may lie over an operand (:mod:`...memory.inplace`).
        """
        first = i64(0)
        if self.m % self.rows:
            number = self.b.add(self.first_tile, tile.number)
            first = self.b.sub(self.b.mul(number, i64(self.rows)), tile.top)
        with self.b.loop(first, i64(self.rows)) as r:
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
