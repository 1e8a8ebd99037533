"""Batches of small matrices in lanes (core/runtime/library/matrix_lanes.cc), through the calls that use them.

Errors are bounded as LAPACK's are: by a small multiple of the order, of a rounding and of the matrix's norm.
Column-major matrices, as LAPACK's calls take them, are the transposed arrays here.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from ..conftest import status
from .calls import load, run, shape_of

#: Smaller than a vector, equal to it and larger; not multiples of the blocks of 4 and 8; the largest, and beyond.
ORDERS = [1, 2, 3, 4, 5, 8, 11, 16, 23, 64, 65]
#: Of a batch: no multiple of the lanes of any CPU.
BATCH = 21
REALS = [np.float32, np.float64]
LOWER, UPPER, VECTORS, NONE = ord("L"), ord("U"), ord("V"), ord("N")


def normal(*dims: int) -> Any:
    return np.random.default_rng(dims[-1]).standard_normal(dims)


def general(n: int, dtype: Any, batch: int = BATCH) -> Any:
    return normal(batch, n, n).astype(dtype)


def positive(n: int, dtype: Any, batch: int = BATCH) -> Any:
    a = normal(batch, n, n)
    return (a @ swap(a) / n + np.eye(n)).astype(dtype)


def symmetric(n: int, dtype: Any) -> Any:
    a = normal(BATCH, n, n)
    return (a + swap(a)).astype(dtype)


def swap(a: Any) -> Any:
    return np.ascontiguousarray(np.swapaxes(a, -1, -2))


def norms(a: Any) -> Any:
    """Frobenius norms, without squares that overflow or vanish."""
    a = a.astype(np.float64)
    scale = np.abs(a).max(axis=(-2, -1), keepdims=True)
    scale[scale == 0] = 1
    return np.linalg.norm(a / scale, axis=(-2, -1)) * scale[..., 0, 0]


def array(dtype: Any, *dims: int) -> Shape:
    return shape_of(np.zeros(dims, dtype))


def info_of(a: Any) -> Shape:
    return Shape(dtypes.S32, a.shape[:1])


def assert_small(residual: Any, a: Any, n: int, dtype: Any, factor: float = 4.0) -> None:
    """Each matrix's residual is a few n roundings of its norm."""
    bound = factor * n * np.finfo(dtype).eps * norms(a)
    assert (norms(residual) <= bound).all(), (n, (norms(residual) / bound).max())


def cholesky(device: Any, a: Any, lower: int) -> Any:
    return run(device, "cholesky", [a], [shape_of(a)], {"lower": lower})[0]


def getrf(device: Any, a: Any) -> Any:
    """lu and pivots of [batch,m,n], info."""
    transposed = swap(a)
    pivots = array(np.int32, len(a), min(a.shape[1:]))
    lu, pivots, info = run(
        device, "getrf", [transposed], [shape_of(transposed), pivots, info_of(a)], {}
    )
    return swap(lu), pivots, info


def qr(device: Any, a: Any) -> Any:
    """q [batch,m,k] and r [batch,k,n]."""
    transposed, k = swap(a), min(a.shape[1:])
    tau = array(a.dtype, len(a), k)
    packed, tau = run(device, "geqrf", [transposed], [shape_of(transposed), tau], {})
    reflectors = np.ascontiguousarray(packed[:, :k])
    (q,) = run(device, "orgqr", [reflectors, tau], [shape_of(reflectors)], {})
    return swap(q), np.triu(swap(packed)[:, :k])


def syevd(device: Any, a: Any, uplo: int, mode: int = VECTORS) -> Any:
    results = [shape_of(a), array(a.dtype, *a.shape[:2]), info_of(a)]
    v, w, info = run(device, "syevd", [swap(a)], results, {"uplo": uplo, "mode": mode})
    return swap(v), w, info


