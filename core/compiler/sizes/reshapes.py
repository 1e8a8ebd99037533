"""Reshapes of arrays whose sizes depend on values (see :mod:`.dynamic_sizes`).

A reshape keeps the order of the elements that are there. They lie in an array of the bounds' shape, with gaps: so where
the gaps are not all at the end of both arrays, elements move, and are gathered one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..ir import dtypes
from ..ir.hlo import GatherDimensionNumbers, Instruction, Shape
from .resolve import NONE, Scope, Sizes


class Group(NamedTuple):
    """Neighbouring dimensions before and after a reshape that hold the same elements; as few as possible."""

    before: list[int]
    after: list[int]


def reshape(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    """A reshape that says nothing of sizes: where they go follows from the bounds."""
    return [_reshaped(scope, old, operands[0], ())]


def dynamic_reshape(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """A reshape whose dynamic dimensions have the sizes that stand after its operand, if any do."""
    x, *given = operands
    dynamic = old.attributes["dynamic_dimensions"]
    if not given:
        return [_reshaped(scope, old, x, dynamic)]
    after = {d: given[d] for d in dynamic}
    if x not in scope.sizes and not after:
        return [scope.add(Instruction("reshape", old.shape, (x,)))]
    scope.check(
        scope.compare(
            "EQ", _count(scope, x.dims, scope.sizes.get(x, NONE)), _count(scope, old.dims, after)
        ),
        "an array whose size depends on values is reshaped to another number of elements",
    )
    return [_moved(scope, old, x, groups(x.dims, old.dims), after)]


def groups(before: Sequence[int], after: Sequence[int]) -> list[Group]:
    """The groups of a reshape of bounds ``before`` to ``after``, whose products are equal."""
    if 0 in before:
        return [Group(list(range(len(before))), list(range(len(after))))]
    result = []
    i = j = 0
    while i < len(before) or j < len(after):
        group = Group([], [])
        p = q = 1
        while True:
            if i < len(before) and (p < q or not group.before):
                p *= before[i]
                group.before.append(i)
                i += 1
            elif j < len(after) and (q < p or not group.after):
                q *= after[j]
                group.after.append(j)
                j += 1
            else:
                break
        result.append(group)
    return result


def _count(scope: Scope, dims: Sequence[int], sizes: Sizes) -> Instruction:
    """The number of elements that are there."""
    count = scope.number(math.prod(b for d, b in enumerate(dims) if d not in sizes))
    for size in sizes.values():
        count = scope.op("multiply", count, size)
    return count


def _reshaped(
    scope: Scope, old: Instruction, x: Instruction, dynamic: Sequence[int]
) -> Instruction:
    sizes = scope.sizes.get(x, NONE)
    found = groups(x.dims, old.dims)
    if 0 in old.dims:
        without = _sizes_without_elements(scope, old, x)
        return scope.has(scope.add(Instruction("reshape", old.shape, (x,))), without)
    after: dict[int, Instruction] = {}
    for group in found:
        inside = {d: sizes[d] for d in group.before if d in sizes}
        if not inside:
            continue
        if len(group.before) == 1 and len(inside) == 1:
            count = inside[group.before[0]]
        else:
            bounds = [x.dims[d] for d in group.before]
            count = _count(
                scope, bounds, {n: sizes[d] for n, d in enumerate(group.before) if d in sizes}
            )
        place = _place(scope, old, x, group, inside, dynamic)
        if place is None:
            scope.check(
                scope.compare("EQ", count, scope.number(1)),
                "one element is taken of an array that has none",
            )
            continue
        others = math.prod(old.dims[d] for d in group.after if d != place)
        if others != 1:
            number = scope.number(others)
            fixed = math.prod(x.dims[d] for d in group.before if d not in inside)
            if fixed % others != 0:
                rest = scope.op("remainder", count, number)
                scope.check(
                    scope.compare("EQ", rest, scope.number(0)),
                    f"an array whose size depends on values is not a multiple of {others}",
                )
            count = scope.op("divide", count, number)
        after[place] = count
    return _moved(scope, old, x, found, after)


def _sizes_without_elements(scope: Scope, old: Instruction, x: Instruction) -> Sizes:
    """The sizes after a reshape of no elements: products say nothing there, so dimensions must stay what they are.

    The leading and the trailing dimensions that are equal keep their sizes. What lies between loses them, which is
    right where only dimensions of 0 and 1 are left.
    """
    before, after = x.dims, old.dims
    shorter = min(len(before), len(after))
    leading = 0
    while leading < shorter and before[leading] == after[leading]:
        leading += 1
    trailing = 0
    while trailing < shorter - leading and before[-1 - trailing] == after[-1 - trailing]:
        trailing += 1
    shift = len(after) - len(before)
    sizes: dict[int, Instruction] = {}
    for d, size in scope.sizes.get(x, NONE).items():
        if d < leading:
            sizes[d] = size
        elif d >= len(before) - trailing:
            sizes[d + shift] = size
        elif any(n > 1 for n in after[leading : len(after) - trailing]):
            raise scope.refuse(
                old, "which dimension has a size that depends on values is not known"
            )
    return sizes


def _place(
    scope: Scope,
    old: Instruction,
    x: Instruction,
    group: Group,
    inside: Sizes,
    dynamic: Sequence[int],
) -> int | None:
    """The dimension after the reshape whose size is computed; None if all have size 1."""
    said = [d for d in group.after if d in dynamic]
    if len(said) == 1:
        return said[0]
    candidates = said or [d for d in group.after if old.dims[d] != 1]
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        # [<=1] to [1]: still none or one. To a scalar: one.
        return group.after[0] if group.after else None
    bounds = {x.dims[d] for d in inside}
    equal = [d for d in candidates if old.dims[d] in bounds]
    if len(equal) == 1:
        return equal[0]
    raise scope.refuse(old, "which dimension has a size that depends on values is not known")


def _moved(
    scope: Scope, old: Instruction, x: Instruction, found: Sequence[Group], after: Sizes
) -> Instruction:
    """The elements of ``x`` in the order of the result's indices."""
    before = scope.sizes.get(x, NONE)
    if all(
        _at_the_end(x.dims, group.before, before) and _at_the_end(old.dims, group.after, after)
        for group in found
    ):
        return scope.has(scope.add(Instruction("reshape", old.shape, (x,))), after)
    shape = Shape(dtypes.S32, old.dims)

    def each(value: Instruction) -> Instruction:
        return scope.broadcast(value, old.dims)

    # The number of the element among those that are there: its index in the result's sizes.
    number, stride = each(scope.number(0)), scope.number(1)
    for d in reversed(range(len(old.dims))):
        index = scope.add(Instruction("iota", shape, (), {"dimension": d}))
        number = scope.op("add", number, scope.op("multiply", index, each(stride)))
        stride = scope.op("multiply", stride, after.get(d) or scope.number(old.dims[d]))
    # Its place in the operand: its index in the operand's sizes, by the strides of the bounds.
    place, step = each(scope.number(0)), 1
    for d in reversed(range(len(x.dims))):
        # Of no elements none is read, but nothing is divided by 0 either.
        extent = before.get(d) or scope.number(x.dims[d])
        extent = each(scope.op("maximum", extent, scope.number(1)))
        index = scope.op("remainder", number, extent)
        place = scope.op("add", place, scope.op("multiply", index, each(scope.number(step))))
        number = scope.op("divide", number, extent)
        step *= x.dims[d]
    flat = scope.add(Instruction("reshape", Shape(x.dtype, (step,)), (x,)))
    numbers = GatherDimensionNumbers((), (0,), (0,), len(old.dims))
    attributes = {
        "dimension_numbers": numbers,
        "slice_sizes": (1,),
        "indices_are_sorted": False,
    }
    gathered = scope.add(Instruction("gather", old.shape, (flat, place), attributes))
    return scope.has(gathered, after)


def _at_the_end(dims: Sequence[int], group: Sequence[int], sizes: Sizes) -> bool:
    """Whether the elements of a group of dimensions that are not there stand after all that are."""
    outer = 1
    for d in group:
        if d in sizes and outer != 1:
            return False
        outer *= dims[d]
    return True
