"""Dots with the contracted dimension minor in both operands: see "dots" in :mod:`.contraction`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final

from ...ir import hlo
from .. import llvm_ir
from ..generator import ZERO, Coordinate, Index
from ..llvm_ir import Value
from ..representation import Complex, Element, components, map_components
from . import accumulation
from .contraction_loops import BLOCK, Coordinates, Loops, power_of_two, tile
from .loops import count, mask_of
from .shared_scales import any_not_finite, shared_scales, zero_if_finite
from .staged import Staged, arrays_by_column

# The most vectors that are summed before they are multiplied by their scale, or divided by it, which takes long: no
# more than an accumulator takes before it is added to others.
_MOST_SUMMED: Final = 8
_MOST_DIVIDED: Final = 16
# The most columns of a matrix that streams by in a tile, but for those that a single row meets.
_MOST_COLUMNS: Final = 4
# Sums of a column that is read alone: an addition waits for the one before it for as long as so many take.
_CHAINS: Final = 4


class Dots:
    """The sizes of tiles whose vectors run along ``minor``, and the tile that is being written."""

    def __init__(self, loops: Loops) -> None:
        c, costs = loops.c, loops.target.costs
        self.loops = loops
        self.g = loops.g
        minor = c.minor("lhs")
        assert minor is not None
        self.minor = minor
        self.others = [d for d in c.contracted if d is not minor]
        self.lanes = min(loops.lanes, power_of_two(minor.size, up=loops.can_mask))
        self.main = minor.size // self.lanes * self.lanes
        self.rest = minor.size - self.main
        self.mask = mask_of(self.rest, self.lanes) if self.rest and loops.can_mask else None
        self.streams = loops.fetches and loops.streams()
        # Numbers along the contracted dimension that are read together.
        self.in_word: int = loops.dot.attributes.get("interleaved", 1)
        self.one_by_one = self.reads_one_by_one()
        self.height, self.width = self.size_of_tiles()
        self.tiles = self.height * self.width
        self.chains = _CHAINS if self.one_by_one else 1  # sums of each element of the tile
        in_pairs = self.tiles <= 4 and self.main % (2 * self.lanes) == 0
        self.unroll = (loops.line if self.streams else 2 if in_pairs else 1) * self.in_word
        self.unroll = math.lcm(self.unroll, self.chains)
        self.scales = shared_scales(loops) if self.streams else None
        self.scaled = self.summed_before_scales()
        if self.scaled:
            self.unroll = math.lcm(self.unroll, self.scaled)
        else:
            self.scales = None
        self.ahead = costs.memory.bytes_ahead // loops.streamed_size
        # The next columns are fetched ahead, rather than the next elements of these.
        read = self.width * minor.size * loops.streamed_size // self.in_word
        self.skips = read <= costs.memory.columns_ahead and not self.others
        if self.one_by_one:  # what is behind a column in memory is the next one
            self.skips = False
            self.ahead = costs.blocks.streamed_ahead // loops.streamed_size
        # The lanes behind the end are loaded as zeros, whose product adds nothing unless something is computed of them:
        # an operand's 1 / 0 there would make the sum NaN.
        self.adds_nothing = all(_keeps_zeros(operand) for operand in loops.dot.operands)
        by_column: list[hlo.Instruction] = []
        if self.streams and len(c.rhs) == 2:
            results = loops.frame.computation.results
            by_column = arrays_by_column(loops.dot, loops.sources[1], results)
        self.staged = Staged(self.g, by_column, self.width, loops.lanes, costs.memory.sums)

    def reads_one_by_one(self) -> bool:
        """Whether the columns of a matrix that streams by are read one after the other, in the order of memory, and not
        beside each other: a single row, which is read again for each of them, stays in the nearest cache.
        """
        loops, most = self.loops, self.loops.target.costs.memory.streamed_row
        if loops.streamed_size == 1:
            most *= 2  # by a row of 32 KB bytes are read at 0.83 of the memory's speed so, f32 at 0.90 rather than 0.94
        return (
            self.streams
            and loops.row.size == 1
            and not self.others
            and loops.parts == 1
            and self.in_word == 1
            and self.lanes == loops.lanes
            and self.minor.size * loops.register_bytes <= most
        )

    def size_of_tiles(self) -> tuple[int, int]:
        """Rows and columns."""
        loops = self.loops
        rows, columns = loops.row.size, loops.column.size
        if self.one_by_one:
            return 1, 1
        if self.streams:
            height = -(-rows // -(-rows // loops.most_rows))
            # Scales of several columns take registers of their own.
            alone = loops.is_far and height == 1 and _keeps_zeros(loops.sources[1])
            most = loops.target.costs.blocks.streamed_across if alone else _MOST_COLUMNS
            return height, min(
                columns, most, max(2, (24 if loops.registers == 32 else 8) // height)
            )
        budget = 16 // loops.parts if loops.registers == 32 else 8 // loops.parts
        height = tile(rows, 4)
        width = tile(columns, max(1, budget // height))
        return height if height >= 4 else tile(rows, max(1, budget // width)), width

    def summed_before_scales(self) -> int:
        """How many vectors of the matrix are summed before they are multiplied by their scales; 0 if none are.

        The vectors of a word have numbers of several groups each, but all of them the same ones.
        """
        scales, lanes = self.scales, self.lanes
        if scales is None or self.others or lanes < self.loops.lanes or self.rest:
            return 0
        run = self.in_word * lanes
        most = _MOST_DIVIDED if scales.divides else _MOST_SUMMED
        vectors = scales.part(run, most * lanes) // lanes
        if not vectors and self.in_word > 1 and scales.group % self.in_word == 0:
            vectors = self.in_word
        # The sums of each row are multiplied: with many rows that takes as long as to multiply each vector.
        pays = vectors >= 2 * self.height and self.height <= 3
        if scales.divides:
            pays = vectors >= max(2, self.height) and self.height <= 4
        return vectors if pays and self.main % (vectors * lanes) == 0 else 0

    def emit(self) -> int:
        """Write the kernel; the units of work."""
        loops = self.loops
        down, across = -(-loops.row.size // self.height), -(-loops.column.size // self.width)
        # The matrix streams by once: all rows of lhs pass a tile's columns before the next tile's.
        tiles = [across, down] if self.streams else [down, across]
        dims = [*(d.size for d in loops.outer), *tiles]

        def unit(index: Index) -> None:
            self.tile((*index[:-2], index[-1], index[-2]) if self.streams else index)

        count(self.g, loops.frame.begin, loops.frame.end, dims, unit)
        return math.prod(dims)

    def tile(self, index: Index) -> None:
        loops, row, column = self.loops, self.loops.row, self.loops.column
        height, width = self.height, self.width
        self.fixed_at = dict(zip(loops.outer, index, strict=False))
        top = loops.start(index[-2], height, row.size)
        left = loops.start(index[-1], width, column.size)
        self.staged.fill(left)
        self.row_at = [loops.offset(top, r, 1, row.size) for r in range(height)]
        self.column_at = [loops.offset(left, v, 1, column.size) for v in range(width)]
        self.following = [self.g.shift(place, width) for place in self.column_at]

        sums = self.sums()
        if self.scales is not None:
            sums = self.again_if_not_finite(sums)
        for r in range(height):
            at = {**self.fixed_at, row: self.row_at[r]}
            self.store(at, left, sums[r * width : (r + 1) * width])

    def sums(self) -> list[Element]:
        """The elements of the tile, row by row."""
        loops, width, tiles = self.loops, self.width, self.tiles
        start = [loops.zeros(self.lanes) for _ in range(self.vectors)]
        if self.rest and self.mask is None:
            start += [loops.zeros(1) for _ in range(tiles)]
        terms = -(-self.minor.size // self.lanes)
        values = loops.contract(self.others, 1, start, self.along, terms)
        if self.chains > 1:
            values = [*self.joined(values[: self.vectors]), *values[self.vectors :]]
        found: list[Element] = []
        for r in range(self.height):
            sums = self.sum_lanes(values[r * width : (r + 1) * width])
            if tail := values[tiles + r * width : tiles + (r + 1) * width]:
                sums = [loops.add_elements(a, b) for a, b in zip(sums, tail, strict=True)]
            found += sums
        return found

    @property
    def vectors(self) -> int:
        """Accumulators of the tile that are vectors."""
        return self.tiles * self.chains

    def joined(self, chains: list[Element]) -> list[Element]:
        """The sum of the sums of the tile's only element."""
        while len(chains) > 1:
            pairs = zip(chains[::2], chains[1::2], strict=True)
            chains = [self.loops.add_elements(a, b) for a, b in pairs]
        return chains

    def again_if_not_finite(self, sums: list[Element]) -> list[Element]:
        """``sums``, which were multiplied by scales, or those of the matrix as it is if one is not finite."""
        scales, self.scales = self.scales, None
        zeros = [zero_if_finite(self.loops, components(s)[0]) for s in sums]
        found = any_not_finite(self.loops, functools.reduce(self.loops.add, zeros))
        (again, then), (same, otherwise) = self.g.either(found, self.sums, lambda: sums)
        self.scales = scales
        phi = self.g.builder.phi
        return [phi([(a, then), (b, otherwise)]) for a, b in zip(again, same, strict=True)]

    def along(self, at: Coordinates, accumulators: list[Element]) -> None:
        """Add all products along ``minor``: to vectors, and those behind the last whole vector to scalars."""
        size, lanes, step = self.minor.size, self.lanes, self.lanes * self.unroll
        vectors, scalars = accumulators[: self.vectors], accumulators[self.vectors :]
        whole = self.main // step * step
        if whole > step:

            def steps(i: Value, flat: list[Value]) -> list[Value]:
                inner = self.loops.grouped(flat)
                start = Coordinate(i, 0, 1, None, 0, size - 1, step)
                self.products(at, start, range(0, step, lanes), inner, fetches=self.streams)
                return [v for e in inner for v in components(e)]

            block = accumulation.BLOCK if self.tiles <= 4 else BLOCK
            vectors = self.loops.accumulate(whole, step, vectors, steps, self.unroll, block)
        else:
            whole = 0
        self.products(at, ZERO, range(whole, self.main, lanes), vectors)
        if self.mask is not None:
            before = list(vectors)
            with self.g.masked(self.mask):
                self.product(at, self.loops.offset(ZERO, self.main, lanes, size), vectors)
            if not self.adds_nothing:
                pairs = zip(vectors, before, strict=True)
                vectors = [self.where(self.mask, *pair) for pair in pairs]
        elif self.rest:
            for by in range(self.main, size):
                self.product(at, self.loops.offset(ZERO, by, 1, size), scalars)
        accumulators[:] = [*vectors, *scalars]

    def products(
        self,
        at: Coordinates,
        start: Coordinate,
        places: range,
        accumulators: list[Element],
        *,
        fetches: bool = False,
    ) -> None:
        """Add the products of the vectors ``places`` behind ``start`` to the tile's accumulators."""
        size, lanes = self.minor.size, self.lanes
        for number, by in enumerate(places):
            k_right = self.in_matrix(start, by)
            if fetches and by % (self.loops.line * lanes * self.in_word) == 0:
                self.fetch(at, k_right)
            chain = number // max(1, self.scaled) % self.chains
            part = accumulators[chain :: self.chains]
            if self.scales is None:
                self.product(at, self.loops.offset(start, by, lanes, size), part, k_right)
            elif number % self.scaled == 0:
                self.scaled_products(at, start, by, part)
            accumulators[chain :: self.chains] = part

    def scaled_products(
        self, at: Coordinates, start: Coordinate, first: int, accumulators: list[Element]
    ) -> None:
        """Add the products of vectors that share their scales, from ``first`` behind ``start`` on: sums of the
        integers, multiplied by the scales.
        """
        assert self.scales is not None
        loops, size, lanes, column = self.loops, self.minor.size, self.lanes, self.loops.column
        # As many columns at once as there are registers for their sums: vectors of rows are read once for them then.
        most = (loops.registers * 3 // 4 - self.tiles) // self.height
        at_once = next(n for n in (4, 3, 2, 1) if self.width % n == 0 and n <= max(1, most))
        k_scales = self.in_matrix(start, first)
        if self.in_word == 1 or self.scales.group % (self.in_word * lanes) == 0:
            k_scales = loops.offset(k_scales, 0, 1, size)
        for left in range(0, self.width, at_once):
            columns = self.column_at[left : left + at_once]
            sums = [loops.zeros(lanes)] * (self.height * len(columns))
            for by in range(first, first + self.scaled * lanes, lanes):
                k_at = {**self.fixed_at, **at, self.minor: self.in_matrix(start, by)}
                with self.scales.integers_alone():
                    right = [loops.read(1, {**k_at, column: place}) for place in columns]
                k_at[self.minor] = loops.offset(start, by, lanes, size)
                loops.add_products(k_at, self.row_at, right, sums)
            k_at = {**self.fixed_at, **at, self.minor: k_scales}
            with self.scales.scales_alone():
                scales = [loops.read(1, {**k_at, column: place}) for place in columns]
            for r in range(self.height):
                for n, scale in enumerate(scales):
                    place = r * self.width + left + n
                    part = sums[r * len(columns) + n]
                    accumulators[place] = self.scales.add(accumulators[place], part, scale)

    def product(
        self,
        at: Coordinates,
        k: Coordinate,
        accumulators: list[Element],
        k_right: Coordinate | None = None,
    ) -> None:
        """Add the products at ``k``, which the matrix may have elsewhere, to the tile's accumulators."""
        at = {**self.fixed_at, **at, self.minor: k}
        right_at = {**at, self.minor: k_right or k}
        column = self.loops.column
        right = [self.loops.read(1, {**right_at, column: place}) for place in self.column_at]
        self.loops.add_products(at, self.row_at, right, accumulators)

    def in_matrix(self, start: Coordinate, by: int) -> Coordinate:
        """Where the terms are in the matrix that rows have ``by`` behind ``start``."""
        lanes, size = self.lanes, self.minor.size
        if self.in_word == 1:
            return self.loops.offset(start, by, lanes, size)
        words, number = divmod(by // lanes, self.in_word)
        by = words * self.in_word * lanes + number
        return self.loops.offset(start, by, lanes, size)._replace(stride=self.in_word)

    def fetch(self, at: Coordinates, k: Coordinate) -> None:
        """Ask for what the matrix is made of behind ``k``."""
        if self.skips:
            self.loops.fetch({**self.fixed_at, **at, self.minor: k}, self.following)
        else:
            later = self.g.shift(k, self.ahead)
            self.loops.fetch({**self.fixed_at, **at, self.minor: later}, self.column_at)

    def store(self, at: Coordinates, left: Coordinate, scalars: Sequence[Element]) -> None:
        """Store neighbours in a row from ``left`` on, in vectors."""
        column = self.loops.column
        done, wide = 0, power_of_two(len(scalars), up=False)
        while done < len(scalars):
            while wide > len(scalars) - done:
                wide //= 2
            value = self.gathered(scalars[done : done + wide])
            self.loops.store(
                {**at, column: self.loops.offset(left, done, wide, column.size)}, value
            )
            done += wide

    def where(self, mask: Value, then: Element, otherwise: Element) -> Element:
        """``then`` in the lanes of ``mask``."""
        return map_components(lambda a, b: self.g.builder.select(mask, a, b), then, otherwise)

    def gathered(self, scalars: Sequence[Element]) -> Element:
        """Scalars as the lanes of one vector."""

        def gather(values: Sequence[Value]) -> Value:
            if len(values) == 1:
                return values[0]
            result = llvm_ir.poison(llvm_ir.vector(self.loops.type, len(values)))
            for n, v in enumerate(values):
                result = self.g.builder.insert(result, v, n)
            return result

        if self.loops.parts == 1:
            return gather([components(s)[0] for s in scalars])
        return Complex(
            gather([components(s)[0] for s in scalars]), gather([components(s)[1] for s in scalars])
        )

    def sum_lanes(self, vectors: Sequence[Element]) -> list[Element]:
        """The sum over the lanes of each vector; pairs of vectors share their additions."""
        if self.loops.parts == 2:
            sums = [self._sum_lanes([components(v)[n] for v in vectors]) for n in (0, 1)]
            return [Complex(a, b) for a, b in zip(*sums, strict=True)]
        return list(self._sum_lanes([components(v)[0] for v in vectors]))

    def _sum_lanes(self, vectors: list[Value]) -> list[Value]:
        b = self.g.builder
        lanes = llvm_ir.lanes_of(vectors[0].type)
        if lanes == 1:
            return vectors
        sums: list[Value] = []
        while len(sums) < len(vectors):
            part = vectors[len(sums) :]
            part = part[: min(power_of_two(len(part), up=False), lanes)]
            segments = len(part)
            while len(part) > 1:  # lanes of two vectors become the halves of one
                part = [
                    self.loops.add(
                        b.shuffle(x, y, range(0, 2 * lanes, 2)),
                        b.shuffle(x, y, range(1, 2 * lanes, 2)),
                    )
                    for x, y in zip(part[::2], part[1::2], strict=True)
                ]
            value, width = part[0], lanes
            while width > segments:
                width //= 2
                value = (
                    self.loops.add(
                        b.shuffle(value, value, range(0, 2 * width, 2)),
                        b.shuffle(value, value, range(1, 2 * width, 2)),
                    )
                    if width > 1
                    else self.loops.add(b.extract(value, 0), b.extract(value, 1))
                )
            sums += [b.extract(value, n) for n in range(segments)]
        return sums


def _keeps_zeros(operand: hlo.Instruction) -> bool:
    """Whether an operand of the dot is 0 wherever all arrays are 0 that it is computed of."""
    while operand.opcode in ("bitcast", "convert", "copy", "negate", "reshape", "transpose"):
        operand = operand.operands[0]
    return operand.opcode == "parameter"