def gesdd(device: Any, a: Any, mode: str = "A") -> Any:
    matrix = shape_of(a)
    results = [matrix, array(a.dtype, *a.shape[:2]), matrix, matrix, info_of(a)]
    _, s, u, vt, info = run(device, "gesdd", [swap(a)], results, {"mode": ord(mode)})
    return swap(u), s, swap(vt), info


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", ORDERS)
def test_cholesky(device: Any, n: int, dtype: Any) -> None:
    a = positive(n, dtype)
    for lower, triangle in ((1, np.tril), (0, np.triu)):
        read = triangle(np.ones((n, n))) > 0
        factor = cholesky(device, np.where(read, a, np.nan).astype(dtype), lower)
        assert (factor[:, ~read] == 0).all()
        l = factor.astype(np.float64) if lower else swap(factor).astype(np.float64)
        assert_small(l @ swap(l) - a, a, n, dtype)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [2, 6, 40])
def test_matrices_without_a_factor_are_nans_alone(device: Any, n: int, dtype: Any) -> None:
    a = positive(n, dtype)
    a[3, n - 1, n - 1] = -1
    a[7, n // 2, 0] = a[7, 0, n // 2] = np.nan
    a[8, n - 1, 0] = a[8, 0, n - 1] = np.inf
    a[20] = 0
    bad = np.isin(np.arange(BATCH), (3, 7, 8, 20))
    for lower in (0, 1):
        factor = cholesky(device, a, lower)
        triangle = (np.tril if lower else np.triu)(np.ones((n, n))) > 0
        assert np.isnan(factor[bad][:, triangle]).all()
        assert (factor[bad][:, ~triangle] == 0).all()
        assert np.isfinite(factor[~bad]).all()
    _, info = run(device, "potrf", [a], [shape_of(a), info_of(a)], {"uplo": LOWER})
    assert info[3] == n
    assert info[20] == 1
    assert (info[~bad] == 0).all()


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [3, 8, 18])
def test_potrf_keeps_the_other_triangle(device: Any, n: int, dtype: Any) -> None:
    a = positive(n, dtype)
    for uplo, triangle in ((UPPER, np.tril), (LOWER, np.triu)):  # of the transposed arrays
        read = triangle(np.ones((n, n))) > 0
        given = np.where(read, a, 7).astype(dtype)
        factor, info = run(device, "potrf", [given], [shape_of(a), info_of(a)], {"uplo": uplo})
        assert (info == 0).all()
        assert (factor[:, ~read] == 7).all()
        l = (factor if uplo == UPPER else swap(factor)) * np.tril(np.ones((n, n)))
        assert_small(l @ swap(l) - a, a, n, dtype)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize(
    ("n", "sides"), [(1, 1), (3, 1), (4, 4), (9, 5), (16, 2), (33, 40), (64, 1), (65, 1)]
)
def test_triangular_systems(device: Any, n: int, sides: int, dtype: Any) -> None:
    a = general(n, dtype) / n + 2 * np.eye(n, dtype=dtype)
    options = itertools.product((0, 1), (0, 1), (0, 1), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    for left, lower, unit, transpose in options:
        read = (np.tril if lower else np.triu)(np.ones((n, n)), -unit if lower else unit) > 0
        given = np.where(read, a, np.nan).astype(dtype)
        matrix = np.where(read, a, unit * np.eye(n)).astype(np.float64)
        op = matrix if transpose == "NO_TRANSPOSE" else swap(matrix)
        b = normal(BATCH, *((n, sides) if left else (sides, n))).astype(dtype)
        config = {
            "left_side": left,
            "lower": lower,
            "unit_diagonal": unit,
            "transpose_a": transpose,
        }
        (x,) = run(device, "triangular-solve", [given, b], [shape_of(b)], config)
        residual = (op @ x if left else x @ op) - b
        bound = 4 * n * np.finfo(dtype).eps * norms(op) * norms(x)
        assert (norms(residual) <= bound).all(), (left, lower, unit, transpose)
        letters = {"side": "RL"[left], "uplo": "UL"[lower], "trans_x": transpose[0], "diag": "NU"[unit]}  # fmt: skip
        if transpose == "ADJOINT":
            letters["trans_x"] = "C"
        config = {key: ord(letter) for key, letter in letters.items()}
        (y,) = run(device, "trsm", [swap(given), swap(b)], [shape_of(swap(b))], config)
        if n <= 64:
            np.testing.assert_array_equal(swap(y), x)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("dims", [*((n, n) for n in ORDERS), (7, 3), (5, 20), (64, 40), (40, 64)])
def test_lu(device: Any, dims: tuple[int, int], dtype: Any) -> None:
    a = normal(BATCH, *dims).astype(dtype)
    lu, pivots, info = getrf(device, a)
    assert (info == 0).all()
    m, n = dims
    k = min(m, n)
    lower = np.tril(lu.astype(np.float64), -1)[:, :, :k] + np.eye(m, k)
    upper = np.triu(lu.astype(np.float64))[:, :k]
    assert np.abs(np.tril(lu, -1)[:, :, :k]).max(initial=0) <= 1
    rows = a.astype(np.float64)
    for matrix, swaps in zip(rows, pivots, strict=True):
        for j, p in enumerate(swaps - 1):
            matrix[[j, p]] = matrix[[p, j]]
    assert_small(lower @ upper - rows, a, max(m, n), dtype, factor=8)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [2, 3, 4, 9])  # up to 4 they stay in registers
