"""Scales that neighbours along the contracted dimension of a matrix of weights share.

    sum over k of x[k] * (w[k] * s) = s * sum over k of x[k] * w[k]

A product of a few rows multiplies the sum of such neighbours by their scale, not each of them: a multiplication for
each element is a fourth of what the product does with bytes. No term goes through more roundings for that: blocks of a
sum are added to each other anyway, and that addition becomes a multiply-add. Nothing is lost below the smallest normal
number either, for ``w`` is an integer. Sums without their scale may be infinite where the program's own are not, and an
infinite scale of a 0 is not seen: kernels compute results that are not finite again, as the program has them.

Integers that are divided by scales are the same: a sum is divided, which is one rounding in the place of each weight's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ...ir import dtypes
from ...ir.patterns import reshape_groups
from ...ir.ranges import Range, range_of

if TYPE_CHECKING:
    from ...ir.hlo import Instruction

# Every integer up to here is a f32.
_LARGEST: Final = 1 << 24


class SharedScales(NamedTuple):
    """Which operand of the multiplication or division that makes a matrix are the scales, and how many neighbours
    share one.
    """

    operand: int
    group: int


def shared_scales(matrix: Instruction, axis: int) -> SharedScales | None:
    """The scales of ``matrix``, which is contracted along ``axis``; None if it has other factors."""
    if matrix.opcode not in ("multiply", "divide") or matrix.dtype is not dtypes.F32:
        return None
    for number in (0, 1) if matrix.opcode == "multiply" else (1,):
        scales = matrix.operands[number]
        group = _shared(scales, axis)
        if group > 1 and _integers(matrix.operands[1 - number]) is not None:
            return SharedScales(number, group)
    return None


def _shared(i: Instruction, axis: int) -> int:
    """How many neighbours along ``axis`` are surely the same element."""
    if i.opcode == "broadcast":
        return 1 if axis in i.attributes["dimensions"] else i.dims[axis]
    if i.opcode != "reshape":
        return 1
    source = i.operands[0]
    if source.opcode != "broadcast":
        return 1
    for theirs, ours in reshape_groups(source.dims, i.dims):
        if ours == [axis]:
            group = 1
            for d in reversed(theirs):
                if d in source.attributes["dimensions"]:
                    break
                group *= source.dims[d]
            return group
    return 1


def _integers(i: Instruction) -> Range | None:
    """The integers that elements of ``i``, of f32, are; None if they may be other numbers, or are rounded."""
    found = None
    if i.opcode == "constant" and not i.dims:
        number = float(i.attributes["literal"])
        found = Range(int(number), int(number)) if number.is_integer() else None
    elif i.opcode in ("bitcast", "broadcast", "reshape") and i.dtype.is_float:
        found = _integers(i.operands[0])
    elif i.opcode == "convert" and i.operands[0].dtype.is_integer:
        found = range_of(i.operands[0])
    elif i.opcode in ("add", "subtract"):
        a, b = (_integers(o) for o in i.operands)
        if a is not None and b is not None:
            b = Range(-b.high, -b.low) if i.opcode == "subtract" else b
            found = Range(a.low + b.low, a.high + b.high)
    return found if found is not None and found.within(Range(-_LARGEST, _LARGEST)) else None
