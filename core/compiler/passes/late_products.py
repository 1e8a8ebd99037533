"""Sums of products over the steps of a loop are one product behind the loop.

The gradient of a recurrent layer's weights is such a sum: each step adds a product of a few rows to an array of the
weights' size, which is read and written again in every step. Behind the loop one product contracts the steps too. It
reads inputs of the loop, and values that the loop now stacks. An output that is a product of a stacked value and
weights is computed behind the loop as well.

Floats of at most 16 bits are multiplied and added up in f32 behind the loop, and rounded once: a product of all steps
may be beyond the range of f16 where the sum is not, and a sum in bf16 no longer loses what is smaller than its last
place. Programs that ask for roundings after every operation keep such sums in the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ..ir import dtypes
from ..ir.hlo import (
    Computation,
    DotDimensionNumbers,
    Instruction,
    Module,
    Shape,
    TupleShape,
    constant,
    get_tuple_element,
    parameter,
)
from ..ir.moves import transpose
from ..ir.patterns import convert, reshape, splat
from ..ir.trip_counts import Line, Steps, known_trip_count
from .overwritten import written_by
from .rewrite import prune, sweep_module

if TYPE_CHECKING:
    from ..targets.target import Target

_RESHAPES: Final = ("reshape", "bitcast")
_MOVES: Final = ("transpose", *_RESHAPES)


def multiply_late(module: Module, target: Target) -> Module:
    """while(..., sum + dot(a, b)) -> sum + dot(every a, every b), which contracts the steps of the loop too."""

    def rule(i: Instruction) -> Instruction | None:
        if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
            result: Instruction = i.operands[0].operands[i.attributes["index"]]
            return result
        if i.opcode != "while" or i.called[1].root.opcode != "tuple":
            return None
        count = known_trip_count(i)
        return _Loop(i, count, target, module.exact).rewritten() if count > 1 else None

    if not module.has("while") or not module.has("dot"):
        return module
    return sweep_module(module, rule)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A state to which each step adds a product. ``moves``: what becomes of the product before, the last move first."""

    dot: Instruction
    moves: tuple[Instruction, ...]