def test_lu_of_singular_matrices(device: Any, n: int, dtype: Any) -> None:
    a = general(n, dtype)
    zero = n * 2 // 3
    a[4] = 0
    a[5, :, zero] = 0
    a[6] = np.eye(n) * np.finfo(dtype).smallest_subnormal
    a[7, n // 2, n - 1] = np.nan
    lu, _, info = getrf(device, a)
    assert info[4] == 1
    assert info[5] == zero + 1
    np.testing.assert_array_equal(lu[6], a[6])
    assert np.isnan(lu[7]).any()
    assert (np.delete(info, (4, 5, 7)) == 0).all()
    assert np.isfinite(np.delete(lu, 7, axis=0)).all()


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("dims", [*((n, n) for n in ORDERS), (7, 3), (64, 40), (3, 7)])
def test_qr(device: Any, dims: tuple[int, int], dtype: Any) -> None:
    a = normal(BATCH, *dims).astype(dtype)
    # Numbers whose squares overflow or vanish, columns of very different sizes, and zeros.
    a[1] *= np.sqrt(np.finfo(dtype).max)
    a[2] *= np.finfo(dtype).smallest_normal * 64
    a[3, :, 0] *= np.finfo(dtype).smallest_normal ** 0.75
    a[4] = 0
    a[5] = np.eye(*dims)
    q, r = qr(device, a)
    q = q.astype(np.float64)
    n = max(dims)
    identity = np.broadcast_to(np.eye(q.shape[-1]), (BATCH, q.shape[-1], q.shape[-1]))
    assert_small(swap(q) @ q - identity, identity, n, dtype)
    assert_small(q @ r.astype(np.float64) - a, np.where(a == 0, 1e-300, a), n, dtype)
    if dims[0] >= dims[1]:
        assert_small((q @ r)[3, :, :1][None] - a[3, :, :1][None], a[3, :, :1][None], n, dtype, 8)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 16, 17])
