"""Estimates of time, good enough to decide how much work is worth a thread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..ir import hlo

if TYPE_CHECKING:
    from ..targets.target import Target

# Ops that read parts of their first operand, and whose work does not grow with the rest of it.
_READ_PARTS: Final = frozenset(["slice", "dynamic-slice", "gather"])
# Ops whose result is their operand in another shape.
_RESHAPE: Final = frozenset(["bitcast", "reshape"])


def of_computation(target: Target, computation: hlo.Computation) -> float:
    """Nanoseconds on one core for a whole fused computation."""
    users = computation.users()
    results = computation.results
    read = sum(
        p.shape.bytes if p in results else _bytes_read(target, p, users)
        for p in computation.parameters
        if isinstance(p.shape, hlo.Shape)
    )
    return _nanoseconds(target, computation.instructions, read + _bytes(results))


def of_instructions(
    target: Target, instructions: Iterable[hlo.Instruction], arrays: Iterable[hlo.Instruction]
) -> float:
    """Nanoseconds on one core for computing ``instructions`` and reading or writing all of ``arrays``."""
    return _nanoseconds(target, instructions, _bytes(arrays))


def _nanoseconds(target: Target, instructions: Iterable[hlo.Instruction], moved: int) -> float:
    costs = target.costs
    vectors = 0.0
    for i in instructions:
        operands = i.operands[1:] if i.opcode in _READ_PARTS else i.operands
        shapes = [s for x in (i, *operands) for s in x.result_shapes if isinstance(s, hlo.Shape)]
        nanoseconds = costs.nanoseconds(i)
        if nanoseconds and shapes:
            size = max(s.elements for s in shapes)
            vectors += nanoseconds * size / target.lanes(shapes[0].dtype)
    return costs.kernels.call + max(vectors, moved * costs.kernels.byte)


def _bytes(arrays: Iterable[hlo.Instruction]) -> int:
    return sum(a.shape.bytes for a in arrays if isinstance(a.shape, hlo.Shape))


def _bytes_read(
    target: Target,
    array: hlo.Instruction,
    users: Mapping[hlo.Instruction, Sequence[hlo.Instruction]],
) -> int:
    """How many bytes of ``array`` a computation reads: all of them, unless all users take parts of it."""
    whole: int = array.shape.bytes  # type: ignore[union-attr]
    read = 0
    for user in users[array]:
        if user.opcode in _RESHAPE and users[user]:
            read += _bytes_read(target, user, users)
        elif user.opcode in _READ_PARTS and array not in user.operands[1:]:
            read += _bytes_of_parts(target, user)
        else:
            return whole
    return min(read, whole)


def _bytes_of_parts(target: Target, reader: hlo.Instruction) -> int:
    """What ``reader`` reads of its first operand: whole lines of memory for each run of elements that lie together."""
    shape: hlo.Shape = reader.shape  # type: ignore[assignment]
    if reader.opcode == "gather":
        run: int = math.prod(reader.attributes["slice_sizes"])
    else:
        run = _run(shape.dims, reader.operands[0].dims, reader.attributes.get("strides", ()))
    return max(shape.bytes, shape.elements // max(1, run) * target.costs.memory.line)


def _run(part: Sequence[int], whole: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of a slice lie together in the array."""
    run = 1
    for d in reversed(range(len(part))):
        if strides and strides[d] != 1:
            break
        run *= part[d]
        if part[d] != whole[d]:
            break
    return run
