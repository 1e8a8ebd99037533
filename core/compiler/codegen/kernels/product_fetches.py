"""What a packed product asks the caches for while it computes a tile.

That is the part of the next panel of rhs that the tile has to fetch, the place of the tile in the result and in what
its epilogue reads, and, on some CPUs, rows of lhs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.hlo import topological_order
from ..generator import Array
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .product_tiles import Panel, PlacedTile, ProductTiles


@dataclass(frozen=True, slots=True)
class Awaited:
    """The part of an array in the place of a tile, which the tile reads or writes behind its sums: its first element,
    how many bytes its rows lie apart, the lines of a row, and 1 if it is written.
    """

    base: Value
    apart: Value
    lines: int
    write: int


class ProductFetches(ProductTiles):
    """What is fetched while a tile is computed."""

    # Where the part of the next panel begins that the tile fetches (None: it fetches none), the bytes of it a group,
    # and, of panels that are copied, the lines of each row.
    following: Value | None
    fetched: int
    fetched_lines: int
    awaited: list[Awaited]

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
            return [self.added_array]
        if not self.roots:
            return []
        # What rhs is made of is no array of the epilogue's.
        factors = set(topological_order(self.dot.operands[:2]))
        arrays = self.frame.generator.arrays
        parameters = self.frame.computation.parameters
        return [arrays[p] for p in parameters if p not in factors and p.dims == self.dot.dims]

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
            self.fetched = form.group * self.rhs_row * self.rhs_array.shape.dtype.size
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

    def next_lying(self, panel: Panel) -> Value:
        """Where the panel lies that is copied behind ``panel``: the next one of the block, or the first one, whose next
        groups are as if they were these.
        """
        b, source = self.b, memory_type(self.rhs_array.shape.dtype)
        first = self.start(self.first_panel, self.width, self.n)
        last = self.start(b.sub(self.last_panel, i64(1)), self.width, self.n)
        piece = self.piece * self.form.group
        below = b.sub(b.add(first, i64(piece * self.rhs_row)), panel.left)
        is_last = b.icmp("eq", panel.left, last)
        step = b.select(is_last, below, i64(self.width))
        return b.gep(source, panel.lying, step, inbounds=False)

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
