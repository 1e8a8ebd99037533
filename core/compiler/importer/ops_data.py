"""Readers of constants and of operations that move data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir import dtypes, hlo
from ..ir.hlo import Instruction, Shape
from ..reference import evaluate
from . import attributes
from .attributes import integers

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results


def read_constant(block: BlockReader, operation: Any) -> Results:
    shape = block.shape(operation)
    return block.constant(attributes.constant_literal(operation, shape), shape)


def read_allocate_buffer(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results:
    return block.emit("allocate-buffer", block.shape(operation))


def read_iota(block: BlockReader, operation: Any) -> Results:
    dimension = attributes.integer(operation, "iota_dimension")
    return block.emit("iota", block.shape(operation), (), {"dimension": dimension})


def broadcast_in_dim(
    block: BlockReader, operand: Instruction, dims: tuple[int, ...], dimensions: tuple[int, ...]
) -> Instruction:
    """StableHLO's broadcast as HLO's: a dimension of size 1 that is stretched is dropped first."""
    kept = [i for i, size in enumerate(operand.dims) if size == dims[dimensions[i]]]
    if len(kept) != len(dimensions):
        smaller = Shape(operand.dtype, tuple(operand.dims[i] for i in kept))
        operand = block.emit("reshape", smaller, (operand,))
        dimensions = tuple(dimensions[i] for i in kept)
    shape = Shape(operand.dtype, dims)
    return block.emit("broadcast", shape, (operand,), {"dimensions": dimensions})


def read_broadcast_in_dim(block: BlockReader, operation: Any) -> Results:
    (operand,) = block.operands(operation)
    dimensions = block.program.attribute(integers, operation.attributes["broadcast_dimensions"])
    return broadcast_in_dim(block, operand, block.shape(operation).dims, dimensions)


def read_broadcast(block: BlockReader, operation: Any) -> Results:
    """The older ``broadcast``: new dimensions in front."""
    (operand,) = block.operands(operation)
    shape = block.shape(operation)
    new = shape.rank - len(operand.dims)
    return block.emit("broadcast", shape, (operand,), {"dimensions": tuple(range(new, shape.rank))})


# How an attribute is read from a block and its operation.
AttributeReader = Callable[["BlockReader", Any], Any]


def plain(opcode: str, **parts: AttributeReader) -> Reader:
    """The reader of an operation that is ``opcode`` on the same operands; ``parts`` read its attributes."""

    def read(block: BlockReader, operation: Any) -> Results:
        values = {name: part(block, operation) for name, part in parts.items()}
        return block.emit(opcode, block.shape(operation), block.operands(operation), values)

    return read


def in_attribute(name: str, convert: Callable[[Any], Any] = integers) -> AttributeReader:
    """The attribute ``name`` of the operation, read by ``convert``."""
    return lambda block, operation: block.program.attribute(convert, operation.attributes[name])


def flag(name: str) -> AttributeReader:
    """The boolean or unit attribute ``name``."""
    return lambda _, operation: attributes.flag(operation, name)


read_transpose = plain("transpose", dimensions=in_attribute("permutation"))
read_slice = plain(
    "slice",
    starts=in_attribute("start_indices"),
    limits=in_attribute("limit_indices"),
    strides=in_attribute("strides"),
)
read_pad = plain(
    "pad",
    low=in_attribute("edge_padding_low"),
    high=in_attribute("edge_padding_high"),
    interior=in_attribute("interior_padding"),
)
read_reverse = plain("reverse", dimensions=in_attribute("dimensions"))
read_dynamic_slice = plain("dynamic-slice", slice_sizes=in_attribute("slice_sizes"))
read_gather = plain(
    "gather",
    dimension_numbers=in_attribute("dimension_numbers", attributes.gather_dimension_numbers),
    slice_sizes=in_attribute("slice_sizes"),
    indices_are_sorted=flag("indices_are_sorted"),
)


def read_reshape(block: BlockReader, operation: Any) -> Results:
    return block.emit("reshape", block.shape(operation), block.operands(operation)[:1])


def read_concatenate(block: BlockReader, operation: Any) -> Results:
    dimension = attributes.integer(operation, "dimension")
    operands = block.operands(operation)
    if len(operands) == 1:
        return operands[0]
    return block.emit("concatenate", block.shape(operation), operands, {"dimension": dimension})


def read_scatter(block: BlockReader, operation: Any) -> Results:
    values = {
        "dimension_numbers": block.program.attribute(
            attributes.scatter_dimension_numbers, operation.attributes["scatter_dimension_numbers"]
        ),
        "indices_are_sorted": attributes.flag(operation, "indices_are_sorted"),
        "unique_indices": attributes.flag(operation, "unique_indices"),
    }
    body = block.body(operation, 0, "scatter_body")
    operands = block.operands(operation)
    count = len(operation.results)
    operands = [
        *block.promoted(operation, operands[:count]),
        operands[count],
        *block.promoted(operation, operands[count + 1 :]),
    ]
    return block.emit_results(operation, "scatter", operands, values, (body,))


# ------------------------------------------------------------------------------- dynamic operations, when static
# After shape refinement these have static results; the operands that gave the shape no longer matter.


def read_dynamic_broadcast_in_dim(block: BlockReader, operation: Any) -> Results:
    operand = block.value(operation.operands[0])
    dimensions = integers(operation.attributes["broadcast_dimensions"])
    return broadcast_in_dim(block, operand, block.shape(operation).dims, dimensions)


def read_get_dimension_size(block: BlockReader, operation: Any) -> Results:
    operand = block.value(operation.operands[0])
    size = operand.dims[attributes.integer(operation, "dimension")]
    return block.emit("constant", Shape(dtypes.S32), (), {"literal": _scalar(size)})


def read_set_dimension_size(block: BlockReader, operation: Any) -> Results:
    operand, size = block.operands(operation)
    bound = operand.dims[attributes.integer(operation, "dimension")]
    known = _known_value(block, size)
    if known is not None and int(known) == bound:
        return operand
    block.shape(operation)  # a type with a bound asks for the passes that resolve it
    raise block.unimplemented(operation, "the dimension is of no type with bounds")


Array = np.ndarray[Any, Any]

# The most elements of a shape or bounds, and of whatever they are computed from, that are looked for.
_FEW: Final = 1 << 12


def _known_value(
    block: BlockReader,
    instruction: Instruction,
    known: dict[Instruction, Array | None] | None = None,
) -> Array | None:
    """What an instruction gives if it is computed from constants alone; None for other values and large arrays.

    The constants may stand in a block around ``block``, where MLIR's passes put those of loops' bodies.
    ``known``: what was found for others.
    """
    known = {} if known is None else known
    if instruction not in known:
        known[instruction] = None
        if (outer := block.program.captured.get(instruction)) is not None:
            known[instruction] = _known_value(block, outer, known)
            return known[instruction]
        shape = instruction.shape
        if (
            isinstance(shape, Shape)
            and shape.elements <= _FEW
            and not instruction.called
            and (instruction.operands or instruction.opcode in ("constant", "iota"))
            and evaluate.can_evaluate(instruction.opcode)
        ):
            operands = [_known_value(block, o, known) for o in instruction.operands]
            given = [o for o in operands if o is not None]
            if len(given) == len(operands):
                known[instruction] = evaluate.evaluate_instruction(instruction, given)[0]
    return known[instruction]


def constant_operand(block: BlockReader, operation: Any, number: int) -> tuple[int, ...]:
    """The values of an operand that must be computed from constants alone."""
    value = _known_value(block, block.value(operation.operands[number]))
    if value is None:
        raise block.unimplemented(
            operation, f"operand {number} gives a shape or bounds, and is not a constant"
        )
    return tuple(int(v) for v in value.reshape(-1))


def read_dynamic_pad(block: BlockReader, operation: Any) -> Results:
    names = ("low", "high", "interior")
    padding = {n: constant_operand(block, operation, 2 + i) for i, n in enumerate(names)}
    return block.emit("pad", block.shape(operation), block.operands(operation)[:2], padding)


def read_real_dynamic_slice(block: BlockReader, operation: Any) -> Results:
    """The result's shape is known, so without strides the starts may be values of the program."""
    starts = block.value(operation.operands[1])
    shape = block.shape(operation)
    if _known_value(block, starts) is None:
        if any(s != 1 for s in constant_operand(block, operation, 3)):
            raise block.unimplemented(operation, "strides with starts that are not constant")
        scalars = []
        for n in range(shape.rank):
            element = {"starts": (n,), "limits": (n + 1,), "strides": (1,)}
            one = block.emit("slice", Shape(starts.dtype, (1,)), (starts,), element)
            scalars.append(block.emit("reshape", Shape(starts.dtype), (one,)))
        operands = (block.value(operation.operands[0]), *scalars)
        return block.emit("dynamic-slice", shape, operands, {"slice_sizes": shape.dims})
    names = ("starts", "limits", "strides")
    bounds = {n: constant_operand(block, operation, 1 + i) for i, n in enumerate(names)}
    return block.emit("slice", shape, block.operands(operation)[:1], bounds)


