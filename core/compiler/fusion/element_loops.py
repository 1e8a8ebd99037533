"""Which loops can run element by element: each element of their states through all steps, without looking at others.

A ``while`` whose body is elementwise over some dimensions, its *axes*, needs no memory between its steps: a block of
elements goes through all of them in registers, and blocks know nothing of each other. Other dimensions are few numbers
for each element, such as the three states of each of a thousand systems ([1000, 3], stacked and sliced in any order):
each number is a register of its own. So the order of dimensions does not matter inside of such a loop, and transposes,
stacks and slices in it cost nothing.

A loop may have no axes at all: its states are a few numbers (the mean and the covariance of a filter), and all of them
are registers. It has one block, and what a step computes is written out number by number, so that no small array goes
through memory.

How: all dimensions of all values of the loop are put into classes (union-find). An instruction ties a dimension of its
result to the dimension of its operand that it follows element by element, and a state's dimension is tied to that of
its next value. An instruction *breaks* a class where an element depends on others along it: sums, shifts, slices,
concatenations. The axes are the classes of the largest state that nothing breaks. Linear time.

Not only elementwise: arrays that do not change may be read anywhere (``dynamic-slice`` by the number of the step,
``gather``), and an array that is only written (``dynamic-update-slice``: the outputs of a scan) is written in memory,
step by step. Loops that do not fit are left to run step by step over whole arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..ir.classes import Classes
from ..ir.hlo import Computation, Instruction, Shape
from ..ir.patterns import reshape_groups
from ..ir.registry import OPS

if TYPE_CHECKING:
    from ..targets.costs import Costs

# Values that the code of one step may compute for an element, which are its vector instructions, roughly.
MAXIMUM_VALUES: Final = 2048
# Numbers that an element's states may have: more would live on the stack for the most part.
MAXIMUM_STATES: Final = 96
# Values that are the same for all elements, which each block computes anew.
MAXIMUM_SHARED: Final = 512
# Numbers of a value of a loop without axes.
MAXIMUM_NUMBERS: Final = 16
# Loops inside of loops, counted from the outer one.
MAXIMUM_DEPTH: Final = 4
# Products of numbers that a matrix product may be for each element: a larger one has a better kernel of its own.
MAXIMUM_PRODUCTS: Final = 64
# A vector's worth of elements, at least; fewer are numbers of one element.
MINIMUM_ELEMENTS: Final = 8

# How a loop knows its end. COUNTED: the number of steps is in its attributes. UNIFORM: a condition that is the same
# for all elements. FROZEN: it goes on while a condition holds for any element, and an element for which it does not
# hold keeps its states: so each block may end by itself.
COUNTED, UNIFORM, FROZEN = "counted", "uniform", "frozen"

_UNSUPPORTED: Final = frozenset(["map", "dynamic-update-slice"])
# What else is known here of what may be in a body.
_KNOWN: Final = frozenset(["dot", "reduce", "get-tuple-element", "tuple", "dynamic-update-slice"])

# A value: an instruction, and which of its results.
Result = tuple[Instruction, int]


@dataclass
class Plan:
    """How a loop runs element by element.

    ``axes``: sizes of the dimensions that elements are numbered by; without any, all numbers are one element's.
    ``places``: for each value the dimension that is each axis, -1 for an axis that it does not have. ``ends``: how each
    loop, nested ones too, ends. ``written``: the states of the loop that are updated in memory. ``computed``: what
    needs instructions.
    """

    axes: tuple[int, ...] = ()
    places: dict[Result, tuple[int, ...]] = field(default_factory=dict)
    ends: dict[Instruction, str] = field(default_factory=dict)
    written: frozenset[int] = frozenset()
    computed: list[Instruction] = field(default_factory=list)

    def has_axes(self, value: Instruction) -> bool:
        return any(d >= 0 for d in self.places[value, 0])

    def numbers(self, value: Instruction, number: int = 0) -> int:
        """How many numbers each element has of ``value``."""
        shape = value.result_shapes[number]
        assert isinstance(shape, Shape)
        present = [self.axes[a] for a, d in enumerate(self.places[value, number]) if d >= 0]
        return shape.elements // math.prod(present)


def plan(loop: Instruction) -> Plan | None:
    """How ``loop`` can run element by element; None if it cannot."""
    return _Analysis(loop).run()


def pays(plan: Plan, price: Costs, *, saves: bool = False) -> bool:
    """Whether a loop is faster by ``plan`` than step by step. ``saves``: it saves more than the way of small arrays.

    Without axes its numbers are computed one by one, and not in vectors. That saves the way of each small array through
    memory, and a call for each kernel: much where values have two or three numbers, little where they fill a vector.
    Loops of scalars alone have no small arrays.
    """
    if plan.axes:
        return True
    more = instructions = 0
    weight = 0.0
    for i in plan.computed:
        each = price.weight(i)
        if i.opcode == "dynamic-update-slice" or not each:
            continue
        of = i.operands[0] if i.opcode == "reduce" else i
        instructions += 1
        if i.opcode == "dot":  # a product of its own has no vectors of this length either
            more += int(plan.numbers(i) > 1)
            continue
        more += plan.numbers(of) - 1
        if each > 1.0:
            weight += (plan.numbers(of) - 1) * each
    return (
        (more > 0 or saves)
        and more <= price.loops.numbers * instructions
        and weight <= price.loops.repeated
    )


def free_dimensions(dot: Instruction) -> tuple[list[int], list[int]]:
    """The dimensions of each operand of a product that are the result's, behind those of the batch."""
    numbers = dot.attributes["dimension_numbers"]
    lhs, rhs = dot.operands
    taken = {*numbers.lhs_batch, *numbers.lhs_contracting}
    others = {*numbers.rhs_batch, *numbers.rhs_contracting}
    return (
        [d for d in range(len(lhs.dims)) if d not in taken],
        [d for d in range(len(rhs.dims)) if d not in others],
    )


