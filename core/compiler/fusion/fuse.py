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

The pieces: :mod:`.clusters` (a cluster, and at which indices it computes its members), :mod:`.sweep` (all of them, and
their order), :mod:`.producers` (what a cluster may compute itself, and when that pays), :mod:`.reductions`,
:mod:`.updates` (updates in place), :mod:`.rebuild` and :mod:`.fused` (the instructions that clusters become).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ..ir.control_flow import executable_computations
from ..ir.hlo import Computation, Instruction, Module, Shape
from ..ir.patterns import UPDATES
from ..ir.registry import OPS
from .clusters import SCALAR, Cluster
from .producers import ends_short_rows, is_worth_copying, recomputation
from .rebuild import rebuild
from .reductions import Reductions, needs_own_rows
from .sweep import Readers, Sweep
from .updates import update_kind

if TYPE_CHECKING:
    from ..targets.costs import Costs
    from ..targets.target import Target

# Results that one cluster may have.
_MOST_ROOTS: Final = 16
# Clusters looked at when searching for one that reads the same memory.
_TRIED: Final = 12


def fuse(module: Module, target: Target) -> Module:
    """The module with its computations fused; bodies of reductions, sorts and the like are left
    alone.
    """
    keys: dict[Hashable, Computation] = {}
    done: dict[Computation, Computation] = {}
    for computation in executable_computations(module):
        done[computation] = rebuild(_Fuser(computation, target.costs).run(), done, keys)
    return replace(module, entry=done[module.entry])


class _Taker(NamedTuple):
    """A cluster that could compute an instruction: in which contexts, and with how many operations an element that it
    would do more than once.
    """

    cluster: Cluster
    contexts: tuple[int, ...]
    recomputed: float


