"""Equal functions of several single numbers, in the lanes of one vector.

A kernel of scalars, such as a step of a scan over sixty numbers, computes them one by one. An expensive function, tanh
or a logarithm, takes a vector as long as a number: its arguments are put into the lanes of a vector, and its values are
taken out of them. Functions stand side by side if none of them needs another's value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...ir import hlo
from .. import representation
from ..llvm_ir import Value, poison, vector
from . import elementwise
from .elemental import element

if TYPE_CHECKING:
    from ..generator import Generator, Index
    from ..representation import Element


def compute_side_by_side(g: Generator, computation: hlo.Computation) -> None:
    """Let ``g`` compute the expensive functions of single numbers in ``computation`` in lanes, where that is faster."""
    for functions in _equal_functions(g, computation):
        lanes = g.target.lane_count(max(functions[0].dtype.size, 4))
        for start in range(0, len(functions), lanes):
            together = functions[start : start + lanes]
            if _pays(g, together):
                read = _reader(g, together)
                g.readers.update((i, read(n)) for n, i in enumerate(together))


def _equal_functions(g: Generator, computation: hlo.Computation) -> list[list[hlo.Instruction]]:
    """The expensive functions of single numbers, in groups of equal ones of which none needs another.

    Those of a group have the same number of expensive functions before them, on the longest way.
    """
    groups: dict[tuple[object, ...], list[hlo.Instruction]] = {}
    before: dict[hlo.Instruction, int] = {}
    for i in computation.instructions:
        number = max([before[o] for o in i.operands], default=0)
        if _is_expensive(g, i):
            key = (number, i.opcode, i.shape, *(o.shape for o in i.operands))
            groups.setdefault(key, []).append(i)
            number += 1
        before[i] = number
    return list(groups.values())


def _is_expensive(g: Generator, i: hlo.Instruction) -> bool:
    """Whether ``i`` is a function of single real numbers that may be worth the way into a vector and back."""
    if not i.is_elementwise or not isinstance(i.shape, hlo.Shape) or i.dims or i.attributes:
        return False
    if not all(o.dtype.is_float for o in (i, *i.operands)):
        return False
    return g.target.costs.weight(i) > g.target.costs.loops.lane


def _pays(g: Generator, functions: Sequence[hlo.Instruction]) -> bool:
    """Whether a vector of ``functions``, and its lanes' ways, take less than each by itself."""
    costs, number = g.target.costs, len(functions)
    return (number - 1) * costs.weight(functions[0]) > number * costs.loops.lane


def _reader(
    g: Generator, functions: Sequence[hlo.Instruction]
) -> Callable[[int], Callable[[Index], Element]]:
    """What gives, for a number of ``functions``, how its value is read: the first that is read computes all."""

    def read(number: int) -> Callable[[Index], Element]:
        return lambda index: _compute(g, functions)[number]

    return read


def _compute(g: Generator, functions: Sequence[hlo.Instruction]) -> list[Value]:
    """The values of ``functions``."""
    arguments = [
        _in_lanes(g, [element(g, i.operands[n], ()) for i in functions])
        for n in range(len(functions[0].operands))
    ]
    values = elementwise.emit(g, functions[0], arguments)
    (result,) = representation.components(values)
    return [_lane(g, result, n) for n in range(len(functions))]


def _lane(g: Generator, values: Value, lane: int) -> Value:
    """One of ``values``; the number itself if they are one for all lanes."""
    return g.pure(("lane", lane, values), (values,), lambda: g.builder.extract(values, lane))


def _in_lanes(g: Generator, numbers: Sequence[Element]) -> Element:
    """A vector of ``numbers``, and of the first one in the lanes that are left; one number if all are the same."""
    values = [value for number in numbers for value in representation.components(number)]
    if all(value == values[0] for value in values):
        return values[0]
    lanes = 1 << (len(values) - 1).bit_length()
    values += values[:1] * (lanes - len(values))

    def insert() -> Value:
        result = poison(vector(values[0].type, lanes))
        for n, value in enumerate(values):
            result = g.builder.insert(result, value, n)
        return result

    return g.pure(("lanes", *values), values, insert)
