"""Liveness: which values a scheduled program has, and when each is alive.

:class:`Liveness` walks the schedule (the order of instructions, loops and branches in place) and
numbers what happens. A value is alive from the time it is made to its last use; something used in a
loop but made outside stays alive to the loop's end. Values that are other values
(get-tuple-element, bitcast, an invariant of a loop, a branch's parameter) are aliases and have no
memory of their own. A view (:mod:`.views`) is a value of its own in the memory of another one, its base, which
lives as long as the view does.

A conditional runs one of its branches. An array that dies in them is another value in each, a share, in the same
memory: what a branch writes over its share, the other branches do not see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..ir.errors import internal, resource_exhausted
from ..ir.hlo import Computation, Instruction, Module, Shape
from .inplace import in_place_operands, must_share
from .stacks import stacks_of
from .views import is_view

# No machine has more memory: a size beyond this is a mistake in the program.
MAXIMUM_BYTES: Final = 1 << 46
FOREVER: Final = 1 << 60


class Value:
    """One array: alive in [start, end], both times included. ``base``: the array that a view is a piece of."""

    __slots__ = ("base", "end", "group", "index", "instruction", "shape", "size", "start")

    def __init__(self, instruction: Instruction, index: int, shape: Shape, start: int) -> None:
        self.instruction = instruction
        self.index = index
        self.shape = shape
        self.size = shape.bytes
        self.start = start
        self.end = start
        self.base: Value | None = None
        self.group = Group(self)

    def __repr__(self) -> str:
        return f"{self.instruction.name}.{self.index} {self.shape} [{self.start}, {self.end}]"


class Group:
    """Values in the same memory. ``allocation``: where it is bound to be, None for the arena."""

    __slots__ = ("allocation", "first_move", "offset", "read_only", "size", "values")

    def __init__(self, value: Value) -> None:
        self.values = [value]  # sorted by start; none overlap
        self.size = value.shape.bytes
        self.first_move = FOREVER
        self.allocation: int | None = None
        self.read_only = False
        self.offset = 0

    @property
    def start(self) -> int:
        return min(self.values[0].start, self.first_move)

    def begin_by(self, time: int) -> None:
        """A move writes here at ``time``, before the value that it makes is numbered: at the end of
        a branch, where other branches' results may still wait for their own moves.
        """
        self.first_move = min(self.first_move, time)

    @property
    def end(self) -> int:
        return max(v.end for v in self.values)


def liveness_of(module: Module) -> Liveness:
    """The values of ``module``, with shares wherever an array dies in a conditional."""
    shared: set[tuple[Instruction, int]] = set()
    while True:  # twice: the first time finds all
        live = Liveness(module, frozenset(shared))
        found = live.dying_in_branches() - shared
        if not found:
            return live
        shared |= found


class Liveness:
    """Numbers the schedule and finds the values and when they are alive.

    ``shared``: the operands, by conditional and position, that die in the branches, so that each branch has its share.
    """

    def __init__(
        self, module: Module, shared: frozenset[tuple[Instruction, int]] = frozenset()
    ) -> None:
        self.shared = shared
        self.time = 0
        self.values: dict[Instruction, tuple[Value | None, ...]] = {}
        self.all: list[Value] = []
        # Pairs (dying value, new value) that touch in time but may share memory all the same, if the old one ends by
        # the time that is given.
        self.touching: dict[tuple[Value, Value], int] = {}
        # (priority, -bytes, new value, old value).
        self.wishes: list[tuple[int, int, Value, Value]] = []
        self.loops: list[Loop] = []
        self.stacks: list[Stack] = []
        self.branches: list[Branches] = []  # inner conditionals before those around them
        self.views: list[Value] = []
        # In-place operands of fusions, of which equal ones have one computation.
        self.in_place: dict[tuple[Computation, Any], list[tuple[int, ...]]] = {}
        entry = module.entry
        for p in entry.parameters:
            self.values[p] = (self.define(p, 0, p.shape),)
        self.visit(entry)
        self.end = self.tick()
        self.results = [self.values[r][0] for r in entry.results]
        self.use(self.results, FOREVER)
        self.end_scope(0, None)
        self.end_stacks()

    def tick(self) -> int:
        self.time += 1
        return self.time

    def define(self, instruction: Instruction, index: int, shape: object) -> Value | None:
        if not isinstance(shape, Shape):
            return None
        if shape.bytes > MAXIMUM_BYTES:
            raise resource_exhausted(
                f"{shape} takes {shape.bytes} bytes",
                op=instruction.opcode,
                metadata=instruction.metadata,
            )
        value = Value(instruction, index, shape, self.time)
        self.all.append(value)
        return value

    def use(self, values: Iterable[Value | None], time: int) -> None:
        for value in values:
            while value is not None and value.end < time:
                value.end = time
                value = value.base

    def use_again(self, invariants: Iterable[Value | None], end: int) -> None:
        """The next iteration reads a loop's invariants anew, wherever in the body their last use stands."""
        self.use(invariants, end)

    def check_new(self, instruction: Instruction) -> None:
        """A second place of an instruction would take the memory of the first."""
        if instruction in self.values:
            raise internal("an instruction belongs to two computations", op=instruction.opcode)

    def operands(self, instruction: Instruction) -> list[Value | None]:
        values = self.values
        return [values[o][0] for o in instruction.operands]

    def visit(self, computation: Computation) -> None:
        values = self.values
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if opcode == "parameter":
                continue
            self.check_new(instruction)
            if opcode == "get-tuple-element":
                values[instruction] = (
                    values[instruction.operands[0]][instruction.attributes["index"]],
                )
            elif opcode == "tuple" or opcode == "optimization-barrier":
                values[instruction] = tuple(self.operands(instruction))
            elif opcode == "bitcast":
                values[instruction] = (values[instruction.operands[0]][0],)
            elif opcode == "after-all":
                values[instruction] = (None,)
            elif opcode == "collective-done":
                self.visit_done(instruction)
            elif opcode == "while":
                self.visit_while(instruction)
            elif opcode == "conditional":
                self.visit_conditional(instruction)
            elif is_view(instruction):
                self.visit_view(instruction)
            else:
                self.visit_plain(instruction)

    def visit_plain(self, instruction: Instruction) -> None:
        time = self.tick()
        operands = self.operands(instruction)
        self.use(operands, time)
        results = tuple(
            self.define(instruction, n, s) for n, s in enumerate(instruction.result_shapes)
        )
        self.values[instruction] = results
        if not operands:
            return
        priority = 1 if must_share(instruction) else 3
        places: dict[Value | None, list[int]] = {}  # where each value comes in
        for n, o in enumerate(operands):
            places.setdefault(o, []).append(n)
        for result, candidates in zip(results, self.in_place_operands(instruction), strict=True):
            if result is None:
                continue
            for position in candidates:
                operand = operands[position]
                if operand is None or operand.size != result.size:
                    continue
                if comes_in_only_at(places[operand], candidates):
                    self.touching[operand, result] = time
                    self.wishes.append((priority, -result.size, result, operand))

    def visit_view(self, instruction: Instruction) -> None:
        time = self.tick()
        operands = self.operands(instruction)
        self.use(operands, time)
        value = self.define(instruction, 0, instruction.shape)
        if value is not None:
            value.base = operands[0]
            value.group.read_only = True  # others still read what it is a piece of
            self.views.append(value)
        self.values[instruction] = (value,)

    def in_place_operands(self, instruction: Instruction) -> list[tuple[int, ...]]:
        """See :func:`.inplace.in_place_operands`."""
        if instruction.opcode != "fusion" or len(instruction.attributes) > 1:
            return in_place_operands(instruction)
        key = (instruction.called[0], instruction.attributes["kind"])
        found = self.in_place.get(key)
        if found is None:
            found = self.in_place[key] = in_place_operands(instruction)
        return found

    def visit_done(self, instruction: Instruction) -> None:
        """The results of a collective that has begun before. Until now it reads its operands and writes its results."""
        time = self.tick()
        start = instruction.operands[0]
        operands = self.operands(start)
        results = self.values[start]
        for result in results:
            for operand in operands:
                # What dies where the collective begins, and may be overwritten there, may be so until it ends.
                if operand is None or result is None or operand.end != result.start:
                    continue
                if (operand, result) in self.touching:
                    self.touching[operand, result] = time
        self.use([*operands, *results], time)
        self.values[instruction] = results

    def visit_while(self, instruction: Instruction) -> None:
        condition, body = instruction.called
        begin = self.tick()
        init = self.operands(instruction)
        self.use(init, begin)
        count = len(init)
        invariant = [resolve(r) is p for r, p in zip(body.results, body.parameters, strict=True)]
        state: list[Value | None] = []
        for n, (value, p) in enumerate(zip(init, body.parameters, strict=True)):
            carried = value if invariant[n] else self.define(instruction, n, p.shape)
            state.append(carried)
            self.check_new(p)
            self.check_new(condition.parameters[n])
            self.values[p] = self.values[condition.parameters[n]] = (carried,)
            if carried is not None and value is not None and not invariant[n]:
                self.touching[value, carried] = begin
        self.visit(condition)
        self.use([*state, self.values[condition.results[0]][0]], self.tick())
        self.visit(body)
        following = [self.values[r][0] for r in body.results]
        body_end = self.tick()
        self.use([v for v, fixed in zip(following, invariant, strict=True) if not fixed], body_end)
        end = self.tick()
        self.use_again([v for v, fixed in zip(state, invariant, strict=True) if fixed], end)
        results = tuple(
            state[n] if invariant[n] else self.define(instruction, n, instruction.result_shapes[n])
            for n in range(count)
        )
        self.values[instruction] = results
        carried_numbers = [n for n in range(count) if not invariant[n] and state[n] is not None]
        self.loops.append(
            Loop(
                instruction,
                [init[n] for n in carried_numbers],  # type: ignore[misc]
                [state[n] for n in carried_numbers],  # type: ignore[misc]
                [following[n] for n in carried_numbers],  # type: ignore[misc]
                [results[n] for n in carried_numbers],  # type: ignore[misc]
                body_end,
            )
        )
        self.find_stacks(instruction, init, state, end)

    def find_stacks(
        self,
        loop: Instruction,
        init: Sequence[Value | None],
        state: Sequence[Value | None],
        end: int,
    ) -> None:
        """Outputs that ``loop`` may write over inputs which die with it, at ``end``. What lies in the output's memory
        before, in and behind the loop touches the input.
        """
        values = self.values
        stacks = stacks_of(loop)
        # How often each array comes in, itself or a piece of it.
        comes_in = Counter(b for v in (*init, *state) for b in _bases(v)) if stacks else Counter()
        for found in stacks:
            old, n = state[found.read], found.written
            output = [init[n], state[n], values[found.update][0], values[loop][n]]
            kept = [v for v in output if v is not None]
            # No other state is the input, or a piece of it, and none begins in the memory that the output has before.
            if old is None or comes_in[old] != 2 or comes_in[kept[0]] != 1:
                continue
            reads = (v for r in found.readers for v in values[r] if v is not None)
            written = kept[2].start
            if all((v.start if v.base is None else v.end) < written for v in reads):
                self.stacks.append(Stack(old, kept, end))

    def end_stacks(self) -> None:
        """Keep those of the outputs whose memory nothing else takes later than their loop: that of another loop would
        have to be copied here first, over the input.
        """
        self.stacks = [s for s in self.stacks if s.output[0].end == s.output[1].start]
        self.touching.update(((s.input, v), s.end) for s in self.stacks for v in s.output)

    def visit_conditional(self, instruction: Instruction) -> None:
        begin = self.tick()
        operands = self.operands(instruction)
        self.use(operands, begin)
        first = 1
        conditional = Branches(instruction, operands, begin)
        ends, shares = conditional.ends, conditional.shares
        for branch in instruction.called:
            self.tick()
            inside = len(self.branches)
            own: dict[Value, Value | None] = {}  # a value may be several operands
            for p in branch.parameters:
                self.check_new(p)
                position = first + p.attributes["index"]
                value = operands[position]
                if value is not None and (instruction, position) in self.shared:
                    if value not in own:
                        own[value] = share = self.define(p, 0, p.shape)
                        assert share is not None
                        shares.append((value, share))
                    value = own[value]
                self.values[p] = (value,)
            first += len(branch.parameters)
            self.visit(branch)
            results = [self.values[r][0] for r in branch.results]
            ends.append(self.tick())
            self.use(results, ends[-1])
            conditional.results_of_branch.append(results)
            self.end_scope(inside, conditional)
        self.tick()
        values = tuple(
            self.define(instruction, n, s) for n, s in enumerate(instruction.result_shapes)
        )
        self.values[instruction] = conditional.results = values
        self.branches.append(conditional)

    def end_scope(self, first: int, around: Branches | None) -> None:
        """Note what has died in the conditionals from ``first`` on, which lie in a branch of ``around`` that ends here,
        or in the program. Other branches, which come later, may read it too.
        """
        for branches in self.branches[first:]:
            if branches.scope_ended:
                continue  # it lies in a branch of another one of them
            branches.scope_ended, branches.around = True, around
            branches.dying = {
                value
                for value in branches.operands
                if value is not None and branches.begin < value.end <= branches.ends[-1]
            }

    def dying_in_branches(self) -> set[tuple[Instruction, int]]:
        """The operands of conditionals that a branch reads, or gives on, and nothing behind the conditional."""
        bases = {view.base for view in self.views}
        found: set[tuple[Instruction, int]] = set()
        for branches in reversed(self.branches):  # outer ones first
            around = branches.around
            # What comes from outside lives on there unless it dies there, too.
            kept = set() if around is None else {*around.operands} - around.dying
            branches.dying = {
                value
                for value in branches.dying - kept - bases
                if value.base is None and value.instruction.opcode != "constant"
            }
            found |= {
                (branches.instruction, position)
                for position, value in enumerate(branches.operands)
                if value in branches.dying
            }
        return found


