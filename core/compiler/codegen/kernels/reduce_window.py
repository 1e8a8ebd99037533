"""The "reduce-window" kernel: pooling with any body and window, and cumulative sums and products.

Vectors run along the minor dimension of the result; if that is not windowed (channels last) every
window position is one contiguous load. Positions in the padding are left out (an initial value that
is not neutral shows once, as in XLA on CPUs). Where padding is possible, windows that lie inside
take a path without conditions.

A window as long as its dimension with as much padding is a cumulative reduction: it is written as a
scan. (Long ones have become several shorter ones before: passes/split_scans.py.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir import errors, hlo, scans
from .. import llvm_ir
from ..elements.elemental import inline
from ..generator import Coordinate, Generator, Index
from ..llvm_ir import Value, i64
from ..representation import Complex, Element, components, map_components
from . import accumulation, accumulators, loops, windows
from .emit import EmittedKernel, Frame, computation_of, emitter


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a reduce-window."""
    kernel = _ReduceWindow(frame)
    if math.prod(kernel.dims) == 0:
        return frame.finish(0, 0.0)
    cumulative = scans.of(frame.instruction)
    return kernel.emit() if cumulative is None else kernel.scan(cumulative)


class _ReduceWindow:
    def __init__(self, frame: Frame) -> None:
        instruction = frame.instruction
        self.frame = frame
        self.g: Generator = frame.generator
        self.count = len(instruction.result_shapes)
        self.inputs = frame.operands[: self.count]
        self.initial = frame.operands[self.count :]
        self.body = instruction.called[0]
        self.window: tuple[hlo.WindowDimension, ...] = instruction.attributes["window"]
        self.input_dims = self.inputs[0].shape.dims
        self.dims = self.frame.results[0].shape.dims
        if len(self.window) != len(self.dims):
            raise errors.of_instruction(
                "INVALID_ARGUMENT", "window and array differ in rank", instruction
            )
        shapes = [a.shape for a in (*self.inputs, *frame.results)]
        self.lanes, self.masked = windows.lanes_and_mask(frame.target, shapes)

    # -- elements of several arrays as a flat list of values
    def flat(self, elements: Sequence[Element]) -> list[Value]:
        return [v for e in elements for v in components(e)]

    def grouped(self, values: Sequence[Value]) -> list[Element]:
        result: list[Element] = []
        at = 0
        for array in self.inputs:
            if array.shape.dtype.is_complex:
                result.append(Complex(values[at], values[at + 1]))
                at += 2
            else:
                result.append(values[at])
                at += 1
        return result

    def start(self, lanes: int) -> list[Value]:
        """The initial values in every lane."""
        g = self.g
        return self.flat(
            [map_components(lambda v: g.splat(v, lanes), g.load(a, ())) for a in self.initial]
        )

    def accumulate(self, state: list[Value], index: Index, condition: Value | None) -> list[Value]:
        """body(state, inputs[index]) in the lanes where the condition holds."""
        g = self.g
        if condition is not None and condition.type != "i1":
            with g.masked(condition):
                values = [g.load(a, index) for a in self.inputs]
        else:
            values = [g.load(a, index) for a in self.inputs]
        after = self.flat(inline(g, self.body, [*self.grouped(state), *values]))
        lanes = max(
            int(v.type[1 : v.type.index(" ")]) if v.type[0] == "<" else 1 for v in (*state, *after)
        )
        after = [g.splat(v, lanes) for v in after]
        if condition is None:
            return after
        before = [g.splat(v, lanes) for v in state]
        return [g.builder.select(condition, a, b) for a, b in zip(after, before, strict=True)]

    # -- windows
    def emit(self) -> EmittedKernel:
        frame, window = self.frame, self.window
        sizes = [w.size for w in window]
        units = loops.iterate(frame, self.dims, self.lanes, self.masked, self.step)
        operations = math.prod(sizes) * math.prod(self.dims) * self.count
        kernels = frame.target.costs.kernels
        cost = kernels.nest + operations * kernels.window / self.lanes
        return frame.finish(units, cost)

    def step(self, g: Generator, index: Index, mask: Value | None) -> None:
        lanes = max((c.lanes for c in index), default=1)
        sizes = [w.size for w in self.window]
        start = self.start(lanes)
        if math.prod(self.input_dims) == 0:
            self.store(index, start, mask)
            return

        def guarded() -> list[Value]:
            def at_position(positions: windows.Positions, state: list[Value]) -> list[Value]:
                places, conditions = [], []
                for w, size, c, p in zip(
                    self.window, self.input_dims, index, positions, strict=True
                ):
                    coordinate, needed = windows.place(g, w, size, c, p)
                    places.append(coordinate)
                    conditions += needed
                return self.accumulate(state, tuple(places), windows.all_of(g, conditions))

            return windows.over(g, sizes, start, at_position)

        def inside() -> list[Value]:
            """As if there were no padding: the coordinates' ranges are narrowed to say so."""

            def at_position(positions: windows.Positions, state: list[Value]) -> list[Value]:
                places = []
                for w, size, c, p in zip(
                    self.window, self.input_dims, index, positions, strict=True
                ):
                    shifted = g.shift(g.scale(p, w.window_dilation), -w.padding_low)
                    coordinate = g.sum(g.scale(c, w.stride), shifted)
                    places.append(coordinate._replace(low=0, high=size - 1))
                return self.accumulate(state, tuple(places), None)

            return windows.over(g, sizes, start, at_position)

        condition = self.inside_condition(index)
        values = guarded() if condition is None else windows.choose(g, condition, inside, guarded)
        self.store(index, values, mask)

    def inside_condition(self, index: Index) -> Value | None:
        """Whether all positions count, if one comparison or two can tell and it is not always so."""
        g = self.g
        conditions: list[Value] = []
        for w, size, c in zip(self.window, self.input_dims, index, strict=True):
            if w.base_dilation != 1 or w.reversal:
                return None
            first = g.shift(g.scale(c, w.stride), -w.padding_low)
            reach = (w.size - 1) * w.window_dilation
            if first.low >= 0 and first.high + reach < size:
                continue
            if not c.is_uniform:
                return None
            if size <= reach:
                return None
            conditions.append(g.compare("ule", first.base, i64(size - 1 - reach)))
        return windows.all_of(g, conditions)

    def store(self, index: Index, values: list[Value], mask: Value | None) -> None:
        for array, value in zip(self.frame.results, self.grouped(values), strict=True):
            self.g.store(array, index, value, mask)

    # -- cumulative reductions
    def scan(self, cumulative: scans.Scan) -> EmittedKernel:
        """Rows one by one in vectors along a minor dimension; else vectors of neighbouring rows."""
        frame = self.frame
        others = [dim for n, dim in enumerate(self.dims) if n != cumulative.dimension]
        minor = cumulative.dimension == len(self.dims) - 1
        if minor:
            _Scan(self, cumulative, self.lanes).emit_rows(others)
            units = math.prod(others)
        else:
            # Several vectors at a time: short pieces of many rows of memory are slow.
            wide = self.lanes
            most = frame.target.most_lanes(any(a.shape.dtype.is_complex for a in self.inputs))
            while wide < min(4 * self.lanes, others[-1], most):
                wide *= 2

            def columns(_: Generator, index: Index, mask: Value | None) -> None:
                _Scan(self, cumulative, 1).emit_columns(index, mask)

            units = loops.iterate(frame, others, wide, self.masked, columns)
        kernels = frame.target.costs.kernels
        each = kernels.scan / self.lanes + kernels.scan_element
        cost = kernels.nest + math.prod(self.dims) * self.count * each
        return frame.finish(units, cost)


