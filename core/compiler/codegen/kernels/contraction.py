"""The "dot" kernel: contractions of any dimension numbers and dtypes, written for small and odd
ones.

Large matrix products go to a library; what is left is products whose matrices fit in the caches,
matrix-vector products (bound by memory), and dtypes no library knows. Operands may be computed on
the fly (a "dot" fusion reads its operands through element generators) and elementwise instructions
may follow.

Dimensions fall into four groups: batch, rows (free in lhs), columns (free in rhs) and contracted.
Neighbours of a group that are neighbours in every array are merged. Three ways to compute a tile of
the result:

* columns: a vector holds neighbouring columns; elements of lhs are broadcast. For rhs with columns
  minor (``[K,N]``), and, with the operands exchanged, for lhs with rows minor.
* dots: a vector holds neighbouring contracted elements of both operands; the accumulators of a tile
  are summed across lanes at the end, all at once. For operands with the contracted dimension minor
  (``[M,K] x [N,K]``).
* panels: few rows times a large matrix with columns minor: a block of columns is accumulated in
  memory while eight rows of the matrix at a time stream by.
* copied panels: complex numbers, in any order of dimensions, with enough rows to pay for the copies: a part of a
  panel of columns is copied, real parts apart from imaginary ones, and multiplied by a block of rows before the next
  part is read.

Few rows times a large matrix with the contracted dimension minor are dots. Either way the matrix is
read once, and fetched ahead: memory decides how long such a product takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ...ir import errors, hlo
from .. import costs, llvm_ir
from ..elements.elemental import element
from ..elements.products import Products
from ..generator import ZERO, Array, Coordinate, Index, fixed
from ..llvm_ir import Module, Value, i64
from ..representation import Complex, Element, components, map_components
from . import accumulation
from .emit import EmittedKernel, Frame
from .loops import count, mask_of
from .staged import Staged, arrays_by_column

if TYPE_CHECKING:
    from ...targets.target import Target

# Products that an accumulator takes in a block, of sums that are more than twice as long. (Many accumulators of a tile
# wait in memory while a block is summed: it is longer than that of a reduction.)
_BLOCK: Final = 64


@dataclass(frozen=True, slots=True)
class Dimension:
    """A loop of the contraction: its size and where it stands in each array (-1: nowhere)."""

    size: int
    lhs: int = -1
    rhs: int = -1
    result: int = -1


@dataclass(slots=True)
class Contraction:
    """The loops of a dot by group, and the arrays' dimensions in the same numbering."""

    batch: list[Dimension]
    rows: list[Dimension]
    columns: list[Dimension]
    contracted: list[Dimension]
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def groups(self) -> list[list[Dimension]]:
        return [self.batch, self.rows, self.columns, self.contracted]

    def exchanged(self) -> Contraction:
        """The same contraction with lhs and rhs in each other's place."""

        def swap(group: list[Dimension]) -> list[Dimension]:
            return [replace(d, lhs=d.rhs, rhs=d.lhs) for d in group]

        return Contraction(
            swap(self.batch),
            swap(self.columns),
            swap(self.rows),
            swap(self.contracted),
            self.rhs,
            self.lhs,
            self.result,
        )

    def minor(self, array: str) -> Dimension | None:
        """The fastest-varying dimension of ``array`` ("lhs", "rhs" or "result")."""
        used = [d for group in self.groups for d in group if getattr(d, array) >= 0 and d.size > 1]
        return max(used, key=lambda d: int(getattr(d, array)), default=None)


def analyse(dot: hlo.Instruction, merge: bool) -> Contraction:
    """The loops of ``dot``; with ``merge`` neighbouring dimensions become one where all arrays allow it."""
    lhs, rhs = (o.dims for o in dot.operands)
    n: hlo.DotDimensionNumbers = dot.attributes["dimension_numbers"]
    batch = [
        Dimension(lhs[a], a, b, i)
        for i, (a, b) in enumerate(zip(n.lhs_batch, n.rhs_batch, strict=True))
    ]
    at = len(batch)
    free = [d for d in range(len(lhs)) if d not in n.lhs_batch and d not in n.lhs_contracting]
    rows = [Dimension(lhs[d], d, -1, at + i) for i, d in enumerate(free)]
    at += len(rows)
    free = [d for d in range(len(rhs)) if d not in n.rhs_batch and d not in n.rhs_contracting]
    columns = [Dimension(rhs[d], -1, d, at + i) for i, d in enumerate(free)]
    contracted = [
        Dimension(lhs[a], a, b) for a, b in zip(n.lhs_contracting, n.rhs_contracting, strict=True)
    ]
    contracted.sort(key=lambda d: d.lhs)
    c = Contraction(batch, rows, columns, contracted, lhs, rhs, dot.dims)
    return _merged(c) if merge else c


