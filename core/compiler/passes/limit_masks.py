"""What a gradient asks of the argument of a rectifier is asked of its result: x > 0 is max(x, 0) > 0.

The gradient of max(x, c) is a mask of x. x then has two users, so that the product or convolution that it is would be
written for the mask, and read again for the maximum, although the maximum is kept for the gradient too. With the mask
of the maximum nobody else needs x: the maximum becomes part of what computes x, and x takes no memory.
"""

from __future__ import annotations

from typing import Final

from ..ir.hlo import Computation, Instruction, Module
from ..ir.patterns import constant_value
from .rewrite import map_computations, substitute

# The comparisons of x with c that are the same of maximum(x, c) and of minimum(x, c), for a NaN too: the extremum of a
# NaN is NaN.
_KEPT: Final = {"maximum": ("GT", "LE"), "minimum": ("LT", "GE")}
_TURNED: Final = {"GT": "LT", "LT": "GT", "GE": "LE", "LE": "GE"}


def mask_by_limits(module: Module) -> Module:
    """Masks of what maximum and minimum limit by a constant, of what they give."""
    return map_computations(module, _mask)


def _mask(computation: Computation) -> Computation:
    limits = [i for i in computation.instructions if _limited(i) is not None]
    if not limits:
        return computation
    users = computation.users()
    results = {*computation.results, computation.root}
    replaced: dict[Instruction, Instruction] = {}
    for limit in limits:
        x = _limited(limit)
        assert x is not None
        others = [u for u in users[x] if u is not limit]
        if not others or x.opcode == "parameter" or x in results or limit in replaced:
            continue
        if all(u not in replaced and _is_kept(u, x, limit) for u in others):
            # A maximum of its own, which may stand before the mask; common subexpressions are one later.
            same = limit.replace()
            for u in others:
                replaced[u] = u.replace(operands=[same if o is x else o for o in u.operands])
    return substitute(computation, replaced) if replaced else computation


def _limited(limit: Instruction) -> Instruction | None:
    """The operand that a maximum or minimum with a constant limits; None for other instructions."""
    if limit.opcode not in _KEPT or limit.dtype.is_complex:
        return None
    first, second = limit.operands
    if constant_value(second) is not None and constant_value(first) is None:
        return first
    if constant_value(first) is not None and constant_value(second) is None:
        return second
    return None


def _is_kept(mask: Instruction, x: Instruction, limit: Instruction) -> bool:
    """Whether ``mask`` compares ``x`` with the constant of ``limit``, so that ``limit`` would give the same."""
    if mask.opcode != "compare" or mask.attributes.get("comparison_type") == "TOTALORDER":
        return False
    direction = mask.attributes["direction"]
    first, second = mask.operands
    if second is x:
        first, second, direction = second, first, _TURNED.get(direction, "")
    (constant,) = (o for o in limit.operands if o is not x)
    value, wanted = constant_value(second), constant_value(constant)
    same = first is x and value is not None and value == wanted
    return bool(same) and direction in _KEPT[limit.opcode]
