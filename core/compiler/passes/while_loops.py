"""Loops: how often they run, and what in them need not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.hlo import (
    Computation,
    Instruction,
    Module,
    Shape,
    TupleShape,
    get_tuple_element,
    parameter,
    topological_order,
)
from ..ir.registry import OPS, PACKING, WORTH
from ..ir.trip_counts import known_trip_count
from .invariants import invariants_of, unchanged_parameters
from .library.streamed import is_made_inside
from .rewrite import map_computations, prune, sweep_module

if TYPE_CHECKING:
    from ..targets.target import Target


def annotate_trip_counts(module: Module) -> Module:
    """Put the number of iterations, where it is known, into the attribute ``trip_count`` of each
    while. A loop that has it never evaluates its condition, so a loop whose condition has side effects gets none.
    """

    def annotate(instruction: Instruction) -> Instruction | None:
        if instruction.opcode != "while" or "trip_count" in instruction.attributes:
            return None
        count = known_trip_count(instruction)
        if count < 0 or any(i.has_side_effect for i in instruction.called[0].instructions):
            return None
        return instruction.replace(attributes={**instruction.attributes, "trip_count": count})

    return sweep_module(module, annotate)


# ----------------------------------------------------------------------------------- simplification


def simplify_loops(module: Module) -> Module:
    """States of a ``while`` that never change and are constants become constants inside; states
    nobody needs go.
    """
    if not module.has("while"):
        return module
    return map_computations(module, _simplify_in)


def _simplify_in(computation: Computation) -> Computation:
    if not any(i.opcode == "while" for i in computation.instructions):
        return computation
    users = computation.users()
    mapped: dict[Instruction, Instruction] = {}
    # A loop with fewer states: from the old state number to the new one, or the value itself.
    elements: dict[Instruction, list[Instruction | None]] = {}
    output: list[Instruction] = []
    changed = False
    for instruction in computation.instructions:
        if instruction.opcode == "get-tuple-element" and instruction.operands[0] in elements:
            value = elements[instruction.operands[0]][instruction.attributes["index"]]
            assert value is not None
            mapped[instruction] = value
            continue
        new = instruction.with_operands([mapped[o] for o in instruction.operands])
        if instruction.opcode == "while" and instruction is not computation.root:
            used = {
                u.attributes["index"] for u in users[instruction] if u.opcode == "get-tuple-element"
            }
            if all(u.opcode == "get-tuple-element" for u in users[instruction]):
                smaller = _shrink(new, used)
                if smaller is not None:
                    loop, kept, outside, twins = smaller
                    changed = True
                    output.append(loop)
                    place = {old: n for n, old in enumerate(kept)}
                    values: list[Instruction | None] = []
                    for n in range(len(new.operands)):
                        if n in place and len(kept) > 1:
                            element = get_tuple_element(loop, place[n])
                            output.append(element)
                            values.append(element)
                        elif n in place:  # the only state left: the loop is its value
                            values.append(loop)
                        else:
                            values.append(outside.get(n))
                    for n, twin in twins.items():
                        values[n] = values[twin]
                    elements[instruction] = values
                    mapped[instruction] = loop
                    continue
        mapped[instruction] = new
        output.append(new)
    if not changed:
        return computation
    return prune(
        Computation(computation.name, computation.parameters, output, mapped[computation.root])
    )


def _shrink(
    loop: Instruction, used: set[int]
) -> tuple[Instruction, list[int], dict[int, Instruction], dict[int, int]] | None:
    """A loop with fewer states, or None if all are needed.

    Gives the loop, the numbers of the states kept, the values outside of states that never change,
    and the states that count in step with another one (number -> that one's).
    """
    condition, body = loop.called
    count = len(loop.operands)
    if body.root.opcode != "tuple" and count != 1:
        return None
    twins = _equal_counters(loop)
    if twins:
        condition, body = (_with_parameters_replaced(c, twins) for c in (condition, body))
        used = {twins.get(n, n) for n in used}
    results = body.results
    invariant = [results[n] is body.parameters[n] for n in range(count)]
    constants = {
        n: loop.operands[n]
        for n in range(count)
        if invariant[n] and loop.operands[n].opcode == "constant" and not loop.operands[n].dims
    }
    uses_body = _parameters_used(body)
    needed = {
        p.attributes["index"]
        for p in _reachable(condition, [condition.root])
        if p.opcode == "parameter"
    }
    needed |= uses_body.effects
    needed |= {n for n in used if not invariant[n]}
    pending = list(needed)
    while pending:
        n = pending.pop()
        for other in uses_body.of_result[n]:
            if other not in needed:
                needed.add(other)
                pending.append(other)
    kept = [n for n in range(count) if n in needed and n not in constants]
    if len(kept) == count or not kept:
        return None
    replaced = {n: c for n, c in constants.items() if n in needed}
    new_condition = _specialise(condition, kept, replaced, None)
    new_body = _specialise(body, kept, replaced, [results[n] for n in kept])
    shapes = tuple(loop.result_shapes[n] for n in kept)
    shape = TupleShape(shapes) if len(shapes) > 1 else shapes[0]
    new = Instruction(
        "while",
        shape,
        [loop.operands[n] for n in kept],
        dict(loop.attributes.items()),
        [new_condition, new_body],
        loop.name,
        loop.metadata,
    )
    outside = {n: loop.operands[n] for n in range(count) if invariant[n]}
    return new, kept, outside, twins


def _equal_counters(loop: Instruction) -> dict[int, int]:
    """States that start at the same constant and advance by the same constant as an earlier one."""
    _, body = loop.called
    first: dict[object, int] = {}
    twins: dict[int, int] = {}
    for n, (start, p, following) in enumerate(
        zip(loop.operands, body.parameters, body.results, strict=True)
    ):
        if start.opcode != "constant" or following.opcode != "add" or following.dims:
            continue
        x, step = following.operands
        if x.opcode == "constant":
            x, step = step, x
        if x is not p or step.opcode != "constant":
            continue
        literals = tuple(i.attributes["literal"].tobytes() for i in (start, step))
        earlier = first.setdefault((p.shape, literals), n)
        if earlier != n:
            twins[n] = earlier
    return twins


def _with_parameters_replaced(computation: Computation, twins: dict[int, int]) -> Computation:
    """The computation reading parameter ``twins[n]`` instead of parameter n."""
    mapped: dict[Instruction, Instruction] = {}
    output: list[Instruction] = []
    for i in computation.instructions:
        new = i.with_operands([mapped[o] for o in i.operands])
        output.append(new)
        number = i.attributes["index"] if i.opcode == "parameter" else -1
        mapped[i] = computation.parameters[twins[number]] if number in twins else new
    # Parameters stand first, so that one may stand for another behind it.
    output.sort(key=lambda i: i.opcode != "parameter")
    root = mapped[computation.root]
    return Computation(computation.name, computation.parameters, output, root)


class _Uses:
    """Which parameters each result of a body depends on, and which its side effects do."""

    def __init__(self, of_result: list[set[int]], effects: set[int]) -> None:
        self.of_result = of_result
        self.effects = effects


def _parameters_used(body: Computation) -> _Uses:
    # A bit set for each instruction: linear in instructions times states / 64.
    bits: dict[Instruction, int] = {}
    effects = 0
    for i in body.instructions:
        value = 1 << i.attributes["index"] if i.opcode == "parameter" else 0
        for o in i.operands:
            value |= bits[o]
        bits[i] = value
        if i.has_side_effect:
            effects |= value

    def numbers(value: int) -> set[int]:
        return {n for n in range(len(body.parameters)) if value >> n & 1}

    return _Uses([numbers(bits[r]) for r in body.results], numbers(effects))


def _reachable(computation: Computation, roots: list[Instruction]) -> set[Instruction]:
    effects = [i for i in computation.instructions if i.has_side_effect]
    return set(topological_order([*roots, *effects]))


def _specialise(
    computation: Computation,
    kept: list[int],
    replaced: dict[int, Instruction],
    results: list[Instruction] | None,
) -> Computation:
    """The computation with the parameters ``kept`` alone; ``replaced`` ones are constants;
    ``results`` for a new root.
    """
    mapped: dict[Instruction, Instruction] = {}
    parameters: list[Instruction] = []
    output: list[Instruction] = []
    for number, old in enumerate(kept):
        p = computation.parameters[old]
        new = parameter(number, p.shape, p.name)
        new.metadata = p.metadata
        mapped[p] = new
        parameters.append(new)
        output.append(new)
    for number, value in replaced.items():
        clone = value.replace()
        clone.name = ""
        mapped[computation.parameters[number]] = clone
        output.append(clone)
    roots = [computation.root] if results is None else results
    wanted = _reachable(computation, roots)
    for i in computation.instructions:
        if i.opcode == "parameter" or i not in wanted:
            continue
        new = i.with_operands([mapped[o] for o in i.operands])
        mapped[i] = new
        output.append(new)
    if results is None:
        return Computation(computation.name, parameters, output, mapped[computation.root])
    values = [mapped[r] for r in results]
    return Computation.of_results(computation.name, parameters, output, values)


# ----------------------------------------------------------------------------------------- hoisting


def hoist_invariants(module: Module, target: Target) -> Module:
    """Move work that is the same in every iteration in front of the loop.

    Its result becomes one more state of the loop that never changes (buffer assignment gives such a
    state no copy). A matrix that ``target`` makes in registers, of an array that takes less memory,
    stays: to read it takes longer than to make it.
    """
    if not module.has("while"):
        return module
    return map_computations(module, lambda c: _hoist_in(c, target, WORTH))


def hoist_packing(module: Module, target: Target) -> Module:
    """As :func:`hoist_invariants`, of the packing that choosing kernels has brought: a matrix that is the same in every
    iteration is packed once.
    """
    loops = module.all_of("while")
    if not any(i.opcode == "pack" for loop in loops for i in loop.called[1].instructions):
        return module
    return map_computations(module, lambda c: _hoist_in(c, target, PACKING))


def _hoist_in(computation: Computation, target: Target, worth_it: str) -> Computation:
    if not any(i.opcode == "while" for i in computation.instructions):
        return computation
    mapped: dict[Instruction, Instruction] = {}
    output: list[Instruction] = []
    changed = False
    for instruction in computation.instructions:
        new = instruction.with_operands([mapped[o] for o in instruction.operands])
        if instruction.opcode == "while" and instruction is not computation.root:
            hoisted = _hoist(new, target, worth_it)
            if hoisted is not None:
                before, new = hoisted
                output += before
                changed = True
        mapped[instruction] = new
        output.append(new)
    if not changed:
        return computation
    return Computation(computation.name, computation.parameters, output, mapped[computation.root])


def _hoist(
    loop: Instruction, target: Target, worth_it: str
) -> tuple[list[Instruction], Instruction] | None:
    """(instructions in front of the loop, the loop without them), or None if there is nothing to
    move. ``worth_it``: the ``hoisting`` of ops that are moved for their own sake; what they need goes along.
    """
    condition, body = loop.called
    frontier = _frontier(body, target, worth_it)
    if not frontier:
        return None
    outside: dict[Instruction, Instruction] = {
        p: loop.operands[p.attributes["index"]] for p in unchanged_parameters(body)
    }
    before: list[Instruction] = []
    for i in topological_order(frontier):
        if i not in outside:
            clone = i.replace(operands=[outside[o] for o in i.operands])
            clone.name = ""
            outside[i] = clone
            before.append(clone)
    count = len(loop.operands)
    extra = [parameter(count + n, i.shape) for n, i in enumerate(frontier)]
    inner: dict[Instruction, Instruction] = dict(zip(frontier, extra, strict=True))
    instructions: list[Instruction] = [*body.parameters, *extra]
    mapped: dict[Instruction, Instruction] = {p: p for p in body.parameters} | inner
    for i in body.instructions:
        if i.opcode == "parameter" or i in inner:
            continue
        operands = [mapped[o] for o in i.operands]
        if i is body.root:
            operands += extra
            mapped[i] = Instruction("tuple", TupleShape(tuple(o.shape for o in operands)), operands)  # type: ignore[misc]
        else:
            mapped[i] = i.with_operands(operands)
        instructions.append(mapped[i])
    new_body = prune(
        Computation(body.name, [*body.parameters, *extra], instructions, mapped[body.root])
    )
    more = [parameter(count + n, i.shape) for n, i in enumerate(frontier)]
    new_condition = Computation(
        condition.name,
        [*condition.parameters, *more],
        [*condition.instructions, *more],
        condition.root,
    )
    shape = TupleShape((*loop.result_shapes, *[i.shape for i in frontier]))  # type: ignore[arg-type]
    new = loop.replace(
        operands=[*loop.operands, *[outside[i] for i in frontier]],
        shape=shape,
        called=[new_condition, new_body],
    )
    return before, new


def _frontier(body: Computation, target: Target, worth_it: str) -> list[Instruction]:
    """Invariants of a loop's body that are worth moving, as far as the rest of the body reads them."""
    invariant = invariants_of(body)
    worth: set[Instruction] = set()
    for i in body.instructions:
        if i in invariant and i.operands:
            own = OPS[i.opcode].hoisting == worth_it
            if own or any(o in worth for o in i.operands):
                worth.add(i)
    found = (
        o
        for i in body.instructions
        if i not in invariant
        for o in i.operands
        if o in worth
        and _small_enough(o)
        and not (i.opcode == "dot" and is_made_inside(i, o, target))
        and not (i.is_elementwise and _adds_zeros(o))
    )
    return list(dict.fromkeys(found))


def _adds_zeros(i: Instruction) -> bool:
    """Whether ``i`` makes complex numbers of real ones, which costs an elementwise reader nothing: in memory they take
    twice as much.
    """
    return i.opcode == "convert" and i.dtype.is_complex and not i.operands[0].dtype.is_complex


def _small_enough(instruction: Instruction) -> bool:
    """Whether keeping the value for the whole loop costs less memory than is sensible."""
    assert isinstance(instruction.shape, Shape)
    read = sum(o.shape.bytes for o in instruction.operands if isinstance(o.shape, Shape))
    return instruction.shape.bytes <= max(4 * read, 1 << 16)
