"""The "attention-gradient" kernel: the gradients of attention, from blocks of scores that are computed again.

    scores = queries keys^T; weights = exp(logits(scores) - largest) / total, and what dropout makes of them
    slopes = result's gradient values^T; changes = what the program computes of scores, slopes and values of rows
    gradients: of queries changes keys, of keys changes^T queries, of values weights^T result's gradient

The fusion (:mod:`...passes.library.attention_gradient`) says it in the dimensions of :mod:`.attention`; the largest
logit of each row, the sum of its exponentials and what the gradient of the division subtracts are operands, so that
every block of scores can be computed by itself. A unit of work is a batch element. For each block of keys and each
block of queries, both products that are scores are computed in tiles of registers, then weights and changes row by row
in the order of the program's operations, and three products add them to the gradients: those of the keys and values of
the block lie on the stack, that of the queries in the result. Blocks that a mask by positions leaves out are not
computed, unless a row has no other keys (as in :mod:`.attention`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...ir import dtypes, hlo
from .. import llvm_ir
from ..elements import conversion
from ..elements.elemental import element
from ..generator import Coordinate, Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .attention_blocks import VANISHES, Blocks, Matrix, narrowed
from .attention_ranges import ranges_of
from .emit import EmittedKernel, Frame, emitter
from .loops import count
from .product_forms import ProductForm
from .tiles import Tile

if TYPE_CHECKING:
    from ...targets.target import Target

MOST_COLUMNS: Final = 256  # of queries and values: blocks of them lie on the stack


def lanes_for(target: Target, dtype: dtypes.DType, depth: int, columns: int, n: int) -> int:
    """Elements of a vector: columns are whole vectors. 1 if there is no kernel."""
    lanes = target.lane_count(dtype.size)
    while lanes > 1 and (depth % lanes or columns % lanes or n < lanes):
        lanes //= 2
    return lanes if lanes >= min(4, target.lane_count(dtype.size)) else 1


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of an "attention-gradient" fusion."""
    return _Gradient(frame).emit()


class _Result:
    """A gradient: the product, and the strides of the result's dimensions in the product's order."""

    def __init__(self, root: hlo.Instruction) -> None:
        order: tuple[int, ...] | None = None
        i = root
        while i.opcode in ("transpose", "convert"):
            if i.opcode == "transpose":
                order = i.attributes["dimensions"]
            i = i.operands[0]
        self.product = i
        self.strides = [0] * len(i.dims)
        for place, stride in enumerate(hlo.strides_of(root.dims)):
            self.strides[order[place] if order is not None else place] = stride


class _Parts:
    """The instructions of a fusion's computation that the kernel knows."""

    def __init__(self, computation: hlo.Computation) -> None:
        self.results = [_Result(root) for root in computation.results]
        of_queries, of_keys, of_values = (r.product for r in self.results)
        self.changes, self.keys = of_queries.operands
        self.queries = of_keys.operands[1]
        self.weights, self.gradient = of_values.operands
        dots = [i for i in computation.instructions if i.opcode == "dot"]
        (self.scores,) = (d for d in dots if d.operands == (self.queries, self.keys))
        (self.slopes,) = (
            d for d in dots if d.operands[0] is self.gradient and d.dims == self.scores.dims
        )
        self.values = self.slopes.operands[1]
        (difference,) = (
            i.operands[0] for i in computation.instructions if i.opcode == "exponential"
        )
        self.logits, repeated = difference.operands
        self.largest = repeated.operands[0]
        self.changes, self.weights = (_unrounded(i) for i in (self.changes, self.weights))


def _unrounded(i: hlo.Instruction) -> hlo.Instruction:
    """``i`` before it is rounded for a product, whose sums are not rounded either."""
    while i.opcode == "convert" and i.operands[0].dtype.is_float:
        i = i.operands[0]
    return i