class _Fuser:
    """Puts the instructions of one computation into clusters."""

    def __init__(self, computation: Computation, costs: Costs) -> None:
        self.costs = costs
        self.sweep = Sweep(computation, costs)
        self.reductions = Reductions(self.sweep)

    def run(self) -> Sweep:
        """Place all instructions that something needs."""
        sweep = self.sweep
        instructions, root = sweep.computation.instructions, sweep.computation.root
        results = set(sweep.computation.results)
        placement = sweep.placement
        output = Cluster("", (), 1)  # what reads the results: after everything
        for sweep.current in range(len(instructions) - 1, -1, -1):
            instruction = instructions[sweep.current]
            opcode = instruction.opcode
            if opcode == "parameter" or (opcode == "constant" and instruction.shape.dims):  # type: ignore[union-attr]
                continue
            if instruction is root and opcode == "tuple":
                placement[instruction] = [output]
                continue
            readers: Readers = {}
            if instruction in results:
                readers[output] = []
            for user in sweep.users[instruction]:
                for cluster in placement[user]:
                    readers.setdefault(cluster, []).append(user)
            if readers or instruction.has_side_effect:
                self.place(instruction, readers)
            else:
                placement[instruction] = []  # dead
        return sweep

    def place(self, instruction: Instruction, readers: Readers) -> None:
        """Decide where ``instruction`` goes."""
        opcode = instruction.opcode
        if opcode == "constant":
            self.place_scalar(instruction, readers)
        elif opcode == "get-tuple-element" and instruction.operands[0].opcode == "reduce":
            self.reductions.place_result(instruction, readers)
        elif opcode == "reduce":
            self.reductions.place(instruction, readers)
        elif OPS[opcode].is_indexable and isinstance(instruction.shape, Shape):
            self.place_indexable(instruction, readers)
        else:
            self.sweep.start(instruction, update_kind(self.sweep, instruction))

    def place_scalar(self, constant: Instruction, readers: Readers) -> None:
        """A scalar constant is written into the code of whatever reads it."""
        clusters = [cluster for cluster in readers if not cluster.boundary]
        for cluster in clusters:
            cluster.add(constant, (SCALAR,), 0.0, 0.0)
        self.sweep.placement[constant] = clusters

    def place_indexable(self, instruction: Instruction, readers: Readers) -> None:
        """Decide where an instruction goes each of whose elements can be computed by itself."""
        sweep, cost = self.sweep, self.costs.instructions(instruction)
        takers = self.takers(instruction, cost, readers)
        if len(takers) == 1 and len(readers) == 1:
            sweep.join(instruction, *takers[0], cost)
        elif len(takers) == len(readers) and all(
            is_worth_copying(sweep, instruction, cost, taker.cluster, stored=False)
            for taker in takers
        ):  # all readers compute it themselves: it need not be in memory at all
            for cluster, contexts, recomputed in takers:
                sweep.join(instruction, cluster, contexts, recomputed + cost, cost)
        else:
            self.place_in_memory(instruction, cost, takers, readers)

    def takers(self, instruction: Instruction, cost: float, readers: Readers) -> list[_Taker]:
        """The readers that could compute ``instruction`` themselves."""
        found = []
        for cluster, users in readers.items():
            if cluster.boundary:
                continue
            contexts = cluster.contexts_for(instruction, users)
            if cluster.kind == "loop" and len(contexts) == 1:
                self.reductions.expect_rows(instruction, cluster, contexts)
            recomputed = recomputation(self.sweep, instruction, cost, cluster, contexts)
            if recomputed is not None:
                found.append(_Taker(cluster, contexts, recomputed))
        return found

    def place_in_memory(
        self, instruction: Instruction, cost: float, takers: Iterable[_Taker], readers: Readers
    ) -> None:
        """Decide which cluster writes ``instruction`` to memory, as not all of its readers can compute it. Those that
        do all the same are taken out of ``readers``.
        """
        sweep = self.sweep
        reading: list[_Taker] = []
        for taker in takers:  # some may still do better to compute it themselves
            cluster, contexts, recomputed = taker
            if is_worth_copying(sweep, instruction, cost, cluster, stored=True):
                sweep.join(instruction, cluster, contexts, recomputed + cost, cost)
                del readers[cluster]
            else:
                reading.append(taker)
        if not readers:
            return
        first = min(c.order for c in readers)
        for taker in sorted(reading, key=lambda t: t.cluster.order):
            if may_be_result(instruction, taker) and sweep.goes_before(taker.cluster, first):
                sweep.join_as_result(instruction, *taker, cost)
                return
        if instruction.opcode in ("reshape", "bitcast"):
            sweep.start(instruction, "")  # becomes a bitcast: no code at all
            return
        sibling = self.find_sibling(instruction, cost, readers, first)
        if sibling is None:
            sweep.start(instruction, "loop")
        else:
            sweep.join_as_result(instruction, sibling, (sibling.full,), 0.0, cost)

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
            for user in self.sweep.users[operand]:
                for cluster in self.sweep.placement.get(user, ()):
                    tried += 1
                    if tried > _TRIED:
                        return None
                    if (
                        cluster.kind == "loop"
                        and cluster.dims == dims
                        and cluster not in reading
                        and self.may_stand_beside(instruction, cost, cluster)
                        and self.sweep.goes_before(cluster, first - 1)
                    ):
                        return cluster
        return None

    def may_stand_beside(self, instruction: Instruction, cost: float, cluster: Cluster) -> bool:
        """Whether a loop over the same dimensions, which does not read ``instruction``, may compute it as a further
        result.
        """
        return (
            instruction not in cluster.members  # at another index
            and len(cluster.roots) < _MOST_ROOTS
            and cluster.cost + cost <= self.costs.fusion.most
            and not ends_short_rows(self.sweep, instruction, cluster)
            and cluster.can_read_all(len(instruction.operands))
        )


def may_be_result(instruction: Instruction, taker: _Taker) -> bool:
    """Whether the cluster could also write ``instruction``: it stands at the cluster's own index."""
    cluster, contexts, _ = taker
    if cluster.kind in UPDATES or len(contexts) != 1 or len(cluster.roots) >= _MOST_ROOTS:
        return False
    dims = instruction.dims
    if contexts[0] == cluster.full:
        if dims != cluster.dims:
            return False
        return cluster.kind != "reduce" or not needs_own_rows(instruction)
    return contexts[0] == cluster.rows and dims == cluster.row_dims
