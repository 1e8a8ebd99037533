"""Buffer assignment: where every value of a scheduled program lives.

Time. :class:`_Liveness` walks the schedule (the order of instructions, loops and branches in place) and numbers what
happens. A value is alive from the time it is made to its last use; something used in a loop but made outside stays alive to the
loop's end. Values that are other values (get-tuple-element, bitcast, an invariant of a loop, a branch's parameter) are aliases and
have no memory of their own.

Sharing. A :class:`Group` is a set of values, no two alive at once, that live in the same memory. Groups are joined where
that saves a copy or memory: a loop's state from iteration to iteration, a donated parameter and the result that takes its place,
dynamic-update-slice and scatter with the array they update, an elementwise kernel with a dying operand. Where values that must be
in one place (a loop's state) could not be joined, a copy moves them.

Placing. Groups of parameters, constants and results have allocations of their own; the others get offsets in one
temporary arena, by best fit along the time axis. Total cost O(n log n).

Every control flow computation must have one caller (pass ``unshare_control_flow``), since values are known by their instruction.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from .artifact import (
    ALIGNMENT,
    ALLOCATION_CONSTANT,
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    ALLOCATION_TEMP,
    Allocation,
    Slice,
)
from .errors import internal, resource_exhausted
from .hlo import Computation, Instruction, Module, Shape
from .inplace import in_place_operands, must_share

MAXIMUM_BYTES: Final = 1 << 46  # no machine has more memory; beyond this sizes are a mistake in the program
_FOREVER: Final = 1 << 60


class Value:
    """One array: alive in [start, end], both times included."""

    __slots__ = ("end", "group", "index", "instruction", "shape", "start")

    def __init__(self, instruction: Instruction, index: int, shape: Shape, start: int) -> None:
        self.instruction = instruction
        self.index = index
        self.shape = shape
        self.start = start
        self.end = start
        self.group = Group(self)

    @property
    def size(self) -> int:
        return self.shape.bytes

    def __repr__(self) -> str:
        return f"{self.instruction.name}.{self.index} {self.shape} [{self.start}, {self.end}]"


class Group:
    """Values in the same memory. ``allocation``: where it is bound to be, None for the arena."""

    __slots__ = ("allocation", "offset", "read_only", "size", "values")

    def __init__(self, value: Value) -> None:
        self.values = [value]  # sorted by start; none overlap
        self.size = value.shape.bytes
        self.allocation: int | None = None
        self.read_only = False
        self.offset = 0

    @property
    def start(self) -> int:
        return self.values[0].start

    @property
    def end(self) -> int:
        return max(v.end for v in self.values)


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
    moves: dict[tuple[Instruction | None, str], list[Move]]
    all_values: list[Value] = field(default_factory=list)

    def slice_of(self, value: Value) -> Slice:
        group = value.group
        assert group.allocation is not None
        return Slice(group.allocation, group.offset, value.shape.bytes)

    def slices(self, instruction: Instruction) -> list[Slice]:
        """The slices of an instruction's array results (tokens have none)."""
        return [self.slice_of(v) for v in self.values[instruction] if v is not None]

    def operand_values(self, instruction: Instruction) -> list[Value]:
        values = [self.values[o][0] for o in instruction.operands]
        return [v for v in values if v is not None]


# ---------------------------------------------------------------------------------------------------- liveness


