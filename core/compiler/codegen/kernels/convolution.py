"""The "convolution" kernel: any window, dilation, grouping and dtype, directly from the definition.

For what no library takes (integers, complex numbers, double) and for machines without one. Vectors
run along the minor dimension of the result: with features last both the kernel and, for depthwise
convolutions, the input are read contiguously; with spatial dimensions last the input is. The sum
runs over window positions, skipping those in the padding, and in each over the input features of a
group, in four partial sums so that additions need not wait for each other.
"""

from __future__ import annotations

import math
from typing import Final

from ...ir import hlo
from ..elements.products import Products
from ..generator import ZERO, Coordinate, Generator, Index
from ..llvm_ir import Value, i64, lanes_of
from ..representation import Element, components
from . import loops, windows
from .emit import EmittedKernel, Frame, emitter

_PARTIAL_SUMS: Final = 4


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a convolution."""
    return _Convolution(frame).emit()


class _Convolution(Products):
    def __init__(self, frame: Frame) -> None:
        instruction = frame.instruction
        super().__init__(frame.generator, instruction.dtype)
        self.frame = frame
        self.input, self.kernel = frame.operands
        self.result = frame.results[0]
        self.numbers: hlo.ConvolutionDimensionNumbers = instruction.attributes["dimension_numbers"]
        self.window: tuple[hlo.WindowDimension, ...] = instruction.attributes["window"]
        self.feature_groups: int = instruction.attributes["feature_group_count"]
        self.batch_groups: int = instruction.attributes["batch_group_count"]
        self.dims = self.result.shape.dims
        # Input features that a result's feature sums over.
        self.features = self.kernel.shape.dims[self.numbers.kernel_input_feature]

    def emit(self) -> EmittedKernel:
        frame = self.frame
        if math.prod(self.dims) == 0:
            return frame.finish(0, 0.0)
        lanes, masked = windows.lanes_and_mask(
            frame.target, [self.input.shape, self.kernel.shape, self.result.shape]
        )
        units = loops.iterate(frame, self.dims, lanes, masked, self.step)
        products = math.prod(self.dims) * math.prod(w.size for w in self.window) * self.features
        kernels = frame.target.costs.kernels
        cost = kernels.nest + products * self.parts**2 * kernels.convolution / lanes
        return frame.finish(units, cost)

    def step(self, g: Generator, index: Index, mask: Value | None) -> None:
        lanes = max((c.lanes for c in index), default=1)
        n = self.numbers
        partial = min(_PARTIAL_SUMS, max(1, self.features))
        start = [v for _ in range(partial) for v in components(self.zeros(lanes))]
        if math.prod(self.input.shape.dims) and math.prod(self.kernel.shape.dims):
            sizes = [w.size for w in self.window]
            feature = index[n.output_feature]
            # Which group a result's feature belongs to, and where that group's inputs are.
            groups = max(self.feature_groups, self.batch_groups)
            group, _ = g.divide(feature, self.dims[n.output_feature] // groups)
            first_feature = g.scale(group, self.features) if self.feature_groups > 1 else ZERO
            batch = index[n.output_batch]
            if self.batch_groups > 1:
                batch = g.sum(g.scale(group, self.dims[n.output_batch]), batch)

            def at_position(positions: windows.Positions, state: list[Value]) -> list[Value]:
                places: list[Coordinate] = []
                conditions: list[Value] = []
                for k, (w, p) in enumerate(zip(self.window, positions, strict=True)):
                    size = self.input.shape.dims[n.input_spatial[k]]
                    out = index[n.output_spatial[k]]
                    coordinate, needed = windows.place(g, w, size, out, p)
                    places.append(coordinate)
                    conditions += needed

                def add() -> list[Value]:
                    return self.over_features(
                        state, batch, first_feature, feature, places, positions, varying
                    )

                uniform = [c for c in conditions if lanes_of(c.type) == 1]
                varying = windows.all_of(g, [c for c in conditions if lanes_of(c.type) > 1])
                condition = windows.all_of(g, uniform)
                return (
                    add() if condition is None else windows.choose(g, condition, add, lambda: state)
                )

            start = windows.over(g, sizes, start, at_position)
        sums = self.grouped(start)
        while len(sums) > 1:
            pairs = zip(sums[::2], sums[1::2], strict=False)
            sums = [self.add_elements(a, b) for a, b in pairs] + sums[len(sums) // 2 * 2 :]
        g.store(self.result, index, sums[0], mask)

    def over_features(
        self,
        state: list[Value],
        batch: Coordinate,
        first_feature: Coordinate,
        feature: Coordinate,
        places: list[Coordinate],
        positions: windows.Positions,
        condition: Value | None,
    ) -> list[Value]:
        """The partial sums after one window position; ``condition``: lanes that are not in the padding."""
        g, n = self.g, self.numbers
        partial = len(state) // self.parts
        lanes = lanes_of(state[0].type)

        def product(sums: list[Element], which: int, i: Coordinate) -> None:
            source: list[Coordinate] = [ZERO] * len(self.input.shape.dims)
            source[n.input_batch] = batch
            source[n.input_feature] = g.sum(first_feature, i)
            weights: list[Coordinate] = [ZERO] * len(self.kernel.shape.dims)
            weights[n.kernel_input_feature] = i
            weights[n.kernel_output_feature] = feature
            for k, (place, position) in enumerate(zip(places, positions, strict=True)):
                source[n.input_spatial[k]] = place
                weights[n.kernel_spatial[k]] = position
            if condition is None:
                x = g.load(self.input, tuple(source))
            else:
                with g.masked(condition):
                    x = g.load(self.input, tuple(source))
            x = self.factor(x, self.input.shape.dtype)
            w = self.factor(g.load(self.kernel, tuple(weights)), self.kernel.shape.dtype)
            after = self.multiply_add(x, w, sums[which])
            if condition is not None:  # the weights may be infinite
                pairs = zip(components(after), components(sums[which]), strict=True)
                after = self.grouped(
                    [g.builder.select(g.splat(condition, lanes), a, b) for a, b in pairs]
                )[0]
            sums[which] = after

        whole = self.features // partial * partial
        sums = self.grouped(state)
        if whole > partial:
            with g.loop(i64(0), i64(whole), partial, state) as (at, carried, results):
                inner = self.grouped(carried)
                for which in range(partial):
                    base = g.add(at, i64(which))
                    product(inner, which, Coordinate(base, high=self.features - 1))
                carried[:] = [v for e in inner for v in components(e)]
            sums = self.grouped(results)
            rest = range(whole, self.features)
        else:
            rest = range(self.features)
        for which, number in enumerate(rest):
            product(sums, which % partial, Coordinate(i64(number), 0, 1, None, number, number))
        return [v for e in sums for v in components(e)]
