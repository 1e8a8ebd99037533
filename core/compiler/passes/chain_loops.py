"""Chains: loops that read one another's neighbourhoods become one kernel.

A stencil of a stencil, such as the gradient of squared differences or the stages of a Runge-Kutta step on a grid, is
two loops with an array between them, for computing it again in each place would be many times the work. Where that
array is larger than the nearest caches, writing and reading it takes much of the time. Here such loops become a fusion
of the kind ``chain``, whose computation has them as fusions (:mod:`..fusion.chain_plan`). The steps of several fields,
each of which is read by the others' loops and is a result too, become one chain with several results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from ..memory.inplace import in_place_operands
from .collective_groups import meets_others
from .rewrite import map_computations, on_mapped

if TYPE_CHECKING:
    from ..targets.costs import Costs
    from ..targets.target import Target

#: The kind of these fusions.
CHAIN: Final = "chain"
# Loops in one chain, and arrays that it reads.
_MOST_LOOPS: Final = 12
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
        place = len(computation.instructions)
        while place:
            finder = _Finder(computation, target.costs)
            loops = finder.find(place)
            if not loops:
                break
            computation, place = _with_chain(finder, loops)
        return computation

    return map_computations(module, chained, executable_computations(module))


class _Finder:
    """Finds the chains of one computation."""

    def __init__(self, computation: Computation, costs: Costs) -> None:
        self.computation = computation
        self.limits, self.most_kept = costs.fusion, costs.memory.planes
        self.past_caches = costs.memory.past_caches
        self.results = set(computation.results)
        self.users = computation.users()
        self.position = {i: n for n, i in enumerate(computation.instructions)}

    def find(self, place: int) -> list[Instruction]:
        """The loops of the last chain of which a loop stands before ``place``; none if there is none."""
        before = self.computation.instructions[:place]
        if not any(_is_candidate(i) and self.is_large(i) for i in before):
            return []
        for last in reversed(before):
            if _is_candidate(last) and self.written([last]):
                loops = self.grown(last, wide=True)
                if not self.is_worth_it(loops):
                    loops = self.grown(last, wide=False)
                if len(loops) > 1:
                    return loops
        return []

    def grown(self, last: Instruction, *, wide: bool) -> list[Instruction]:
        """The loops that can be computed together with ``last``, in order; itself alone if there are none. If ``wide``,
        their results may be read by others too, and they may be read by loops beside ``last``.
        """
        loops, refused = [last], set[Instruction]()
        while len(loops) < _MOST_LOOPS:
            near = {source_of(o)[0] for loop in loops for o in loop.operands}
            if wide:
                near |= {reader for loop in loops for reader in self.readers(loop)}
            near -= {*loops, *refused}
            wanted = [s for s in near if self.may_join(s, loops, wide=wide)]
            if not wanted:
                break
            source = max(wanted, key=self.position.__getitem__)
            more = sorted([*loops, source], key=self.position.__getitem__)
            if self.is_possible(more):
                loops = more
            else:
                refused.add(source)
        return loops

    def may_join(self, source: Instruction, loops: Sequence[Instruction], *, wide: bool) -> bool:
        """Whether ``source`` is a loop with large results that, unless ``wide``, nobody but ``loops`` reads."""
        if not _is_candidate(source) or not self.is_large(source):
            return False
        return wide or not any(self.is_read_beside(v, loops) for v in self.values(source))

    def is_possible(self, loops: Sequence[Instruction]) -> bool:
        """Whether ``loops``, which are in order, can be computed in the place of the last of them."""
        written = self.written(loops)
        operands, body = chain_of(loops, written)
        if len(operands) > _MOST_OPERANDS or plan_of(body, self.most_kept) is None:
            return False
        return len(written) == 1 or behind(self.computation.instructions, loops) is not None

    def is_worth_it(self, loops: Sequence[Instruction]) -> bool:
        """Whether a chain of several loops with results of the chain moves so much less than they do by themselves, and
        one reads neighbours in another. (Loops that read the same places are fused before if that is good.)
        """
        written = self.written(loops)
        if len({source_of(value)[0] for value in written}) < 2:
            return True
        operands, body = chain_of(loops, written)
        plan = plan_of(body, self.most_kept)
        if plan is None or not plan.has_neighbours:
            return False
        alone = 0
        for loop in loops:
            in_place = in_place_operands(loop)
            fresh = [v for v in self.values(loop) if not in_place[source_of(v)[1]]]
            alone += self.traffic(loop.operands, self.values(loop), fresh)
        return self.limits.chained_gain * self.traffic(operands, written, written) <= alone

    def traffic(
        self,
        operands: Iterable[Instruction],
        results: Iterable[Instruction],
        fresh: Iterable[Instruction],
    ) -> int:
        """Bytes that a kernel moves to and from memory. ``fresh`` results, which are not written over operands, are
        read before they are written, but where they are written past the caches.
        """
        moved = _bytes(operands) + _bytes(results)
        return moved if moved >= self.past_caches else moved + _bytes(fresh)

    def values(self, loop: Instruction) -> list[Instruction]:
        """The arrays that ``loop`` gives, as far as somebody uses them."""
        if isinstance(loop.shape, Shape):
            return [loop]
        return [user for user in self.users[loop] if user.opcode == "get-tuple-element"]

    def readers(self, loop: Instruction) -> list[Instruction]:
        return [reader for value in self.values(loop) for reader in self.users[value]]

    def is_read_beside(self, value: Instruction, loops: Sequence[Instruction]) -> bool:
        """Whether others than ``loops`` need ``value``, a result of one of them."""
        return value in self.results or not all(u in loops for u in self.users[value])

    def written(self, loops: Sequence[Instruction]) -> list[Instruction]:
        """The results of ``loops`` that others need, each once."""
        values = [v for loop in loops for v in self.values(loop) if self.is_read_beside(v, loops)]
        return list({source_of(value): value for value in reversed(values)}.values())[::-1]

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


def behind(
    instructions: Sequence[Instruction], loops: Sequence[Instruction]
) -> set[Instruction] | None:
    """What stands between ``loops``, which are in order, and has to come behind the last of them, because it needs one
    of them; None if one of them needs it, or if it may not be moved.
    """
    found: set[Instruction] = set()
    members, last = set(loops), loops[-1]
    for i in instructions[instructions.index(loops[0]) :]:
        if i in members:
            if not found.isdisjoint(i.operands):
                return None
            if i is last:
                break
        elif source_of(i)[0] not in members and any(
            o in found or source_of(o)[0] in members for o in i.operands
        ):
            found.add(i)
    return None if any(i.has_side_effect or meets_others(i) for i in found) else found


def _bytes(values: Iterable[Instruction]) -> int:
    return sum(v.shape.bytes for v in set(values) if isinstance(v.shape, Shape))


def chain_of(
    loops: Sequence[Instruction], written: Sequence[Instruction] = ()
) -> tuple[list[Instruction], Computation]:
    """The operands of a chain of ``loops``, which are in order, and its computation. Its results are ``written``, which
    are loops or elements of their tuples; or, if there are none, those of the last loop.
    """
    inner: dict[Instruction, Instruction] = {}  # what stands in the computation for what is outside
    operands: list[Instruction] = []
    body: list[Instruction] = []

    def inside(value: Instruction) -> Instruction:
        source, _ = source_of(value)
        if value not in inner:
            if source in inner:  # a result of a loop of the chain
                inner[value] = get_tuple_element(inner[source], value.attributes["index"])
                body.append(inner[value])
            else:
                inner[value] = parameter(len(operands), value.shape)
                operands.append(value)
        return inner[value]

    for loop in loops:
        inner[loop] = loop.replace(operands=[inside(o) for o in loop.operands])
        body.append(inner[loop])
    last = inner[loops[-1]]
    if written:
        results = [inside(value) for value in written]
    elif isinstance(last.shape, Shape):
        results = [last]
    else:
        results = [get_tuple_element(last, n) for n in range(len(last.result_shapes))]
        body += results
    parameters = [inner[o] for o in operands]
    name = f"chain_{loops[-1].name}"
    return operands, Computation.of_results(name, parameters, [*parameters, *body], results)


def _with_chain(finder: _Finder, loops: Sequence[Instruction]) -> tuple[Computation, int]:
    """The finder's computation with a chain of ``loops``, which are in order, in the place of the last of them; and the
    place up to which there may be more chains.
    """
    computation, last, members = finder.computation, loops[-1], set(loops)
    written = finder.written(loops)
    outside, body = chain_of(loops, written)
    chain = Instruction(
        "fusion", body.root.shape, outside, {"kind": CHAIN}, [body], last.name, last.metadata
    )
    placed = [chain]
    if len(written) > 1:
        placed += [get_tuple_element(chain, n) for n in range(len(written))]
    results = dict(zip(map(source_of, written), placed[-len(written) :], strict=True))
    mapped = {
        value: results[source_of(value)]
        for loop in loops
        for value in finder.values(loop)
        if source_of(value) in results
    }
    late = behind(computation.instructions, loops) or set()
    instructions: list[Instruction] = []
    waiting: list[Instruction] = []
    place = 0
    for i in computation.instructions:
        if i in late:
            waiting.append(i)
        elif i is last:
            instructions += placed
            instructions += [_placed(o, mapped) for o in waiting]
            place = len(instructions)
        elif source_of(i)[0] not in members:
            instructions.append(_placed(i, mapped))
    root = mapped.get(computation.root, computation.root)
    return Computation(computation.name, computation.parameters, instructions, root), place


def _placed(instruction: Instruction, mapped: dict[Instruction, Instruction]) -> Instruction:
    """``instruction`` on what has taken the places of its operands."""
    now = on_mapped(instruction, mapped)
    if now is not instruction:
        mapped[instruction] = now
    return now
