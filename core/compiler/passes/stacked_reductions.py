"""A reduction over a stack of a few arrays is its body applied to one array after the other.

``jnp.select`` looks for the first of its conditions with an argmax over all of them, and means and maxima of a list of
arrays are reductions over their stack. A kernel that reduces goes over the stack by numbers, so that each element asks
which array it comes from, and what reads the result waits for all of it. Applied to arrays, the body is a part of the
loop that reads the result.
"""

from __future__ import annotations

from typing import Final

from ..ir.hlo import Computation, Instruction, Module, Shape, constant
from ..ir.patterns import body_on_arrays, reshape, splat
from .rewrite import map_computations, substitute

#: Arrays of one stack. Each is a copy of the body.
MOST_ARRAYS: Final = 8


def unstack_reductions(module: Module) -> Module:
    """The module with reductions over stacks of up to eight arrays as their bodies, one array after the other."""
    return map_computations(module, _unstack)


def _unstack(computation: Computation) -> Computation:
    applied = {i: found for i in computation.instructions if (found := _applied(i)) is not None}
    replaced = {i: found[0] for i, found in applied.items() if isinstance(i.shape, Shape)}
    for i in computation.instructions:
        if i.opcode == "get-tuple-element" and i.operands[0] in applied:
            replaced[i] = applied[i.operands[0]][i.attributes["index"]]
    return substitute(computation, replaced)


def _applied(i: Instruction) -> list[Instruction] | None:
    """The results of a reduction over a stack, and over what else is known for each of its arrays; None for others."""
    if i.opcode != "reduce" or len(i.attributes["dimensions"]) != 1 or _would_round(i):
        return None
    (along,) = i.attributes["dimensions"]
    count = len(i.operands) // 2
    operands, starts = i.operands[:count], i.operands[count:]
    size = operands[0].dims[along]
    if not 2 <= size <= MOST_ARRAYS or not any(_is_stack(o, along) for o in operands):
        return None
    totals = [splat(start, _without(operands[0].dims, along)) for start in starts]
    for number in range(size):
        layers = [_layer(o, along, number) for o in operands]
        arguments = [*totals, *(layer for layer in layers if layer is not None)]
        found = body_on_arrays(i.called[0], arguments) if len(arguments) == 2 * count else None
        if found is None:
            return None
        totals = found
    return totals


def _would_round(reduce: Instruction) -> bool:
    """Whether the body rounds what it combines to a float of less than 32 bits: a kernel that reduces rounds once."""
    moves = ("compare", "select", "maximum", "minimum", "and", "or", "not")
    return any(
        i.dtype.is_float and i.dtype.bits < 32 and i.opcode not in ("parameter", *moves)
        for i in reduce.called[0].instructions
        if isinstance(i.shape, Shape)
    )


def _is_stack(i: Instruction, along: int) -> bool:
    return (
        i.opcode == "concatenate"
        and i.attributes["dimension"] == along
        and all(o.dims[along] == 1 for o in i.operands)
    )


def _layer(i: Instruction, along: int, number: int) -> Instruction | None:
    """Element ``number`` of ``i`` along a dimension, without that dimension; None if it would be cut out of ``i``."""
    rest = Shape(i.dtype, _without(i.dims, along))
    if _is_stack(i, along):
        return reshape(i.operands[number], rest.dims)
    if i.opcode == "iota" and i.attributes["dimension"] == along:
        return splat(constant(number, i.dtype, i.metadata), rest.dims)
    if i.opcode == "broadcast" and along not in i.attributes["dimensions"]:
        mapped = tuple([d - (d > along) for d in i.attributes["dimensions"]])
        return i.replace(shape=rest, attributes={"dimensions": mapped})
    return None


def _without(dims: tuple[int, ...], along: int) -> tuple[int, ...]:
    return (*dims[:along], *dims[along + 1 :])
