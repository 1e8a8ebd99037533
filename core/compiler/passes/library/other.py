"""Operations that are library calls as they stand: top-k, Fourier transforms, Cholesky, triangular solve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from ...ir.dtypes import F32
from ...ir.errors import of_instruction
from ...ir.hlo import Instruction, Shape, constant
from ...ir.patterns import convert
from . import fft as fft_kernels
from .call import library_call
from .context import Context

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
    return library_call(cholesky, "cholesky", {"lower": int(cholesky.attributes["lower"])}, cost)


def match_triangular_solve(solve: Instruction, context: Context) -> Instruction | None:
    if _is_small_float(solve):
        return _in_f32(solve, context, match_triangular_solve)
    _check_matrix_type(solve)
    a = solve.attributes
    config = {
        "left_side": int(a["left_side"]),
        "lower": int(a["lower"]),
        "unit_diagonal": int(a["unit_diagonal"]),
        "transpose_a": a["transpose_a"],
    }
    flops = math.prod(solve.dims) * solve.operands[0].dims[-1]
    library = context.target.costs.library
    cost = library.call + flops / library.matrix_flops
    return library_call(solve, "triangular-solve", config, cost)


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
