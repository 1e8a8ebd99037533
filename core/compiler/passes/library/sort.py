"""Sorts become calls of "sort" (core/runtime/library/sort.cc), by keys if the comparator is understood.

Frameworks write comparators in a handful of forms. For keys x0, x1, ... in order of priority:

    x0 < y0      or      x0 < y0  or  (x0 == y0  and  (the same for the next key))

where a key is an operand, and with floating-point numbers often the operand with both zeros made 0 and all NaNs
made one NaN (``select(x == 0, 0, x)``, ``select(x != x, nan, x)``), compared in total order. Any other comparator
is compiled and called for each comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...ir.hlo import Computation, Instruction, Shape
from .context import Context

NUMERIC: Final = 0  # SortOrder in sort_keys.h
TOTAL: Final = 1
MAX_KEY_BITS: Final = 64
_KEY_TYPES: Final = frozenset(
    ("pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
)


@dataclass(frozen=True, slots=True)
class SortKey:
    """Sort by ``operand``; ``order``: NUMERIC or TOTAL."""

    operand: int
    descending: bool
    order: int


def match_sort(sort: Instruction, context: Context) -> Instruction | None:
    """The library call that sorts."""
    shape = sort.operands[0].shape
    assert isinstance(shape, Shape)
    dimension = sort.attributes["dimension"]
    config: dict[str, Any] = {
        "dimension": dimension,
        "is_stable": int(sort.attributes["is_stable"]),
    }
    keys = comparator_keys(sort.called[0])
    types = [sort.operands[k.operand].dtype for k in keys or ()]
    known = bool(keys) and sum(8 * t.size for t in types) <= MAX_KEY_BITS
    if keys and known:
        config["key_operands"] = tuple(k.operand for k in keys)
        config["key_descending"] = tuple(int(k.descending) for k in keys)
        config["key_orders"] = tuple(k.order for k in keys)
    library = context.target.costs.library
    config["cost_ns"] = library.sort_ns(shape.elements, shape.dims[dimension], called=not known)
    return sort.derive(
        "library-call",
        sort.operands,
        {"name": "sort", "config": config},
        () if known else sort.called,
    )


def comparator_keys(comparator: Computation) -> list[SortKey] | None:
    """The keys that ``comparator`` sorts by, most important first; None if it is of no known form."""
    keys: list[SortKey] = []
    node = comparator.root
    while node.opcode == "or":
        step = _lexicographic_step(node)
        if step is None:
            return None
        key, node = step
        keys.append(key)
    last = _ordering(node)
    return None if last is None else [*keys, last]


def _lexicographic_step(node: Instruction) -> tuple[SortKey, Instruction] | None:
    """(first key, rest) of ``or(x < y, and(x == y, rest))``, whichever way round it is written."""
    for less, both in (node.operands, node.operands[::-1]):
        key = _ordering(less)
        if key is None or both.opcode != "and":
            continue
        for equal, rest in (both.operands, both.operands[::-1]):
            if equal.opcode != "compare" or equal.attributes["direction"] != "EQ":
                continue
            same = _compared(equal)
            if same is not None and same[:2] == (key.operand, key.order):
                return key, rest
    return None


def _ordering(node: Instruction) -> SortKey | None:
    """The key of ``x < y`` or ``x > y``."""
    if node.opcode != "compare" or node.attributes["direction"] not in ("LT", "GT"):
        return None
    compared = _compared(node)
    if compared is None:
        return None
    operand, order, swapped = compared
    return SortKey(operand, (node.attributes["direction"] == "GT") != swapped, order)


def _compared(compare: Instruction) -> tuple[int, int, bool] | None:
    """(operand, order, whether the second element stands first) of a comparison of one operand's two elements."""
    sides = [_key_of(o) for o in compare.operands]
    if sides[0] is None or sides[1] is None:
        return None
    (a, a_zero, a_nan), (b, b_zero, b_nan) = sides[0], sides[1]
    if a ^ 1 != b or (a_zero, a_nan) != (b_zero, b_nan):
        return None
    dtype = compare.operands[0].dtype
    if dtype.name not in _KEY_TYPES:
        return None
    order = NUMERIC
    if dtype.is_float and compare.attributes["comparison_type"] == "TOTALORDER":
        if a_zero != a_nan:
            return None
        order = NUMERIC if a_zero else TOTAL
    elif a_nan and not dtype.is_float:
        return None
    return a // 2, order, a > b


def _key_of(node: Instruction) -> tuple[int, bool, bool] | None:
    """(parameter, zeros made one, NaNs made one) if ``node`` is a parameter with at most these two changes."""
    zero = nan = False
    while node.opcode == "select":
        predicate, replacement, value = node.operands
        source = _parameter_behind(value)
        if source is None or predicate.opcode != "compare" or replacement.opcode != "constant":
            return None
        constant = replacement.attributes["literal"]
        if constant.ndim or not node.dtype.is_float:
            return None
        if _is_zero_test(predicate, source) and _is_positive_zero(constant):
            zero = True
        elif (
            _is_nan_test(predicate, source)
            and math.isnan(float(constant))
            and not np.signbit(constant)
        ):
            nan = True
        else:
            return None
        node = value
    if node.opcode != "parameter":
        return None
    return node.attributes["index"], zero, nan


def _parameter_behind(node: Instruction) -> Instruction | None:
    """The parameter that a chain of selects starts from."""
    while node.opcode == "select":
        node = node.operands[2]
    return node if node.opcode == "parameter" else None


def _is_zero_test(predicate: Instruction, parameter: Instruction) -> bool:
    """``parameter == 0``."""
    if (
        predicate.attributes["direction"] != "EQ"
        or predicate.attributes["comparison_type"] != "FLOAT"
    ):
        return False
    for x, y in (predicate.operands, predicate.operands[::-1]):
        if x is parameter and y.opcode == "constant" and not y.dims:
            return bool(y.attributes["literal"] == 0)
    return False


def _is_nan_test(predicate: Instruction, parameter: Instruction) -> bool:
    """``parameter != parameter``."""
    return (
        predicate.attributes["direction"] == "NE"
        and predicate.attributes["comparison_type"] == "FLOAT"
        and all(o is parameter for o in predicate.operands)
    )


def _is_positive_zero(constant: np.ndarray[Any, Any]) -> bool:
    return bool(constant == 0) and not np.signbit(constant)