class _Liveness:
    """Numbers the schedule and finds the values and when they are alive."""

    def __init__(self, module: Module) -> None:
        self.time = 0
        self.values: dict[Instruction, tuple[Value | None, ...]] = {}
        self.all: list[Value] = []
        # Pairs (dying value, new value) that touch in time but may share memory all the same.
        self.touching: set[tuple[Value, Value]] = set()
        self.wishes: list[tuple[int, int, Value, Value]] = []  # (priority, -bytes, new value, old value)
        self.loops: list[_Loop] = []
        self.branches: list[_Branches] = []
        entry = module.entry
        for p in entry.parameters:
            self.values[p] = (self.define(p, 0, p.shape),)
        self.visit(entry)
        self.end = self.tick()
        self.results = [self.values[r][0] for r in entry.results]
        for value in self.results:
            if value is not None:
                value.end = _FOREVER

    def tick(self) -> int:
        self.time += 1
        return self.time

    def define(self, instruction: Instruction, index: int, shape: object) -> Value | None:
        if not isinstance(shape, Shape):
            return None
        if shape.bytes > MAXIMUM_BYTES:
            raise resource_exhausted(
                f"{shape} takes {shape.bytes} bytes", op=instruction.opcode, metadata=instruction.metadata
            )
        value = Value(instruction, index, shape, self.time)
        self.all.append(value)
        return value

    def use(self, values: Iterable[Value | None], time: int) -> None:
        for value in values:
            if value is not None and value.end < time:
                value.end = time

    def operands(self, instruction: Instruction) -> list[Value | None]:
        return [self.values[o][0] for o in instruction.operands]

    def visit(self, computation: Computation) -> None:
        values = self.values
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if opcode == "parameter":
                continue
            if opcode == "get-tuple-element":
                values[instruction] = (values[instruction.operands[0]][instruction.attributes["index"]],)
            elif opcode == "tuple" or opcode == "optimization-barrier":
                values[instruction] = tuple(self.operands(instruction))
            elif opcode == "bitcast":
                values[instruction] = (values[instruction.operands[0]][0],)
            elif opcode == "after-all":
                values[instruction] = (None,)
            elif opcode == "while":
                self.visit_while(instruction)
            elif opcode == "conditional":
                self.visit_conditional(instruction)
            else:
                self.visit_plain(instruction)

    def visit_plain(self, instruction: Instruction) -> None:
        time = self.tick()
        operands = self.operands(instruction)
        self.use(operands, time)
        results = tuple(self.define(instruction, n, s) for n, s in enumerate(instruction.result_shapes))
        self.values[instruction] = results
        if not operands:
            return
        priority = 1 if must_share(instruction) else 3
        for result, candidates in zip(results, in_place_operands(instruction), strict=True):
            if result is None:
                continue
            for position in candidates:
                operand = operands[position]
                if operand is None or operand.size != result.size:
                    continue
                # The same memory must not come in through another operand that is read elsewhere.
                if all(o is not operand or n in candidates for n, o in enumerate(operands)):
                    self.touching.add((operand, result))
                    self.wishes.append((priority, -result.size, result, operand))

    def visit_while(self, instruction: Instruction) -> None:
        condition, body = instruction.called
        begin = self.tick()
        init = self.operands(instruction)
        self.use(init, begin)
        count = len(init)
        invariant = [_resolve(r) is p for r, p in zip(body.results, body.parameters, strict=True)]
        state: list[Value | None] = []
        for n, (value, p) in enumerate(zip(init, body.parameters, strict=True)):
            carried = value if invariant[n] else self.define(instruction, n, p.shape)
            state.append(carried)
            self.values[p] = self.values[condition.parameters[n]] = (carried,)
            if carried is not None and value is not None and not invariant[n]:
                self.touching.add((value, carried))
        self.visit(condition)
        self.use([*state, self.values[condition.results[0]][0]], self.tick())
        self.visit(body)
        following = [self.values[r][0] for r in body.results]
        body_end = self.tick()
        self.use(following, body_end)
        end = self.tick()
        self.use([v for v, fixed in zip(state, invariant, strict=True) if fixed], end)
        results = tuple(
            state[n] if invariant[n] else self.define(instruction, n, instruction.result_shapes[n])
            for n in range(count)
        )
        self.values[instruction] = results
        carried_numbers = [n for n in range(count) if not invariant[n] and state[n] is not None]
        self.loops.append(
            _Loop(
                instruction,
                [init[n] for n in carried_numbers],  # type: ignore[misc]
                [state[n] for n in carried_numbers],  # type: ignore[misc]
                [following[n] for n in carried_numbers],  # type: ignore[misc]
                [results[n] for n in carried_numbers],  # type: ignore[misc]
                body_end,
            )
        )

    def visit_conditional(self, instruction: Instruction) -> None:
        begin = self.tick()
        operands = self.operands(instruction)
        self.use(operands, begin)
        first = 1
        branches: list[list[Value | None]] = []
        ends: list[int] = []
        for branch in instruction.called:
            for p in branch.parameters:
                self.values[p] = (operands[first + p.attributes["index"]],)
            first += len(branch.parameters)
            self.visit(branch)
            results = [self.values[r][0] for r in branch.results]
            ends.append(self.tick())
            self.use(results, ends[-1])
            branches.append(results)
        self.tick()
        values = tuple(self.define(instruction, n, s) for n, s in enumerate(instruction.result_shapes))
        self.values[instruction] = values
        self.branches.append(_Branches(instruction, branches, values, ends))


