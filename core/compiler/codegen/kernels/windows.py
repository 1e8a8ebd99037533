"""What reduce-window, select-and-scatter and convolution share: positions of windows over an array.

Position w of the window at output index o stands at ``o * stride + w * window_dilation -
padding_low`` of the dilated array; it is an element of the array if that is inside and a multiple
of the base dilation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...ir import hlo
from .. import llvm_ir
from ..generator import ZERO, Coordinate, Generator, fixed
from ..llvm_ir import Value, i64

if TYPE_CHECKING:
    from ...targets.target import Target

UNROLLED = 32  # windows of at most this many positions are written out


def is_trivial(w: hlo.WindowDimension) -> bool:
    """Whether a dimension is not windowed at all."""
    return (w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation) == (1, 1, 0, 0, 1)


def extent(w: hlo.WindowDimension, size: int) -> int:
    """The length of an array's dimension with base dilation, without padding."""
    return (size - 1) * w.base_dilation + 1 if size else 0


def place(
    g: Generator, w: hlo.WindowDimension, size: int, output: Coordinate, position: Coordinate
) -> tuple[Coordinate, list[Value]]:
    """The coordinate in the array (clamped if it is the same in all lanes), and when it counts.

    Conditions that always hold are not in the list. Where a condition varies by lane the coordinate is exact, not
    clamped: load it masked.
    """
    if w.reversal:
        position = g.shift(g.scale(position, -1), w.size - 1)
    c = g.sum(
        g.scale(output, w.stride), g.shift(g.scale(position, w.window_dilation), -w.padding_low)
    )
    conditions: list[Value] = []
    last = extent(w, size) - 1
    if c.low < 0 or c.high > last:
        conditions.append(g.compare("ule", g.vector(c, c.lanes), i64(last)))
    if w.base_dilation > 1:
        value = g.vector(c, c.lanes)
        if c.is_uniform:
            value = _clamp(g, value, last) if conditions else value
            c = Coordinate(value, high=last)
        elif conditions:
            value = _clamp(g, value, last)
            c = Coordinate(i64(0), 0, c.lanes, value, 0, last)
        c, rest = g.divide(c, w.base_dilation)
        if rest.low != rest.high or rest.low != 0:
            conditions.append(g.compare("eq", g.vector(rest, rest.lanes), i64(0)))
    elif conditions and c.is_uniform:
        c = Coordinate(_clamp(g, c.base, last), high=last)
    return c._replace(low=max(c.low, 0), high=max(0, min(c.high, size - 1))), conditions


def _clamp(g: Generator, value: Value, last: int) -> Value:
    zero, top = llvm_ir.zero(value.type), llvm_ir.integer(value.type, last)

    def emit() -> Value:
        return g.builder.intrinsic("smin", [g.builder.intrinsic("smax", [value, zero]), top])

    return g.pure(("clamp position", value, last), [value], emit)


def all_of(g: Generator, conditions: Sequence[Value]) -> Value | None:
    """The conjunction: an i1, a vector of them if any is, or None for no conditions."""
    result: Value | None = None
    for c in sorted(conditions, key=lambda c: c.type != "i1"):
        result = c if result is None else g.apply("and", result, c)
    return result


Positions = tuple[Coordinate, ...]


def over(
    g: Generator,
    sizes: Sequence[int],
    state: list[Value],
    body: Callable[[Positions, list[Value]], list[Value]],
) -> list[Value]:
    """Run ``state = body(position, state)`` over all positions of a window, in row-major order."""
    unrolled = math.prod(sizes) <= UNROLLED

    def nest(level: int, at: Positions, values: list[Value]) -> list[Value]:
        if level == len(sizes):
            return body(at, values)
        size = sizes[level]
        if size == 1:
            return nest(level + 1, (*at, ZERO), values)
        if unrolled:
            for n in range(size):
                values = nest(level + 1, (*at, fixed(n)), values)
            return values
        with g.loop(i64(0), i64(size), 1, values) as (i, carried, results):
            carried[:] = nest(level + 1, (*at, Coordinate(i, high=size - 1)), list(carried))
        return list(results)

    return nest(0, (), state)


def choose(
    g: Generator,
    condition: Value,
    then: Callable[[], list[Value]],
    otherwise: Callable[[], list[Value]],
) -> list[Value]:
    """The values of one of two blocks by a condition that is the same in all lanes."""
    (first, from_first), (second, from_second) = g.either(condition, then, otherwise)
    merged = [
        g.builder.phi([(v, from_first), (w, from_second)])
        for v, w in zip(first, second, strict=True)
    ]
    g.note(*merged)
    return merged


def lanes_and_mask(target: Target, shapes: Sequence[hlo.Shape]) -> tuple[int, bool]:
    """How many lanes to compute arrays of these dtypes in, and whether their vectors can be masked."""
    sizes = [s.dtype.component.size for s in shapes]
    registers = [max(s.dtype.component.size, 4 if s.dtype.is_float else 1) for s in shapes]
    lanes = target.lane_count(max(registers), any(s.dtype.is_complex for s in shapes))
    return lanes, all(target.can_mask(s) for s in sizes)
