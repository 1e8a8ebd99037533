"""The "row" kernel: normalisations, where values reduced over the last dimensions flow back into the row.

Softmax, layer normalisation, cross entropy and their gradients: every value is of the whole space [rows...,
k...] or one a row. One unit of work is a row, done in passes: pass p computes the reductions that need p
reductions before them, the last one the results. The row stays in the nearest cache between passes; values that
are expensive to compute again are kept in a row-sized scratch on the stack.
"""

from __future__ import annotations

import functools
import math
from typing import Final

from ...ir import dtypes, errors, hlo
from .. import costs
from ..elements.elemental import element
from ..generator import Array, Coordinate, Generator, Index
from ..llvm_ir import Value, i64
from . import accumulators, loops, work_groups
from .emit import EmittedKernel, Frame, emitter
from .row_blocks import RowBlocks
from .row_totals import RowTotals

# What reads its operands at other places than those that it is computed at.
_MOVING: Final = frozenset(
    (
        "concatenate", "dynamic-slice", "dynamic-update-slice", "gather", "pad", "reduce-window", "reverse", "slice",
        "transpose",
    )
)  # fmt: skip


@emitter(collapsed=True)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a "row" fusion."""
    reduces = [i for i in frame.computation.instructions if i.opcode == "reduce"]
    if not reduces:
        return loops.emit_frame(frame)
    return _Rows(frame, reduces).emit()


class _Rows:
    def __init__(self, frame: Frame, reduces: list[hlo.Instruction]) -> None:
        self.frame = frame
        self.g: Generator = frame.generator
        self.reduces = reduces
        self.dims = reduces[0].operands[0].dims
        reduced = tuple(sorted(reduces[0].attributes["dimensions"]))
        self.rank = len(self.dims) - len(reduced)  # dimensions [rank, ...) are the row's
        if reduced != tuple(range(self.rank, len(self.dims))):
            raise errors.of_instruction(
                "INTERNAL", "a row fusion reduces other than its last dimensions", frame.instruction
            )
        pairs = list(zip(frame.computation.results, frame.results, strict=True))
        self.full = [(r, a) for r, a in pairs if r.dims == self.dims]
        self.last = [(r, a) for r, a in pairs if r.dims != self.dims]
        for root, _ in self.last:
            if root.dims != self.dims[: self.rank]:
                raise errors.of_instruction(
                    "INTERNAL",
                    f"result {root.dims} of a row fusion over {self.dims}",
                    frame.instruction,
                )
        self.layer = self.layers()
        self.passes = 1 + max(self.layer[r] - 1 for r in reduces)
        self.kept_in: dict[hlo.Instruction, int] = {}  # value -> the pass that writes it to scratch
        self.shared = work_groups.share(
            frame.target, self.dims[-1]
        ) and not accumulators.starts_once(self.reduces)
        if frame.target.work_group == 1:  # a GPU has no room for rows on the stack
            self.choose_scratch()

    def layers(self) -> dict[hlo.Instruction, int]:
        """How many reductions, one after the other, stand before each value (a reduction counts itself)."""
        layer: dict[hlo.Instruction, int] = {}
        for i in self.frame.computation.instructions:
            layer[i] = max((layer[o] for o in i.operands), default=0) + (i.opcode == "reduce")
        return layer

    def reduces_of(self, number: int) -> list[hlo.Instruction]:
        """The reductions of a pass."""
        return [r for r in self.reduces if self.layer[r] == number + 1]

    def targets(self, number: int) -> list[hlo.Instruction]:
        """The whole-space values that a pass exists for."""
        if number == self.passes:
            return [root for root, _ in self.full]
        return [o for r in self.reduces_of(number) for o in r.operands[: len(r.operands) // 2]]

    def choose_scratch(self) -> None:
        """What a pass needs that an earlier one computed: keep it if computing it again is not cheap."""
        costs = self.frame.target.costs
        computed: dict[hlo.Instruction, int] = {}
        elsewhere = self.read_elsewhere()
        budget = costs.memory.kept // max(1, 4 * math.prod(self.dims[self.rank :]))
        for number in range(self.passes + 1):
            seen: set[hlo.Instruction] = set()
            stack = list(self.targets(number))
            while stack:
                i = stack.pop()
                if i in seen or i.dims != self.dims or i in self.kept_in:
                    continue
                seen.add(i)
                earlier = computed.get(i)
                if (
                    earlier is not None
                    and i not in elsewhere
                    and len(self.kept_in) < budget
                    and self.weight(i) > costs.fusion.kept
                ):
                    self.kept_in[i] = earlier
                    continue
                stack += [o for o in i.operands if o.dims == self.dims]
            for i in seen:
                if i not in self.kept_in:
                    computed.setdefault(i, number)

    def read_elsewhere(self) -> set[hlo.Instruction]:
        """The values that are read at other places than those that are computed: they are computed there as well, for a
        row that is kept has its own elements only, and one in registers no places.
        """
        instructions = self.frame.computation.instructions
        found: set[hlo.Instruction] = set()
        stack = [o for i in instructions if i.opcode in _MOVING for o in i.operands]
        while stack:
            i = stack.pop()
            if i not in found and i.opcode != "reduce":
                found.add(i)
                stack += i.operands
        return found

    def weight(self, i: hlo.Instruction) -> float:
        """The cost of computing a whole-space value again, up to what is in memory."""
        total, weight = 0.0, self.frame.target.costs.weight
        seen: set[hlo.Instruction] = set()
        stack = [i]
        while stack:
            x = stack.pop()
            if x in seen or x.dims != self.dims or (x in self.kept_in and x is not i):
                continue
            seen.add(x)
            total += weight(x)
            stack += x.operands
        return total

    # ------------------------------------------------------------------------------------------------ code
    def emit(self) -> EmittedKernel:
        frame, g = self.frame, self.g
        rows = math.prod(self.dims[: self.rank])
        if rows == 0:
            return frame.finish(0, 0.0)
        cost = costs.of_computation(frame.target, frame.computation)
        if self.rank == len(self.dims) - 1:
            passes = [self.reduces_of(number) for number in range(self.passes)]
            blocks = RowBlocks(
                frame, self.dims, passes, self.full, self.last, self.most_lanes, self.masked
            )
            if blocks.fits():
                return frame.finish(blocks.emit(), cost)
        in_register = self.is_one_vector()
        scratch = {} if in_register else self.allocate_scratch()

        def row(kept: Index) -> None:
            for number in range(self.passes):
                if in_register:
                    self.keep_in_register(number, kept)
                reduction = accumulators.Reduction(frame, self.reduces_of(number))
                reduction.full = [
                    (i, a, self.rank) for i, a in scratch.items() if self.kept_in[i] == number
                ]
                reduction.has_room = True
                if in_register:
                    # The few elements of one row would else be taken one at a time.
                    reduction.lanes = self.lanes
                reduction.last = []
                reduction.shared = self.shared
                totals = RowTotals(reduction, kept, len(self.dims) - 1).totals()
                g.bound.update(reduction.values(totals))
                for i, array in scratch.items():
                    if self.kept_in[i] == number:
                        g.scratch[i] = (array, self.rank)
            if self.full:
                self.write_row(kept)
            values = [element(g, r, kept) for r, _ in self.last]
            with work_groups.once(g, self.shared):
                for (_, array), value in zip(self.last, values, strict=True):
                    g.store(array, kept, value)
            g.bound.clear()
            g.scratch.clear()

        if self.rank == 0:
            row(())
        else:
            loops.count(g, frame.begin, frame.end, self.dims[: self.rank], row)
        return frame.finish(rows, cost)

    @functools.cached_property
    def lanes(self) -> int:
        """The lanes of the vectors of a row."""
        return min(self.most_lanes, 1 << (self.dims[-1] - 1).bit_length())

    @functools.cached_property
    def most_lanes(self) -> int:
        return loops.lanes_for(self.frame.target, self.frame.computation)

    @functools.cached_property
    def masked(self) -> bool:
        return loops.can_mask(self.frame.target, self.frame.computation)

    def is_one_vector(self) -> bool:
        """Whether each pass takes a row as one vector."""
        return (
            len(self.dims) == self.rank + 1
            and (self.dims[-1] == self.lanes or (self.dims[-1] < self.lanes and self.masked))
            and not self.shared
            and not accumulators.starts_once(self.reduces)
        )

    def keep_in_register(self, number: int, kept: Index) -> None:
        """Compute what pass ``number`` keeps for later ones, of a row that is one vector: memory would have to give
        back at once what was just written to it.
        """
        size = self.dims[-1]
        c = Coordinate(i64(0), int(self.lanes > 1), self.lanes, None, 0, size - 1, 1 << 30)
        mask = loops.mask_of(size, self.lanes) if size < self.lanes else None
        with self.g.masked(mask):
            for i in [i for i, writer in self.kept_in.items() if writer == number]:
                self.g.bound[i] = element(self.g, i, (*kept, c))

    def allocate_scratch(self) -> dict[hlo.Instruction, Array]:
        """Memory on the stack for a row of each value that is kept, with room for a whole vector behind it."""
        scratch: dict[hlo.Instruction, Array] = {}
        for i in self.kept_in:
            dtype = i.dtype
            if dtype.is_float and dtype.size < 4:
                dtype = dtypes.F32  # as precise as it was computed
            shape = hlo.Shape(dtype, self.dims[self.rank :])
            room = self.lanes * dtype.size
            scratch[i] = Array(self.frame.builder.alloca("i8", shape.bytes + room), shape)
            self.g.note(scratch[i].pointer)
        return scratch

    def write_row(self, kept: Index) -> None:
        """The last pass: results of the whole space."""
        g, lanes, masked = self.g, self.lanes, self.masked

        def step(index: Index, mask: Value | None) -> None:
            values = [element(g, root, index) for root, _ in self.full]
            for (_, array), value in zip(self.full, values, strict=True):
                g.store(array, index, value, mask)

        def nest(prefix: Index) -> None:
            d = len(prefix)
            if d == len(self.dims) - 1:
                size = self.dims[-1]
                if self.shared:
                    work_groups.span(g, size, lanes, lambda c: step((*prefix, c), None))
                    return
                loops.span(
                    g, 0, size, size, lanes, masked, lambda c, mask: step((*prefix, c), mask)
                )
                return
            with g.loop(i64(0), i64(self.dims[d]), 1) as (i, _, _):
                nest((*prefix, Coordinate(i, high=self.dims[d] - 1)))

        nest(kept)
