"""All-reduces that do not wait for one another become one: a meeting of devices costs more than a small array.

Programs that meet must join the same all-reduces, in the same order, though each may do other work (``Combination``).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ..ir.hlo import Computation, Instruction, Module, Shape, TupleShape, get_tuple_element
from .collective_groups import MEETINGS, meets_others, participant_groups

# Operands of all-reduces that are exchanged together: enough for a network's bandwidth, and for a large model little
# enough that the first are exchanged while the gradients of other layers are computed.
TOGETHER_BYTES: Final = 4 << 20

# What takes long. Rewriting with an eye on other readers makes neither more nor fewer of them follow one another.
_LONG: Final = frozenset(("conditional", "convolution", "custom-call", "dot", "while"))
# What is there from the start, and the least distance of two places.
_GIVEN: Final = frozenset(("parameter", "constant"))
_STEP: Final = 1e-4


def eager_places(
    instructions: Sequence[Instruction], reduces: Callable[[Instruction], bool]
) -> dict[Instruction, float]:
    """Where each instruction should stand, as a number: its place, or for what nothing but one operand of a reduction
    over devices needs, right behind its operands.

    A partitioner puts the gradients of all layers behind the whole backward pass. If each comes as soon as it can, its
    exchange begins earlier, and what it is computed from need not be kept.
    """
    # The one operand of a reduction that an instruction is for, directly or not; None if it is for anything else.
    purpose: dict[Instruction, tuple[Instruction, int] | None] = {}
    for i in reversed(instructions):
        own = None if i.has_side_effect else purpose.get(i)
        is_reduction = reduces(i)
        for n, o in enumerate(i.operands):
            this = (i, n) if is_reduction else own
            purpose[o] = this if purpose.get(o, this) == this else None
    places: dict[Instruction, float] = {}
    for n, i in enumerate(instructions):
        last = max((places[o] for o in i.operands if o.opcode not in _GIVEN), default=-1.0)
        is_eager = purpose.get(i) is not None and last >= 0 and not i.has_side_effect
        places[i] = min(last + _STEP, n) if is_eager else float(n)
    return places


def combine_all_reduces(
    computation: Computation, module: Module, first: int
) -> tuple[Computation, list[tuple[int, ...]]]:
    """One all-reduce for those of one kind that do not wait for one another, up to TOGETHER_BYTES of operands if
    they may run beside other work. For each collective of the new computation, in its order: the numbers that its
    members have in the program, of which the computation's own begin with ``first``.

    All that have as many collectives before them on the longest way from the parameters are such, and joining them
    makes no cycle.
    """
    kinds, depth = _joined(computation, module)
    own_collectives = (i for i in computation.instructions if i.opcode in MEETINGS)
    number = {i: n for n, i in enumerate(own_collectives, first)}
    if all(len(kind) == 1 and len(kind[0]) == 1 for kind in kinds):
        return computation, [(n,) for n in number.values()]
    combination = _Combination(computation, kinds, number)
    # Instructions in the order of their depth: all operands of a group come before it is built.
    for i in sorted(
        computation.instructions, key=lambda i: depth[i] - combination.is_joined(i) / 2
    ):
        combination.add(i)
    return combination.computation()


class _Combination:
    """The new computation while its instructions are built, and the order that they get.

    Which are together, the order of their operands, and the order of all collectives must be the same in programs
    that have the same collectives and differ in other work, because such programs meet (LaunchSeries::Get). So all of
    that follows from the order of the collectives in the program, and from what each of them waits for. It never
    follows from who else reads an operand or a result. Only the place of a group among other work, which is behind its
    last operand, does.

    A partitioner's program has the gradients of the first layer first, which are computed last. So all-reduces of one
    kind that do not wait for one another come in the order of the longest way to them through work that takes long.
    """

    def __init__(
        self,
        old: Computation,
        kinds: Sequence[Sequence[Sequence[Instruction]]],
        number: Mapping[Instruction, int],
    ) -> None:
        self.old, self.number = old, number
        self.place = {i: n for n, i in enumerate(old.instructions)}
        self.group_of = {
            i: group for kind in kinds for group in kind if len(group) > 1 for i in group
        }
        # Where a collective stands in the order of all: the groups of a kind take one another's places.
        self.turn: dict[Instruction, int] = {}
        for kind in kinds:
            last = [max(self.place[member] for member in group) for group in kind]
            for group, at_last in zip(kind, sorted(last), strict=True):
                self.turn |= dict.fromkeys(group, at_last)
        self.eager = eager_places(old.instructions, lambda i: i.opcode == "all-reduce")
        self.mapped: dict[Instruction, Instruction] = {}
        self.whole_of: dict[Instruction, Instruction] = {}  # of a member
        self.members: dict[Instruction, tuple[int, ...]] = {}  # of a new collective: their numbers
        self.at: dict[Instruction, float] = {}  # where each new instruction would stand
        self.own: dict[Instruction, float] = {}  # where it would stand in the program's own order

    def is_joined(self, i: Instruction) -> bool:
        return i in self.group_of

    def begins(self, i: Instruction) -> float:
        """Where an instruction would stand: an all-reduce behind its last operand."""
        if i in self.turn:
            return max(self.eager[o] for o in i.operands) + _STEP / 2
        return self.eager[i]

    def add(self, i: Instruction) -> None:
        """Build the instruction, or its group; all their operands are built."""
        if i in self.mapped:
            return
        if i in self.group_of:
            self.join(self.group_of[i])
            return
        new = self.mapped[i] = i.with_operands([self.mapped[o] for o in i.operands])
        if i in self.number:
            self.members[new] = (self.number[i],)
        self.at[new], self.own[new] = self.begins(i), self.turn.get(i, self.place[i])

    def join(self, group: Sequence[Instruction]) -> None:
        operands = [self.mapped[o] for member in group for o in member.operands]
        shape = TupleShape(tuple(o.shape for o in operands))  # type: ignore[misc]
        whole = group[0].replace(shape=shape, operands=operands)
        self.members[whole] = tuple(self.number[member] for member in group)
        self.at[whole] = max(map(self.begins, group))
        self.own[whole] = self.turn[group[0]]
        first = 0
        for member in group:
            values = [get_tuple_element(whole, first + n) for n in range(len(member.operands))]
            first += len(member.operands)
            is_tuple = isinstance(member.shape, TupleShape)
            new = member.derive("tuple", values) if is_tuple else values[0]
            self.mapped[member], self.whole_of[member] = new, whole
            for value in (*values, new):
                self.at[value] = self.own[value] = self.place[member]

    def computation(self) -> tuple[Computation, list[tuple[int, ...]]]:
        """The new computation, and for each of its collectives the numbers of the members."""
        order = _in_order(self.at, self.waits())
        old, mapped = self.old, self.mapped
        new = Computation(old.name, old.parameters, order, mapped[old.root])
        return new, [self.members[i] for i in order if i in self.members]

    def waits(self) -> dict[Instruction, list[Instruction]]:
        """What instructions wait for besides their operands: the collectives in the order of their turns, and each side
        effect behind all collectives that the program begins before it, read or not.
        """
        effects: list[Instruction] = []
        before: dict[Instruction, list[Instruction]] = {}
        begun: list[Instruction] = []
        for i in self.old.instructions:
            if i.has_side_effect:
                before[self.mapped[i]] = [*effects[-1:], *begun]
                effects.append(self.mapped[i])
                begun = []
            if meets_others(i):
                begun.append(self.whole_of.get(i, self.mapped[i]))
        collectives = [i for i in _in_order(self.own, before) if meets_others(i)]
        before = {}
        for chain in (effects, collectives):
            for a, b in pairwise(chain):
                before.setdefault(b, []).append(a)
        return before


def _joined(
    computation: Computation, module: Module
) -> tuple[list[list[list[Instruction]]], dict[Instruction, int]]:
    """For each kind of all-reduces that do not wait for one another, those that become one, the first to begin first;
    for each instruction, how many collectives there are up to it on the longest way from the parameters.

    A side effect waits for all collectives that the program begins before it: one that comes earlier may read them.
    """
    depth: dict[Instruction, int] = {}
    # The most instructions that take long on a way from the parameters.
    long: dict[Instruction, int] = {}
    kinds: dict[Hashable, list[Instruction]] = {}
    deepest = 0  # of the collectives up to here
    for i in computation.instructions:
        level = max((depth[o] for o in i.operands), default=0)
        long[i] = max((long[o] for o in i.operands), default=0) + (i.opcode in _LONG)
        if i.has_side_effect:
            level = max(level, deepest)
        if i.opcode == "all-reduce":
            dtypes = {o.dtype for o in i.operands}
            if len(dtypes) == 1 and not any(o.dtype.kind == "token" for o in i.operands):
                key = (level, i.called[0], i.operands[0].dtype, participant_groups(i, module))
                kinds.setdefault(key, []).append(i)
        if meets_others(i):
            level += 1
            deepest = max(deepest, level)
        depth[i] = level
    joined: list[list[list[Instruction]]] = []
    for same in kinds.values():
        groups: list[list[Instruction]] = []
        together: list[Instruction] = []
        size = 0
        for i in sorted(same, key=long.__getitem__):
            more = sum(o.shape.bytes for o in i.operands if isinstance(o.shape, Shape))
            if module.overlaps and together and size + more > TOGETHER_BYTES:
                groups.append(together)
                together, size = [], 0
            together.append(i)
            size += more
        joined.append([*groups, together])
    return joined, depth


def _in_order(
    at: Mapping[Instruction, float], before: Mapping[Instruction, Iterable[Instruction]]
) -> list[Instruction]:
    """The instructions, each behind its operands and what ``before`` has for it, and else by the place that each is
    given.
    """
    users: dict[Instruction, list[Instruction]] = {i: [] for i in at}
    missing = {}
    for i in at:
        needed = {*i.operands, *before.get(i, ())} - {i}
        missing[i] = len(needed)
        for o in needed:
            users[o].append(i)
    numbers = {i: n for n, i in enumerate(at)}
    ready = [(at[i], numbers[i], i) for i in at if not missing[i]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, _, i = heapq.heappop(ready)
        order.append(i)
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (at[user], numbers[user], user))
    return order
