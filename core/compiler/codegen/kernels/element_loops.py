"""The "while" kernel: a loop whose states stay in registers, or in the nearest cache, while a block of elements goes
through all of its steps.

:mod:`...fusion.element_loops` says which loops those are, and what their axes are. A unit of work is a block of
elements along one axis. In registers it is some vectors' worth, which are computed together: while one waits for its
last step's result, the others go on. Where that is not enough, because a step is a long chain of operations (tanh), or
where each step reads or writes rows of memory (a scan's inputs and outputs), it is a *strip*: up to some thousand
elements whose states lie on the stack, and each step runs along the strip. Where the length is not a multiple of the
block's, the last block begins earlier: two blocks compute some elements, and get the same. A loop without axes is one
unit of work, of single numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from ...fusion import element_loops
from ...fusion.element_loops import COUNTED, FROZEN, Plan
from ...ir import errors, hlo
from .. import costs
from ..elements import conversion
from ..elements.elemental import element, inline, start_coordinate
from ..generator import Array, Coordinate, Generator, Index, fixed
from ..llvm_ir import Value, i64
from ..representation import (
    Complex,
    Element,
    components,
    lanes,
    map_components,
    memory_type,
    register_type,
)
from . import loops
from .emit import EmittedKernel, Frame, emitter

if TYPE_CHECKING:
    from ...targets.costs import Costs
    from ...targets.target import Target

UNKNOWN_TRIPS: Final = 16  # the number of steps to reckon with where it is not known
FOREVER: Final = 1 << 62

# The numbers that an element has of a value, each with its place: its index without the axes.
Numbers = dict[tuple[int, ...], Element]
# What a loop carries in registers: numbers of states, each with the places of its numbers.
Keys = list[tuple[int, tuple[int, ...]]]


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a "while" fusion."""
    computation = frame.computation
    loop = next(i for i in computation.instructions if i.opcode == "while")
    plan = element_loops.plan(loop)
    if plan is None:
        raise errors.of_instruction(
            "INTERNAL", "the loop does not run element by element", frame.instruction
        )
    axis = lane_axis(plan)
    size = plan.axes[axis] if plan.axes else 1
    form = form_of(frame.target, loop, plan, size)
    g, b = frame.generator, frame.builder
    outer = [dim for n, dim in enumerate(plan.axes) if n != axis]
    blocks = -(-size // form.block)
    writer = _Block(frame, plan, form, axis)
    writer.prepare(loop)

    def block(index: Index) -> None:
        start = g.mul(index[-1].base, i64(form.block))
        if size % form.block:
            start = b.intrinsic("smin", [start, i64(size - form.block)])
            g.note(start)
        multiple = math.gcd(form.block, size) if size % form.block else form.block
        writer.run(loop, index[:-1], Coordinate(start, 0, 1, None, 0, size - 1, multiple))

    loops.count(g, frame.begin, frame.end, (*outer, blocks), block)
    units = math.prod(outer) * blocks
    cost = cost_of(frame.target, loop)
    return frame.finish(units, cost)


class Form(NamedTuple):
    """How the elements along the axis of the lanes are taken: ``block`` at a time, a unit of work, in vectors of
    ``width``. They are equal if states are in registers; otherwise the block is a strip.
    """

    width: int
    block: int

    @property
    def is_strip(self) -> bool:
        return self.block > self.width


def lane_axis(plan: Plan) -> int:
    """The axis along which vectors run: the last one, as memory does, unless it is short."""
    last = len(plan.axes) - 1
    if last < 0:
        return 0  # nothing runs along it
    return last if plan.axes[last] >= 64 else max(range(last + 1), key=plan.axes.__getitem__)


def form_of(target: Target, loop: hlo.Instruction, plan: Plan, size: int) -> Form:
    """How to take the elements of an axis of ``size`` through ``loop``."""
    if not plan.axes:
        return Form(1, 1)
    width = min(loops.lanes_for(target, c) for c in _bodies(loop))
    while width > size:
        width //= 2
    body = loop.called[1]
    carried = [
        p
        for n, p in enumerate(body.parameters)
        if n in element_loops.changes(loop) and n not in plan.written and plan.has_axes(p)
    ]
    numbers = sum(plan.numbers(p) * (2 if p.dtype.is_complex else 1) for p in carried)
    work, chain, shared = _work(target.costs, body, plan)
    price, blocks = target.costs.loops, target.costs.threads.units
    elements = math.prod(plan.axes)
    most = min(size, target.most_lanes(any(p.dtype.is_complex for p in body.parameters)))
    vectors = 1
    while (
        vectors * work < chain
        and 2 * vectors * numbers <= price.carried
        and 2 * vectors * width <= most
        and elements >= 2 * vectors * width * blocks
    ):
        vectors *= 2
    streams = bool(plan.written) or any(i.opcode == "dynamic-slice" for i in body.instructions)
    nested = any(i.opcode == "while" for i in body.instructions)
    waits = vectors * work < max(price.enough_work * chain, price.shared * shared)
    if nested or not target.packs_products or plan.ends[loop] == FROZEN or not (streams or waits):
        return Form(width * vectors, width * vectors)
    bytes_ = sum(plan.numbers(p) * p.dtype.size for p in carried)
    longest = max(1, target.costs.memory.strip // (bytes_ * width))
    fair = max(price.strip, size * (elements // size) // (blocks * width))
    strips = -(-size // (min(longest, fair) * width))
    if strips == 1 and size % width:
        strips = 2
    return Form(width, min(-(-size // (strips * width)), size // width) * width)


def _work(price: Costs, body: hlo.Computation, plan: Plan) -> tuple[float, float, float]:
    """What a step of one vector takes if nothing has to wait, and along its longest chain of operations; and what it
    takes to compute what is the same for all elements, other than a counter.
    """
    total = shared = 0.0
    chains: dict[hlo.Instruction, float] = {}
    for i in body.instructions:
        before = max((chains[o] for o in i.operands), default=0.0)
        if i.opcode == "tuple" or (i, 0) not in plan.places or not plan.has_axes(i):
            chains[i] = before
            if (i, 0) in plan.places and i.opcode not in ("tuple", "while"):
                shared += price.weight(i) * plan.numbers(i)
            continue
        numbers, weight = plan.numbers(i), price.weight(i)
        if i.opcode == "reduce":
            weight *= plan.numbers(i.operands[0]) / numbers
        elif i.opcode == "dot":
            weight *= element_loops.contracted(i)
        total += weight * numbers
        chains[i] = before + price.loops.latency * weight
    return total, max((chains[r] for r in body.results), default=0.0), max(0.0, shared - 2.0)


def _bodies(loop: hlo.Instruction) -> Iterator[hlo.Computation]:
    """The bodies of a loop and of those inside of it."""
    stack = [loop]
    while stack:
        body = stack.pop().called[1]
        yield body
        stack += [i for i in body.instructions if i.opcode == "while"]


def cost_of(target: Target, loop: hlo.Instruction) -> float:
    """Nanoseconds on one core of all steps."""
    trips = loop.attributes.get("trip_count", UNKNOWN_TRIPS)
    body = loop.called[1]
    inner = [i for i in body.instructions if i.opcode == "while"]
    # An update is written in place: what it costs is the computation of its numbers.
    elsewhere = ("while", "dynamic-update-slice")
    step = costs.of_instructions(
        target, (i for i in body.instructions if i.opcode not in elsewhere), ()
    )
    return float(trips) * (step + sum(cost_of(target, i) for i in inner))


class _Block:
    """Writes what happens to a block of elements along the axis number ``axis``."""

    def __init__(self, frame: Frame, plan: Plan, form: Form, axis: int) -> None:
        self.frame = frame
        self.g: Generator = frame.generator
        self.plan = plan
        self.form = form
        self.width = form.width
        self.axis = axis
        # The coordinates along the axes of the vector that is being written.
        self.at: list[Coordinate] = []
        self.wanted = [
            r.attributes["index"] if r.opcode == "get-tuple-element" else 0
            for r in frame.computation.results
        ]
        self.in_memory = {
            n: array
            for n, array in zip(self.wanted, frame.results, strict=True)
            if n in plan.written
        }
        self.strips: dict[int, Array] = {}  # where a strip's states are: [numbers, elements] each

    def prepare(self, loop: hlo.Instruction) -> None:
        """Make room for the states of a strip."""
        if not self.form.is_strip:
            return
        for n in element_loops.changes(loop):
            p = loop.called[1].parameters[n]
            if n in self.plan.written or not self.plan.has_axes(p):
                continue
            count = self.plan.numbers(p) * self.form.block
            pointer = self.g.builder.alloca(f"[{count * p.dtype.size} x i8]")
            self.g.note(pointer)
            self.strips[n] = Array(
                pointer, hlo.Shape(p.dtype, (self.plan.numbers(p), self.form.block))
            )

    def run(self, loop: hlo.Instruction, outer: Index, start: Coordinate) -> None:
        """Write the loop for the block that begins at ``start``, and store its results."""
        if self.form.is_strip:
            self.run_strip(loop, outer, start)
            return
        self.move_to(outer, start)
        states = self.loop(loop, self.in_memory)
        for array, n in zip(self.frame.results, self.wanted, strict=True):
            if n not in self.plan.written:
                for place, value in states.get(n, {}).items():  # none of a state without elements
                    self.g.store(array, self.index(loop, place, n), value)

    def move_to(self, outer: Index, start: Coordinate) -> None:
        """Go on with the vector that begins at ``start``."""
        lane = start._replace(stride=int(self.width > 1), lanes=self.width)
        self.at = [*outer]
        if self.plan.axes:
            self.at.insert(self.axis, lane)

    # --------------------------------------------------------------------------------------------------- in strips
    @contextmanager
    def along(self, outer: Index, start: Coordinate) -> Iterator[Coordinate]:
        """A loop over the vectors of a strip; gives where each begins in the strip."""
        g = self.g
        with g.loop(i64(0), i64(self.form.block), self.width) as (i, _, _):
            inside = Coordinate(i, 0, 1, None, 0, self.form.block - 1, self.width)
            total = g.sum(start, inside)
            self.move_to(outer, total._replace(high=start.high))
            yield inside._replace(stride=int(self.width > 1), lanes=self.width)

    def run_strip(self, loop: hlo.Instruction, outer: Index, start: Coordinate) -> None:
        g, body = self.g, loop.called[1]
        with self.along(outer, start) as inside:
            for n, strip in self.strips.items():
                numbers = self.numbers(loop.operands[n])
                for k, value in enumerate(numbers.values()):
                    g.store(strip, (fixed(k), inside), value)
        self.forward_constants(loop)
        keys, initial = self.initial(loop, [*self.strips, *self.in_memory])
        with self.steps(loop, keys, initial) as (states, following, more):
            for n, numbers in states.items():
                g.readers[body.parameters[n]] = self.read(body.parameters[n], numbers)
            self.step(body)
            with self.along(outer, start) as inside:
                for n in self.strips:
                    g.readers[body.parameters[n]] = self.read_strip(n, body.parameters[n], inside)
                # Everything is computed before a strip is stored, as updates may be of what a state was.
                values = {n: self.numbers(body.results[n]) for n in self.strips}
                updates = {n: self.update(body.results[n]) for n in self.in_memory}
                for n, numbers in values.items():
                    for k, value in enumerate(numbers.values()):
                        g.store(self.strips[n], (fixed(k), inside), value)
                for n, update in updates.items():
                    self.store(self.in_memory[n], update)
            following += self.following(loop, keys)
            self.decide(loop, keys, following, more)
        states = self.unpacked(loop, keys, self.ended)
        with self.along(outer, start) as inside:
            for array, n in zip(self.frame.results, self.wanted, strict=True):
                if n in self.strips:
                    for k, place in enumerate(self.places(loop, n)):
                        value = g.load(self.strips[n], (fixed(k), inside), g.depth)
                        g.store(array, self.index(loop, place, n), value)
        for array, n in zip(self.frame.results, self.wanted, strict=True):
            for place, value in states.get(n, {}).items():
                g.store(array, self.index(loop, place, n), value)

    def read_strip(
        self, n: int, state: hlo.Instruction, inside: Coordinate
    ) -> Callable[[Index], Element]:
        """What gives the numbers of a state at the vector that begins at ``inside``."""
        order = {place: k for k, place in enumerate(self.places(state))}
        return lambda index: self.g.load(
            self.strips[n], (fixed(order[self.place(state, index)]), inside), self.g.depth
        )

    # ------------------------------------------------------------------------------------------- elements' numbers
    def index(self, value: hlo.Instruction, place: Sequence[int], number: int = 0) -> Index:
        """Where the number at ``place`` of this block's elements is in ``value``."""
        shape = value.result_shapes[number]
        assert isinstance(shape, hlo.Shape)
        axes = self.plan.places[value, number]
        rest = iter(place)
        return tuple(
            self.at[axes.index(d)] if d in axes else fixed(next(rest)) for d in range(shape.rank)
        )

    def places(self, value: hlo.Instruction, number: int = 0) -> Iterator[tuple[int, ...]]:
        """The places of an element's numbers in ``value``: its indices without the axes."""
        shape = value.result_shapes[number]
        assert isinstance(shape, hlo.Shape)
        axes = self.plan.places[value, number]
        return itertools.product(*(range(n) for d, n in enumerate(shape.dims) if d not in axes))

    def place(self, value: hlo.Instruction, index: Index, number: int = 0) -> tuple[int, ...]:
        """The place that an index is at."""
        axes = self.plan.places[value, number]
        found = []
        for d, c in enumerate(index):
            if d in axes:
                continue
            if value.result_shapes[number].dims[d] == 1:  # type: ignore[union-attr]
                found.append(0)
            elif c.vector is None and c.is_uniform and isinstance(c.base.constant, int):
                found.append(c.base.constant)
            else:
                raise errors.of_instruction("INTERNAL", "a register has no address", value)
        return tuple(found)

    def read(
        self, value: hlo.Instruction, numbers: Numbers, result: int = 0
    ) -> Callable[[Index], Element]:
        """What gives the elements of ``value``, or of one of its results, that are in registers."""
        return lambda index: numbers[self.place(value, index, result)]

    def numbers(self, value: hlo.Instruction) -> Numbers:
        """Compute what this block's elements have of ``value``."""
        return {p: element(self.g, value, self.index(value, p)) for p in self.places(value)}

    # --------------------------------------------------------------------------------------------------- the loop
    def loop(self, loop: hlo.Instruction, in_memory: dict[int, Array]) -> dict[int, Numbers]:
        """Write a loop in registers, and give its states after it: those that it changes, by number."""
        body = loop.called[1]
        self.forward_constants(loop)
        keys, initial = self.initial(loop, in_memory)
        with self.steps(loop, keys, initial) as (states, following, more):
            for n, numbers in states.items():
                self.g.readers[body.parameters[n]] = self.read(body.parameters[n], numbers)
            self.step(body)
            following += self.following(loop, keys)
            for n, array in in_memory.items():
                self.store(array, self.update(body.results[n]))
            self.decide(loop, keys, following, more)
        return self.unpacked(loop, keys, self.ended)

    def forward_constants(self, loop: hlo.Instruction) -> None:
        """States that never change are what they were before the loop."""
        body = loop.called[1]
        for p, o, following in zip(body.parameters, loop.operands, body.results, strict=True):
            if following is p:
                self.g.readers[p] = self.forward(o)

    def initial(
        self, loop: hlo.Instruction, elsewhere: Collection[int]
    ) -> tuple[Keys, list[Value]]:
        """What the loop carries in registers, all states but those ``elsewhere``, and what it starts with."""
        keys: Keys = []
        values: list[Value] = []
        for n in element_loops.changes(loop):
            if n in elsewhere:
                continue
            p, operand = loop.called[1].parameters[n], loop.operands[n]
            for place in self.places(p):
                keys.append((n, place))
                value = element(self.g, operand, self.index(operand, place))
                values += self.as_carried(value, p, rounded=False)
        return keys, values

    @contextmanager
    def steps(
        self, loop: hlo.Instruction, keys: Keys, initial: list[Value]
    ) -> Iterator[tuple[dict[int, Numbers], list[Value], list[Value]]]:
        """The loop over steps: gives the states of a step, and what to put the following ones into and whether there
        is one. ``self.ended`` holds the states at the end.
        """
        g, end = self.g, self.plan.ends[loop]
        stop = i64(loop.attributes["trip_count"] if end == COUNTED else FOREVER)
        if end != COUNTED:
            states = self.unpacked(loop, keys, initial)
            stop = g.builder.select(self.goes_on(loop, states), stop, i64(0))
            g.note(stop)
        more: list[Value] = []
        with g.loop(i64(0), stop, 1, initial, more) as (_, values, results):
            following: list[Value] = []
            yield self.unpacked(loop, keys, values), following, more
            values[:] = following
        self.ended = results

    def following(self, loop: hlo.Instruction, keys: Keys) -> list[Value]:
        """What the states become by a step."""
        body = loop.called[1]
        values: list[Value] = []
        for n, place in keys:
            result = body.results[n]
            value = element(self.g, result, self.index(result, place))
            values += self.as_carried(value, body.parameters[n], rounded=True)
        return values

    def decide(
        self, loop: hlo.Instruction, keys: Keys, following: list[Value], more: list[Value]
    ) -> None:
        """Ask whether there is another step after this one."""
        if self.plan.ends[loop] != COUNTED:
            more.append(self.goes_on(loop, self.unpacked(loop, keys, following)))

    def step(self, body: hlo.Computation) -> None:
        """Write the loops inside of a body, and say how its sums are read."""
        for i in body.instructions:
            if i.opcode == "reduce":
                self.g.readers[i] = self.sums(i, 0)
            elif i.opcode == "get-tuple-element" and i.operands[0].opcode == "reduce":
                self.g.readers[i] = self.sums(i.operands[0], i.attributes["index"])
            elif i.opcode == "dot":
                self.g.readers[i] = self.products(i)
            elif i.opcode == "while":
                states = self.loop(i, {})
                readers = {n: self.read(i, numbers, n) for n, numbers in states.items()}
                for n in range(len(i.operands)):
                    readers.setdefault(n, self.forward(i.operands[n]))
                if isinstance(i.shape, hlo.Shape):
                    self.g.readers[i] = readers[0]
                for user in body.instructions:
                    if user.opcode == "get-tuple-element" and user.operands[0] is i:
                        self.g.readers[user] = readers[user.attributes["index"]]

    def forward(self, operand: hlo.Instruction) -> Callable[[Index], Element]:
        return lambda index: element(self.g, operand, index)

    def sums(self, i: hlo.Instruction, result: int) -> Callable[[Index], Element]:
        """A reduction over the places of an element's numbers, one after the other."""
        half = len(i.operands) // 2
        dims, reduced = i.operands[0].dims, i.attributes["dimensions"]

        def read(index: Index) -> Element:
            total = [element(self.g, o, ()) for o in i.operands[half:]]
            for place in itertools.product(*(range(dims[d]) for d in sorted(reduced))):
                inner, kept = iter(place), iter(index)
                at = tuple(
                    fixed(next(inner)) if d in reduced else next(kept) for d in range(len(dims))
                )
                values = [element(self.g, o, at) for o in i.operands[:half]]
                total = inline(self.g, i.called[0], [*total, *values])
            return total[result]

        return read

    def products(self, i: hlo.Instruction) -> Callable[[Index], Element]:
        """The sum of products of an element's numbers, one after the other."""
        numbers, (lhs, rhs) = i.attributes["dimension_numbers"], i.operands
        left, right = element_loops.free_dimensions(i)
        rank = len(numbers.lhs_batch)
        sizes = [lhs.dims[d] for d in numbers.lhs_contracting]
        shapes = [hlo.Shape(dtype) for dtype in (i.dtype, lhs.dtype, rhs.dtype)]
        total, x, y = parameters = [hlo.parameter(n, shape) for n, shape in enumerate(shapes)]
        wide = [hlo.Instruction("convert", shapes[0], [o]) for o in (x, y)]
        product = hlo.Instruction("multiply", shapes[0], wide)
        added = hlo.Computation.from_root(
            "add_product", parameters, hlo.Instruction("add", shapes[0], [total, product])
        )
        begun = product
        if not i.dtype.is_integer:  # a sum begins with 0: it is 0 where all terms are -0
            begun = hlo.Instruction("add", shapes[0], [hlo.constant(0, i.dtype), product])
        first = hlo.Computation.from_root("first_product", parameters, begun)

        def read(index: Index) -> Element:
            result: Element | None = None
            for place in itertools.product(*map(range, sizes)):
                at = dict(zip(numbers.lhs_contracting, map(fixed, place), strict=True))
                at |= zip(numbers.lhs_batch, index[:rank], strict=True)
                at |= zip(left, index[rank : rank + len(left)], strict=True)
                to = dict(zip(numbers.rhs_contracting, map(fixed, place), strict=True))
                to |= zip(numbers.rhs_batch, index[:rank], strict=True)
                to |= zip(right, index[rank + len(left) :], strict=True)
                a = element(self.g, lhs, tuple(at[d] for d in range(len(lhs.dims))))
                b = element(self.g, rhs, tuple(to[d] for d in range(len(rhs.dims))))
                body = first if result is None else added
                (result,) = inline(self.g, body, [a if result is None else result, a, b])
            assert result is not None
            return result

        return read

    def update(self, i: hlo.Instruction) -> list[tuple[Index, Element]]:
        """What a dynamic-update-slice of an array in memory writes, with each number's place."""
        g = self.g
        target, update, *starts = i.operands
        offsets = [
            start_coordinate(g, start, (), dim - size)
            for start, dim, size in zip(starts, target.dims, update.dims, strict=True)
        ]
        written = []
        for place, value in self.numbers(update).items():
            index = self.index(update, place)
            moved = tuple(g.sum(c, offset) for c, offset in zip(index, offsets, strict=True))
            written.append((moved, value))
        return written

    def store(self, array: Array, update: list[tuple[Index, Element]]) -> None:
        for index, value in update:
            self.g.store(array, index, value)

    # ----------------------------------------------------------------------------------------------------- its end
    def goes_on(self, loop: hlo.Instruction, states: dict[int, Numbers]) -> Value:
        """Whether the loop takes another step, with ``states``."""
        g = self.g
        # It stands at two places, and neither knows the other's values.
        condition = _copied(loop.called[0])
        for n, (mine, known) in enumerate(
            zip(condition.parameters, loop.called[0].parameters, strict=True)
        ):
            if n in states:
                g.readers[mine] = self.read(known, states[n])
            else:
                g.readers[mine] = self.forward(loop.operands[n])
        self.step(condition)
        if self.plan.ends[loop] != FROZEN:
            (value,) = components(element(g, condition.root, ()))
            return value
        predicate = condition.root.operands[0]
        known = loop.called[0].root.operands[0]
        (place,) = self.places(known)
        (value,) = components(element(g, predicate, self.index(known, place)))
        return g.builder.any_lane(value)

    # ------------------------------------------------------------------------------------------- carried registers
    def as_carried(self, value: Element, state: hlo.Instruction, *, rounded: bool) -> list[Value]:
        """A state's number as the loop carries it: a vector if the state has axes, and rounded as in memory."""
        g, dtype = self.g, state.dtype
        if rounded and register_type(dtype) != memory_type(dtype) and dtype.kind != "pred":
            value = map_components(
                lambda v: conversion.from_memory(g, conversion.to_memory(g, v, dtype), dtype), value
            )
        if self.plan.has_axes(state):
            value = map_components(lambda v: g.splat(v, self.width), value)
        elif lanes(value) != 1:
            raise errors.of_instruction(
                "INTERNAL", "a state is not the same for all elements", state
            )
        return list(components(value))

    def unpacked(
        self, loop: hlo.Instruction, keys: Keys, values: Sequence[Value]
    ) -> dict[int, Numbers]:
        """The states in ``values``, as :meth:`as_carried` gave them."""
        states: dict[int, Numbers] = {}
        rest = iter(values)
        for n, place in keys:
            dtype = loop.called[1].parameters[n].dtype
            value = Complex(next(rest), next(rest)) if dtype.is_complex else next(rest)
            states.setdefault(n, {})[place] = value
        return states


def _copied(computation: hlo.Computation) -> hlo.Computation:
    """The computation of instructions of its own."""
    new: dict[hlo.Instruction, hlo.Instruction] = {}
    for i in computation.instructions:
        new[i] = i.replace(operands=[new[o] for o in i.operands])
    parameters = [new[p] for p in computation.parameters]
    return hlo.Computation(computation.name, parameters, list(new.values()), new[computation.root])