def contracted(dot: Instruction) -> int:
    """How many products each element of a product sums up."""
    return math.prod(
        dot.operands[0].dims[d] for d in dot.attributes["dimension_numbers"].lhs_contracting
    )


def terms(i: Instruction) -> int:
    """How many numbers each element of a product or a reduction combines; 1 for other instructions."""
    if i.opcode == "dot":
        return contracted(i)
    if i.opcode == "reduce":
        return math.prod(i.operands[0].dims[d] for d in i.attributes["dimensions"])
    return 1


def changes(loop: Instruction) -> list[int]:
    """The states of a loop that its body changes."""
    body = loop.called[1]
    return [n for n, p in enumerate(body.parameters) if body.results[n] is not p]


class _NotElementwise(Exception):  # noqa: N818 (nothing is wrong)
    """The loop does not run element by element."""


class _Analysis:
    def __init__(self, loop: Instruction) -> None:
        self.loop = loop
        self.plan = Plan()
        self.first: dict[Result, int] = {}  # the number of a value's first dimension
        self.sizes: list[int] = []
        self.same = Classes()  # numbers of dimensions that go together
        self.broken: set[int] = set()
        self.carried: list[Result] = []  # states in registers: parameters of bodies
        self.read_anywhere: set[Instruction] = set()
        self.inside: list[Instruction] = []  # all instructions of bodies and conditions

    def run(self) -> Plan | None:
        if not _may_be_elementwise(self.loop):
            return None
        try:
            self.visit_loop(self.loop, outermost=True)
            self.choose_axes()
            self.check()
        except _NotElementwise:
            return None
        return self.plan

    # ------------------------------------------------------------------------------------ classes of dimensions
    def add(self, value: Instruction) -> None:
        for n, shape in enumerate(value.result_shapes):
            if not isinstance(shape, Shape):
                raise _NotElementwise
            self.first[value, n] = len(self.sizes)
            self.same.add(shape.rank)
            self.sizes += shape.dims

    def tie(self, a: Instruction, d: int, b: Instruction, e: int, m: int = 0, n: int = 0) -> None:
        """Dimension ``d`` of ``a`` (of its result ``m``) and ``e`` of ``b`` go together."""
        x, y = self.first[a, m] + d, self.first[b, n] + e
        if self.sizes[x] != self.sizes[y]:
            raise _NotElementwise
        self.same.join(x, y)

    def tie_all(self, a: Instruction, b: Instruction, m: int = 0, n: int = 0) -> None:
        for d in range(len(a.result_shapes[m].dims)):  # type: ignore[union-attr]
            self.tie(a, d, b, d, m, n)

    def cut(self, value: Instruction, d: int, n: int = 0) -> None:
        """Elements of ``value`` are not alone along ``d``."""
        self.broken.add(self.first[value, n] + d)

    def tie_where(self, a: Instruction, b: Instruction, same: Iterable[bool]) -> None:
        """Tie the dimensions that are the ``same``, and cut the others."""
        for d, together in enumerate(same):
            if together:
                self.tie(a, d, b, d)
            else:
                self.cut(a, d)
                self.cut(b, d)

    # ---------------------------------------------------------------------------------------------------- loops
    def visit_loop(self, loop: Instruction, outermost: bool) -> None:
        condition, body = loop.called
        if outermost:
            for o in dict.fromkeys(loop.operands):
                self.add(o)
        self.add(loop)
        users = body.users()
        written = set()
        for n, (o, p, r) in enumerate(
            zip(loop.operands, body.parameters, body.results, strict=True)
        ):
            self.add(p)
            self.add(condition.parameters[n])
            self.tie_all(o, p)
            self.tie_all(condition.parameters[n], p)
            self.tie_all(loop, p, n, 0)
            if r is p:
                continue
            if outermost and _is_written(p, r, users, condition):
                written.add(n)
            else:
                self.carried.append((p, 0))
        if outermost:
            self.plan.written = frozenset(written)
        updates = {body.results[n] for n in written}
        self.plan.ends[loop] = end = _end_of(loop)
        for computation in (body, condition):
            for i in computation.instructions:
                if i.opcode == "parameter" or (i is computation.root and i.opcode == "tuple"):
                    continue
                if i is condition.root and end == FROZEN:
                    self.add(i)  # no block waits for another one
                    continue
                self.inside.append(i)
                if i in updates:
                    self.visit_update(i)
                else:
                    self.visit(i)
        for p, r in zip(body.parameters, body.results, strict=True):
            self.tie_all(p, r)
        # What is read anywhere must be in memory all the time.
        for i in reversed((*condition.instructions, *body.instructions)):
            if i in self.read_anywhere and i.opcode != "parameter":
                if i.opcode == "while":
                    raise _NotElementwise
                self.read_anywhere.update(
                    o for o in i.operands if not isinstance(o.shape, Shape) or o.dims
                )
        for n, p in enumerate(body.parameters):
            if p in self.read_anywhere or condition.parameters[n] in self.read_anywhere:
                if body.results[n] is not p:
                    raise _NotElementwise
                self.read_anywhere.add(loop.operands[n])

    def visit_update(self, i: Instruction) -> None:
        self.add(i)
        target, update = i.operands[:2]
        self.tie_all(i, target)
        self.tie_where(i, update, (a == b for a, b in zip(i.dims, update.dims, strict=True)))

    # --------------------------------------------------------------------------------------------- instructions
    def visit(self, i: Instruction) -> None:
        opcode = i.opcode
        if opcode == "while":
            self.visit_loop(i, outermost=False)
            return
        self.add(i)
        if opcode == "reduce":
            self.visit_reduce(i)
        elif opcode == "dot":
            self.visit_dot(i)
        elif opcode == "get-tuple-element":
            self.tie_all(i, i.operands[0], 0, i.attributes["index"])
        elif not OPS[opcode].is_indexable or opcode in _UNSUPPORTED:
            raise _NotElementwise
        elif i.is_elementwise or opcode == "copy":
            for o in i.operands:
                if o.dims:
                    self.tie_all(o, i)
        else:
            getattr(self, f"visit_{opcode.replace('-', '_')}")(i)

    def visit_constant(self, i: Instruction) -> None:
        pass

    def visit_iota(self, i: Instruction) -> None:
        pass

    def visit_broadcast(self, i: Instruction) -> None:
        for d, target in enumerate(i.attributes["dimensions"]):
            self.tie(i.operands[0], d, i, target)

    def visit_reshape(self, i: Instruction) -> None:
        (operand,) = i.operands
        for ours, theirs in reshape_groups(i.dims, operand.dims):
            a = [d for d in ours if i.dims[d] != 1]
            b = [d for d in theirs if operand.dims[d] != 1]
            if len(a) == len(b) == 1:
                self.tie(i, a[0], operand, b[0])
                continue
            for d in a:
                self.cut(i, d)
            for d in b:
                self.cut(operand, d)

    visit_bitcast = visit_reshape

    def visit_bitcast_convert(self, i: Instruction) -> None:
        (operand,) = i.operands
        rank = min(len(i.dims), len(operand.dims))
        for d in range(rank):
            self.tie(i, d, operand, d)
        for value in (i, operand):
            for d in range(rank, len(value.dims)):
                self.cut(value, d)

    def visit_transpose(self, i: Instruction) -> None:
        for d, source in enumerate(i.attributes["dimensions"]):
            self.tie(i, d, i.operands[0], source)

    def visit_slice(self, i: Instruction) -> None:
        a, (operand,) = i.attributes, i.operands
        self.tie_where(
            i,
            operand,
            (
                n == m and stride == 1
                for n, m, stride in zip(i.dims, operand.dims, a["strides"], strict=True)
            ),
        )

    def visit_reverse(self, i: Instruction) -> None:
        turned = i.attributes["dimensions"]
        self.tie_where(i, i.operands[0], (d not in turned for d in range(len(i.dims))))

    def visit_pad(self, i: Instruction) -> None:
        a = i.attributes
        padding = zip(a["low"], a["high"], a["interior"], strict=True)
        self.tie_where(i, i.operands[0], (not any(p) for p in padding))

    def visit_concatenate(self, i: Instruction) -> None:
        dimension = i.attributes["dimension"]
        for o in i.operands:
            self.tie_where(o, i, (d != dimension for d in range(len(i.dims))))

    def visit_dynamic_slice(self, i: Instruction) -> None:
        operand = i.operands[0]
        self.tie_where(i, operand, (a == b for a, b in zip(i.dims, operand.dims, strict=True)))
        self.read_anywhere.add(operand)

    def visit_gather(self, i: Instruction) -> None:
        operand, indices = i.operands
        numbers, sizes = i.attributes["dimension_numbers"], i.attributes["slice_sizes"]
        self.read_anywhere.add(operand)
        batching = numbers.operand_batching_dims
        skipped = {*numbers.collapsed_slice_dims, *batching}
        kept = [d for d in range(len(operand.dims)) if d not in skipped]
        for ours, theirs in zip(sorted(numbers.offset_dims), kept, strict=True):
            if sizes[theirs] == operand.dims[theirs]:
                self.tie(i, ours, operand, theirs)
            else:
                self.cut(i, ours)
                self.cut(operand, theirs)
        for d in numbers.collapsed_slice_dims:
            self.cut(operand, d)
        vector = numbers.index_vector_dim
        if vector < len(indices.dims):
            self.cut(indices, vector)
        places = [d for d in range(len(indices.dims)) if d != vector]
        batch = [d for d in range(len(i.dims)) if d not in numbers.offset_dims]
        for ours, theirs in zip(batch, places, strict=True):
            self.tie(i, ours, indices, theirs)
        for ours, theirs in zip(batching, numbers.start_indices_batching_dims, strict=True):
            self.tie(operand, ours, indices, theirs)

    def visit_reduce(self, i: Instruction) -> None:
        dimensions = i.attributes["dimensions"]
        half = len(i.operands) // 2
        for o in i.operands[:half]:
            kept = 0
            for d in range(len(o.dims)):
                if d in dimensions:
                    self.cut(o, d)
                    continue
                for n in range(half):
                    self.tie(o, d, i, kept, 0, n)
                kept += 1

    def visit_dot(self, i: Instruction) -> None:
        if "algorithm" in i.attributes:
            raise _NotElementwise
        lhs, rhs = i.operands
        left, right = free_dimensions(i)
        numbers = i.attributes["dimension_numbers"]
        for d, (a, b) in enumerate(zip(numbers.lhs_batch, numbers.rhs_batch, strict=True)):
            self.tie(i, d, lhs, a)
            self.tie(i, d, rhs, b)
        rank = len(numbers.lhs_batch)
        for d, a in enumerate(left):
            self.tie(i, rank + d, lhs, a)
        for d, b in enumerate(right):
            self.tie(i, rank + len(left) + d, rhs, b)
        for a, b in zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True):
            self.cut(lhs, a)
            self.cut(rhs, b)

    # ------------------------------------------------------------------------------------------------- the axes
    def classes(self, value: Instruction, n: int = 0) -> list[int]:
        """The class of each dimension of a value; -1 for those that cannot be an axis."""
        first, dims = self.first[value, n], value.result_shapes[n].dims  # type: ignore[union-attr]
        found = [self.same.find(first + d) for d in range(len(dims))]
        return [
            c if size > 1 and c not in self.broken else -1
            for c, size in zip(found, dims, strict=True)
        ]

    def choose_axes(self) -> None:
        self.broken = {self.same.find(node) for node in self.broken}
        for (
            value,
            n,
        ) in self.first:  # x[i] with x[j]: elements are not alone along a class that is there twice
            found = [c for c in self.classes(value, n) if c >= 0]
            if len(set(found)) < len(found):
                self.broken.update(c for c in found if found.count(c) > 1)
        if not self.carried:
            raise _NotElementwise
        largest = max(self.carried, key=lambda v: v[0].elements)
        axes = [c for c in self.classes(*largest) if c >= 0]
        while axes:
            for value, n in self.carried:
                present = {c for c in self.classes(value, n) if c in axes}
                if present and len(present) < len(axes):  # a state of some elements alone
                    axes.remove(min(axes, key=lambda c: self.sizes[c]))
                    break
            else:
                break
        if axes and max(self.sizes[c] for c in axes) < MINIMUM_ELEMENTS:
            axes = []
        self.plan.axes = tuple(self.sizes[c] for c in axes)
        for value, n in self.first:
            found = self.classes(value, n)
            self.plan.places[value, n] = tuple(found.index(c) if c in found else -1 for c in axes)

    def check(self) -> None:
        """That what the axes leave is little enough, and that each loop ends as it may."""
        p = self.plan
        if not p.axes:  # nobody has to wait for others
            p.ends = {i: UNIFORM if end == FROZEN else end for i, end in p.ends.items()}
        if sum(p.numbers(*v) for v in self.carried) > MAXIMUM_STATES:
            raise _NotElementwise
        values = shared = 0
        for i in self.inside:
            if i in self.read_anywhere or i.opcode in ("constant", "while"):
                # Each element that is read is computed where it is read, a sum with all of its terms.
                if terms(i) > MAXIMUM_PRODUCTS:
                    raise _NotElementwise
                continue
            numbers = p.numbers(i.operands[1] if i.opcode == "dynamic-update-slice" else i)
            if i.opcode == "reduce":
                numbers += p.numbers(i.operands[0])
            elif i.opcode == "dot":
                numbers *= contracted(i)
                if numbers > MAXIMUM_PRODUCTS:
                    raise _NotElementwise
            elif not p.axes and numbers > MAXIMUM_NUMBERS:
                raise _NotElementwise
            p.computed.append(i)
            values += numbers
            if not p.has_axes(i):
                shared += numbers
        if values > MAXIMUM_VALUES:
            raise _NotElementwise
        for body in (loop.called[1] for loop in p.ends):
            if _written(body, p) > MAXIMUM_VALUES:
                raise _NotElementwise
        if p.axes and shared > max(MAXIMUM_SHARED, values - shared):
            raise _NotElementwise
        for loop, end in p.ends.items():
            condition = loop.called[0]
            if end == UNIFORM and any(
                p.has_axes(i) for i in condition.instructions if i.opcode != "parameter"
            ):
                raise _NotElementwise
            if end == FROZEN:
                predicate = condition.root.operands[0]
                if not all(d >= 0 for d in p.places[predicate, 0]) or p.numbers(predicate) != 1:
                    raise _NotElementwise


