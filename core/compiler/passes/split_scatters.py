"""Scatters of many elements into few, in parts with a table each: work for many threads, and sums of fewer terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import dtypes
from ..ir.hlo import Instruction, Module, ScatterDimensionNumbers, constant
from ..ir.moves import pad_dimension
from ..ir.patterns import binary_body, convert, identity_value, reshape, scatters_elements, splat
from .rewrite import sweep_module

if TYPE_CHECKING:
    from ..targets.costs import Threads
    from ..targets.target import Target


def split_scatters(module: Module, target: Target) -> Module:
    """scatter[n] -> reshape [parts, n / parts] -> scatter into [parts, table] -> reduce -> joined with the input.

    Known operations only, which may be regrouped. The number of parts follows from shapes and never from the number of
    threads. Updates that the parts do not divide are padded with ones whose places are outside of the table.
    """
    if not module.has("scatter"):
        return module
    threads = target.costs.threads
    return sweep_module(module, lambda i: _split(i, threads), repeat=False)


def _split(i: Instruction, threads: Threads) -> Instruction | None:
    if not scatters_elements(i):
        return None
    operand, indices, updates = i.operands
    n: ScatterDimensionNumbers = i.attributes["dimension_numbers"]
    if n.input_batching_dims or updates.elements < threads.scatter_elements:
        return None
    is_small = i.dtype.bits < (16 if i.dtype.is_float else 8)  # too small for sums of sums
    if not operand.elements or is_small:
        return None
    opcode = binary_body(i.called[0])
    neutral = None if opcode is None else identity_value(opcode, i)
    if opcode is None or neutral is None:
        return None
    parts = _parts(updates.elements / (threads.scatter_each * operand.elements), threads)
    if parts < 2:
        return None
    # The dimension of the updates that is cut, and that of the indices that stands for it.
    d = max(range(len(updates.dims)), key=lambda k: (updates.dims[k] >= 4 * parts, -k))
    at = d + (d >= n.index_vector_dim)
    if updates.dims[d] < 4 * parts:
        return None
    missing = -updates.dims[d] % parts
    if missing:
        if indices.dtype.bits < 32:  # whose every value may be a place
            indices = convert(indices, dtypes.S32)
        indices = _pad(indices, at, missing, np.array(-1).astype(indices.dtype.numpy)[()])
        updates = _pad(updates, d, missing, neutral)
    cut = _cut(updates, d, parts)
    tables = splat(constant(np.asarray(neutral), i.dtype, i.metadata), (parts, *operand.dims))
    numbers = ScatterDimensionNumbers(
        update_window_dims=(),
        inserted_window_dims=tuple([k + 1 for k in n.inserted_window_dims]),
        scatter_dims_to_operand_dims=tuple([k + 1 for k in n.scatter_dims_to_operand_dims]),
        index_vector_dim=n.index_vector_dim + (n.index_vector_dim > at),
        input_batching_dims=(0,),
        scatter_indices_batching_dims=(at,),
    )
    scattered = i.replace(
        shape=tables.shape,
        operands=(tables, _cut(indices, at, parts), cut),
        attributes={**i.attributes, "dimension_numbers": numbers},
    )
    initial = constant(np.asarray(neutral), i.dtype, i.metadata)
    total = i.derive(
        "reduce",
        (scattered, initial),
        {"dimensions": (0,), "split": True},
        i.called,
        shape=operand.shape,
    )
    return i.derive(opcode, (operand, total))


def _parts(most: float, threads: Threads) -> int:
    """The largest power of two up to ``most``, and up to what the target wants."""
    parts = threads.scatter_parts
    while parts > max(most, 1):
        parts //= 2
    return parts


def _cut(array: Instruction, dimension: int, parts: int) -> Instruction:
    """``array`` with a dimension taken apart into [parts, length / parts]."""
    dims = array.dims
    length = dims[dimension] // parts
    return reshape(array, (*dims[:dimension], parts, length, *dims[dimension + 1 :]))


def _pad(array: Instruction, dimension: int, amount: int, value: Any) -> Instruction:
    """``array`` with ``amount`` elements more behind it."""
    scalar = constant(np.asarray(value), array.dtype, array.metadata)
    return pad_dimension(array, scalar, dimension, 0, amount)
