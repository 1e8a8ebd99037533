"""Shape rules: for each opcode, the shape that operands, attributes and called computations imply.

A rule is one small function ``instruction -> expected shape`` in :data:`RULES`; it raises
:class:`InvalidInstruction` when the operands do not fit together. An opcode without a rule has a shape that nothing
else determines (``parameter``, ``iota``, ``custom-call``); :data:`CHECKS` may still hold a check for it.
:mod:`.verifier` applies both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from . import dtypes
from .hlo import (
    OPCODES,
    SPECIAL_FUNCTIONS,
    TOKEN,
    AnyShape,
    Computation,
    Instruction,
    Shape,
    TokenShape,
    TupleShape,
    WindowDimension,
)

Rule = Callable[[Instruction], AnyShape]


class InvalidInstruction(Exception):  # noqa: N818 - the caller names the instruction
    """What is wrong with an instruction."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidInstruction(message)


# ------------------------------------------------------------------------------------------------------- helpers


def _array(instruction: Instruction, index: int = 0) -> Shape:
    """The shape of an operand that must be an array."""
    shape = instruction.operands[index].shape
    if not isinstance(shape, Shape):
        raise InvalidInstruction(f"operand {index} is not an array")
    return shape


def _arrays(instruction: Instruction) -> list[Shape]:
    return [_array(instruction, i) for i in range(len(instruction.operands))]


def _result(shapes: Sequence[AnyShape]) -> AnyShape:
    """One shape as it is, several as a tuple."""
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))  # type: ignore[arg-type]


def _permutation(values: Sequence[int], rank: int, what: str) -> None:
    _require(
        sorted(values) == list(range(rank)),
        f"{what} {tuple(values)} are not a permutation of {rank} dimensions",
    )


def _distinct(values: Sequence[int], rank: int, what: str) -> None:
    ok = len(set(values)) == len(values) and all(0 <= v < rank for v in values)
    _require(ok, f"{what} {tuple(values)} are not distinct dimensions of {rank}")


def _signature(
    computation: Computation, parameters: Sequence[AnyShape], results: Sequence[AnyShape], what: str
) -> None:
    found = [p.shape for p in computation.parameters]
    if found != list(parameters):
        takes = ", ".join(map(str, found))
        gets = ", ".join(map(str, parameters))
        raise InvalidInstruction(f"{what} {computation.name} takes ({takes}), but gets ({gets})")
    found_results = [r.shape for r in computation.results]
    if found_results != list(results):
        gives = ", ".join(map(str, found_results))
        wants = ", ".join(map(str, results))
        raise InvalidInstruction(
            f"{what} {computation.name} gives ({gives}), but should give ({wants})"
        )


# ---------------------------------------------------------------------------------------------- elementwise


_INTEGER_ONLY: Final = (
    "shift-left shift-right-logical shift-right-arithmetic popcnt count-leading-zeros"
)
_FLOAT_OR_COMPLEX: Final = (
    "exponential exponential-minus-one log log-plus-one sqrt rsqrt cbrt tanh tan sine cosine logistic"
    " atan2"
)
_FLOAT_ONLY: Final = (
    *("sinh", "cosh", "asin", "acos", "erf", "floor", "ceil", "round-nearest-afz"),
    *("round-nearest-even", "is-finite", "reduce-precision"),
    *SPECIAL_FUNCTIONS,
)
_ARITHMETIC: Final = ("int", "uint", "float", "complex")
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(["add", "multiply", "maximum", "minimum"], (*_ARITHMETIC, "pred")),
    **dict.fromkeys(["subtract", "divide", "power", "abs", "negate", "sign"], _ARITHMETIC),
    **dict.fromkeys(["remainder"], ("int", "uint", "float")),
    **dict.fromkeys(["and", "or", "xor", "not"], ("pred", "int", "uint")),
    **dict.fromkeys(_INTEGER_ONLY.split(), ("int", "uint")),
    **dict.fromkeys(_FLOAT_OR_COMPLEX.split(), ("float", "complex")),
    **dict.fromkeys(_FLOAT_ONLY, ("float",)),
    "real": ("complex",),
    "imag": ("complex",),
}


