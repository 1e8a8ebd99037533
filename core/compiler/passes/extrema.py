"""Positions of the largest or smallest number (argmax, argmin): the first NaN's, however elements are combined.

JAX's body takes the accumulator if it is NaN, whatever its position, so that the first NaN wins only where elements are
combined in their order. Kernels combine lanes and threads in another. XLA's own body, which TensorFlow and PyTorch/XLA
use, takes the value if either is NaN; its result for NaNs is an accident of the order, so ours may as well be NumPy's.
"""

from __future__ import annotations

from ..ir.hlo import Computation, Instruction, Module
from .rewrite import map_computations, prune


def order_extrema(module: Module) -> Module:
    """Bodies of reductions like JAX's and XLA's argmax take NaN, and of two that of the smaller position."""
    bodies = {
        i.called[0]
        for c in module.computations()
        for i in c.instructions
        if i.opcode in ("reduce", "reduce-window") and len(i.operands) == 4
    }
    found = {body: better for body in bodies if (better := ordered(body)) is not None}
    if not found:
        return module
    return map_computations(module, lambda computation: found.get(computation, computation))


def ordered(body: Computation) -> Computation | None:
    """The body with the rule for two NaNs; None for any other body."""
    root = body.root
    if len(body.parameters) != 4 or root.opcode != "tuple" or len(root.operands) != 2:
        return None
    value, position, other, other_position = body.parameters
    if not value.dtype.is_float:
        return None
    if (ordered := _ordered_by_minimum(body)) is not None:
        return ordered
    taken = _condition(root.operands[0], value, other)
    chosen = _condition(root.operands[1], position, other_position)
    if taken is None or chosen is None:
        return None
    is_nan = _is_nan_or_beyond(taken, value, other)
    tie = _other_operand(chosen, taken)
    if is_nan is None or tie is None or tie.opcode != "and":
        return None
    equal = next((o for o in tie.operands if _compares(o, "EQ", value, other)), None)
    before = _other_operand(tie, equal) if equal is not None else None
    if equal is None or before is None or not _compares(before, "LT", position, other_position):
        return None
    other_is_nan = is_nan.replace(operands=(other, other))

    def op(opcode: str, *operands: Instruction) -> Instruction:
        return taken.derive(opcode, operands)

    # Of two NaNs neither is beyond the other: the position decides.
    number = op("not", other_is_nan)
    alone = op("and", taken, number)
    both = op("and", is_nan, other_is_nan)
    same = op("or", equal, both)
    first = op("and", same, before)
    better = op("or", alone, first)
    pick = root.operands[1].replace(operands=(better, position, other_position))
    new_root = root.replace(operands=(root.operands[0], pick))
    instructions = [i for i in body.instructions if i is not root]
    instructions += [other_is_nan, number, alone, both, same, first, better, pick, new_root]
    return prune(Computation(body.name, body.parameters, instructions, new_root))


def _ordered_by_minimum(body: Computation) -> Computation | None:
    """XLA's body: (a >= b ? a : b, a == b ? min(i, j) : a >= b ? i : j)."""
    root = body.root
    value, position, other, other_position = body.parameters
    taken = _condition(root.operands[0], value, other)
    place = root.operands[1]
    if taken is None or not any(_compares(taken, d, value, other) for d in ("GE", "LE")):
        return None
    if place.opcode != "select":
        return None
    equal, least, chosen = place.operands
    if (
        not _compares(equal, "EQ", value, other)
        or least.opcode != "minimum"
        or set(least.operands) != {position, other_position}
        or _condition(chosen, position, other_position) is not taken
    ):
        return None
    is_nan, other_is_nan = (
        Instruction("compare", taken.shape, (v, v), {**taken.attributes, "direction": "NE"})
        for v in (value, other)
    )
    take = Instruction("or", taken.shape, (taken, is_nan))
    both = Instruction("and", taken.shape, (is_nan, other_is_nan))
    same = Instruction("or", taken.shape, (equal, both))
    kept = root.operands[0].replace(operands=(take, value, other))
    new_chosen = chosen.replace(operands=(take, position, other_position))
    pick = place.replace(operands=(same, least, new_chosen))
    new_root = root.replace(operands=(kept, pick))
    instructions = [i for i in body.instructions if i is not root]
    instructions += [is_nan, other_is_nan, take, both, same, kept, new_chosen, pick, new_root]
    return prune(Computation(body.name, body.parameters, instructions, new_root))


def _condition(i: Instruction, a: Instruction, b: Instruction) -> Instruction | None:
    """The condition of ``i``, which selects between ``a`` and ``b``."""
    if i.opcode == "select" and tuple(i.operands[1:]) == (a, b):
        return i.operands[0]
    return None


def _is_nan_or_beyond(
    taken: Instruction, value: Instruction, other: Instruction
) -> Instruction | None:
    """The comparison in ``taken`` = (value > other or value is NaN) that says that it is NaN."""
    if taken.opcode != "or":
        return None
    is_nan = next((o for o in taken.operands if _compares(o, "NE", value, value)), None)
    if is_nan is None:
        return None
    beyond = _other_operand(taken, is_nan)
    if beyond is None or not any(_compares(beyond, d, value, other) for d in ("GT", "LT")):
        return None
    return is_nan


def _compares(i: Instruction, direction: str, a: Instruction, b: Instruction) -> bool:
    return (
        i.opcode == "compare"
        and i.attributes["direction"] == direction
        and tuple(i.operands) == (a, b)
    )


def _other_operand(i: Instruction, one: Instruction) -> Instruction | None:
    """The operand of a binary ``or`` or ``and`` beside ``one``."""
    if i.opcode not in ("or", "and") or one not in i.operands:
        return None
    first, second = i.operands
    return second if first is one else first