def _merged(c: Contraction) -> Contraction:
    """Dimensions of size one dropped, neighbours joined, and all numbered anew."""
    arrays = ("lhs", "rhs", "result")
    rank: dict[str, dict[int, int]] = {}  # old position -> position among the dimensions that count
    for a, dims in zip(arrays, (c.lhs, c.rhs, c.result), strict=True):
        rank[a] = {d: n for n, d in enumerate(d for d, dim in enumerate(dims) if dim != 1)}

    def follows(d: Dimension, last: Dimension) -> bool:
        places = [(getattr(last, a), getattr(d, a), rank[a]) for a in arrays]
        return all((p < 0) == (q < 0) and (q < 0 or r[q] == r[p] + 1) for p, q, r in places)

    groups: list[list[list[Dimension]]] = []  # by group: runs of dimensions that become one
    for group in c.groups:
        runs: list[list[Dimension]] = []
        for d in group:
            if d.size == 1:
                continue
            if runs and follows(d, runs[-1][-1]):
                runs[-1].append(d)
            else:
                runs.append([d])
        groups.append(runs)
    position: dict[tuple[str, Dimension], int] = {}
    shapes: list[tuple[int, ...]] = []
    for a in arrays:
        present = [run for runs in groups for run in runs if getattr(run[0], a) >= 0]
        present.sort(key=lambda run: int(getattr(run[0], a)))
        position.update({(a, run[0]): n for n, run in enumerate(present)})
        shapes.append(tuple(math.prod(d.size for d in run) for run in present))
    merged = [
        [
            Dimension(
                math.prod(d.size for d in run), *(position.get((a, run[0]), -1) for a in arrays)
            )
            for run in runs
        ]
        for runs in groups
    ]
    return Contraction(merged[0], merged[1], merged[2], merged[3], *shapes)


Reader = Callable[[Index], Element]
Writer = Callable[[Index, Element, "Value | None"], None]
Coordinates = dict[Dimension, Coordinate]


@dataclass(frozen=True, slots=True)
class _Panels:
    """How a product is cut into blocks of columns, for which several rows of the matrix stream by at a time."""

    vectors: int  # of columns at a time
    block: int  # columns
    blocks: int  # of the whole matrix
    merged: int  # blocks that a thread takes at once, if it has so many
    in_a_word: int  # numbers along the contracted dimension
    parts: list[range]  # rows of lhs at a time
    # Rows of the matrix that each buffer takes at a time: the first takes a few such chunks and is added to the second
    # one, which is added to the third one after some, and so on (see :mod:`.accumulation`).
    spans: list[int]


