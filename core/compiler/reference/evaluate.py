"""A reference evaluator: HLO instructions on NumPy arrays.

Two uses. Constant folding asks for the value of one instruction (:func:`evaluate_instruction`);
tests run whole small modules, fused or not (:func:`evaluate`), and compare. It is written to be
obviously right, not fast: the only speed taken is NumPy's own. Semantics are those of XLA where the
HLO specification leaves a choice: integer division by zero gives all ones, a shift by the width or
more gives 0 (or the sign), out-of-bounds gather starts are clamped, scatters skipped.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.errors import CompileError, of_instruction
from ..ir.hlo import Computation, Instruction, Module, Shape, TokenShape, WindowDimension
from .elementwise import ELEMENTWISE, native_int, total_order
from .gamma import NotEvaluatedError

Array = np.ndarray[Any, Any]
Observer = Callable[[Instruction, Sequence[Array], list[Array]], list[Array]]
_TOKEN: Final = np.zeros((0,), np.uint8)


_observer: Observer | None = None


@contextmanager
def observed(observer: Observer | None) -> Iterator[None]:
    """Inside, ``observer`` is given each instruction with its operands and results, and gives the results to use.

    None: there is no observer. For one thread at a time.
    """
    global _observer
    previous, _observer = _observer, observer
    try:
        yield
    finally:
        _observer = previous


def evaluate(module: Module, arguments: Sequence[Array]) -> list[Array]:
    """The results of ``module`` on ``arguments``, one array a parameter with its shape and dtype."""
    return evaluate_computation(module.entry, [np.asarray(a) for a in arguments])


def evaluate_computation(computation: Computation, arguments: Sequence[Array]) -> list[Array]:
    """The results of a computation: one array for each of :attr:`Computation.results`."""
    values: dict[Instruction, list[Array]] = {}
    for instruction in computation.instructions:
        if instruction.opcode == "parameter":
            values[instruction] = [arguments[instruction.attributes["index"]]]
        elif instruction.opcode == "get-tuple-element":
            values[instruction] = [values[instruction.operands[0]][instruction.attributes["index"]]]
        elif instruction.opcode == "tuple":
            values[instruction] = [values[o][0] for o in instruction.operands]
        else:
            values[instruction] = evaluate_instruction(
                instruction, [values[o][0] for o in instruction.operands]
            )
    return values[computation.root]


def evaluate_instruction(instruction: Instruction, operands: Sequence[Array]) -> list[Array]:
    """The results of one instruction, given one array for each operand.

    Raises CompileError (UNIMPLEMENTED) for an opcode that has no reference here, and for matrices that NumPy does not
    decompose and functions whose series is no way.
    """
    opcode = instruction.opcode
    elementwise, function = ELEMENTWISE.get(opcode), _FUNCTIONS.get(opcode)
    try:
        with np.errstate(all="ignore"):
            if elementwise is not None:
                results = [elementwise(instruction, *operands)]
            elif function is not None:
                results = function(instruction, *operands)
            else:
                raise of_instruction("UNIMPLEMENTED", "no reference evaluation", instruction)
    # A matrix that is singular or not positive definite, or a series that does not converge.
    except (np.linalg.LinAlgError, NotEvaluatedError) as error:
        raise of_instruction("UNIMPLEMENTED", str(error), instruction) from None
    shaped = [_shaped(r, s) for r, s in zip(results, instruction.result_shapes, strict=True)]
    return shaped if _observer is None else _observer(instruction, operands, shaped)


def can_evaluate(opcode: str) -> bool:
    """Whether :func:`evaluate_instruction` knows ``opcode``."""
    return opcode in ELEMENTWISE or opcode in _FUNCTIONS


def _shaped(result: Array, shape: Shape | TokenShape) -> Array:
    if isinstance(shape, TokenShape):
        return _TOKEN
    array = np.asarray(result).astype(shape.dtype.numpy, copy=False)
    if array.shape != shape.dims:
        array = np.broadcast_to(array, shape.dims)
    return np.ascontiguousarray(array).reshape(shape.dims)


def evaluate_elementwise(body: Computation, arguments: Sequence[Array]) -> list[Array]:
    """A scalar computation (a reduction's body) on arrays: as if run once for each index."""
    values: dict[Instruction, Any] = {}
    for i in body.instructions:
        if i.opcode == "parameter":
            values[i] = arguments[i.attributes["index"]]
        elif i.opcode == "constant":
            values[i] = i.attributes["literal"]
        elif i.opcode in ("broadcast", "reshape", "copy", "bitcast", "transpose"):
            values[i] = values[i.operands[0]]
        elif i.opcode == "tuple":
            values[i] = [values[o] for o in i.operands]
        elif i.opcode == "get-tuple-element":
            values[i] = values[i.operands[0]][i.attributes["index"]]
        elif i.opcode in ("call", "map"):
            results = evaluate_elementwise(i.called[0], [values[o] for o in i.operands])
            values[i] = results if len(i.result_shapes) > 1 else results[0]
        else:
            function = ELEMENTWISE.get(i.opcode)
            if function is None:
                raise of_instruction("UNIMPLEMENTED", "not an elementwise body", i)
            with np.errstate(all="ignore"):
                operands = [values[o] for o in i.operands]
                values[i] = np.asarray(function(i, *operands)).astype(i.dtype.numpy, copy=False)
            if _observer is not None:
                (values[i],) = _observer(i, operands, [values[i]])
    root = values[body.root]
    return list(root) if body.root.opcode == "tuple" else [root]


# ------------------------------------------------------------------------------------ data movement


def _bitcast_convert(i: Instruction, a: Array) -> list[Array]:
    source, target = i.operands[0].dtype, i.dtype
    if source is target:
        return [a]
    data = np.ascontiguousarray(a)
    if source.bits == 8 * source.size and target.bits == 8 * target.size:
        return [np.frombuffer(data.tobytes(), target.numpy).reshape(i.dims)]
    # An element of less than a byte has one of its own: cut into single bits, and put together again.
    bits = np.unpackbits(data.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
    bits = bits[:, : source.bits].reshape(-1, target.bits)
    filled = np.zeros((len(bits), 8 * target.size), np.uint8)
    filled[:, : target.bits] = bits
    if target.is_signed and not target.is_float:
        filled[:, target.bits :] = bits[:, -1:]
    packed = np.packbits(filled, axis=1, bitorder="little")
    return [np.frombuffer(packed.tobytes(), target.numpy).reshape(i.dims)]


def _broadcast(i: Instruction, a: Array) -> list[Array]:
    dims = [1] * len(i.dims)
    for source, target in enumerate(i.attributes["dimensions"]):
        dims[target] = a.shape[source]
    dimensions = i.attributes["dimensions"]
    order = sorted(range(a.ndim), key=dimensions.__getitem__)
    return [np.broadcast_to(np.transpose(a, order).reshape(dims), i.dims)]


def _iota(i: Instruction) -> list[Array]:
    dimension = i.attributes["dimension"]
    line = np.arange(i.dims[dimension]).astype(i.dtype.numpy)
    return [
        np.broadcast_to(
            line.reshape([-1 if n == dimension else 1 for n in range(len(i.dims))]), i.dims
        )
    ]


def _slice(i: Instruction, a: Array) -> list[Array]:
    attributes = i.attributes
    return [
        a[
            tuple(
                slice(*s)
                for s in zip(
                    attributes["starts"], attributes["limits"], attributes["strides"], strict=True
                )
            )
        ]
    ]


def _pad(i: Instruction, a: Array, value: Array) -> list[Array]:
    low, high, interior = i.attributes["low"], i.attributes["high"], i.attributes["interior"]
    return [_pad_array(a, value, low, high, interior)]


def _pad_array(
    a: Array, value: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Array:
    dilated = [max(0, d + (d - 1) * n) for d, n in zip(a.shape, interior, strict=True)]
    big_dims = [
        max(0, d) + max(0, lo) + max(0, hi) for d, lo, hi in zip(dilated, low, high, strict=True)
    ]
    big = np.full(big_dims, value, a.dtype)
    place = tuple(
        slice(max(0, lo), max(0, lo) + d, n + 1)
        for lo, d, n in zip(low, dilated, interior, strict=True)
    )
    if a.size:
        big[place] = a
    crop = tuple(
        slice(max(0, -lo), max(max(0, -lo), d - max(0, -hi)))
        for lo, hi, d in zip(low, high, big_dims, strict=True)
    )
    return big[crop]


def _starts(
    operand_dims: Sequence[int], sizes: Sequence[int], indices: Sequence[Array]
) -> tuple[slice, ...]:
    starts = [
        max(0, min(int(n), d - s)) for n, d, s in zip(indices, operand_dims, sizes, strict=True)
    ]
    return tuple(slice(b, b + s) for b, s in zip(starts, sizes, strict=True))


def _dynamic_slice(i: Instruction, a: Array, *indices: Array) -> list[Array]:
    return [a[_starts(a.shape, i.attributes["slice_sizes"], indices)]]


def _dynamic_update_slice(i: Instruction, a: Array, update: Array, *indices: Array) -> list[Array]:
    result = a.copy()
    result[_starts(a.shape, update.shape, indices)] = update
    return [result]


def _gather(i: Instruction, operand: Array, indices: Array) -> list[Array]:
    d = i.attributes["dimension_numbers"]
    sizes = i.attributes["slice_sizes"]
    result = np.empty(i.dims, i.dtype.numpy)
    batch_positions = [n for n in range(len(i.dims)) if n not in d.offset_dims]
    kept = [
        n
        for n in range(operand.ndim)
        if n not in d.collapsed_slice_dims and n not in d.operand_batching_dims
    ]
    batch_dims = [i.dims[n] for n in batch_positions]
    for batch in np.ndindex(*batch_dims):
        start = [0] * operand.ndim
        for component, dimension in enumerate(d.start_index_map):
            start[dimension] = int(
                indices[_with(batch, d.index_vector_dim, component, indices.ndim)]
            )
        start = [max(0, min(s, n - z)) for s, n, z in zip(start, operand.shape, sizes, strict=True)]
        for dimension, source in zip(
            d.operand_batching_dims, d.start_indices_batching_dims, strict=True
        ):
            start[dimension] = batch[source - (source > d.index_vector_dim)]
        piece = operand[tuple(slice(s, s + z) for s, z in zip(start, sizes, strict=True))]
        piece = piece.reshape([sizes[n] for n in kept])
        place: list[Any] = [slice(None)] * len(i.dims)
        for position, index in zip(batch_positions, batch, strict=True):
            place[position] = index
        result[tuple(place)] = piece
    return [result]


def _with(
    batch: tuple[int, ...], index_vector_dim: int, component: int, rank: int
) -> tuple[int, ...]:
    """The position of an index component: ``batch`` with ``component`` put at ``index_vector_dim``."""
    if index_vector_dim == rank:
        return batch
    return (*batch[:index_vector_dim], component, *batch[index_vector_dim:])


def _scatter(i: Instruction, *operands: Array) -> list[Array]:
    d = i.attributes["dimension_numbers"]
    count = (len(operands) - 1) // 2
    results = [o.copy() for o in operands[:count]]
    indices, updates = operands[count], operands[count + 1 :]
    shape, update_dims = results[0].shape, updates[0].shape
    window_positions = d.update_window_dims
    batch_positions = [n for n in range(len(update_dims)) if n not in window_positions]
    kept = [
        n
        for n in range(len(shape))
        if n not in d.inserted_window_dims and n not in d.input_batching_dims
    ]
    for batch in np.ndindex(*[update_dims[n] for n in batch_positions]):
        start = [0] * len(shape)
        for component, dimension in enumerate(d.scatter_dims_to_operand_dims):
            start[dimension] = int(
                indices[_with(batch, d.index_vector_dim, component, indices.ndim)]
            )
        for dimension, source in zip(
            d.input_batching_dims, d.scatter_indices_batching_dims, strict=True
        ):
            start[dimension] = batch[source - (source > d.index_vector_dim)]
        sizes = dict(zip(kept, (update_dims[n] for n in window_positions), strict=True))
        # As XLA has it, an update whose window does not fit is left out whole.
        if any(s < 0 or s + sizes.get(n, 1) > shape[n] for n, s in enumerate(start)):
            continue
        for window in np.ndindex(*[update_dims[n] for n in window_positions]):
            place = list(start)
            for dimension, offset in zip(kept, window, strict=True):
                place[dimension] += offset
            source_index = [0] * len(update_dims)
            for position, n in zip(batch_positions, batch, strict=True):
                source_index[position] = n
            for position, n in zip(window_positions, window, strict=True):
                source_index[position] = n
            at = tuple(place)
            arguments = [r[at] for r in results] + [u[tuple(source_index)] for u in updates]
            for r, value in zip(
                results,
                evaluate_elementwise(i.called[0], [np.asarray(a) for a in arguments]),
                strict=True,
            ):
                r[at] = value
    return results


# --------------------------------------------------------------------------------------- reductions


def _fold(
    body: Computation, values: list[Array], initial: list[Array], there: Array | None = None
) -> list[Array]:
    """Combine along axis 0 of ``values``, in halves so that it takes log(n) array operations.

    ``there``: which of the values count; None for all.
    """
    while values[0].shape[0] > 1:
        half = values[0].shape[0] // 2
        odd = values[0].shape[0] % 2
        combined = evaluate_elementwise(
            body, [v[:half] for v in values] + [v[half : 2 * half] for v in values]
        )
        combined = [
            np.broadcast_to(c, v[:half].shape) for c, v in zip(combined, values, strict=True)
        ]
        if there is not None:
            first, second = there[:half], there[half : 2 * half]
            combined = [
                np.where(first & second, c, np.where(first, v[:half], v[half : 2 * half]))
                for c, v in zip(combined, values, strict=True)
            ]
            there = np.concatenate([first | second, there[2 * half :]])
        values = [
            np.concatenate([c, v[2 * half :]]) if odd else c
            for c, v in zip(combined, values, strict=True)
        ]
    if values[0].shape[0] == 0:
        return [np.broadcast_to(n, v.shape[1:]) for n, v in zip(initial, values, strict=True)]
    results = evaluate_elementwise(body, initial + [v[0] for v in values])
    if there is None:
        return results
    return [np.where(there[0], r, n) for r, n in zip(results, initial, strict=True)]


def _reduce(i: Instruction, *operands: Array) -> list[Array]:
    count = len(operands) // 2
    reduced = i.attributes["dimensions"]
    kept = [n for n in range(operands[0].ndim) if n not in reduced]
    dims = [operands[0].shape[n] for n in kept]
    lines = [
        np.transpose(o, [*reduced, *kept]).reshape([math.prod(o.shape[n] for n in reduced), *dims])
        for o in operands[:count]
    ]
    results = _fold(i.called[0], lines, list(operands[count:]))
    return [np.broadcast_to(r, dims) for r in results]


def _window_views(
    operands: Sequence[Array],
    fill: Sequence[Array],
    window: Sequence[WindowDimension],
    dims: Sequence[int],
) -> list[list[Array]]:
    """For each operand the list, over window positions, of the elements each result reads there."""
    views: list[list[Array]] = []
    for operand, value in zip(operands, fill, strict=True):
        padded = _pad_array(
            operand,
            value,
            [w.padding_low for w in window],
            [w.padding_high for w in window],
            [w.base_dilation - 1 for w in window],
        )
        pieces = []
        for offset in itertools.product(*[range(w.size) for w in window]):
            place = tuple(
                slice(
                    o * w.window_dilation, o * w.window_dilation + (d - 1) * w.stride + 1, w.stride
                )
                for o, w, d in zip(offset, window, dims, strict=True)
            )
            pieces.append(padded[place])
        views.append(pieces)
    return views


def _reduce_window(i: Instruction, *operands: Array) -> list[Array]:
    count = len(operands) // 2
    shapes = i.result_shapes
    dims = shapes[0].dims  # type: ignore[union-attr]
    if 0 in dims:
        return [np.zeros(dims, s.dtype.numpy) for s in shapes]  # type: ignore[union-attr]
    window = i.attributes["window"]
    views = _window_views(operands[:count], operands[count:], window, dims)
    # What is padded takes no part, as in XLA: it matters where the initial value is not neutral.
    ones = np.ones(operands[0].shape, np.bool_)
    (mask,) = _window_views([ones], [np.zeros((), np.bool_)], window, dims)
    there = np.stack(mask)
    return _fold(
        i.called[0],
        [np.stack(v) for v in views],
        list(operands[count:]),
        None if there.all() else there,
    )


def _select_and_scatter(
    i: Instruction, operand: Array, source: Array, initial: Array
) -> list[Array]:
    window: Sequence[WindowDimension] = i.attributes["window"]
    select, scatter = i.called
    result = np.full(i.dims, initial, i.dtype.numpy)
    for index in np.ndindex(*source.shape):
        best: tuple[int, ...] | None = None
        for offset in itertools.product(*[range(w.size) for w in window]):
            at = tuple(
                n * w.stride + o - w.padding_low
                for n, o, w in zip(index, offset, window, strict=True)
            )
            if any(p < 0 or p >= d for p, d in zip(at, operand.shape, strict=True)):
                continue
            if best is None or not bool(
                evaluate_elementwise(select, [np.asarray(operand[best]), np.asarray(operand[at])])[
                    0
                ]
            ):
                best = at
        if best is not None:
            result[best] = evaluate_elementwise(
                scatter, [np.asarray(result[best]), np.asarray(source[index])]
            )[0]
    return [result]


# ------------------------------------------------------------------------ contractions and ordering


def _accumulator(dtype: DType) -> Any:
    if dtype.is_complex:
        return np.complex128
    return np.float64 if dtype.is_float else np.int64


def _dot(i: Instruction, lhs: Array, rhs: Array) -> list[Array]:
    d = i.attributes["dimension_numbers"]
    wide = _accumulator(i.dtype)
    letters = iter(range(52))
    left, right = [-1] * lhs.ndim, [-1] * rhs.ndim
    batch = []
    for a, b in zip(d.lhs_batch, d.rhs_batch, strict=True):
        left[a] = right[b] = next(letters)
        batch.append(left[a])
    for a, b in zip(d.lhs_contracting, d.rhs_contracting, strict=True):
        left[a] = right[b] = next(letters)
    free = []
    for labels in (left, right):
        for n, label in enumerate(labels):
            if label < 0:
                labels[n] = next(letters)
                free.append(labels[n])
    result = np.einsum(lhs.astype(wide), left, rhs.astype(wide), right, [*batch, *free])
    return [result.astype(i.dtype.numpy)]


def _convolution(i: Instruction, lhs: Array, rhs: Array) -> list[Array]:
    d = i.attributes["dimension_numbers"]
    window: Sequence[WindowDimension] = i.attributes["window"]
    groups, batch_groups = i.attributes["feature_group_count"], i.attributes["batch_group_count"]
    wide = _accumulator(i.dtype)
    x = np.transpose(lhs, [d.input_batch, d.input_feature, *d.input_spatial]).astype(wide)
    k = np.transpose(
        rhs, [d.kernel_output_feature, d.kernel_input_feature, *d.kernel_spatial]
    ).astype(wide)
    for n, w in enumerate(window):
        if w.reversal:
            k = np.flip(k, n + 2)
    out_spatial = [i.dims[n] for n in d.output_spatial]
    batch = x.shape[0] // batch_groups
    outputs = k.shape[0]
    result = np.zeros([batch, outputs, *out_spatial], wide)
    padded = _pad_array(
        x,
        np.zeros((), wide),
        [0, 0, *[w.padding_low for w in window]],
        [0, 0, *[w.padding_high for w in window]],
        [0, 0, *[w.base_dilation - 1 for w in window]],
    )
    parts = max(groups, batch_groups)
    for group in range(parts):
        some_outputs = slice(group * outputs // parts, (group + 1) * outputs // parts)
        if batch_groups > 1:
            source = padded[group * batch : (group + 1) * batch]
        else:
            width = x.shape[1] // groups
            source = padded[:, group * width : (group + 1) * width]
        for offset in itertools.product(*[range(w.size) for w in window]):
            place: tuple[Any, ...] = tuple(
                slice(
                    o * w.window_dilation, o * w.window_dilation + (n - 1) * w.stride + 1, w.stride
                )
                for o, w, n in zip(offset, window, out_spatial, strict=True)
            )
            if 0 in out_spatial:
                continue
            at: Any = (some_outputs, slice(None), *offset)
            weights = k[at]
            result[:, some_outputs] += np.einsum("bi...,oi->bo...", source[(..., *place)], weights)
    order = [0] * len(i.dims)
    order[d.output_batch], order[d.output_feature] = 0, 1
    for n, dimension in enumerate(d.output_spatial):
        order[dimension] = n + 2
    return [np.transpose(result, order).astype(i.dtype.numpy)]


def _sort(i: Instruction, *operands: Array) -> list[Array]:
    axis = i.attributes["dimension"]
    body = i.called[0]
    moved = [np.moveaxis(o, axis, -1) for o in operands]
    results = [np.empty(m.shape, m.dtype) for m in moved]

    for line in np.ndindex(*moved[0].shape[:-1]):
        rows = [m[line] for m in moved]

        def order(a: int, b: int, rows: list[Array] = rows) -> int:
            def less(x: int, y: int) -> bool:
                pairs = [np.asarray(v) for r in rows for v in (r[x], r[y])]
                return bool(evaluate_elementwise(body, pairs)[0])

            return -1 if less(a, b) else 1 if less(b, a) else 0

        permutation = sorted(range(rows[0].shape[0]), key=functools.cmp_to_key(order))
        for result, row in zip(results, rows, strict=True):
            result[line] = row[permutation]
    return [np.moveaxis(r, -1, axis) for r in results]


def _topk(i: Instruction, a: Array) -> list[Array]:
    keys = total_order(a) if dtypes.from_numpy(a.dtype).is_float else native_int(a)
    if i.attributes["largest"]:
        keys = ~keys
    order = np.argsort(keys, axis=-1, kind="stable")[..., : i.attributes["k"]]
    return [np.take_along_axis(a, order, -1), order.astype(np.int32)]


# ------------------------------------------------------------------------------------- control flow


def _while(i: Instruction, *operands: Array) -> list[Array]:
    condition, body = i.called
    state = list(operands)
    while bool(evaluate_computation(condition, state)[0]):
        state = evaluate_computation(body, state)
    return state


def _conditional(i: Instruction, selector: Array, *operands: Array) -> list[Array]:
    branch = int(selector)
    if selector.dtype == np.bool_:
        branch = 0 if branch else 1
    elif not 0 <= branch < len(i.called):
        branch = len(i.called) - 1
    counts = i.attributes["operand_counts"]
    first = sum(counts[:branch])
    return evaluate_computation(i.called[branch], operands[first : first + counts[branch]])


# ------------------------------------------------------------------------ linear algebra and others


def _fft(i: Instruction, a: Array) -> list[Array]:
    axes = list(range(a.ndim - len(i.attributes["fft_length"]), a.ndim))
    length = i.attributes["fft_length"]
    if 0 in length:  # sums of nothing, which NumPy refuses
        (shape,) = i.result_shapes
        assert isinstance(shape, Shape)
        return [np.zeros(shape.dims, shape.dtype.numpy)]
    function: Any = {
        "FFT": np.fft.fftn,
        "IFFT": np.fft.ifftn,
        "RFFT": np.fft.rfftn,
        "IRFFT": np.fft.irfftn,
    }[i.attributes["fft_type"]]
    return [np.asarray(function(a, s=length, axes=axes))]


def _for_linalg(a: Array) -> Array:
    """NumPy's linear algebra has no floats of fewer than 32 bits. (The caller rounds results.)"""
    return a if a.dtype.itemsize >= 4 else a.astype(np.float32)


def _cholesky(i: Instruction, a: Array) -> list[Array]:
    a = _for_linalg(a)
    lower = i.attributes["lower"]
    full = np.tril(a) if lower else np.swapaxes(np.triu(a), -1, -2).conj()
    hermitian = full + np.swapaxes(np.tril(full, -1), -1, -2).conj()
    factor = np.linalg.cholesky(hermitian)
    return [factor if lower else np.swapaxes(factor, -1, -2).conj()]


def _triangular_solve(i: Instruction, a: Array, b: Array) -> list[Array]:
    a, b = _for_linalg(a), _for_linalg(b)
    matrix = np.tril(a) if i.attributes["lower"] else np.triu(a)
    if i.attributes["unit_diagonal"]:
        matrix = (
            matrix
            - matrix * np.eye(a.shape[-1], dtype=a.dtype)
            + np.eye(a.shape[-1], dtype=a.dtype)
        )
    if i.attributes["transpose_a"] != "NO_TRANSPOSE":
        matrix = np.swapaxes(matrix, -1, -2)
        if i.attributes["transpose_a"] == "ADJOINT":
            matrix = matrix.conj()
    if i.attributes["left_side"]:
        return [np.linalg.solve(matrix, b)]
    return [
        np.swapaxes(np.linalg.solve(np.swapaxes(matrix, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    ]


def _along(i: Instruction, vector: Array, rank: int) -> Array:
    """A vector of features, to be combined with the whole array, in f64."""
    dims = [1] * rank
    dims[i.attributes["feature_index"]] = -1
    return vector.astype(np.float64).reshape(dims)


def _moments(i: Instruction, x: Array) -> tuple[tuple[int, ...], Array, Array]:
    others = tuple(n for n in range(x.ndim) if n != i.attributes["feature_index"])
    wide = x.astype(np.float64)
    return others, wide.mean(axis=others), wide.var(axis=others)


def _batch_norm_inference(
    i: Instruction, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
) -> list[Array]:
    scale, offset, mean, variance = (_along(i, v, x.ndim) for v in (scale, offset, mean, variance))
    return [(x - mean) / np.sqrt(variance + i.attributes["epsilon"]) * scale + offset]


def _batch_norm_training(i: Instruction, x: Array, scale: Array, offset: Array) -> list[Array]:
    _, mean, variance = _moments(i, x)
    return [*_batch_norm_inference(i, x, scale, offset, mean, variance), mean, variance]


def _batch_norm_grad(
    i: Instruction, x: Array, scale: Array, mean: Array, variance: Array, gradient: Array
) -> list[Array]:
    others = tuple(n for n in range(x.ndim) if n != i.attributes["feature_index"])
    count = math.prod(x.shape[n] for n in others)
    gradient = gradient.astype(np.float64)
    deviation = np.sqrt(_along(i, variance, x.ndim) + i.attributes["epsilon"])
    normal = (x - _along(i, mean, x.ndim)) / deviation
    of_offset = gradient.sum(axis=others)
    of_scale = (gradient * normal).sum(axis=others)
    rest = gradient - (_along(i, of_offset, x.ndim) + normal * _along(i, of_scale, x.ndim)) / count
    return [_along(i, scale, x.ndim) / deviation * rest, of_scale, of_offset]


def _constant(i: Instruction) -> list[Array]:
    return [i.attributes["literal"]]


def _concatenate(i: Instruction, *operands: Array) -> list[Array]:
    return [np.concatenate(operands, axis=i.attributes["dimension"])]


_FUNCTIONS: Final[Mapping[str, Callable[..., list[Array]]]] = {
    "constant": _constant,
    "bitcast-convert": _bitcast_convert,
    "broadcast": _broadcast,
    "iota": _iota,
    "reshape": lambda i, a: [a.reshape(i.dims)],
    "bitcast": lambda i, a: [a.reshape(i.dims)],
    "copy": lambda i, a: [a],
    "transpose": lambda i, a: [np.transpose(a, i.attributes["dimensions"])],
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "reverse": lambda i, a: [np.flip(a, i.attributes["dimensions"])],
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "dot": _dot,
    "convolution": _convolution,
    "sort": _sort,
    "topk": _topk,
    "while": _while,
    "conditional": _conditional,
    "call": lambda i, *o: evaluate_computation(i.called[0], o),
    "fusion": lambda i, *o: evaluate_computation(i.called[0], o),
    "map": lambda i, *o: evaluate_elementwise(i.called[0], o),
    "optimization-barrier": lambda i, *o: list(o),
    "after-all": lambda i, *o: [_TOKEN],
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "batch-norm-inference": _batch_norm_inference,
    "batch-norm-training": _batch_norm_training,
    "batch-norm-grad": _batch_norm_grad,
}

__all__ = [
    "CompileError",
    "can_evaluate",
    "evaluate",
    "evaluate_computation",
    "evaluate_elementwise",
    "evaluate_instruction",
]