def test_eigenvectors(device: Any, n: int, dtype: Any) -> None:
    a = symmetric(n, dtype)
    a[1] *= np.sqrt(np.finfo(dtype).max)
    a[2] *= np.finfo(dtype).smallest_normal * 64
    a[3] = 0
    a[4] = np.eye(n)  # one eigenvalue, n times
    a[5] = np.diag(np.arange(n)[::-1])
    a[6] = 1 + 1e-6 * a[7]  # nearly of rank one
    scales = np.maximum(np.abs(a).max(axis=(1, 2)), np.finfo(dtype).tiny)[:, None, None]
    unit = a / scales.astype(np.float64)
    for uplo, triangle in ((UPPER, np.tril), (LOWER, np.triu)):  # of the transposed arrays
        given = np.where(triangle(np.ones((n, n))).T > 0, a, np.nan).astype(dtype)
        v, w, info = syevd(device, given, uplo)
        assert (info == 0).all()
        assert (np.diff(w, axis=1) >= 0).all()
        v = v.astype(np.float64)
        identity = np.broadcast_to(np.eye(n), a.shape)
        assert_small(swap(v) @ v - identity, identity, n + 3, dtype, factor=8)
        rebuilt = (v * (w / scales[:, 0])[:, None]) @ swap(v)
        assert_small(rebuilt - unit, identity, n + 3, dtype, factor=8)
        _, values, _ = syevd(device, given, uplo, NONE)
        assert (np.abs(values - w) <= 8 * (n + 3) * np.finfo(dtype).eps * scales[:, 0]).all()


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 16, 17])
def test_singular_values(device: Any, n: int, dtype: Any) -> None:
    a = general(n, dtype)
    a[1] *= np.finfo(dtype).max ** 0.75
    a[2] *= np.finfo(dtype).smallest_normal * 64
    a[3] = 0
    a[4] = np.eye(n)
    a[5] = 1  # of rank one: the vectors of the zeros are any
    a[6, :, -1] = a[6, :, 0]
    scales = np.maximum(np.abs(a).max(axis=(1, 2)), np.finfo(dtype).tiny)[:, None, None]
    u, s, vt, info = gesdd(device, a)
    assert (info == 0).all()
    assert (np.diff(s, axis=1) <= 0).all()
    u, vt = u.astype(np.float64), vt.astype(np.float64)
    identity = np.broadcast_to(np.eye(n), a.shape)
    assert_small(swap(u) @ u - identity, identity, n + 3, dtype, factor=8)
    assert_small(vt @ swap(vt) - identity, identity, n + 3, dtype, factor=8)
    rebuilt = (u * (s / scales[:, 0])[:, None]) @ vt
    assert_small(rebuilt - a / scales.astype(np.float64), identity * n, n + 3, dtype, factor=8)
    _, values, _, _ = gesdd(device, a, "N")
    assert (np.abs(values - s) <= 8 * n * (n + 3) * np.finfo(dtype).eps * scales[:, 0]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_matrices_that_are_not_finite(device: Any, value: float) -> None:
    a = symmetric(5, np.float32)
    a[9, 3, 3] = value
    v, w, info = syevd(device, a, LOWER)
    assert info[9] == -4
    assert np.isnan(v[9]).all()
    assert np.isnan(w[9]).all()
    assert (np.delete(info, 9) == 0).all()
    u, s, vt, info = gesdd(device, a)
    assert info[9] == -4
    assert all(np.isnan(x[9]).all() for x in (u, s, vt))
    assert all(np.isfinite(np.delete(x, 9, axis=0)).all() for x in (u, s, vt, w, v))


@pytest.mark.parametrize("n", [3, 8, 21])
def test_a_matrix_does_not_depend_on_its_neighbours(device: Any, n: int) -> None:
    """The same bits at any place of a batch, and beside other matrices."""
    a, p = general(n, np.float32, 40), positive(n, np.float32, 40)
    everything = [*getrf(device, a), *qr(device, a), cholesky(device, p, 1)]
    reverse = [*getrf(device, a[::-1]), *qr(device, a[::-1]), cholesky(device, p[::-1].copy(), 1)]
    for x, y in zip(everything, reverse, strict=True):
        np.testing.assert_array_equal(x, y[::-1])


#: Normal numbers whose inverse is finite are larger.
TINY = {np.float32: 1e-39, np.float64: 1e-309}


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [2, 3, 4, 7, 12, 33])
def test_neighbours_of_a_tiny_matrix_have_the_same_lu(device: Any, n: int, dtype: Any) -> None:
    a = general(n, dtype, 16)
    beside = a.copy()
    beside[5] = a[5] * dtype(TINY[dtype])
    assert np.abs(beside[5]).max() < np.finfo(dtype).tiny * 10
    for expected, found in zip(getrf(device, a), getrf(device, beside), strict=True):
        np.testing.assert_array_equal(np.delete(found, 5, 0), np.delete(expected, 5, 0))
    lu = getrf(device, beside)[0]
    assert np.isfinite(lu).all()
    assert (np.abs(np.tril(lu, -1)) <= 1).all()


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("sides", [1, 2, 9])
def test_tiny_pivots_and_their_neighbours(device: Any, sides: int, dtype: Any) -> None:
    n, tiny = 6, dtype(TINY[dtype])
    a, b = np.tril(general(n, dtype, 16)) + 2 * np.eye(n, dtype=dtype), normal(16, n, sides)
    b = b.astype(dtype)
    config = {"left_side": 1, "lower": 1, "unit_diagonal": 0, "transpose_a": "NO_TRANSPOSE"}
    (expected,) = run(device, "triangular-solve", [a, b], [shape_of(b)], config)
    a[5], b[5] = tiny * np.eye(n, dtype=dtype), tiny
    (x,) = run(device, "triangular-solve", [a, b], [shape_of(b)], config)
    assert (x[5] == 1).all()
    np.testing.assert_array_equal(np.delete(x, 5, 0), np.delete(expected, 5, 0))


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [3, 16])
def test_row_major_matrices(device: Any, n: int, dtype: Any) -> None:
    """The same bits as of column-major ones, and LAPACK's where a matrix is left to it."""
    a, s = general(n, dtype), symmetric(n, dtype)
    a[4], s[5, 1, 1], a[7] = 0, np.nan, 1  # of rank 0, of none, of rank 1
    rows = {"row_major": 1}
    shape, values, infos = shape_of(a), array(dtype, BATCH, n), info_of(a)
    pivots = array(np.int32, BATCH, n)
    got = run(device, "getrf", [a], [shape, pivots, infos], rows)
    for x, y in zip(got, getrf(device, a), strict=True):
        np.testing.assert_array_equal(x, y)
    packed, tau = run(device, "geqrf", [a], [shape, values], rows)
    (q,) = run(device, "orgqr", [packed, tau], [shape], rows)
    np.testing.assert_array_equal(q, qr(device, a)[0])
    for uplo in (LOWER, UPPER):
        got = run(
            device, "syevd", [s], [shape, values, infos], {"uplo": uplo, "mode": VECTORS, **rows}
        )
        for x, y in zip(got, syevd(device, s, uplo), strict=True):
            np.testing.assert_array_equal(x, y)
    mode = {"mode": ord("A"), **rows}
    _, values, u, vt, info = run(device, "gesdd", [a], [shape, values, shape, shape, infos], mode)
    for x, y in zip((u, values, vt, info), gesdd(device, a), strict=True):
        np.testing.assert_array_equal(x, y)


