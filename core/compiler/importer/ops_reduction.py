"""Readers of reductions, sorting, maps and batch normalisation: operations with a body on scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir import dtypes
from ..ir.hlo import Instruction, Shape, TupleShape
from . import attributes
from .attributes import integers

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results


def _operands(block: BlockReader, operation: Any) -> list[Instruction]:
    """The inputs and then the initial values of a reduction, in the element types in which its body computes."""
    operands = block.operands(operation)
    count = len(operation.results)
    return [
        *block.promoted(operation, operands[:count]),
        *block.promoted(operation, operands[count:]),
    ]


def read_reduce(block: BlockReader, operation: Any) -> Results:
    dimensions = block.program.attribute(integers, operation.attributes["dimensions"])
    body = block.body(operation, 0, "reduce_body")
    return block.emit_results(
        operation, "reduce", _operands(block, operation), {"dimensions": dimensions}, (body,)
    )


def read_reduce_window(block: BlockReader, operation: Any) -> Results:
    window = {"window": attributes.reduction_window(operation)}
    body = block.body(operation, 0, "reduce_window_body")
    return block.emit_results(
        operation, "reduce-window", _operands(block, operation), window, (body,)
    )


def read_select_and_scatter(block: BlockReader, operation: Any) -> Results:
    operands = block.operands(operation)
    given = operation.attributes
    sizes = (
        integers(given["window_dimensions"])
        if "window_dimensions" in given
        else (1,) * len(operands[0].dims)
    )
    window = attributes.window(
        sizes,
        attributes.optional_integers(operation, "window_strides"),
        attributes.integer_rows(given["padding"]) if "padding" in given else None,
        None,
        None,
    )
    bodies = (block.body(operation, 0, "select_body"), block.body(operation, 1, "scatter_body"))
    # The selection compares the operand's own elements; sums are done in the result's element type.
    summed = [p for o in operands[1:] for p in block.promoted(operation, [o])]
    operands = [operands[0], *summed]
    return block.emit(
        "select-and-scatter", block.shape(operation), operands, {"window": window}, bodies
    )


def read_sort(block: BlockReader, operation: Any) -> Results:
    operands = block.operands(operation)
    dimension = attributes.integer(operation, "dimension", -1)
    values = {
        "dimension": dimension + len(operands[0].dims) if dimension < 0 else dimension,
        "is_stable": attributes.flag(operation, "is_stable"),
    }
    body = block.body(operation, 0, "sort_comparator")
    return block.emit_results(operation, "sort", operands, values, (body,))


def read_map(block: BlockReader, operation: Any) -> Results:
    dimensions = {"dimensions": integers(operation.attributes["dimensions"])}
    body = block.body(operation, 0, "map_body")
    return block.emit("map", block.shape(operation), block.operands(operation), dimensions, (body,))


def read_topk(block: BlockReader, operation: Any) -> Results:
    """``chlo.top_k`` and ``mhlo.topk``: values and s32 indices of the k largest (or smallest) of each row."""
    values = {
        "k": attributes.integer(operation, "k"),
        "largest": attributes.flag(operation, "largest", True),
    }
    return topk(block, operation, values)


def topk(block: BlockReader, operation: Any, values: dict[str, Any]) -> Results:
    """A ``topk`` of ``operation``'s only operand and two results. Types of fewer bits than the runtime sorts
    are replaced by a type that has the same numbers.
    """
    (operand,) = block.operands(operation)
    dtype = operand.dtype
    if not ((dtype.is_integer and dtype.bits < 8) or (dtype.is_float and dtype.bits <= 8)):
        return block.emit_results(operation, "topk", [operand], values)
    wide = dtypes.F32 if dtype.is_float else dtypes.S8 if dtype.is_signed else dtypes.U8
    largest, indices = (block.program.shape(result.type) for result in operation.results)
    assert isinstance(largest, Shape)
    assert isinstance(indices, Shape)
    given = block.emit("convert", Shape(wide, operand.dims), (operand,))
    wide_largest = Shape(wide, largest.dims)
    both = block.emit("topk", TupleShape((wide_largest, indices)), (given,), values)
    found = block.emit("get-tuple-element", wide_largest, (both,), {"index": 0})
    return [
        block.emit("convert", largest, (found,)),
        block.emit("get-tuple-element", indices, (both,), {"index": 1}),
    ]


def batch_norm(opcode: str) -> Reader:
    def read(block: BlockReader, operation: Any) -> Results:
        values = {
            "epsilon": float(operation.attributes["epsilon"].value),
            "feature_index": attributes.integer(operation, "feature_index"),
        }
        return block.emit_results(operation, opcode, block.operands(operation), values)

    return read


def read_topk_call(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    if len(block.operands(operation)) != 1 or len(operation.results) != 2:
        return None
    values = {
        "k": int(config.get("k", block.shape(operation).dims[-1])),
        "largest": bool(config.get("largest", True)),
    }
    return topk(block, operation, values)


def read_approximate_topk(
    block: BlockReader, operation: Any, config: dict[str, Any]
) -> Results | None:
    """``lax.approx_max_k``: the exact answer, by sorting. Operands: values, indices, and an initial value of each."""
    operands = block.operands(operation)[:2]
    given = operation.attributes
    if len(operands) != 2 or "called_computations" not in given or "reduction_dim" not in config:
        return None
    comparator = block.program.function(attributes.symbol(given["called_computations"][0]))
    dimension = int(config["reduction_dim"]) % len(operands[0].dims)
    values = {"dimension": dimension, "is_stable": True}
    shapes = [o.shape for o in operands]
    whole = block.emit("sort", TupleShape(tuple(shapes)), operands, values, (comparator,))  # type: ignore[arg-type]
    results = []
    for index, result in enumerate(operation.results):
        element = block.emit("get-tuple-element", shapes[index], (whole,), {"index": index})
        shape = block.program.shape(result.type)
        rank = len(element.dims)
        bounds = {"starts": (0,) * rank, "limits": shape.dims, "strides": (1,) * rank}  # type: ignore[union-attr]
        results.append(block.emit("slice", shape, (element,), bounds))
    return results
