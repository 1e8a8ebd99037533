"""Loops whose states would be copied at the end of each step take several steps at a time.

A kernel that reads its operand's neighbours, a product or a sort writes its result beside the operand. Where that
result is the next state of a loop, it would have to be copied into the memory of the state. In a loop of double steps
the first step goes from the memory of the state to another one, and the second step goes back. Two states that change
places, such as the last two of a leapfrog method, do so too. States that move on by one place in each step, such as the
last three of a multi-step method, are back in their places after as many steps as there are memories that take turns.
What a step computes stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

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

# Steps that a loop takes at a time: three states that move on by a place want three, or four where none of them can be
# written over.
MOST_STEPS: Final = 4


def alternate_states(module: Module, target: Target) -> Module:
    """The module, which is fused and in its final order, with several steps in one in loops that copy less with
    them.
    """
    costs = target.costs.thunks
    if not costs.alternated or not module.has("while"):
        return module

    def alternated(computation: Computation) -> Computation:
        loops = [i for i in computation.instructions if i.opcode == "while"]
        numbers = {i: _steps_at_a_time(i, costs) for i in loops}
        return _with_several_steps(computation, {i: n for i, n in numbers.items() if n > 1})

    changed = map_computations(module, alternated, executable_computations(module))
    return module if changed is module else unshare_control_flow(changed)


# ------------------------------------------------------------------------------------------------------ what is copied
def _steps_at_a_time(loop: Instruction, costs: Thunks) -> int:
    """How many steps of ``loop`` should be one: as many as copy least, if they save enough. They may take as much more
    memory as they save in a step.
    """
    if 0 <= _trips(loop) < 2 or not _may_copy(loop.called[1], costs.alternated):
        return 1
    step = Module("step", loop.called[1])
    length = sum(len(computation.instructions) for computation in executable_computations(step))
    if length > costs.alternated_steps or meets_others(loop) or _asks_outside(loop):
        return 1
    copied, memory = _cost_of(loop)
    best, least = 1, copied
    for number in range(2, MOST_STEPS + 1):
        if (number - 1) * length > costs.alternated_steps or 0 <= _trips(loop) < number:
            break
        if least < costs.alternated:  # what is left is not worth more code
            break
        copied_by_all, memory_of_all = _cost_of(_repeated(loop, number))
        now = copied_by_all // number
        if least - now >= costs.alternated and memory_of_all - memory <= copied - now:
            best, least = number, now
    return best


def _asks_outside(loop: Instruction) -> bool:
    """Whether the condition of ``loop`` calls back or draws random numbers: several steps in one would ask it once
    more after its answer was no.
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


# ------------------------------------------------------------------------------------------------ several steps in one
def _with_several_steps(computation: Computation, chosen: Mapping[Instruction, int]) -> Computation:
    """``computation`` with so many steps in one in the loops ``chosen``. Steps that are left over where that does not
    divide a loop's number of steps stand before the loop.
    """
    if not chosen:
        return computation
    mapped: dict[Instruction, Instruction] = {}
    instructions: list[Instruction] = []
    for i in computation.instructions:
        now = on_mapped(i, mapped)
        if i in chosen:
            for _ in range(max(_trips(i), 0) % chosen[i]):
                first, values = _step(i.called[1], now.operands)
                instructions += first
                now = now.on(values)
            now = _repeated(now, chosen[i])
        if now is not i:
            mapped[i] = now
        instructions.append(now)
    root = mapped.get(computation.root, computation.root)
    return Computation(computation.name, computation.parameters, instructions, root)


def _repeated(loop: Instruction, number: int) -> Instruction:
    """``loop`` with ``number`` steps in one. All but the first are conditional if it is not known how often it runs."""
    condition, body = loop.called
    instructions = [i for i in body.instructions if i is not body.root or i.opcode != "tuple"]
    values = list(body.results)
    attributes = dict(loop.attributes)
    if _trips(loop) < 0:
        more, values = _conditional_steps(condition, body, values, number - 1)
        instructions += more
    else:
        for _ in range(number - 1):
            more, values = _step(body, values)
            instructions += more
        attributes["trip_count"] = _trips(loop) // number
    together = Computation.of_results(body.name, body.parameters, instructions, values)
    return loop.replace(attributes=attributes, called=[condition, together])


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


def _conditional_steps(
    condition: Computation, body: Computation, states: Sequence[Instruction], number: int
) -> tuple[list[Instruction], list[Instruction]]:
    """Up to ``number`` steps from ``states`` on, each if ``condition`` holds before it: new instructions, and the
    states after them.
    """
    if not number:
        return [], [*states]
    changing = [n for n, r in enumerate(body.results) if resolve(r) is not body.parameters[n]]
    instructions, (holds,) = _step(condition, states)
    branches = []
    for is_step in (True, False):
        parameters = [parameter(n, p.shape) for n, p in enumerate(body.parameters)]
        inside: list[Instruction] = []
        results: list[Instruction] = [*parameters]
        if is_step:
            inside, results = _step(body, parameters)
            more, results = _conditional_steps(condition, body, results, number - 1)
            inside += more
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
    values = [*states]
    for place, n in enumerate(changing):
        values[n] = chosen
        if len(changing) > 1:
            values[n] = get_tuple_element(chosen, place)
            instructions.append(values[n])
    return instructions, values