def _bases(value: Value | None) -> Iterator[Value]:
    """``value``, and what it is a piece of."""
    while value is not None:
        yield value
        value = value.base


def comes_in_only_at(places: Sequence[int], candidates: Sequence[int]) -> bool:
    """Whether a value that an instruction takes at operands ``places`` comes in only where it may be overwritten.

    The same memory must not come in through another operand that is read elsewhere.
    """
    return all(n in candidates for n in places)


@dataclass(slots=True)
class Loop:
    """The states of a while that change: lists in parallel, one entry a state."""

    instruction: Instruction
    init: list[Value]
    state: list[Value]
    following: list[Value]  # the body's results
    results: list[Value]
    body_end: int


@dataclass(slots=True)
class Stack:
    """An ``input`` of a loop, and what an ``output`` is before, in and behind the loop, which ends at ``end``. The
    output may lie over the input if all of that is in one place.
    """

    input: Value
    output: list[Value]
    end: int


@dataclass(slots=True)
class Branches:
    """A conditional. ``shares``: operands that die in the branches, each with what it is in one of them.

    ``begin`` is when the operands are there, ``ends`` when each branch is done. ``dying``: the operands that a branch
    reads, or gives on, and that nothing behind the conditional reads in the branch of ``around`` that it lies in.
    """

    instruction: Instruction
    operands: list[Value | None]
    begin: int
    shares: list[tuple[Value, Value]] = field(default_factory=list)
    results_of_branch: list[list[Value | None]] = field(default_factory=list)
    results: tuple[Value | None, ...] = ()
    ends: list[int] = field(default_factory=list)
    dying: set[Value] = field(default_factory=set)
    around: Branches | None = None
    scope_ended: bool = False


def resolve(instruction: Instruction) -> Instruction:
    """The instruction whose memory ``instruction`` is, as far as its own computation tells."""
    while True:
        if instruction.opcode == "get-tuple-element":
            source = instruction.operands[0]
            if source.opcode not in ("tuple", "optimization-barrier"):
                return instruction
            instruction = source.operands[instruction.attributes["index"]]
        elif (
            instruction.opcode in ("bitcast", "optimization-barrier")
            and len(instruction.operands) == 1
        ):
            instruction = instruction.operands[0]
        else:
            return instruction
