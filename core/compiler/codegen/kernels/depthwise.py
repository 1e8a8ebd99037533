"""The "depthwise-product" kernel: depthwise convolutions with features last, in tiles that stay in registers.

    result[n, y, x, f] = sum over a, b of lhs[n, y s + a d - p, x s' + b d' - p', f / each] * rhs[a, b, f]

A tile has some rows by some columns of positions, and one vector of features. Each vector of the input is loaded once
for all sums of the tile that it is a term of. The array has no padding: a tile that reaches over its edge takes
what lies outside from a vector of zeros. A unit of work is a row of tiles, or a part of a long one, with all features:
it reads memory in its order, and finds the rows that it shares with the unit before in the caches. A sum is added up in
the order of the window's elements, whatever the tile. Integers of 8 and 16 bits are extended to 32 where they are
loaded; their sums are exact modulo 2^32. An instruction that adds pairs of products of 16 bits multiplies them: the
upper half of each weight, which rhs has in 32 bits then, is 0.

Attributes (``config``): ``axes``, the rows and the columns (:class:`Axis`); ``batch``; ``features`` of the result, and
``each``, how many of them an input feature has; ``sums``, the element type of sums; ``lanes`` of a vector; ``form``,
the instruction for pairs, or None; ``tile``, its rows and columns. rhs is [rows of the window, columns of it,
features].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ...ir.dtypes import DType
from .. import llvm_ir
from ..elements import conversion
from ..generator import Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .emit import EmittedKernel, Frame, emitter
from .loops import count
from .product_forms import ProductForm
from .tiles import Places

# Elements of a window that lie in registers beside a tile; of larger ones a row of the input does.
_FEW: Final = 9


class Axis(NamedTuple):
    """A spatial dimension: positions of the input and of the result, and the window's."""

    inputs: int
    results: int
    window: int
    stride: int
    dilation: int
    low: int
    reversal: bool

    def reach(self, results: int) -> int:
        """Positions of the input from the first to the last that ``results`` neighbours read."""
        return (results - 1) * self.stride + (self.window - 1) * self.dilation + 1

    def terms(self, results: int, place: int) -> list[tuple[int, int]]:
        """Which of ``results`` neighbours read the input at ``place`` from the first on: (result, window's element)."""
        found = []
        for r in range(results):
            element, rest = divmod(place - r * self.stride, self.dilation)
            if rest == 0 and 0 <= element < self.window:
                found.append((r, self.window - 1 - element if self.reversal else element))
        return found


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a ``depthwise-product`` instruction."""
    return _DepthwiseProduct(frame).emit()


class _DepthwiseProduct(Places):
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.b = frame.builder
        config: dict[str, Any] = frame.instruction.attributes["config"]
        self.axes = tuple(Axis(*a) for a in config["axes"])
        self.batch: int = config["batch"]
        self.features: int = config["features"]
        self.each: int = config["each"]
        self.sums: DType = config["sums"]
        self.lanes: int = config["lanes"]
        self.form: ProductForm | None = config["form"]
        self.tile: tuple[int, int] = config["tile"]
        self.inputs = self.features // self.each  # features of the input
        self.vector = llvm_ir.vector(memory_type(self.sums), self.lanes)
        self.lhs, self.rhs, self.result = (a.shape.dtype for a in (*frame.operands, *frame.results))

    def emit(self) -> EmittedKernel:
        rows, columns = self.axes
        down, across = (-(-a.results // n) for a, n in zip(self.axes, self.tile, strict=True))
        costs = self.frame.target.costs
        panels = -(-self.features // self.lanes)
        products = self.tile[0] * self.tile[1] * rows.window * columns.window
        tile_ns = panels * products / costs.kernels.tiled_multiply_adds
        wide = across
        while wide > 1 and self.batch * down * -(-across // wide) < costs.threads.product_units:
            wide = -(-wide // 2)
        lines = self.b.alloca(memory_type(self.lhs), self.lanes)
        zeros = llvm_ir.zero(llvm_ir.vector(memory_type(self.lhs), self.lanes))
        self.b.store(zeros, lines, self.lhs.size)
        self.outside = lines

        def unit(index: Index) -> None:
            image, tall, part = (c.base for c in index)
            first = self.b.mul(part, i64(wide))
            with self.b.loop(first, self.end(first, wide, across)) as tile:
                top = self.start(tall, self.tile[0], rows.results)
                self.positions(image, top, self.start(tile, self.tile[1], columns.results))

        dims = [self.batch, down, -(-across // wide)]
        count(self.frame.generator, self.frame.begin, self.frame.end, dims, unit)
        return self.frame.finish_large(dims[0] * dims[1] * dims[2], wide * tile_ns)

    def positions(self, image: Value, top: Value, left: Value) -> None:
        """All features of the tile of ``image`` whose first position is at ``top`` and ``left``."""
        b = self.b
        rows, columns = self.axes
        y, x = (
            b.add(b.mul(at, i64(a.stride)), i64(-a.low))
            for at, a in zip((top, left), self.axes, strict=True)
        )
        at = b.add(b.mul(b.add(b.mul(image, i64(rows.inputs)), y), i64(columns.inputs)), x)
        to = b.add(b.mul(b.add(b.mul(image, i64(rows.results)), top), i64(columns.results)), left)
        lhs, rhs = (a.pointer for a in self.frame.operands)
        # May lie outside of the array.
        source = b.gep(memory_type(self.lhs), lhs, b.mul(at, i64(self.inputs)), inbounds=False)
        result = self.frame.results[0].pointer
        result = b.gep(memory_type(self.result), result, b.mul(to, i64(self.features)))
        reaches = [a.reach(n) for a, n in zip(self.axes, self.tile, strict=True)]

        def inside(first: Value, place: int, axis: Axis, length: int = 1) -> Value:
            """Whether ``length`` positions from ``place`` behind ``first`` on are elements."""
            most = i64(axis.inputs - length + 1)
            return b.icmp("ult", b.add(first, i64(place)), most)

        def everywhere(row: int, column: int, pointer: Value) -> Value:
            return pointer

        def within(row: int, column: int, pointer: Value) -> Value:
            return b.select(b.binary("and", below[row], beside[column]), pointer, self.outside)

        fits = all(n <= a.inputs for n, a in zip(reaches, self.axes, strict=True))
        edge, done = b.new_label("edge"), b.new_label("positions")
        if fits:
            whole = b.new_label("whole")
            both = [inside(p, 0, a, n) for p, a, n in zip((y, x), self.axes, reaches, strict=True)]
            b.branch_if(b.binary("and", *both), whole, edge)
            b.start_block(whole)
            self.all_features(source, rhs, result, everywhere)
            b.branch(done)
        else:
            b.branch(edge)
        b.start_block(edge)
        below = [inside(y, n, rows) for n in range(reaches[0])]
        beside = [inside(x, n, columns) for n in range(reaches[1])]
        self.all_features(source, rhs, result, within)
        b.branch(done)
        b.start_block(done)

    def all_features(
        self,
        source: Value,
        rhs: Value,
        result: Value,
        place: Callable[[int, int, Value], Value],
    ) -> None:
        """The sums of a tile. ``place``: where the vector at a row and a column of the tile's input is read, which
        lies at a pointer if it lies in the array.
        """
        b = self.b
        panels = -(-self.features // self.lanes)
        with b.loop(i64(0), i64(panels)) as panel:
            feature = self.start(panel, self.lanes, self.features)
            own = b.binary("udiv", feature, i64(self.each)) if self.each > 1 else feature
            source = b.gep(memory_type(self.lhs), source, own, inbounds=False)
            kernel = b.gep(memory_type(self.rhs), rhs, feature)
            to = b.gep(memory_type(self.result), result, feature)
            for n, total in enumerate(self.totals(source, kernel, place)):
                r, c = divmod(n, self.tile[1])
                value = conversion.in_memory(self.frame.generator, total, self.sums, self.result)
                at = (r * self.axes[1].results + c) * self.features
                b.store(value, b.gep(memory_type(self.result), to, i64(at)), self.result.size)

    def totals(
        self, source: Value, kernel: Value, place: Callable[[int, int, Value], Value]
    ) -> list[Value]:
        """The sums of a vector of features at the positions of a tile, row by row."""
        rows, columns = self.axes
        tall, wide = self.tile
        totals = [llvm_ir.zero(self.vector)] * (tall * wide)
        few = rows.window * columns.window <= _FEW
        for row in range(rows.reach(tall)):
            down = rows.terms(tall, row)
            if not down:
                continue
            loaded: dict[int, Value] = {}
            steps = []
            for column in range(columns.reach(wide)):
                across = columns.terms(wide, column)
                if across:
                    loaded[column] = self.input(source, row, column, place)
                steps += [(column, *v, *h) for v in down for h in across]
            if not few:  # a weight is loaded once for all columns
                steps.sort(key=lambda s: (s[1], s[4]))
            for column, r, a, c, e in steps:
                weight = self.weight(kernel, a, e)
                n = r * wide + c
                totals[n] = self.multiply_add(loaded[column], weight, totals[n])
        return totals

    def multiply_add(self, a: Value, b: Value, total: Value) -> Value:
        builder = self.b
        if self.form is not None:
            left, right = (builder.cast("bitcast", v, self.form.vector) for v in (a, b))
            return self.form.multiply_add(builder, left, right, total)
        if self.sums.is_integer:
            return builder.binary("add", builder.binary("mul", a, b), total)
        if self.frame.target.has("fma") or not self.frame.target.is_x86:
            return builder.intrinsic("fma", [a, b, total])
        return builder.binary("fadd", builder.binary("fmul", a, b), total)

    def input(
        self, source: Value, row: int, column: int, place: Callable[[int, int, Value], Value]
    ) -> Value:
        """The vector of the input at a row and a column of those that a tile reads."""
        b = self.b
        at = (row * self.axes[1].inputs + column) * self.inputs
        pointer = b.gep(memory_type(self.lhs), source, i64(at), inbounds=False)
        number = self.lanes // self.each
        value = self.load(place(row, column, pointer), self.lhs, number)
        if number == 1:
            value = b.splat(value, self.lanes)
        elif self.each > 1:
            value = b.shuffle(value, value, [n // self.each for n in range(self.lanes)])
        return value

    def weight(self, kernel: Value, row: int, column: int) -> Value:
        at = (row * self.axes[1].window + column) * self.features
        if self.form is not None:
            place = self.b.gep(memory_type(self.rhs), kernel, i64(at))
            return self.b.load(self.vector, place, self.rhs.size)
        return self.load(self.b.gep(memory_type(self.rhs), kernel, i64(at)), self.rhs, self.lanes)

    def load(self, pointer: Value, dtype: DType, lanes: int) -> Value:
        """``lanes`` elements of an array of ``dtype``, as what they are multiplied as."""
        raw = self.b.load(llvm_ir.vector(memory_type(dtype), lanes), pointer, dtype.size)
        return conversion.in_memory(self.frame.generator, raw, dtype, self.sums)
