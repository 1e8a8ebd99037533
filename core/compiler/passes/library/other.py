"""Operations that are library calls as they stand: top-k, Fourier transforms, Cholesky, triangular solve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from ...ir.dtypes import F32
from ...ir.errors import of_instruction
from ...ir.hlo import Instruction, Shape, constant
from ...ir.patterns import convert, halved, is_constant, swaps_last_two
from . import fft as fft_kernels
from .call import library_call
from .context import Context
from .triangles import keeps_triangle

_FLOATS: Final = frozenset(["f32", "f64", "c64", "c128"])


def match_topk(topk: Instruction, context: Context) -> Instruction | None:
    operand = topk.operands[0].shape
    assert isinstance(operand, Shape)
    k = topk.attributes["k"]
    rows = operand.elements // max(1, operand.dims[-1])
    library = context.target.costs.library
    cost = operand.bytes / library.byte_rate + operand.elements * library.scanned
    cost += library.sort_ns(rows * k, k, called=False)
    return library_call(topk, "topk", {"k": k, "largest": int(topk.attributes["largest"])}, cost)


def match_fft(fft: Instruction, context: Context) -> Instruction | None:
    """A transform of length 0 is an empty array.

    Raises CompileError (UNIMPLEMENTED) for element types other than f32, f64, c64 and c128.
    """
    if fft.operands[0].dtype.name not in _FLOATS:
        raise of_instruction("UNIMPLEMENTED", "no transform of this element type", fft)
    lengths: tuple[int, ...] = fft.attributes["fft_length"]
    if 0 in lengths:
        return constant(np.zeros(fft.dims), fft.dtype)
    if 0 not in fft.dims:
        generated = fft_kernels.generate(fft, context.target)
        if generated is not None:
            return generated
    elements = max(math.prod(fft.operands[0].dims), math.prod(fft.dims))
    library = context.target.costs.library
    halvings = math.log2(2.0 * max(1, math.prod(lengths)))
    cost = library.call + elements * halvings * library.butterfly
    config = {"fft_type": fft.attributes["fft_type"], "fft_length": tuple(lengths)}
    return library_call(fft, "fft", config, cost)


def match_cholesky(cholesky: Instruction, context: Context) -> Instruction | None:
    if _is_small_float(cholesky):
        return _in_f32(cholesky, context, match_cholesky)
    _check_matrix_type(cholesky)
    flops = math.prod(cholesky.dims) * cholesky.dims[-1] / 3
    library = context.target.costs.library
    cost = library.call + flops / library.matrix_flops
    config = {"lower": int(cholesky.attributes["lower"])}
    if goes_in_lanes(cholesky.operands[0]):
        symmetrized = _symmetrized(cholesky.operands[0])
        if symmetrized is not None:
            cholesky = cholesky.replace(operands=[symmetrized])
            config["symmetrize"] = 1
    return library_call(cholesky, "cholesky", config, cost)


def fold_triangle(select: Instruction, context: Context) -> Instruction | None:
    """The lower triangle of a lower Cholesky factor is the factor: the call leaves zeros above."""
    factor = select.operands[1]
    if factor.opcode != "library-call" or factor.attributes["name"] != "cholesky":
        return None
    if not factor.attributes["config"]["lower"] or not is_constant(select.operands[2], 0):
        return None
    return factor if _is_lower_triangle(select.operands[0]) else None


def goes_in_lanes(matrices: Instruction) -> bool:
    """Whether the runtime makes a batch of matrices several at a time (core/runtime/library/matrix_lanes.h), on every
    CPU: as many as half a vector of the longest at least, of real numbers and of orders up to 64.
    """
    *batch, rows, columns = matrices.dims
    return (
        matrices.dtype.name in ("f32", "f64")
        and min(rows, columns) >= 1
        and max(rows, columns) <= 64
        and math.prod(batch) >= 8
    )


def _symmetrized(matrices: Instruction) -> Instruction | None:
    """``a`` if the matrices are (a + its transpose) / 2."""
    total = halved(matrices)
    if total is None or total.opcode != "add":
        return None
    for a, b in (total.operands, reversed(total.operands)):
        if swaps_last_two(b) and b.operands[0] is a:
            return a
    return None


def _is_lower_triangle(predicate: Instruction) -> bool:
    """Whether it is row >= column of the last two dimensions."""
    if predicate.opcode == "broadcast":
        rank = len(predicate.dims)
        if predicate.attributes["dimensions"] != (rank - 2, rank - 1):
            return False
        predicate = predicate.operands[0]
    rank = len(predicate.dims)
    if predicate.opcode != "compare" or predicate.attributes["direction"] != "GE":
        return False
    row, column = predicate.operands
    return (
        row.opcode == column.opcode == "iota"
        and row.attributes["dimension"] == rank - 2
        and column.attributes["dimension"] == rank - 1
        and row.dtype.is_integer
        and row.dtype.bits >= 16
    )


def match_triangular_solve(solve: Instruction, context: Context) -> Instruction | None:
    if _is_small_float(solve):
        return _in_f32(solve, context, match_triangular_solve)
    _check_matrix_type(solve)
    solve = _without_transpose(solve)
    a = solve.attributes
    config = {
        "left_side": int(a["left_side"]),
        "lower": int(a["lower"]),
        "unit_diagonal": int(a["unit_diagonal"]),
        "transpose_a": a["transpose_a"],
    }
    flops = float(math.prod(solve.dims) * solve.operands[0].dims[-1])
    if keeps_triangle(solve) and not goes_in_lanes(solve.operands[0]):
        config["triangular_b"] = 1
        flops /= 3
    library = context.target.costs.library
    cost = library.call + flops / library.matrix_flops
    return library_call(solve, "triangular-solve", config, cost)


def _without_transpose(solve: Instruction) -> Instruction:
    """The same solution from the matrices that a transpose in front of the solve reads, if there is one."""
    matrices, b = solve.operands
    if not swaps_last_two(matrices):
        return solve
    turned = {"NO_TRANSPOSE": "TRANSPOSE", "TRANSPOSE": "NO_TRANSPOSE"}
    if not solve.dtype.is_complex:
        turned["ADJOINT"] = "NO_TRANSPOSE"
    op = solve.attributes["transpose_a"]
    if op not in turned:  # the conjugate of the matrices
        return solve
    changed = {"lower": not solve.attributes["lower"], "transpose_a": turned[op]}
    return solve.replace(
        operands=[matrices.operands[0], b], attributes=dict(solve.attributes) | changed
    )


def _is_small_float(instruction: Instruction) -> bool:
    return instruction.dtype.is_float and instruction.dtype.bits < 32


def _in_f32(
    instruction: Instruction,
    context: Context,
    match: Callable[[Instruction, Context], Instruction | None],
) -> Instruction | None:
    """What ``match`` makes of the instruction on f32, rounded at the end."""
    operands = [convert(operand, F32) for operand in instruction.operands]
    wide = match(
        instruction.replace(shape=Shape(F32, instruction.dims), operands=operands), context
    )
    return None if wide is None else convert(wide, instruction.dtype)


def _check_matrix_type(instruction: Instruction) -> None:
    if instruction.dtype.name not in _FLOATS:
        raise of_instruction("UNIMPLEMENTED", "only f32, f64, c64 and c128 matrices", instruction)