class _Loop:
    """``exact``: floats of at most 16 bits are rounded after each operation."""

    def __init__(self, loop: Instruction, count: int, target: Target, exact: bool) -> None:
        self.loop, self.count, self.exact = loop, count, exact
        self.price = target.costs.loops
        self.condition, self.body = loop.called
        self.steps = Steps(loop, count)
        self.users = self.body.users()
        self.read_outside = self.condition.users()
        self.unchanged = {
            p: loop.operands[n]
            for n, p in enumerate(self.body.parameters)
            if self.body.results[n] is p
        }
        # Where a step reads or writes the arrays of all steps, how that goes along with the steps, and which these are.
        self.place: Instruction | None = None
        self.line: Line | None = None
        self.of_all_steps: set[Instruction] = set()

    def rewritten(self) -> Instruction | None:
        """The loop without its sums of products, in a tuple with them; None if it has none that are worth it."""
        sums = {
            n: found
            for n in range(len(self.loop.operands))
            if (found := self.sum_of(n)) is not None
        }
        if not sums or not self.find_place():
            return None
        stacked: dict[Instruction, None] = {}
        for n, found in list(sums.items()):
            new = [o for o in found.dot.operands if self.input_of(o) is None]
            if (
                any(o in self.unchanged or o.opcode == "constant" for o in new)
                or sum(o.elements for o in new) > self.price.late_factors * found.dot.elements
            ):
                del sums[n]
            else:
                stacked.update(dict.fromkeys(new))
        more = sum(self.count * o.elements * o.dtype.bits // 8 for o in stacked)
        if not sums or more > self.price.late_stacks * self.bytes_of_all_steps():
            return None
        return self.without(sums, list(stacked))

    def sum_of(self, n: int) -> _Sum | None:
        """The product that each step adds to state ``n``, which nobody else reads."""
        state, following = self.body.parameters[n], self.body.results[n]
        if (
            following.opcode != "add"
            or not following.dtype.is_float
            or (self.exact and following.dtype.bits <= 16)
            or self.read_outside[self.condition.parameters[n]]
            or self.users[state] != [following]
            or [u for u in self.users[following] if u is not self.body.root]
            or self.body.results.count(following) > 1
        ):
            return None
        a, b = following.operands
        value = b if a is state else a
        moves = []
        while value.opcode in _MOVES and len(self.users[value]) == 1:
            moves.append(value)
            value = value.operands[0]
        if (
            value.opcode != "dot"
            or value.elements < self.price.late_sums
            or value.dtype is not following.dtype
            or len(self.users[value]) != 1
            or value.attributes["dimension_numbers"].lhs_batch
        ):
            return None
        return _Sum(value, tuple(moves))

    def find_place(self) -> bool:
        """Whether steps walk through arrays of all steps, from one end to the other; sets ``place``, ``line`` and
        ``of_all_steps``.
        """
        for i in self.body.instructions:
            if i.opcode == "dynamic-slice" and i.dims[:1] == (1,):
                place = i.operands[1]
            elif i.opcode == "dynamic-update-slice" and i.operands[1].dims[:1] == (1,):
                place = i.operands[2]
            else:
                continue
            if i.operands[0].dims[0] != self.count:
                continue
            line = self.steps.line(place)
            if self.place is None and line in ((0, 1), (self.count - 1, -1)):
                self.place, self.line = place, line
            if self.place is not None and line == self.line:
                self.of_all_steps.add(i.operands[0])
        return self.place is not None

    def input_of(self, value: Instruction) -> Instruction | None:
        """``value`` of all steps, steps first, if it is made of the part of a step of an array that is there before the
        loop.
        """
        moves = []
        while value.opcode in _MOVES:
            moves.append(value)
            value = value.operands[0]
        if value.opcode != "dynamic-slice" or value.operands[0] not in self.unchanged:
            return None
        dims = value.operands[0].dims
        if value.dims != (1, *dims[1:]) or dims[0] != self.count:
            return None
        if self.steps.line(value.operands[1]) != self.line:
            return None
        whole = reshape(self.unchanged[value.operands[0]], (self.count, *value.dims))
        for move in reversed(moves):
            if move.opcode == "transpose":
                whole = transpose(whole, (0, *(d + 1 for d in move.attributes["dimensions"])))
            else:
                whole = reshape(whole, (self.count, *move.dims))
        return whole

    def bytes_of_all_steps(self) -> int:
        """The bytes of the arrays that have an element of each step."""
        return sum(
            p.shape.bytes
            for p in self.body.parameters
            if p in self.of_all_steps and isinstance(p.shape, Shape)
        )

    def outputs(self, stacked: list[Instruction]) -> dict[int, Instruction]:
        """The outputs that are products of something stacked by weights, and the products."""
        found = {}
        for n, state in enumerate(self.body.parameters):
            update = written_by(state, self.body.results[n], self.users)
            if update is None or self.read_outside[self.condition.parameters[n]]:
                continue
            target, value, *starts = update.operands
            if value.dims != (1, *target.dims[1:]) or target.dims[0] != self.count:
                continue
            if self.steps.line(starts[0]) != self.line:
                continue
            while value.opcode in _RESHAPES and len(self.users[value]) == 1:
                value = value.operands[0]
            if (
                value.opcode == "dot"
                and len(self.users[value]) == 1  # a step that reads it would compute it as well
                and value.operands[0] in stacked
                and value.operands[1] in self.unchanged
                and not value.attributes["dimension_numbers"].lhs_batch
            ):
                found[n] = value
        return found

    # ---------------------------------------------------------------------------------------------------- the new loop
    def without(self, sums: dict[int, _Sum], stacked: list[Instruction]) -> Instruction:
        loop, body = self.loop, self.body
        outputs = self.outputs(stacked)
        states = len(loop.operands)
        shapes = [Shape(value.dtype, (self.count, *value.dims)) for value in stacked]
        more = [parameter(states + n, s) for n, s in enumerate(shapes)]
        results = list(body.results)
        for n in (*sums, *outputs):
            results[n] = body.parameters[n]
        assert self.place is not None
        zero = constant(0, self.place.dtype)
        instructions = [
            i for i in body.instructions if i.opcode != "parameter" and i is not body.root
        ]
        instructions.append(zero)
        for p, value in zip(more, stacked, strict=True):
            block = reshape(value, (1, *value.dims))
            if block is not value:
                instructions.append(block)
            at = [self.place, *[zero] * len(value.dims)]
            results.append(value.derive("dynamic-update-slice", (p, block, *at), shape=p.shape))
            instructions.append(results[-1])
        shape = TupleShape(tuple(r.shape for r in results))  # type: ignore[misc]
        root = Instruction("tuple", shape, results)
        parameters = [*body.parameters, *more]
        new_body = prune(
            Computation(body.name, parameters, [*parameters, *instructions, root], root)
        )
        new_loop = loop.replace(
            operands=[*loop.operands, *(splat(constant(0, s.dtype), s.dims) for s in shapes)],
            shape=shape,
            called=[_with_parameters(self.condition, shapes), new_body],
        )
        every = {v: get_tuple_element(new_loop, states + n) for n, v in enumerate(stacked)}
        final = []
        for n in range(states):
            if n in sums:
                final.append(self.total(sums[n], n, every))
            elif n in outputs:
                dot = outputs[n]
                product = self.product(
                    dot, [every[dot.operands[0]], self.unchanged[dot.operands[1]]]
                )
                final.append(reshape(product, loop.operands[n].dims))
            else:
                final.append(get_tuple_element(new_loop, n))
        return Instruction("tuple", loop.shape, final)

    def total(self, found: _Sum, n: int, every: dict[Instruction, Instruction]) -> Instruction:
        """State ``n`` after all steps. Small floats are rounded when the product has been added."""
        operands = []
        for value in found.dot.operands:
            whole = every.get(value) or self.input_of(value)
            assert whole is not None
            operands.append(whole)
        numbers: DotDimensionNumbers = found.dot.attributes["dimension_numbers"]
        lhs, rhs = (
            (0, *(d + 1 for d in side))
            for side in (numbers.lhs_contracting, numbers.rhs_contracting)
        )
        numbers = DotDimensionNumbers(lhs, rhs)
        dtype = found.dot.dtype
        wide = dtypes.F32 if dtype.bits <= 16 else dtype
        value = found.dot.replace(
            operands=operands,
            shape=Shape(wide, found.dot.dims),
            attributes={**found.dot.attributes, "dimension_numbers": numbers},
        )
        for move in reversed(found.moves):
            if move.opcode == "transpose":
                value = transpose(value, move.attributes["dimensions"], move.metadata)
            else:
                value = reshape(value, move.dims)
        start = convert(self.loop.operands[n], wide)
        return convert(self.body.results[n].derive("add", (start, value), shape=value.shape), dtype)

    def product(self, dot: Instruction, operands: list[Instruction]) -> Instruction:
        """A product by weights of all steps, steps first."""
        numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
        numbers = replace(numbers, lhs_contracting=tuple(d + 1 for d in numbers.lhs_contracting))
        return dot.replace(
            operands=operands,
            shape=Shape(dot.dtype, (self.count, *dot.dims)),
            attributes={**dot.attributes, "dimension_numbers": numbers},
        )


def _with_parameters(computation: Computation, shapes: list[Shape]) -> Computation:
    """``computation`` with parameters of these shapes too, which it does not read."""
    states = len(computation.parameters)
    more = [parameter(states + n, s) for n, s in enumerate(shapes)]
    return Computation(
        computation.name,
        [*computation.parameters, *more],
        [*computation.instructions, *more],
        computation.root,
    )
