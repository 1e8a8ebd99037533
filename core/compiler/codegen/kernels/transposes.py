"""The "transpose" kernel: a loop in which some operand runs along another dimension than the result.

The result is written in square tiles. For each tile, what is to be transposed is computed along its own minor
dimension, one vector a row, and the square is transposed in registers; then the rows of the result are computed
as in a loop kernel. What does not fill a tile is done as a loop kernel does it. Rows that are much code are computed
in a loop, from a copy of the square in memory: written once each they would be sixteen times the code to compile.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ...ir import hlo
from .. import costs, effort, llvm_ir
from ..elements.elemental import _is_elementwise, element
from ..elements.memory import size_of
from ..generator import Coordinate, Generator, Index
from ..llvm_ir import Builder, Value, i64
from ..representation import Complex, Element, components, map_components
from . import loops
from .emit import EmittedKernel, Frame, emitter

if TYPE_CHECKING:
    from ...targets.costs import Costs

LARGEST_TILE: Final = 16
SMALLEST_TILE: Final = 4
# Weight (Costs.weight) of the code of a tile's rows up to which it is written once a row; heavier rows are a loop,
# and what it reads lies in memory. Where a module has many functions (effort.py) more of them are.
LONGEST_CODE: Final = 160
LONGEST_CODE_OF_MANY: Final = 48


@emitter(collapsed=True)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a "transpose" fusion or of a single transpose; a loop kernel if there is nothing to tile."""
    roots = frame.computation.results
    dims = roots[0].dims
    moved = find_transposes(roots)
    if not moved or math.prod(dims) == 0 or any(r.dims != dims for r in roots):
        return loops.emit_frame(frame)
    across = _across(moved[0])
    moved = [t for t in moved if _across(t) == across]
    lanes = loops.lanes_for(frame.target, frame.computation)
    tile = min(lanes, LARGEST_TILE, dims[across], dims[-1])
    tile = 1 << (tile.bit_length() - 1)
    if tile < SMALLEST_TILE:
        return loops.emit_frame(frame)
    return _Tiles(frame, moved, across, tile, lanes).emit()


def _across(transpose: hlo.Instruction) -> int:
    """The dimension of the result that is the operand's last."""
    order: tuple[int, ...] = transpose.attributes["dimensions"]
    return order.index(len(order) - 1)


def find_transposes(roots: Sequence[hlo.Instruction]) -> list[hlo.Instruction]:
    """The transposes of a minor dimension that the roots read at their own index."""
    found: dict[hlo.Instruction, None] = {}
    seen: set[hlo.Instruction] = set()
    stack = list(roots)
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if i.opcode == "transpose" and _across(i) != len(i.dims) - 1:
            found[i] = None
        elif _is_elementwise(i):
            stack += [o for o in i.operands if o.dims == i.dims]
    return list(found)


