"""The "attention" kernel: softmax(scores) times values, in blocks of scores that stay in the nearest caches.

    scores[b..., i, j] = sum over c of queries[b..., i, c] * keys[b..., j, c]
    weights = softmax(logits(scores, b, i, j)) along j
    result[b..., i, :] = sum over j of dropout(weights)[b..., i, j] * values[b..., j, :]

and, for gradients, the largest logit of each row and the sum of its exponentials.

The fusion (:mod:`...passes.library.attention`) says it in these dimensions. A unit of work is a block of queries of one
batch element. For each block of keys, which is turned into panels once for the unit, and for each tile of some
queries, the kernel computes the scores of the tile in registers, then what the program makes of them (factors, masks,
biases) in the order of its operations, then the exponentials, and adds their products with the values to the sums of
the tile. The exponentials are relative to the largest logit so far: where a block has a larger one, the sums before
are multiplied by exp(before - now), and in the end by 1 / (the sum of the exponentials). Memory is needed for a block
alone. The program's own weights are at most 1 together, the exponentials at most the number of keys: so that sums of
values overflow in neither, those that meet the values are multiplied by 1 / (the number of keys, as a power of two),
which the division undoes. Both are exact but for weights that have digits below the smallest normal number then.

Logits that a selection by positions replaces (causal and local masks) are not computed: blocks outside of the
:class:`~.attention_ranges.KeyRanges` are left out. Their weights are exactly 0 if the constant that replaces them is
-inf, or is less than the row's maximum by so much that exp gives 0. That is checked behind the other blocks; where it
does not hold (a row without any key left), the blocks that were left out are computed too. The values of keys that are
left out are not read: a NaN there reaches the result in the general way (0 * NaN), and does not here.

Rows all of whose logits are -inf, and rows with a logit that is NaN or +inf, are NaN as in the general way. Sums do not
depend on how units are shared out to threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ...ir import dtypes, hlo
from ...ir.dtypes import DType
from .. import llvm_ir
from ..elements import conversion
from ..generator import Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .attention_blocks import VANISHES, Blocks, Matrix, narrowed
from .attention_ranges import KeyRanges, ranges_of
from .emit import EmittedKernel, Frame, emitter
from .loops import count
from .tiles import Tile

if TYPE_CHECKING:
    from ...targets.target import Target

MOST_COLUMNS: Final = 512  # of queries and values: blocks of them lie on the stack


def fewest_lanes(target: Target, dtype: DType) -> int:
    """The fewest keys, and the fewest columns of values, for which there is a kernel."""
    return min(4, target.lane_count(dtype.size))


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of an "attention" fusion."""
    return _Attention(frame).emit()


class _Parts:
    """The instructions of a fusion's computation that the kernel knows."""

    def __init__(self, computation: hlo.Computation) -> None:
        i = computation.results[0]
        self.order: tuple[int, ...] | None = None
        self.is_guarded = False  # rows without keys are 0
        while i.opcode in ("transpose", "convert", "select"):
            if i.opcode == "transpose":
                self.order = i.attributes["dimensions"]
            self.is_guarded |= i.opcode == "select"
            i = i.operands[-1]
        self.product = i
        reduces = {
            r.called[0].root.opcode: r for r in computation.instructions if r.opcode == "reduce"
        }
        self.largest, self.total = reduces["maximum"], reduces["add"]
        self.logits = self.largest.operands[0]
        self.exp = self.total.operands[0]
        (self.division,) = (
            d
            for d in computation.instructions
            if d.opcode == "divide"
            and d.operands[0] is self.exp
            and d.operands[1].opcode == "broadcast"
            and d.operands[1].operands[0] is self.total
        )
        (self.scores,) = (
            d for d in computation.instructions if d.opcode == "dot" and d is not self.product
        )
        self.weights = self.product.operands[0]
        # Rounding the weights before the product, whose sums are not rounded either, serves nobody.
        while self.weights.opcode == "convert" and self.weights.operands[0].dtype.is_float:
            self.weights = self.weights.operands[0]
        self.is_narrow = self.rounds_weights()

    def rounds_weights(self) -> bool:
        """Whether weights are rounded to f16, whose range is small, before the program does something more to them."""
        made = {self.division}
        for i in hlo.topological_order([self.weights]):
            if any(o in made for o in i.operands):
                made.add(i)
        return any(i.dtype is dtypes.F16 for i in made)


