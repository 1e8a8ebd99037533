"""Ops that make arrays and move their elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..codegen.elements import elemental
from ..formats import hlo_proto, hlo_records
from ..formats.hlo_proto import Field, dimension_field, dimensions_field
from ..formats.wire_format import integer, integers, message, varint
from ..importer import hlo_instructions, ops_data, ops_optimized
from ..ir import dtypes
from ..ir.hlo import Instruction, Shape
from ..ir.printer import dimension_as_list, nothing, renamed
from ..ir.registry import (
    ALONG,
    ANY,
    AS_IT_STANDS,
    CHOOSES,
    EXACT,
    FREE,
    IN_DTYPE,
    NEVER,
    WORTH,
    Absent,
    Array,
    Price,
    both,
    register,
)
from ..ir.shape_rules import (
    InvalidInstruction,
    array_of,
    arrays_of,
    check_distinct,
    check_permutation,
    check_slice_sizes,
    require,
)
from ..passes.library import gemm
from ..reference.evaluate import pad_array
from .kernels import kernel


def _constant_shape(instruction: Instruction) -> Shape:
    literal = instruction.attributes["literal"]
    require(not literal.flags.writeable, "the literal is writable")
    require(literal.flags.c_contiguous, "the literal is not row-major")
    return Shape(dtypes.from_numpy(literal.dtype), literal.shape)


def _check_iota(instruction: Instruction) -> None:
    check_distinct([instruction.attributes["dimension"]], len(instruction.dims), "iota's dimension")


def _broadcast_shape(instruction: Instruction) -> Shape:
    operand = array_of(instruction)
    dims, dimensions = instruction.dims, instruction.attributes["dimensions"]
    if len(dimensions) != operand.rank:
        raise InvalidInstruction(
            f"{len(dimensions)} dimensions for an operand of rank {operand.rank}"
        )
    check_distinct(dimensions, len(dims), "dimensions")
    for i, d in enumerate(dimensions):
        if operand.dims[i] != dims[d]:
            raise InvalidInstruction(f"operand dimension {i} differs from result dimension {d}")
    return Shape(operand.dtype, dims)


def reshape_shape(instruction: Instruction) -> Shape:
    operand = array_of(instruction)
    require(operand.elements == math.prod(instruction.dims), "the number of elements changes")
    return Shape(operand.dtype, instruction.dims)


def _transpose_shape(instruction: Instruction) -> Shape:
    operand, dimensions = array_of(instruction), instruction.attributes["dimensions"]
    check_permutation(dimensions, operand.rank, "dimensions")
    return operand.with_dims(operand.dims[d] for d in dimensions)


def _bounds(attributes: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Start, limit and stride of each dimension of a slice."""
    parts = (attributes[name] for name in ("starts", "limits", "strides"))
    return list(zip(*parts, strict=True))


