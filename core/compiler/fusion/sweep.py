"""The state of fusion's sweep over a computation: the clusters, and which of them computes what.

The sweep goes from the last instruction to the first (:mod:`.fuse`), so that all users of an instruction have been
placed when it is reached. Clusters are numbered downward as they start; their numbers are a valid schedule at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.hlo import Computation, Instruction
from ..ir.patterns import UPDATES
from .clusters import Cluster, is_free

if TYPE_CHECKING:
    from ..targets.costs import Costs

# The clusters that read a value, each with the users of the value that are its members.
Readers = dict[Cluster, list[Instruction]]


class Sweep:
    """What has been placed so far. ``current``: the position of the instruction that is being placed."""

    def __init__(self, computation: Computation, costs: Costs) -> None:
        self.costs, self.limits = costs, costs.fusion
        self.computation = computation
        self.users = computation.users()
        # The clusters that compute an instruction; none for one that is dead or is read where it lies.
        self.placement: dict[Instruction, list[Cluster]] = {}
        self.clusters: list[Cluster] = []
        self.lowest = 0  # the smallest number of a cluster
        self.position = {i: n for n, i in enumerate(computation.instructions)}
        self.current = 0

    # ----------------------------------------------------------------------------------------------------- placing
    def start(self, instruction: Instruction, kind: str) -> Cluster:
        """A new cluster for ``instruction``, which it writes to memory; kind "" for one that stays as it is."""
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
        cluster.roots.append(instruction)
        return cluster

    def join(
        self,
        instruction: Instruction,
        cluster: Cluster,
        contexts: tuple[int, ...],
        recomputed: float,
        cost: float,
    ) -> None:
        """Make ``instruction`` a member of ``cluster``, computed in ``contexts`` for ``cost`` operations an element in
        each; ``recomputed`` of them are work that would be done once without it.
        """
        if cluster.has_short_rows:
            cluster.row_code += self.row_code(instruction, cluster)
        cluster.add(instruction, contexts, cost * len(contexts), recomputed)
        if cluster.rows in contexts and cluster.comes_back(self.users[instruction]):
            cluster.feeding.add(instruction)
        self.placement.setdefault(instruction, []).append(cluster)

    def join_as_result(
        self,
        instruction: Instruction,
        cluster: Cluster,
        contexts: tuple[int, ...],
        recomputed: float,
        cost: float,
    ) -> None:
        """As :meth:`join`, and ``cluster`` writes the value to memory."""
        self.join(instruction, cluster, contexts, recomputed, cost)
        cluster.roots.append(instruction)

    # --------------------------------------------------------------------------------------------------- the order
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

    # -------------------------------------------------------------------------------------------------- short rows
    def row_code(self, instruction: Instruction, cluster: Cluster) -> float:
        """The weight of ``instruction``, and of the constants that will follow it into ``cluster``, in a loop that
        writes each element of a short row for itself.
        """
        if is_free(instruction):
            return 0.0  # came with what reads it
        weight = self.costs.weight(instruction)
        for operand in dict.fromkeys(instruction.operands):
            known = operand in cluster.members or operand in cluster.inputs
            if not known and is_free(operand):
                weight += self.costs.weight(operand)
        return weight * cluster.dims[-1]
