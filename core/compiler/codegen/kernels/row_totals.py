"""One row of a reduction: vectors along a reduced dimension, several accumulators of them, and what is left over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..generator import Coordinate, Index
from ..llvm_ir import Value, i64
from . import accumulation, loops, work_groups

if TYPE_CHECKING:
    from .accumulators import Reduction

PAIRED: Final = 8  # steps of a loop over terms in pairs that need no blocks


class RowTotals:
    """Accumulators lie in a flat list: sets of vectors, each with a vector for each number that a reduction carries,
    and a set of single numbers for the elements that vectors leave over, where there are no masks.
    """

    def __init__(self, reduction: Reduction, kept: Index, lane: int) -> None:
        self.reduction, self.g = reduction, reduction.g
        self.kept, self.lane = kept, lane
        self.size = reduction.dims[lane]
        self.count, self.unroll, self.tree = self.cut()
        self.vectors, self.accumulators = self.size // self.count, self.unroll // self.tree
        self.first, self.stride = i64(0), 1  # this work-item's vectors
        if reduction.shared:
            self.stride = reduction.frame.target.work_group
            self.first = self.g.mul(work_groups.local_id(self.g), i64(self.count))
        self.main = self.vectors // self.unroll * self.unroll * self.count
        self.scalar_tail = not reduction.masked and self.size % self.count != 0
        self.width = len(reduction.initial(1))

    def cut(self) -> tuple[int, int, int]:
        """How the elements of a row are taken in: lanes of a vector, vectors at a time, and how many of these are
        added up in pairs before an accumulator takes them: there are two accumulators at least, so that two vectors of
        the next step need not wait.
        """
        reduction, size = self.reduction, self.size
        count = 1 if reduction.once else min(reduction.lanes, 1 << max(size - 1, 0).bit_length())
        if reduction.once or reduction.shared:
            return count, 1, 1
        vectors = size // count
        unroll = max(1, min(reduction.unroll, vectors))
        if vectors % unroll and vectors < 4 * unroll:
            unroll = max(u for u in range(1, unroll + 1) if vectors % u == 0 or u <= unroll // 2)
        tree = 4 if unroll % 8 == 0 else 2 if unroll % 4 == 0 else 1
        return count, unroll, tree if reduction.pairs else 1

    def totals(self) -> list[Value]:
        """The accumulators at the end of the row, as single numbers."""
        reduction = self.reduction
        flat = self.accumulated()
        total = reduction.across_lanes(self.joined(flat))
        if self.scalar_tail:
            extra = flat[self.accumulators * self.width :]
            total = reduction.combine(total, reduction.structured(extra))
        if reduction.shared:
            total = work_groups.combine(
                self.g, total, lambda a, b: reduction.combine(a, reduction.structured(b))
            )
        return total

    def vectors_of_totals(self) -> list[Value]:
        """The same with the lanes not yet put together, for a row without :attr:`scalar_tail`."""
        return self.joined(self.accumulated())

    def joined(self, flat: Sequence[Value]) -> list[Value]:
        """The vectors of all accumulators as those of one."""
        return self.reduction.joined(self.split(flat[: self.accumulators * self.width]))

    def accumulated(self) -> list[Value]:
        """All accumulators at the end of the row."""
        reduction = self.reduction
        others = [d for d in reduction.reduced if d != self.lane]
        terms = -(-self.vectors // (self.unroll * self.stride)) + 1
        return reduction.nest(others, self.fresh(), self.along, self.fresh, self.merge, terms)

    def split(self, flat: Sequence[Value]) -> list[list[Value]]:
        return self.reduction.split(flat, self.width)

    def fresh_sets(self) -> list[Value]:
        return self.reduction.initial(self.count) * self.accumulators

    def fresh(self) -> list[Value]:
        return self.fresh_sets() + (self.reduction.initial(1) if self.scalar_tail else [])

    def merge(self, a: list[Value], b: list[Value]) -> list[Value]:
        return self.reduction.merge(a, b, self.width)

    def along(self, at: dict[int, Coordinate], flat: list[Value]) -> list[Value]:
        """Take in the elements along the lanes' dimension, ``at`` the other reduced coordinates."""
        accumulators = self.accumulators * self.width
        sets, extra = self.split(flat[:accumulators]), flat[accumulators:]
        if self.main <= 2 * self.unroll * self.count and not self.reduction.shared:
            for number, start in enumerate(range(0, self.main, self.tree * self.count)):
                places = range(start, start + self.tree * self.count, self.count)
                vectors = [_vector(place, self.count) for place in places]
                self.take(at, sets, number % self.accumulators, vectors)
        else:
            sets = self.whole_steps(at, sets)
        return self.rest(at, sets, extra)

    def take(
        self,
        at: dict[int, Coordinate],
        sets: list[list[Value]],
        position: int,
        places: Sequence[Coordinate],
    ) -> None:
        """Have the set at ``position`` take in the vectors at ``places``."""
        reduction = self.reduction
        indices = [reduction.index(self.kept, {**at, self.lane: c}) for c in places]
        if len(indices) == 1:
            sets[position] = reduction.step(sets[position], indices[0], None)
        else:
            sets[position] = reduction.step_in_pairs(sets[position], indices)

    def whole_steps(self, at: dict[int, Coordinate], sets: list[list[Value]]) -> list[list[Value]]:
        """A loop, each step of which has vectors for all accumulators."""
        g, count, tree = self.g, self.count, self.tree
        step = self.unroll * count * self.stride

        def vectors_at(i: Value, flat: list[Value]) -> list[Value]:
            carried = self.split(flat)
            for u in range(self.accumulators):
                bases = [g.add(i, i64((u * tree + n) * count)) for n in range(tree)]
                at_once = (int(count > 1), count, None, 0, self.size - 1, count)
                self.take(at, carried, u, [Coordinate(base, *at_once) for base in bases])
            return flattened(carried)

        return self.split(
            self.reduction.accumulate(
                self.first, i64(self.main), step, -(-self.main // step), flattened(sets), vectors_at,
                self.fresh_sets, self.merge, tree, max(accumulation.LONGEST, tree * PAIRED),
            )
        )  # fmt: skip

    def rest(
        self, at: dict[int, Coordinate], sets: list[list[Value]], extra: list[Value]
    ) -> list[Value]:
        """Take in the vectors behind the whole steps, and the elements behind the vectors."""
        g, reduction, count, tree = self.g, self.reduction, self.count, self.tree
        left = [_vector(start, count) for start in range(self.main, self.vectors * count, count)]
        for number, start in enumerate(range(0, len(left), tree)):
            self.take(at, sets, number % self.accumulators, left[start : start + tree])
        rest = self.vectors * count
        if rest < self.size and not self.scalar_tail:
            c = _vector(rest, count)
            mask = loops.mask_of(self.size - rest, count)
            with g.masked(mask):
                index = reduction.index(self.kept, {**at, self.lane: c})
                sets[0] = reduction.step(sets[0], index, mask)
        elif rest < self.size:
            begin = i64(rest)
            if reduction.shared:
                begin = g.add(begin, work_groups.local_id(g))
            with g.loop(begin, i64(self.size), self.stride, extra) as (i, carried, results):
                c = Coordinate(i, 0, 1, None, rest, self.size - 1)
                index = reduction.index(self.kept, {**at, self.lane: c})
                carried[:] = reduction.step(carried, index, None)
            extra = results
        return [*flattened(sets), *extra]


def flattened(sets: Sequence[Sequence[Value]]) -> list[Value]:
    return [v for s in sets for v in s]


def _vector(start: int, lanes: int) -> Coordinate:
    """``lanes`` coordinates from ``start`` on."""
    multiple = math.gcd(start, 1 << 30)
    return Coordinate(i64(start), int(lanes > 1), lanes, None, start, start + lanes - 1, multiple)
