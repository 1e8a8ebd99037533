"""The "reduce-window" kernel: pooling with any body and window, and cumulative sums and products.

Vectors run along the minor dimension of the result; if that is not windowed (channels last) every
window position is one contiguous load. Positions in the padding are left out (an initial value that
is not neutral shows once, as in XLA on CPUs). Where padding is possible, windows that lie inside
take a path without conditions.

A window as long as its dimension with as much padding is a cumulative reduction: it is written as a
scan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import errors, hlo
from . import costs, loops, windows
from .elemental import inline
from .generator import Coordinate, Generator, Index
from .kernels import EmittedKernel, Frame
from .llvm_ir import Module, Value, i64
from .representation import Complex, Element, components, map_components

if TYPE_CHECKING:
    from ..targets.target import Target


def emit(module: Module, target: Target, instruction: hlo.Instruction, name: str) -> EmittedKernel:
    """The kernel of a reduce-window."""
    frame = Frame(module, target, instruction, name, collapsed=False)
    kernel = _ReduceWindow(frame, instruction)
    if math.prod(kernel.dims) == 0:
        return frame.finish(0, 1, 0.0)
    return kernel.scan() if kernel.scan_dimension() is not None else kernel.emit()


class _ReduceWindow:
    def __init__(self, frame: Frame, instruction: hlo.Instruction) -> None:
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
        cost = 20.0 + operations * 0.5 / self.lanes
        return frame.finish(units, costs.grain(cost, units), cost)

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
    def scan_dimension(self) -> int | None:
        """The dimension along which this is a cumulative reduction, if it is one."""
        found: int | None = None
        for d, (w, size) in enumerate(zip(self.window, self.input_dims, strict=True)):
            if windows.is_trivial(w):
                continue
            plain = (w.stride, w.window_dilation, w.base_dilation) == (1, 1, 1) and not w.reversal
            padding = (w.padding_low, w.padding_high)
            if (
                found is not None
                or not plain
                or w.size != size
                or padding not in ((size - 1, 0), (0, size - 1))
            ):
                return None
            found = d
        return found if self.input_dims == self.dims else None

    def scan(self) -> EmittedKernel:
        frame = self.frame
        d = self.scan_dimension()
        assert d is not None
        size = self.dims[d]
        backward = self.window[d].padding_low == 0 and size > 1
        others = [dim for n, dim in enumerate(self.dims) if n != d]

        def body(g: Generator, index: Index, mask: Value | None) -> None:
            lanes = max((c.lanes for c in index), default=1)
            with g.loop(i64(0), i64(size), 1, self.start(lanes)) as (i, carried, _):
                at = Coordinate(i, 0, 1, None, 0, size - 1)
                if backward:
                    at = g.shift(g.scale(at, -1), size - 1)
                place = (*index[:d], at, *index[d:])
                carried[:] = self.accumulate(list(carried), place, None)
                self.store(place, list(carried), mask)

        # Along the minor dimension rows go one by one: vectors of rows would be gathers and scatters.
        lanes = 1 if d == len(self.dims) - 1 else self.lanes
        units = loops.iterate(frame, others, lanes, self.masked, body)
        cost = 20.0 + math.prod(self.dims) * self.count * (1.2 / lanes + 0.05)
        return frame.finish(units, costs.grain(cost, units), cost)
