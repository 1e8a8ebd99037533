"""Outputs of scans that no step reads are computed behind the loop, for all steps at once.

A step of a small scan computes few numbers, one operation after the other; behind the loop the same operations are
vectors of steps, and threads share them. What they are computed from is stacked instead: ``sin(y)`` of a state y, the
logarithms of a likelihood, what a gradient keeps of each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..ir.hlo import (
    Computation,
    Instruction,
    Module,
    Shape,
    TupleShape,
    broadcast,
    constant,
    get_tuple_element,
    parameter,
)
from ..ir.patterns import reshape
from ..ir.registry import OPS
from ..ir.trip_counts import Line, Steps
from .overwritten import written_by
from .rewrite import prune, sweep_module

if TYPE_CHECKING:
    from ..targets.target import Target


_MOVES: Final = ("broadcast", "reshape", "bitcast")
# Instructions that one output is made of, and rounds of leaving out outputs that are not worth it: the pass is to take
# a time that grows with the program.
_MOST_MADE: Final = 64
_MOST_ROUNDS: Final = 8


def compute_outputs_late(module: Module, target: Target) -> Module:
    """while(..., dynamic-update-slice(outputs, f(state))) -> f(while(..., dynamic-update-slice(states, state))), for
    elementwise f that the target takes long for, one step after the other.
    """
    loops = module.all_of("while")
    if not any(r.opcode == "dynamic-update-slice" for i in loops for r in i.called[1].results):
        return module

    def rule(i: Instruction) -> Instruction | None:
        if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
            result: Instruction = i.operands[0].operands[i.attributes["index"]]
            return result
        return _Outputs(i, target).moved() if _may_move(i) else None

    return sweep_module(module, rule)


def _may_move(i: Instruction) -> bool:
    return (
        i.opcode == "while"
        and i.attributes.get("trip_count", -1) > 1
        and i.called[1].root.opcode == "tuple"
        and any(r.opcode == "dynamic-update-slice" for r in i.called[1].results)
    )


def _bytes(values: Iterable[Instruction]) -> int:
    return sum(i.shape.bytes for i in values if isinstance(i.shape, Shape))


def _same_numbers(value: Instruction) -> Instruction:
    """What a value has all numbers of, in the same order."""
    while value.opcode in _MOVES and value.operands[0].elements == value.elements:
        order = value.attributes.get("dimensions", ())
        if list(order) != sorted(order):
            break
        value = value.operands[0]
    return value


class _Outputs:
    """What a loop writes, an element of the first dimension in each step, and does not read."""

    def __init__(self, loop: Instruction, target: Target) -> None:
        self.loop = loop
        self.target = target
        self.price = target.costs.loops
        self.condition, self.body = loop.called
        self.count: int = loop.attributes["trip_count"]
        self.steps = Steps(loop, self.count)
        results = self.body.results
        self.unchanged = {
            p: loop.operands[n] for n, p in enumerate(self.body.parameters) if results[n] is p
        }
        read_outside, users = self.condition.users(), self.body.users()
        # How the place that the outputs are written at goes along with the steps, and each state's update.
        self.line: Line | None = None
        self.updates: dict[int, Instruction] = {}
        for n, p in enumerate(self.body.parameters):
            if results[n].opcode != "dynamic-update-slice":
                continue
            update = written_by(p, results[n], users)
            if update is None or read_outside[self.condition.parameters[n]]:
                continue
            line = self.line_of(update)
            self.line = self.line or line
            if line is not None and line == self.line:
                self.updates[n] = update

    def line_of(self, update: Instruction) -> Line | None:
        """How the place of an update, which writes one element of the first dimension, goes along with the steps; None
        unless all elements are written.
        """
        target, block, *starts = update.operands
        dims = target.dims
        if not dims or block.dims != (1, *dims[1:]) or dims[0] != self.count:
            return None
        line = self.steps.line(starts[0])
        return line if line in ((0, 1), (self.count - 1, -1)) else None

    # ------------------------------------------------------------------------------------------- what is worth moving
    def moved(self) -> Instruction | None:
        """The loop without the outputs that are worth it, in a tuple with them; None if there are none."""
        chosen = {n: u for n, u in self.updates.items() if self.is_made(u.operands[1])}
        for _ in range(_MOST_ROUNDS):
            needed = self.needed(chosen)
            leaves: dict[Instruction, None] = {}
            inner: dict[Instruction, None] = {}
            left_out = []
            for n, update in chosen.items():
                found, made = self.parts(update.operands[1], needed)
                if (
                    len(made) > _MOST_MADE
                    or self.early(made) < self.price.late_gain * self.late(made)
                    or _bytes(found) > self.price.late_states * _bytes((update.operands[1],))
                ):
                    left_out.append(n)
                leaves |= found
                inner |= made
            if left_out:  # what the others are made of may be needed now
                chosen = {n: u for n, u in chosen.items() if n not in left_out}
                continue
            if not chosen:
                return None
            there = {
                _same_numbers(u.operands[1]): n for n, u in self.updates.items() if n not in chosen
            }
            stacked = [leaf for leaf in leaves if leaf not in there]
            saved = self.early(inner) - self.late(inner)
            kept = self.count * len(stacked) * self.price.late_kept
            if saved < max(self.price.late_saving, kept):
                return None
            return self.rebuilt(chosen, needed, stacked, there)
        return None

    def is_made(self, value: Instruction) -> bool:
        """Whether anything is computed for an output that a vector of steps could compute."""
        while value.opcode in _MOVES:
            value = value.operands[0]
        return self.may_be_late(value)

    def may_be_late(self, i: Instruction) -> bool:
        if i.opcode in _MOVES:
            return True
        op = OPS[i.opcode]
        return (
            op.elementwise
            and not (op.side_effect or i.called)
            and isinstance(i.shape, Shape)
            and bool(i.operands)
            and all(o.dims in (i.dims, ()) for o in i.operands)
        )

    def needed(self, chosen: Iterable[int]) -> set[Instruction]:
        """What the steps compute without the outputs ``chosen``."""
        chosen = set(chosen)
        pending = [r for n, r in enumerate(self.body.results) if n not in chosen]
        pending += [i for i in self.body.instructions if OPS[i.opcode].side_effect or i.called]
        found: set[Instruction] = set()
        while pending:
            i = pending.pop()
            if i not in found:
                found.add(i)
                pending += i.operands
        return found

    def parts(
        self, value: Instruction, needed: set[Instruction]
    ) -> tuple[dict[Instruction, None], dict[Instruction, None]]:
        """What an output is computed from that must be kept of each step, and what is computed of it."""
        leaves: dict[Instruction, None] = {}
        made: dict[Instruction, None] = {}
        pending = [value]
        while pending and len(made) <= _MOST_MADE:
            i = pending.pop()
            if i in made or i in leaves or self.is_known(i):
                continue
            if i.opcode in _MOVES or (i not in needed and self.may_be_late(i)):
                made[i] = None
                pending += i.operands
            else:
                leaves[i] = None
        return leaves, made

    def is_known(self, i: Instruction) -> bool:
        """Whether the numbers of all steps are there before the loop."""
        return i.opcode in ("constant", "iota") or i in self.unchanged or self.is_input(i)

    def same_in_all_steps(self, i: Instruction) -> Instruction | None:
        """What ``i`` is outside of the loop, if it is known there and the same in all steps. A broadcast of it is one
        instruction then, whose dimensions kernels can take together: one of numbers by step is not.
        """
        return self.unchanged.get(i, i) if self.is_known(i) and not self.is_input(i) else None

    def is_input(self, i: Instruction) -> bool:
        """A slice for each step of an array that does not change."""
        if i.opcode != "dynamic-slice" or i.operands[0] not in self.unchanged:
            return False
        dims = i.operands[0].dims
        return (
            bool(dims)
            and i.dims == (1, *dims[1:])
            and dims[0] == self.count
            and self.steps.line(i.operands[1]) == self.line
        )

    def early(self, made: Iterable[Instruction]) -> float:
        """Nanoseconds that all steps take for it, one after the other."""
        lanes, price = self.target.lanes, self.target.costs.nanoseconds
        return self.count * sum(math.ceil(i.elements / lanes(i.dtype)) * price(i) for i in made)

    def late(self, made: Iterable[Instruction]) -> float:
        """Nanoseconds that vectors of steps take."""
        lanes, price = self.target.lanes, self.target.costs.nanoseconds
        return self.count * sum(i.elements / lanes(i.dtype) * price(i) for i in made)

    # ---------------------------------------------------------------------------------------------------- the new loop
    def rebuilt(
        self,
        chosen: dict[int, Instruction],
        needed: set[Instruction],
        leaves: list[Instruction],
        there: dict[Instruction, int],
    ) -> Instruction:
        """``leaves``: what is to be kept of each step. ``there``: values that are, and the numbers of the outputs that
        they are.
        """
        loop, body, count = self.loop, self.body, self.count
        kept = [n for n in range(len(loop.operands)) if n not in chosen]
        numbers = {n: new for new, n in enumerate(kept)}
        shapes = [Shape(leaf.dtype, (count, *leaf.dims)) for leaf in leaves]
        start = next(iter(chosen.values())).operands[2]
        zero = constant(0, start.dtype)

        def parameters(old: Computation) -> list[Instruction]:
            first = [old.parameters[n].replace(attributes={"index": numbers[n]}) for n in kept]
            return [*first, *(parameter(len(kept) + n, s) for n, s in enumerate(shapes))]

        new_parameters = parameters(body)
        mapped = dict(zip((body.parameters[n] for n in kept), new_parameters, strict=False))
        instructions = [*new_parameters]
        wanted = set(needed) | set(leaves) | {start}
        pending = [start, *leaves]
        while pending:
            i = pending.pop()
            wanted.add(i)
            pending += [o for o in i.operands if o not in wanted]
        for i in body.instructions:
            if i in wanted and i.opcode != "parameter" and i is not body.root:
                mapped[i] = i.with_operands([mapped[o] for o in i.operands])
                instructions.append(mapped[i])
        results = [mapped[body.results[n]] for n in kept]
        instructions.append(zero)
        for p, leaf in zip(new_parameters[len(kept) :], leaves, strict=True):
            block = reshape(mapped[leaf], (1, *leaf.dims))
            if block is not mapped[leaf]:
                instructions.append(block)
            at = [mapped[start], *[zero] * len(leaf.dims)]
            results.append(leaf.derive("dynamic-update-slice", (p, block, *at), shape=p.shape))
            instructions.append(results[-1])
        shape = TupleShape(tuple(r.shape for r in results))  # type: ignore[misc]
        root = Instruction("tuple", shape, results)
        new_body = prune(Computation(body.name, new_parameters, [*instructions, root], root))
        new_loop = loop.replace(
            operands=[
                *(loop.operands[n] for n in kept),
                *(Instruction("allocate-buffer", s) for s in shapes),
            ],
            shape=shape,
            called=[self.new_condition(parameters(self.condition), kept), new_body],
        )
        lifted: dict[Instruction, Instruction] = {
            leaf: get_tuple_element(new_loop, len(kept) + n) for n, leaf in enumerate(leaves)
        }
        for leaf, n in there.items():
            whole = get_tuple_element(new_loop, numbers[n])
            lifted[leaf] = reshape(whole, (count, *leaf.dims))
        final = []
        for n in range(len(loop.operands)):
            if n in numbers:
                final.append(get_tuple_element(new_loop, numbers[n]))
            else:
                update = chosen[n]
                value = self.lift(update.operands[1], lifted)
                final.append(reshape(value, update.dims))
        return Instruction("tuple", loop.shape, final)

    def new_condition(self, parameters: list[Instruction], kept: list[int]) -> Computation:
        old = self.condition
        mapped = dict(zip((old.parameters[n] for n in kept), parameters, strict=False))
        instructions = list(parameters)
        for i in old.instructions:
            if i.opcode != "parameter":
                mapped[i] = i.with_operands([mapped[o] for o in i.operands])
                instructions.append(mapped[i])
        return Computation(old.name, parameters, instructions, mapped[old.root])

    def lift(self, value: Instruction, lifted: dict[Instruction, Instruction]) -> Instruction:
        """The numbers of all steps of ``value``, steps first."""
        pending = [value]
        while pending:
            i = pending[-1]
            if i in lifted:
                pending.pop()
                continue
            missing = [] if self.is_known(i) else [o for o in i.operands if o not in lifted]
            if missing:
                pending += missing
                continue
            lifted[i] = self.lifted(i, lifted)
            pending.pop()
        return lifted[value]

    def lifted(self, i: Instruction, lifted: dict[Instruction, Instruction]) -> Instruction:
        """``i`` of all steps, its operands being that already."""
        dims = (self.count, *i.dims)
        if self.is_input(i):
            return reshape(self.unchanged[i.operands[0]], dims)
        if self.is_known(i):
            return broadcast(self.unchanged.get(i, i), dims, range(1, len(dims)))
        operands = [lifted[o] for o in i.operands]
        if i.opcode == "broadcast":
            along = [d + 1 for d in i.attributes["dimensions"]]
            once = self.same_in_all_steps(i.operands[0])
            if once is not None:
                return broadcast(once, dims, along)
            return broadcast(operands[0], dims, (0, *along))
        if i.opcode in ("reshape", "bitcast"):
            return reshape(operands[0], dims)
        for n, o in enumerate(operands):
            if len(o.dims) != len(dims):  # a predicate or a limit for all elements
                once = self.same_in_all_steps(i.operands[n])
                operands[n] = broadcast(o, dims, (0,)) if once is None else broadcast(once, dims)
        late = i.replace(operands=operands, shape=Shape(i.dtype, dims))
        late.name = ""
        return late
