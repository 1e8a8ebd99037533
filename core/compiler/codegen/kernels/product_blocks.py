"""How the work of a packed product is cut: tiles in registers, blocks of tiles as units of work, pieces of long sums.

The kernels (:mod:`.packed_dot`, :mod:`.matrix_dot`) write the loops over what is chosen here, by the target's costs.
"""

from __future__ import annotations

import math
from typing import Any

from ...ir.hlo import Instruction
from ..generator import Array
from ..representation import memory_type
from . import tiles
from .emit import Frame
from .made_panels import MadePanels, largest_of
from .position_ranges import Ranges, ranges_read
from .product_forms import ProductForm


def product_of(frame: Frame) -> Instruction:
    """The ``packed-dot`` instruction of a kernel."""
    (dot,) = (i for i in frame.computation.instructions if i.opcode == "packed-dot")
    return dot


class ProductBlocks(tiles.Places):
    """The configuration of a ``packed-dot`` instruction (:mod:`.packed_dot`), and how its work is cut.

    A unit of work is a block of ``tall`` by ``wide`` tiles, which are ``rows`` by ``width`` elements, and takes
    ``unit_ns``. Its sums are done in ``pieces`` pieces of ``piece`` groups, the last of which may be shorter, and
    ``near`` rows of tiles at a time, whose part of lhs stays in a cache.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.b = frame.builder
        self.dot = product_of(frame)
        config: dict[str, Any] = self.dot.attributes["config"]
        # Whether units compute the parts of rhs that they use: it is not in memory.
        self.is_made: bool = config.get("made", False)
        # Roots that are computed from the product: they have its dimensions.
        roots = frame.computation.results
        self.roots = () if roots == (self.dot,) else roots
        self.form: ProductForm = config["form"]
        # Where results depend on the product.
        self.ranges = Ranges()
        if self.roots:
            self.ranges = ranges_read(self.dot, frame.computation)
        self.batch: tuple[int, ...] = config["batch"]
        self.m: int = config["m"]
        self.n: int = config["n"]
        self.k: int = config["k"]
        *self.lhs_batch, self.lhs_row, self.lhs_depth = config["lhs_strides"]
        self.rhs_batch = config["rhs_strides"]
        self.rhs_row = 0
        if not config["packed"] and not self.is_made:
            *self.rhs_batch, self.rhs_row = self.rhs_batch
        *self.result_batch, self.result_row, _ = config["result_strides"]
        self.rows: int = config["rows"]
        self.width: int = config["width"]
        self.copies: bool = config.get("copies", False)
        # Whether a unit copies the parts of all its panels before its tiles; of many rows, to have no packed rhs.
        self.is_first = config.get("first", False)
        self.copies_first = self.is_first or (self.copies and self.form.is_matrix)
        self.alpha: float = config.get("alpha", 1.0)
        self.epilogue: str = config.get("epilogue", "")
        self.vectors = self.width // self.form.lanes
        self.groups = self.form.groups(self.k)
        self.tiles, self.panels = -(-self.m // self.rows), -(-self.n // self.width)
        self.type = memory_type(self.form.result)
        self.size = self.form.result.size
        given = self.lhs_array.shape.dtype
        self.stages = given is not self.form.lhs or self.k % self.form.step != 0
        self.made: MadePanels | None = None
        if self.is_made:
            self.made = MadePanels(
                frame.generator,
                self.dot.operands[1],
                self.form.rhs,
                self.k,
                self.n,
                self.width,
                self.form.group,
                flip=self.form.flips,
                turns=config["turns"],
                in_word=config["in_word"],
                fetched=largest_of(self.dot.operands[1]),
            )
        self.choose_rates()
        self.split()

    @property
    def lhs_array(self) -> Array:
        """lhs in memory."""
        return self.frame.generator.arrays[self.dot.operands[0]]

    @property
    def rhs_array(self) -> Array:
        """rhs in memory, where it is not made."""
        assert not self.is_made
        return self.frame.generator.arrays[self.dot.operands[1]]

    @property
    def added_array(self) -> Array:
        """What an ``epilogue`` adds."""
        return self.frame.generator.arrays[self.dot.operands[2]]

    def keeps_rows(self, far: bool) -> bool:
        """Whether units of work rather have few columns than few rows; ``far``: whether the operands are larger than
        the second cache.
        """
        return self.copies  # which is for all rows of the unit

    def choose_rates(self) -> None:
        """What decides how work is cut: the groups that a step of the loop over a sum takes; vectors of products that a
        nanosecond does; bytes of a panel that stay in a near cache; rows and columns of a block, and bytes of its sums;
        how long copying a panel takes; the time below which units are not cut further; and how much of a unit's time
        reading may take.
        """
        costs = self.frame.target.costs
        self.speed = costs.kernels.tiled_multiply_adds
        terms = math.prod(self.batch) * self.m * self.n * self.groups
        long = terms >= costs.products.unrolled * self.form.lanes * self.speed
        # Sums, a row of rhs and an element of lhs. What is computed of the sums has constants, for which LLVM finds
        # room among two steps by putting sums on the stack.
        taken = self.rows * self.vectors + self.vectors + 1
        full = bool(self.roots) and taken + 1 >= self.form.registers
        self.unroll = 2 if self.form.rows <= 6 or (long and not full) else 1
        self.panel_bytes = costs.memory.panel
        self.block_rows, self.block_columns = costs.blocks.rows, costs.blocks.columns
        self.block_bytes = costs.memory.block
        self.copy_ns = 0.0  # the first tile of a block copies while it is computed
        self.short_ns = 2 * costs.threads.unit
        self.reading = 1.0
        if self.copies:
            least = costs.products.first_rows if self.is_first else costs.products.copied_rows
            self.block_rows = max(self.block_rows, least)
            self.reading = costs.products.copied_reading
            if not self.stages:  # whose copies are on the stack too
                self.block_bytes = costs.memory.kept
                if self.is_first:  # rows and columns of tiles are no powers of two
                    self.block_bytes += self.block_bytes // 8
        # The groups of a line of lhs; as many rows or more take turns in fetching theirs.
        line = costs.memory.line // (self.form.lhs.size * self.form.group)
        self.row_turns = max(line, 1 << (self.rows - 1).bit_length())

    @property
    def panel_part(self) -> int:
        """The elements of the part of a panel that a piece of the sums needs."""
        elements: int = self.piece * self.width * self.form.group
        return elements

    # ------------------------------------------------------------------------------------------------------ the cut
    def split(self) -> None:
        """Choose the block of tiles that is a unit of work, and the pieces in which sums are done."""
        form, costs = self.form, self.frame.target.costs
        self.cut_sums()
        # A line more than a row takes: neighbours are in different places of the cache.
        self.staged_row = self.piece * form.group + costs.memory.line // form.lhs.size
        # Multiplications a nanosecond.
        speed = form.lanes * form.group * self.speed
        self.tile_ns = self.rows * self.width * self.k / speed
        operands = self.k * (self.m * form.lhs.size + self.n * form.rhs.size)
        self.is_far = operands > costs.memory.second
        tall, wide = self.largest_block()
        while tall * wide > 1 and not self.is_good_block(tall, wide):
            tall, wide = self.smaller_block(tall, wide)
        self.tall, self.wide = self.even_blocks(tall, wide)
        self.near = self.near_tiles()
        self.tile_ns *= self.ranges.share(self.m, self.n)
        self.unit_ns = self.block_ns(self.tall, self.wide)

    def cut_sums(self) -> None:
        """Cut sums into pieces whose part of a panel stays in a near cache."""
        form = self.form
        # Sums go through as many roundings in narrow panels as in others.
        width = max(self.width, 2 * form.lanes) if form.name == "fma" else self.width
        depth = self.panel_bytes // (width * form.group * form.rhs.size)
        pieces = 1 if self.groups <= depth * 3 // 2 else -(-self.groups // depth)
        piece = -(-self.groups // pieces)
        step = self.unroll if self.made is None else math.lcm(self.unroll, self.made.block)
        self.piece = -(-piece // step) * step
        self.pieces = -(-self.groups // self.piece)

    def largest_block(self) -> tuple[int, int]:
        """Rows and columns of tiles whose operands stay in the caches."""
        tall = self.fitting_tiles(self.block_rows)
        if self.is_first:
            tall = min(self.tiles, -(-self.block_rows // self.rows))
        return tall, max(1, min(self.panels, self.block_columns // self.width))

    def fitting_tiles(self, rows: int) -> int:
        """Tiles of up to ``rows`` rows whose part of lhs stays in the second cache."""
        form, memory = self.form, self.frame.target.costs.memory
        row_bytes = self.piece * form.group * form.lhs.size
        tall: int = max(1, min(self.tiles, min(rows, memory.second // row_bytes) // self.rows))
        if self.stages:
            tile = self.rows * self.staged_row * form.lhs.size
            tall = max(1, min(tall, memory.kept // tile))
        return tall

    def near_tiles(self) -> int:
        """The rows of tiles of a unit that are computed for all of its panels before the next ones."""
        if not self.is_first:
            return self.tall
        tall = min(self.tall, self.fitting_tiles(self.frame.target.costs.blocks.rows))
        return -(-self.tall // -(-self.tall // tall))

    def is_good_block(self, tall: int, wide: int) -> bool:
        """Whether what a block keeps fits into the caches, and there are enough blocks for the threads."""
        threads = self.frame.target.costs.threads
        sums = min(self.m, tall * self.rows) * min(self.n, wide * self.width)
        if self.pieces > 1 and sums * self.size > self.block_bytes:
            return False
        if not self.keeps_copies(wide):
            return False
        units = self.units(tall, wide)
        unit_ns = self.block_ns(tall, wide)
        is_shared = units > 1 or unit_ns <= threads.pair
        if unit_ns <= self.short_ns and is_shared:
            return True
        if self.is_first:
            return units >= threads.long_units
        reads = self.is_far and self.reads_longest(tall, wide)
        return units >= (threads.reading_units if reads else threads.product_units)

    def keeps_copies(self, wide: int) -> bool:
        """Whether the copies of ``wide`` panels stay in the cache, if a unit makes them all before its tiles."""
        if wide == 1 or not self.copies_first:
            return True
        return wide * self.panel_part * self.form.rhs.size <= self.frame.target.costs.memory.kept

    def reads_longest(self, tall: int, wide: int) -> bool:
        """Whether a block reads its operands for longer than it computes: smaller ones would too."""
        form, kernels = self.form, self.frame.target.costs.kernels
        read_ns = (tall * self.rows * form.lhs.size + wide * self.width * form.rhs.size) * (
            self.k * kernels.far_byte
        )
        return read_ns >= tall * wide * self.tile_ns * self.reading

    def smaller_block(self, tall: int, wide: int) -> tuple[int, int]:
        """Half of a block: of its rows, or of its columns."""
        is_taller = (
            tall * self.rows >= wide * self.width
            and not self.keeps_rows(self.is_far)
            and self.keeps_copies(wide)
        )
        if (is_taller and tall > 1) or wide == 1:
            return -(-tall // 2), wide
        return tall, -(-wide // 2)

    def even_blocks(self, tall: int, wide: int) -> tuple[int, int]:
        """Blocks of one size: 5 tiles are 3 and 2, not 4 and 1. An even number of them, if they are few."""
        rows, columns = -(-self.tiles // tall), -(-self.panels // wide)
        units = self.units(tall, wide)
        if units % 2 and 1 < units < self.frame.target.costs.threads.long_units:
            if self.copies and not self.copies_first:
                columns += 1
            else:
                rows += 1
        return -(-self.tiles // rows), -(-self.panels // columns)

    def units(self, tall: int, wide: int) -> int:
        """How many blocks there are."""
        units: int = math.prod(self.batch) * -(-self.tiles // tall) * -(-self.panels // wide)
        return units

    def block_ns(self, tall: int, wide: int) -> float:
        """How long a block takes."""
        return wide * (tall * self.tile_ns + self.copy_ns)