class _Tiles:
    def __init__(
        self, frame: Frame, moved: list[hlo.Instruction], across: int, tile: int, lanes: int
    ) -> None:
        self.frame = frame
        self.g: Generator = frame.generator
        self.roots = frame.computation.results
        self.dims = self.roots[0].dims
        self.moved = moved
        self.across = across
        self.tile = tile
        self.lanes = lanes
        self.masked = loops.can_mask(frame.target, frame.computation)
        self.costs = frame.target.costs
        self.streaming = frame.moves_at_least(self.costs.memory.transposed_past_caches)
        module = frame.builder.module
        self.longest_code = LONGEST_CODE_OF_MANY if effort.has_many(module) else LONGEST_CODE
        if not effort.is_careful(module):
            self.longest_code = 0

    def body(self, g: Generator, index: Index, mask: Value | None) -> None:
        values = [element(g, root, index) for root in self.roots]
        for array, value in zip(self.frame.results, values, strict=True):
            g.store(array, index, value, mask, self.streaming)

    def emit(self) -> EmittedKernel:
        g, frame, tile, across = self.g, self.frame, self.tile, self.across
        length, width = self.dims[across], self.dims[-1]
        tiled_length, tiled_width = length // tile * tile, width // tile * tile
        group, columns = (
            next(k for k in (4, 2, 1) if n % (k * tile) == 0) for n in (tiled_length, tiled_width)
        )
        groups = tiled_length // (group * tile)
        others = [d for d in range(len(self.dims) - 1) if d != across]
        units = groups + (tiled_length < length)

        @contextmanager
        def each(count: int) -> Iterator[Value]:
            """The starts of ``count`` tiles; no loop for one."""
            if count == 1:
                yield i64(0)
                return
            with g.loop(i64(0), i64(count * tile), tile) as (i, _, _):
                yield i

        def unit(index: Index) -> None:
            number = index[-1]
            at = dict(zip(others, index[:-1], strict=True))

            def tiles() -> None:
                """Squares of squares: all that is read of a line is used while it is near, and neighbours are written
                soon after each other."""
                start = g.mul(number.base, i64(group * tile))
                with (
                    g.loop(i64(0), i64(tiled_width), columns * tile) as (left, _, _),
                    each(group) as row,
                    each(columns) as column,
                ):
                    self.one_tile(at, g.add(start, row), g.add(left, column))
                if tiled_width < width:
                    with g.loop(i64(0), i64(group * tile), 1) as (row, _, _):
                        self.row(at, g.add(start, row), tiled_width)

            def rest() -> None:
                with g.loop(i64(tiled_length), i64(length), 1) as (row, _, _):
                    self.row(at, row, 0)

            if units == groups:
                tiles()
                return
            condition = g.builder.icmp("slt", number.base, i64(groups))
            g.either(condition, tiles, rest, ("tiles", "rest", "done"))

        counted = (*(self.dims[d] for d in others), units)
        loops.count(g, frame.begin, frame.end, counted, unit)
        total = math.prod(counted)
        cost = costs.of_computation(frame.target, frame.computation)
        cost *= self.costs.kernels.transposed
        return frame.finish(total, cost)

    def index(self, at: dict[int, Coordinate], row: Coordinate, column: Coordinate) -> Index:
        by_dim = {**at, self.across: row, len(self.dims) - 1: column}
        return tuple(by_dim[d] for d in range(len(self.dims)))

    def row(self, at: dict[int, Coordinate], row: Value, start: int) -> None:
        """One row of the result from column ``start`` on, as in a loop kernel."""
        width = self.dims[-1]
        c = Coordinate(row, high=self.dims[self.across] - 1)
        lanes = min(self.lanes, 1 << (width - start - 1).bit_length())
        loops.span(
            self.g, start, width, width, lanes, self.masked,
            lambda column, mask: self.body(self.g, self.index(at, c, column), mask),
            weight=_weight(self.costs, self.roots, ()),
        )  # fmt: skip

    def one_tile(self, at: dict[int, Coordinate], row: Value, column: Value) -> None:
        g, tile = self.g, self.tile
        length, width = self.dims[self.across], self.dims[-1]
        along = Coordinate(row, 1, tile, None, 0, length - 1, tile)

        def line(transpose: hlo.Instruction, k: Value) -> Element:
            c = Coordinate(g.add(column, k), high=width - 1)
            value = element(g, transpose, self.index(at, along, c))
            return map_components(lambda v: g.splat(v, tile), value)

        def row_index(r: Value) -> Index:
            c = Coordinate(g.add(row, r), high=length - 1)
            return self.index(at, c, Coordinate(column, 1, tile, None, 0, width - 1, tile))

        def remember(transpose: hlo.Instruction, index: Index, value: Element) -> None:
            g.note(*components(value))
            g.know(transpose, index, value)

        def kept_lines(transpose: hlo.Instruction) -> _Square:
            kept = _Square(g, tile)
            with g.loop(i64(0), i64(tile), 1) as (k, _, _):
                kept.store(k, line(transpose, k))
            return kept

        if tile * _weight(self.costs, self.roots, self.moved) > self.longest_code:
            squares = [kept_lines(t) for t in self.moved]
            for kept in squares:
                kept.transpose()
            with g.loop(i64(0), i64(tile), 1) as (r, _, _):
                index = row_index(r)
                for transpose, kept in zip(self.moved, squares, strict=True):
                    remember(transpose, index, kept.load(r))
                self.body(g, index, None)
            return
        indices = [row_index(i64(r)) for r in range(tile)]
        for transpose in self.moved:
            if tile * _weight(self.costs, [transpose], ()) > self.longest_code:
                kept = kept_lines(transpose)
                lines = [kept.load(i64(k)) for k in range(tile)]
            else:
                lines = [line(transpose, i64(k)) for k in range(tile)]
            for index, value in zip(indices, self.transpose(lines), strict=True):
                remember(transpose, index, value)
        for index in indices:
            self.body(g, index, None)

    def transpose(self, lines: list[Element]) -> list[Element]:
        """Each component of a square of elements transposed."""
        parts = [
            transpose_square(self.g.builder, list(p))
            for p in zip(*map(components, lines), strict=True)
        ]
        if len(parts) == 1:
            return list(parts[0])
        return [Complex(a, b) for a, b in zip(*parts, strict=True)]


