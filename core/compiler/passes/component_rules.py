"""How each op works on components: one rule for each, for :mod:`.components`.

A rule gives the component of an instruction where its dimensions ``at`` are fixed; ``rest`` are the other dimensions.
None: the component does not come from those of the operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Final

import numpy as np

from ..ir.hlo import DotDimensionNumbers, Instruction, Shape, broadcast, constant
from ..ir.patterns import splat
from .component_dimensions import MOST, MOST_TOGETHER, changes, kept_by_reshape, sources_of_dot
from .component_values import Index, Values

Rule = Callable[[Values, Instruction, dict[int, int], Index], "Instruction | None"]


def components_of(
    values: Values, i: Instruction, dims: list[int]
) -> dict[Index, Instruction] | None:
    """The components of ``i`` by their index in ``dims``; None where they do not come from its operands'."""
    rule = _RULES.get("elementwise" if _is_pointwise(i) else i.opcode)
    if rule is None:
        return None
    rest = tuple([n for d, n in enumerate(i.dims) if d not in dims])
    found: dict[Index, Instruction] = {}
    for index in product(*(range(i.dims[d]) for d in dims)):
        value = rule(values, i, dict(zip(dims, index, strict=True)), rest)
        if value is None:
            return None
        found[index] = value
    return found


def is_handled(i: Instruction) -> bool:
    """Whether an instruction can work on components."""
    if not isinstance(i.shape, Shape):
        return False
    if i.opcode == "dot":
        types = {o.dtype for o in (*i.operands, i)}
        return len(types) == 1 and i.dtype.bits >= 32 and "algorithm" not in i.attributes
    return _is_pointwise(i) or i.opcode in _RULES


def _is_pointwise(i: Instruction) -> bool:
    if i.opcode in ("copy", "bitcast-convert"):
        return i.dims == i.operands[0].dims
    return i.is_elementwise


