"""Fourier transforms, Cholesky factors and triangular systems: on the last dimensions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import hlo_records
from ..formats.hlo_proto import Field
from ..formats.wire_format import integer, integers, message
from ..importer import hlo_instructions, ops_contraction
from ..ir import dtypes
from ..ir.hlo import Instruction, Shape
from ..ir.registry import SUMMED, Array, both, register
from ..ir.shape_rules import array_of, arrays_of, require
from ..passes.library import other


def _fft_shape(instruction: Instruction) -> Shape:
    operand = array_of(instruction)
    kind, length = instruction.attributes["fft_type"], instruction.attributes["fft_length"]
    require(1 <= len(length) <= operand.rank, "fft_length does not fit the operand's rank")
    outer = operand.dims[: operand.rank - len(length)]
    if kind == "RFFT":
        require(operand.dtype.is_float, "RFFT takes a real operand")
        dtype = dtypes.C64 if operand.dtype is dtypes.F32 else dtypes.C128
        return Shape(dtype, (*outer, *length[:-1], length[-1] // 2 + 1 if length[-1] else 0))
    require(operand.dtype.is_complex, f"{kind} takes a complex operand")
    if kind == "IRFFT":
        return Shape(operand.dtype.component, (*outer, *length))
    require(kind in ("FFT", "IFFT"), f"unknown fft_type {kind}")
    require(
        operand.dims[operand.rank - len(length) :] == tuple(length),
        "fft_length is not the operand's size",
    )
    return operand


def _cholesky_shape(instruction: Instruction) -> Shape:
    operand = array_of(instruction)
    require(
        operand.rank >= 2 and operand.dims[-1] == operand.dims[-2], "the matrices are not square"
    )
    return operand


def _triangular_solve_shape(instruction: Instruction) -> Shape:
    a, b = arrays_of(instruction)
    require(a.rank == b.rank >= 2 and a.dtype is b.dtype, "the operands do not fit")
    require(
        a.dims[-1] == a.dims[-2] and a.dims[:-2] == b.dims[:-2],
        "the operands' dimensions do not fit",
    )
    side = b.dims[-2] if instruction.attributes["left_side"] else b.dims[-1]
    require(side == a.dims[-1], "the right-hand side does not fit the matrices")
    return b


def _fft_value(i: Instruction, a: Array) -> list[Array]:
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


def _cholesky_value(i: Instruction, a: Array) -> list[Array]:
    a = _for_linalg(a)
    lower = i.attributes["lower"]
    full = np.tril(a) if lower else np.swapaxes(np.triu(a), -1, -2).conj()
    hermitian = full + np.swapaxes(np.tril(full, -1), -1, -2).conj()
    factor = np.linalg.cholesky(hermitian)
    return [factor if lower else np.swapaxes(factor, -1, -2).conj()]


def _triangular_solve_value(i: Instruction, a: Array, b: Array) -> list[Array]:
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


def _fft_fields(i: Instruction) -> bytes:
    kind = hlo_records.FFT_TYPES.index(i.attributes["fft_type"])
    return integer(Field.FFT_TYPE, kind) + integers(Field.FFT_LENGTH, i.attributes["fft_length"])


def _triangular_solve_fields(i: Instruction) -> bytes:
    transpose = hlo_records.TRANSPOSES.index(i.attributes["transpose_a"])
    flags = (int(i.attributes[name]) for name in ("left_side", "lower", "unit_diagonal"))
    body = b"".join(integer(n, flag) for n, flag in enumerate(flags, 1)) + integer(4, transpose)
    return message(Field.TRIANGULAR_SOLVE_OPTIONS, body)


register(  # fft_type: "FFT" "IFFT" "RFFT" "IRFFT"
    "fft",
    operands=1,
    attributes=("fft_type", "fft_length"),
    shape=_fft_shape,
    evaluate=_fft_value,
    library=other.match_fft,
    from_hlo=hlo_instructions.fft,
    read=both(fft=ops_contraction.read_fft),
    calls={"tripont.fft": ops_contraction.read_fft_call},
    fields=_fft_fields,
    reads_memory=True,
    error=SUMMED,
)
register(
    "cholesky",
    operands=1,
    attributes=("lower",),
    shape=_cholesky_shape,
    evaluate=_cholesky_value,
    library=other.match_cholesky,
    from_hlo=hlo_instructions.cholesky,
    read=both(cholesky=ops_contraction.read_cholesky),
    fields=lambda i: message(Field.CHOLESKY_OPTIONS, integer(1, int(i.attributes["lower"]))),
    reads_memory=True,
    error=SUMMED,
)
register(  # transpose_a: NO_TRANSPOSE TRANSPOSE ADJOINT
    "triangular-solve",
    operands=2,
    attributes=("left_side", "lower", "unit_diagonal", "transpose_a"),
    shape=_triangular_solve_shape,
    evaluate=_triangular_solve_value,
    library=other.match_triangular_solve,
    from_hlo=hlo_instructions.triangular_solve,
    read=both(triangular_solve=ops_contraction.read_triangular_solve),
    fields=_triangular_solve_fields,
    reads_memory=True,
    error=SUMMED,
)
