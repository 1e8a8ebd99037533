"""Buffer assignment: where every value of a scheduled program lives.

Time. :mod:`.liveness` finds the values and when they are alive.

Sharing. A :class:`~.liveness.Group` is a set of values, no two alive at once, that live in the same
memory. Groups are joined where that saves a copy or memory: a loop's state from iteration to
iteration, a donated parameter and the result that takes its place, dynamic-update-slice and scatter
with the array they update, an elementwise kernel with a dying operand, an output of a scan with an input
(:mod:`.stacks`). Where values that must be in one place (a loop's state) could not be joined, a copy moves them.

Placing. Groups of parameters, constants, results and views have allocations of their own; the others get
offsets in one temporary arena, by best fit along the time axis
(:mod:`.arena`), or lie in the memory of a result that is written later (:mod:`.lending`). Total cost
O(n log n).

Every control flow computation must have one caller (pass ``unshare_control_flow``), since values
are known by their instruction.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..formats.artifact import (
    ALIGNMENT,
    ALLOCATION_CONSTANT,
    ALLOCATION_KINDS,
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    ALLOCATION_TEMP,
    ALLOCATION_VIEW,
    Allocation,
    Slice,
)
from ..ir.errors import internal
from ..ir.hlo import Instruction, Module
from .arena import place_in_arena
from .inplace import in_place_operands, must_share
from .lending import lend
from .liveness import FOREVER, Branches, Group, Liveness, Value, liveness_of

LARGE_LITERAL: Final = 1 << 16  # bytes
# Where copies are made: an instruction, and what of it; see :func:`assign`.
Place = tuple[Instruction | None, str]


@dataclass(slots=True)
class Move:
    """A copy from one group's memory to another's."""

    destination: Value
    source: Value


@dataclass(slots=True)
class Assignment:
    """Where values are. ``moves``: copies to make, by (instruction, place): see :func:`assign`."""

    allocations: list[Allocation]
    constants: bytes
    values: dict[Instruction, tuple[Value | None, ...]]
    moves: dict[Place, list[Move]]
    all_values: list[Value] = field(default_factory=list)

    def slice_of(self, value: Value) -> Slice:
        group = value.group
        if group.allocation is None or value.size > group.size:
            raise internal(
                f"the buffer of {value!r} has no room for it", op=value.instruction.opcode
            )
        return Slice(group.allocation, group.offset, value.shape.bytes)

    def slices(self, instruction: Instruction) -> list[Slice]:
        """The slices of an instruction's array results (tokens have none)."""
        return [self.slice_of(v) for v in self.values[instruction] if v is not None]


class _Sharing:
    """Joins groups."""

    def __init__(self, touching: dict[tuple[Value, Value], int]) -> None:
        self.touching = touching

    def compatible(self, a: Value, b: Value) -> bool:
        """Whether two values are never alive at the same time (``a`` starts first)."""
        if a.end < b.start:
            return True
        return a.end <= self.touching.get((a, b), -1)

    def fits(self, group: Group, value: Value) -> bool:
        values = group.values
        at = bisect.bisect_right(values, (value.start, value.end), key=lambda v: (v.start, v.end))
        if at > 0 and not self.compatible(values[at - 1], value):
            return False
        return at == len(values) or self.compatible(value, values[at])

    def join(self, a: Group, b: Group, *, force: bool = False, donated: bool = False) -> bool:
        """Join ``b`` and ``a`` into one group if their values allow it; whether they are one now."""
        if a is b:
            return True
        if a.size != b.size:
            return False
        if not donated and (a.read_only or b.read_only):
            return False
        if a.allocation is not None and b.allocation is not None and not donated:
            return False
        big, small = (a, b) if len(a.values) >= len(b.values) else (b, a)
        if not force and not all(self.fits(big, v) for v in small.values):
            return False
        for value in small.values:
            bisect.insort(big.values, value, key=lambda v: (v.start, v.end))
            value.group = big
        if big.allocation is None:
            big.allocation = small.allocation
        big.read_only = False if donated else big.read_only or small.read_only
        small.values = []
        return True


