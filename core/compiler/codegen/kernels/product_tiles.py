"""What a packed product is computing: the unit of work, the panel and the tile, and where they lie.

:mod:`.packed_dot` has the loops over them. What is done around the sums of a tile has files of its own:
:mod:`.product_copies` copies operands, :mod:`.product_fetches` fetches into the caches what comes next, and
:mod:`.product_writes` computes and writes results.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..generator import Index
from ..llvm_ir import Value, i64
from .emit import Frame
from .product_blocks import ProductBlocks
from .product_forms import BF16_PAIRS


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


class ProductTiles(ProductBlocks):
    """The part of a product that is being computed, which the kernel's loops set and everything else reads.

    Tiles from ``first_tile`` and panels from ``first_panel`` on, before the last ones, are the unit of work; tiles from
    ``near_tile`` on, before ``near_end``, those whose rows of lhs stay in a cache. ``lhs`` and ``rhs`` are where the
    unit's matrices begin, ``result`` is the number of its matrix's first element in the result, and ``at`` the matrix's
    place in the batch. ``staged``, ``copy``, ``sums`` and ``finished`` are memory on the stack, if the kernel needs it:
    for copied rows of lhs, copied panels of rhs, corrections of rows, and a finished tile.
    """

    first_tile: Value
    last_tile: Value
    first_panel: Value
    last_panel: Value
    near_tile: Value
    near_end: Value
    lhs: Value
    rhs: Value
    result: Value
    at: Index
    staged: Value | None
    copy: Value | None
    sums: Value | None
    finished: Value | None

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        # The first vectors of a panel that the tiles being written leave out: those of the last panel may be narrower.
        self.skipped = 0
        # Whether no sum is a subnormal number: the instruction for pairs of bf16 makes none, adding pieces might.
        scaled = self.alpha != 1.0 or self.epilogue != ""
        self.gives_normal_sums = self.form.name == BF16_PAIRS and self.pieces == 1 and not scaled

    @property
    def tile_width(self) -> int:
        """The columns of a tile that is being written."""
        columns: int = self.vectors * self.form.lanes
        return columns

    @property
    def lying_lines(self) -> int:
        """The lines in which a row of a panel lies: one more where rows begin anywhere in a line."""
        size, line = self.rhs_array.shape.dtype.size, self.frame.target.costs.memory.line
        return -(-self.width * size // line) + (self.rhs_row * size % line != 0)

    def place(self, tile: PlacedTile) -> Value:
        """The number of the first element of ``tile`` in the result."""
        row = self.b.mul(tile.top, i64(self.result_row))
        return self.b.add(self.b.add(self.result, row), tile.left)

    def part(self, place: Value, number: int) -> Value:
        """Where accumulator ``number`` of a tile in scratch memory is."""
        return self.b.gep(self.type, place, i64(number * self.form.lanes))

    def is_outside(self, tile: PlacedTile) -> Value:
        """Whether no result depends on the sums of ``tile``."""
        b = self.b
        last = b.add(tile.top, i64(self.rows - 1))
        first, stop = self.ranges.columns(b, tile.top, last, self.n)
        is_before = b.icmp("sle", b.add(tile.left, i64(self.tile_width)), first)
        return b.binary("or", is_before, b.icmp("sge", tile.left, stop))

    def prefetch(self, pointer: Value, write: int, locality: int) -> None:
        self.b.prefetch(pointer, write=bool(write), locality=locality)