@dataclass(slots=True)
class _Loop:
    """The states of a while that change: lists in parallel, one entry a state."""

    instruction: Instruction
    init: list[Value]
    state: list[Value]
    following: list[Value]  # the body's results
    results: list[Value]
    body_end: int


@dataclass(slots=True)
class _Branches:
    instruction: Instruction
    results_of_branch: list[list[Value | None]]
    results: tuple[Value | None, ...]
    ends: list[int]


def _resolve(instruction: Instruction) -> Instruction:
    """The instruction whose memory ``instruction`` is, as far as its own computation tells."""
    while True:
        if instruction.opcode == "get-tuple-element":
            source = instruction.operands[0]
            if source.opcode not in ("tuple", "optimization-barrier"):
                return instruction
            instruction = source.operands[instruction.attributes["index"]]
        elif instruction.opcode in ("bitcast", "optimization-barrier") and len(instruction.operands) == 1:
            instruction = instruction.operands[0]
        else:
            return instruction


# ------------------------------------------------------------------------------------------------------ sharing


class _Sharing:
    """Joins groups."""

    def __init__(self, touching: set[tuple[Value, Value]]) -> None:
        self.touching = touching

    def compatible(self, a: Value, b: Value) -> bool:
        """Whether two values are never alive at the same time (``a`` starts first)."""
        if a.end < b.start:
            return True
        return a.end == b.start and a is not b and (a, b) in self.touching

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

    Moves are keyed (while, "init") before the loop, (while, "body") at the end of each iteration, (conditional, "0"), ... at
    the end of a branch, (instruction, "copy") before an instruction that updates its operand in place, and (None, "results")
    at the end of the program; each list is in an order in which no move overwrites what a later one reads.

    Raises CompileError (RESOURCE_EXHAUSTED) for sizes that no machine has.
    """
    live = _Liveness(module)
    sharing = _Sharing(live.touching)
    entry = module.entry
    allocations: list[Allocation] = []

    # Loops: the state while the loop runs and the result after it are one memory by definition.
    for loop in live.loops:
        for state, result in zip(loop.state, loop.results, strict=True):
            if not sharing.join(state.group, result.group, force=True):
                raise internal("a loop's state changes its size", op="while")

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

    # A result's allocation belongs to the group of its value, unless that has a place already.
    result_groups: list[Group | None] = []
    fresh: list[tuple[int, Value]] = []
    taken: set[int] = set()
    for number, value in enumerate(results):
        group = value.group
        parameter = aliases.get(number, -1)
        if parameter >= 0:
            group = parameters[parameter].group
        elif group.allocation is not None or group.read_only or id(group) in taken or _reserved(group, aliases, parameters):
            fresh.append((number, value))
            allocations.append(Allocation(ALLOCATION_RESULT, number, value.size))
            result_groups.append(None)
            continue
        taken.add(id(group))
        group.allocation = len(allocations)
        allocations.append(
            Allocation(ALLOCATION_RESULT, number, value.size, aliased_parameter=parameter)
        )
        result_groups.append(group)
    moves: dict[tuple[Instruction | None, str], list[Move]] = {}

    # Joins that save a copy, the largest first; then those that save memory.
    for loop in live.loops:
        wishes = list(zip(loop.state, loop.following, strict=True))
        wishes += list(zip(loop.state, loop.init, strict=True))
        for state, other in sorted(wishes, key=lambda w: -w[0].size):
            sharing.join(state.group, other.group)
    for branches in live.branches:
        for results_of_branch in branches.results_of_branch:
            for result, value_ in zip(branches.results, results_of_branch, strict=True):
                if result is not None and value_ is not None:
                    sharing.join(result.group, value_.group)
    live.wishes.sort(key=lambda w: w[:2])
    for _, _, result, operand in live.wishes:
        sharing.join(result.group, operand.group)

    # What could not be joined is copied.
    temporaries: list[Group] = []

    def ordered(pairs: Sequence[tuple[Value, Value]], time: int) -> list[Move]:
        return _sequence(pairs, time, live.all, temporaries)

    for loop in live.loops:
        begin = loop.state[0].start if loop.state else 0
        init = list(zip(loop.state, loop.init, strict=True))
        moves[loop.instruction, "init"] = ordered(init, begin)
        body = list(zip(loop.state, loop.following, strict=True))
        moves[loop.instruction, "body"] = ordered(body, loop.body_end)
    for branches in live.branches:
        for n, results_of_branch in enumerate(branches.results_of_branch):
            pairs = [
                (r, v)
                for r, v in zip(branches.results, results_of_branch, strict=True)
                if r is not None and v is not None
            ]
            moves[branches.instruction, str(n)] = ordered(pairs, branches.ends[n])
    for instruction, values in live.values.items():
        if must_share(instruction):
            for result, candidates in zip(values, in_place_operands(instruction), strict=True):
                if not candidates:
                    continue
                operand = live.values[instruction.operands[candidates[0]]][0]
                if result is not None and operand is not None and operand.group is not result.group:
                    moves.setdefault((instruction, "copy"), []).append(Move(result, operand))
    final = _final_moves(results, aliases, parameters, fresh, allocations, live)
    moves[None, "results"] = ordered(final, live.end)

    arena = _place_in_arena([*_groups(live.all), *temporaries], len(allocations))
    if arena:
        allocations.append(Allocation(ALLOCATION_TEMP, 0, arena))
    return Assignment(allocations, constants, live.values, moves, live.all)


def _groups(values: Iterable[Value]) -> list[Group]:
    return list(dict.fromkeys(v.group for v in values))


def _reserved(group: Group, aliases: dict[int, int], parameters: Sequence[Value]) -> bool:
    """Whether the group holds a donated parameter that another result takes over."""
    return any(parameters[p].group is group for p in aliases.values())


def _place_constants(live: _Liveness) -> tuple[bytes, list[tuple[Value, int]]]:
    """The CONSTANTS section, and each distinct constant's value with its offset. Equal literals are one value."""
    parts: list[bytes] = []
    size = 0
    found: dict[tuple[bytes, int], Value] = {}
    placed: list[tuple[Value, int]] = []
    for value in live.all:
        if value.instruction.opcode != "constant":
            continue
        literal: np.ndarray = value.instruction.attributes["literal"]
        data = np.ascontiguousarray(literal).tobytes()
        value.group.read_only = True
        value.start = 0
        value.end = _FOREVER
        first = found.get((data, value.size))
        if first is not None:
            first.group.values.append(value)
            value.group = first.group
            continue
        found[data, value.size] = value
        padding = -size % ALIGNMENT
        parts += [bytes(padding), data]
        size += padding
        placed.append((value, size))
        size += len(data)
    return b"".join(parts), placed


