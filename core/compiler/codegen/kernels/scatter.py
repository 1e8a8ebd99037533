"""The "scatter" kernel: combines updates into arrays that are there already.

The result arrays hold the inputs when the kernel starts (a copy before it, or the inputs' own
memory); the kernel applies the updates. An update whose window does not fit into the array at its
start index is skipped as a whole, as XLA does.

Updates may meet in one element, so by default all of them are applied in order by each unit of
work, and the units share out what cannot meet: batching dimensions, and window dimensions in which
all windows start at 0 (a row of an embedding's gradient is split into blocks). With
``unique_indices`` every update may be a unit of its own. The minor window dimension runs in
vectors. Updates that are single elements have a kernel of their own (:mod:`.scatter_elements`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir import dtypes, hlo
from ...ir.patterns import scatters_elements, scatters_rows
from .. import llvm_ir
from ..elements import conversion, memory
from ..elements.elemental import inline
from ..generator import ZERO, Coordinate, Generator, Index, fixed
from ..llvm_ir import Value, i64
from . import loops
from .emit import EmittedKernel, Frame, emitter
from .scatter_elements import ScatterElements
from .scatter_rows import ScatterRows


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a scatter of any number of arrays, with any body, or of a "scatter" fusion."""
    scatter = frame.computation.root
    if scatters_elements(scatter) and frame.target.costs.memory.places:
        elements = ScatterElements(frame)
        if elements.is_worth_it:
            return elements.emit()
    if scatters_rows(scatter) and frame.target.costs.memory.places:
        return ScatterRows(frame).emit()
    return _Scatter(frame, scatter).emit()


