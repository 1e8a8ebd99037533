"""The tiles of a unit of work where a tile's epilogue is computed beside the products of the next one (AMX).

A tile's sums are whole before its epilogue begins, and an epilogue has more instructions than a CPU looks ahead: behind
its tile it would leave the registers of matrices idle. So the kernel keeps the sums of two tiles in memory, and while
it multiplies one it computes the epilogue of the one before, in turns: some steps of the sums, some rows of the
epilogue. The loop over the tiles goes round once more than there are tiles: the first round has no tile before it, the
last one nothing to multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ..llvm_ir import Value, i64
from .matrix_tiles import MatrixTile, Rows
from .packed_dot import PackedDot
from .product_tiles import PlacedTile

#: Steps of a sum from which on rows of an epilogue fit between them. With two, a product and gelu take 1.15 times as
#: long as one behind the other, with three 0.8 times (bf16, 1024 rows and columns, a Xeon of the Emerald Rapids class).
LEAST_STEPS: Final = 3


def overlaps(kernel: PackedDot) -> bool:
    """Whether a tile's epilogue is computed beside the products of the next one of its unit."""
    steps = kernel.groups // kernel.form.depth
    several = kernel.tall * kernel.wide > 1
    return bool(kernel.roots) and kernel.pieces == 1 and several and steps >= LEAST_STEPS


class OverlappedTiles:
    """The loop over the tiles of a unit of ``kernel``, whose sums have one piece: ``add_products`` adds some groups of
    a tile to the sums in the registers, which are ``matrix``. ``memory`` is for two tiles.
    """

    def __init__(
        self,
        kernel: PackedDot,
        matrix: MatrixTile,
        add_products: Callable[[PlacedTile, Value, Value], None],
        memory: Value,
    ) -> None:
        self.kernel, self.matrix, self.add_products = kernel, matrix, add_products
        self.b = kernel.b
        self.memory = memory
        steps = kernel.groups // kernel.form.depth
        # What is done in a turn: steps of the sums, and rows of the epilogue, which are not to be left at the end.
        steps_a_turn = -(-steps // kernel.rows)
        self.turns = -(-steps // steps_a_turn)
        self.groups = steps_a_turn * kernel.form.depth
        self.rows = -(-kernel.rows // self.turns)

    def emit(self) -> None:
        b, kernel = self.b, self.kernel
        tall = b.sub(kernel.last_tile, kernel.first_tile)
        count = b.mul(tall, b.sub(kernel.last_panel, kernel.first_panel))
        none = [i64(0)] * 3
        with b.loop_carrying(i64(0), b.add(count, i64(1)), 1, none, "tile") as (n, carried, _):
            rows, top, left = carried
            # The last round has the last tile once more, and none of its groups.
            tile = self.tile(b.intrinsic("smin", [n, b.sub(count, i64(1))]), tall)
            groups = b.select(b.icmp("slt", n, count), i64(kernel.groups), i64(0))
            before = replace(tile, top=top, left=left)  # as far as an epilogue needs it
            self.multiply_beside(tile, groups, before, rows, self.sums(b.add(n, i64(1))))
            self.matrix.store(b, Rows(self.sums(n), kernel.width * kernel.size))
            carried[:] = [i64(kernel.rows), tile.top, tile.left]

    def tile(self, number: Value, tall: Value) -> PlacedTile:
        """Tile ``number`` of the unit, panel by panel, each of which has ``tall`` ones."""
        b, kernel = self.b, self.kernel
        across, down = (b.binary(division, number, tall) for division in ("udiv", "urem"))
        panel = kernel.panel(b.add(kernel.first_panel, across), i64(0))
        return kernel.tile(panel, b.add(kernel.first_tile, down), i64(0))

    def sums(self, number: Value) -> Value:
        """Where the sums of tile ``number`` are in memory: every other tile's are in the same place."""
        b, kernel = self.b, self.kernel
        which = b.binary("and", number, i64(1))
        return b.gep(kernel.type, self.memory, b.mul(which, i64(kernel.rows * kernel.width)))

    def multiply_beside(
        self, tile: PlacedTile, groups: Value, before: PlacedTile, rows: Value, sums: Value
    ) -> None:
        """Multiply the first ``groups`` of ``tile``, and write the first ``rows`` of ``before``, whose sums are given:
        all of them, or none.
        """
        b, kernel = self.b, self.kernel
        epilogue = kernel.epilogue_of(kernel.place(before), before.left)
        self.matrix.clear(b)
        with b.loop(i64(0), i64(self.turns), hint="turn") as turn:
            start, stop = self.part(turn, self.groups, groups)
            self.add_products(tile, start, stop)
            with b.loop(*self.part(turn, self.rows, rows)) as r:
                kernel.write_row_of_roots(before, sums, r, epilogue)

    def part(self, turn: Value, size: int, of: Value) -> tuple[Value, Value]:
        """The numbers below ``of`` that ``turn`` has, ``size`` of them or fewer."""
        start = self.b.mul(turn, i64(size))
        return start, self.b.intrinsic("smin", [self.b.add(start, i64(size)), of])