def _donate(
    module: Module, results: Sequence[Value], parameters: Sequence[Value], sharing: _Sharing
) -> dict[int, int]:
    """Which result takes over which parameter's memory: result number -> parameter number.

    A "may" alias is dropped where the parameter is still read when the result must be there: then a fresh result saves a copy.
    """
    aliases: dict[int, int] = {}
    used: set[int] = set()

    def donate(result: int, parameter: int, must: bool) -> None:
        value, old = results[result], parameters[parameter]
        if result in aliases or parameter in used or value.size != old.size:
            return
        if value is old or (not value.group.read_only and value.group.allocation is None):
            if sharing.join(value.group, old.group, donated=True):
                old.group.read_only = False
                aliases[result] = parameter
                used.add(parameter)
                return
        if must:
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
    live: _Liveness,
) -> list[tuple[Value, Value]]:
    """Copies at the end of the program: results that are parameters, constants or other results."""
    pairs: list[tuple[Value, Value]] = []
    by_number = {a.index: n for n, a in enumerate(allocations) if a.kind == ALLOCATION_RESULT}
    for number, value in fresh:
        place = Value(value.instruction, value.index, value.shape, live.end)
        place.end = _FOREVER
        place.group.allocation = by_number[number]
        pairs.append((place, value))
    for number, parameter in aliases.items():
        if results[number].group is not parameters[parameter].group:
            pairs.append((parameters[parameter], results[number]))
    return pairs


