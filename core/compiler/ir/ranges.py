"""Which integers a value can hold, as far as the instructions that make it say."""

from __future__ import annotations

import operator
from typing import Final, NamedTuple

from .dtypes import DType
from .hlo import Instruction
from .patterns import counts

# Chains of instructions are followed so far: what unpacks weights is short.
_DEEPEST: Final = 10
_MOVES: Final = frozenset(
    ("bitcast", "broadcast", "copy", "reshape", "reverse", "slice", "sort", "transpose")
)


class Range(NamedTuple):
    """The integers from ``low`` to ``high``."""

    low: int
    high: int

    def within(self, other: Range) -> bool:
        return other.low <= self.low and self.high <= other.high


def of_dtype(dtype: DType) -> Range:
    """What an integer type holds."""
    if dtype.is_signed:
        return Range(-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
    return Range(0, (1 << dtype.bits) - 1)


def range_of(i: Instruction, deepest: int = _DEEPEST) -> Range:
    """The integers that an integer instruction's elements lie among; those of its type if nothing better is known."""
    widest = of_dtype(i.dtype)
    if deepest == 0:
        return widest
    if i.opcode == "constant" and not i.dims:
        number = int(i.attributes["literal"])
        return Range(number, number)
    if counts(i):
        return Range(0, max(i.dims[i.attributes["dimension"]] - 1, 0))
    if i.opcode in _MOVES and i.dtype is i.operands[0].dtype:
        return range_of(i.operands[0], deepest - 1)
    if i.opcode == "get-tuple-element" and i.operands[0].opcode == "sort":
        return range_of(i.operands[0].operands[i.attributes["index"]], deepest - 1)
    if i.opcode == "convert" and i.operands[0].dtype.kind == "pred":
        return Range(0, 1)
    if i.opcode == "convert" and i.operands[0].dtype.is_integer:
        found = range_of(i.operands[0], deepest - 1)
    elif i.opcode == "and":
        known = [range_of(o, deepest - 1) for o in i.operands]
        masks = [r.high for r in known if r.low >= 0]
        found = Range(0, min(masks)) if masks else widest
    elif i.opcode in ("add", "subtract"):
        found = sum_of(i, deepest)
    else:
        return widest
    return found if found.within(widest) else widest


def sum_of(i: Instruction, deepest: int = _DEEPEST) -> Range:
    """The results that an addition or a subtraction would have if its type were wide enough for all of them."""
    a, b = (range_of(o, deepest - 1) for o in i.operands)
    if i.opcode == "subtract":
        b = Range(-b.high, -b.low)
    return Range(*map(operator.add, a, b))


def never_wraps(i: Instruction) -> bool:
    """Whether an addition or a subtraction of integers gives what it would without a type's bounds."""
    return sum_of(i).within(of_dtype(i.dtype))
