"""Fusion: which instructions become one kernel.

One sweep over a computation from the last instruction to the first puts every instruction into a
:class:`~.clusters.Cluster`. When an instruction is reached all its users have been placed, so the
choice is between: joining the one cluster that uses it (it is then never written to memory), being
copied into several (if that is cheap and saves memory traffic), becoming a further result of a
cluster (several users need it), and starting a cluster.

No cycle can arise, and nothing has to be searched to know it: clusters are numbered downward as
they start, so a cluster's number is smaller than those of all clusters that read from it. An
instruction that others read too may join a cluster only if that cluster's number is smaller than
those of its other readers; a cluster none of whose inputs has been placed yet may take a new
smallest number first. The numbers are a valid schedule at any time, and at the end they are the
schedule.

Fusions are of these kinds, which code generation knows (``kind`` attribute):

* ``loop``: one or several results of one shape, each element computed from the operands by index.
* ``reduce``: reductions over the same dimensions of one iteration space, what computes their
  operands, results of the whole iteration space if others need them, and an elementwise epilogue on
  the reduced values (but a loop of its own for functions of the sums of short rows).
* ``row``: as reduce, over the last dimensions, where reduced values flow back into the row
  (softmax, layer normalisation).
* ``transpose``: a loop that reads an operand with its minor dimension moved.
* ``dynamic-update-slice``: writes the update, computed in place, into the first operand's memory.
* ``scatter``: combines single elements, or rows, with those of the first operand, in its memory.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..ir.hlo import Computation, Instruction, Module, Shape, TupleShape, get_tuple_element
from ..ir.patterns import UPDATES, scatters_elements, scatters_rows
from ..ir.registry import OPS
from .clusters import (
    FORBIDDEN,
    MAXIMUM_INPUTS,
    MAXIMUM_MEMBERS,
    MOST_SHORT_ROW_CODE,
    SCALAR,
    Cluster,
    shortest_vector,
)
from .fused import make_fusion

if TYPE_CHECKING:
    from ..targets.costs import Costs
    from ..targets.target import Target

# Instructions looked at when searching for a reduction that a value comes from.
_LOOK_BACK: Final = 24
# Pieces of a concatenation that a vector does not compute all.
_PIECES: Final = 3


def _is_free(instruction: Instruction) -> bool:
    """Whether a value needs no memory and no work: a constant, an index, a scalar in all places."""
    if instruction.opcode == "broadcast":
        (operand,) = instruction.operands
        return not operand.dims
    return OPS[instruction.opcode].stays_in_registers


def _bytes_behind(operand: Instruction) -> int:
    """The bytes of memory that computing ``operand`` reads, for those that are cheap to fuse in
    turn.
    """
    if operand.opcode == "broadcast" or operand.opcode == "convert":
        operand = operand.operands[0]
    if OPS[operand.opcode].stays_in_registers or not isinstance(operand.shape, Shape):
        return 0
    return operand.shape.bytes


def fuse(module: Module, target: Target) -> Module:
    """The module with its computations fused; bodies of reductions, sorts and the like are left
    alone.
    """
    keys: dict[Hashable, Computation] = {}
    done: dict[Computation, Computation] = {}
    for computation in executable_computations(module):
        done[computation] = _Fuser(computation, done, keys, target.costs).run()
    return replace(module, entry=done[module.entry])


def executable_computations(module: Module) -> list[Computation]:
    """The entry and all computations of control flow in it, callees first: what thunks are made
    for.
    """
    executed = {module.entry}
    computations = module.computations()
    for computation in reversed(computations):  # callers first
        if computation in executed:
            for instruction in computation.instructions:
                if OPS[instruction.opcode].runs_thunks:
                    executed.update(instruction.called)
    return [computation for computation in computations if computation in executed]


# The clusters that read a value, each with the users of the value that are its members.
Readers = dict[Cluster, list[Instruction]]


class _Fuser:
    """Fuses one computation."""

    def __init__(
        self,
        computation: Computation,
        done: dict[Computation, Computation],
        keys: dict[Hashable, Computation],
        costs: Costs,
    ) -> None:
        self.costs, self.limits = costs, costs.fusion
        self.computation = computation
        self.done = done
        self.keys = keys
        self.users = computation.users()
        self.placement: dict[Instruction, list[Cluster]] = {}
        self.home: dict[Instruction, Cluster] = {}  # the cluster that writes the value to memory
        self.clusters: list[Cluster] = []
        self.lowest = 0
        self.position = {i: n for n, i in enumerate(computation.instructions)}
        self.current = 0
        self.root = computation.root
        self.by_space: dict[object, list[Cluster]] = {}

    # ------------------------------------------------------------------------------------ the sweep
    def run(self) -> Computation:
        instructions = self.computation.instructions
        output = Cluster("", (), 1)  # what reads the results: after everything
        self.lowest = 0
        results = set(self.computation.results)
        placement, users = self.placement, self.users
        for self.current in range(len(instructions) - 1, -1, -1):
            instruction = instructions[self.current]
            opcode = instruction.opcode
            if opcode == "parameter" or (opcode == "constant" and instruction.shape.dims):  # type: ignore[union-attr]
                continue
            if instruction is self.root and opcode == "tuple":
                placement[instruction] = [output]
                continue
            readers: Readers = {}
            if instruction in results:
                readers[output] = []
            for user in users[instruction]:
                for cluster in placement[user]:
                    readers.setdefault(cluster, []).append(user)
            if readers or instruction.has_side_effect:
                self.place(instruction, opcode, readers)
            else:
                placement[instruction] = []  # dead
        return self.build()

    def place(self, instruction: Instruction, opcode: str, readers: Readers) -> None:
        """Decide where ``instruction`` goes."""
        if opcode == "constant":  # a scalar: written into the code of whatever reads it
            self.placement[instruction] = []
            for cluster in readers:
                if not cluster.boundary:
                    cluster.add(instruction, (SCALAR,), 0.0, 0.0)
                    self.placement[instruction].append(cluster)
            return
        if opcode == "get-tuple-element" and instruction.operands[0].opcode == "reduce":
            self.place_reduce_result(instruction, readers)
            return
        if opcode == "reduce":
            self.place_reduce(instruction, readers)
            return
        if not OPS[opcode].is_indexable or not isinstance(instruction.shape, Shape):
            updates = opcode == "dynamic-update-slice" or (
                (scatters_elements(instruction) or scatters_rows(instruction))
                and self.costs.memory.places > 0
            )
            # A fusion names each array once, so that nobody sees from outside that it reads what it changes.
            updates = updates and instruction.operands[0] not in instruction.operands[1:]
            updates = updates and not self.reads_around(instruction)
            self.start(instruction, opcode if updates else "")
            return
        self.place_indexable(instruction, opcode, readers)

    def place_indexable(self, instruction: Instruction, opcode: str, readers: Readers) -> None:
        cost = self.costs.instructions(instruction)
        takers: list[tuple[Cluster, tuple[int, ...], float]] = []
        for cluster, users in readers.items():
            if cluster.boundary:
                continue
            contexts = cluster.contexts_for(instruction, users)
            if cluster.kind == "loop" and len(contexts) == 1:
                self.expect_rows(instruction, cluster, contexts)
            recomputed = self.recomputation(instruction, cost, cluster, contexts)
            if recomputed is not None:
                takers.append((cluster, contexts, recomputed))
        if len(takers) == 1 and len(readers) == 1:
            self.join(instruction, *takers[0], cost)
            return
        # Several read it. If all of them compute it themselves it need not be in memory at all.
        if len(takers) == len(readers):
            for taker in takers:
                if not self.worth_copying(instruction, cost, opcode, taker[0], stored=False):
                    break
            else:
                for cluster, contexts, recomputed in takers:
                    self.join(instruction, cluster, contexts, recomputed + cost, cost)
                return
        # It has to be in memory. Some readers may still do better to compute it themselves.
        reading: list[tuple[Cluster, tuple[int, ...], float]] = []
        for cluster, contexts, recomputed in takers:
            if self.worth_copying(instruction, cost, opcode, cluster, stored=True):
                self.join(instruction, cluster, contexts, recomputed + cost, cost)
                del readers[cluster]
            else:
                reading.append((cluster, contexts, recomputed))
        if not readers:
            return
        first = min(c.order for c in readers)
        for cluster, contexts, recomputed in sorted(reading, key=lambda t: t[0].order):
            if self.may_be_result(instruction, cluster, contexts) and self.goes_before(
                cluster, first
            ):
                self.join(instruction, cluster, contexts, recomputed, cost)
                self.make_result(instruction, cluster)
                return
        if opcode == "reshape" or opcode == "bitcast":
            self.start(instruction, "")  # becomes a bitcast: no code at all
            return
        sibling = self.find_sibling(instruction, cost, readers, first)
        if sibling is not None:
            self.join(instruction, sibling, (sibling.full,), 0.0, cost)
            self.make_result(instruction, sibling)
            return
        self.start(instruction, "loop")

    # ----------------------------------------------------------------------------------- judgements
    def recomputation(
        self, instruction: Instruction, cost: float, cluster: Cluster, contexts: tuple[int, ...]
    ) -> float | None:
        """Operations an element that fusing into ``cluster`` would do more than once; None if it
        must not be.
        """
        if not contexts or FORBIDDEN in contexts:
            return None
        if cluster.kind in UPDATES and not self.keeps_update_in_place(instruction, cluster):
            return None
        if self.ends_short_rows(instruction, cluster):
            return None
        opcode = instruction.opcode
        if opcode == "transpose" and self.is_strided_row(instruction, cluster):
            return None
        if opcode == "concatenate" and self.mixes_pieces(instruction, cluster):
            return None
        if len(cluster.members) >= MAXIMUM_MEMBERS and not _is_free(instruction):
            return None  # what is free would be an array in memory instead
        if len(cluster.inputs) + len(instruction.operands) - 1 > MAXIMUM_INPUTS and any(
            o not in cluster.inputs and o not in cluster.members for o in instruction.operands
        ):
            return None
        once = (SCALAR, cluster.rows)
        if contexts[0] in once and len(contexts) == 1:
            return 0.0
        many = [c for c in contexts if c not in once]
        if not many or _is_free(instruction):
            return 0.0
        elements = instruction.elements
        ratio = self.elements_computed(instruction, cluster, many) / elements if elements else 1.0
        if cluster.cost + cost * len(many) > self.limits.most:
            return None
        if len(many) > 4 or (ratio > 1.25 and cost >= self.limits.expensive):
            return None
        if ratio <= 1.0:
            return 0.0
        recomputed = max(cost, 0.25) * min(len(many) - 1 + (cluster.elements > elements), 4)
        if cluster.recomputed + recomputed > self.limits.recomputed:
            return None
        return recomputed

    def elements_computed(
        self, instruction: Instruction, cluster: Cluster, contexts: Sequence[int]
    ) -> int:
        """How many elements of ``instruction`` the loop of ``cluster`` computes."""
        by_column = cluster.computed and cluster.has_short_rows
        if by_column and cluster.row_code <= MOST_SHORT_ROW_CODE:
            return sum(cluster.computed.get(c, cluster.elements) for c in contexts)
        return len(contexts) * cluster.elements

    def ends_short_rows(self, instruction: Instruction, cluster: Cluster) -> bool:
        """Whether ``instruction`` is too much for a loop that computes the pieces of its short rows column by column.
        With it the loop would compute all pieces, those that it has already too, for each element of a row.
        """
        if not cluster.computed or not cluster.has_short_rows or _is_free(instruction):
            return False
        code = cluster.row_code
        return code <= MOST_SHORT_ROW_CODE < code + self.row_code(instruction, cluster)

    def row_code(self, instruction: Instruction, cluster: Cluster) -> float:
        """The weight of ``instruction``, and of the constants that will follow it into ``cluster``, in a loop that
        writes each element of a short row for itself.
        """
        if _is_free(instruction):
            return 0.0  # came with what reads it
        weight = self.costs.weight(instruction)
        for operand in dict.fromkeys(instruction.operands):
            known = operand in cluster.members or operand in cluster.inputs
            if not known and _is_free(operand):
                weight += self.costs.weight(operand)
        return weight * cluster.dims[-1]

    def keeps_update_in_place(self, instruction: Instruction, cluster: Cluster) -> bool:
        """Whether ``instruction`` reads the updated array at most where the update will write the
        same element.
        """
        update = cluster.roots[0]
        target = update.operands[0]
        if target not in instruction.operands:
            return True
        return (
            cluster.kind == "dynamic-update-slice"
            and instruction.opcode == "dynamic-slice"
            and instruction.operands[0] is target
            and target not in instruction.operands[1:]
            and instruction.operands[1:] == update.operands[2:]
            and instruction.dims == update.operands[1].dims
            and cluster.contexts_for(instruction, self.users[instruction]) == (cluster.full,)
        )

    def reads_around(self, update: Instruction) -> bool:
        """Whether what a ``dynamic-update-slice`` writes is computed from more elements of the updated array than it
        writes, as a stencil's is. They would be copied before the update, which is in place; the update itself is less.
        """
        if update.opcode != "dynamic-update-slice":
            return False
        target, written, *at = update.operands
        read = 0
        stack, seen = [written], {update}
        while stack and len(seen) < MAXIMUM_MEMBERS:
            value = stack.pop()
            seen.add(value)
            if not OPS[value.opcode].is_indexable:
                continue
            if target in value.operands and list(value.operands[1:]) != at:
                read += value.elements
            for operand in dict.fromkeys(value.operands):
                if operand is not target and seen.issuperset(self.users[operand]):
                    stack.append(operand)
        return read > written.elements

    @staticmethod
    def is_strided_row(instruction: Instruction, cluster: Cluster) -> bool:
        """Whether a scatter of rows in ``cluster`` would read an array, which ``instruction`` transposes, along another
        dimension than its last one: a kernel of its own does that in tiles.
        """
        return (
            bool(instruction.dims)
            and instruction.attributes["dimensions"][-1] != len(instruction.dims) - 1
            and scatters_rows(cluster.roots[0])
        )

    def mixes_pieces(self, instruction: Instruction, cluster: Cluster) -> bool:
        """Whether a concatenation puts several arrays behind one another along a dimension that a transpose in
        ``cluster`` makes the last one: each vector there would compute all of them, and choose.
        """
        if len(instruction.operands) < _PIECES:
            return False
        stack = [(instruction, instruction.attributes["dimension"])]
        for _ in range(_LOOK_BACK):
            if not stack:
                return False
            value, dimension = stack.pop()
            for user in self.users[value]:
                if user not in cluster.members:
                    continue
                if user.opcode == "transpose":
                    moved = user.attributes["dimensions"].index(dimension)
                    if moved == len(user.dims) - 1 != dimension:
                        return True
                    stack.append((user, moved))
                elif user.is_elementwise or user.opcode in ("reverse", "copy"):
                    stack.append((user, dimension))
                elif user.opcode == "reshape":
                    stack += [
                        (user, d)
                        for d, size in enumerate(user.dims)
                        if size == value.dims[dimension]
                        and math.prod(user.dims[:d]) == math.prod(value.dims[:dimension])
                    ]
        return False

    def worth_copying(
        self, instruction: Instruction, cost: float, opcode: str, cluster: Cluster, *, stored: bool
    ) -> bool:
        """Whether ``cluster`` should compute the value itself though others need it too.

        ``stored``: it is in memory anyway, so the reader has to read less than the value's own size
        for it.
        """
        if _is_free(instruction) or not instruction.operands:
            return True
        if cost > self.limits.cheap or cluster.recomputed + cost > self.limits.recomputed:
            return False
        shape = instruction.shape
        assert isinstance(shape, Shape)
        if not shape.dims:
            return False
        if opcode == "slice" or opcode == "dynamic-slice" or opcode == "reshape":
            return True
        if opcode in ("transpose", "gather", "concatenate", "pad", "reverse"):
            return False
        read = 0
        for operand in instruction.operands:
            if operand not in cluster.inputs and operand not in cluster.members:
                read += _bytes_behind(operand)
        return read <= shape.bytes / 2 if stored else read <= shape.bytes * 1.25

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
        dimensions = tuple(range(rank, len(dims)))
        if math.prod(dims[rank:]) <= self.limits.row and self.reduced_rows(
            instruction, dims, dimensions
        ):
            self.turn_into_reduction(cluster, dims, dimensions, contexts)

    def reduced_rows(
        self, instruction: Instruction, space: tuple[int, ...], dimensions: tuple[int, ...]
    ) -> bool:
        """Whether ``instruction`` is computed elementwise from a reduction of ``space`` over
        ``dimensions``.
        """
        stack = [instruction]
        for _ in range(_LOOK_BACK):
            if not stack:
                return False
            top = stack.pop()
            if top.opcode == "reduce":
                if (
                    top.operands[0].dims == space
                    and tuple(sorted(top.attributes["dimensions"])) == dimensions
                ):
                    return isinstance(top.shape, Shape)
            elif top.is_elementwise:
                stack.extend(o for o in top.operands if o.dims == instruction.dims)
        return False

    def flows_from_rows(self, instruction: Instruction, space: tuple[int, ...]) -> bool:
        """Whether ``instruction`` needs, near by, a reduction over the last dimensions of its own
        iteration space.

        Then it belongs into a row fusion with that reduction, not into a reduction over the first
        dimensions.
        """
        stack = [instruction]
        for _ in range(_LOOK_BACK):
            if not stack:
                return False
            top = stack.pop()
            if top.opcode == "broadcast":
                rank = len(top.operands[0].dims)
                prefix = top.attributes["dimensions"] == tuple(range(rank))
                if (
                    prefix
                    and 0 < rank < len(space)
                    and self.reduced_rows(top.operands[0], space, tuple(range(rank, len(space))))
                ):
                    return True
            elif top.is_elementwise:
                stack.extend(o for o in top.operands if o.dims == space)
        return False

    def may_be_result(
        self, instruction: Instruction, cluster: Cluster, contexts: tuple[int, ...]
    ) -> bool:
        """Whether ``cluster`` could also write ``instruction``: it stands at the cluster's own
        index.
        """
        if cluster.kind in UPDATES or len(contexts) != 1 or len(cluster.roots) >= 16:
            return False
        dims = instruction.dims
        if contexts[0] == cluster.full:
            if dims != cluster.dims:
                return False
            return cluster.kind != "reduce" or not self.flows_from_rows(instruction, dims)
        return contexts[0] == cluster.rows and dims == self.row_dims(cluster)

    def row_dims(self, cluster: Cluster) -> tuple[int, ...]:
        reduced = cluster.reduced or ()
        return tuple(d for n, d in enumerate(cluster.dims) if n not in reduced)

    def goes_before(self, cluster: Cluster, first: int) -> bool:
        """Whether ``cluster`` can have a number up to ``first``; renumbers it if that is what it takes."""
        return cluster.order <= first or self.move_first(cluster)

    def move_first(self, cluster: Cluster) -> bool:
        """Give ``cluster`` the smallest number: right if everything it reads has yet to be placed."""
        position, current = self.position, self.current
        for operand in cluster.inputs:
            if position[operand] > current and operand.opcode not in ("parameter", "constant"):
                return False
        self.lowest -= 1
        cluster.order = self.lowest
        return True

    def find_sibling(
        self, instruction: Instruction, cost: float, readers: Iterable[Cluster], first: int
    ) -> Cluster | None:
        """A loop over the same dimensions that reads an operand of ``instruction`` and can run
        before its readers.
        """
        dims = instruction.dims
        reading = set(readers)
        tried = 0
        elements = instruction.elements
        for operand in instruction.operands:
            if not isinstance(operand.shape, Shape) or operand.elements < elements:
                continue
            for user in self.users[operand]:
                for cluster in self.placement.get(user, ()):
                    tried += 1
                    if tried > 12:
                        return None
                    if (
                        cluster.kind == "loop"
                        and cluster.dims == dims
                        and cluster not in reading
                        and instruction not in cluster.members  # at another index
                        and len(cluster.roots) < 16
                        and cluster.cost + cost <= self.limits.most
                        and not self.ends_short_rows(instruction, cluster)
                        and cluster.can_read_all(len(instruction.operands))
                        and self.goes_before(cluster, first - 1)
                    ):
                        return cluster
        return None

    # -------------------------------------------------------------------------------------- actions
    def join(
        self,
        instruction: Instruction,
        cluster: Cluster,
        contexts: tuple[int, ...],
        recomputed: float,
        cost: float,
    ) -> None:
        if cluster.has_short_rows:
            cluster.row_code += self.row_code(instruction, cluster)
        cluster.add(instruction, contexts, cost * len(contexts), recomputed)
        if cluster.rows in contexts and cluster.comes_back(self.users[instruction]):
            cluster.feeding.add(instruction)
        self.placement.setdefault(instruction, []).append(cluster)

    def make_result(self, instruction: Instruction, cluster: Cluster) -> None:
        cluster.roots.append(instruction)
        self.home[instruction] = cluster

    def start(self, instruction: Instruction, kind: str) -> Cluster:
        """A new cluster for ``instruction``; kind "" for one that stays as it is."""
        self.lowest -= 1
        if kind in UPDATES:  # the update's: the last operand of a scatter
            dims = instruction.operands[1 if kind == "dynamic-update-slice" else 2].dims
        else:
            dims = instruction.shape.dims if kind else ()  # type: ignore[union-attr]
        cluster = Cluster(kind, dims, self.lowest)
        if cluster.has_short_rows:
            cluster.row_code = self.row_code(instruction, cluster)
        cluster.add(
            instruction, (cluster.full,), self.costs.instructions(instruction) if kind else 0.0, 0.0
        )
        self.clusters.append(cluster)
        self.placement.setdefault(instruction, []).append(cluster)  # others may have a copy
        self.make_result(instruction, cluster)
        return cluster

    # ----------------------------------------------------------------------------------- reductions
    def place_reduce(self, reduce: Instruction, readers: Readers) -> None:
        space = reduce.operands[0].dims
        dimensions = tuple(sorted(reduce.attributes["dimensions"]))
        first = min((c.order for c in readers), default=0)
        fitting: list[tuple[Cluster, tuple[int, ...]]] = []
        for cluster, users in readers.items():
            if not cluster.boundary:
                contexts = cluster.contexts_for(reduce, users)
                if self.takes_reduce(cluster, reduce, contexts, space, dimensions):
                    fitting.append((cluster, contexts))
        single = isinstance(reduce.shape, Shape)
        for cluster, contexts in sorted(fitting, key=lambda t: t[0].order):
            stored = len(readers) > 1
            if stored and not (
                single and len(cluster.roots) < 16 and self.goes_before(cluster, first)
            ):
                continue
            self.turn_into_reduction(cluster, space, dimensions, contexts)
            self.join(reduce, cluster, contexts, 0.0, 1.0)
            if reduce in cluster.feeding:
                cluster.kind = "row"
            if stored:
                self.make_result(reduce, cluster)
            return
        if single:
            sibling = self.find_reduce_sibling(reduce, space, dimensions, readers, first)
            if sibling is not None:
                assert sibling.rows is not None
                self.join(reduce, sibling, (sibling.rows,), 0.0, 1.0)
                self.make_result(reduce, sibling)
                return
        cluster = self.start(reduce, "")
        if single:
            cluster.boundary = False
            cluster.kind = "reduce"
            self.describe_reduction(cluster, space, dimensions, SCALAR if not reduce.dims else 1)
            cluster.full = 0
            cluster.members[reduce] = (cluster.rows,)  # type: ignore[assignment]

    def place_reduce_result(self, element: Instruction, readers: Readers) -> None:
        """One result of a reduction of several operands: all of them are results of one cluster."""
        reduce = element.operands[0]
        for user in self.users[reduce]:
            for cluster in self.placement.get(user, ()):
                if cluster.kind == "reduce" and (
                    cluster.order <= min((c.order for c in readers), default=0)
                    or self.move_first(cluster)
                ):
                    assert cluster.rows is not None
                    self.join(element, cluster, (cluster.rows,), 0.0, 0.0)
                    self.make_result(element, cluster)
                    return
        cluster = self.start(element, "reduce")
        cluster.full = 0
        space = reduce.operands[0].dims
        dimensions = tuple(sorted(reduce.attributes["dimensions"]))
        self.describe_reduction(cluster, space, dimensions, SCALAR if not element.dims else 1)
        cluster.members[element] = (cluster.rows,)  # type: ignore[assignment]

    def describe_reduction(
        self, cluster: Cluster, space: tuple[int, ...], dimensions: tuple[int, ...], rows: int
    ) -> None:
        cluster.dims = space
        cluster.elements = math.prod(space)
        cluster.reduced = dimensions
        cluster.rows = rows
        rank = len(space) - len(dimensions)
        cluster.row_rank = rank if dimensions == tuple(range(rank, len(space))) else -1
        self.by_space.setdefault((space, dimensions), []).append(cluster)

    def turn_into_reduction(
        self,
        cluster: Cluster,
        space: tuple[int, ...],
        dimensions: tuple[int, ...],
        contexts: tuple[int, ...],
    ) -> None:
        """Make a loop cluster the epilogue (or the body) of a reduction."""
        if cluster.reduced is not None:
            return
        if cluster.dims == space:  # the reduced value flows into this iteration space: a row fusion
            self.describe_reduction(cluster, space, dimensions, contexts[0])
            cluster.kind = "row"
            self.mark_feeding(cluster)
        else:  # the loop is over the reduced values
            epilogue = cluster.full
            self.describe_reduction(cluster, space, dimensions, epilogue)
            cluster.full = cluster.derived("full")
            cluster.kind = "reduce"

    def mark_feeding(self, cluster: Cluster) -> None:
        """After a loop has become a row fusion: which of its members at ``rows`` flow into the row."""
        for member, contexts in cluster.members.items():  # users stand before what they use
            if cluster.rows in contexts and cluster.comes_back(self.users[member]):
                cluster.feeding.add(member)

    def takes_reduce(
        self,
        cluster: Cluster,
        reduce: Instruction,
        contexts: tuple[int, ...],
        space: tuple[int, ...],
        dimensions: tuple[int, ...],
    ) -> bool:
        if len(contexts) != 1:
            return False
        several = isinstance(reduce.shape, TupleShape)
        if not several and not cluster.can_read_all(len(reduce.operands)):
            return False
        rank = len(space) - len(dimensions)
        minor = dimensions == tuple(range(rank, len(space)))
        row = math.prod(space[rank:])
        if cluster.kind == "loop":
            if contexts[0] == cluster.full and self.result_dims(reduce) == cluster.dims:
                return cluster.elements * 2 <= math.prod(space) and not self.is_better_in_vectors(
                    cluster, reduce, space, dimensions
                )
            if cluster.dims != space or not minor or row > self.limits.row:
                return False
            if rank == 0:
                return contexts[0] == SCALAR
            return contexts[0] == cluster.derived(("rows", rank))
        if cluster.kind in ("reduce", "row"):
            if (
                cluster.dims != space
                or cluster.reduced != dimensions
                or contexts[0] != cluster.rows
                or self.starts_reduction(cluster, reduce)
            ):
                return False
            if several:
                return cluster.kind == "reduce"
            if cluster.kind == "row" or cluster.comes_back(self.users[reduce]):
                return minor and row <= self.limits.row
            return True
        return False

    def is_better_in_vectors(
        self,
        cluster: Cluster,
        reduce: Instruction,
        space: tuple[int, ...],
        dimensions: tuple[int, ...],
    ) -> bool:
        """Whether a loop over the results of a reduction of ``space`` over ``dimensions`` is to stay a loop.

        A reduction along the last dimension has its results one by one, and functions of them would be computed one by
        one too. Where rows are short, a loop over all results, in vectors, is worth a kernel of its own.
        """
        last = len(space) - 1
        if (
            last not in dimensions
            or math.prod(space[d] for d in dimensions) > self.limits.short_row
        ):
            return False
        if not cluster.dims or space[last] < shortest_vector(reduce) <= cluster.dims[-1]:
            # There is but one result, or the reduction's vectors run along its results.
            return False
        nanoseconds = [
            self.costs.nanoseconds(member)
            for member, contexts in cluster.members.items()
            if cluster.full in contexts
        ]
        functions = sum(n for n in nanoseconds if n >= self.limits.function)
        return functions * cluster.elements >= self.limits.own_loop

    def starts_reduction(self, cluster: Cluster, reduce: Instruction) -> bool:
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

    @staticmethod
    def result_dims(reduce: Instruction) -> tuple[int, ...]:
        shape = reduce.result_shapes[0]
        assert isinstance(shape, Shape)
        return shape.dims

    def find_reduce_sibling(
        self,
        reduce: Instruction,
        space: tuple[int, ...],
        dimensions: tuple[int, ...],
        readers: Iterable[Cluster],
        first: int,
    ) -> Cluster | None:
        """A reduction of the same iteration space that reads some of the same memory."""
        near = {o for o in reduce.operands if o.shape.dims == space}  # type: ignore[union-attr]
        near |= {
            p
            for o in near
            for p in o.operands
            if isinstance(p.shape, Shape) and p.shape.dims == space
        }
        reading = set(readers)
        for cluster in self.by_space.get((space, dimensions), ())[-4:]:
            if (
                cluster.kind == "reduce"
                and cluster not in reading
                and len(cluster.roots) < 8
                and cluster.can_read_all(len(reduce.operands))
                and not near.isdisjoint(cluster.inputs)
                and self.goes_before(cluster, first - 1)
            ):
                return cluster
        return None

    # --------------------------------------------------------------------------------------- result
    def build(self) -> Computation:
        """The new computation: clusters in the order of their numbers."""
        mapped: dict[Instruction, Instruction] = {}
        output: list[Instruction] = []
        position = self.position
        for p in self.computation.parameters:
            mapped[p] = p
            output.append(p)
        for instruction in self.computation.instructions:
            if instruction.opcode == "constant":
                mapped[instruction] = instruction
                output.append(instruction)
        for cluster in sorted(self.clusters, key=lambda c: c.order):
            if cluster.boundary:
                (instruction,) = cluster.roots
                operands = tuple(map(mapped.__getitem__, instruction.operands))
                called = [self.done.get(c, c) for c in instruction.called]
                if instruction.opcode == "reshape":
                    new = Instruction(
                        "bitcast",
                        instruction.shape,
                        operands,
                        name=instruction.name,
                        metadata=instruction.metadata,
                    )
                else:
                    new = instruction.replace(operands=operands, called=called)
                mapped[instruction] = new
                output.append(new)
                continue
            members = sorted(cluster.members, key=position.__getitem__)
            for roots, kind in self.kernels_of(cluster, members):
                roots.sort(key=position.__getitem__)
                if len(roots) < len(cluster.roots):
                    members = _needed(roots, cluster.members, mapped)
                    members.sort(key=position.__getitem__)
                fusion = make_fusion(members, roots, kind, mapped, self.keys)
                output.append(fusion)
                if len(roots) == 1:
                    mapped[roots[0]] = fusion
                else:
                    for n, root in enumerate(roots):
                        mapped[root] = get_tuple_element(fusion, n)
                        output.append(mapped[root])
        root = self.computation.root
        if root.opcode == "tuple" and root not in mapped:
            new_root = root.replace(operands=[mapped[o] for o in root.operands])
            output.append(new_root)
        else:
            new_root = mapped[root]
        used = {o for i in output for o in i.operands} | {new_root}
        output = [i for i in output if i.opcode != "constant" or i in used]
        return Computation(self.computation.name, self.computation.parameters, output, new_root)

    def kernels_of(
        self, cluster: Cluster, members: Iterable[Instruction]
    ) -> list[tuple[list[Instruction], str]]:
        """The fusions that a cluster becomes, each with its results: one, but for a row fusion
        whose reduction stayed away.

        That one is loops over different dimensions: the values of one a row first.
        """
        kind = cluster_kind(cluster)
        if kind != "row" or any(m.opcode == "reduce" for m in members):
            return [(list(cluster.roots), kind)]
        full = [r for r in cluster.roots if r.dims == cluster.dims]
        rows = [r for r in cluster.roots if r.dims != cluster.dims]
        return [(roots, "loop") for roots in (rows, full) if roots]


def _needed(
    roots: Iterable[Instruction],
    members: Mapping[Instruction, object],
    mapped: Mapping[Instruction, Instruction],
) -> list[Instruction]:
    """The members that ``roots`` are computed from, other than values that are in memory already."""
    needed: dict[Instruction, None] = {}
    stack = list(roots)
    while stack:
        top = stack.pop()
        if top not in needed:
            needed[top] = None
            stack.extend(
                o
                for o in top.operands
                if o in members and (o not in mapped or o.opcode == "constant")
            )
    return list(needed)


def cluster_kind(cluster: Cluster) -> str:
    """The kind of fusion: a loop that reads an array with its minor dimension moved is a transpose."""
    if cluster.kind == "loop" and cluster.elements >= 1024:
        for member, contexts in cluster.members.items():
            if member.opcode == "transpose" and cluster.full in contexts:
                dimensions = member.attributes["dimensions"]
                moved = [d for d in dimensions if member.operands[0].dims[d] != 1]
                if moved and moved[-1] != max(moved):
                    return "transpose"
    return cluster.kind