def _sequence(
    pairs: Sequence[tuple[Value, Value]], time: int, values: list[Value], temporaries: list[Group]
) -> list[Move]:
    """Order simultaneous moves (destination, source) so that none overwrites a source still to be read.

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


# ------------------------------------------------------------------------------------------------------ placing


def _place_in_arena(groups: Sequence[Group], allocation: int) -> int:
    """Give every group without an allocation an offset in the arena; its size."""
    placing = [g for g in groups if g.allocation is None]
    events = sorted(placing, key=lambda g: (g.start, -g.size))
    ending = sorted(((g.end, n) for n, g in enumerate(events)))
    free = _FreeList()
    next_end = 0
    for group in events:
        while next_end < len(ending) and ending[next_end][0] < group.start:
            done = events[ending[next_end][1]]
            free.release(done.offset, _rounded(done.size))
            next_end += 1
        group.allocation = allocation
        group.offset = free.take(_rounded(group.size))
    return free.top


def _rounded(size: int) -> int:
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)


class _FreeList:
    """Free blocks of the arena: best fit, neighbours merged."""

    def __init__(self) -> None:
        self.top = 0
        self.by_size: list[tuple[int, int]] = []  # (size, offset)
        self.by_start: dict[int, int] = {}  # offset -> size
        self.by_end: dict[int, int] = {}  # end -> size

    def _insert(self, offset: int, size: int) -> None:
        bisect.insort(self.by_size, (size, offset))
        self.by_start[offset] = size
        self.by_end[offset + size] = size

    def _remove(self, offset: int, size: int) -> None:
        del self.by_size[bisect.bisect_left(self.by_size, (size, offset))]
        del self.by_start[offset]
        del self.by_end[offset + size]

    def take(self, size: int) -> int:
        at = bisect.bisect_left(self.by_size, (size, 0))
        if at < len(self.by_size):
            found, offset = self.by_size[at]
            self._remove(offset, found)
            if found > size:
                self._insert(offset + size, found - size)
            return offset
        last = self.by_end.get(self.top)
        if last is not None:  # grow the free block at the end
            offset = self.top - last
            self._remove(offset, last)
            self.top = offset + size
            return offset
        offset = self.top
        self.top += size
        return offset

    def release(self, offset: int, size: int) -> None:
        before = self.by_end.get(offset)
        if before is not None:
            self._remove(offset - before, before)
            offset -= before
            size += before
        after = self.by_start.get(offset + size)
        if after is not None:
            self._remove(offset + size, after)
            size += after
        self._insert(offset, size)


# ----------------------------------------------------------------------------------------------------- checking


def check_assignment(module: Module, assignment: Assignment) -> None:
    """Prove that no two values that are alive at once overlap in memory; CompileError (INTERNAL) if they do.

    Values that touch in time are looked at by the instruction: it must allow that result in that operand's place.
    """
    live = _Liveness(module)
    spans: list[tuple[int, int, int, int, Value]] = []  # allocation, begin, end, start time; value
    fresh = {(v.instruction, v.index, v.start): v for v in live.all}
    for value in assignment.all_values:
        twin = fresh.get((value.instruction, value.index, value.start)) or value
        place = assignment.slice_of(value)
        if value.size and value.instruction.opcode != "constant":
            spans.append((place.allocation, place.offset, place.offset + value.size, value.start, twin))
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
            if other[1] < end and begin < other[2]:
                touching = other[4].end == start and (other[4], value) in live.touching
                if not touching:
                    raise internal(f"{other[4]!r} and {value!r} overlap in memory")
        active.append(span)


def print_assignment(assignment: Assignment) -> str:
    """The assignment as text: allocations, then every value with its place and the time it is alive."""
    kinds = {
        ALLOCATION_PARAMETER: "parameter",
        ALLOCATION_RESULT: "result",
        ALLOCATION_CONSTANT: "constant",
        ALLOCATION_TEMP: "temporary",
    }
    lines = []
    for n, a in enumerate(assignment.allocations):
        alias = f", in the memory of parameter {a.aliased_parameter}" if a.aliased_parameter >= 0 else ""
        lines.append(f"allocation {n}: {kinds[a.kind]} {a.index}, {a.size} bytes{alias}")
    for value in assignment.all_values:
        place = assignment.slice_of(value)
        end = "end" if value.end >= _FOREVER else str(value.end)
        name = value.instruction.name + (f".{value.index}" if len(value.instruction.result_shapes) > 1 else "")
        where = f"{place.allocation}[{place.offset}:{place.offset + place.size}]"
        lines.append(f"{name}: {value.shape} at {where}, alive {value.start} to {end}")
    return "\n".join(lines) + "\n"