class _Square:
    """Rows of a tile in memory of the function's own, where a loop over them finds them.

    The first row that is stored says of what type they are.
    """

    def __init__(self, g: Generator, tile: int) -> None:
        self.g = g
        self.tile = tile
        self.is_complex = False
        self.types: list[str] = []
        self.arrays: list[Value] = []

    def store(self, row: Value, value: Element) -> None:
        b = self.g.builder
        parts = components(value)
        if not self.arrays:
            self.is_complex = isinstance(value, Complex)
            self.types = [part.type for part in parts]
            self.arrays = [b.alloca(scalar, self.tile**2) for scalar in map(_stored, self.types)]
        for part, array in zip(parts, self.arrays, strict=True):
            scalar = _stored(part.type)
            wide = llvm_ir.vector(scalar, self.tile)
            b.store(b.cast("zext", part, wide), self.place(scalar, array, row), size_of(scalar))

    def load(self, row: Value) -> Element:
        b = self.g.builder
        parts: list[Value] = []
        for type_, array in zip(self.types, self.arrays, strict=True):
            scalar = _stored(type_)
            wide = llvm_ir.vector(scalar, self.tile)
            part = b.load(wide, self.place(scalar, array, row), size_of(scalar))
            if wide != type_:
                part = b.icmp("ne", part, llvm_ir.zero(wide))
            parts.append(part)
        return Complex(parts[0], parts[1]) if self.is_complex else parts[0]

    def transpose(self) -> None:
        """The square transposed in its memory: by a function that the kernels of a module share, for the shuffles are
        more code than what a kernel does with them.
        """
        g = self.g
        for type_, array in zip(self.types, self.arrays, strict=True):
            scalar = _stored(type_)
            if not g.target.calls_vectors:
                self.transpose_in(g.builder, scalar, array)
                continue
            name = f"tripont.transpose.{llvm_ir.mangle(scalar)}.{self.tile}"
            module = g.builder.module
            if name not in module.functions:
                attributes = f"{g.target.function_attributes} noinline"
                body = Builder(module, name, ["ptr"], linkage="internal", attributes=attributes)
                self.transpose_in(body, scalar, body.arguments[0])
                body.ret()
                body.finish()
            g.builder.call("void", name, [array])

    def transpose_in(self, b: Builder, scalar: str, array: Value) -> None:
        wide, size = llvm_ir.vector(scalar, self.tile), size_of(scalar)
        places = [b.gep(scalar, array, i64(n * self.tile)) for n in range(self.tile)]
        rows = transpose_square(b, [b.load(wide, place, size) for place in places])
        for row, place in zip(rows, places, strict=True):
            b.store(row, place, size)

    def place(self, scalar: str, array: Value, row: Value) -> Value:
        return self.g.builder.gep(scalar, array, self.g.mul(row, i64(self.tile)))


