"""Weights that are transposed before they are whole: the transpose is moved behind what makes the matrix.

    dot(x, transpose(convert(w)) * s)  ->  dot(x, transpose(convert(w) * s'))

Users who keep weights as [n, k] write ``x @ (w.T.astype(x.dtype) * s)`` as often as ``x @ (w.astype(x.dtype) *
s[:, None]).T``. Products of a few rows (:mod:`.library.streamed`) look through a transpose of the whole matrix, and
read an array where it lies. Below a scale the transpose would be made in memory, which takes ten times as long as the
product. A transpose is moved past elementwise instructions, past reshapes that keep its dimensions apart, and past
scales and offsets, which are broadcast along other dimensions in its place. Products of more rows turn such a matrix in
registers while they compute what they use of it, or pack it (:mod:`.library.packed`).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ..ir.hlo import DotDimensionNumbers, Instruction, Module
from ..ir.moves import transpose
from ..ir.patterns import reshape, reshape_groups
from . import rewrite
from .library.gemm import makes_rhs
from .library.streamed import is_made_inside

if TYPE_CHECKING:
    from ..targets.target import Target

# What makes weights is a chain of no more instructions.
_DEEPEST: Final = 24
# An array of so many elements fewer than the matrix may be transposed in memory.
_SMALL: Final = 8

Order = tuple[int, ...]


def turn_weights(module: Module, target: Target) -> Module:
    """``module`` with the transposes inside of weights moved behind what makes them, wherever a product then computes
    its matrix in registers.
    """

    def rule(i: Instruction) -> Instruction | None:
        return _turned_dot(i, target) if i.opcode == "dot" else None

    if not module.has("dot") or not module.has("transpose"):
        return module
    return rewrite.sweep_module(module, rule, repeat=False)


def _turned_dot(dot: Instruction, target: Target) -> Instruction | None:
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    if numbers.lhs_batch or 0 in dot.dims or not dot.dtype.is_float:
        return None
    for side, contracted in enumerate((numbers.lhs_contracting, numbers.rhs_contracting)):
        matrix = dot.operands[side]
        many = math.prod([size for d, size in enumerate(matrix.dims) if d not in contracted])
        is_few = dot.elements <= target.costs.products.few_rows * many
        if not is_few and side == 0:
            continue
        made, order = _Weights().laid_out(matrix, _DEEPEST)
        if order == tuple(range(len(order))):
            continue
        if matrix.opcode == "transpose" and made is matrix.operands[0]:
            continue  # it is there
        operands = list(dot.operands)
        operands[side] = transpose(made, order)
        turned = dot.replace(operands=operands)
        if is_made_inside(turned, operands[side], target) or (
            not is_few and makes_rhs(turned, target)
        ):
            return turned
    return None


class _Weights:
    """Moves transposes in what makes a matrix. It keeps what it finds for an instruction, which several may read."""

    def __init__(self) -> None:
        self._laid: dict[Instruction, tuple[Instruction, Order]] = {}
        self._turns: dict[tuple[Instruction, Order, int], Instruction | None] = {}

    def laid_out(self, i: Instruction, deepest: int) -> tuple[Instruction, Order]:
        """The array that ``i`` is a transpose of once the transposes below are moved up, and that transpose's order."""
        if i not in self._laid:
            self._laid[i] = self._laid_out(i, deepest)
        return self._laid[i]

    def turned(self, i: Instruction, order: Order, whole: int, deepest: int) -> Instruction | None:
        """The transpose of ``i`` in ``order``, without one of an array that has nearly as many elements as the
        ``whole`` matrix; None if there would be one.
        """
        key = (i, order, whole)
        if key not in self._turns:
            self._turns[key] = self._turned(i, order, whole, deepest)
        return self._turns[key]

    def _laid_out(self, i: Instruction, deepest: int) -> tuple[Instruction, Order]:
        as_it_is = i, tuple(range(len(i.dims)))
        if deepest == 0:
            return as_it_is
        if i.opcode == "transpose":
            made, order = self.laid_out(i.operands[0], deepest - 1)
            return made, tuple(order[d] for d in i.attributes["dimensions"])
        if i.opcode == "reshape":
            made, order = self.laid_out(i.operands[0], deepest - 1)
            return _reshaped(made, order, i) or as_it_is
        if not i.is_elementwise:
            return as_it_is
        for number, operand in enumerate(i.operands):
            if operand.dims != i.dims:
                continue
            made, order = self.laid_out(operand, deepest - 1)
            if order == as_it_is[1]:
                continue
            back = tuple(order.index(d) for d in range(len(order)))
            operands: list[Instruction] = []
            for n, o in enumerate(i.operands):
                moved = made if n == number else self.turned(o, back, i.elements, deepest - 1)
                if moved is None:
                    break
                operands.append(moved)
            else:
                shape = made.shape.with_dtype(i.dtype)  # type: ignore[union-attr]
                return i.replace(operands=operands, shape=shape), order
        return as_it_is

    def _turned(self, i: Instruction, order: Order, whole: int, deepest: int) -> Instruction | None:
        if i.dims == () or order == tuple(range(len(order))):
            return i
        if i.opcode == "broadcast":
            place = {d: n for n, d in enumerate(order)}
            mapped = [place[d] for d in i.attributes["dimensions"]]
            by_place = sorted(range(len(mapped)), key=mapped.__getitem__)
            small = transpose(i.operands[0], by_place)
            shape = i.shape.with_dims([i.dims[d] for d in order])  # type: ignore[union-attr]
            return i.replace(
                operands=(small,), shape=shape, attributes={"dimensions": tuple(sorted(mapped))}
            )
        if i.elements * _SMALL <= whole:
            return transpose(i, order)
        if deepest == 0:
            return None
        if i.opcode == "transpose":
            inner = i.attributes["dimensions"]
            return self.turned(i.operands[0], tuple(inner[d] for d in order), whole, deepest - 1)
        if i.opcode == "reshape":
            return self._turned_reshape(i, order, whole, deepest)
        if not i.is_elementwise or not i.operands:
            return None
        operands = [self.turned(o, order, whole, deepest - 1) for o in i.operands]
        known = [o for o in operands if o is not None]
        if len(known) < len(operands):
            return None
        shape = i.shape.with_dims([i.dims[d] for d in order])  # type: ignore[union-attr]
        return i.replace(operands=known, shape=shape)

    def _turned_reshape(
        self, i: Instruction, order: Order, whole: int, deepest: int
    ) -> Instruction | None:
        source = i.operands[0]
        groups = reshape_groups(source.dims, i.dims)
        group_of = {d: n for n, (_, theirs) in enumerate(groups) for d in theirs}
        runs: list[int] = []
        for d in order:
            if not runs or runs[-1] != group_of[d]:
                runs.append(group_of[d])
        kept = [d for n in runs for d in groups[n][1]]
        rest = [n for n in range(len(groups)) if n not in runs]  # sizes of 1 that are dropped
        if kept != list(order):
            return None
        moved = tuple(d for n in [*runs, *rest] for d in groups[n][0])
        turned = self.turned(source, moved, whole, deepest - 1)
        return None if turned is None else reshape(turned, [i.dims[d] for d in order])


def _reshaped(made: Instruction, order: Order, i: Instruction) -> tuple[Instruction, Order] | None:
    """A reshape ``i`` of the transpose of ``made`` as the transpose of a reshape; None if it joins dimensions that are
    not neighbours in ``made``.
    """
    before = tuple(made.dims[d] for d in order)
    runs: list[
        tuple[int, list[int]]
    ] = []  # where a group of dimensions lies in ``made``, and what it becomes
    for ours, theirs in reshape_groups(before, i.dims):
        places = [order[d] for d in ours if before[d] != 1]
        if any(b - a != 1 for a, b in pairwise(places)):
            return None
        runs.append((places[0] if places else len(order), theirs))
    runs.sort(key=lambda run: run[0])
    lying = [d for _, theirs in runs for d in theirs]
    dims = tuple(i.dims[d] for d in lying)
    return reshape(made, dims), tuple(lying.index(d) for d in range(len(lying)))