def assign(module: Module) -> Assignment:
    """Give every value of the (fused, scheduled) module a place.

    Moves are keyed (while, "init") before the loop, (while, "body") at the end of each iteration,
    (conditional, "0"), ... at the end of a branch, (instruction, "copy") before an instruction that
    updates its operand in place, and (None, "results") at the end of the program; each list is in
    an order in which no move overwrites what a later one reads.

    Raises CompileError (RESOURCE_EXHAUSTED) for sizes that no machine has.
    """
    live = liveness_of(module)
    sharing = _Sharing(live.touching)
    entry = module.entry
    allocations: list[Allocation] = []

    # Loops: the state while the loop runs and the result after it are one memory by definition.
    for loop in live.loops:
        for state, result in zip(loop.state, loop.results, strict=True):
            if not sharing.join(state.group, result.group, force=True):
                raise internal("a loop's state changes its size", op="while")
    # So are an operand of a conditional and what it is in a branch.
    for branches in live.branches:
        for operand, share in branches.shares:
            if not sharing.join(operand.group, share.group, force=True):
                raise internal("an operand changes its size in a branch", op="conditional")

    parameters: list[Value] = []
    for p in entry.parameters:
        value = live.values[p][0]
        if value is None:
            raise internal(f"parameter {p.attributes['index']} is not an array")
        value.group.read_only = True
        parameters.append(value)
    constants, constant_allocations = _place_constants(live)

    results = [v for v in live.results if v is not None]
    aliases = _donate(module, results, parameters, sharing)

    for number, value in enumerate(parameters):
        if number not in aliases.values():
            value.group.allocation = len(allocations)
            allocations.append(Allocation(ALLOCATION_PARAMETER, number, value.size))
    for value, offset in constant_allocations:
        value.group.allocation = len(allocations)
        allocations.append(Allocation(ALLOCATION_CONSTANT, 0, value.size, offset))
    for value in live.views:
        value.group.allocation = len(allocations)
        allocations.append(Allocation(ALLOCATION_VIEW, 0, value.size))

    fresh = _allocate_results(results, aliases, parameters, allocations)
    _join_what_moves(live, sharing)
    temporaries: list[Group] = []
    moves = _moves_inside(live, temporaries)
    final = _final_moves(results, aliases, parameters, fresh, allocations, live)
    moves[None, "results"] = _sequence(final, live.end, temporaries)

    groups = [*_groups(live.all), *temporaries]
    placing = [g for g in groups if g.allocation is None]
    arena = _place(placing, _lenders(module, results, allocations), len(allocations))
    if arena:
        allocations.append(Allocation(ALLOCATION_TEMP, 0, arena))
    for group in groups:
        # Values know their groups: without this the whole program would wait for the garbage collector.
        group.values = []
    return Assignment(allocations, constants, live.values, moves, live.all)


def _lenders(
    module: Module, results: Sequence[Value], allocations: Sequence[Allocation]
) -> list[Group]:
    """The groups of results whose memory is the device's own and fresh: nobody sees it before the program ends.

    A result that the runtime may make later, when somebody reads it (a transpose of another one), has no memory.
    """
    lenders = []
    for number, value in enumerate(results):
        group = value.group
        own = allocations[group.allocation] if group.allocation is not None else None
        if own is None or own.kind != ALLOCATION_RESULT or own.index != number:
            continue
        call = value.instruction
        deferred = call.opcode == "library-call" and call.attributes["name"] == "transpose"
        kinds = module.result_memory_kinds
        if own.aliased_parameter < 0 and not deferred and (not kinds or kinds[number] == "device"):
            lenders.append(group)
    return lenders


