"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import tensorflow as tf

from .cases import WIDE, Table, definite, x

TABLE: Final = Table()
add = TABLE.add


def _magnitudes(results: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Columns are determined up to their signs."""
    return [np.abs(r) for r in results]


add("cholesky", tf.linalg.cholesky, definite(6), dtypes=WIDE)
add("cholesky_batch", tf.linalg.cholesky, definite(4, (3,)))
add(
    "cholesky_solve",
    lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b),
    definite(5),
    x(5, 2),
    tolerance=256,
)
add(
    "triangular_solve",
    lambda a, b: tf.linalg.triangular_solve(a, b),
    definite(5),
    x(5, 3),
    dtypes=WIDE,
    tolerance=256,
)
add(
    "triangular_solve_adjoint",
    lambda a, b: tf.linalg.triangular_solve(a, b, lower=False, adjoint=True),
    definite(5),
    x(5, 3),
    tolerance=256,
)
add("solve", tf.linalg.solve, definite(5), x(5, 3), dtypes=WIDE, tolerance=512)
add("inverse", tf.linalg.inv, definite(5), dtypes=WIDE, tolerance=512)
add("determinant", tf.linalg.det, definite(4), dtypes=WIDE, tolerance=128, jit=False)
add("log_determinant", tf.linalg.slogdet, definite(4), dtypes=WIDE, tolerance=256, jit=False)
add("qr", tf.linalg.qr, definite(5), dtypes=WIDE, tolerance=256, results=_magnitudes)
add("svd", lambda a: tf.linalg.svd(a, compute_uv=False), x(5, 4), dtypes=WIDE, tolerance=256)
add("eigh", lambda a: tf.linalg.eigvalsh(a), definite(5), dtypes=WIDE, tolerance=256)
add("eigh_vectors", tf.linalg.eigh, definite(4), tolerance=2048, results=_magnitudes)
add("lu", tf.linalg.lu, definite(5), dtypes=WIDE, tolerance=128, jit=False)
add("lstsq", tf.linalg.lstsq, x(7, 3), x(7, 2), tolerance=4096)
add("expm", tf.linalg.expm, x(3, 3), tolerance=512)
add("matrix_power", lambda a: a @ a @ a, x(4, 4))
add("diag", tf.linalg.diag, x(3, 4))
add("diag_part", tf.linalg.diag_part, x(3, 4, 5))
add("diag_offset", lambda a: tf.linalg.diag(a, k=1), x(3, 4))
add("diag_band", lambda a: tf.linalg.diag_part(a, k=(-1, 1)), x(4, 4))
add("tensor_diag", tf.linalg.tensor_diag, x(5))
add("tensor_diag_part", tf.linalg.tensor_diag_part, x(5, 5))
add("band_part", lambda a: tf.linalg.band_part(a, 1, -1), x(5, 6), dtypes=("float32", "int32"))
add("trace", tf.linalg.trace, x(3, 5, 5), dtypes=("float32", "int32"))
add("norm", lambda a: tf.norm(a, ord=1, axis=1), x(3, 7))
add("norm_infinity", lambda a: tf.norm(a, ord=np.inf), x(3, 7))
add("cross", tf.linalg.cross, x(5, 3), x(5, 3), dtypes=("float32", "int32"))
add("outer", lambda a, b: tf.einsum("i,j->ij", a, b), x(4), x(5))
add("adjoint", tf.linalg.adjoint, x(3, 5), dtypes=("float32", "complex64"))
add("tridiagonal_matmul", lambda d, b: tf.linalg.tridiagonal_matmul(d, b), x(3, 5), x(5, 2))
add(
    "tridiagonal_solve",
    lambda d, b: tf.linalg.tridiagonal_solve(d + [[0.0], [5.0], [0.0]], b),
    x(3, 5),
    x(5, 2),
    tolerance=128,
    jit=False,
)
add(
    "kronecker",
    lambda a, b: tf.linalg.LinearOperatorKronecker(
        [tf.linalg.LinearOperatorFullMatrix(a), tf.linalg.LinearOperatorFullMatrix(b)]
    ).to_dense(),
    x(2, 2),
    x(3, 3),
)

add("fft", tf.signal.fft, x(3, 16), dtypes=("complex64", "complex128"), tolerance=64)
add("ifft", tf.signal.ifft, x(3, 12), dtypes=("complex64",), tolerance=64)
add("fft2d", tf.signal.fft2d, x(3, 8, 6), dtypes=("complex64",), tolerance=64)
add("fft3d", tf.signal.fft3d, x(4, 3, 8), dtypes=("complex64",), tolerance=64)
add("rfft", tf.signal.rfft, x(3, 16), dtypes=WIDE, tolerance=64)
add("irfft", tf.signal.irfft, x(3, 9), dtypes=("complex64",), tolerance=64)
add("rfft2d", tf.signal.rfft2d, x(3, 8, 6), tolerance=64)
add("fftshift", tf.signal.fftshift, x(3, 5))
add("stft", lambda a: tf.signal.stft(a, 16, 8), x(64), tolerance=64)
add("dct", lambda a: tf.signal.dct(a), x(3, 16), tolerance=64)
add("frame", lambda a: tf.signal.frame(a, 5, 3), x(2, 20))
add("hann_window", lambda: tf.signal.hann_window(16))