class _Attention(Blocks):
    def __init__(self, frame: Frame) -> None:
        parts = self.parts = _Parts(frame.computation)
        super().__init__(frame, parts.exp.dtype)
        form = self.read_scores(parts.scores)
        self.outer = [d for d in range(len(self.dims) - 1) if d != self.main]
        self.read_operands()
        # What the exponentials are multiplied by before they meet the values.
        self.share = 0.5 ** (self.n - 1).bit_length()
        depth, columns = self.depth, self.columns
        self.form = narrowed(form, min(self.n, columns))
        self.choose_tiles()
        self.width = self.key_vectors * self.lanes  # of a panel of keys
        block = max(
            1, frame.target.costs.memory.panel // (self.width * max(depth, columns) * self.size)
        )
        self.block_panels = min(block, self.panels, max(1, 256 // self.width))
        self.block_panels = -(-self.panels // -(-self.panels // self.block_panels))
        self.block = self.block_panels * self.width  # keys
        self.value_width = self.value_vectors * self.lanes
        self.value_panels = -(-columns // self.value_width)
        self.tiles = -(-self.m // self.rows)
        self.copies_values = self.values.shape.dtype is not self.dtype
        self.stages = self.queries.shape.dtype is not self.dtype
        self.padded_rows = -(-self.rows // self.lanes) * self.lanes
        self.ranges: KeyRanges = ranges_of(
            parts.logits, parts.scores, self.main, len(self.dims) - 1
        )
        self.split()

    def read_operands(self) -> None:
        """Where queries, keys, values and the result lie: strides of the dimensions of the scores."""
        parts, frame = self.parts, self.frame
        arrays = frame.generator.arrays
        scores: hlo.DotDimensionNumbers = parts.scores.attributes["dimension_numbers"]
        product: hlo.DotDimensionNumbers = parts.product.attributes["dimension_numbers"]
        q, k = parts.scores.operands
        v = parts.product.operands[1]
        self.queries, self.keys, self.values = arrays[q], arrays[k], arrays[v]
        strides = hlo.strides_of(q.dims)
        free = [
            d
            for d in range(len(q.dims))
            if d not in scores.lhs_batch and d not in scores.lhs_contracting
        ]
        self.query_strides = [strides[d] for d in (*scores.lhs_batch, *free)]
        (contracted,) = scores.lhs_contracting
        self.query_depth, self.depth = strides[contracted], q.dims[contracted]
        none = [0] * len(free)
        strides = hlo.strides_of(k.dims)
        (contracted,) = scores.rhs_contracting
        (row,) = (d for d in range(len(k.dims)) if d not in scores.rhs_batch and d != contracted)
        self.key_strides = [*(strides[d] for d in scores.rhs_batch), *none]
        self.key_row, self.key_depth = strides[row], strides[contracted]
        strides = hlo.strides_of(v.dims)
        (row,) = product.rhs_contracting
        (column,) = (d for d in range(len(v.dims)) if d not in product.rhs_batch and d != row)
        self.value_strides = [*(strides[d] for d in product.rhs_batch), *none]
        self.value_row, self.columns = strides[row], v.dims[column]
        # The last dimension of the scores is the keys', of the result the columns'.
        rank = len(self.dims)
        result = hlo.strides_of(frame.computation.results[0].dims)
        self.result_strides = [0] * rank
        for place, dimension in enumerate(parts.order or range(rank)):
            self.result_strides[dimension] = result[place]

    def choose_tiles(self) -> None:
        """Rows and vectors of the tiles of scores and of sums, with which both products take the least time."""
        form, lanes, m, costs = self.form, self.lanes, self.m, self.frame.target.costs.tiles
        best: tuple[float, int, int, int] | None = None
        for key_vectors in (2, 1):
            if key_vectors > 1 and self.n < key_vectors * lanes:
                continue
            for value_vectors in (2, 1):
                if self.columns < value_vectors * lanes:
                    continue
                most = min(form.most_rows(key_vectors), form.most_rows(value_vectors))
                for rows in range(min(m, most), 0, -1):
                    cost = 0.0
                    for vectors, size, long in (
                        (key_vectors, self.n, self.depth),
                        (value_vectors, self.columns, self.n),
                    ):
                        step = costs.cycles(rows * vectors, rows + vectors) + costs.step
                        cost += -(-size // (vectors * lanes)) * step * long
                    cost *= -(-m // rows)
                    if best is None or cost < best[0] * 0.995:
                        best = cost, rows, key_vectors, value_vectors
        assert best is not None
        _, self.rows, self.key_vectors, self.value_vectors = best

    def split(self) -> None:
        """How many tiles a unit of work has."""
        costs = self.frame.target.costs
        attention = costs.attention
        speed = self.lanes * costs.kernels.multiply_adds  # multiply-adds a nanosecond
        share = self.ranges.share(self.m, self.n)
        tile_ns = (
            self.rows * self.n * share * (self.depth + self.columns + attention.softmax) / speed
        )
        sums = self.rows * self.value_panels * self.value_width * self.size
        tall = max(1, min(self.tiles, attention.rows // self.rows, costs.memory.block // sums))
        others = math.prod(self.dims[d] for d in self.outer)
        while tall > 1:
            units = others * -(-self.tiles // tall)
            if units >= attention.units or tall * tile_ns <= 2 * costs.threads.unit:
                break
            if tall * self.rows <= attention.fewest_rows:
                break
            tall = -(-tall // 2)
        self.tall = -(-self.tiles // -(-self.tiles // tall))
        self.unit_ns = self.tall * tile_ns + self.n * share * self.depth * attention.packed

    # ---------------------------------------------------------------------------------------------------- the units
    def emit(self) -> EmittedKernel:
        self.scratch()
        blocks = -(-self.tiles // self.tall)
        sizes = [*(self.dims[d] for d in self.outer), blocks]
        count(self.g, self.frame.begin, self.frame.end, sizes, self.unit)
        return self.frame.finish_large(math.prod(sizes), self.unit_ns)

    def scratch(self) -> None:
        """Memory on the stack: the unit's sums, and for each row its maximum and its sum (a vector of parts)."""
        tall, rows = self.tall, self.rows

        self.packed_keys = self.array(self.block * self.depth)
        self.copied_values = (
            self.array(self.block * self.value_panels * self.value_width)
            if self.copies_values
            else None
        )
        self.staged = self.array(tall * rows * self.depth) if self.stages else None
        self.sums = self.array(tall * self.value_panels * rows * self.value_width)
        self.maxima = self.array(tall * self.padded_rows)
        self.totals = self.array(tall * rows * self.lanes)
        # Those of a tile: logits and then weights, and the numbers of its rows.
        self.tile_logits = self.array(rows * self.block)
        self.row_maxima = self.array(self.padded_rows)
        self.row_bases = self.array(self.padded_rows)
        self.row_factors = self.array(self.padded_rows)

    def unit(self, index: Index) -> None:
        b, g = self.b, self.g
        *outer, number = index
        self.at = dict(zip(self.outer, outer, strict=True))
        self.first_tile = g.mul(number.base, i64(self.tall))
        self.last_tile = b.intrinsic(
            "smin", [g.add(self.first_tile, i64(self.tall)), i64(self.tiles)]
        )
        g.note(self.last_tile)
        self.query_base = self.place(self.queries, self.query_strides)
        base = self.place(self.keys, self.key_strides)
        dtype = self.keys.shape.dtype
        self.key_matrix = Matrix(base, dtype, self.key_row, self.key_depth, self.depth)
        self.value_base = self.place(self.values, self.value_strides)
        self.result_base = self.place(self.frame.results[0], self.result_strides)
        g.note(self.query_base, base, self.value_base, self.result_base)
        self.begin()
        if not self.ranges.any:
            self.sweep(lambda tile: (i64(0), i64(self.panels)))
        else:
            self.sweep(self.panels_of)
            if self.ranges.fill != -math.inf:
                self.sweep_rest()
        self.finish()

    @contextmanager
    def each_tile(self) -> Iterator[tuple[Value, Value, Value]]:
        """For each tile of the unit: its number, its number in the unit, and its first row. The last ends with all."""
        with self.g.loop(self.first_tile, self.last_tile) as (tile, _, _):
            top = self.b.mul(tile, i64(self.rows))
            if self.m % self.rows:
                top = self.b.intrinsic("smin", [top, i64(self.m - self.rows)])
            local = self.b.sub(tile, self.first_tile)
            self.g.note(top, local)
            yield tile, local, top

    def begin(self) -> None:
        """Sums of nothing, and the unit's queries as the product reads them."""
        b = self.b
        zero = llvm_ir.zero(self.form.accumulator)
        size = self.tall * self.value_panels * self.rows * self.value_width
        for pointer, length, value in (
            (self.sums, size, zero),
            (self.totals, self.tall * self.rows * self.lanes, zero),
            (self.maxima, self.tall * self.padded_rows, self.floating(-math.inf)),
            (self.row_maxima, self.padded_rows, self.floating(math.inf)),
        ):
            with b.loop(i64(0), i64(length), self.lanes) as n:
                self.store(value, self.item(pointer, n))
        if self.staged is not None:
            given = self.queries.shape.dtype
            matrix = Matrix(self.query_base, given, self.query_row, self.query_depth, self.depth)
            with self.each_tile() as (_, local, top), b.loop(i64(0), i64(self.rows)) as r:
                to = b.mul(b.add(b.mul(local, i64(self.rows)), r), i64(self.depth))
                self.copy_row(matrix, b.add(top, r), self.item(self.staged, to))

    @property
    def query_row(self) -> int:
        return self.query_strides[self.main] if self.main >= 0 else 0

    # ----------------------------------------------------------------------------------------------------- the keys
    def panels_of(self, top: Value) -> tuple[Value, Value]:
        """Which panels of keys the tile whose first row is ``top`` needs."""
        b = self.b
        last = b.add(top, i64(self.rows - 1))
        low, high = self.ranges.columns(b, top, last, self.n)
        first = b.binary("udiv", low, i64(self.width))
        stop = b.binary("udiv", b.add(high, i64(self.width - 1)), i64(self.width))
        return first, stop

    def sweep(self, panels_of: Callable[[Value], tuple[Value, Value]]) -> None:
        """Add the blocks of keys to the unit's tiles, to each those that it needs."""
        b, g = self.b, self.g
        low: Value = i64(0)
        high: Value = i64(self.panels)
        if self.ranges.any:  # what the tiles of the unit need, from the first to the last
            initial = [i64(self.panels), i64(0)]
            with g.loop(self.first_tile, self.last_tile, 1, initial) as (tile, carried, found):
                top = b.intrinsic("smin", [b.mul(tile, i64(self.rows)), i64(self.m - self.rows)])
                first, stop = panels_of(top)
                some = b.icmp("slt", first, stop)
                lowest = b.intrinsic("smin", [carried[0], first])
                highest = b.intrinsic("smax", [carried[1], stop])
                carried[:] = [
                    b.select(some, lowest, carried[0]),
                    b.select(some, highest, carried[1]),
                ]
            low = b.binary("udiv", found[0], i64(self.block_panels))
            low = b.mul(low, i64(self.block_panels))
            high = found[1]
        with g.loop(low, high, self.block_panels) as (start, _, _):
            stop = b.intrinsic("smin", [b.add(start, i64(self.block_panels)), i64(self.panels)])
            self.turn(self.key_matrix, self.packed_keys, start, stop)
            if self.copied_values is not None:
                self.copy_values(start, stop)
            with self.each_tile() as (_, local, top):
                first, last = panels_of(top)
                first = b.intrinsic("smax", [first, start])
                last = b.intrinsic("smin", [last, stop])
                with self.when(b.icmp("slt", first, last)):
                    self.tile_block(local, top, start, first, last)

    def sweep_rest(self) -> None:
        """The blocks that were left out, if they weigh something in a row of the unit."""
        b, g = self.b, self.g
        fill, vanishes = self.ranges.fill, VANISHES[self.dtype]
        least = self.floating(fill + vanishes)
        zero = llvm_ir.zero("i1")
        with g.loop(self.first_tile, self.last_tile, 1, [zero]) as (tile, carried, found):
            local = b.sub(tile, self.first_tile)
            place = b.mul(local, i64(self.padded_rows))
            total = carried[0]
            for at in range(0, self.padded_rows, self.lanes):
                largest = self.load(self.item(self.maxima, b.add(place, i64(at))))
                few = b.fcmp("ule", largest, least)  # or NaN
                name = f"llvm.vector.reduce.or.{llvm_ir.mangle(few.type)}"
                some = b.call("i1", name, [few]) if self.lanes > 1 else few
                total = b.binary("or", total, some)
            carried[:] = [total]
        weighs = found[0]
        with g.loop(i64(0), b.select(weighs, i64(2), i64(0))) as (side, _, _):
            before = b.icmp("eq", side, i64(0))

            def rest(top: Value) -> tuple[Value, Value]:
                first, stop = self.panels_of(top)
                nothing = b.icmp("sge", first, stop)  # then all of them are behind
                first = b.select(nothing, i64(0), first)
                stop = b.select(nothing, i64(0), stop)
                return b.select(before, i64(0), stop), b.select(before, first, i64(self.panels))

            self.sweep(rest)

    def copy_values(self, start: Value, stop: Value) -> None:
        """Copy the values of the panels [start, stop) of keys, converted, in panels of columns."""
        b = self.b
        dtype = self.values.shape.dtype
        type_ = memory_type(dtype)
        assert self.copied_values is not None
        first = b.mul(start, i64(self.width))
        last = self.keys_until(stop)
        with b.loop(first, last) as key:
            row = b.gep(type_, self.value_base, b.mul(key, i64(self.value_row)))
            local = b.sub(key, first)
            for panel in range(self.value_panels):
                left = min(panel * self.value_width, self.columns - self.value_width)
                place = b.add(local, i64(panel * self.block))
                to = self.item(self.copied_values, b.mul(place, i64(self.value_width)))
                for v in range(0, self.value_width, self.lanes):
                    pointer = b.gep(type_, row, i64(left + v))
                    raw = b.load(llvm_ir.vector(type_, self.lanes), pointer, dtype.size)
                    self.store(self.widened(raw, dtype), self.item(to, i64(v)))

    # ---------------------------------------------------------------------------------------------------- the tiles
    def tile_block(self, local: Value, top: Value, start: Value, first: Value, last: Value) -> None:
        """Add the panels [first, last) of the block that begins with panel ``start`` to a tile."""
        b, g = self.b, self.g
        place = b.mul(local, i64(self.rows))
        if self.staged is not None:
            queries = self.item(self.staged, b.mul(place, i64(self.depth)))
            row_size, depth_size = self.depth, 1
        else:
            queries = self.item(self.query_base, b.mul(top, i64(self.query_row)))
            row_size, depth_size = self.query_row, self.query_depth
        scores = Tile(self.rows, self.key_vectors, row_size, depth_size, self.width, True)
        with b.loop(first, last) as panel:
            at = b.mul(b.sub(panel, start), i64(self.width))
            keys = self.item(self.packed_keys, b.mul(at, i64(self.depth)))
            sums = scores.accumulate(
                b, self.form, queries, keys, i64(self.depth), scores.zeros(self.form)
            )
            for n, value in enumerate(sums):
                row, v = divmod(n, self.key_vectors)
                to = b.add(at, i64(row * self.block + v * self.lanes))
                self.store(value, self.item(self.tile_logits, to))
        with g.loop(i64(0), i64(self.rows)) as (r, _, _):
            self.row_logits(r, top, start, first, last)
        self.update_rows(local)
        with g.loop(i64(0), i64(self.rows)) as (r, _, _):
            self.row_weights(r, b.add(place, r), top, start, first, last)
        self.add_values(local, start, first, last)

    def row_logits(self, r: Value, top: Value, start: Value, first: Value, last: Value) -> None:
        """What the program makes of the scores of a row, and its maximum."""
        b, g, parts = self.b, self.g, self.parts
        row = b.add(top, r)
        line = b.mul(r, i64(self.block))
        g.note(row, line)
        lowest = self.floating(-math.inf)

        def panel(number: Value, largest: list[Value], partial: bool) -> list[Value]:
            left = b.mul(number, i64(self.width))
            at = b.add(line, b.mul(b.sub(number, start), i64(self.width)))
            g.note(left)
            for v in range(self.key_vectors):
                pointer = self.item(self.tile_logits, b.add(at, i64(v * self.lanes)))
                value = self.load(pointer)
                column = b.add(left, i64(v * self.lanes))
                g.note(column)
                if parts.logits is not parts.scores:
                    index = self.index(row, column)
                    mask = self.there(column) if partial else None
                    value = self.recomputed(parts.logits, parts.scores, value, index, mask)
                if partial:
                    value = b.select(self.there(column), value, lowest)
                if partial or parts.logits is not parts.scores:
                    self.store(value, pointer)
                greater = b.fcmp("ogt", value, largest[v])
                largest[v] = b.select(greater, value, largest[v])
            return largest

        largest = self.each_panel(first, last, [lowest] * self.key_vectors, panel)
        while len(largest) > 1:
            x, y = largest.pop(), largest.pop()
            largest.append(b.select(b.fcmp("ogt", x, y), x, y))
        name = f"llvm.vector.reduce.fmax.{llvm_ir.mangle(self.form.accumulator)}"
        most = b.call(self.type, name, largest, "nnan nsz") if self.lanes > 1 else largest[0]
        b.store(most, self.item(self.row_maxima, r), self.size)

    def update_rows(self, local: Value) -> None:
        """The maxima with those of the block; what the exponentials are relative to; the factors of the sums so far."""
        b = self.b
        place = b.mul(local, i64(self.padded_rows))
        for at in range(0, self.padded_rows, self.lanes):
            pointer = self.item(self.maxima, b.add(place, i64(at)))
            before, here = self.load(pointer), self.load(self.item(self.row_maxima, i64(at)))
            now = b.select(b.fcmp("ogt", here, before), here, before)
            # All of them are -inf so far: their exponentials are 0.
            nothing = b.fcmp("oeq", now, self.floating(-math.inf))
            base = b.select(nothing, self.floating(0.0), now)
            factor = self.elementwise(self.parts.exp, b.binary("fsub", before, base))
            self.store(now, pointer)
            self.store(base, self.item(self.row_bases, i64(at)))
            self.store(factor, self.item(self.row_factors, i64(at)))

    def row_weights(
        self, r: Value, number: Value, top: Value, start: Value, first: Value, last: Value
    ) -> None:
        """The exponentials of a row, with what the program does to the weights, and their sum."""
        b, g, parts = self.b, self.g, self.parts
        row = b.add(top, r)
        line = b.mul(r, i64(self.block))
        base, factor = (
            self.vector(b.load(self.type, self.item(array, r), self.size))
            for array in (self.row_bases, self.row_factors)
        )
        g.note(row, line, base)
        pointer = self.item(self.totals, b.mul(number, i64(self.lanes)))
        total = b.binary("fmul", self.load(pointer), factor)

        def panel(n: Value, totals: list[Value], partial: bool) -> list[Value]:
            left = b.mul(n, i64(self.width))
            at = b.add(line, b.mul(b.sub(n, start), i64(self.width)))
            g.note(left)
            for v in range(self.key_vectors):
                place = self.item(self.tile_logits, b.add(at, i64(v * self.lanes)))
                value = self.elementwise(self.parts.exp, b.binary("fsub", self.load(place), base))
                totals[v] = b.binary("fadd", totals[v], value)
                if not parts.is_narrow:
                    value = b.binary("fmul", value, self.floating(self.share))
                if parts.weights is not parts.division:
                    column = b.add(left, i64(v * self.lanes))
                    g.note(column)
                    index = self.index(row, column)
                    mask = self.there(column) if partial else None
                    value = self.recomputed(parts.weights, parts.division, value, index, mask)
                if parts.is_narrow:
                    value = b.binary("fmul", value, self.floating(self.share))
                self.store(value, place)
            return totals

        zero = llvm_ir.zero(self.form.accumulator)
        totals = self.each_panel(first, last, [total, zero][: self.key_vectors], panel)
        while len(totals) > 1:
            x, y = totals.pop(), totals.pop()
            totals.append(b.binary("fadd", x, y))
        self.store(totals[0], pointer)

    def add_values(self, local: Value, start: Value, first: Value, last: Value) -> None:
        """Multiply the sums of a tile by their factors and add the products of the weights with the values."""
        b, form = self.b, self.form
        from_key = b.mul(first, i64(self.width))
        before = b.mul(start, i64(self.width))
        skipped = b.sub(from_key, before)
        count_ = b.sub(self.keys_until(last), from_key)
        weights = self.item(self.tile_logits, skipped)
        right_row = self.value_width if self.copied_values is not None else self.value_row
        aligned = self.copied_values is not None
        tile = Tile(self.rows, self.value_vectors, self.block, 1, right_row, aligned)
        with b.loop(i64(0), i64(self.value_panels)) as panel:
            if self.copied_values is not None:
                at = b.add(b.mul(panel, i64(self.block)), skipped)
                values = self.item(self.copied_values, b.mul(at, i64(self.value_width)))
            else:
                left = b.mul(panel, i64(self.value_width))
                if self.columns % self.value_width:
                    left = b.intrinsic("smin", [left, i64(self.columns - self.value_width)])
                at = b.add(b.mul(from_key, i64(self.value_row)), left)
                values = self.item(self.value_base, at)
            number = b.add(b.mul(local, i64(self.value_panels)), panel)
            place = self.item(self.sums, b.mul(number, i64(self.rows * self.value_width)))
            sums = []
            for r in range(self.rows):
                factor = b.load(self.type, self.item(self.row_factors, i64(r)), self.size)
                factor = self.vector(factor)
                for v in range(self.value_vectors):
                    at = i64((r * self.value_vectors + v) * self.lanes)
                    sums.append(b.binary("fmul", self.load(self.item(place, at)), factor))
            sums = tile.accumulate(b, form, weights, values, count_, sums)
            for n, value in enumerate(sums):
                self.store(value, self.item(place, i64(n * self.lanes)))

    def finish(self) -> None:
        """Divide the sums and write them."""
        b, g = self.b, self.g
        dtype = self.frame.results[0].shape.dtype
        type_ = memory_type(dtype)
        row_stride = self.result_strides[self.main] if self.main >= 0 else 0
        with self.each_tile() as (_, local, top), g.loop(i64(0), i64(self.rows)) as (r, _, _):
            number = b.add(b.mul(local, i64(self.rows)), r)
            parts = self.load(self.item(self.totals, b.mul(number, i64(self.lanes))))
            name = f"llvm.vector.reduce.fadd.{llvm_ir.mangle(self.form.accumulator)}"
            zero = llvm_ir.zero(self.type)
            total = self.vector(b.call(self.type, name, [zero, parts], "reassoc"))
            self.write_row_values(local, r, b.add(top, r), total)
            divisor = b.binary("fmul", total, self.floating(self.share))
            row = b.gep(type_, self.result_base, b.mul(b.add(top, r), i64(row_stride)))
            for panel in range(self.value_panels):
                left = min(panel * self.value_width, self.columns - self.value_width)
                place = b.add(b.mul(local, i64(self.value_panels)), i64(panel))
                place = b.add(b.mul(place, i64(self.rows)), r)
                place = b.mul(place, i64(self.value_width))
                for v in range(0, self.value_width, self.lanes):
                    value = self.load(self.item(self.sums, b.add(place, i64(v))))
                    value = b.binary("fdiv", value, divisor)
                    if self.parts.is_guarded:  # the sum of a row with keys is at least 1, or NaN
                        nothing = b.fcmp("oeq", total, self.floating(0.0))
                        value = b.select(nothing, self.floating(0.0), value)
                    value = conversion.to_memory_of(g, value, self.dtype, dtype)
                    b.store(value, b.gep(type_, row, i64(left + v)), dtype.size)

    def write_row_values(self, local: Value, r: Value, row: Value, total: Value) -> None:
        """Write the largest logit of a row and the sum of its exponentials, if the fusion gives them."""
        if len(self.frame.results) == 1:
            return
        b = self.b
        strides = hlo.strides_of(self.dims[:-1])
        place = b.mul(row, i64(strides[self.main] if self.main >= 0 else 0))
        for d in self.outer:
            place = b.add(place, b.mul(self.at[d].base, i64(strides[d])))
        number = b.add(b.mul(local, i64(self.padded_rows)), r)
        largest = b.load(self.type, self.item(self.maxima, number), self.size)
        for array, value in zip(
            self.frame.results[1:], (largest, b.extract(total, 0)), strict=True
        ):
            b.store(value, self.item(array.pointer, place), self.size)
