"""What fusion makes of its clusters: a computation with a ``fusion`` instruction for each, in the order of numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from ..ir.hlo import Computation, Instruction, get_tuple_element
from .clusters import Cluster
from .fused import make_fusion
from .sweep import Sweep

# A loop over fewer elements is not worth the tiles of a transpose.
_LEAST_TRANSPOSED: Final = 1024


def rebuild(
    sweep: Sweep,
    done: Mapping[Computation, Computation],
    keys: dict[Hashable, Computation],
) -> Computation:
    """The computation of ``sweep`` with a fusion in the place of each cluster.

    ``done``: what has become of the computations that it calls. ``keys``: the computations of fusions by what they
    compute, so that equal ones are one.
    """
    return _Rebuilt(sweep, done, keys).computation()


class _Rebuilt:
    def __init__(
        self,
        sweep: Sweep,
        done: Mapping[Computation, Computation],
        keys: dict[Hashable, Computation],
    ) -> None:
        self.old = sweep.computation
        self.clusters = sweep.clusters
        self.position = sweep.position
        self.done, self.keys = done, keys
        self.mapped: dict[Instruction, Instruction] = {}  # old -> new
        self.output: list[Instruction] = []

    def computation(self) -> Computation:
        for parameter in self.old.parameters:
            self.add(parameter, parameter)
        for instruction in self.old.instructions:
            if instruction.opcode == "constant":
                self.add(instruction, instruction)
        for cluster in sorted(self.clusters, key=lambda c: c.order):
            if cluster.boundary:
                self.add_unfused(cluster)
            else:
                self.add_fusions(cluster)
        return self.finished()

    def add(self, old: Instruction, new: Instruction) -> None:
        self.mapped[old] = new
        self.output.append(new)

    def add_unfused(self, cluster: Cluster) -> None:
        """The instruction of a cluster that stays as it is; a reshape becomes a bitcast, which moves nothing."""
        (instruction,) = cluster.roots
        operands = tuple(map(self.mapped.__getitem__, instruction.operands))
        if instruction.opcode == "reshape":
            name, metadata = instruction.name, instruction.metadata
            new = Instruction("bitcast", instruction.shape, operands, name=name, metadata=metadata)
        else:
            called = [self.done.get(c, c) for c in instruction.called]
            new = instruction.replace(operands=operands, called=called)
        self.add(instruction, new)

    def add_fusions(self, cluster: Cluster) -> None:
        """The fusion of a cluster, or several."""
        position = self.position.__getitem__
        members = sorted(cluster.members, key=position)
        for roots, kind in _kernels_of(cluster):
            roots.sort(key=position)
            if len(roots) < len(cluster.roots):
                members = _needed(roots, cluster.members, self.mapped)
                members.sort(key=position)
            fusion = make_fusion(members, roots, kind, self.mapped, self.keys)
            self.output.append(fusion)
            if len(roots) == 1:
                self.mapped[roots[0]] = fusion
            else:
                for n, root in enumerate(roots):
                    self.add(root, get_tuple_element(fusion, n))

    def finished(self) -> Computation:
        """The computation, without constants that nobody reads any more."""
        root = self.old.root
        if root.opcode == "tuple" and root not in self.mapped:
            self.add(root, root.replace(operands=[self.mapped[o] for o in root.operands]))
        new_root = self.mapped[root]
        used = {o for i in self.output for o in i.operands} | {new_root}
        output = [i for i in self.output if i.opcode != "constant" or i in used]
        return Computation(self.old.name, self.old.parameters, output, new_root)


def _kernels_of(cluster: Cluster) -> list[tuple[list[Instruction], str]]:
    """The fusions that a cluster becomes, each with its results and kind: one, but for a row fusion whose reduction
    stayed away.

    That one is loops over different dimensions: the values of one a row first.
    """
    kind = _kind_of(cluster)
    if kind != "row" or any(m.opcode == "reduce" for m in cluster.members):
        return [(list(cluster.roots), kind)]
    full = [r for r in cluster.roots if r.dims == cluster.dims]
    rows = [r for r in cluster.roots if r.dims != cluster.dims]
    return [(roots, "loop") for roots in (rows, full) if roots]


def _kind_of(cluster: Cluster) -> str:
    """The kind of fusion: a loop that reads an array with its minor dimension moved is a transpose."""
    if cluster.kind == "loop" and cluster.elements >= _LEAST_TRANSPOSED:
        for member, contexts in cluster.members.items():
            if member.opcode == "transpose" and cluster.full in contexts:
                dimensions = member.attributes["dimensions"]
                moved = [d for d in dimensions if member.operands[0].dims[d] != 1]
                if moved and moved[-1] != max(moved):
                    return "transpose"
    return cluster.kind


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