def _place(groups: Sequence[Group], lenders: Sequence[Group], arena: int) -> int:
    """Place temporaries in the allocation ``arena`` or in the memory of lenders; the arena's size."""
    size = place_in_arena(groups, arena)
    loans = lend(groups, lenders)
    if not loans:
        return size
    lent = {id(loan.group) for loan in loans}
    rest = place_in_arena([g for g in groups if id(g) not in lent], arena)
    if rest >= size:  # best fit is not the best of all
        return place_in_arena(groups, arena)
    for loan in loans:
        loan.group.allocation, loan.group.offset = loan.lender.allocation, loan.offset
    return rest


def _allocate_results(
    results: Sequence[Value],
    aliases: dict[int, int],
    parameters: Sequence[Value],
    allocations: list[Allocation],
) -> list[tuple[int, Value]]:
    """Append an allocation for each result. It belongs to the group of the result's value, unless that has a place
    already: such results, with their numbers, are given back, to be copied at the end.
    """
    fresh: list[tuple[int, Value]] = []
    taken: set[int] = set()
    for number, value in enumerate(results):
        group = value.group
        parameter = aliases.get(number, -1)
        if parameter >= 0:
            group = parameters[parameter].group
        elif (
            group.allocation is not None
            or group.read_only
            or id(group) in taken
            or _reserved(group, aliases, parameters)
        ):
            fresh.append((number, value))
            allocations.append(Allocation(ALLOCATION_RESULT, number, value.size))
            continue
        taken.add(id(group))
        group.allocation = len(allocations)
        allocations.append(
            Allocation(ALLOCATION_RESULT, number, value.size, aliased_parameter=parameter)
        )
    return fresh


def _join_what_moves(live: Liveness, sharing: _Sharing) -> None:
    """Joins that save a copy, the largest first; then those that save memory."""
    for loop in live.loops:
        wishes = list(zip(loop.state, loop.following, strict=True))
        wishes += list(zip(loop.state, loop.init, strict=True))
        for state, other in sorted(wishes, key=lambda w: -w[0].size):
            sharing.join(state.group, other.group)
    for branches in live.branches:
        for n in range(len(branches.results_of_branch)):
            for target, source in _pairs(branches, n):
                sharing.join(target.group, source.group)
    live.wishes.sort(key=lambda w: w[:2])
    for _, _, target_value, operand in live.wishes:
        sharing.join(target_value.group, operand.group)
    for stack in live.stacks:
        # Nothing else lies there in between if the output is updated in place.
        group = stack.output[0].group
        if all(v.group is group for v in stack.output):
            sharing.join(group, stack.input.group)


def _pairs(branches: Branches, n: int) -> list[tuple[Value, Value]]:
    """The results of a conditional, as far as they are arrays, and those of its branch ``n``."""
    pairs = zip(branches.results, branches.results_of_branch[n], strict=True)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _moves_inside(live: Liveness, temporaries: list[Group]) -> dict[Place, list[Move]]:
    """What could not be joined is copied: the moves of loops, branches and updates in place."""
    moves: dict[Place, list[Move]] = {}

    def ordered(pairs: Sequence[tuple[Value, Value]], time: int) -> list[Move]:
        return _sequence(pairs, time, temporaries)

    for loop in live.loops:
        begin = loop.state[0].start if loop.state else 0
        init = list(zip(loop.state, loop.init, strict=True))
        moves[loop.instruction, "init"] = ordered(init, begin)
        body = list(zip(loop.state, loop.following, strict=True))
        moves[loop.instruction, "body"] = ordered(body, loop.body_end)
    for branches in live.branches:
        for n, end in enumerate(branches.ends):
            pairs = _pairs(branches, n)
            moves[branches.instruction, str(n)] = ordered(pairs, end)
            for target, source in pairs:
                if target.group is not source.group:
                    target.group.begin_by(end)
    for instruction, values in live.values.items():
        if must_share(instruction):
            for new, candidates in zip(values, in_place_operands(instruction), strict=True):
                old = live.values[instruction.operands[candidates[0]]][0] if candidates else None
                if new is not None and old is not None and old.group is not new.group:
                    moves.setdefault((instruction, "copy"), []).append(Move(new, old))
    return moves