def read_dynamic_gather(block: BlockReader, operation: Any) -> Results:
    values = {
        "dimension_numbers": block.program.attribute(
            attributes.gather_dimension_numbers, operation.attributes["dimension_numbers"]
        ),
        "slice_sizes": constant_operand(block, operation, 2),
        "indices_are_sorted": attributes.flag(operation, "indices_are_sorted"),
    }
    return block.emit("gather", block.shape(operation), block.operands(operation)[:2], values)


def read_torch_index_select(block: BlockReader, operation: Any) -> Results:
    """A gather of whole slices at the indices, which the first ``batch_dims`` dimensions of both share."""
    operand, index = block.operands(operation)
    dimension = attributes.integer(operation, "dim")
    batch = tuple(range(attributes.integer(operation, "batch_dims", 0)))
    rank = len(operand.dims)
    free = len(index.dims) - len(batch)
    # Result: the operand's dimensions before `dimension`, the index's own, the operand's after it.
    inside = set(range(dimension, dimension + free)) | set(batch)
    shape = block.shape(operation)
    numbers = hlo.GatherDimensionNumbers(
        offset_dims=tuple(d for d in range(shape.rank) if d not in inside),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        index_vector_dim=len(index.dims),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
    )
    sizes = tuple(1 if d == dimension or d in batch else operand.dims[d] for d in range(rank))
    values = {"dimension_numbers": numbers, "slice_sizes": sizes, "indices_are_sorted": False}
    return block.emit("gather", shape, (operand, index), values)


def _scalar(value: int) -> np.ndarray:
    return hlo.constant(value, dtypes.S32).attributes["literal"]  # type: ignore[no-any-return]