def _written(body: Computation, p: Plan) -> int:
    """How many values the code of a body's step computes, as far as :data:`MAXIMUM_VALUES` and a little.

    An instruction whose elements are read at computed places is written at each of them, with all that it is made of:
    gathers of gathers double the code with each link of the chain.
    """
    places: dict[Instruction, dict[tuple[Instruction, ...], int]] = {
        i: {(): 0} for i in body.results
    }
    total = 0
    for i in reversed(body.instructions):
        if i.opcode in ("parameter", "constant") or i not in places:
            continue
        if (
            i.opcode == "while"
        ):  # its states' first values are read once; its body is counted by itself
            for operand in i.operands:
                places.setdefault(operand, {})[()] = 0
            continue
        own = i.operands[1] if i.opcode == "dynamic-update-slice" else i
        read = {place: count or p.numbers(own) for place, count in places[i].items()}
        total += sum(read.values())
        if total > MAXIMUM_VALUES:
            break
        for n, operand in enumerate(i.operands):
            elsewhere = n == 0 and i.opcode in ("gather", "dynamic-slice")
            into = places.setdefault(operand, {})
            for place, count in read.items():
                into[(i, *place) if elsewhere else place] = count if elsewhere or place else 0
    return total


def _end_of(loop: Instruction) -> str:
    """How ``loop`` ends."""
    if loop.attributes.get("trip_count", -1) >= 0:
        return COUNTED
    return FROZEN if _frozen_predicate(loop) is not None else UNIFORM