class _Gradient(Blocks):
    def __init__(self, frame: Frame) -> None:
        parts = self.parts = _Parts(frame.computation)
        super().__init__(frame, parts.largest.dtype)
        form = self.read_scores(parts.scores)
        self.rank = len(self.dims)
        self.others = [d for d in range(self.batch, self.rank - 1) if d != self.main]
        self.read_operands()
        self.form = self.choose_form(form)
        self.choose_blocks()
        self.ranges = ranges_of(parts.logits, parts.scores, self.main, self.rank - 1)

    def choose_form(self, form: ProductForm) -> ProductForm:
        lanes = lanes_for(self.frame.target, self.dtype, self.depth, self.columns, self.n)
        return replace(narrowed(form, lanes), lanes=lanes)

    def read_operands(self) -> None:
        """Strides of the dimensions of the scores in each array, and of its columns."""
        parts, arrays = self.parts, self.frame.generator.arrays
        none = [0] * (self.rank - 1 - self.batch)
        self.arrays: dict[str, tuple[Any, list[int], int, int, int]] = {}
        for name, array, dot, side in (
            ("queries", parts.queries, parts.scores, 0),
            ("keys", parts.keys, parts.scores, 1),
            ("gradient", parts.gradient, parts.slopes, 0),
            ("values", parts.values, parts.slopes, 1),
        ):
            numbers: hlo.DotDimensionNumbers = dot.attributes["dimension_numbers"]
            batch = (numbers.lhs_batch, numbers.rhs_batch)[side]
            (column,) = (numbers.lhs_contracting, numbers.rhs_contracting)[side]
            strides = hlo.strides_of(array.dims)
            free = [strides[d] for d in range(len(array.dims)) if d not in (*batch, column)]
            places = [*(strides[d] for d in batch), *(free if side == 0 else none)]
            if side == 0:
                row = places[self.main] if self.main >= 0 else 0
                if self.main >= 0:
                    places[self.main] = 0
            else:
                (row,) = free
            self.arrays[name] = (arrays[array], places, row, strides[column], array.dims[column])
        self.depth, self.columns = self.arrays["queries"][4], self.arrays["values"][4]

    def choose_blocks(self) -> None:
        form, lanes = self.form, self.lanes
        attention = self.frame.target.costs.attention
        self.key_vectors = 2 if self.n >= 2 * lanes else 1
        self.width = self.key_vectors * lanes
        narrow = max(self.depth, self.columns) <= attention.gradient_narrow
        size = attention.gradient_block if narrow else attention.gradient_wide_block
        self.block = max(self.width, size // self.width * self.width)
        self.block = min(self.block, self.panels * self.width)
        self.block_panels = self.block // self.width
        most = form.most_rows(2)
        self.rows = min(self.m, 12 if most >= 12 else most)
        self.tiles = max(1, min(-(-self.m // self.rows), size // self.rows))
        self.query_block = self.tiles * self.rows
        # Tiles of the gradients of keys: their rows are keys.
        self.key_rows = max(r for r in range(1, most + 1) if self.block % r == 0)
        self.vectors = {
            size: 2 if size % (2 * lanes) == 0 else 1 for size in (self.depth, self.columns)
        }

    # ---------------------------------------------------------------------------------------------------- the units
    def emit(self) -> EmittedKernel:
        keys, queries = self.block, self.query_block
        depth, columns = self.depth, self.columns
        self.turned_keys, self.turned_values = (self.array(keys * c) for c in (depth, columns))
        self.key_rows_copy = self.array(keys * depth)
        self.key_sums, self.value_sums = (self.array(keys * c) for c in (depth, columns))
        self.queries, self.gradient = (self.array(queries * c) for c in (depth, columns))
        self.tile_scores, self.tile_slopes = (self.array(queries * keys) for _ in range(2))
        self.tile_sums = self.array(self.rows * depth)
        sizes = list(self.dims[: self.batch])
        count(self.g, self.frame.begin, self.frame.end, sizes, self.unit)
        share = self.ranges.share(self.m, self.n)
        others = math.prod(self.dims[d] for d in self.others)
        costs = self.frame.target.costs
        speed = self.lanes * costs.kernels.multiply_adds
        each = 3 * depth + 2 * columns + costs.attention.gradient_softmax
        unit_ns = others * self.m * self.n * share * each / speed
        return self.frame.finish_large(math.prod(sizes), unit_ns)

    def matrix(self, name: str) -> Matrix:
        array, strides, row, column, columns = self.arrays[name]
        base = self.place(array, strides)
        self.g.note(base)
        return Matrix(base, array.shape.dtype, row, column, columns)

    def unit(self, index: Index) -> None:
        b, g = self.b, self.g
        self.at = dict(enumerate(index))
        self.key_matrix, self.value_matrix = self.matrix("keys"), self.matrix("values")
        self.each_other(self.clear)
        with g.loop(i64(0), i64(self.panels), self.block_panels) as (start, _, _):
            stop = b.intrinsic("smin", [b.add(start, i64(self.block_panels)), i64(self.panels)])
            self.first_key = b.mul(start, i64(self.width))
            self.last_key = self.keys_until(stop)
            g.note(stop, self.first_key, self.last_key)
            self.turn(self.key_matrix, self.turned_keys, start, stop)
            self.turn(self.value_matrix, self.turned_values, start, stop)
            zero = llvm_ir.zero(self.form.accumulator)
            sums = ((self.key_sums, self.depth), (self.value_sums, self.columns))
            for pointer, columns in sums:
                with b.loop(i64(0), i64(self.block * columns), self.lanes) as place:
                    self.store(zero, self.item(pointer, place))
            with b.loop(self.first_key, self.last_key) as key:
                to = b.mul(b.sub(key, self.first_key), i64(self.depth))
                self.copy_row(self.key_matrix, key, self.item(self.key_rows_copy, to))
            self.each_other(lambda: self.all_queries(start, stop))
            self.write_block(1, self.key_sums, self.depth)
            self.write_block(2, self.value_sums, self.columns)

    def each_other(self, body: Any) -> None:
        """``body`` for each index of the dimensions of queries but the one of the tiles."""

        def nest(left: list[int]) -> None:
            if not left:
                body()
                return
            with self.g.loop(i64(0), i64(self.dims[left[0]])) as (i, _, _):
                self.at[left[0]] = Coordinate(i, high=self.dims[left[0]] - 1)
                nest(left[1:])
                del self.at[left[0]]

        nest(self.others)

    def result_row(self, number: int, row: Value) -> Value:
        """Where a row of a gradient is."""
        result, array = self.parts.results[number], self.frame.results[number]
        offset: Value = i64(0)
        rows = self.main if number == 0 else self.batch
        for d, c in self.at.items():
            if d < self.batch or number == 0:
                offset = self.b.add(offset, self.b.mul(c.base, i64(result.strides[d])))
        if rows >= 0:
            offset = self.b.add(offset, self.b.mul(row, i64(result.strides[rows])))
        return self.b.gep(memory_type(array.shape.dtype), array.pointer, offset)

    def clear(self) -> None:
        """The gradient of the queries is summed up in memory."""
        b = self.b
        zero = llvm_ir.zero(self.form.accumulator)
        with b.loop(i64(0), i64(self.m)) as row:
            place = self.result_row(0, row)
            with b.loop(i64(0), i64(self.depth), self.lanes) as n:
                self.store(zero, self.item(place, n), aligned=False)

    def write_block(self, number: int, sums: Value, columns: int) -> None:
        """Write the gradients of the block's keys, or of their values."""
        b, g = self.b, self.g
        dtype = self.frame.results[number].shape.dtype
        width = self.vectors[columns] * self.lanes
        with g.loop(self.first_key, self.last_key) as (key, _, _):
            row = self.result_row(number, key)
            local = b.sub(key, self.first_key)
            with g.loop(i64(0), i64(columns), width) as (left, _, _):
                at = b.add(b.mul(left, i64(self.block)), b.mul(local, i64(width)))
                for v in range(0, width, self.lanes):
                    value = self.load(self.item(sums, b.add(at, i64(v))))
                    value = conversion.to_memory_of(g, value, self.dtype, dtype)
                    place = b.gep(memory_type(dtype), row, b.add(left, i64(v)))
                    b.store(value, place, dtype.size)

    # --------------------------------------------------------------------------------------------------- the blocks
    def all_queries(self, start: Value, stop: Value) -> None:
        """Add what all queries of the current matrix contribute to the panels [start, stop) of keys."""
        b, g = self.b, self.g
        queries, gradient = self.matrix("queries"), self.matrix("gradient")
        with g.loop(i64(0), i64(self.m), self.query_block) as (top, _, _):
            end = b.intrinsic("smin", [b.add(top, i64(self.query_block)), i64(self.m)])
            g.note(end)
            needed = self.is_needed(top, end)
            with self.when(needed):
                for matrix, to, columns in (
                    (queries, self.queries, self.depth),
                    (gradient, self.gradient, self.columns),
                ):
                    with b.loop(top, end) as row:
                        place = b.mul(b.sub(row, top), i64(columns))
                        self.copy_row(matrix, row, self.item(to, place))
                self.query_rows(top, end, start, stop)

    def is_needed(self, top: Value, end: Value) -> Value:
        """Whether the queries [top, end) have other than masked logits in the block, or any row has none at all."""
        b, g = self.b, self.g
        if not self.ranges.any:
            return llvm_ir.integer("i1", 1)
        low, high = self.ranges.columns(b, top, b.sub(end, i64(1)), self.n)
        inside = b.binary(
            "and", b.icmp("slt", low, self.last_key), b.icmp("sgt", high, self.first_key)
        )
        inside = b.binary("and", inside, b.icmp("slt", low, high))
        fill = self.ranges.fill
        least = fill if fill == -math.inf else fill + VANISHES[self.dtype]
        bound = llvm_ir.floating(self.type, least)
        with g.loop(top, end, 1, [inside]) as (row, carried, found):
            value = element(g, self.parts.largest, self.row_index(row))
            assert isinstance(value, Value)
            carried[:] = [b.binary("or", carried[0], b.fcmp("ule", value, bound))]
        return found[0]

    def row_index(self, row: Value) -> Index:
        at = dict(self.at)
        if self.main >= 0:
            at[self.main] = Coordinate(row, high=self.m - 1)
        return tuple(at[d] for d in range(self.rank - 1))

    def query_rows(self, top: Value, end: Value, start: Value, stop: Value) -> None:
        b, g = self.b, self.g
        length = b.sub(end, top)
        tiles = b.binary("udiv", b.add(length, i64(self.rows - 1)), i64(self.rows))
        # Keys behind the last one weigh nothing.
        zero = llvm_ir.zero(self.form.accumulator)
        with self.when(b.icmp("slt", b.sub(stop, start), i64(self.block_panels))):
            for pointer in (self.tile_scores, self.tile_slopes):
                with b.loop(i64(0), i64(self.query_block * self.block), self.lanes) as place:
                    self.store(zero, self.item(pointer, place))
        for rows, turned, columns, to in (
            (self.queries, self.turned_keys, self.depth, self.tile_scores),
            (self.gradient, self.turned_values, self.columns, self.tile_slopes),
        ):
            tile = Tile(self.rows, self.key_vectors, columns, 1, self.width, True)
            with b.loop(i64(0), tiles) as number, b.loop(i64(0), b.sub(stop, start)) as panel:
                left = self.item(rows, b.mul(number, i64(self.rows * columns)))
                right = self.item(turned, b.mul(panel, i64(self.width * columns)))
                sums = tile.accumulate(
                    b, self.form, left, right, i64(columns), tile.zeros(self.form)
                )
                first = b.mul(number, i64(self.rows * self.block))
                first = b.add(first, b.mul(panel, i64(self.width)))
                for n, value in enumerate(sums):
                    r, v = divmod(n, self.key_vectors)
                    at = b.add(first, i64(r * self.block + v * self.lanes))
                    self.store(value, self.item(to, at))
        with g.loop(top, end) as (row, _, _):
            self.row_changes(row, b.sub(row, top), start, stop)
        self.add_keys(length, self.tile_slopes, self.queries, self.depth, self.key_sums)
        self.add_keys(length, self.tile_scores, self.gradient, self.columns, self.value_sums)
        self.add_queries(top, length, tiles)

    def row_changes(self, row: Value, local: Value, start: Value, stop: Value) -> None:
        """Weights and changes of a row, in the places of scores and slopes."""
        b, g, parts = self.b, self.g, self.parts
        line = b.mul(local, i64(self.block))
        g.note(line)
        zero = llvm_ir.zero(self.form.accumulator)

        def panel(number: Value, state: list[Value], partial: bool) -> list[Value]:
            left = b.mul(number, i64(self.width))
            at = b.add(line, b.mul(b.sub(number, start), i64(self.width)))
            g.note(left)
            for v in range(self.key_vectors):
                column = b.add(left, i64(v * self.lanes))
                g.note(column)
                index = self.index(row, column)
                place = b.add(at, i64(v * self.lanes))
                pointers = [self.item(p, place) for p in (self.tile_scores, self.tile_slopes)]
                scores, slopes = (self.load(p) for p in pointers)
                mask = self.there(column) if partial else None
                with g.masked(mask):
                    g.know(parts.scores, index, scores)
                    g.know(parts.slopes, index, slopes)
                    made = [element(g, i, index) for i in (parts.weights, parts.changes)]
                for value, pointer in zip(made, pointers, strict=True):
                    assert isinstance(value, Value)
                    value = self.vector(value)
                    if mask is not None:
                        value = b.select(mask, value, zero)
                    self.store(value, pointer)
            return state

        self.each_panel(start, stop, [], panel)

    def add_keys(
        self, length: Value, weights: Value, rows: Value, columns: int, sums: Value
    ) -> None:
        """Add the transpose of ``weights`` times the block's ``rows`` to ``sums``."""
        b, form = self.b, self.form
        vectors = self.vectors[columns]
        width = vectors * self.lanes
        tile = Tile(self.key_rows, vectors, 1, self.block, columns, True)
        with (
            b.loop(i64(0), i64(self.block), self.key_rows) as key,
            b.loop(i64(0), i64(columns), width) as left,
        ):
            place = b.add(b.mul(left, i64(self.block)), b.mul(key, i64(width)))
            place = self.item(sums, place)
            totals = [
                self.load(self.item(place, i64(n * self.lanes)))
                for n in range(self.key_rows * vectors)
            ]
            totals = tile.accumulate(
                b, form, self.item(weights, key), self.item(rows, left), length, totals
            )
            for n, value in enumerate(totals):
                self.store(value, self.item(place, i64(n * self.lanes)))

    def add_queries(self, top: Value, length: Value, tiles: Value) -> None:
        """Add the changes times the keys to the gradient of the queries."""
        b, form = self.b, self.form
        vectors = self.vectors[self.depth]
        width = vectors * self.lanes
        tile = Tile(self.rows, vectors, self.block, 1, self.depth, True)
        keys = b.sub(self.last_key, self.first_key)
        with b.loop(i64(0), tiles) as number:
            first = b.mul(number, i64(self.rows))
            left = self.item(self.tile_slopes, b.mul(first, i64(self.block)))
            with b.loop(i64(0), i64(self.depth), width) as column:
                right = self.item(self.key_rows_copy, column)
                sums = tile.accumulate(b, form, left, right, keys, tile.zeros(form))
                for n, value in enumerate(sums):
                    r, v = divmod(n, vectors)
                    at = b.add(column, i64(r * self.depth + v * self.lanes))
                    self.store(value, self.item(self.tile_sums, at))
            rows = b.intrinsic("smin", [b.sub(length, first), i64(self.rows)])
            with b.loop(i64(0), rows) as row:
                to = self.result_row(0, b.add(b.add(top, first), row))
                place = self.item(self.tile_sums, b.mul(row, i64(self.depth)))
                with b.loop(i64(0), i64(self.depth), self.lanes) as column:
                    pointer = self.item(to, column)
                    before = self.load(pointer, aligned=False)
                    added = self.load(self.item(place, column))
                    self.store(b.binary("fadd", before, added), pointer, aligned=False)