class _Scatter:
    def __init__(self, frame: Frame, scatter: hlo.Instruction) -> None:
        self.frame = frame
        self.g: Generator = frame.generator
        count = len(scatter.result_shapes)
        self.indices, *self.updates = [self.g.arrays[o] for o in scatter.operands[count:]]
        self.results = frame.results
        self.body = scatter.called[0]
        self.unique: bool = scatter.attributes["unique_indices"]
        n: hlo.ScatterDimensionNumbers = scatter.attributes["dimension_numbers"]
        self.numbers = n
        self.dims = self.results[0].shape.dims
        update_dims = self.updates[0].shape.dims
        self.update_dims = update_dims
        # Update dimensions: scattered ones in the order of the indices' dimensions, and the window's.
        self.scattered = [d for d in range(len(update_dims)) if d not in n.update_window_dims]
        self.window = sorted(n.update_window_dims)
        gone = {*n.inserted_window_dims, *n.input_batching_dims}
        kept = [d for d in range(len(self.dims)) if d not in gone]
        self.operand_dim = dict(zip(self.window, kept, strict=True))
        self.window_sizes = [1] * len(self.dims)
        for ours, theirs in self.operand_dim.items():
            self.window_sizes[theirs] = update_dims[ours]
        # Scattered dimensions that stand for batching dimensions of the inputs.
        index_dims = [d for d in range(self.indices.shape.rank) if d != n.index_vector_dim]
        place = dict(zip(index_dims, self.scattered, strict=True))
        pairs = zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True)
        self.batch_of = {theirs: place[ours] for theirs, ours in pairs}

    def emit(self) -> EmittedKernel:
        g, frame, n = self.g, self.frame, self.numbers
        fits = all(size <= dim for size, dim in zip(self.window_sizes, self.dims, strict=True))
        if math.prod(self.update_dims) == 0 or not fits:
            return frame.finish(0, 0.0)
        starts_at_zero = [
            d for d in self.window if self.operand_dim[d] not in n.scatter_dims_to_operand_dims
        ]
        if self.unique:
            shared = [*self.scattered]
        else:
            shared = [d for d in self.scattered if d in self.batch_of.values()]
        size = max(4 if r.shape.dtype.is_float else 1 for r in self.results)
        size = max(size, *(r.shape.dtype.component.size for r in self.results))
        is_complex = any(r.shape.dtype.is_complex for r in self.results)
        lanes = frame.target.lane_count(size, is_complex)
        masked = all(frame.target.can_mask(r.shape.dtype.component.size) for r in self.results)
        minor = self.minor()
        blocks = 1
        if minor is None:
            lanes = 1
        else:
            lanes = min(lanes, 1 << (self.update_dims[minor] - 1).bit_length())
            if not self.unique and minor in starts_at_zero:
                length = self.update_dims[minor]
                blocks = next((c for c in (8, 4, 2) if length % (c * 4 * lanes) == 0), 1)
        if not self.unique:
            shared += [d for d in starts_at_zero if d != minor]
        inner = [d for d in self.scattered if d not in shared]
        inner_window = [d for d in self.window if d not in shared and d != minor]

        def unit(index: Index) -> None:
            at = dict(zip(shared, index, strict=False))

            def update(further: Index) -> None:
                here = at | dict(zip(inner, further, strict=True))
                self.update(here, inner_window, minor, index[-1], blocks, lanes, masked)

            g.nest([self.update_dims[d] for d in inner], update)

        dims = [*(self.update_dims[d] for d in shared), blocks]
        loops.count(g, frame.begin, frame.end, dims, unit)
        units = math.prod(dims)
        elements = sum(math.prod(u.shape.dims) for u in self.updates)
        kernels = frame.target.costs.kernels
        each = kernels.scattered_element if lanes == 1 else kernels.scattered_vector / lanes
        cost = kernels.nest + elements * each
        return frame.finish(units, cost)

    def minor(self) -> int | None:
        """The update dimension to run in vectors: contiguous in updates and results."""
        last = len(self.update_dims) - 1
        if (
            last in self.operand_dim
            and self.operand_dim[last] == len(self.dims) - 1
            and self.update_dims[last] > 1
        ):
            return last
        return None

    def update(
        self,
        at: dict[int, Coordinate],
        window: Sequence[int],
        minor: int | None,
        block: Coordinate,
        blocks: int,
        lanes: int,
        masked: bool,
    ) -> None:
        """Apply the update at the scattered coordinates in ``at``, if its window fits."""
        g = self.g
        starts, condition = self.starts(at)

        def row(index: Index) -> None:
            here = at | dict(zip(window, index, strict=True))
            if minor is None:
                self.combine(here, starts, None)
                return
            loops.span_of_block(
                *(g, block, blocks, self.update_dims[minor], lanes, masked),
                lambda c, mask: self.combine({**here, minor: c}, starts, mask),
            )

        with g.only_if(condition, "apply", "skip"):
            g.nest([self.update_dims[d] for d in window], row)

    def starts(self, at: dict[int, Coordinate]) -> tuple[list[Coordinate], Value]:
        """Where the window starts in the results, and whether it fits."""
        g, n = self.g, self.numbers
        starts = [ZERO] * len(self.dims)
        for theirs, ours in self.batch_of.items():
            starts[theirs] = at[ours]
        condition: Value | None = None
        for k, d in enumerate(n.scatter_dims_to_operand_dims):
            index = [at[s] for s in self.scattered]
            if n.index_vector_dim < self.indices.shape.rank:
                index.insert(n.index_vector_dim, fixed(k))
            value = g.load(self.indices, tuple(index))
            wide = conversion.number(g, value, self.indices.shape.dtype, dtypes.S64)
            g.note(wide)
            limit = self.dims[d] - self.window_sizes[d]
            inside = g.compare("ule", wide, i64(limit))
            condition = inside if condition is None else g.apply("and", condition, inside)
            starts[d] = Coordinate(wide, high=limit)
        return starts, condition if condition is not None else llvm_ir.TRUE

    def combine(
        self, at: dict[int, Coordinate], starts: Sequence[Coordinate], mask: Value | None
    ) -> None:
        g = self.g
        update_index = tuple(at[d] for d in range(len(self.update_dims)))
        index = list(starts)
        for ours, theirs in self.operand_dim.items():
            index[theirs] = g.sum(index[theirs], at[ours])
        place = tuple(index)
        before = [memory.reload(g, r, place) for r in self.results]
        values = [g.load(u, update_index) for u in self.updates]
        after = inline(g, self.body, [*before, *values])
        for result, value in zip(self.results, after, strict=True):
            g.store(result, place, value, mask)
