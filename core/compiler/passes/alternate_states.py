"""Loops whose states would be copied at the end of each step take two steps at a time.

A kernel that reads its operand's neighbours, a product or a sort writes its result beside the operand. Where that
result is the next state of a loop, it would have to be copied into the memory of the state. In a loop of double steps
the first step goes from the memory of the state to another one, and the second step goes back. Two states that change
places, such as the last two of a leapfrog method, do so too. What a step computes stays the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ..formats.artifact import ALLOCATION_TEMP
from ..ir.control_flow import executable_computations
from ..ir.hlo import Computation, Instruction, Module, Shape, get_tuple_element, parameter
from ..ir.shape_rules import one_or_tuple
from ..memory.buffers import Assignment, assign
from ..memory.inplace import must_share
from ..memory.liveness import resolve
from .collective_groups import meets_others
from .inline import unshare_control_flow
from .rewrite import map_computations, on_mapped

if TYPE_CHECKING:
    from ..targets.costs import Thunks
    from ..targets.target import Target


def alternate_states(module: Module, target: Target) -> Module:
    """The module, which is fused and in its final order, with double steps in loops that copy less with them."""
    costs = target.costs.thunks
    if not costs.alternated or not module.has("while"):
        return module

    def alternated(computation: Computation) -> Computation:
        loops = [i for i in computation.instructions if i.opcode == "while"]
        return _with_double_steps(computation, {i for i in loops if _is_worth_it(i, costs)})

    changed = map_computations(module, alternated, executable_computations(module))
    return module if changed is module else unshare_control_flow(changed)


# ------------------------------------------------------------------------------------------------------ what is copied
def _is_worth_it(loop: Instruction, costs: Thunks) -> bool:
    """Whether two steps of ``loop`` copy more than a double step would. That may take as much more memory."""
    if 0 <= _trips(loop) < 2 or not _may_copy(loop.called[1], costs.alternated):
        return False
    step = Module("step", loop.called[1])
    length = sum(len(computation.instructions) for computation in executable_computations(step))
    if length > costs.alternated_steps or meets_others(loop) or _asks_outside(loop):
        return False
    copied, memory = _cost_of(loop)
    if copied < costs.alternated:
        return False
    copied_by_two, memory_of_two = _cost_of(_doubled(loop))
    saved = copied - copied_by_two // 2  # in a step
    return saved >= costs.alternated and memory_of_two - memory <= saved


def _asks_outside(loop: Instruction) -> bool:
    """Whether the condition of ``loop`` calls back or draws random numbers: a double step would ask it once more after
    its answer was no.
    """
    if _trips(loop) >= 0:
        return False
    asked = executable_computations(Module("condition", loop.called[0]))
    return any(
        i.has_side_effect or (i.opcode == "library-call" and i.attributes["name"] == "rng-state")
        for computation in asked
        for i in computation.instructions
    )


def _may_copy(body: Computation, least: int) -> bool:
    """Whether a state of at least so many bytes may have to be copied at the end of each step."""
    states = list(zip(body.parameters, body.results, strict=True))
    if not all(isinstance(p.shape, Shape) for p, _ in states):
        return False
    following = [resolve(r) for p, r in states if p.shape.bytes >= least and resolve(r) is not p]  # type: ignore[union-attr]
    return not all(map(must_share, following))


def _cost_of(loop: Instruction) -> tuple[int, int]:
    """The bytes that a step of ``loop`` copies, and those of its temporaries, if a program is only the loop."""
    operands = [parameter(n, o.shape) for n, o in enumerate(loop.operands)]
    alone = loop.on(operands)
    results = [alone]
    if len(loop.operands) > 1:
        results = [get_tuple_element(alone, n) for n in range(len(loop.operands))]
    computed = [alone] if results == [alone] else [alone, *results]
    entry = Computation.of_results("alone", operands, [*operands, *computed], results)
    module = unshare_control_flow(Module("alone", entry))
    (alone,) = (i for i in module.entry.instructions if i.opcode == "while")
    assignment = assign(module)
    memory = sum(a.size for a in assignment.allocations if a.kind == ALLOCATION_TEMP)
    return _copied_by_step(alone, assignment), memory


def _copied_by_step(loop: Instruction, assignment: Assignment) -> int:
    return _copied_by(loop.called, assignment) + _moved(loop, "body", assignment)


def _copied_by(computations: Iterable[Computation], assignment: Assignment) -> int:
    """The bytes that one run of ``computations`` copies; of a conditional, that of its usual branch."""
    total = 0
    for i in (i for computation in computations for i in computation.instructions):
        total += _moved(i, "copy", assignment)
        if i.opcode == "while":
            steps = max(_trips(i), 1)
            total += _moved(i, "init", assignment) + steps * _copied_by_step(i, assignment)
        elif i.opcode == "conditional":
            of_branches = [
                _copied_by([branch], assignment) + _moved(i, str(n), assignment)
                for n, branch in enumerate(i.called)
            ]
            usual = i.attributes.get("usual", -1)
            total += max(of_branches) if usual < 0 else of_branches[usual]
    return total


def _moved(instruction: Instruction, place: str, assignment: Assignment) -> int:
    return sum(move.source.size for move in assignment.moves.get((instruction, place), ()))


def _trips(loop: Instruction) -> int:
    """How often the loop runs; -1 if that is not known."""
    return int(loop.attributes.get("trip_count", -1))


# -------------------------------------------------------------------------------------------------------- double steps
def _with_double_steps(computation: Computation, chosen: Collection[Instruction]) -> Computation:
    """``computation`` with double steps in the loops ``chosen``; a first step stands before those with an odd number of
    them.
    """
    if not chosen:
        return computation
    mapped: dict[Instruction, Instruction] = {}
    instructions: list[Instruction] = []
    for i in computation.instructions:
        now = on_mapped(i, mapped)
        if i in chosen:
            if _trips(i) % 2 == 1 and _trips(i) > 0:
                first, values = _step(i.called[1], now.operands)
                instructions += first
                now = now.on(values)
            now = _doubled(now)
        if now is not i:
            mapped[i] = now
        instructions.append(now)
    root = mapped.get(computation.root, computation.root)
    return Computation(computation.name, computation.parameters, instructions, root)


def _doubled(loop: Instruction) -> Instruction:
    """``loop`` with two steps in one; the second one is conditional if it is not known how many there are."""
    condition, body = loop.called
    instructions = [i for i in body.instructions if i is not body.root or i.opcode != "tuple"]
    values = list(body.results)
    attributes = dict(loop.attributes)
    if _trips(loop) < 0:
        more, values = _conditional_step(condition, body)
    else:
        more, values = _step(body, values)
        attributes["trip_count"] = _trips(loop) // 2
    twice = Computation.of_results(body.name, body.parameters, [*instructions, *more], values)
    return loop.replace(attributes=attributes, called=[condition, twice])


def _step(
    computation: Computation, arguments: Sequence[Instruction]
) -> tuple[list[Instruction], list[Instruction]]:
    """What ``computation`` computes of ``arguments``: new instructions, and its results."""
    mapped = dict(zip(computation.parameters, arguments, strict=True))
    instructions: list[Instruction] = []
    for i in computation.instructions:
        if i.opcode != "parameter" and (i is not computation.root or i.opcode != "tuple"):
            mapped[i] = i.on([mapped[o] for o in i.operands])
            instructions.append(mapped[i])
    return instructions, [mapped[r] for r in computation.results]


def _conditional_step(
    condition: Computation, body: Computation
) -> tuple[list[Instruction], list[Instruction]]:
    """A step behind ``body`` if ``condition`` holds there: new instructions, and the states after it."""
    states = body.results
    changing = [n for n, r in enumerate(states) if resolve(r) is not body.parameters[n]]
    instructions, (holds,) = _step(condition, states)
    branches = []
    for is_step in (True, False):
        parameters = [parameter(n, p.shape) for n, p in enumerate(body.parameters)]
        inside, results = _step(body, parameters) if is_step else ([], [*parameters])
        kept = [results[n] for n in changing]
        name = f"{body.name}_{'again' if is_step else 'over'}"
        branches.append(Computation.of_results(name, parameters, [*parameters, *inside], kept))
    chosen = Instruction(
        "conditional",
        one_or_tuple([states[n].shape for n in changing]),
        [holds, *states, *states],
        {"operand_counts": (len(states), len(states)), "usual": 0},
        branches,
    )
    instructions.append(chosen)
    values = [*body.parameters]
    for place, n in enumerate(changing):
        values[n] = chosen
        if len(changing) > 1:
            values[n] = get_tuple_element(chosen, place)
            instructions.append(values[n])
    return instructions, values
