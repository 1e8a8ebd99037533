"""Row fusions over rows of few elements: vectors run across rows, and all elements of a row are in registers.

A softmax of ten classes would leave a third of a vector along its row empty, and its sums and maxima would have to be
put together across the lanes of that vector. Here each element of the row is a vector of its own, of neighbouring rows,
and so is each reduced value. Nothing is kept in memory from one reduction to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...ir import hlo
from ..elements import conversion, memory
from ..elements.elemental import element
from ..generator import Array, Index, fixed
from ..llvm_ir import Value
from ..representation import Element
from . import accumulators, loops, short_rows
from .emit import Frame

# The weight of a row's instructions, once for each of its elements.
MOST_CODE: Final = 1024
# Vectors across rows are gathers, which CPUs have for elements of at least so many bytes.
SMALLEST_GATHERED: Final = 4

Results = Sequence[tuple[hlo.Instruction, Array]]


@dataclass(frozen=True)
class RowBlocks:
    """A fusion over ``dims``, whose last dimension is reduced by ``passes`` of reductions, one after the other.

    ``full``: results of all dimensions; ``last``: results of all but the last.
    """

    frame: Frame
    dims: tuple[int, ...]
    passes: Sequence[list[hlo.Instruction]]
    full: Results
    last: Results
    lanes: int
    masked: bool

    def fits(self) -> bool:
        """Whether the fusion is computed so: rows are hardly longer than a vector, and fill one across them."""
        target, computation = self.frame.target, self.frame.computation
        if (
            len(self.dims) < 2
            or not 2 <= self.dims[-1] <= self.longest()
            or self.lanes > self.dims[-2]
        ):
            return False
        if target.work_group > 1 or any(map(accumulators.starts_once, self.passes)):
            return False
        whole = (*computation.parameters, *computation.results)
        for i in whole:
            if i.dims == self.dims and (i.dtype.size < SMALLEST_GATHERED or i.dtype.is_complex):
                return False
        weight = sum(map(target.costs.weight, computation.instructions))
        return weight * self.dims[-1] <= MOST_CODE

    def longest(self) -> int:
        """Elements of a row at most: those of a vector, or half as many again where each of them has an expensive
        function, which the second vector along the row would compute for lanes that are empty.
        """
        costs = self.frame.target.costs
        is_heavy = any(
            i.dims == self.dims and costs.weight(i) > costs.loops.lane
            for i in self.frame.computation.instructions
            if isinstance(i.shape, hlo.Shape)
        )
        return self.lanes * 3 // 2 if is_heavy else self.lanes

    def emit(self) -> int:
        """Write the loops, and give the number of units of work."""
        return loops.iterate(
            self.frame, self.dims[:-1], self.lanes, self.masked,
            lambda g, kept, mask: self.block(kept, mask),
        )  # fmt: skip

    def block(self, kept: Index, mask: Value | None) -> None:
        """The rows at ``kept``, whose last coordinate runs along the lanes."""
        g = self.frame.generator
        places = [(*kept, fixed(n)) for n in range(self.dims[-1])]
        if mask is None and not kept[-1].is_uniform:
            self.read_whole(kept)
        for reduces in self.passes:
            reduction = accumulators.Reduction(self.frame, reduces)
            reduction.full, reduction.last = [], []
            totals = reduction.initial(kept[-1].lanes)
            if reduction.pairs:
                totals = reduction.step_in_pairs(totals, places)
            else:
                for place in places:
                    totals = reduction.step(totals, place, None)
            g.bound.update(reduction.values(totals))
        full = [[element(g, root, place) for place in places] for root, _ in self.full]
        last = [element(g, root, kept) for root, _ in self.last]
        for (_, array), elements in zip(self.full, full, strict=True):
            if mask is None:
                short_rows.store(g, array, kept, elements, streaming=False)
            else:
                for place, value in zip(places, elements, strict=True):
                    g.store(array, place, value, mask)
        for (_, array), value in zip(self.last, last, strict=True):
            g.store(array, kept, value, mask)
        g.bound.clear()
        for parameter in self.frame.computation.parameters:
            g.readers.pop(parameter, None)

    def read_whole(self, kept: Index) -> None:
        """Read the rows at ``kept`` of all operands in whole vectors, which shuffles take apart: an element of each row
        would be a gather, or as many vectors as all elements of the rows.
        """
        g, rows = self.frame.generator, kept[-1]
        first = (*kept[:-1], rows._replace(stride=0, lanes=1), fixed(0))
        for parameter in self.frame.computation.parameters:
            if parameter.dims == self.dims:
                array = g.arrays[parameter]
                vectors = [
                    memory.load_part(g, array, first, n, rows.lanes) for n in range(self.dims[-1])
                ]
                columns = short_rows.unweave(g.builder, vectors)
                values = [conversion.from_memory(g, c, parameter.dtype) for c in columns]
                g.readers[parameter] = self.reader(array, kept, values)

    def reader(
        self, array: Array, kept: Index, values: Sequence[Value]
    ) -> Callable[[Index], Element]:
        """The reader of an operand whose elements at ``kept`` are ``values``."""

        def read(index: Index) -> Element:
            place = index[-1].base.constant
            if index[:-1] == kept and index[-1].is_uniform and isinstance(place, int):
                return values[place]
            return self.frame.generator.load(array, index)

        return read


__all__ = ["RowBlocks"]
