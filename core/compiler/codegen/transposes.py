"""The "transpose" kernel: a loop in which some operand runs along another dimension than the result.

The result is written in square tiles. For each tile, what is to be transposed is computed along its own minor
dimension, one vector a row, and the square is transposed in registers; then the rows of the result are computed
as in a loop kernel. What does not fill a tile is done as a loop kernel does it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .. import hlo
from . import costs, llvm_ir, loops
from .elemental import _is_elementwise, element
from .generator import Coordinate, Generator, Index
from .kernels import EmittedKernel, Frame
from .llvm_ir import Module, Value, i64
from .representation import Element, components, map_components

if TYPE_CHECKING:
    from ..targets.target import Target

LARGEST_TILE: Final = 16
SMALLEST_TILE: Final = 4
# Larger ones write past the caches: with a power of two as row length all lines of a tile compete for a few places.
STREAMING_BYTES: Final = 1 << 24


def emit(module: Module, target: Target, instruction: hlo.Instruction, name: str) -> EmittedKernel:
    """The kernel of a "transpose" fusion or of a single transpose; a loop kernel if there is nothing to tile."""
    return emit_frame(Frame(module, target, instruction, name))


def emit_frame(frame: Frame) -> EmittedKernel:
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
        self.streaming = frame.moves_at_least(STREAMING_BYTES)

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
            b = g.builder
            condition = b.icmp("slt", number.base, i64(groups))
            labels = b.new_label("tiles"), b.new_label("rest")
            done = b.new_label("done")
            entry = b.lines
            b.branch_if(condition, *labels)
            for label, write in zip(labels, (tiles, rest), strict=True):
                with g.level(guard=True, preheader=entry):
                    b.start_block(label)
                    write()
                    b.branch(done)
            b.start_block(done)

        counted = (*(self.dims[d] for d in others), units)
        loops.count(g, frame.begin, frame.end, counted, unit)
        total = math.prod(counted)
        cost = costs.of_computation(frame.target, frame.computation) * 2
        return frame.finish(total, costs.grain(cost, total), cost)

    def index(self, at: dict[int, Coordinate], row: Coordinate, column: Coordinate) -> Index:
        by_dim = {**at, self.across: row, len(self.dims) - 1: column}
        return tuple(by_dim[d] for d in range(len(self.dims)))

    def row(self, at: dict[int, Coordinate], row: Value, start: int) -> None:
        """One row of the result from column ``start`` on, as in a loop kernel."""
        width = self.dims[-1]
        c = Coordinate(row, 0, 1, None, 0, self.dims[self.across] - 1)
        lanes = min(self.lanes, 1 << (width - start - 1).bit_length())
        loops.span(
            self.g, start, width, width, lanes, self.masked,
            lambda column, mask: self.body(self.g, self.index(at, c, column), mask),
        )  # fmt: skip

    def one_tile(self, at: dict[int, Coordinate], row: Value, column: Value) -> None:
        g, tile = self.g, self.tile
        length, width = self.dims[self.across], self.dims[-1]
        along = Coordinate(row, 1, tile, None, 0, length - 1, tile)
        indices: list[Index] = []
        for r in range(tile):
            c = Coordinate(g.add(row, i64(r)), 0, 1, None, 0, length - 1)
            indices.append(self.index(at, c, Coordinate(column, 1, tile, None, 0, width - 1, tile)))
        for transpose in self.moved:
            lines: list[Element] = []
            for k in range(tile):
                c = Coordinate(g.add(column, i64(k)), 0, 1, None, 0, width - 1)
                lines.append(element(g, transpose, self.index(at, along, c)))
            for index, value in zip(indices, self.transpose(lines), strict=True):
                g.note(*components(value))
                g.remember((transpose, index), value, g.depth)
        for index in indices:
            self.body(g, index, None)

    def transpose(self, lines: list[Element]) -> list[Element]:
        """Each component of a square of elements transposed."""
        tile = self.tile
        wide = [map_components(lambda v: self.g.splat(v, tile), line) for line in lines]
        parts = [
            transpose_square(self.g.builder, list(p))
            for p in zip(*map(components, wide), strict=True)
        ]
        if len(parts) == 1:
            return list(parts[0])
        from .representation import Complex

        return [Complex(a, b) for a, b in zip(*parts, strict=True)]


def transpose_square(b: llvm_ir.Builder, rows: list[Value]) -> list[Value]:
    """n vectors of n lanes transposed, in the shuffles that x86 has.

    First squares inside the 128-bit parts of the vectors (unpack instructions), then the parts among each other.
    """
    n = len(rows)
    scalar = llvm_ir.scalar_of(rows[0].type)
    if scalar == "i1":
        bytes_ = [b.cast("zext", r, llvm_ir.vector("i8", n)) for r in rows]
        return [b.icmp("ne", r, llvm_ir.zero(r.type)) for r in transpose_square(b, bytes_)]
    size = {"float": 4, "double": 8}.get(scalar) or int(scalar[1:]) // 8
    part = min(n, 16 // size)
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
