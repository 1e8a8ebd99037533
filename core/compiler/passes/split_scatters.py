"""Scatters of many updates into few elements or rows, in parts with a table each: work for many threads, and sums of
fewer terms.

Elements are cut into many parts. Rows have a kernel whose threads share out the rows of the result
(``codegen/kernels/scatter_rows.py``): each thread reads the updates of its own rows and skips the others, which the
memory brings nevertheless. Where the updates stream by, the kernel shares out columns first if rows have halves of
whole lines. The updates of other rows are cut into two halves: so two threads read what is theirs from end to end, and
more threads skip half as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..codegen.kernels.scatter_rows import has_halves
from ..ir import dtypes
from ..ir.hlo import Instruction, Module, ScatterDimensionNumbers, Shape, constant
from ..ir.moves import pad_dimension
from ..ir.patterns import (
    binary_body,
    convert,
    identity_value,
    reshape,
    scatters_elements,
    scatters_rows,
    splat,
    splat_value,
)
from .rewrite import sweep_module

if TYPE_CHECKING:
    from ..targets.costs import Threads
    from ..targets.target import Target

# Into how many tables rows are scattered: the sums are the same for every number of threads.
_HALVES: Final = 2
# Instructions that updates are made of which are looked at.
_LOOKED_AT: Final = 64


def split_scatters(module: Module, target: Target) -> Module:
    """scatter[n] -> reshape [parts, n / parts] -> scatter into [parts, table] -> reduce -> joined with the input.

    Known operations only, which may be regrouped. The number of parts follows from shapes and never from the number of
    threads. Updates of elements that the parts do not divide are padded with ones whose places are outside of the
    table.
    """
    if not module.has("scatter"):
        return module
    threads = target.costs.threads
    line = target.costs.memory.line
    has_rows = target.costs.memory.places > 0  # a kernel that shares out rows

    def rule(i: Instruction) -> Instruction | None:
        if scatters_elements(i):
            return _split(i, threads)
        return _split_rows(i, threads, line) if has_rows else None

    return sweep_module(module, rule, repeat=False)


def _operation(i: Instruction) -> tuple[str, Any] | None:
    """What a scatter combines by, and its neutral value; None if its updates may not be regrouped."""
    is_small = i.dtype.bits < (16 if i.dtype.is_float else 8)  # too small for sums of sums
    if not i.elements or is_small:
        return None
    opcode = binary_body(i.called[0])
    neutral = None if opcode is None else identity_value(opcode, i)
    return None if opcode is None or neutral is None else (opcode, neutral)


def _split(i: Instruction, threads: Threads) -> Instruction | None:
    operand, indices, updates = i.operands
    n: ScatterDimensionNumbers = i.attributes["dimension_numbers"]
    if n.input_batching_dims or updates.elements < threads.scatter_elements:
        return None
    operation = _operation(i)
    if operation is None:
        return None
    opcode, neutral = operation
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
    return _joined(i, scattered, opcode, neutral)


def _split_rows(i: Instruction, threads: Threads, line: int) -> Instruction | None:
    """A scatter of rows whose updates stream by: the second half of them go to a table of their own, behind that of the
    first.
    """
    # Rows in the order of memory are shared out as pieces of the updates.
    if not scatters_rows(i) or i.attributes["indices_are_sorted"] or has_halves(i, line):
        return None
    operand, indices, updates = i.operands
    few = threads.scatter_each * _HALVES * operand.elements
    if updates.shape.bytes < threads.scatter_streamed or updates.elements < few:  # type: ignore[union-attr]
        return None
    operation = _operation(i)
    if operation is None or _is_gathered(updates):
        return None
    opcode, neutral = operation
    rows, *row = operand.dims
    if indices.dtype.bits < 32:
        indices = convert(indices, dtypes.S32)
    if _HALVES * rows >= 1 << 31:
        return None
    n: ScatterDimensionNumbers = i.attributes["dimension_numbers"]
    scattered = updates.dims[: len(updates.dims) - len(row)]
    d = max(range(len(scattered)), key=lambda k: (scattered[k], -k))
    places = _places_in_halves(indices, d + (d >= n.index_vector_dim), rows)
    tables = splat(constant(np.asarray(neutral), i.dtype, i.metadata), (_HALVES * rows, *row))
    both = i.replace(shape=tables.shape, operands=(tables, places, updates))
    return _joined(i, reshape(both, (_HALVES, *operand.dims)), opcode, neutral)


def _places_in_halves(places: Instruction, dimension: int, rows: int) -> Instruction:
    """Places in two tables, one behind the other: those of the second half along ``dimension`` are in the second table,
    and those that are in no row of the one table are -1.
    """
    predicate = places.shape.with_dtype(dtypes.PRED)  # type: ignore[union-attr]
    kind = "SIGNED" if places.dtype.is_signed else "UNSIGNED"

    def compare(a: Instruction, direction: str, value: int, kind: str) -> Instruction:
        attributes = {"direction": direction, "comparison_type": kind}
        return places.derive("compare", (a, splat_value(value, a)), attributes, shape=predicate)

    position = places.derive(
        "iota", (), {"dimension": dimension}, shape=Shape(dtypes.S32, places.dims)
    )
    half = (places.dims[dimension] + 1) // _HALVES
    moved = places.derive("add", (places, splat_value(rows, places)))
    is_first = compare(position, "LT", half, "SIGNED")
    place = places.derive("select", (is_first, places, moved))
    is_inside = compare(places, "LT", rows, kind)
    if places.dtype.is_signed:
        is_inside = is_inside.derive("and", (is_inside, compare(places, "GE", 0, kind)))
    return places.derive("select", (is_inside, place, splat_value(-1, places)))


def _is_gathered(value: Instruction) -> bool:
    """Whether the elements of an array come from far apart: then they do not stream by, whoever reads them."""
    seen, stack = {value}, [value]
    while stack and len(seen) < _LOOKED_AT:
        i = stack.pop()
        if i.opcode == "gather":
            return True
        if i.is_elementwise or i.opcode in ("reshape", "bitcast", "broadcast", "copy"):
            stack += [o for o in i.operands if o not in seen]
            seen.update(i.operands)
    return False


def _joined(i: Instruction, tables: Instruction, opcode: str, neutral: Any) -> Instruction:
    """What a scatter gives: its input with the rows of all tables."""
    initial = constant(np.asarray(neutral), i.dtype, i.metadata)
    attributes = {"dimensions": (0,), "split": True}
    total = i.derive("reduce", (tables, initial), attributes, i.called, shape=i.shape)
    return i.derive(opcode, (i.operands[0], total))


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
