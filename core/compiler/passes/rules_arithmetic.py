"""Rewrite rules for arithmetic: opcode -> functions that give something simpler, or None.

Every rule keeps the value of every element, bit for bit, the signs of zeros too; only NaN payloads may change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..ir.hlo import DotDimensionNumbers, Instruction, broadcast
from ..ir.patterns import (
    constant_value,
    convert,
    is_constant,
    reshape,
    scalar_of,
    splat,
    splat_value,
)
from ..ir.ranges import Range, range_of

Rule = Callable[[Instruction], Instruction | None]
# How far the operands of a comparison are followed: every comparison of the program is.
_DEEPEST_RANGE: Final = 5


def add_zero(i: Instruction) -> Instruction | None:
    """x + 0 = x, of floats where the zero is negative or x is not: -0 + 0 is 0."""
    if i.dtype.kind == "pred":
        return None
    for x, y in (i.operands, i.operands[::-1]):
        if is_constant(y, 0) and (_has_sign(y, negative=True) or _is_no_negative_zero(x)):
            return x
    return None


def _has_sign(zero: Instruction, *, negative: bool) -> bool:
    """Whether the constant, in both parts of a complex number, has this sign; integers have either."""
    if zero.dtype.is_integer:
        return True
    value: Any = constant_value(zero)
    parts = (value.real, value.imag) if zero.dtype.is_complex else (value,)
    return all(bool(np.signbit(part)) is negative for part in parts)


def _is_no_negative_zero(x: Instruction) -> bool:
    """Whether no element of ``x`` can be -0.0, by what ``x`` plainly is."""
    if x.opcode == "convert":
        return x.operands[0].dtype.is_integer or x.operands[0].dtype.kind == "pred"
    if not x.dtype.is_float:
        return False
    if x.opcode in ("add", "subtract"):  # of a number that is not 0: equal ones cancel to 0
        values = [constant_value(operand) for operand in x.operands]
        return any(value is not None and bool(value != 0) for value in values)
    return x.opcode in ("abs", "exponential", "iota")


def subtract_zero(i: Instruction) -> Instruction | None:
    """x - 0 = x, of floats where the zero is not negative or x is not; x - x = 0 for integers (a float could be NaN);
    0 - x = -x for integers (a float's zero has a sign).
    """
    a, b = i.operands
    if is_constant(b, 0) and (_has_sign(b, negative=False) or _is_no_negative_zero(a)):
        return a
    if i.dtype.is_integer and a is b:
        return splat_value(0, i)
    if i.dtype.is_integer and is_constant(a, 0):
        return i.derive("negate", (b,))
    return None


def multiply_identity(i: Instruction) -> Instruction | None:
    """x * 1 = x; x * 0 = 0 for integers; x * -1 = -x."""
    for x, y in (i.operands, i.operands[::-1]):
        value = constant_value(y)
        if value is None:
            continue
        if value == 1:
            return x
        if i.dtype.is_integer and value == 0:
            return y
        if value == -1 and i.dtype.kind in ("int", "float"):
            return i.derive("negate", (x,))
    return None


def divide_constant(i: Instruction) -> Instruction | None:
    """x / 1 = x; division by a power of two is an exact multiplication (which is several times
    faster).
    """
    a, b = i.operands
    value = constant_value(b)
    if value is None:
        return None
    if value == 1:
        return a
    if i.dtype.is_float and i.dtype.bits >= 16 and np.isfinite(value) and value != 0:
        mantissa, exponent = math.frexp(float(value))
        limits = {16: 13, 32: 125, 64: 1000}[i.dtype.bits]
        if abs(mantissa) == 0.5 and abs(exponent) < limits:
            return i.derive("multiply", (a, splat_value(1.0 / float(value), i)))
    return None


def power_small(i: Instruction) -> Instruction | None:
    """x ^ 2 = x * x and other whole exponents that are one or two multiplications; x ^ 0.5 is not
    sqrt (at -inf, -0). 1 ^ x = 1, also for a NaN (as in C and NumPy).
    """
    a, b = i.operands
    if i.dtype.is_complex:
        return None
    if is_constant(a, 1):
        return splat_value(1, i)
    value = constant_value(b)
    if value is None:
        return None
    if value == 1:
        return a
    if value == 2:
        return i.derive("multiply", (a, a))
    if value == 3 and not i.dtype.is_integer:
        return i.derive("multiply", (i.derive("multiply", (a, a)), a))
    if value == 0:
        return splat_value(1, i)
    if value == -1 and i.dtype.is_float:
        return i.derive("divide", (splat_value(1, i), a))
    return None


def same_twice(i: Instruction) -> Instruction | None:
    """max(x, x), min(x, x), x & x, x | x = x."""
    a, b = i.operands
    return a if a is b else None


def extremum_limit(i: Instruction) -> Instruction | None:
    """max(x, lowest) = x; min(x, highest) = x (NaN stays NaN)."""
    if i.dtype.is_complex:
        return None
    wanted: Any
    if i.dtype.is_float:
        wanted = -np.inf if i.opcode == "maximum" else np.inf
    elif i.dtype.is_integer and i.dtype.bits >= 8:
        limits = np.iinfo(i.dtype.numpy)
        wanted = limits.min if i.opcode == "maximum" else limits.max
    else:
        return None
    for x, y in (i.operands, i.operands[::-1]):
        value = constant_value(y)
        if value is not None and value == wanted:
            return x
    return None


def logical_constant(i: Instruction) -> Instruction | None:
    """x & all ones, x | 0, x ^ 0 = x; x & 0 = 0; x | all ones = all ones."""
    ones: Any = True if i.dtype.kind == "pred" else np.array(-1).astype(i.dtype.numpy)[()]
    for x, y in (i.operands, i.operands[::-1]):
        value = constant_value(y)
        if value is None:
            continue
        if i.opcode == "and":
            if value == ones:
                return x
            if value == 0:
                return y
        elif value == 0:
            return x
        elif i.opcode == "or" and value == ones:
            return y
    return None


def shift_zero(i: Instruction) -> Instruction | None:
    """x << 0 = x."""
    return i.operands[0] if is_constant(i.operands[1], 0) else None


def undo(*pairs: str) -> Rule:
    """f(f(x)) = x for f its own inverse."""

    def rule(i: Instruction) -> Instruction | None:
        inner = i.operands[0]
        return inner.operands[0] if inner.opcode in pairs else None

    return rule


def idempotent(i: Instruction) -> Instruction | None:
    """f(f(x)) = f(x): abs of abs, floor of floor."""
    return i.operands[0] if i.operands[0].opcode == i.opcode and not i.dtype.is_complex else None


def part_of_complex(i: Instruction) -> Instruction | None:
    """real(complex(a, b)) = a."""
    inner = i.operands[0]
    if inner.opcode == "complex":
        return inner.operands[0 if i.opcode == "real" else 1]
    return None


def select_known(i: Instruction) -> Instruction | None:
    """A known predicate, or the same value on both sides; select(p, true, false) = p."""
    predicate, on_true, on_false = i.operands
    value = constant_value(predicate)
    if value is not None:
        return on_true if value else on_false
    if on_true is on_false:
        return on_true
    if predicate.opcode == "not" and predicate.dims == i.dims:
        return i.replace(operands=(predicate.operands[0], on_false, on_true))
    if (
        i.dtype.kind == "pred"
        and predicate.dims == i.dims
        and is_constant(on_true, 1)
        and is_constant(on_false, 0)
    ):
        return predicate
    return None


def compare_known(i: Instruction) -> Instruction | None:
    """Integers against themselves; pred != false = pred."""
    a, b = i.operands
    direction = i.attributes["direction"]
    if a is b and a.dtype.is_integer:
        return splat_value(direction in ("EQ", "LE", "GE"), i)
    value = constant_value(b)
    if a.dtype.kind == "pred" and value is not None and direction in ("EQ", "NE"):
        return a if bool(value) == (direction == "EQ") else i.derive("not", (a,))
    if value is not None and a.dtype.is_integer:
        return _compared_range(i, range_of(a, _DEEPEST_RANGE), int(value))
    return None


def _compared_range(i: Instruction, left: Range, value: int) -> Instruction | None:
    """iota < 0, and other comparisons of integers with a number that is below or above all that they can be."""
    for direction, opposite, always, never in (
        ("LT", "GE", left.high < value, left.low >= value),
        ("LE", "GT", left.high <= value, left.low > value),
        ("NE", "EQ", not left.low <= value <= left.high, left.low == left.high == value),
    ):
        if i.attributes["direction"] in (direction, opposite) and (always or never):
            return splat_value(always == (i.attributes["direction"] == direction), i)
    return None


_INVERSE: Final = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


def not_of_compare(i: Instruction) -> Instruction | None:
    """not(a < b) = a >= b where there is no NaN."""
    inner = i.operands[0]
    if inner.opcode == "not":
        return inner.operands[0]
    if inner.opcode == "compare" and (
        inner.operands[0].dtype.is_integer or inner.attributes["direction"] in ("EQ", "NE")
    ):
        return inner.replace(
            attributes={**inner.attributes, "direction": _INVERSE[inner.attributes["direction"]]}
        )
    return None


def convert_trivial(i: Instruction) -> Instruction | None:
    """To the same type; through a type that holds every value of the source."""
    a = i.operands[0]
    if a.dtype is i.dtype:
        return a
    if a.opcode != "convert":
        return None
    source, between = a.operands[0].dtype, a.dtype
    if not _holds(between, source):
        return None
    if source is i.dtype:
        return a.operands[0]
    if (
        source.is_integer
        and between.is_float
        and i.dtype.is_integer
        and not _holds(i.dtype, source)
    ):
        return None  # integers wrap around where floats saturate
    return i.derive("convert", (a.operands[0],))


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether ``wide`` represents every value of ``narrow`` exactly."""
    if wide is narrow:
        return True
    if narrow.kind == "pred":
        return not wide.is_complex
    if wide.kind == narrow.kind and narrow.kind in ("int", "uint"):
        return bool(wide.bits > narrow.bits)
    if narrow.kind == "uint" and wide.kind == "int":
        return bool(wide.bits > narrow.bits)
    if wide.is_float and narrow.is_float and narrow.bits >= 16:
        return bool(wide.bits > narrow.bits)
    if wide.is_float and narrow.is_integer:
        exact = {"f64": 53, "f32": 24, "bf16": 8, "f16": 11}.get(wide.name, 0)
        return bool(narrow.bits <= exact)
    return False


def clamp_trivial(i: Instruction) -> Instruction | None:
    """clamp(x, x, x)."""
    low, x, high = i.operands
    return x if low is x and high is x else None


def on_moved(i: Instruction) -> Instruction | None:
    """What moves or repeats elements of all operands goes behind the operation."""
    for operand in i.operands:  # most have another one
        if operand.opcode not in _MOVES and operand.dims:
            return None
    return on_splats(i) or on_broadcasts(i) or on_reshapes(i)


_MOVES: Final = ("broadcast", "reshape")


def on_splats(i: Instruction) -> Instruction | None:
    """f(splat a, splat b) = splat f(a, b): computed once, and perhaps when compiling."""
    if not i.dims:
        return None
    scalars = []
    for operand in i.operands:
        scalar = scalar_of(operand)
        if scalar is None:
            return None
        scalars.append(scalar)
    if not scalars:
        return None
    inner = i.derive(i.opcode, scalars, i.attributes, shape=i.shape.with_dims(()))  # type: ignore[union-attr]
    return splat(inner, i.dims)


def on_broadcasts(i: Instruction) -> Instruction | None:
    """f(broadcast a, broadcast b) = broadcast f(a, b) when both are broadcast alike (splats fit
    any).
    """
    for first in i.operands:
        if first.opcode == "broadcast" and first.operands[0].dims:
            break
    else:
        return None
    if first.operands[0].elements >= i.elements:
        return None
    dims, dimensions = first.operands[0].dims, first.attributes["dimensions"]
    inner = []
    for operand in i.operands:
        if operand.opcode == "broadcast" and operand.operands[0].dims == dims:
            if operand.attributes["dimensions"] != dimensions:
                return None
            inner.append(operand.operands[0])
            continue
        scalar = scalar_of(operand)
        if scalar is None:
            return None
        inner.append(splat(scalar, dims) if operand.dims == i.dims else scalar)
    small = i.derive(i.opcode, inner, i.attributes, shape=i.shape.with_dims(dims))  # type: ignore[union-attr]
    return first.replace(operands=(small,), shape=i.shape)


def on_reshapes(i: Instruction) -> Instruction | None:
    """f(reshape a, reshape b) = reshape f(a, b): reshapes move towards where they vanish, into
    broadcasts and results.
    """
    dims: tuple[int, ...] | None = None
    for operand in i.operands:
        if operand.opcode == "reshape":
            source = operand.operands[0].dims
            if dims is not None and dims != source:
                return None
            dims = source
        elif scalar_of(operand) is None:
            return None
    if dims is None:
        return None
    inner = []
    for operand in i.operands:
        if operand.opcode == "reshape":
            inner.append(operand.operands[0])
        else:
            scalar = scalar_of(operand)
            assert scalar is not None
            inner.append(splat(scalar, dims) if operand.dims == i.dims else scalar)
    new = i.derive(i.opcode, inner, i.attributes, shape=i.shape.with_dims(dims))  # type: ignore[union-attr]
    return i.derive("reshape", (new,))


def dot_of_batches(i: Instruction) -> Instruction | None:
    """A dot whose dimensions are all batching ones, in order, is a product of elements."""
    lhs, rhs = i.operands
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    every = tuple(range(len(i.dims)))
    in_order = numbers.lhs_batch == numbers.rhs_batch == every
    if not in_order or lhs.dims != i.dims or rhs.dims != i.dims:
        return None
    if lhs.dtype is not i.dtype or rhs.dtype is not i.dtype or i.dtype.kind == "pred":
        return None
    return i.derive("multiply", (lhs, rhs))


def dot_of_one_term(i: Instruction) -> Instruction | None:
    """A dot whose contracted dimensions have one element contracts none: a sum of one term is 0 and the term, which
    is 0 for a term of -0.
    """
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    contracted = numbers.lhs_contracting
    if not contracted or any(i.operands[0].dims[d] != 1 for d in contracted):
        return None
    operands, batches = [], []
    for operand, (batch, gone) in zip(i.operands, numbers.sides, strict=True):
        kept = [d for d in range(len(operand.dims)) if d not in gone]
        operands.append(reshape(operand, [operand.dims[d] for d in kept]))
        batches.append(tuple(kept.index(d) for d in batch))
    plain = DotDimensionNumbers((), (), *batches)
    product = i.derive("dot", operands, {**i.attributes, "dimension_numbers": plain}, shape=i.shape)
    term = dot_without_sum(product)
    if term is None or term.dtype.is_integer:
        return term
    return i.derive("add", (term, splat_value(0, term)))


def dot_without_sum(i: Instruction) -> Instruction | None:
    """A dot that contracts no dimension, as an outer product, is a product of elements."""
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    if numbers.lhs_contracting or i.dtype.kind == "pred":
        return None
    batch = len(numbers.lhs_batch)
    lhs_free = len(i.operands[0].dims) - batch
    factors = []
    for operand, batches, first in zip(
        i.operands, (numbers.lhs_batch, numbers.rhs_batch), (batch, batch + lhs_free), strict=True
    ):
        if operand.dtype is not i.dtype and not _holds(i.dtype, operand.dtype):
            return None
        free = itertools.count(first)
        dims = range(len(operand.dims))
        mapped = [batches.index(d) if d in batches else next(free) for d in dims]
        if mapped != sorted(mapped):
            return None
        factors.append(broadcast(convert(operand, i.dtype), i.dims, mapped))
    lhs, rhs = factors
    return i.derive("multiply", (lhs, rhs))


ELEMENTWISE_RULES: Final[tuple[Rule, ...]] = (on_moved,)

RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "add": (add_zero,),
    "subtract": (subtract_zero,),
    "multiply": (multiply_identity,),
    "divide": (divide_constant,),
    "dot": (dot_of_batches, dot_without_sum, dot_of_one_term),
    "power": (power_small,),
    "maximum": (same_twice, extremum_limit),
    "minimum": (same_twice, extremum_limit),
    "and": (same_twice, logical_constant),
    "or": (same_twice, logical_constant),
    "xor": (logical_constant,),
    "shift-left": (shift_zero,),
    "shift-right-logical": (shift_zero,),
    "shift-right-arithmetic": (shift_zero,),
    "negate": (undo("negate"),),
    "not": (not_of_compare,),
    "abs": (idempotent,),
    "floor": (idempotent,),
    "ceil": (idempotent,),
    "real": (part_of_complex,),
    "imag": (part_of_complex,),
    "select": (select_known,),
    "compare": (compare_known,),
    "convert": (convert_trivial,),
    "clamp": (clamp_trivial,),
}
