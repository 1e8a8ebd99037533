"""Where fusion's sweep puts reductions: into a loop that reads their results, beside one another, or by themselves.

A cluster with a reduction goes over the reduction's operand. Its kind is "reduce", or "row" where reduced values flow
back into the rows that they come from, as in a softmax.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from ..ir.hlo import Instruction, Shape, TupleShape
from .clusters import SCALAR, Cluster, shortest_vector
from .sweep import Readers, Sweep

# Instructions looked at when searching for a reduction that a value comes from.
_LOOK_BACK: Final = 24
# Results that a reduction may have that others join.
_MOST_ROOTS: Final = 16
_MOST_ROOTS_BESIDE: Final = 8
# The latest reductions over one space that another one may stand beside.
_SIBLINGS: Final = 4


class Space(NamedTuple):
    """What reductions go over: the dimensions of the operand, and which of them are reduced, in ascending order."""

    dims: tuple[int, ...]
    reduced: tuple[int, ...]

    @classmethod
    def of(cls, reduce: Instruction) -> Space:
        """That of a ``reduce`` instruction."""
        return cls(reduce.operands[0].dims, tuple(sorted(reduce.attributes["dimensions"])))

    @classmethod
    def of_rows(cls, dims: tuple[int, ...], rank: int) -> Space:
        """Rows: the first ``rank`` dimensions are left."""
        return cls(dims, tuple(range(rank, len(dims))))

    @property
    def rank(self) -> int:
        """How many dimensions are left."""
        return len(self.dims) - len(self.reduced)

    @property
    def is_rows(self) -> bool:
        """Whether the last dimensions are reduced."""
        return self.reduced == tuple(range(self.rank, len(self.dims)))

    @property
    def row(self) -> int:
        """The elements of a row, if the last dimensions are reduced."""
        return math.prod(self.dims[self.rank :])


class Reductions:
    """Places the reductions of one sweep."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.users = sweep.users
        self.limits = sweep.limits
        self.by_space: dict[Space, list[Cluster]] = {}

    # ----------------------------------------------------------------------------------------------------- placing
    def place(self, reduce: Instruction, readers: Readers) -> None:
        """Decide where a ``reduce`` goes that ``readers`` read."""
        space = Space.of(reduce)
        first = min((c.order for c in readers), default=0)
        if self._join_reader(reduce, space, readers, first):
            return
        if not isinstance(reduce.shape, Shape):
            self.sweep.start(reduce, "")  # its results are what is fused: see place_result
            return
        sibling = self._find_sibling(reduce, space, readers, first)
        if sibling is not None:
            assert sibling.rows is not None
            self.sweep.join_as_result(reduce, sibling, (sibling.rows,), 0.0, 1.0)
            return
        cluster = self.sweep.start(reduce, "")
        cluster.boundary = False
        cluster.kind = "reduce"
        self._make_first(cluster, reduce, space)

    def place_result(self, element: Instruction, readers: Readers) -> None:
        """Decide where one result of a reduction of several operands goes: with the others."""
        reduce = element.operands[0]
        first = min((c.order for c in readers), default=0)
        for user in self.users[reduce]:
            for cluster in self.sweep.placement.get(user, ()):
                if cluster.kind == "reduce" and self.sweep.goes_before(cluster, first):
                    assert cluster.rows is not None
                    self.sweep.join_as_result(element, cluster, (cluster.rows,), 0.0, 0.0)
                    return
        cluster = self.sweep.start(element, "reduce")
        self._make_first(cluster, element, Space.of(reduce))

    def expect_rows(
        self, instruction: Instruction, cluster: Cluster, contexts: tuple[int, ...]
    ) -> None:
        """Turn a loop, which reads ``instruction`` in one context, into a row fusion ahead of time: the
        instruction, one value a row, comes from a row's reduction.
        """
        dims, own = cluster.dims, instruction.dims
        rank = len(own)
        if not 0 < rank < len(dims) or own != dims[:rank]:
            return
        if contexts[0] != cluster.derived(("rows", rank)):
            return
        space = Space.of_rows(dims, rank)
        if space.row <= self.limits.row and _comes_from_reduction(instruction, space):
            self._take_over(cluster, space, contexts)

    # ------------------------------------------------------------------------------------- into a loop that reads it
    def _join_reader(self, reduce: Instruction, space: Space, readers: Readers, first: int) -> bool:
        """Whether ``reduce`` has become a member of a cluster that reads it, the first one that it fits into."""
        fitting: list[tuple[Cluster, tuple[int, ...]]] = []
        for cluster, users in readers.items():
            if not cluster.boundary:
                contexts = cluster.contexts_for(reduce, users)
                if self._takes(cluster, reduce, contexts, space):
                    fitting.append((cluster, contexts))
        stored = len(readers) > 1
        for cluster, contexts in sorted(fitting, key=lambda t: t[0].order):
            if stored and not self._may_store(reduce, cluster, first):
                continue
            self._take_over(cluster, space, contexts)
            self.sweep.join(reduce, cluster, contexts, 0.0, 1.0)
            if reduce in cluster.feeding:
                cluster.kind = "row"
            if stored:
                cluster.roots.append(reduce)
            return True
        return False

    def _may_store(self, reduce: Instruction, cluster: Cluster, first: int) -> bool:
        """Whether ``cluster`` may write the result of ``reduce`` too, which others read from number ``first`` on."""
        return (
            isinstance(reduce.shape, Shape)
            and len(cluster.roots) < _MOST_ROOTS
            and self.sweep.goes_before(cluster, first)
        )

    def _takes(
        self, cluster: Cluster, reduce: Instruction, contexts: tuple[int, ...], space: Space
    ) -> bool:
        """Whether ``cluster``, which reads ``reduce`` in ``contexts``, can compute it."""
        if len(contexts) != 1:
            return False
        several = isinstance(reduce.shape, TupleShape)
        if not several and not cluster.can_read_all(len(reduce.operands)):
            return False
        if cluster.kind == "loop":
            return self._loop_takes(cluster, reduce, contexts[0], space)
        if cluster.kind in ("reduce", "row"):
            return self._reduction_takes(cluster, reduce, contexts[0], space)
        return False

    def _loop_takes(self, loop: Cluster, reduce: Instruction, context: int, space: Space) -> bool:
        """Whether ``loop`` becomes the epilogue of ``reduce``, or a row fusion with it."""
        if context == loop.full and _result_dims(reduce) == loop.dims:
            return loop.elements * 2 <= math.prod(space.dims) and not self._is_better_in_vectors(
                loop, reduce, space
            )
        if loop.dims != space.dims or not space.is_rows or space.row > self.limits.row:
            return False
        return context == (SCALAR if space.rank == 0 else loop.derived(("rows", space.rank)))

    def _reduction_takes(
        self, cluster: Cluster, reduce: Instruction, context: int, space: Space
    ) -> bool:
        """Whether ``reduce`` is done in the loop of ``cluster``, whose reductions go over the same space."""
        if (
            cluster.dims != space.dims
            or cluster.reduced != space.reduced
            or context != cluster.rows
            or self._starts_reduction(cluster, reduce)
        ):
            return False
        if isinstance(reduce.shape, TupleShape):
            return cluster.kind == "reduce"
        if cluster.kind == "row" or cluster.comes_back(self.users[reduce]):
            return space.is_rows and space.row <= self.limits.row
        return True

    def _is_better_in_vectors(self, loop: Cluster, reduce: Instruction, space: Space) -> bool:
        """Whether a loop over the results of a reduction is to stay a loop.

        A reduction along the last dimension has its results one by one, and functions of them would be computed one by
        one too. Where rows are short, a loop over all results, in vectors, is worth a kernel of its own.
        """
        dims, reduced = space
        last = len(dims) - 1
        if last not in reduced or math.prod(dims[d] for d in reduced) > self.limits.short_row:
            return False
        if not loop.dims or dims[last] < shortest_vector(reduce) <= loop.dims[-1]:
            # There is but one result, or the reduction's vectors run along its results.
            return False
        nanoseconds = [
            self.sweep.costs.nanoseconds(member)
            for member, contexts in loop.members.items()
            if loop.full in contexts
        ]
        functions = sum(n for n in nanoseconds if n >= self.limits.function)
        return functions * loop.elements >= self.limits.own_loop

    def _starts_reduction(self, cluster: Cluster, reduce: Instruction) -> bool:
        """Whether a reduction of ``cluster`` has an initial value that comes from ``reduce``: it
        cannot begin before that one has ended.
        """
        stack, seen = [reduce], {reduce}
        while stack:
            value = stack.pop()
            for user in self.users[value]:
                if user not in cluster.members or user in seen:
                    continue
                if user.opcode != "reduce":
                    seen.add(user)
                    stack.append(user)
                elif value in user.operands[len(user.operands) // 2 :]:
                    return True
        return False

    # -------------------------------------------------------------------------------------------- beside another one
    def _find_sibling(
        self, reduce: Instruction, space: Space, readers: Iterable[Cluster], first: int
    ) -> Cluster | None:
        """A reduction of the same iteration space that reads some of the same memory."""
        near = {o for o in reduce.operands if o.shape.dims == space.dims}  # type: ignore[union-attr]
        near |= {
            p
            for o in near
            for p in o.operands
            if isinstance(p.shape, Shape) and p.shape.dims == space.dims
        }
        reading = set(readers)
        for cluster in self.by_space.get(space, ())[-_SIBLINGS:]:
            if (
                cluster.kind == "reduce"
                and cluster not in reading
                and len(cluster.roots) < _MOST_ROOTS_BESIDE
                and cluster.can_read_all(len(reduce.operands))
                and not near.isdisjoint(cluster.inputs)
                and self.sweep.goes_before(cluster, first - 1)
            ):
                return cluster
        return None

    # -------------------------------------------------------------------------------------- clusters with reductions
    def _make_first(self, cluster: Cluster, value: Instruction, space: Space) -> None:
        """Make a new cluster, whose only member ``value`` is a result of a reduction over ``space``, that reduction."""
        self._describe(cluster, space, 1 if value.dims else SCALAR)
        cluster.full = 0
        cluster.members[value] = (cluster.rows,)  # type: ignore[assignment]

    def _describe(self, cluster: Cluster, space: Space, rows: int) -> None:
        """Make ``cluster`` one with reductions over ``space``, whose results are in the context ``rows``."""
        cluster.dims, cluster.reduced = space
        cluster.elements = math.prod(space.dims)
        cluster.rows = rows
        cluster.row_rank = space.rank if space.is_rows else -1
        self.by_space.setdefault(space, []).append(cluster)

    def _take_over(self, cluster: Cluster, space: Space, contexts: tuple[int, ...]) -> None:
        """Make a loop the epilogue (or the body) of a reduction over ``space``, which it reads in ``contexts``."""
        if cluster.reduced is not None:
            return
        if cluster.dims == space.dims:  # the reduced value flows into this iteration space
            self._describe(cluster, space, contexts[0])
            cluster.kind = "row"
            self._mark_feeding(cluster)
        else:  # the loop is over the reduced values
            self._describe(cluster, space, cluster.full)
            cluster.full = cluster.derived("full")
            cluster.kind = "reduce"

    def _mark_feeding(self, cluster: Cluster) -> None:
        """After a loop has become a row fusion: which of its members at ``rows`` flow into the row."""
        for member, contexts in cluster.members.items():  # users stand before what they use
            if cluster.rows in contexts and cluster.comes_back(self.users[member]):
                cluster.feeding.add(member)


def _result_dims(reduce: Instruction) -> tuple[int, ...]:
    shape = reduce.result_shapes[0]
    assert isinstance(shape, Shape)
    return shape.dims


def _comes_from_reduction(instruction: Instruction, space: Space) -> bool:
    """Whether ``instruction`` is computed elementwise from a reduction over ``space``."""
    stack = [instruction]
    for _ in range(_LOOK_BACK):
        if not stack:
            return False
        top = stack.pop()
        if top.opcode == "reduce":
            if top.operands[0].dims == space.dims and Space.of(top) == space:
                return isinstance(top.shape, Shape)
        elif top.is_elementwise:
            stack.extend(o for o in top.operands if o.dims == instruction.dims)
    return False


def needs_own_rows(instruction: Instruction) -> bool:
    """Whether ``instruction`` needs, near by, a reduction over the last dimensions of its own iteration space.

    Then it belongs into a row fusion with that reduction, not into a reduction over the first dimensions.
    """
    dims = instruction.dims
    stack = [instruction]
    for _ in range(_LOOK_BACK):
        if not stack:
            return False
        top = stack.pop()
        if top.opcode == "broadcast":
            if _repeats_reduction(top, dims):
                return True
        elif top.is_elementwise:
            stack.extend(o for o in top.operands if o.dims == dims)
    return False


def _repeats_reduction(broadcast: Instruction, dims: tuple[int, ...]) -> bool:
    """Whether a broadcast gives all elements of a row of ``dims`` what comes from the reduction of the row."""
    (operand,) = broadcast.operands
    rank = len(operand.dims)
    return (
        broadcast.attributes["dimensions"] == tuple(range(rank))
        and 0 < rank < len(dims)
        and _comes_from_reduction(operand, Space.of_rows(dims, rank))
    )
