"""The "select-and-scatter" kernel: the gradient of max pooling, with any select and scatter
functions.

For each element of the source the window of the operand is searched for the element that select
prefers (the first of equal ones); the source is then combined into the result at that place. Every
window is passed over twice: to find the position by lane, and to combine into each position the
lanes that chose it, so that no store depends on the data. Where no two windows overlap (most pools)
nothing is read back, and where they leave no gap either, nothing is filled before. Vectors run along
the minor dimension if that is not windowed (channels last); units of work are the dimensions that
are not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...ir import hlo
from ...ir.errors import of_instruction
from .. import llvm_ir
from ..elements import memory
from ..elements.elemental import inline
from ..generator import ZERO, Coordinate, Generator, Index
from ..llvm_ir import Value
from ..representation import Complex, Element, components, map_components
from . import loops, windows
from .emit import EmittedKernel, Frame, emitter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a select-and-scatter."""
    return _SelectAndScatter(frame).emit()


class _SelectAndScatter:
    def __init__(self, frame: Frame) -> None:
        instruction = frame.instruction
        self.frame = frame
        self.g: Generator = frame.generator
        self.operand, self.source, self.initial = frame.operands
        self.result = frame.results[0]
        self.select, self.scatter = instruction.called
        self.window: tuple[hlo.WindowDimension, ...] = instruction.attributes["window"]
        self.dims = self.result.shape.dims
        if self.operand.shape.dims != self.dims:  # one index serves both
            raise of_instruction("INTERNAL", "the result has other dimensions", instruction)
        self.source_dims = self.source.shape.dims
        windowed = [
            (w, size, count)
            for w, size, count in zip(self.window, self.dims, self.source_dims, strict=True)
            if not windows.is_trivial(w)
        ]
        # Every element of the result is in at most one window; in exactly one.
        self.disjoint = all(w.stride > (w.size - 1) * w.window_dilation for w, _, _ in windowed)
        self.covered = self.disjoint and all(
            w.stride == w.size and w.padding_low == 0 and w.stride * count >= size
            for w, size, count in windowed
        )
        self.lanes, self.masked = windows.lanes_and_mask(frame.target, [self.operand.shape])

    def emit(self) -> EmittedKernel:
        g, frame = self.g, self.frame
        if math.prod(self.dims) == 0:
            return frame.finish(0, 0.0)
        rank = len(self.dims)
        free = [d for d in range(rank) if windows.is_trivial(self.window[d])]
        minor = rank - 1 if rank - 1 in free and self.dims[-1] > 1 else None
        outer = [d for d in free if d != minor]
        windowed = [d for d in range(rank) if d not in free]
        lanes, blocks, length = 1, 1, 1
        if minor is not None:
            length = self.dims[minor]
            lanes = min(self.lanes, 1 << (length - 1).bit_length())
            if math.prod(self.dims[d] for d in outer) < frame.target.costs.threads.line_units:
                blocks = next((c for c in (16, 8, 4, 2) if length % (c * lanes) == 0), 1)

        def along_minor(
            block: Coordinate, step: Callable[[Coordinate, Value | None], None]
        ) -> None:
            if minor is None:
                step(ZERO, None)
            else:
                loops.span_of_block(g, block, blocks, length, lanes, self.masked, step)

        def index_of(at: dict[int, Coordinate], c: Coordinate) -> Index:
            if minor is not None:
                at = {**at, minor: c}
            return tuple(at[d] for d in range(rank))

        def unit(index: Index) -> None:
            fixed_at = dict(zip(outer, index, strict=False))
            block = index[-1]

            def fill(at: dict[int, Coordinate]) -> None:
                def step(c: Coordinate, mask: Value | None) -> None:
                    g.store(self.result, index_of(at, c), g.load(self.initial, ()), mask)

                along_minor(block, step)

            def window(at: dict[int, Coordinate]) -> None:
                along_minor(block, lambda c, mask: self.one(index_of(at, c), mask))

            def each(dims: Sequence[int], body: Callable[[dict[int, Coordinate]], None]) -> None:
                """Loops over the windowed dimensions around ``body``."""
                g.nest(
                    [dims[d] for d in windowed],
                    lambda further: body(fixed_at | dict(zip(windowed, further, strict=True))),
                )

            if not self.covered:
                each(self.dims, fill)
            if math.prod(self.source_dims):
                each(self.source_dims, window)

        dims = [*(self.dims[d] for d in outer), blocks]
        loops.count(g, frame.begin, frame.end, dims, unit)
        units = math.prod(dims)
        positions = math.prod(w.size for w in self.window) * math.prod(self.source_dims)
        kernels = frame.target.costs.kernels
        cost = kernels.nest + positions * kernels.selection / lanes
        return frame.finish(units, cost)

    def places(self, index: Index, positions: windows.Positions) -> tuple[Index, Value | None]:
        g = self.g
        result, conditions = [], []
        for w, size, c, p in zip(self.window, self.dims, index, positions, strict=True):
            coordinate, needed = (
                (c, []) if windows.is_trivial(w) else windows.place(g, w, size, c, p)
            )
            result.append(coordinate)
            conditions += needed
        return tuple(result), windows.all_of(g, conditions)

    def grouped(self, values: list[Value]) -> Element:
        return Complex(values[0], values[1]) if self.operand.shape.dtype.is_complex else values[0]

    def one(self, index: Index, mask: Value | None) -> None:
        """Scatter one element of the source (or a vector of them)."""
        g, b = self.g, self.g.builder
        lanes = max((c.lanes for c in index), default=1)
        sizes = [w.size for w in self.window]
        number_type = llvm_ir.vector("i32", lanes)

        def number(positions: windows.Positions) -> Value:
            """The position's number in the window, in every lane."""
            c = g.linear(positions, sizes)
            known = c.base.constant
            if isinstance(known, int):
                return g.splat(llvm_ir.integer("i32", known), lanes)
            return g.splat(b.cast("trunc", c.base, "i32"), lanes)

        def search(positions: windows.Positions, state: list[Value]) -> list[Value]:
            chosen, *best = state
            place, condition = self.places(index, positions)
            value = map_components(lambda v: g.splat(v, lanes), g.load(self.operand, place))
            keep = inline(g, self.select, [self.grouped(best), value])[0]
            assert isinstance(keep, Value)
            keep = g.splat(keep, lanes)
            none = b.icmp("slt", chosen, llvm_ir.zero(number_type))
            replace = b.binary("or", none, b.binary("xor", keep, llvm_ir.integer(keep.type, -1)))
            if condition is not None:
                replace = b.binary("and", replace, g.splat(condition, lanes))
            pairs = zip([number(positions), *components(value)], state, strict=True)
            return [b.select(replace, new, old) for new, old in pairs]

        zeros = [llvm_ir.zero(v.type) for v in components(self.sample(lanes))]
        chosen = windows.over(g, sizes, [llvm_ir.integer(number_type, -1), *zeros], search)[0]
        value = g.load(self.source, index)

        def combine(positions: windows.Positions, state: list[Value]) -> list[Value]:
            place, condition = self.places(index, positions)

            def write() -> list[Value]:
                hit = b.icmp("eq", chosen, number(positions))
                if self.disjoint:
                    before = g.load(self.initial, ())
                else:
                    before = memory.reload(g, self.result, place)
                after = inline(g, self.scatter, [before, value])[0]
                merged = map_components(
                    lambda x, y: b.select(hit, g.splat(x, lanes), g.splat(y, lanes)), after, before
                )
                g.store(self.result, place, merged, mask)
                return []

            if condition is None:
                return write()
            return windows.choose(g, condition, write, list)

        windows.over(g, sizes, [], combine)

    def sample(self, lanes: int) -> Element:
        """An element with the types of the operand's, for its types only."""
        from ..representation import register_type

        dtype = self.operand.shape.dtype
        value = llvm_ir.zero(llvm_ir.vector(register_type(dtype), lanes))
        return Complex(value, value) if dtype.is_complex else value