def test_row_major_matrices_that_are_not_in_lanes_are_refused() -> None:
    a = np.zeros((1, 3, 3), np.float32)
    results = [shape_of(a), Shape(dtypes.F32, (1, 3))]
    code, message = status(lambda: load("geqrf", [a], results, {"row_major": 1}))
    assert code == "INVALID_ARGUMENT"
    assert "order 3" in message
    code, _ = status(lambda: load("cholesky", [a], [shape_of(a)], {"lower": 1, "symmetrize": 1}))
    assert code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("lower", [0, 1])
def test_symmetrized_matrices(device: Any, lower: int, dtype: Any) -> None:
    """The factors of (a + a^T) / 2, with the same bits; a sum that overflows has none."""
    a = positive(9, dtype) + 0.1 * general(9, dtype)
    a[3, 2, 2] = np.finfo(dtype).max
    with np.errstate(over="ignore"):
        mean = (a + np.swapaxes(a, -1, -2)) * dtype(0.5)
    config = {"lower": lower, "symmetrize": 1}
    (got,) = run(device, "cholesky", [a], [shape_of(a)], config)
    np.testing.assert_array_equal(got, cholesky(device, mean, lower))
    assert np.isnan(got[3, 0, 0])


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_few_matrices(device: Any, batch: int) -> None:
    a, p = general(4, np.float32, batch), positive(4, np.float32, batch)
    lu, pivots, info = getrf(device, a)
    assert (lu.shape, pivots.shape, info.shape) == (a.shape, (batch, 4), (batch,))
    l = cholesky(device, p, 1)
    np.testing.assert_allclose(l @ swap(l), p, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_on_cpus_with_shorter_vectors(cpu: str) -> None:
    """The same tests in a process that behaves as another CPU."""
    if os.uname().machine != "x86_64":
        pytest.skip("the names are of x86-64 CPUs")
    chosen = "test_cholesky and 11 or test_lu and 11 or test_qr and 8 or test_eigen or singular or neighbours"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider"]
    process = subprocess.run(
        [*command, __file__, "-k", f"({chosen}) and not test_on_cpus"],
        env={**os.environ, "TRIPONT_CPU": cpu},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    assert " passed" in process.stdout