# ----------------------------------------------------------------------------------------------------- the rules
def _elementwise(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    operands = [s.component(o, at) if o.dims == i.dims else s.of_whole(o) for o in i.operands]
    return s.make(i, rest, operands)


def _broadcast(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    (operand,) = i.operands
    mapped = i.attributes["dimensions"]
    part = s.component(operand, {d: at[t] for d, t in enumerate(mapped) if t in at})
    kept = [t - sum(d < t for d in at) for t in mapped if t not in at]
    if part.dims == rest and kept == sorted(kept):
        return part
    return s.make(i, rest, (part,), dimensions=tuple(kept))


def _transpose(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    order = i.attributes["dimensions"]
    fixed = {order[d]: n for d, n in at.items()}
    part = s.component(i.operands[0], fixed)
    kept = [source - sum(d < source for d in fixed) for source in order if source not in fixed]
    if kept == sorted(kept):
        return part
    return s.make(i, rest, (part,), dimensions=tuple(kept))


def _reshape(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    (operand,) = i.operands
    sources = dict(kept_by_reshape(i))
    if i.dtype is not operand.dtype or any(d not in sources for d in at):
        return None
    fixed = {sources[d]: n for d, n in at.items()}
    if operand in s.parts and any(d not in fixed for d in s.taken(operand)):
        return None
    return s.reshape(s.component(operand, fixed), rest)


def _reduce(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    operand, start = i.operands
    (body,) = i.called
    reduced = i.attributes["dimensions"]
    kept = [d for d in range(len(operand.dims)) if d not in reduced]
    fixed = {kept[d]: n for d, n in at.items()}
    summed = [d for d in s.taken(operand) if d in reduced] if operand in s.parts else []
    initial = s.of_whole(start)
    left = [d for d in reduced if d not in summed]
    total: Instruction | None = None
    if not left:
        total = initial if not rest else s.add(splat(initial, rest))
    for index in product(*(range(operand.dims[d]) for d in summed)):
        part = s.component(operand, {**fixed, **dict(zip(summed, index, strict=True))})
        total = part if total is None else s.combine(body, total, part)
        if total is None:
            return None
    assert total is not None
    if not left:
        return total
    gone = {*fixed, *summed}
    dimensions = tuple([d - sum(g < d for g in gone) for d in left])
    return s.make(i, rest, (total, initial), dimensions=dimensions)


def _slice(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    """What is left of a slice after its components, which are chosen."""
    (operand,) = i.operands
    a = i.attributes
    fixed = {d: a["starts"][d] + n * a["strides"][d] for d, n in at.items()}
    ones = [d for d in s.taken(operand) if d not in at] if operand in s.parts else []
    if any(i.dims[d] != 1 for d in ones):
        return None
    fixed |= {d: a["starts"][d] for d in ones}
    part = s.component(operand, fixed)
    kept = [d for d in range(len(i.dims)) if d not in fixed]
    if any(changes(i, d) for d in kept):
        names = ("starts", "limits", "strides")
        attributes = {name: tuple([a[name][d] for d in kept]) for name in names}
        part = s.make(i, tuple([i.dims[d] for d in kept]), (part,), **attributes)
    return s.reshape(part, rest)


def _reverse(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    turned = i.attributes["dimensions"]
    part = s.component(
        i.operands[0], {d: i.dims[d] - 1 - n if d in turned else n for d, n in at.items()}
    )
    left = tuple([d - sum(t < d for t in at) for d in turned if d not in at])
    if not left:
        return part
    return s.make(i, rest, (part,), dimensions=left)


def _concatenate(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    along = i.attributes["dimension"]
    if along in at:
        number = at[along]
        for o in i.operands:
            if number < o.dims[along]:
                return s.component(o, {**at, along: number})
            number -= o.dims[along]
        return None
    if any(o in s.parts and any(d not in at for d in s.taken(o)) for o in i.operands):
        return None
    parts = [s.component(o, at) for o in i.operands]
    dimension = along - sum(d < along for d in at)
    return s.make(i, rest, parts, dimension=dimension)


def _pad(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    operand, padding = i.operands
    low, high, interior = (i.attributes[name] for name in ("low", "high", "interior"))
    if operand in s.parts and any(d not in at for d in s.taken(operand)):
        return None
    fixed: dict[int, int] = {}
    for d, n in at.items():
        place, between = divmod(n - low[d], interior[d] + 1)
        if between or not 0 <= place < operand.dims[d]:
            value = s.of_whole(padding)
            return s.add(splat(value, rest)) if rest else value
        fixed[d] = place
    part = s.component(operand, fixed)
    kept = [d for d in range(len(i.dims)) if d not in at]
    if not any(changes(i, d) for d in kept):
        return part
    attributes = {
        name: tuple([values[d] for d in kept])
        for name, values in (("low", low), ("high", high), ("interior", interior))
    }
    return s.make(i, rest, (part, s.of_whole(padding)), **attributes)


def _iota(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    d = i.attributes["dimension"]
    if d in at:
        number = s.add(constant(np.asarray(at[d]).astype(i.dtype.numpy), i.dtype, i.metadata))
        return s.add(splat(number, rest)) if rest else number
    moved = d - sum(t < d for t in at)
    return s.make(i, rest, (), dimension=moved)


def _dot(s: Values, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    """Products of components one after the other, where all of what is summed up is components."""
    lhs, rhs = i.operands
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    sides = ((lhs, numbers.lhs_contracting), (rhs, numbers.rhs_contracting))
    if any(o.dims[d] > MOST for o, contracted in sides for d in contracted):
        return None
    if math.prod(lhs.dims[d] for d in numbers.lhs_contracting) > MOST_TOGETHER:
        return None
    sources = sources_of_dot(i)
    if any(o in s.parts for o in i.operands):
        for side, (o, contracted) in enumerate(sides):
            reached = {*contracted, *(sources[d][side] for d in at)}
            if o in s.parts and any(d not in reached for d in s.taken(o)):
                return None
    left = [d for d in range(len(i.dims)) if d not in at]
    total: Instruction | None = None
    if numbers.lhs_contracting and not i.dtype.is_integer:
        total = s.zeros(i, rest)  # a sum begins with 0: it is 0 where all terms are -0
    for index in product(*(range(lhs.dims[d]) for d in numbers.lhs_contracting)):
        factors = []
        for side, (o, contracted) in enumerate(sides):
            fixed = dict(zip(contracted, index, strict=True))
            fixed |= {d: n for target, n in at.items() if (d := sources[target][side]) is not None}
            part = s.component(o, fixed)
            mapped = [sources[d][side] for d in left if sources[d][side] is not None]
            order = sorted(d for d in mapped if d is not None)
            places = [left.index(next(t for t in left if sources[t][side] == d)) for d in order]
            if part.dims != rest or places != sorted(places):
                part = s.add(broadcast(part, rest, tuple(places)))
            factors.append(part)
        shape = i.shape.with_dims(rest)  # type: ignore[union-attr]
        term = s.add(i.derive("multiply", factors, shape=shape))
        total = term if total is None else s.add(i.derive("add", (total, term), shape=shape))
    return total


_RULES: Final[dict[str, Rule]] = {
    "broadcast": _broadcast,
    "bitcast": _reshape,
    "concatenate": _concatenate,
    "dot": _dot,
    "elementwise": _elementwise,
    "iota": _iota,
    "pad": _pad,
    "reduce": _reduce,
    "reshape": _reshape,
    "reverse": _reverse,
    "slice": _slice,
    "transpose": _transpose,
}
