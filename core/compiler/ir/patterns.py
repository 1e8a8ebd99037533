"""Small questions that rewrite rules ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .dtypes import F8E8M0FNU, DType
from .hlo import Computation, Instruction, Shape, broadcast, constant

#: Library calls that HLO has an opcode for, by which the program that users read names them.
COLLECTIVE_CALLS: Final = frozenset(
    ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute")
)

#: Ops, and kinds of fusion, that change a part of their first operand (a scatter of several arrays: of as many) and
#: whose kernels need the rest to be there already.
UPDATES: Final = frozenset(("dynamic-update-slice", "scatter"))


def is_collective_call(instruction: Instruction) -> bool:
    """Whether an instruction is a call of the library in which devices meet."""
    return (
        instruction.opcode == "library-call" and instruction.attributes["name"] in COLLECTIVE_CALLS
    )


def scalar_of(instruction: Instruction) -> Instruction | None:
    """The scalar that every element of ``instruction`` equals, if it plainly is a splat."""
    if instruction.opcode == "broadcast":
        instruction = instruction.operands[0]
    shape = instruction.shape
    return instruction if isinstance(shape, Shape) and not shape.dims else None


def constant_value(instruction: Instruction) -> Any | None:
    """The value of a constant scalar or of a splat of one, as a NumPy scalar."""
    if instruction.opcode == "broadcast":
        instruction = instruction.operands[0]
    if instruction.opcode == "constant" and not instruction.dims:
        return instruction.attributes["literal"][()]
    return None


def is_constant(instruction: Instruction, value: float) -> bool:
    """Whether every element is the constant ``value`` (0 matches -0.0 too)."""
    found = constant_value(instruction)
    return found is not None and bool(found == value)


def halved(instruction: Instruction) -> Instruction | None:
    """x, if the instruction is x / 2 or x * 0.5."""
    if instruction.opcode not in ("divide", "multiply"):
        return None
    x, factor = instruction.operands
    if instruction.opcode == "multiply" and is_constant(x, 0.5):
        x, factor = factor, x
    return x if is_constant(factor, 2 if instruction.opcode == "divide" else 0.5) else None


def swaps_last_two(instruction: Instruction) -> bool:
    """Whether the instruction transposes matrices: it exchanges the last two dimensions."""
    rank = len(instruction.dims)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return instruction.opcode == "transpose" and instruction.attributes["dimensions"] == swapped


def splat(scalar: Instruction, dims: Sequence[int]) -> Instruction:
    """``scalar`` at every index of ``dims``."""
    return broadcast(scalar, dims) if dims else scalar


def splat_value(value: Any, like: Instruction) -> Instruction:
    """An array of ``like``'s shape that holds ``value`` everywhere."""
    return splat(
        constant(np.asarray(value).astype(like.dtype.numpy), metadata=like.metadata), like.dims
    )


def reshape(operand: Instruction, dims: Sequence[int]) -> Instruction:
    """``operand`` with other dimensions; itself if they are the same."""
    dims = tuple(dims)
    if operand.dims == dims:
        return operand
    shape = Shape(operand.dtype, dims)
    return operand.derive("reshape", (operand,), shape=shape)


def convert(operand: Instruction, dtype: DType) -> Instruction:
    """``operand`` as ``dtype``."""
    if operand.dtype is dtype:
        return operand
    shape = operand.shape.with_dtype(dtype)  # type: ignore[union-attr]
    return operand.derive("convert", (operand,), shape=shape)


