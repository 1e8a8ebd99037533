"""The older ``einsum`` and ``unary_einsum``: labelled dimensions, as transposes, sums and a dot product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir import dtypes
from ..ir.hlo import DotDimensionNumbers, Instruction, Shape
from ..ir.moves import addition

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Results


def read_einsum(block: BlockReader, operation: Any) -> Results:
    left, right = block.operands(operation)
    inputs, output = _parse(block, operation, 2)
    a, names_a = _only(block, left, inputs[0], set(inputs[1]) | set(output))
    b, names_b = _only(block, right, inputs[1], set(inputs[0]) | set(output))
    shared = [n for n in names_a if n in names_b]
    batch = [n for n in shared if n in output]
    summed = [n for n in shared if n not in output]
    numbers = DotDimensionNumbers(
        tuple(map(names_a.index, summed)),
        tuple(map(names_b.index, summed)),
        tuple(map(names_a.index, batch)),
        tuple(map(names_b.index, batch)),
    )
    names = (
        batch + [n for n in names_a if n not in shared] + [n for n in names_b if n not in shared]
    )
    sizes = dict(zip(names_a, a.dims, strict=True)) | dict(zip(names_b, b.dims, strict=True))
    shape = Shape(block.shape(operation).dtype, tuple(sizes[n] for n in names))
    from . import attributes

    precision = attributes.precision(operation)
    values = {"dimension_numbers": numbers, "precision": precision}
    return _ordered(block, block.emit("dot", shape, (a, b), values), names, output)


def read_unary_einsum(block: BlockReader, operation: Any) -> Results:
    (operand,) = block.operands(operation)
    inputs, output = _parse(block, operation, 1)
    value, names = _only(block, operand, inputs[0], set(output))
    return _ordered(block, value, names, output)


def _parse(block: BlockReader, operation: Any, operands: int) -> tuple[list[str], str]:
    """The labels of the operands' dimensions and of the result's."""
    config = operation.attributes["einsum_config"].value.replace(" ", "")
    left, arrow, output = config.partition("->")
    inputs = left.split(",")
    if not arrow or len(inputs) != operands or not (left.replace(",", "") + output).isalpha():
        raise block.unimplemented(operation, f"the einsum_config {config!r} is not supported")
    for labels, value in zip(inputs, block.operands(operation), strict=True):
        if len(labels) != len(value.dims):
            raise block.invalid(operation, f"the einsum_config {config!r} does not fit the shapes")
    if len(set(output)) != len(output) or not set(output) <= set("".join(inputs)):
        raise block.unimplemented(operation, f"the einsum_config {config!r} is not supported")
    return inputs, output


def _only(
    block: BlockReader, value: Instruction, labels: str, wanted: set[str]
) -> tuple[Instruction, list[str]]:
    """The value with repeated labels reduced to their diagonal, and labels summed that nothing else has."""
    names = list(labels)
    gone = []
    for second, name in enumerate(names):
        first = names.index(name)
        if first != second:
            value = _diagonal(block, value, first, second)
            gone.append(second)
        elif name not in wanted:
            gone.append(second)
    if not gone:
        return value, names
    kept = [n for n in range(len(names)) if n not in gone]
    shape = Shape(value.dtype, tuple(value.dims[n] for n in kept))
    body = addition(value.dtype, block.program.unique_name("einsum_sum"))
    zero = block.zeros(Shape(value.dtype))
    dimensions = {"dimensions": tuple(gone)}
    return block.emit("reduce", shape, (value, zero), dimensions, (body,)), [names[n] for n in kept]


def _diagonal(block: BlockReader, value: Instruction, first: int, second: int) -> Instruction:
    """Zeros where the two indices differ."""
    index = Shape(dtypes.S32, value.dims)
    iotas = [block.emit("iota", index, (), {"dimension": n}) for n in (first, second)]
    equal = {"direction": "EQ", "comparison_type": "SIGNED"}
    mask = block.emit("compare", Shape(dtypes.PRED, value.dims), iotas, equal)
    return block.emit(
        "select", value.shape, (mask, value, block.zeros(Shape(value.dtype, value.dims)))
    )


def _ordered(
    block: BlockReader, value: Instruction, names: Sequence[str], output: str
) -> Instruction:
    order = tuple(names.index(n) for n in output)
    if order == tuple(range(len(order))):
        return value
    shape = Shape(value.dtype, tuple(value.dims[n] for n in order))
    return block.emit("transpose", shape, (value,), {"dimensions": order})
