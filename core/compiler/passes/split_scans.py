"""Long cumulative reductions in two steps, so that many threads have work: one in each part, and one of the parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..ir import errors, scans
from ..ir.hlo import Instruction, Module, Shape, WindowDimension, constant
from ..ir.moves import cut, pad_dimension
from ..ir.patterns import binary_body, body_on_arrays, neutral_start, reshape
from ..ir.registry import OPS
from ..reference import evaluate
from .rewrite import sweep_module

if TYPE_CHECKING:
    from ..targets.costs import Threads
    from ..targets.target import Target


def split_scans(module: Module, target: Target) -> Module:
    """scan[n] -> reshape [parts, n / parts] -> scan in each part, behind the scan of the parts' last elements.

    A length that the parts do not divide is padded at the end that no other element sees. Operations of any kind, if
    initial values may be taken in more than once and an operation takes longer than reading its operands again does,
    as of a cumulative logsumexp: one thread makes a cumulative sum nearly as fast as memory is. (Floats of 16 bits are
    left as they are: what a part comes to would be rounded between the steps.)
    """
    if not module.has("reduce-window"):
        return module
    threads = target.costs.threads

    def rule(i: Instruction) -> Instruction | None:
        return _split(i, threads)

    return sweep_module(module, rule, repeat=False)


def _split(i: Instruction, threads: Threads) -> Instruction | None:
    if i.opcode != "reduce-window":
        return None
    count = len(i.operands) // 2
    if count != 1 or i.operands[0].elements < threads.split_elements:
        return None
    operand, initial = i.operands
    scan = scans.of(i)
    if scan is None or operand.dtype is not i.dtype or (i.dtype.is_float and i.dtype.bits < 32):
        return None
    if not any(OPS[operation.opcode].transcendental for operation in i.called[0].instructions):
        return None
    d, dims = scan.dimension, operand.dims
    n = dims[d]
    is_minor = d == len(dims) - 1
    # Rows that one thread after the other can take as they are: vectors run along the minor dimension.
    rows = math.prod(dims) // n // (1 if is_minor else min(dims[-1], 1024))
    parts = threads.split_parts
    if rows > threads.split_rows or n < 4 * parts:
        return None
    neutral = _neutral(i)
    if neutral is None:
        return None
    missing = -n % parts
    if missing:
        operand = pad_dimension(
            operand, neutral, d, *((missing, 0) if scan.backward else (0, missing))
        )
    length = (n + missing) // parts
    parted = (*dims[:d], parts, length, *dims[d + 1 :])
    inside = _scan(i, reshape(operand, parted), neutral, d + 1, scan.backward)
    # What each part comes to, and then what stands before each part.
    last = 0 if scan.backward else length - 1
    whole = (*dims[:d], parts, *dims[d + 1 :])
    totals = cut(inside, d + 1, last, last + 1, i.metadata)
    sums = _scan(i, reshape(totals, whole), initial, d, scan.backward)
    before = pad_dimension(sums, initial, d, *((-1, 1) if scan.backward else (1, -1)))
    kept = tuple([k for k in range(len(parted)) if k != d + 1])
    spread = i.derive("broadcast", (before,), {"dimensions": kept}, shape=Shape(i.dtype, parted))
    pair = (inside, spread) if scan.backward else (spread, inside)
    joined = body_on_arrays(i.called[0], pair)
    if joined is None:
        return None
    padded = (*dims[:d], n + missing, *dims[d + 1 :])
    result = reshape(joined[0], padded)
    if missing:
        start = missing if scan.backward else 0
        result = cut(result, d, start, start + n, i.metadata)
    return result


def _neutral(i: Instruction) -> Instruction | None:
    """A scalar that each part may start from: one that changes nothing, or an initial value that may be taken in again
    and again.
    """
    opcode = binary_body(i.called[0])
    value = None if opcode is None else neutral_start(opcode, i)
    if value is not None:
        return constant(value, i.dtype, i.metadata)
    initial = i.operands[1]
    if initial.opcode != "constant":
        return None
    start = np.asarray(initial.attributes["literal"])
    try:
        (twice,) = evaluate.evaluate_computation(i.called[0], [start, start])
    except errors.CompileError:  # an operation that only kernels know
        return None
    return initial if np.asarray(twice).tobytes() == start.tobytes() else None


def _scan(
    i: Instruction, operand: Instruction, initial: Instruction, dimension: int, backward: bool
) -> Instruction:
    """The cumulative reduction ``i`` of another array along another dimension."""
    window = tuple(
        [
            scans.window_of(size, backward) if k == dimension else WindowDimension(1)
            for k, size in enumerate(operand.dims)
        ]
    )
    return i.replace(
        shape=operand.shape,
        operands=(operand, initial),
        attributes={**i.attributes, "window": window},
    )