def reshaped_broadcast(
    i: Instruction, dims: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The reshape to ``dims`` of a broadcast ``i`` as a broadcast: the dimensions that its operand is reshaped to, and
    which of ``dims`` they are. None if a part of a dimension repeats.
    """
    covered = set(i.attributes["dimensions"])
    sizes: list[int] = []
    places: list[int] = []
    for ours, theirs in reshape_groups(i.dims, dims):
        large = [d in covered for d in ours if i.dims[d] != 1]
        if all(large) and (large or any(d in covered for d in ours)):
            sizes += [dims[d] for d in theirs]
            places += theirs
        elif any(large):
            return None
    return tuple(sizes), tuple(places)


def squeezed(dims: Sequence[int]) -> tuple[int, ...]:
    """``dims`` without those of size 1."""
    return tuple([d for d in dims if d != 1])


def binary_body(computation: Computation) -> str | None:
    """The opcode of a reduction's body that is just one binary operation on its two parameters."""
    root = computation.root
    if len(computation.parameters) != 2 or len(root.operands) != 2:
        return None
    if set(root.operands) != set(computation.parameters) or not root.is_elementwise:
        return None
    if root.opcode in ("subtract", "divide", "compare", "power", "atan2", "remainder", "complex"):
        return None
    return root.opcode if root.opcode in ASSOCIATIVE else None


ASSOCIATIVE = frozenset(["add", "multiply", "maximum", "minimum", "and", "or", "xor"])


def counts(instruction: Instruction) -> bool:
    """Whether an instruction is an iota of integers that are the numbers of its places: none wraps around."""
    if instruction.opcode != "iota" or not instruction.dtype.is_integer:
        return False
    dtype = instruction.dtype
    size = instruction.dims[instruction.attributes["dimension"]]
    return bool(size <= 1 << (dtype.bits - (dtype.kind == "int")))


def scatters_elements(instruction: Instruction) -> bool:
    """Whether an instruction combines single elements, several of which may meet, with those of one array."""
    if instruction.opcode != "scatter" or len(instruction.operands) != 3:
        return False
    numbers = instruction.attributes["dimension_numbers"]
    updates = instruction.operands[2]
    return not (numbers.update_window_dims or instruction.attributes["unique_indices"]) and bool(
        updates.dims
    )


def scatters_rows(instruction: Instruction) -> bool:
    """Whether an instruction combines whole rows, several of which may meet, with those of one array: a row is all
    dimensions of the array but the first, and those of the updates behind the scattered ones.
    """
    if instruction.opcode != "scatter" or len(instruction.operands) != 3:
        return False
    numbers = instruction.attributes["dimension_numbers"]
    rows, updates = instruction.dims, instruction.operands[2].dims
    scattered = len(updates) - (len(rows) - 1)
    return (
        not instruction.attributes["unique_indices"]
        and len(rows) > 1
        and scattered > 0
        and numbers.scatter_dims_to_operand_dims == numbers.inserted_window_dims == (0,)
        and not numbers.input_batching_dims
        and numbers.update_window_dims == tuple(range(scattered, len(updates)))
        and updates[scattered:] == rows[1:]
    )


def identity_value(opcode: str, instruction: Instruction) -> Any | None:
    """The value e with op(e, x) = x for ``instruction``'s dtype, as a NumPy scalar; None if there is no such value.

    That of a sum of floats is -0.0, because +0.0 takes the sign of -0.0 away. Complex products have none: 1+0j times an
    infinity has a NaN, and times -0.0-1j another sign of zero.
    """
    dtype = instruction.dtype
    native = dtype.numpy
    if opcode == "add" and (dtype.is_float or dtype.is_complex) and dtype is not F8E8M0FNU:
        return -np.zeros((), native)[()]
    if opcode == "add" or opcode == "or" or opcode == "xor":
        return np.zeros((), native)[()]
    if opcode == "multiply":
        return None if dtype.is_complex else np.ones((), native)[()]
    if opcode == "and":
        return np.array(True) if dtype.kind == "pred" else np.array(-1).astype(native)[()]
    if dtype.is_complex:
        return None
    if dtype.kind == "pred":
        return np.array(opcode == "minimum")
    if dtype.is_float:
        return np.array(np.inf if opcode == "minimum" else -np.inf).astype(native)[()]
    bits = dtype.bits - (1 if dtype.is_signed else 0)
    low, high = (-(1 << bits) if dtype.is_signed else 0), (1 << bits) - 1
    return np.array(high if opcode == "minimum" else low).astype(native)[()]


def neutral_start(opcode: str, reduction: Instruction) -> Any | None:
    """The value that every part of a reduction may start from: None if there is no such value.

    A known initial value that is a zero of a sum of floats or 1+0j of a complex product: the reduction meets it by its
    definition, however often. Otherwise :func:`identity_value`.
    """
    neutral = {"add": 0, "multiply": 1}.get(opcode)
    if neutral is not None and (reduction.dtype.is_float or reduction.dtype.is_complex):
        initial = constant_value(reduction.operands[1])
        if initial is not None and initial == neutral:
            return initial
    return identity_value(opcode, reduction)


def body_on_arrays(body: Computation, arguments: Sequence[Instruction]) -> list[Instruction] | None:
    """A scalar body's instructions rebuilt on arrays of one shape; None if the body holds something
    not elementwise.
    """
    dims = arguments[0].dims
    values: dict[Instruction, Instruction] = {}
    for i in body.instructions:
        if i.opcode == "parameter":
            values[i] = arguments[i.attributes["index"]]
        elif i.opcode == "constant":
            values[i] = splat(i, dims)
        elif i.opcode in ("reshape", "copy", "broadcast", "bitcast"):
            values[i] = values[i.operands[0]]
        elif i.opcode == "tuple" and i is body.root:
            continue
        elif i.is_elementwise and isinstance(i.shape, Shape):
            shape = Shape(i.dtype, dims)
            values[i] = i.derive(
                i.opcode, [values[o] for o in i.operands], i.attributes, shape=shape
            )
        else:
            return None
    return [values[r] for r in body.results]


def reshape_groups(a: Sequence[int], b: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of dimensions of ``a`` and ``b`` that hold equal numbers of elements, in order."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        ours, theirs = [], []
        p = q = 1
        if i < len(a):
            ours.append(i)
            p *= a[i]
            i += 1
        if j < len(b) and (not ours or p != 1 or b[j] == 1 or i >= len(a)):
            theirs.append(j)
            q *= b[j]
            j += 1
        while p != q:
            if (p < q or q == 0) and i < len(a):
                ours.append(i)
                p *= a[i]
                i += 1
            elif j < len(b):
                theirs.append(j)
                q *= b[j]
                j += 1
            else:
                break
        groups.append((ours, theirs))
    return groups


def only_part(part: tuple[int, ...], whole: tuple[int, ...]) -> int | None:
    """The only dimension along which ``part`` is shorter than ``whole``."""
    shorter = [d for d, size in enumerate(whole) if part[d] != size]
    return shorter[0] if len(shorter) == 1 else None
