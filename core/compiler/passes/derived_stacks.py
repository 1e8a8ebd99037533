"""A loop does not stack cheap functions of numbers that it stacks anyway.

The gradient of a scan reads what its steps stacked for it: a gate x of a recurrent layer, and the derivative x (1 - x),
each an array of all steps. A loop that takes both, one step at a time, computes the one from the step of the other. So
nothing reads the array, and the first loop no longer writes it.

Only f32 and f64: what is stacked in fewer bits is rounded, and the function of it would be one of rounded values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..ir import dtypes
from ..ir.hlo import Instruction, Module, broadcast
from ..ir.patterns import reshape
from ..ir.trip_counts import Line, Steps, known_trip_count
from .cheap_functions import CHEAP, cheap_function
from .overwritten import written_by
from .rewrite import substitute, sweep_module
from .while_loops import simplify_loops

_RESHAPES: Final = ("reshape", "bitcast")
_DTYPES: Final = (dtypes.F32, dtypes.F64)


def derive_stacks(module: Module) -> Module:
    """while(stack, f(stack)) -> while(stack), whose steps compute f of a step of the stack."""
    stacks: dict[Instruction, _Stacks] = {}

    def rule(i: Instruction) -> Instruction | None:
        return _with_sources(i, stacks) if i.opcode == "while" else None

    if not module.has("while"):
        return module
    swept = sweep_module(module, rule, repeat=False)
    # The loop loses states that it no longer reads, so that the one before, in the next such pass, loses outputs.
    return swept if swept is module else simplify_loops(swept)


@dataclass(frozen=True, slots=True)
class _Derived:
    """``value``, of a step, is a cheap function of ``source``, which output ``number`` stacks."""

    number: int
    source: Instruction
    value: Instruction


class _Stacks:
    """The outputs of a loop that have an element of each step in their first dimension."""

    def __init__(self, loop: Instruction) -> None:
        self.loop = loop
        count = known_trip_count(loop)
        body = loop.called[1]
        # Output -> what a step stacks in it, all in the same place.
        self.values: dict[int, Instruction] = {}
        if count <= 1 or body.root.opcode != "tuple":
            return
        steps, users, first = Steps(loop, count), body.users(), None
        for n, state in enumerate(body.parameters):
            update = written_by(state, body.results[n], users)
            if update is None or state.dtype not in _DTYPES:
                continue
            target, block, *starts = update.operands
            line: Line | None = steps.line(starts[0])
            if block.dims != (1, *target.dims[1:]) or target.dims[0] != count or line is None:
                continue
            first = first or line
            if line == first and line in ((0, 1), (count - 1, -1)):
                self.values[n] = _same(block)

    def derived(self, number: int) -> _Derived | None:
        """How output ``number`` follows from another one; None if it does not."""
        value = self.values.get(number)
        if value is None:
            return None
        sources = {
            v: n for n, v in self.values.items() if v is not value and self.is_alike(number, n)
        }
        found = cheap_function(value, sources)
        if found is None or len(found.sources) != 1:
            return None
        (source,) = found.sources
        return _Derived(sources[source], source, value)

    def is_alike(self, one: int, other: int) -> bool:
        """Whether two outputs are arrays of the same shape."""
        a, b = (self.loop.called[1].parameters[n].shape for n in (one, other))
        return a == b and self.values[one].dims == self.values[other].dims


def _same(block: Instruction) -> Instruction:
    """What ``block`` has the elements of, in the same order."""
    while block.opcode in _RESHAPES:
        block = block.operands[0]
    return block


def _with_sources(loop: Instruction, stacks: dict[Instruction, _Stacks]) -> Instruction | None:
    """``loop`` whose steps compute what follows from other stacks that it is given; None if nothing does."""
    condition, body = loop.called
    if body.root.opcode != "tuple":
        return None
    # Outputs of earlier loops that stay as they are -> the parameter.
    given: dict[tuple[Instruction, int], Instruction] = {}
    for operand, p, result in zip(loop.operands, body.parameters, body.results, strict=True):
        if operand.opcode == "get-tuple-element" and result is p:
            given[operand.operands[0], operand.attributes["index"]] = p
    users = body.users()
    replaced: dict[Instruction, Instruction] = {}
    for (before, number), p in given.items():
        slices = [u for u in users[p] if u is not body.root]
        if before.opcode != "while" or not all(_takes_a_step(u, p) for u in slices):
            continue
        if before not in stacks:
            stacks[before] = _Stacks(before)
        derived = stacks[before].derived(number)
        source = given.get((before, derived.number)) if derived else None
        if derived is None or source is None:
            continue
        for u in slices:
            replaced[u] = _computed(derived, u.with_operands([source, *u.operands[1:]]))
    return loop.replace(called=[condition, substitute(body, replaced)]) if replaced else None


def _takes_a_step(user: Instruction, p: Instruction) -> bool:
    """Whether ``user`` is one element of the first dimension of ``p``, and nothing else of it."""
    return (
        user.opcode == "dynamic-slice"
        and user.operands[0] is p
        and p not in user.operands[1:]
        and user.dims == (1, *p.dims[1:])
    )


def _computed(derived: _Derived, step: Instruction) -> Instruction:
    """The derived value of a step, of the source's ``step``."""
    made = {derived.source: step}

    def of(i: Instruction) -> Instruction:
        if i not in made:
            if i.opcode in CHEAP:
                made[i] = i.derive(i.opcode, [of(o) for o in i.operands], shape=step.shape)
            else:
                scalar = i.operands[0] if i.opcode == "broadcast" else i
                made[i] = broadcast(reshape(scalar, ()), step.dims)
        return made[i]

    return of(derived.value)