def _same(instruction: Instruction) -> Shape:
    """All operands of one shape, which is the result's."""
    shapes = _arrays(instruction)
    _require(all(s == shapes[0] for s in shapes), "the operands' shapes differ")
    allowed = _KINDS.get(instruction.opcode)
    if allowed is not None:
        _require(
            shapes[0].dtype.kind in allowed, f"{instruction.opcode} does not take {shapes[0].dtype}"
        )
    return shapes[0]


def _abs(instruction: Instruction) -> Shape:
    shape = _same(instruction)
    return shape.with_dtype(shape.dtype.component)


def _to_pred(instruction: Instruction) -> Shape:
    return _same(instruction).with_dtype(dtypes.PRED)


def _compare(instruction: Instruction) -> Shape:
    _require(
        instruction.attributes["direction"] in ("EQ", "NE", "LT", "LE", "GT", "GE"),
        "unknown direction",
    )
    kinds = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
    _require(instruction.attributes["comparison_type"] in kinds, "unknown comparison type")
    return _to_pred(instruction)


def _part(instruction: Instruction) -> Shape:
    shape = _same(instruction)
    return shape.with_dtype(shape.dtype.component)


def _complex(instruction: Instruction) -> Shape:
    shape = _same(instruction)
    _require(shape.dtype in (dtypes.F32, dtypes.F64), f"complex does not take {shape.dtype}")
    return shape.with_dtype(dtypes.C64 if shape.dtype is dtypes.F32 else dtypes.C128)


def _convert(instruction: Instruction) -> Shape:
    return _array(instruction).with_dtype(instruction.dtype)