def _stored(type_: str) -> str:
    """The type of an element in memory: truth values take a byte."""
    scalar = llvm_ir.scalar_of(type_)
    return "i8" if scalar == "i1" else scalar


def _weight(
    price: Costs, roots: Sequence[hlo.Instruction], known: Collection[hlo.Instruction]
) -> float:
    """What computing an element of each of ``roots`` costs where those of ``known`` are known."""
    total = 0.0
    seen: set[hlo.Instruction] = set(known)
    stack = list(roots)
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            total += price.weight(i)
            stack += i.operands
    return total


def transpose_square(b: llvm_ir.Builder, rows: list[Value]) -> list[Value]:
    """n vectors of n lanes transposed, in the shuffles that x86 has.

    First squares inside the 128-bit parts of the vectors (unpack instructions), then the parts among each other.
    """
    n = len(rows)
    scalar = llvm_ir.scalar_of(rows[0].type)
    if scalar == "i1":
        bytes_ = [b.cast("zext", r, llvm_ir.vector("i8", n)) for r in rows]
        return [b.icmp("ne", r, llvm_ir.zero(r.type)) for r in transpose_square(b, bytes_)]
    part = min(n, 16 // size_of(scalar))
    parts = n // part
    squares = [_unpack(b, rows[k * part : (k + 1) * part], part, 1) for k in range(parts)]
    result: list[Value] = [rows[0]] * n
    for k in range(part):
        for where, vector in enumerate(_transpose_parts(b, [s[k] for s in squares], part)):
            result[where * part + k] = vector
    return result


def _unpack(b: llvm_ir.Builder, rows: list[Value], part: int, granule: int) -> list[Value]:
    """Transpose the squares inside each part: interleave the low and the high halves of pairs of rows, and so on."""
    if len(rows) == 1:
        return rows
    n = llvm_ir.lanes_of(rows[0].type)
    low: list[int] = []
    high: list[int] = []
    for base in range(0, n, part):
        for at in range(0, part // 2, granule):
            for mask, half in ((low, 0), (high, part // 2)):
                first = base + half + at
                mask += range(first, first + granule)
                mask += range(n + first, n + first + granule)
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    lows = [b.shuffle(x, y, low) for x, y in pairs]
    highs = [b.shuffle(x, y, high) for x, y in pairs]
    return _unpack(b, lows, part, 2 * granule) + _unpack(b, highs, part, 2 * granule)


def _transpose_parts(b: llvm_ir.Builder, rows: list[Value], part: int) -> list[Value]:
    """Vector k of the result holds part k of each row."""
    count = len(rows)
    if count == 1:
        return rows

    def pick(x: Value, y: Value, parts: Sequence[int]) -> Value:
        return b.shuffle(x, y, [p * part + k for p in parts for k in range(part)])

    if count == 2:
        return [pick(rows[0], rows[1], [0, 2]), pick(rows[0], rows[1], [1, 3])]
    # Halves first, then every other part.
    half = count // 2
    low = [
        pick(x, y, [*range(half), *range(count, count + half)])
        for x, y in zip(rows[::2], rows[1::2], strict=True)
    ]
    high = [
        pick(x, y, [*range(half, count), *range(count + half, 2 * count)])
        for x, y in zip(rows[::2], rows[1::2], strict=True)
    ]
    assert count == 4
    result: list[Value] = []
    for x, y in ((low[0], low[1]), (high[0], high[1])):
        result += [pick(x, y, [0, 2, 4, 6]), pick(x, y, [1, 3, 5, 7])]
    return result