class _Kernel(Products):
    """A dot kernel being written. ``c`` may have its operands exchanged, and the readers with them."""

    def __init__(
        self,
        frame: Frame,
        dot: hlo.Instruction,
        c: Contraction,
        readers: Sequence[Reader],
        write: Writer,
    ) -> None:
        super().__init__(frame.generator, dot.dtype)
        self.frame = frame
        self.target = frame.target
        self.dot = dot
        self.c = c
        self.readers = list(readers)
        self.sources = list(dot.operands)
        self.write = write
        self.rounds = self.dtype.is_float or self.dtype.is_complex
        size = {"float": 4, "double": 8}.get(self.type) or max(1, int(self.type[1:]) // 8)
        self.register_bytes = size
        self.lanes = self.target.lane_count(size, self.dtype.is_complex)
        self.can_mask = self.target.can_mask(
            min(o.dtype.component.size for o in dot.operands)
        ) and self.target.can_mask(self.dtype.component.size)
        self.registers = 32 if self.target.vector_bytes >= 64 else 16
        self.most_rows = 8 if self.registers == 32 else 4
        self.fetches = self.target.packs_products  # on a CPU
        # The largest operand, and how many of its vectors are a line of memory.
        largest = max((a.shape for a in frame.operands), key=lambda shape: shape.bytes)
        self.fetched_bytes = largest.bytes
        self.fetched_elements = largest.elements
        self.streamed_size = largest.dtype.size
        self.line = max(1, self.target.costs.memory.line // (self.lanes * self.streamed_size))

    def exchange(self) -> None:
        self.c = self.c.exchanged()
        self.readers.reverse()
        self.sources.reverse()

    # -- elements
    def read(self, side: int, at: Coordinates) -> Element:
        """An element of lhs (0) or rhs (1), converted to the type of the accumulator."""
        array = ("lhs", "rhs")[side]
        dims = (self.c.lhs, self.c.rhs)[side]
        index: list[Coordinate] = [ZERO] * len(dims)
        for d, coordinate in at.items():
            if getattr(d, array) >= 0:
                index[getattr(d, array)] = coordinate
        value = self.readers[side](tuple(index))
        return self.factor(value, self.sources[side].dtype)

    def store(self, at: Coordinates, value: Element, mask: Value | None = None) -> None:
        index: list[Coordinate] = [ZERO] * len(self.c.result)
        for d, coordinate in at.items():
            if d.result >= 0:
                index[d.result] = coordinate
        self.write(tuple(index), value, mask)

    # -- loops
    def offset(self, start: Coordinate, by: int, lanes: int, size: int) -> Coordinate:
        """The coordinates start + by ... start + by + lanes - 1 of a dimension, for a uniform start."""
        base = self.g.behind(start.base, by, start.multiple)
        multiple = math.gcd(start.multiple, by) if by else start.multiple
        return Coordinate(base, int(lanes > 1), lanes, None, 0, size - 1, multiple)

    def start(self, block: Coordinate, step: int, size: int) -> Coordinate:
        """Where a block begins: the last one is moved back to end at ``size``."""
        if size % step == 0 or size < step:
            return self.g.scale(block, step)._replace(high=max(size - 1, 0))
        scaled = self.g.scale(block, step)
        key = ("block start", scaled.base, size, step)
        operands = [scaled.base]
        base = self.g.pure(
            key, operands, lambda: self.g.builder.intrinsic("smin", [scaled.base, i64(size - step)])
        )
        return Coordinate(base, 0, 1, None, 0, size - 1, math.gcd(step, size - step))

    def contract(
        self,
        dims: Sequence[Dimension],
        unroll: int,
        accumulators: list[Element],
        body: Callable[[Coordinates, list[Element]], None],
        terms: int = 1,
    ) -> list[Element]:
        """Nested loops over ``dims`` around ``body(coordinates, accumulators)``, which updates the list.

        ``terms``: how many products each accumulator takes in the body.
        """

        def nest(level: int, at: Coordinates, values: list[Element]) -> list[Element]:
            if level == len(dims):
                values = list(values)
                body(at, values)
                return values
            d = dims[level]
            step = unroll if level == len(dims) - 1 else 1
            whole = d.size // step * step
            if whole > step:

                def steps(i: Value, flat: list[Value]) -> list[Value]:
                    inner = self.grouped(flat)
                    for n in range(step):
                        c = Coordinate(self.g.add(i, i64(n)), 0, 1, None, 0, d.size - 1, 1)
                        inner = nest(level + 1, {**at, d: c}, inner)
                    return [v for e in inner for v in components(e)]

                inner_terms = step * terms * math.prod(r.size for r in dims[level + 1 :])
                values = self.accumulate(whole, step, values, steps, inner_terms)
                rest = range(whole, d.size)
            else:
                rest = range(d.size)
            for n in rest:
                values = nest(
                    level + 1, {**at, d: Coordinate(i64(n), 0, 1, None, n, n, n or 1 << 30)}, values
                )
            return values

        return nest(0, {}, accumulators)

    def accumulate(
        self,
        stop: int,
        step: int,
        values: list[Element],
        body: accumulation.Body,
        terms: int,
        block: int = _BLOCK,
    ) -> list[Element]:
        """A loop of ``body(i, accumulators)`` from 0 to ``stop``, in blocks if sums of floats are long."""
        start = [v for e in values for v in components(e)]
        trips = -(-stop // step)

        def fresh() -> list[Value]:
            return [llvm_ir.zero(v.type) for v in start]

        def merge(a: list[Value], b: list[Value]) -> list[Value]:
            return [self.add(x, y) for x, y in zip(a, b, strict=True)]

        flat = accumulation.accumulate(
            self.g, i64(0), i64(stop), step, trips, start, body, fresh, merge,
            terms=terms, block=block, longest=2 * block if self.rounds else trips * terms,
        )  # fmt: skip
        return self.grouped(flat)

    # -- ways
    def emit(self) -> tuple[int, float]:
        """Write the kernel; (units of work, cost)."""
        c = self.c
        rows, columns = (math.prod(d.size for d in g) for g in (c.rows, c.columns))
        depth, batches = (math.prod(d.size for d in g) for g in (c.contracted, c.batch))
        kernels = self.target.costs.kernels
        multiply_adds = batches * rows * columns * depth * self.parts**2
        flops_ns = multiply_adds / (self.lanes * kernels.multiply_adds)
        moved = sum(a.shape.bytes for a in (*self.frame.operands, *self.frame.results))
        cost = kernels.nest + max(flops_ns, moved * kernels.product_byte)
        lhs_minor, rhs_minor = c.minor("lhs"), c.minor("rhs")
        if rhs_minor not in c.columns and lhs_minor in c.rows:
            self.exchange()
        elif rhs_minor in c.contracted and lhs_minor == rhs_minor:
            few = self.target.costs.products.few_rows
            if columns <= few < rows and self.frame.moves_at_least(
                self.target.costs.memory.streamed
            ):
                self.exchange()  # the matrix is rhs
            elif self.copies_panels():
                return self.copied_panels(), cost
            return self.dots(), cost
        if self.streams() and not self.dtype.is_complex:
            return self.panels(self.c.columns[-1]), cost
        if self.copies_panels():
            return self.copied_panels(), cost
        return self.columns_tiles(), cost

    def streams(self) -> bool:
        """Whether few rows are multiplied by a large matrix (rhs): reading it decides how long that takes."""
        c, costs = self.c, self.target.costs
        last = c.columns[-1] if c.columns else Dimension(1)
        minor = c.minor("rhs")
        return (
            math.prod(d.size for d in c.rows[:-1]) == 1
            and (c.rows[-1].size if c.rows else 1)
            <= (costs.products.few_rows if self.fetches else 1)
            and len(c.contracted) == 1
            and last.size >= self.lanes  # of a panel
            and (minor is c.contracted[0] or (minor is last and last.size >= 2 * self.lanes))
            and math.prod(c.rhs) * self.sources[1].dtype.size >= costs.memory.streamed
        )

    def copies_panels(self) -> bool:
        """Whether parts of rhs are copied before they are multiplied: complex numbers, enough rows to pay for the
        copies, and an rhs that is large enough.
        """
        c, costs = self.c, self.target.costs
        if not (self.dtype.is_complex and self.fetches and c.rows and c.columns):
            return False
        _, _, width = self.vectors_of_tiles(c.rows[-1].size, c.columns[-1].size)
        return (
            len(c.contracted) == 1
            and c.rows[-1].size >= costs.products.copied_complex_rows
            and c.columns[-1].size >= width * self.lanes
            and c.contracted[0].size * c.columns[-1].size * self.dtype.size
            >= costs.products.copied_complex
        )

    def vectors_of_tiles(self, rows: int, columns: int) -> tuple[int, int, int]:
        """The tiles of a result with columns minor: (rows, lanes of a vector, vectors)."""
        lanes = min(self.lanes, _power_of_two(columns, up=self.can_mask))
        vectors = (
            -(-columns // lanes)
            if self.can_mask or columns % lanes == 0
            else max(1, columns // lanes)
        )
        budget = self.registers * 3 // 4 // self.parts
        most = 8 if rows == 1 else 4 if self.registers == 32 else 2
        most = max(1, min(most // self.parts, budget))
        width = -(-vectors // -(-vectors // most))
        return _tile(rows, max(1, min(budget // width, 12))), lanes, width

    def copied_panels(self) -> int:
        """A unit of work is a block of rows by a panel of columns.

        Sums are cut into pieces. The part of the panel that a piece reads is copied to the stack, where all tiles of
        the block read it from the nearest cache. Each tile starts a piece from zero and adds it to the sums of the
        pieces before, on the stack too.
        """
        c, g, b = self.c, self.g, self.g.builder
        row, column, depth = c.rows[-1], c.columns[-1], c.contracted[0]
        height, lanes, width = self.vectors_of_tiles(row.size, column.size)
        costs = self.target.costs
        type_, bytes_ = llvm_ir.vector(self.type, lanes), lanes * self.register_bytes
        across = width * self.parts  # vectors of a row of the panel, or of a tile
        pieces = -(-depth.size // min(2 * _BLOCK, max(1, costs.memory.panel // (across * bytes_))))
        piece = -(-depth.size // pieces)
        tiles, panels = -(-row.size // height), -(-column.size // (width * lanes))
        outer = [*c.batch, *c.rows[:-1], *c.columns[:-1]]
        # Blocks whose sums the caches keep; more of them for the threads, but each with rows that pay for its copies.
        most = max(1, costs.memory.copied_panel // (height * across * bytes_))
        least = -(-costs.products.copied_complex_rows // height)
        wanted = -(-costs.threads.units // (panels * math.prod(d.size for d in outer)))
        blocks = max(-(-tiles // most), min(wanted, tiles // least), 1)
        tall = -(-tiles // blocks)  # tiles of a block
        blocks = -(-tiles // tall)
        panel = b.alloca(self.type, piece * across * lanes)
        sums = b.alloca(self.type, tall * height * across * lanes)
        g.note(panel, sums)

        def place(buffer: Value, first: Value, vector: int) -> Value:
            return b.gep(self.type, buffer, b.add(first, i64(vector * lanes)))

        def load(buffer: Value, first: Value, count: int) -> list[Value]:
            return [b.load(type_, place(buffer, first, n), bytes_) for n in range(count)]

        def store(buffer: Value, first: Value, values: Sequence[Value]) -> None:
            for n, value in enumerate(values):
                b.store(value, place(buffer, first, n), bytes_)

        def unit(index: Index) -> None:
            fixed_at = dict(zip(outer, index, strict=False))
            first = g.mul(index[-2].base, i64(tall))
            last = b.intrinsic("smin", [g.add(first, i64(tall)), i64(tiles)])
            g.note(last)
            left = self.start(index[-1], width * lanes, column.size)
            column_at = [self.offset(left, v * lanes, lanes, column.size) for v in range(width)]

            def rows_of(tile: Value) -> list[Coordinate]:
                number = Coordinate(tile, 0, 1, None, 0, tiles - 1, 1)
                top = self.start(number, height, row.size)
                return [self.offset(top, r, 1, row.size) for r in range(height)]

            def sums_of(tile: Value) -> Value:
                return b.mul(b.sub(tile, first), i64(height * across * lanes))

            def write(rows: Sequence[Coordinate], totals: Sequence[Value]) -> None:
                for n, value in enumerate(self.grouped(totals)):
                    r, v = divmod(n, width)
                    self.store({**fixed_at, row: rows[r], column: column_at[v]}, value)

            def copy(start: Value, stop: Value) -> None:
                with g.loop(start, stop) as (k, _, _):
                    at = {**fixed_at, depth: Coordinate(k, 0, 1, None, 0, depth.size - 1, 1)}
                    values = [self.read(1, {**at, column: place}) for place in column_at]
                    to = b.mul(b.sub(k, start), i64(across * lanes))
                    store(panel, to, [part for value in values for part in components(value)])

            def product(rows: Sequence[Coordinate], start: Value, stop: Value) -> list[Value]:
                zeros = [llvm_ir.zero(type_)] * (height * across)
                with g.loop(start, stop, 1, zeros) as (k, carried, results):
                    at = {**fixed_at, depth: Coordinate(k, 0, 1, None, 0, depth.size - 1, 1)}
                    right = self.grouped(
                        load(panel, b.mul(b.sub(k, start), i64(across * lanes)), across)
                    )
                    totals = self.grouped(list(carried))
                    for r in range(height):
                        factor = self.read(0, {**at, row: rows[r]})
                        for v in range(width):
                            n = r * width + v
                            totals[n] = self.multiply_add(factor, right[v], totals[n])
                    carried[:] = [part for total in totals for part in components(total)]
                return list(results)

            if pieces == 1:
                copy(i64(0), i64(depth.size))
                with g.loop(first, last) as (tile, _, _):
                    rows = rows_of(tile)
                    write(rows, product(rows, i64(0), i64(depth.size)))
                return
            with g.loop(first, last) as (tile, _, _):
                store(sums, sums_of(tile), [llvm_ir.zero(type_)] * (height * across))
            with g.loop(i64(0), i64(depth.size), piece) as (start, _, _):
                stop = b.intrinsic("smin", [g.add(start, i64(piece)), i64(depth.size)])
                g.note(stop)
                copy(start, stop)
                with g.loop(first, last) as (tile, _, _):
                    terms = product(rows_of(tile), start, stop)
                    before = load(sums, sums_of(tile), height * across)
                    totals = [self.add(*pair) for pair in zip(before, terms, strict=True)]
                    store(sums, sums_of(tile), totals)
            with g.loop(first, last) as (tile, _, _):
                write(rows_of(tile), load(sums, sums_of(tile), height * across))

        dims = [*(d.size for d in outer), blocks, panels]
        count(g, self.frame.begin, self.frame.end, dims, unit)
        return math.prod(dims)

    def columns_tiles(self) -> int:
        c, g = self.c, self.g
        row = c.rows[-1] if c.rows else Dimension(1)
        column = c.columns[-1] if c.columns else Dimension(1)
        height, lanes, width = self.vectors_of_tiles(row.size, column.size)
        blocks = -(-column.size // (width * lanes))
        unroll = max(1, min(4, 48 // (height * width * self.parts)))
        tail = column.size - (width - 1) * lanes  # lanes of the last vector, if there is one block
        mask = None
        if column.size < width * lanes:
            mask = mask_of(tail, lanes)
        outer = [*c.batch, *c.rows[:-1], *c.columns[:-1]]

        def tile(index: Index) -> None:
            fixed_at = dict(zip(outer, index, strict=False))
            top = self.start(index[-2], height, row.size)
            left = self.start(index[-1], width * lanes, column.size)
            row_at = [self.offset(top, r, 1, row.size) for r in range(height)]
            column_at = [self.offset(left, v * lanes, lanes, column.size) for v in range(width)]

            def step(at: Coordinates, accumulators: list[Element]) -> None:
                right = []
                for v in range(width):
                    if mask is not None and v == width - 1:
                        with g.masked(mask):
                            right.append(self.read(1, {**fixed_at, **at, column: column_at[v]}))
                    else:
                        right.append(self.read(1, {**fixed_at, **at, column: column_at[v]}))
                for r in range(height):
                    left_value = self.read(0, {**fixed_at, **at, row: row_at[r]})
                    for v in range(width):
                        n = r * width + v
                        accumulators[n] = self.multiply_add(left_value, right[v], accumulators[n])

            start = [self.zeros(lanes) for _ in range(height * width)]
            values = self.contract(c.contracted, unroll, start, step)
            for n, value in enumerate(values):
                v = n % width
                at = {**fixed_at, row: row_at[n // width], column: column_at[v]}
                self.store(at, value, mask if v == width - 1 else None)

        dims = [*(d.size for d in outer), -(-row.size // height), blocks]
        count(g, self.frame.begin, self.frame.end, dims, tile)
        return math.prod(dims)

    def dots(self) -> int:
        """A vector runs along the contracted dimension that is minor in both operands."""
        c, g = self.c, self.g
        minor = c.minor("lhs")
        assert minor is not None
        others = [d for d in c.contracted if d is not minor]
        row = c.rows[-1] if c.rows else Dimension(1)
        column = c.columns[-1] if c.columns else Dimension(1)
        lanes = min(self.lanes, _power_of_two(minor.size, up=self.can_mask))
        main = minor.size // lanes * lanes
        budget = 16 // self.parts if self.registers == 32 else 8 // self.parts
        streams = self.fetches and self.streams()
        if streams:
            height = -(-row.size // -(-row.size // self.most_rows))
            width = min(column.size, 4, max(2, (24 if self.registers == 32 else 8) // height))
        else:
            height = _tile(row.size, 4)
            width = _tile(column.size, max(1, budget // height))
            if height < 4:
                height = _tile(row.size, max(1, budget // width))
        tiles = height * width
        in_word: int = self.dot.attributes.get("interleaved", 1)
        unroll = self.line if streams else 2 if tiles <= 4 and main % (2 * lanes) == 0 else 1
        unroll *= in_word
        ahead = self.target.costs.memory.bytes_ahead // self.streamed_size
        # The next columns, rather than the next elements of these.
        skips = (
            width * minor.size * self.streamed_size // in_word
            <= self.target.costs.memory.columns_ahead
            and not others
        )
        outer = [*c.batch, *c.rows[:-1], *c.columns[:-1]]
        rest = minor.size - main
        mask = None
        if rest and self.can_mask:
            mask = mask_of(rest, lanes)
        # The lanes behind the end are loaded as zeros, whose product adds nothing unless something is computed of them:
        # an operand's 1 / 0 there would make the sum NaN.
        adds_nothing = all(_keeps_zeros(operand) for operand in self.dot.operands)
        by_column: list[hlo.Instruction] = []
        if streams and len(c.rhs) == 2:
            results = self.frame.computation.results
            by_column = arrays_by_column(self.dot, self.sources[1], results)
        staged = Staged(g, by_column, width, self.lanes, self.target.costs.memory.sums)

        def tile(index: Index) -> None:
            fixed_at = dict(zip(outer, index, strict=False))
            top = self.start(index[-2], height, row.size)
            left = self.start(index[-1], width, column.size)
            staged.fill(left)
            row_at = [self.offset(top, r, 1, row.size) for r in range(height)]
            column_at = [self.offset(left, v, 1, column.size) for v in range(width)]
            following = [g.shift(place, width) for place in column_at]

            def in_matrix(start: Coordinate, by: int) -> Coordinate:
                """Where the terms are in the matrix that rows have ``by`` behind ``start``."""
                if in_word == 1:
                    return self.offset(start, by, lanes, minor.size)
                words, number = divmod(by // lanes, in_word)
                by = words * in_word * lanes + number
                return self.offset(start, by, lanes, minor.size)._replace(stride=in_word)

            def product(
                at: Coordinates,
                k: Coordinate,
                accumulators: list[Element],
                k_right: Coordinate | None = None,
            ) -> None:
                at = {**fixed_at, **at, minor: k}
                right_at = {**at, minor: k_right or k}
                right = [self.read(1, {**right_at, column: column_at[v]}) for v in range(width)]
                for r in range(height):
                    left_value = self.read(0, {**at, row: row_at[r]})
                    for v in range(width):
                        n = r * width + v
                        accumulators[n] = self.multiply_add(left_value, right[v], accumulators[n])

            def along(at: Coordinates, accumulators: list[Element]) -> None:
                vectors, scalars = accumulators[:tiles], accumulators[tiles:]
                step = lanes * unroll
                whole = main // step * step
                if whole > step:

                    def steps(i: Value, flat: list[Value]) -> list[Value]:
                        inner = self.grouped(flat)
                        start = Coordinate(i, 0, 1, None, 0, minor.size - 1, step)
                        for by in range(0, step, lanes):
                            k = self.offset(start, by, lanes, minor.size)
                            k_right = in_matrix(start, by)
                            if streams and by % (self.line * lanes * in_word) == 0:
                                if skips:
                                    self.fetch({**fixed_at, **at, minor: k_right}, following)
                                else:
                                    later = g.shift(k_right, ahead)
                                    self.fetch({**fixed_at, **at, minor: later}, column_at)
                            product(at, k, inner, k_right)
                        return [v for e in inner for v in components(e)]

                    block = accumulation.BLOCK if tiles <= 4 else _BLOCK
                    vectors = self.accumulate(whole, step, vectors, steps, unroll, block)
                else:
                    whole = 0
                for by in range(whole, main, lanes):
                    place = self.offset(ZERO, by, lanes, minor.size)
                    product(at, place, vectors, in_matrix(ZERO, by))
                if mask is not None:
                    before = list(vectors)
                    with g.masked(mask):
                        product(at, self.offset(ZERO, main, lanes, minor.size), vectors)
                    if not adds_nothing:
                        vectors = [
                            self.where(mask, *pair) for pair in zip(vectors, before, strict=True)
                        ]
                elif rest:
                    for by in range(main, minor.size):
                        product(at, self.offset(ZERO, by, 1, minor.size), scalars)
                accumulators[:] = [*vectors, *scalars]

            start = [self.zeros(lanes) for _ in range(tiles)]
            if rest and mask is None:
                start += [self.zeros(1) for _ in range(tiles)]
            values = self.contract(others, 1, start, along, -(-minor.size // lanes))
            scalars = values[tiles:]
            for r in range(height):
                part = values[r * width : (r + 1) * width]
                sums = self.sum_lanes(part)
                if scalars:
                    tail = scalars[r * width : (r + 1) * width]
                    sums = [self.add_elements(a, b) for a, b in zip(sums, tail, strict=True)]
                wide = _power_of_two(width, up=False)
                at = 0
                while at < width:
                    while wide > width - at:
                        wide //= 2
                    value = self.gathered(sums[at : at + wide])
                    place = self.offset(left, at, wide, column.size)
                    self.store({**fixed_at, row: row_at[r], column: place}, value)
                    at += wide

        # The matrix streams by once: all rows of lhs pass a tile's columns before the next tile's.
        tiles_of = [-(-row.size // height), -(-column.size // width)]
        dims = [*(d.size for d in outer), *(reversed(tiles_of) if streams else tiles_of)]

        def unit(index: Index) -> None:
            tile((*index[:-2], index[-1], index[-2]) if streams else index)

        count(g, self.frame.begin, self.frame.end, dims, unit)
        return math.prod(dims)

    def where(self, mask: Value, then: Element, otherwise: Element) -> Element:
        """``then`` in the lanes of ``mask``."""
        return map_components(lambda a, b: self.g.builder.select(mask, a, b), then, otherwise)

    def fetch(self, at: Coordinates, column_at: Sequence[Coordinate]) -> None:
        """Ask for what the matrix is made of ``at`` some place, in each of the columns."""
        if not self.fetches:
            return
        column = self.c.columns[-1] if self.c.columns else Dimension(1)
        with self.g.fetching(self.fetched_bytes):
            for place in column_at:
                self.read(1, {**at, column: place})

    def gathered(self, scalars: Sequence[Element]) -> Element:
        """Scalars as the lanes of one vector."""

        def gather(values: Sequence[Value]) -> Value:
            if len(values) == 1:
                return values[0]
            result = llvm_ir.poison(llvm_ir.vector(self.type, len(values)))
            for n, v in enumerate(values):
                result = self.g.builder.insert(result, v, n)
            return result

        if self.parts == 1:
            return gather([components(s)[0] for s in scalars])
        return Complex(
            gather([components(s)[0] for s in scalars]), gather([components(s)[1] for s in scalars])
        )

    def sum_lanes(self, vectors: Sequence[Element]) -> list[Element]:
        """The sum over the lanes of each vector; pairs of vectors share their additions."""
        if self.parts == 2:
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
            part = part[: min(_power_of_two(len(part), up=False), lanes)]
            segments = len(part)
            while len(part) > 1:  # lanes of two vectors become the halves of one
                part = [
                    self.add(
                        b.shuffle(x, y, range(0, 2 * lanes, 2)),
                        b.shuffle(x, y, range(1, 2 * lanes, 2)),
                    )
                    for x, y in zip(part[::2], part[1::2], strict=True)
                ]
            value, width = part[0], lanes
            while width > segments:
                width //= 2
                value = (
                    self.add(
                        b.shuffle(value, value, range(0, 2 * width, 2)),
                        b.shuffle(value, value, range(1, 2 * width, 2)),
                    )
                    if width > 1
                    else self.add(b.extract(value, 0), b.extract(value, 1))
                )
            sums += [b.extract(value, n) for n in range(segments)]
        return sums

    def plan_panels(self, column: Dimension) -> _Panels:
        """The sizes of :meth:`panels`, of which each block's sums shall stay in the caches."""
        c = self.c
        depth = c.contracted[0]
        costs = self.target.costs
        row = c.rows[-1] if c.rows else Dimension(1)
        # One row has little to add up for each line of the matrix: fewer pages are read at once. (Words of several
        # numbers along the contracted dimension are read once for all of them.)
        in_a_word = max(1, math.prod(c.rhs) // self.fetched_elements)
        panel_rows = costs.blocks.streamed_rows // (2 if row.size == 1 and in_a_word == 1 else 1)
        lanes = self.lanes
        vectors = 4 if row.size <= 2 else 2
        while column.size < vectors * lanes:
            vectors //= 2
        step = vectors * lanes
        sums = costs.memory.sums // (row.size * self.register_bytes)
        wide = min(costs.blocks.streamed_columns, sums)
        blocks = -(-column.size // max(step, wide))
        if blocks == 1 and column.size >= 4 * step:
            blocks = 2
        block = -(-column.size // (blocks * step)) * step
        if block > column.size:
            block -= step
        blocks = -(-column.size // block)
        merged = 1
        if not c.batch and not c.columns[:-1]:
            # Processors fetch pages ahead: what they fetch of other blocks is for nothing.
            most_sums = costs.memory.merged_sums // (row.size * self.register_bytes)
            merged = max(1, min(column.size, most_sums) // block)
        tall = -(-row.size // -(-row.size // self.most_rows))
        # (Not overlapping ones: what is added to a row's sums is added once.)
        parts = [range(n, min(n + tall, row.size)) for n in range(0, row.size, tall)]
        spans = [panel_rows]
        most = _BLOCK // 2
        while self.rounds and (depth.size - depth.size % panel_rows) // spans[-1] > most:
            spans.append(spans[-1] * most)
            most = accumulation.BLOCK
        return _Panels(vectors, block, blocks, merged, in_a_word, parts, spans)

    def panels(self, column: Dimension) -> int:
        """Blocks of columns accumulated in memory, while several rows of the matrix stream by, and the next ones are
        fetched.
        """
        c, g, b = self.c, self.g, self.g.builder
        depth = c.contracted[0]
        row = c.rows[-1] if c.rows else Dimension(1)
        outer = [*c.batch, *c.columns[:-1]]
        lanes = self.lanes
        plan = self.plan_panels(column)
        vectors, block, merged, in_a_word = plan.vectors, plan.block, plan.merged, plan.in_a_word
        parts, spans = plan.parts, plan.spans
        step = vectors * lanes
        stride = block * merged  # of the sums of a row
        bytes_ = lanes * self.register_bytes
        type_ = llvm_ir.vector(self.type, lanes)
        panel_rows = spans[0]
        rest = depth.size % panel_rows  # the rows that come first
        buffers = [b.alloca(self.type, row.size * stride) for _ in spans]
        g.note(*buffers)

        def unit(fixed_at: Coordinates, left: Coordinate, width: Value) -> None:
            """The sums of ``width`` columns from ``left`` on."""

            def each_vector(change: Callable[[Value], None]) -> None:
                for r in range(row.size):
                    with g.loop(i64(0), width, lanes) as (i, _, _):
                        change(g.add(i, i64(r * stride)))

            def load(buffer: Value, i: Value) -> Value:
                return b.load(type_, b.gep(self.type, buffer, i), bytes_)

            def store(buffer: Value, i: Value, value: Element) -> None:
                assert isinstance(value, Value)
                b.store(value, b.gep(self.type, buffer, i), bytes_)

            def columns_at(i: Value, by: int = 0) -> Coordinate:
                place = left._replace(
                    base=g.add(left.base, i), multiple=math.gcd(left.multiple, lanes)
                )
                return self.offset(place, by, lanes, column.size)

            def chunk(rows: int, k: Coordinate, into: Value, first: bool) -> None:
                k_at = [self.offset(k, n, 1, depth.size) for n in range(rows)]
                for part in parts:
                    row_at = [fixed(r) for r in part]
                    places = [i64(r * stride) for r in part]
                    scalars = [
                        [self.read(0, {**fixed_at, depth: at, row: r}) for r in row_at]
                        for at in k_at
                    ]
                    with g.loop(i64(0), width, step) as (i, _, _):
                        at = [g.add(i, i64(v * lanes)) for v in range(vectors)]
                        into_at = [g.add(place, i) for place in places for i in at]
                        totals: list[Element] = [
                            llvm_ir.zero(type_) if first else load(into, i) for i in into_at
                        ]
                        for number, (factors, k_coordinate) in enumerate(
                            zip(scalars, k_at, strict=True)
                        ):
                            if part is parts[0] and number % in_a_word == 0:
                                ahead = self.offset(k, number + panel_rows, 1, depth.size)
                                lines = range(0, step, self.line * lanes)
                                self.fetch(
                                    {**fixed_at, depth: ahead}, [columns_at(i, n) for n in lines]
                                )
                            right = [
                                self.read(
                                    1,
                                    {
                                        **fixed_at,
                                        depth: k_coordinate,
                                        column: columns_at(i, v * lanes),
                                    },
                                )
                                for v in range(vectors)
                            ]
                            for n, total in enumerate(totals):
                                r, v = divmod(n, vectors)
                                totals[n] = self.multiply_add(factors[r], right[v], total)
                        for i, total in zip(into_at, totals, strict=True):
                            store(into, i, total)

            def rows(level: int, start: Value, stop: Value) -> None:
                """Take rows [start, stop) into the buffer of ``level``."""
                with g.loop(start, stop, spans[level]) as (k, _, _):
                    if level == 0:
                        multiple = math.gcd(rest, panel_rows)
                        at = Coordinate(k, 0, 1, None, 0, depth.size - 1, multiple)
                        chunk(panel_rows, at, buffers[0], False)
                        return
                    part, into = buffers[level - 1], buffers[level]
                    each_vector(lambda i: store(part, i, llvm_ir.zero(type_)))
                    end = b.intrinsic("smin", [g.add(k, i64(spans[level])), stop])
                    g.note(end)
                    rows(level - 1, k, end)
                    each_vector(lambda i: store(into, i, self.add(load(into, i), load(part, i))))

            total = buffers[-1]
            if rest:
                chunk(rest, ZERO, total, True)
            else:
                each_vector(lambda i: store(total, i, llvm_ir.zero(type_)))
            rows(len(spans) - 1, i64(rest), i64(depth.size))
            for r in range(row.size):
                with g.loop(i64(0), width, lanes) as (i, _, _):
                    value = load(total, g.add(i, i64(r * stride)))
                    self.store({**fixed_at, row: fixed(r), column: columns_at(i)}, value)

        def one(index: Index) -> None:
            left = self.start(index[-1], block, column.size)
            unit(dict(zip(outer, index, strict=False)), left, i64(block))

        dims = [*(d.size for d in outer), plan.blocks]
        if merged == 1:
            count(g, self.frame.begin, self.frame.end, dims, one)
            return math.prod(dims)
        with g.loop(self.frame.begin, self.frame.end, merged) as (first, _, _):
            last = b.intrinsic("smin", [g.add(first, i64(merged)), self.frame.end])
            width = b.mul(b.sub(last, first), i64(block))
            lowest = b.sub(i64(column.size), width)
            base = b.intrinsic("smin", [b.mul(first, i64(block)), lowest])
            g.note(width, base)
            multiple = math.gcd(block, column.size)
            unit({}, Coordinate(base, 0, 1, None, 0, column.size - 1, multiple), width)
        return math.prod(dims)


def _power_of_two(n: int, *, up: bool) -> int:
    """The power of two next to n >= 1, at least or at most n."""
    return 1 << ((n - 1).bit_length() if up else n.bit_length() - 1) if n > 0 else 1


def _keeps_zeros(operand: hlo.Instruction) -> bool:
    """Whether an operand of the dot is 0 wherever all arrays are 0 that it is computed of."""
    while operand.opcode in ("bitcast", "convert", "copy", "negate", "reshape", "transpose"):
        operand = operand.operands[0]
    return operand.opcode == "parameter"


def _tile(size: int, most: int) -> int:
    """The tile length up to ``most`` for ``size``: tiles overlap at the end, and each costs a little."""
    return min(range(1, max(2, min(size, most) + 1)), key=lambda t: -(-size // t) * (t + 2))


def emit(module: Module, target: Target, instruction: hlo.Instruction, name: str) -> EmittedKernel:
    """The kernel of a dot, or of a "dot" fusion: one dot, with indexable instructions before and after it."""
    frame = Frame(module, target, instruction, name, collapsed=False)
    g = frame.generator
    computation = frame.computation
    found = [i for i in computation.instructions if i.opcode == "dot"]
    if len(found) != 1:
        raise errors.of_instruction("INTERNAL", "a dot fusion holds one dot", instruction)
    dot = found[0]
    roots = computation.results
    plain = all(o.opcode == "parameter" for o in dot.operands) and roots == (dot,)
    if any(r.dims != dot.dims for r in roots):
        raise errors.of_instruction(
            "INTERNAL", "results of a dot fusion have the dot's dimensions", instruction
        )
    if math.prod(dot.dims) == 0:
        return frame.finish(0, 1, 0.0)
    contraction = analyse(dot, merge=plain)
    if plain:
        merged = (contraction.lhs, contraction.rhs)
        arrays = [
            Array(g.arrays[o].pointer, hlo.Shape(o.dtype, dims))
            for o, dims in zip(dot.operands, merged, strict=True)
        ]
        result = Array(frame.results[0].pointer, hlo.Shape(dot.dtype, contraction.result))
        readers: list[Reader] = [lambda index, a=a: g.load(a, index) for a in arrays]  # type: ignore[misc]

        def write(index: Index, value: Element, mask: Value | None) -> None:
            g.store(result, index, value, mask)

    else:
        readers = [lambda index, o=o: element(g, o, index) for o in dot.operands]  # type: ignore[misc]

        def write(index: Index, value: Element, mask: Value | None) -> None:
            g.note(*components(value))
            g.remember((dot, index), value, g.depth)
            if mask is None:
                values = [element(g, root, index) for root in roots]
            else:
                with g.masked(mask):
                    values = [element(g, root, index) for root in roots]
            for array, root_value in zip(frame.results, values, strict=True):
                g.store(array, index, root_value, mask)

    units, cost = _Kernel(frame, dot, contraction, readers, write).emit()
    return frame.finish(units, costs.grain(frame.target, cost, units), cost)