def _may_be_elementwise(loop: Instruction) -> bool:
    """Whether nothing rules it out at first sight."""
    if loop.attributes.get("trip_count", 2) < 2:
        return False
    stack = [(loop, 1)]
    while stack:
        found, depth = stack.pop()
        if depth > MAXIMUM_DEPTH:
            return False
        condition, body = found.called
        for i in body.instructions:
            if i.opcode == "while":
                stack.append((i, depth + 1))
            elif not OPS[i.opcode].is_indexable and i.opcode not in _KNOWN:
                return False
        for i in condition.instructions:
            if not OPS[i.opcode].is_indexable and i.opcode not in _KNOWN:
                return False
    return True


def _is_written(
    state: Instruction,
    following: Instruction,
    users: dict[Instruction, list[Instruction]],
    condition: Computation,
) -> bool:
    """Whether a state is an array that the body writes into and nobody reads."""
    number = state.attributes["index"]
    read = any(condition.parameters[number] in i.operands for i in condition.instructions)
    return (
        not read
        and following.opcode == "dynamic-update-slice"
        and following.operands[0] is state
        and users[state] == [following]
        and following.operands.count(state) == 1
        and all(u.opcode == "tuple" for u in users[following])
        and sum(u.operands.count(following) for u in users[following]) <= 1
    )