def _bitcast_convert(instruction: Instruction) -> Shape:
    source, target = _array(instruction), instruction.dtype
    if source.dtype.bits == target.bits:
        return source.with_dtype(target)
    if source.dtype.bits > target.bits:
        _require(source.dtype.bits % target.bits == 0, "widths do not fit")
        return Shape(target, (*source.dims, source.dtype.bits // target.bits))
    _require(
        source.rank > 0 and source.dims[-1] * source.dtype.bits == target.bits, "widths do not fit"
    )
    return Shape(target, source.dims[:-1])


def _select(instruction: Instruction) -> Shape:
    predicate, on_true, on_false = _arrays(instruction)
    _require(predicate.dtype is dtypes.PRED, "the first operand is not pred")
    _require(on_true == on_false, "the operands' shapes differ")
    _require(
        predicate.dims in ((), on_true.dims),
        "the first operand has neither the result's dimensions nor none",
    )
    return on_true


def _clamp(instruction: Instruction) -> Shape:
    low, shape, high = _arrays(instruction)
    for bound in (low, high):
        _require(
            bound.dtype is shape.dtype and bound.dims in ((), shape.dims),
            "a bound does not fit the operand",
        )
    return shape


# -------------------------------------------------------------------------------------------- data movement


def _constant(instruction: Instruction) -> Shape:
    literal = instruction.attributes["literal"]
    _require(not literal.flags.writeable, "the literal is writable")
    _require(literal.flags.c_contiguous, "the literal is not row-major")
    return Shape(dtypes.from_numpy(literal.dtype), literal.shape)


def _check_iota(instruction: Instruction) -> None:
    _distinct([instruction.attributes["dimension"]], len(instruction.dims), "iota's dimension")


def _broadcast(instruction: Instruction) -> Shape:
    operand = _array(instruction)
    dims, dimensions = instruction.dims, instruction.attributes["dimensions"]
    _require(
        len(dimensions) == operand.rank,
        f"{len(dimensions)} dimensions for an operand of rank {operand.rank}",
    )
    _distinct(dimensions, len(dims), "dimensions")
    for i, d in enumerate(dimensions):
        _require(
            operand.dims[i] == dims[d], f"operand dimension {i} differs from result dimension {d}"
        )
    return Shape(operand.dtype, dims)


def _reshape(instruction: Instruction) -> Shape:
    operand = _array(instruction)
    _require(operand.elements == math.prod(instruction.dims), "the number of elements changes")
    return Shape(operand.dtype, instruction.dims)


def _transpose(instruction: Instruction) -> Shape:
    operand, dimensions = _array(instruction), instruction.attributes["dimensions"]
    _permutation(dimensions, operand.rank, "dimensions")
    return operand.with_dims(operand.dims[d] for d in dimensions)


def _slice(instruction: Instruction) -> Shape:
    operand = _array(instruction)
    bounds = [instruction.attributes[name] for name in ("starts", "limits", "strides")]
    _require(all(len(b) == operand.rank for b in bounds), "bounds do not have the operand's rank")
    dims = []
    for size, start, limit, stride in zip(operand.dims, *bounds, strict=True):
        _require(
            0 <= start <= limit <= size and stride > 0,
            f"[{start}:{limit}:{stride}] is not inside {size}",
        )
        dims.append(-(-(limit - start) // stride))
    return operand.with_dims(dims)


def _pad(instruction: Instruction) -> Shape:
    operand, value = _arrays(instruction)
    _require(
        value == Shape(operand.dtype), "the padding value is not a scalar of the operand's dtype"
    )
    edges = [instruction.attributes[name] for name in ("low", "high", "interior")]
    _require(all(len(e) == operand.rank for e in edges), "padding does not have the operand's rank")
    dims = []
    for size, low, high, interior in zip(operand.dims, *edges, strict=True):
        _require(interior >= 0, "interior padding is negative")
        dims.append(max(size + max(size - 1, 0) * interior + low + high, 0))
    return operand.with_dims(dims)


def _concatenate(instruction: Instruction) -> Shape:
    shapes, dimension = _arrays(instruction), instruction.attributes["dimension"]
    _require(bool(shapes), "no operands")
    first = shapes[0]
    _distinct([dimension], first.rank, "dimension")
    for shape in shapes:
        _require(
            shape.dtype is first.dtype and shape.rank == first.rank,
            "the operands' dtypes or ranks differ",
        )
        pairs = enumerate(zip(shape.dims, first.dims, strict=True))
        same = all(ours == theirs for d, (ours, theirs) in pairs if d != dimension)
        _require(same, "the operands' shapes differ outside the dimension")
    dims = list(first.dims)
    dims[dimension] = sum(s.dims[dimension] for s in shapes)
    return first.with_dims(dims)


def _reverse(instruction: Instruction) -> Shape:
    operand = _array(instruction)
    _distinct(instruction.attributes["dimensions"], operand.rank, "dimensions")
    return operand


def _start_indices(instruction: Instruction, first: int, rank: int) -> None:
    starts = [_array(instruction, i) for i in range(first, len(instruction.operands))]
    _require(len(starts) == rank, f"{len(starts)} start indices for rank {rank}")
    for start in starts:
        _require(
            start.rank == 0 and start.dtype.is_integer,
            f"start index of shape {start} is not an integer scalar",
        )


def _dynamic_slice(instruction: Instruction) -> Shape:
    operand, sizes = _array(instruction), instruction.attributes["slice_sizes"]
    _start_indices(instruction, 1, operand.rank)
    _require(len(sizes) == operand.rank, "slice sizes do not have the operand's rank")
    _require(
        all(0 <= s <= d for s, d in zip(sizes, operand.dims, strict=True)),
        "slice is larger than the operand",
    )
    return operand.with_dims(sizes)


def _dynamic_update_slice(instruction: Instruction) -> Shape:
    operand, update = _array(instruction), _array(instruction, 1)
    _start_indices(instruction, 2, operand.rank)
    _require(
        update.dtype is operand.dtype and update.rank == operand.rank,
        "the update does not fit the operand",
    )
    fits = all(u <= d for u, d in zip(update.dims, operand.dims, strict=True))
    _require(fits, "the update is larger than the operand")
    return operand


def _batching(
    operand: Shape, operand_dims: Sequence[int], indices: Shape, indices_dims: Sequence[int]
) -> None:
    """Batching dimensions of a gather or scatter: those of the operand and of the indices belong together."""
    _distinct(operand_dims, operand.rank, "the operand's batching dimensions")
    _distinct(indices_dims, indices.rank, "the indices' batching dimensions")
    sizes = [operand.dims[d] for d in operand_dims], [indices.dims[d] for d in indices_dims]
    _require(sizes[0] == sizes[1], f"batching dimensions have sizes {sizes[0]} and {sizes[1]}")


def _gather(instruction: Instruction) -> Shape:
    operand, indices = _arrays(instruction)
    numbers, sizes = (
        instruction.attributes["dimension_numbers"],
        instruction.attributes["slice_sizes"],
    )
    _require(indices.dtype.is_integer, "indices are not integers")
    _require(len(sizes) == operand.rank, "slice sizes do not have the operand's rank")
    _require(
        all(0 <= s <= d for s, d in zip(sizes, operand.dims, strict=True)),
        "slice is larger than the operand",
    )
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    _require(all(sizes[d] <= 1 for d in dropped), "a dropped slice dimension is larger than 1")
    window = [s for d, s in enumerate(sizes) if d not in dropped]
    _require(len(window) == len(numbers.offset_dims), "offset dimensions do not match the slice")
    batch = [s for d, s in enumerate(indices.dims) if d != numbers.index_vector_dim]
    index_size = (
        1 if numbers.index_vector_dim == indices.rank else indices.dims[numbers.index_vector_dim]
    )
    _require(
        index_size == len(numbers.start_index_map), "start_index_map does not match the indices"
    )
    _distinct(numbers.start_index_map, operand.rank, "start_index_map")
    _batching(
        operand,
        numbers.operand_batching_dims,
        indices,
        numbers.start_indices_batching_dims,
    )
    rank = len(window) + len(batch)
    _distinct(numbers.offset_dims, rank, "offset_dims")
    window_iterator, batch_iterator = iter(window), iter(batch)
    offsets = set(numbers.offset_dims)
    return operand.with_dims(
        next(window_iterator if d in offsets else batch_iterator) for d in range(rank)
    )


def _scatter(instruction: Instruction) -> AnyShape:
    shapes = _arrays(instruction)
    _require(len(shapes) % 2 == 1 and len(shapes) >= 3, f"{len(shapes)} operands")
    count = len(shapes) // 2
    operands, indices, updates = shapes[:count], shapes[count], shapes[count + 1 :]
    numbers = instruction.attributes["dimension_numbers"]
    _require(indices.dtype.is_integer, "indices are not integers")
    batch = [s for d, s in enumerate(indices.dims) if d != numbers.index_vector_dim]
    index_size = (
        1 if numbers.index_vector_dim == indices.rank else indices.dims[numbers.index_vector_dim]
    )
    _require(
        index_size == len(numbers.scatter_dims_to_operand_dims),
        "scatter_dims_to_operand_dims does not match the indices",
    )
    _distinct(
        numbers.scatter_dims_to_operand_dims, operands[0].rank, "scatter_dims_to_operand_dims"
    )
    _batching(
        operands[0],
        numbers.input_batching_dims,
        indices,
        numbers.scatter_indices_batching_dims,
    )
    dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    for operand, update in zip(operands, updates, strict=True):
        _require(
            operand.dims == operands[0].dims and update.dims == updates[0].dims,
            "the operands' shapes differ",
        )
        _require(operand.dtype is update.dtype, "operand and updates differ in dtype")
        window = [s for d, s in enumerate(operand.dims) if d not in dropped]
        _require(
            len(window) == len(numbers.update_window_dims),
            "update_window_dims do not match the operand",
        )
        in_window = set(numbers.update_window_dims)
        update_batch = [s for d, s in enumerate(update.dims) if d not in in_window]
        _require(update_batch == batch, "the updates' batch dimensions differ from the indices'")
        update_window = [update.dims[d] for d in numbers.update_window_dims]
        _require(
            all(u <= w for u, w in zip(update_window, window, strict=True)),
            "updates are larger than the operand",
        )
    scalars = [Shape(o.dtype) for o in operands]
    _signature(instruction.called[0], [*scalars, *scalars], scalars, "the body")
    return _result(operands)


# ----------------------------------------------------------------------------------------------- reductions


def _reduce(instruction: Instruction) -> AnyShape:
    shapes = _arrays(instruction)
    _require(len(shapes) % 2 == 0 and bool(shapes), f"{len(shapes)} operands")
    count = len(shapes) // 2
    dimensions = instruction.attributes["dimensions"]
    _distinct(dimensions, shapes[0].rank, "dimensions")
    _require(
        all(s.dims == shapes[0].dims for s in shapes[:count]), "the operands' dimensions differ"
    )
    accumulators = shapes[count:]
    _require(all(s.rank == 0 for s in accumulators), "an initial value is not a scalar")
    values = [Shape(s.dtype) for s in shapes[:count]]
    _signature(instruction.called[0], [*accumulators, *values], accumulators, "the body")
    kept = [s for d, s in enumerate(shapes[0].dims) if d not in dimensions]
    return _result([Shape(a.dtype, tuple(kept)) for a in accumulators])


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size > 0 else 0


def _window_size(size: int, window: WindowDimension) -> int:
    """How many places a window has along a dimension of ``size``."""
    _require(
        window.stride > 0
        and window.base_dilation > 0
        and window.window_dilation > 0
        and window.size >= 0,
        "window sizes, strides and dilations must be positive",
    )
    padded = _dilated(size, window.base_dilation) + window.padding_low + window.padding_high
    extent = _dilated(window.size, window.window_dilation)
    return 0 if padded < extent or padded <= 0 else (padded - extent) // window.stride + 1


def _reduce_window(instruction: Instruction) -> AnyShape:
    shapes = _arrays(instruction)
    _require(len(shapes) % 2 == 0 and bool(shapes), f"{len(shapes)} operands")
    count = len(shapes) // 2
    window = instruction.attributes["window"]
    _require(len(window) == shapes[0].rank, "the window does not have the operand's rank")
    _require(
        all(s.dims == shapes[0].dims for s in shapes[:count]), "the operands' dimensions differ"
    )
    accumulators = shapes[count:]
    _require(all(s.rank == 0 for s in accumulators), "an initial value is not a scalar")
    values = [Shape(s.dtype) for s in shapes[:count]]
    _signature(instruction.called[0], [*accumulators, *values], accumulators, "the body")
    dims = tuple(_window_size(s, w) for s, w in zip(shapes[0].dims, window, strict=True))
    return _result([Shape(a.dtype, dims) for a in accumulators])


def _select_and_scatter(instruction: Instruction) -> Shape:
    operand, source, initial = _arrays(instruction)
    window = instruction.attributes["window"]
    _require(len(window) == operand.rank, "the window does not have the operand's rank")
    _require(
        initial == Shape(source.dtype), "the initial value is not a scalar of the source's dtype"
    )
    places = tuple(_window_size(s, w) for s, w in zip(operand.dims, window, strict=True))
    _require(
        source.dims == places, f"the source's dimensions are not those of the windows {places}"
    )
    select, scatter = instruction.called
    element, value = Shape(operand.dtype), Shape(source.dtype)
    _signature(select, [element, element], [Shape(dtypes.PRED)], "the selection")
    _signature(scatter, [value, value], [value], "the scatter body")
    return operand.with_dtype(source.dtype)


def _sort(instruction: Instruction) -> AnyShape:
    shapes = _arrays(instruction)
    _require(
        bool(shapes) and all(s.dims == shapes[0].dims for s in shapes),
        "the operands' dimensions differ",
    )
    _distinct([instruction.attributes["dimension"]], shapes[0].rank, "dimension")
    pairs = [Shape(s.dtype) for s in shapes for _ in range(2)]
    _signature(instruction.called[0], pairs, [Shape(dtypes.PRED)], "the comparator")
    return _result(shapes)


def _topk(instruction: Instruction) -> AnyShape:
    operand, k = _array(instruction), instruction.attributes["k"]
    _require(
        operand.rank > 0 and 0 <= k <= operand.dims[-1], f"k = {k} is not within the last dimension"
    )
    dims = (*operand.dims[:-1], k)
    return TupleShape((Shape(operand.dtype, dims), Shape(dtypes.S32, dims)))


def _map(instruction: Instruction) -> Shape:
    shapes = _arrays(instruction)
    _require(
        bool(shapes) and all(s.dims == shapes[0].dims for s in shapes),
        "the operands' dimensions differ",
    )
    result = Shape(instruction.dtype)
    _signature(instruction.called[0], [Shape(s.dtype) for s in shapes], [result], "the body")
    return Shape(instruction.dtype, shapes[0].dims)


# ---------------------------------------------------------------------------------------------- contractions


def _dot(instruction: Instruction) -> Shape:
    lhs, rhs = _arrays(instruction)
    numbers = instruction.attributes["dimension_numbers"]
    _distinct((*numbers.lhs_contracting, *numbers.lhs_batch), lhs.rank, "lhs dimensions")
    _distinct((*numbers.rhs_contracting, *numbers.rhs_batch), rhs.rank, "rhs dimensions")
    for ours, theirs in (
        (numbers.lhs_contracting, numbers.rhs_contracting),
        (numbers.lhs_batch, numbers.rhs_batch),
    ):
        sizes = [lhs.dims[d] for d in ours], [rhs.dims[d] for d in theirs]
        _require(sizes[0] == sizes[1], f"paired dimensions have sizes {sizes[0]} and {sizes[1]}")
    used_lhs = {*numbers.lhs_contracting, *numbers.lhs_batch}
    used_rhs = {*numbers.rhs_contracting, *numbers.rhs_batch}
    dims = [lhs.dims[d] for d in numbers.lhs_batch]
    dims += [s for d, s in enumerate(lhs.dims) if d not in used_lhs]
    dims += [s for d, s in enumerate(rhs.dims) if d not in used_rhs]
    return Shape(instruction.dtype, tuple(dims))


def _convolution(instruction: Instruction) -> Shape:
    lhs, rhs = _arrays(instruction)
    attributes = instruction.attributes
    numbers, window = attributes["dimension_numbers"], attributes["window"]
    groups, batch_groups = attributes["feature_group_count"], attributes["batch_group_count"]
    rank = len(window) + 2
    _require(lhs.rank == rank and rhs.rank == rank, f"operands do not have rank {rank}")
    _permutation(
        (numbers.input_batch, numbers.input_feature, *numbers.input_spatial),
        rank,
        "input dimensions",
    )
    kernel = (numbers.kernel_input_feature, numbers.kernel_output_feature, *numbers.kernel_spatial)
    _permutation(kernel, rank, "kernel dimensions")
    output = (numbers.output_batch, numbers.output_feature, *numbers.output_spatial)
    _permutation(output, rank, "output dimensions")
    features, out_features = (
        lhs.dims[numbers.input_feature],
        rhs.dims[numbers.kernel_output_feature],
    )
    _require(groups > 0 and batch_groups > 0, "group counts must be positive")
    _require(
        features == rhs.dims[numbers.kernel_input_feature] * groups,
        "input features do not match the kernel's",
    )
    divides = out_features % groups == 0 and out_features % batch_groups == 0
    _require(divides, "output features do not divide into groups")
    _require(
        lhs.dims[numbers.input_batch] % batch_groups == 0, "the batch does not divide into groups"
    )
    dims = [0] * rank
    dims[numbers.output_batch] = lhs.dims[numbers.input_batch] // batch_groups
    dims[numbers.output_feature] = out_features
    for i, w in enumerate(window):
        _require(
            rhs.dims[numbers.kernel_spatial[i]] == w.size, "the window's size is not the kernel's"
        )
        dims[numbers.output_spatial[i]] = _window_size(lhs.dims[numbers.input_spatial[i]], w)
    return Shape(instruction.dtype, tuple(dims))


def _fft(instruction: Instruction) -> Shape:
    operand = _array(instruction)
    kind, length = instruction.attributes["fft_type"], instruction.attributes["fft_length"]
    _require(1 <= len(length) <= operand.rank, "fft_length does not fit the operand's rank")
    outer = operand.dims[: operand.rank - len(length)]
    if kind == "RFFT":
        _require(operand.dtype.is_float, "RFFT takes a real operand")
        dtype = dtypes.C64 if operand.dtype is dtypes.F32 else dtypes.C128
        return Shape(dtype, (*outer, *length[:-1], length[-1] // 2 + 1 if length[-1] else 0))
    _require(operand.dtype.is_complex, f"{kind} takes a complex operand")
    if kind == "IRFFT":
        return Shape(operand.dtype.component, (*outer, *length))
    _require(kind in ("FFT", "IFFT"), f"unknown fft_type {kind}")
    _require(
        operand.dims[operand.rank - len(length) :] == tuple(length),
        "fft_length is not the operand's size",
    )
    return operand


def _cholesky(instruction: Instruction) -> Shape:
    operand = _array(instruction)
    _require(
        operand.rank >= 2 and operand.dims[-1] == operand.dims[-2], "the matrices are not square"
    )
    return operand


def _triangular_solve(instruction: Instruction) -> Shape:
    a, b = _arrays(instruction)
    _require(a.rank == b.rank >= 2 and a.dtype is b.dtype, "the operands do not fit")
    _require(
        a.dims[-1] == a.dims[-2] and a.dims[:-2] == b.dims[:-2],
        "the operands' dimensions do not fit",
    )
    side = b.dims[-2] if instruction.attributes["left_side"] else b.dims[-1]
    _require(side == a.dims[-1], "the right-hand side does not fit the matrices")
    return b


def _batch_norm(instruction: Instruction) -> AnyShape:
    operand = _array(instruction)
    feature = instruction.attributes["feature_index"]
    vector = Shape(_array(instruction, 1).dtype, (operand.dims[feature],))
    last = len(instruction.operands) - (1 if instruction.opcode == "batch-norm-grad" else 0)
    for i in range(1, last):
        _require(_array(instruction, i) == vector, f"operand {i} is not of shape {vector}")
    if instruction.opcode == "batch-norm-inference":
        return operand
    if instruction.opcode == "batch-norm-grad":
        _require(_array(instruction, 4) == operand, "the gradient's shape is not the operand's")
    return TupleShape((operand, vector, vector))


# ------------------------------------------------------------------------------------- control flow and tuples


def _while(instruction: Instruction) -> AnyShape:
    state = [o.shape for o in instruction.operands]
    condition, body = instruction.called
    _signature(condition, state, [Shape(dtypes.PRED)], "the condition")
    _signature(body, state, state, "the body")
    return _result(state)


def _conditional(instruction: Instruction) -> AnyShape:
    selector = _array(instruction)
    counts = instruction.attributes["operand_counts"]
    branches = instruction.called
    _require(
        selector in (Shape(dtypes.PRED), Shape(dtypes.S32)),
        "the selector is neither pred[] nor s32[]",
    )
    _require(
        len(counts) == len(branches) > 0,
        f"{len(counts)} operand counts for {len(branches)} branches",
    )
    if selector.dtype is dtypes.PRED:
        _require(len(branches) == 2, "a pred selector with other than 2 branches")
    _require(sum(counts) == len(instruction.operands) - 1, "operand counts do not add up")
    start = 1
    results = list(instruction.result_shapes)
    for branch, count in zip(branches, counts, strict=True):
        operands = [o.shape for o in instruction.operands[start : start + count]]
        _signature(branch, operands, results, "the branch")
        start += count
    return _result([r.shape for r in branches[0].results])


def _call(instruction: Instruction) -> AnyShape:
    called = instruction.called[0]
    results = [r.shape for r in called.results]
    _signature(called, [o.shape for o in instruction.operands], results, "the computation")
    return _result(results)


def _tuple(instruction: Instruction) -> AnyShape:
    shapes = [o.shape for o in instruction.operands]
    _require(not any(isinstance(s, TupleShape) for s in shapes), "tuples do not nest")
    return TupleShape(tuple(shapes))  # type: ignore[arg-type]


def _get_tuple_element(instruction: Instruction) -> AnyShape:
    shape = instruction.operands[0].shape
    if not isinstance(shape, TupleShape):
        raise InvalidInstruction("the operand is not a tuple")
    index = instruction.attributes["index"]
    _require(0 <= index < len(shape.elements), f"index {index} of {len(shape.elements)} elements")
    element: AnyShape = shape.elements[index]
    return element


def _barrier(instruction: Instruction) -> AnyShape:
    return _result([o.shape for o in instruction.operands])


def _after_all(instruction: Instruction) -> AnyShape:
    _require(
        all(isinstance(o.shape, TokenShape) for o in instruction.operands),
        "an operand is not a token",
    )
    return TOKEN


def _rng_bit_generator(instruction: Instruction) -> AnyShape:
    elements = instruction.result_shapes
    _require(len(elements) == 2, "the results are not a state and bits")
    _require(
        instruction.attributes["algorithm"] in ("DEFAULT", "THREE_FRY", "PHILOX"),
        "unknown algorithm",
    )
    return TupleShape((_array(instruction), elements[1]))


def _check_rng(instruction: Instruction) -> None:
    low, high = _arrays(instruction)
    _require(
        low == high == Shape(instruction.dtype),
        "the operands are not scalars of the result's dtype",
    )
    _require(
        instruction.attributes["distribution"] in ("uniform", "normal"), "unknown distribution"
    )


# ----------------------------------------------------------------------------------------------- collectives


def _all_reduce(instruction: Instruction) -> AnyShape:
    shapes = _arrays(instruction)
    scalar = Shape(shapes[0].dtype)
    _signature(instruction.called[0], [scalar, scalar], [scalar], "the body")
    return _result(shapes)


def _reduce_scatter(instruction: Instruction) -> None:
    scalar = Shape(_array(instruction).dtype)
    _signature(instruction.called[0], [scalar, scalar], [scalar], "the body")
    _check_blocks(instruction, "scatter_dimension", lambda whole, part: (part, whole))


def _check_blocks(
    instruction: Instruction,
    attribute: str,
    larger: Callable[[int, int], tuple[int, int]] = lambda whole, part: (whole, part),
) -> None:
    """Operands and results differ in one dimension only, of which one is a multiple of the other."""
    dimension = instruction.attributes[attribute]
    shapes = instruction.result_shapes
    _require(len(shapes) == len(instruction.operands), "as many results as operands are needed")
    for operand, result in zip(_arrays(instruction), shapes, strict=True):
        _require(0 <= dimension < operand.rank, f"there is no dimension {dimension}")
        _require(
            isinstance(result, Shape)
            and result.dtype == operand.dtype
            and result.rank == operand.rank
            and all(
                a == b
                for n, (a, b) in enumerate(zip(operand.dims, result.dims, strict=True))
                if n != dimension
            ),
            f"{operand} and {result} differ in more than dimension {dimension}",
        )
        assert isinstance(result, Shape)
        whole, part = larger(result.dims[dimension], operand.dims[dimension])
        _require(
            whole == 0 if part == 0 else whole % part == 0,
            f"dimension {dimension} of {operand} and {result} are not multiples",
        )


def _check_all_to_all(instruction: Instruction) -> None:
    shapes = instruction.result_shapes
    _require(len(shapes) == len(instruction.operands), "as many results as operands are needed")
    for operand, result in zip(_arrays(instruction), shapes, strict=True):
        _require(
            isinstance(result, Shape)
            and result.dtype == operand.dtype
            and result.elements == operand.elements,
            f"{result} does not hold the elements of {operand}",
        )


def _set_dimension_size(instruction: Instruction) -> AnyShape:
    operand, size = _arrays(instruction)
    _require(size == Shape(dtypes.S32), "the size is not s32[]")
    _require(0 <= instruction.attributes["dimension"] < operand.rank, "no such dimension")
    return operand


def _get_dimension_size(instruction: Instruction) -> AnyShape:
    dimension = instruction.attributes["dimension"]
    _require(0 <= dimension < _array(instruction).rank, "no such dimension")
    return Shape(dtypes.S32)


def _dynamic_reshape(instruction: Instruction) -> AnyShape:
    sizes = _arrays(instruction)[1:]
    _require(all(s == Shape(dtypes.S32) for s in sizes), "a size is not s32[]")
    _require(len(sizes) in (0, len(instruction.dims)), "not one size for each dimension")
    return _reshape(instruction)


# ------------------------------------------------------------------------------------------------------ table

RULES: Final[dict[str, Rule]] = {
    **{opcode: _same for opcode, spec in OPCODES.items() if spec.elementwise},
    "abs": _abs,
    "is-finite": _to_pred,
    "compare": _compare,
    "real": _part,
    "imag": _part,
    "complex": _complex,
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "select": _select,
    "clamp": _clamp,
    "constant": _constant,
    "partition-id": lambda _: Shape(dtypes.U32),
    "replica-id": lambda _: Shape(dtypes.U32),
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "set-dimension-size": _set_dimension_size,
    "get-dimension-size": _get_dimension_size,
    "dynamic-reshape": _dynamic_reshape,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "reverse": _reverse,
    "copy": lambda i: i.operands[0].shape,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "topk": _topk,
    "map": _map,
    "dot": _dot,
    "convolution": _convolution,
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "batch-norm-training": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-grad": _batch_norm,
    "while": _while,
    "conditional": _conditional,
    "call": _call,
    "fusion": _call,
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "optimization-barrier": _barrier,
    "after-all": _after_all,
    "rng-bit-generator": _rng_bit_generator,
    "all-reduce": _all_reduce,
    "collective-permute": lambda i: _result(_arrays(i)),
    "collective-broadcast": lambda i: _result(_arrays(i)),
}

CHECKS: Final[dict[str, Callable[[Instruction], None]]] = {
    "iota": _check_iota,
    "rng": _check_rng,
    "all-gather": lambda i: _check_blocks(i, "all_gather_dimension"),
    "all-to-all": _check_all_to_all,
    "reduce-scatter": _reduce_scatter,
}