def _groups(values: Iterable[Value]) -> list[Group]:
    return list(dict.fromkeys(v.group for v in values))


def _reserved(group: Group, aliases: dict[int, int], parameters: Sequence[Value]) -> bool:
    """Whether the group holds a donated parameter that another result takes over."""
    return any(parameters[p].group is group for p in aliases.values())


def _place_constants(live: Liveness) -> tuple[bytes, list[tuple[Value, int]]]:
    """The CONSTANTS section, and each distinct constant's value with its offset. Equal literals are
    one value.
    """
    parts: list[bytes | memoryview] = []
    size = 0
    found: dict[tuple[bytes, int], Value] = {}
    placed: list[tuple[Value, int]] = []
    for value in live.all:
        if value.instruction.opcode != "constant":
            continue
        literal: np.ndarray = value.instruction.attributes["literal"]
        data, identity = _bytes_of(literal)
        value.group.read_only = True
        value.start = 0
        value.end = FOREVER
        first = found.get((identity, value.size))
        if first is not None:
            first.group.values.append(value)
            value.group = first.group
            continue
        found[identity, value.size] = value
        padding = -size % ALIGNMENT
        parts += [bytes(padding), data]
        size += padding
        placed.append((value, size))
        size += len(data)
    return b"".join(parts), placed


def _bytes_of(literal: np.ndarray) -> tuple[bytes | memoryview, bytes]:
    """The elements' bytes, and what tells them from others: themselves, or for large literals, of which no copy is
    made, their hash.
    """
    if literal.nbytes < LARGE_LITERAL or not literal.flags.c_contiguous:
        data = literal.tobytes()
        return data, data
    view = literal.reshape(-1).view(np.uint8).data
    return view, hashlib.sha256(view).digest()


def _donate(
    module: Module, results: Sequence[Value], parameters: Sequence[Value], sharing: _Sharing
) -> dict[int, int]:
    """Which result takes over which parameter's memory: result number -> parameter number.

    A "may" alias is dropped where the parameter is still read when the result must be there: then a
    fresh result saves a copy.
    """
    aliases: dict[int, int] = {}
    used: set[int] = set()

    def donate(result: int, parameter: int, must: bool) -> None:
        value, old = results[result], parameters[parameter]
        if result in aliases or parameter in used or value.size != old.size:
            return
        free = value is old or not (value.group.read_only or value.group.allocation is not None)
        if free and sharing.join(value.group, old.group, donated=True):
            old.group.read_only = False
            aliases[result] = parameter
            used.add(parameter)
        elif must:
            aliases[result] = parameter
            used.add(parameter)
            old.group.read_only = True

    for result, parameter, must in module.input_output_aliases:
        donate(result, parameter, must)
    for parameter in module.buffer_donors:
        for result, value in enumerate(results):
            same = value.shape == parameters[parameter].shape
            if same and parameter not in used and result not in aliases:
                donate(result, parameter, False)
    return aliases


def _final_moves(
    results: Sequence[Value],
    aliases: dict[int, int],
    parameters: Sequence[Value],
    fresh: Sequence[tuple[int, Value]],
    allocations: Sequence[Allocation],
    live: Liveness,
) -> list[tuple[Value, Value]]:
    """Copies at the end of the program: results that are parameters, constants or other results."""
    pairs: list[tuple[Value, Value]] = []
    by_number = {a.index: n for n, a in enumerate(allocations) if a.kind == ALLOCATION_RESULT}
    for number, value in fresh:
        place = Value(value.instruction, value.index, value.shape, live.end)
        place.end = FOREVER
        place.group.allocation = by_number[number]
        pairs.append((place, value))
    for number, parameter in aliases.items():
        if results[number].group is not parameters[parameter].group:
            pairs.append((parameters[parameter], results[number]))
    return pairs