def _frozen_predicate(loop: Instruction) -> Instruction | None:
    """The truth value of each element, if the loop goes on while any is true and those that are not change nothing."""
    condition, body = loop.called
    root = condition.root
    if root.opcode != "reduce" or len(root.operands) != 2 or root.shape.dims:  # type: ignore[union-attr]
        return None
    predicate, start = root.operands
    combined = root.called[0].root
    if combined.opcode != "or" or any(o.opcode != "parameter" for o in combined.operands):
        return None
    if (
        len(set(combined.operands)) != 2
        or start.opcode != "constant"
        or start.attributes["literal"]
    ):
        return None
    same: dict[tuple[Instruction, Instruction], bool] = {}
    for p, r in zip(body.parameters, body.results, strict=True):
        if r is p:
            continue
        if r.opcode != "select" or r.operands[2] is not p:
            return None
        chosen = r.operands[0]
        if chosen.dims != predicate.dims and chosen.opcode == "broadcast":
            (chosen,) = chosen.operands
        if chosen.dims != predicate.dims or not _equal(chosen, predicate, same):
            return None
    return predicate


def _equal(
    a: Instruction, b: Instruction, known: dict[tuple[Instruction, Instruction], bool]
) -> bool:
    """Whether two instructions compute the same of the same states."""
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if (x, y) in known:
            continue
        if x.opcode != y.opcode or x.shape != y.shape or len(x.operands) != len(y.operands):
            return False
        if x.called != y.called:
            return False
        if x.opcode == "constant":
            if x.attributes["literal"].tobytes() != y.attributes["literal"].tobytes():
                return False
        elif dict(x.attributes) != dict(y.attributes):
            return False
        known[x, y] = True  # or else the whole comparison fails
        stack += zip(x.operands, y.operands, strict=True)
    return True
