"""Large reductions to few values, in two steps: the first gives work to many threads (and rounds
less).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..ir.hlo import DotDimensionNumbers, Instruction, Module, Shape, constant
from ..ir.moves import addition, pad_dimension
from ..ir.patterns import binary_body, neutral_start, reshape
from .rewrite import sweep_module

if TYPE_CHECKING:
    from ..targets.costs import Costs
    from ..targets.target import Target


def split_reductions(module: Module, target: Target) -> Module:
    """reduce[n] -> reshape [parts, n / parts] -> reduce -> reduce, where the operation may be
    regrouped. The product of two long vectors is such a reduction, of their products.

    Known operations only (add, multiply, minimum, maximum, and, or, xor); lengths that do not
    divide are padded with the value that changes nothing.
    """

    costs = target.costs

    def rule(i: Instruction) -> Instruction | None:
        return _split_dot(i, costs) if i.opcode == "dot" else _split(i, costs)

    return sweep_module(module, rule, repeat=False)


def _split_dot(dot: Instruction, costs: Costs) -> Instruction | None:
    """The sum of elementwise products in place of a dot that gives one element."""
    lhs, rhs = dot.operands
    same = lhs.dtype is dot.dtype and rhs.dtype is dot.dtype
    if dot.elements != 1 or lhs.elements < costs.threads.split_elements or not same:
        return None
    if dot.dtype.kind == "pred" or dot.dtype.bits < 32:
        return None
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    # Dimensions of size one aside, the contracted ones are all there are: in the order of lhs.
    order = sorted(
        zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True), key=lambda pair: pair[0]
    )
    left = tuple([lhs.dims[a] for a, _ in order])
    if [b for _, b in order if rhs.dims[b] != 1] != sorted(b for _, b in order if rhs.dims[b] != 1):
        return None  # a transpose would be needed
    shape = Shape(dot.dtype, left)
    operands = (reshape(lhs, left), reshape(rhs, left))
    products = dot.derive("multiply", operands, shape=shape)
    zero = constant(0, dot.dtype, dot.metadata)
    total = dot.derive(
        "reduce",
        (products, zero),
        {"dimensions": tuple(range(len(left)))},
        (addition(dot.dtype),),
        shape=Shape(dot.dtype, ()),
    )
    return reshape(_split(total, costs) or total, dot.dims)


def _split(i: Instruction, costs: Costs) -> Instruction | None:
    if i.opcode != "reduce" or not isinstance(i.shape, Shape) or "split" in i.attributes:
        return None
    operand, initial = i.operands
    threads = costs.threads
    if operand.elements < threads.split_elements or i.elements > threads.split_results:
        return None
    opcode = binary_body(i.called[0])
    if opcode is None:
        return None
    neutral = neutral_start(opcode, i)
    if neutral is None:
        return None
    none = constant(neutral, i.dtype, i.metadata)
    dims, dimensions = operand.dims, sorted(i.attributes["dimensions"])
    reduced = math.prod(dims[d] for d in dimensions)
    if reduced <= costs.fusion.row:
        return None
    source = operand
    left = next(
        (d for d in dimensions if 32 <= dims[d] <= 4096 and reduced // dims[d] >= 256), None
    )
    if left is not None:  # that dimension is left for the second step
        inner_dimensions = tuple(d for d in dimensions if d != left)
        outer_at = left - sum(d < left for d in inner_dimensions)
    else:
        at = max(dimensions, key=dims.__getitem__)
        length = dims[at]
        parts = _parts(length, threads.split_parts)
        if parts is None:
            parts = threads.split_parts
            operand = pad_dimension(operand, none, at, 0, -length % parts)
            length = operand.dims[at]
        source = reshape(operand, (*dims[:at], parts, length // parts, *dims[at + 1 :]))
        inner_dimensions = tuple(d + (d >= at) for d in dimensions)
        outer_at = at - sum(d < at for d in inner_dimensions)
    kept = [d for n, d in enumerate(source.dims) if n not in inner_dimensions]
    attributes = {**i.attributes, "split": True}
    inner = i.derive(
        "reduce",
        (source, none),
        {**attributes, "dimensions": inner_dimensions},
        i.called,
        shape=Shape(i.dtype, tuple(kept)),
    )
    return i.replace(
        operands=(inner, initial), attributes={**attributes, "dimensions": (outer_at,)}
    )


def _parts(length: int, wanted: int) -> int | None:
    """A number of equal parts near ``wanted``, if there is one."""
    if length < 2 * wanted:
        return None
    for parts in range(wanted, 4 * wanted):
        if length % parts == 0:
            return parts
    for parts in range(wanted, wanted // 4, -1):
        if length % parts == 0:
            return parts
    return None
