"""Chains: loops that read one another's neighbourhoods become one kernel.

A stencil of a stencil, such as the gradient of squared differences or the stages of a Runge-Kutta step on a grid, is
two loops with an array between them, for computing it again in each place would be many times the work. Where that
array is larger than the nearest caches, writing and reading it takes much of the time. Here such loops become a fusion
of the kind ``chain``, whose computation has them as fusions (:mod:`..fusion.chain_plan`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..fusion.chain_plan import plan_of, source_of
from ..ir.control_flow import executable_computations
from ..ir.hlo import (
    Computation,
    Instruction,
    Module,
    Shape,
    get_tuple_element,
    parameter,
)
from .rewrite import map_computations, on_mapped

if TYPE_CHECKING:
    from ..targets.costs import Costs
    from ..targets.target import Target

#: The kind of these fusions.
CHAIN: Final = "chain"
# Loops in one chain, and arrays that it reads.
_MOST_LOOPS: Final = 8
_MOST_OPERANDS: Final = 40
# A chain takes each row by itself, where a loop may take several as one: none has rows of fewer elements than the first
# number, and rows below Fusion.chained_rows must have so many times as much between them.
_SHORTEST_ROW: Final = 64
_SHORT_ROWS: Final = 64


def chain_loops(module: Module, target: Target) -> Module:
    """The module, which is fused and in its final order, with chains in the places of such loops."""
    if not target.costs.fusion.chained:
        return module

    def chained(computation: Computation) -> Computation:
        return _with_chains(computation, _Finder(computation, target.costs).find())

    return map_computations(module, chained, executable_computations(module))


class _Finder:
    """Finds the chains of one computation."""

    def __init__(self, computation: Computation, costs: Costs) -> None:
        self.computation = computation
        self.limits, self.most_kept = costs.fusion, costs.memory.planes
        self.results = set(computation.results)
        self.users: Mapping[Instruction, Sequence[Instruction]] = {}

    def find(self) -> dict[Instruction, list[Instruction]]:
        """The loops of each chain, in order, by the last of them."""
        instructions = self.computation.instructions
        if not any(_is_candidate(i) and self.is_large(i) for i in instructions):
            return {}
        self.users = self.computation.users()
        position = {i: n for n, i in enumerate(instructions)}
        chains: dict[Instruction, list[Instruction]] = {}
        taken: set[Instruction] = set()
        for last in reversed(instructions):
            if last not in taken and _is_candidate(last):
                loops = self.grown(last, taken, position)
                if len(loops) > 1:
                    chains[last] = loops
                    taken.update(loops)
        return chains

    def grown(
        self, last: Instruction, taken: set[Instruction], position: Mapping[Instruction, int]
    ) -> list[Instruction]:
        """The loops that can be computed together with ``last``, in order; itself alone if there are none."""
        loops, refused = [last], set[Instruction]()
        while len(loops) < _MOST_LOOPS:
            sources = {source_of(o)[0] for loop in loops for o in loop.operands}
            sources -= {*loops, *refused, *taken}
            wanted = [s for s in sources if self.may_join(s, loops)]
            if not wanted:
                break
            source = max(wanted, key=position.__getitem__)
            more = sorted([*loops, source], key=position.__getitem__)
            body = chain_of(more)[1]
            if len(body.parameters) <= _MOST_OPERANDS and plan_of(body, self.most_kept) is not None:
                loops = more
            else:
                refused.add(source)
        return loops

    def may_join(self, source: Instruction, loops: Sequence[Instruction]) -> bool:
        """Whether ``source`` is a loop with large results that nobody but ``loops`` reads."""
        if not _is_candidate(source) or not self.is_large(source) or source in self.results:
            return False
        readers: list[Instruction] = []
        for user in self.users[source]:
            if user.opcode != "get-tuple-element":
                readers.append(user)
            elif user in self.results:
                return False
            else:
                readers += self.users[user]
        return all(reader in loops for reader in readers)

    def is_large(self, loop: Instruction) -> bool:
        """Whether keeping a result of ``loop`` near by saves more than planes that are computed twice cost."""
        least = self.limits.chained
        if loop.called[0].results[0].dims[-1] < self.limits.chained_rows:
            least *= _SHORT_ROWS
        shapes = (r.shape for r in loop.called[0].results)
        return any(isinstance(s, Shape) and s.bytes >= least for s in shapes)


def _is_candidate(i: Instruction) -> bool:
    """Whether ``i`` is a loop whose rows are long enough for a chain."""
    if i.opcode != "fusion" or i.attributes["kind"] != "loop":
        return False
    dims = i.called[0].results[0].dims
    return len(dims) > 1 and dims[-1] >= _SHORTEST_ROW


def chain_of(loops: Sequence[Instruction]) -> tuple[list[Instruction], Computation]:
    """The operands of a chain of ``loops``, which are in order, and its computation."""
    inner: dict[Instruction, Instruction] = {}  # what stands in the computation for what is outside
    operands: list[Instruction] = []
    body: list[Instruction] = []
    for loop in loops:
        for operand in loop.operands:
            source, _ = source_of(operand)
            if operand in inner:
                continue
            if source in inner:  # a result of a loop of the chain
                inner[operand] = get_tuple_element(inner[source], operand.attributes["index"])
                body.append(inner[operand])
            else:
                inner[operand] = parameter(len(operands), operand.shape)
                operands.append(operand)
        inner[loop] = loop.replace(operands=[inner[o] for o in loop.operands])
        body.append(inner[loop])
    root = body[-1]
    if not isinstance(root.shape, Shape):
        results = [get_tuple_element(root, n) for n in range(len(root.result_shapes))]
        root = Instruction("tuple", root.shape, results)
        body += [*results, root]
    parameters = [inner[o] for o in operands]
    return operands, Computation(f"chain_{loops[-1].name}", parameters, [*parameters, *body], root)


def _with_chains(
    computation: Computation, chains: Mapping[Instruction, Sequence[Instruction]]
) -> Computation:
    """``computation`` with each of ``chains`` in the place of its last loop."""
    if not chains:
        return computation
    inside = {loop for loops in chains.values() for loop in loops[:-1]}
    mapped: dict[Instruction, Instruction] = {}
    instructions: list[Instruction] = []
    for i in computation.instructions:
        if i in inside or source_of(i)[0] in inside:
            continue
        if i in chains:
            outside, body = chain_of(chains[i])
            operands = [mapped.get(o, o) for o in outside]
            now = i.replace(operands=operands, called=[body], attributes={"kind": CHAIN})
        else:
            now = on_mapped(i, mapped)
        if now is not i:
            mapped[i] = now
        instructions.append(now)
    root = mapped.get(computation.root, computation.root)
    return Computation(computation.name, computation.parameters, instructions, root)