def _sequence(
    pairs: Sequence[tuple[Value, Value]], time: int, temporaries: list[Group]
) -> list[Move]:
    """Order simultaneous moves (destination, source) so that none overwrites a source still to be
    read.

    Cycles are broken through a temporary.
    """
    waiting = {id(d.group): (d, s) for d, s in pairs if d.group is not s.group}
    readers: dict[int, int] = {}
    for _, source in waiting.values():
        readers[id(source.group)] = readers.get(id(source.group), 0) + 1
    ready = [key for key in waiting if key not in readers]
    moves: list[Move] = []
    while waiting:
        while ready:
            destination, source = waiting.pop(ready.pop())
            moves.append(Move(destination, source))
            key = id(source.group)
            readers[key] -= 1
            if not readers[key]:
                del readers[key]
                if key in waiting:
                    ready.append(key)
        if waiting:  # only cycles are left: save one destination's content, and let its readers read the copy
            key, (destination, _) = next(iter(waiting.items()))
            saved = Value(destination.instruction, destination.index, destination.shape, time)
            temporaries.append(saved.group)
            moves.append(Move(saved, destination))
            for other, (d, s) in list(waiting.items()):
                if s.group is destination.group:
                    waiting[other] = (d, saved)
            readers[id(saved.group)] = readers.pop(key)
            ready.append(key)
    return moves


# ---------------------------------------------------------------------------------------- checking


def check_assignment(module: Module, assignment: Assignment) -> None:
    """Prove that no two values that are alive at once overlap in memory; CompileError (INTERNAL) if
    they do.

    Values that touch in time are looked at by the instruction: it must allow that result in that
    operand's place.
    """
    live = liveness_of(module)
    spans: list[tuple[int, int, int, int, Value]] = []  # allocation, begin, end, start time; value
    fresh = {(v.instruction, v.index, v.start): v for v in live.all}
    for value in assignment.all_values:
        twin = fresh.get((value.instruction, value.index, value.start)) or value
        place = assignment.slice_of(value)
        if value.size and value.instruction.opcode != "constant":
            spans.append(
                (place.allocation, place.offset, place.offset + value.size, value.start, twin)
            )
            if place.offset % ALIGNMENT:
                raise internal(f"buffer of {value!r} is not aligned")
            if place.offset + place.size > assignment.allocations[place.allocation].size:
                raise internal(f"buffer of {value!r} ends behind its allocation")
    spans.sort(key=lambda s: (s[0], s[3], s[1]))
    active: list[tuple[int, int, int, int, Value]] = []
    for span in spans:
        allocation, begin, end, start, value = span
        active = [a for a in active if a[0] == allocation and a[4].end >= start]
        for other in active:
            overlap = other[1] < end and begin < other[2]
            if overlap and other[4].end > live.touching.get((other[4], value), -1):
                raise internal(f"{other[4]!r} and {value!r} overlap in memory")
        active.append(span)


def print_assignment(assignment: Assignment) -> str:
    """The assignment as text: allocations, then every value with its place and the time it is
    alive.
    """
    lines = []
    for n, a in enumerate(assignment.allocations):
        alias = (
            f", in the memory of parameter {a.aliased_parameter}"
            if a.aliased_parameter >= 0
            else ""
        )
        lines.append(f"allocation {n}: {ALLOCATION_KINDS[a.kind]} {a.index}, {a.size} bytes{alias}")
    for value in assignment.all_values:
        place = assignment.slice_of(value)
        end = "end" if value.end >= FOREVER else str(value.end)
        name = value.instruction.name + (
            f".{value.index}" if len(value.instruction.result_shapes) > 1 else ""
        )
        where = f"{place.allocation}[{place.offset}:{place.offset + place.size}]"
        lines.append(f"{name}: {value.shape} at {where}, alive {value.start} to {end}")
    return "\n".join(lines) + "\n"