def _edges(attributes: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Low, high and interior padding of each dimension."""
    return list(zip(*(attributes[name] for name in ("low", "high", "interior")), strict=True))


def _slice_shape(instruction: Instruction) -> Shape:
    operand = array_of(instruction)
    bounds = [instruction.attributes[name] for name in ("starts", "limits", "strides")]
    require(all(len(b) == operand.rank for b in bounds), "bounds do not have the operand's rank")
    dims = []
    for size, start, limit, stride in zip(operand.dims, *bounds, strict=True):
        if not (0 <= start <= limit <= size and stride > 0):
            raise InvalidInstruction(f"[{start}:{limit}:{stride}] is not inside {size}")
        dims.append(-(-(limit - start) // stride))
    return operand.with_dims(dims)


def _pad_shape(instruction: Instruction) -> Shape:
    operand, value = arrays_of(instruction)
    require(
        value == Shape(operand.dtype), "the padding value is not a scalar of the operand's dtype"
    )
    edges = [instruction.attributes[name] for name in ("low", "high", "interior")]
    require(all(len(e) == operand.rank for e in edges), "padding does not have the operand's rank")
    dims = []
    for size, low, high, interior in zip(operand.dims, *edges, strict=True):
        require(interior >= 0, "interior padding is negative")
        dims.append(max(size + max(size - 1, 0) * interior + low + high, 0))
    return operand.with_dims(dims)


def _concatenate_shape(instruction: Instruction) -> Shape:
    shapes, dimension = arrays_of(instruction), instruction.attributes["dimension"]
    require(bool(shapes), "no operands")
    first = shapes[0]
    check_distinct([dimension], first.rank, "dimension")
    for shape in shapes:
        require(
            shape.dtype is first.dtype and shape.rank == first.rank,
            "the operands' dtypes or ranks differ",
        )
        pairs = enumerate(zip(shape.dims, first.dims, strict=True))
        same = all(ours == theirs for d, (ours, theirs) in pairs if d != dimension)
        require(same, "the operands' shapes differ outside the dimension")
    dims = list(first.dims)
    dims[dimension] = sum(s.dims[dimension] for s in shapes)
    return first.with_dims(dims)


def _reverse_shape(instruction: Instruction) -> Shape:
    operand = array_of(instruction)
    check_distinct(instruction.attributes["dimensions"], operand.rank, "dimensions")
    return operand


def _start_indices(instruction: Instruction, first: int, rank: int) -> None:
    starts = [array_of(instruction, i) for i in range(first, len(instruction.operands))]
    require(len(starts) == rank, f"{len(starts)} start indices for rank {rank}")
    for start in starts:
        require(
            start.rank == 0 and start.dtype.is_integer,
            f"start index of shape {start} is not an integer scalar",
        )


def _dynamic_slice_shape(instruction: Instruction) -> Shape:
    operand, sizes = array_of(instruction), instruction.attributes["slice_sizes"]
    _start_indices(instruction, 1, operand.rank)
    check_slice_sizes(sizes, operand)
    return operand.with_dims(sizes)


def _dynamic_update_slice_shape(instruction: Instruction) -> Shape:
    operand, update = array_of(instruction), array_of(instruction, 1)
    _start_indices(instruction, 2, operand.rank)
    require(
        update.dtype is operand.dtype and update.rank == operand.rank,
        "the update does not fit the operand",
    )
    fits = all(u <= d for u, d in zip(update.dims, operand.dims, strict=True))
    require(fits, "the update is larger than the operand")
    return operand


def _constant_value(i: Instruction) -> list[Array]:
    return [i.attributes["literal"]]


def _broadcast_value(i: Instruction, a: Array) -> list[Array]:
    dims = [1] * len(i.dims)
    for source, target in enumerate(i.attributes["dimensions"]):
        dims[target] = a.shape[source]
    dimensions = i.attributes["dimensions"]
    order = sorted(range(a.ndim), key=dimensions.__getitem__)
    return [np.broadcast_to(np.transpose(a, order).reshape(dims), i.dims)]


def _iota_value(i: Instruction) -> list[Array]:
    dimension = i.attributes["dimension"]
    line = np.arange(i.dims[dimension]).astype(i.dtype.numpy)
    along = [-1 if n == dimension else 1 for n in range(len(i.dims))]
    return [np.broadcast_to(line.reshape(along), i.dims)]


def _unwritten_value(i: Instruction) -> list[Array]:
    dtype = i.dtype.numpy
    if dtype == np.bool_:
        return [np.ones(i.dims, dtype)]
    return [np.full(i.elements * dtype.itemsize, 0xA5, np.uint8).view(dtype).reshape(i.dims)]


def _slice_value(i: Instruction, a: Array) -> list[Array]:
    return [a[tuple(slice(*bounds) for bounds in _bounds(i.attributes))]]


def _pad_value(i: Instruction, a: Array, value: Array) -> list[Array]:
    low, high, interior = i.attributes["low"], i.attributes["high"], i.attributes["interior"]
    return [pad_array(a, value, low, high, interior)]


def _concatenate_value(i: Instruction, *operands: Array) -> list[Array]:
    return [np.concatenate(operands, axis=i.attributes["dimension"])]


def _starts(
    operand_dims: Sequence[int], sizes: Sequence[int], indices: Sequence[Array]
) -> tuple[slice, ...]:
    starts = [
        max(0, min(int(n), d - s)) for n, d, s in zip(indices, operand_dims, sizes, strict=True)
    ]
    return tuple(slice(b, b + s) for b, s in zip(starts, sizes, strict=True))


def _dynamic_slice_value(i: Instruction, a: Array, *indices: Array) -> list[Array]:
    return [a[_starts(a.shape, i.attributes["slice_sizes"], indices)]]


def _dynamic_update_slice_value(
    i: Instruction, a: Array, update: Array, *indices: Array
) -> list[Array]:
    result = a.copy()
    result[_starts(a.shape, update.shape, indices)] = update
    return [result]


def _constant_fields(i: Instruction) -> bytes:
    literal = i.attributes["literal"]
    # Sub-byte literals are packed in the proto; they are rare enough to be elided too.
    if literal.nbytes > hlo_proto.MAX_LITERAL_BYTES or i.dtype.name not in hlo_records.LITERALS:
        return b""
    return message(Field.LITERAL, _literal(literal, i.shape))  # type: ignore[arg-type]


def _literal(literal: np.ndarray, shape: Shape) -> bytes:
    """A LiteralProto. The field's number and encoding depend on the dtype."""
    dtype = shape.dtype
    layout = integers(1, range(len(shape.dims) - 1, -1, -1))
    shape_proto = integer(2, dtype.code) + integers(3, shape.dims) + message(5, layout)
    number = hlo_records.LITERALS[dtype.name]
    if dtype.kind in ("int", "uint") and dtype.bits >= 32:
        data = b"".join(map(varint, literal.reshape(-1).tolist()))
    else:
        data = literal.tobytes()
    return message(1, shape_proto) + message(number, data)


def _slice_fields(i: Instruction) -> bytes:
    return b"".join(message(Field.SLICE_DIMENSIONS, _three(*b)) for b in _bounds(i.attributes))


def _pad_fields(i: Instruction) -> bytes:
    edges = b"".join(message(1, _three(*e)) for e in _edges(i.attributes))
    return message(Field.PADDING_CONFIG, edges)


def _three(first: int, second: int, third: int) -> bytes:
    """A message whose fields 1, 2 and 3 are these numbers."""
    return integer(1, first) + integer(2, second) + integer(3, third)


def _slice_text(attributes: Mapping[str, Any]) -> str:
    """``slice={[0:4], [1:9:2]}``."""
    bounds = _bounds(attributes)
    ranges = (f"[{a}:{b}]" if s == 1 else f"[{a}:{b}:{s}]" for a, b, s in bounds)
    return f"slice={{{', '.join(ranges)}}}"


def _pad_text(attributes: Mapping[str, Any]) -> str:
    """``padding=0_1x2_2_1``: low, high and, where it is not 0, interior padding of each dimension."""
    edges = _edges(attributes)
    return "padding=" + "x".join(f"{a}_{b}" + (f"_{i}" if i else "") for a, b, i in edges)


_AS_IT_IS: Final = Absent("the program says it")

# Values from nothing.
register(
    "parameter",
    operands=0,
    attributes=("index",),
    shape=_AS_IT_IS,
    evaluate=Absent("it is an argument"),
    elements=elemental.of_parameter,
    read=Absent("an argument of a block"),
    fields=lambda i: integer(Field.PARAMETER_NUMBER, i.attributes["index"]),
    text={"index": nothing},
    price=FREE,
    counted=False,
    is_alias=True,
    moves=True,
    rounding=IN_DTYPE,
)
register(  # literal: read-only np.ndarray of the shape's numpy dtype and dims
    "constant",
    operands=0,
    attributes=("literal",),
    shape=_constant_shape,
    evaluate=_constant_value,
    elements=elemental.of_constant,
    from_hlo=hlo_instructions.constant,
    read=both(constant=ops_data.read_constant)
    | {"sdy.constant": ops_data.read_constant, "chlo.constant": ops_data.read_constant},
    fields=_constant_fields,
    text={"literal": nothing},
    price=FREE,
    counted=False,
    is_alias=True,
    moves=True,
    stays_in_registers=True,
    rounding=IN_DTYPE,
    hoisting=ALONG,
)
register(
    "iota",
    operands=0,
    attributes=("dimension",),
    shape=_AS_IT_IS,
    check=_check_iota,
    evaluate=_iota_value,
    elements=elemental.of_iota,
    from_hlo=hlo_instructions.iota,
    read=both(iota=ops_data.read_iota, dynamic_iota=ops_data.read_iota),
    fields=dimension_field,
    text={"dimension": renamed("iota_dimension")},
    price=Price(instructions=0.0),
    stays_in_registers=True,
    hoisting=ALONG,
)

# Memory that nobody has written: passes make it, and JAX's lax.empty. The reference gives it bytes that no program
# would count on.
register(
    "allocate-buffer",
    operands=0,
    shape=_AS_IT_IS,
    evaluate=_unwritten_value,
    calls={"AllocateBuffer": ops_data.read_allocate_buffer},
    fields=hlo_proto.call_fields("AllocateBuffer"),
    hlo_call="AllocateBuffer",
    price=FREE,
    counted=False,
    is_alias=True,
    folding=NEVER,
    rounding=IN_DTYPE,
)

# Movement. broadcast: operand dimension i is result dimension dimensions[i]. transpose: result dimension i is operand
# dimension dimensions[i].
register(
    "broadcast",
    operands=1,
    attributes=("dimensions",),
    shape=_broadcast_shape,
    evaluate=_broadcast_value,
    elements=elemental.of_broadcast,
    from_hlo=hlo_instructions.broadcast,
    read=both(
        broadcast=ops_data.read_broadcast,
        broadcast_in_dim=ops_data.read_broadcast_in_dim,
        dynamic_broadcast_in_dim=ops_data.read_dynamic_broadcast_in_dim,
    ),
    fields=dimensions_field,
    price=FREE,
    folding=NEVER,
    moves=True,
    rounding=EXACT,
    hoisting=ALONG,
)
register(
    "reshape",
    operands=1,
    shape=reshape_shape,
    evaluate=lambda i, a: [a.reshape(i.dims)],
    elements=elemental.of_reshape,
    from_hlo=AS_IT_STANDS,
    read=both(reshape=ops_data.read_reshape, dynamic_reshape=ops_data.read_reshape),
    price=FREE,
    moves=True,
    rounding=EXACT,
    hoisting=ALONG,
)
_TRANSPOSE: Final[Mapping[str, Any]] = {
    "operands": 1,
    "attributes": ("dimensions",),
    "shape": _transpose_shape,
    "evaluate": lambda i, a: [np.transpose(a, i.attributes["dimensions"])],
    "fields": dimensions_field,
    "price": Price(instructions=0.0),
    "moves": True,
    "rounding": EXACT,
}
register(
    "transpose",
    **_TRANSPOSE,
    library=gemm.fold_result_transpose,
    elements=elemental.of_transpose,
    kernel=kernel("transposes"),
    from_hlo=hlo_instructions.transpose,
    read=both(transpose=ops_data.read_transpose),
    hoisting=WORTH,
)
register(  # made by passes: codegen/kernels/block_transpose.py
    "block-transpose",
    **_TRANSPOSE,
    kernel=kernel("block_transpose"),
    read=Absent("made by a pass"),
    hlo_name="transpose",
    reads_memory=True,
)
register(
    "slice",
    operands=1,
    attributes=("starts", "limits", "strides"),
    shape=_slice_shape,
    evaluate=_slice_value,
    elements=elemental.of_slice,
    from_hlo=hlo_instructions.slice_,
    read=both(slice=ops_data.read_slice, real_dynamic_slice=ops_data.read_real_dynamic_slice),
    fields=_slice_fields,
    whole_text=_slice_text,
    price=FREE,
    moves=True,
    rounding=EXACT,
    hoisting=ALONG,
)
register(  # operand, scalar padding value
    "pad",
    operands=2,
    attributes=("low", "high", "interior"),
    shape=_pad_shape,
    evaluate=_pad_value,
    elements=elemental.of_pad,
    from_hlo=hlo_instructions.pad,
    read=both(pad=ops_data.read_pad, dynamic_pad=ops_data.read_dynamic_pad),
    fields=_pad_fields,
    whole_text=_pad_text,
    price=Price(instructions=2.0),
    moves=True,
    rounding=EXACT,
    hoisting=WORTH,
)
register(
    "concatenate",
    operands=ANY,
    attributes=("dimension",),
    shape=_concatenate_shape,
    evaluate=_concatenate_value,
    elements=elemental.of_concatenate,
    from_hlo=hlo_instructions.concatenate,
    read=both(concatenate=ops_data.read_concatenate),
    fields=dimension_field,
    text={"dimension": dimension_as_list},
    price=Price(instructions=2.0),
    moves=True,
    rounding=EXACT,
    hoisting=WORTH,
)
register(
    "reverse",
    operands=1,
    attributes=("dimensions",),
    shape=_reverse_shape,
    evaluate=lambda i, a: [np.flip(a, i.attributes["dimensions"])],
    elements=elemental.of_reverse,
    from_hlo=hlo_instructions.reverse,
    read=both(reverse=ops_data.read_reverse),
    fields=dimensions_field,
    price=Price(instructions=0.0),
    moves=True,
    rounding=EXACT,
    hoisting=WORTH,
)
register(
    "copy",
    operands=1,
    shape=lambda i: i.operands[0].shape,
    evaluate=lambda i, a: [a],
    generate=lambda g, i, o: o[0],
    generate_complex=lambda g, i, o: o[0],
    from_hlo=AS_IT_STANDS,
    read=both(copy=AS_IT_STANDS),
    price=Price(instructions=0.0),
    is_thunk=True,
    moves=True,
    rounding=CHOOSES,
)
register(  # operand, scalar start indices...
    "dynamic-slice",
    operands=ANY,
    attributes=("slice_sizes",),
    shape=_dynamic_slice_shape,
    evaluate=_dynamic_slice_value,
    elements=elemental.of_dynamic_slice,
    from_hlo=hlo_instructions.dynamic_slice,
    read=both(dynamic_slice=ops_data.read_dynamic_slice),
    fields=lambda i: integers(Field.DYNAMIC_SLICE_SIZES, i.attributes["slice_sizes"]),
    text={"slice_sizes": renamed("dynamic_slice_sizes")},
    price=Price(instructions=2.0),
    moves=True,
)
register(  # operand, update, scalar start indices...
    "dynamic-update-slice",
    operands=ANY,
    shape=_dynamic_update_slice_shape,
    evaluate=_dynamic_update_slice_value,
    kernel=kernel("update_slices"),
    from_hlo=hlo_instructions.dynamic_update_slice,
    read=both(dynamic_update_slice=AS_IT_STANDS),
    price=Price(instructions=4.0),
    moves=True,
)
# Made by passes: a reshape that moves no data. The result is the operand's buffer.
register(
    "bitcast",
    operands=1,
    shape=reshape_shape,
    evaluate=lambda i, a: [a.reshape(i.dims)],
    elements=elemental.of_reshape,
    read={"mhlo.bitcast": ops_optimized.read_bitcast},
    price=FREE,
    counted=False,
    is_alias=True,
    moves=True,
    rounding=EXACT,
    hoisting=ALONG,
)