class _Scan:
    """A cumulative reduction of one row (or of a vector of neighbouring rows) being written.

    The row is taken apart into vectors, those into blocks of accumulation.BLOCK, those into blocks of blocks, and so
    on: each element of the result is what stands before its block, with what stands before it in the block. So no
    element has many roundings, and only one operation a vector waits for the one before.

    "Before" is from the row's other end if the reduction is ``backward``.
    """

    def __init__(self, kernel: _ReduceWindow, cumulative: scans.Scan, lanes: int) -> None:
        self.kernel = kernel
        self.g = kernel.g
        self.dimension, self.backward = cumulative
        self.size = kernel.dims[self.dimension]
        self.lanes = lanes  # along the row
        self.prefix: Index = ()  # the index of the row, before and after the cumulative dimension
        self.suffix: Index = ()
        self.mask: Value | None = None
        # Of the instruction by itself: a kernel does not go by what computes its operands.
        neutral = accumulators.identity(computation_of(kernel.frame.instruction).root)
        self.neutral = None if neutral is None else kernel.flat([neutral])

    def emit_rows(self, others: Sequence[int]) -> None:
        def row(index: Index) -> None:
            self.prefix = index
            self.emit(self.kernel.start(1))

        loops.count(self.g, self.kernel.frame.begin, self.kernel.frame.end, others, row)

    def emit_columns(self, index: Index, mask: Value | None) -> None:
        self.prefix, self.suffix = index[: self.dimension], index[self.dimension :]
        self.mask = mask
        self.emit(self.kernel.start(max((c.lanes for c in index), default=1)))

    def emit(self, before: list[Value]) -> None:
        """The whole row, behind the initial values ``before``."""
        main = self.size // self.lanes * self.lanes
        if main:
            total = self.blocks(self.levels(main), self.lanes, i64(0), i64(main), before)
            if main < self.size:
                before = self.join(before, total)
        if main < self.size:
            self.blocks([1], 1, i64(main), i64(self.size), before)

    def levels(self, size: int) -> list[int]:
        """Elements that one step of the loops takes, innermost first."""
        spans = [self.lanes]
        while size // spans[-1] > accumulation.LONGEST:
            spans.append(spans[-1] * accumulation.BLOCK)
        return spans

    def blocks(
        self, spans: Sequence[int], lanes: int, first: Value, stop: Value, before: list[Value]
    ) -> list[Value]:
        """Elements [first, stop) of the row, behind ``before``; gives what they come to.

        ``spans``: as of :meth:`levels`; the last one is that of this loop.
        """
        g, b = self.g, self.g.builder
        # Without a neutral element the first step of the loop leaves out what there is not yet.
        start = (
            before
            if self.neutral is None
            else [
                g.splat(n, llvm_ir.lanes_of(v.type))
                for n, v in zip(self.neutral, before, strict=True)
            ]
        )
        with g.loop(first, stop, spans[-1], start) as (i, carried, results):
            run = list(carried)
            here = self.join(before, run)
            if self.neutral is None:
                is_first = g.compare("eq", i, first)
                here = self.chosen(is_first, before, here)
            if len(spans) == 1:
                total = self.step(i, lanes, here)
            else:
                end = b.intrinsic("smin", [g.add(i, i64(spans[-1])), stop])
                g.note(end)
                total = self.blocks(spans[:-1], lanes, i, end, here)
            joined = self.join(run, total)
            if self.neutral is None:
                joined = self.chosen(is_first, total, joined)
            carried[:] = joined
        return list(results)

    def step(self, i: Value, lanes: int, before: list[Value]) -> list[Value]:
        """The vector (or element) of the row from element ``i`` on: writes its results, gives what it comes to."""
        g, kernel = self.g, self.kernel
        if lanes == 1:
            at = Coordinate(i, high=self.size - 1)
            if self.backward:
                at = g.shift(g.scale(at, -1), self.size - 1)
        else:
            base = g.sub(i64(self.size - lanes), i) if self.backward else i
            at = Coordinate(base, 1, lanes, None, 0, self.size - 1)
        place = (*self.prefix, at, *self.suffix)
        values = kernel.flat([g.load(a, place) for a in kernel.inputs])
        total = values
        if lanes > 1:
            values = self.within(values, lanes)
            total = [g.builder.extract(v, 0 if self.backward else lanes - 1) for v in values]
            g.note(*total)
        kernel.store(place, self.join(before, values), self.mask)
        return total

    def within(self, values: list[Value], lanes: int) -> list[Value]:
        """The cumulative reduction inside of a vector, in log2(lanes) steps."""
        g, b = self.g, self.g.builder
        by = 1
        while by < lanes:
            # Lane n meets lane n - by (n + by if backward); lanes that meet none keep their value.
            lone = [(lanes - 1 - n if self.backward else n) < by for n in range(lanes)]
            other = [n + by if self.backward else n - by for n in range(lanes)]
            if self.neutral is not None:
                filler = [g.splat(v, lanes) for v in self.neutral]
                mask = [lanes if alone else n for alone, n in zip(lone, other, strict=True)]
            else:
                filler = values
                mask = [
                    own if alone else n
                    for own, (alone, n) in enumerate(zip(lone, other, strict=True))
                ]
            moved = [b.shuffle(v, f, mask) for v, f in zip(values, filler, strict=True)]
            g.note(*moved)
            joined = self.join(moved, values)
            if self.neutral is None:
                joined = self.chosen(llvm_ir.lanes_constant("i1", lone), values, joined)
            values = joined
            by *= 2
        return values

    def join(self, earlier: Sequence[Value], later: Sequence[Value]) -> list[Value]:
        """The body applied to what comes earlier in the row and what comes later, in the order of the array."""
        g, kernel = self.g, self.kernel
        pair = (later, earlier) if self.backward else (earlier, later)
        arguments = [e for values in pair for e in kernel.grouped(values)]
        joined = kernel.flat(inline(g, kernel.body, arguments))
        lanes = max(llvm_ir.lanes_of(v.type) for v in (*earlier, *later))
        return [g.splat(v, lanes) for v in joined]

    def chosen(self, condition: Value, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        values = [self.g.builder.select(condition, x, y) for x, y in zip(a, b, strict=True)]
        self.g.note(*values)
        return values
