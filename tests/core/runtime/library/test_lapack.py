"""Library calls of LAPACK: values, refusals, and a machine without LAPACK.

tests/frontends/jax/test_linalg.py has all decompositions. Matrices are column-major here: an array [n, m] is a matrix
of m rows and n columns.
"""

from __future__ import annotations

import ctypes
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

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
RNG = np.random.default_rng(0)
UPPER, LOWER, VECTORS = ord("U"), ord("L"), ord("V")
INFO = Shape(dtypes.S32, (3,))


def matrices(shape: tuple[int, ...], dtype: Any) -> Any:
    x = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    return x.astype(dtype)


def real(dtype: Any, dims: tuple[int, ...]) -> Shape:
    return Shape(dtypes.from_numpy(np.zeros(0, dtype).real.dtype), dims)


def columns(x: Any) -> Any:
    return np.ascontiguousarray(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 4, 33])
def test_getrf_solves(device: Any, dtype: Any, n: int) -> None:
    a = matrices((3, n, n), dtype)
    lu, pivots, info = run(
        device, "getrf", [columns(a)], [shape_of(a), Shape(dtypes.S32, (3, n)), INFO], {}
    )
    (permutation,) = run(
        device, "lu-pivots-to-permutation", [pivots - 1], [Shape(dtypes.S32, (3, n))], {}
    )
    assert (info == 0).all()
    lu = columns(lu)
    product = (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
    rows = np.take_along_axis(a, permutation[..., None], axis=-2)
    assert np.abs(product - rows).max() <= 10 * n * np.finfo(dtype).eps * np.abs(a).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [(300, 300), (257, 600), (600, 300)])
def test_getrf_in_tiles(device: Any, dims: tuple[int, int], dtype: Any) -> None:
    """Factors of several tiles, one of which has a pivot of 0."""
    a = matrices((1, *dims), dtype)
    a[0, :, 200] = 0
    k = min(dims)
    shapes = [shape_of(columns(a)), Shape(dtypes.S32, (1, k)), Shape(dtypes.S32, (1,))]
    lu, pivots, info = run(device, "getrf", [columns(a)], shapes, {})
    assert info[0] == 201
    lu, rows = columns(lu)[0].astype(np.complex128), a[0].astype(np.complex128)
    for j, p in enumerate(pivots[0] - 1):
        rows[[j, p]] = rows[[p, j]]
    lower = np.tril(lu, -1)[:, :k] + np.eye(dims[0], k)
    assert np.abs(lower).max() <= 1.5  # LAPACK chooses pivots by |re| + |im|
    error = np.linalg.norm(lower @ np.triu(lu)[:k] - rows)
    assert error <= 4 * k * np.finfo(dtype).eps * np.linalg.norm(rows)


@pytest.mark.parametrize("dtype", DTYPES)
def test_syevd_reads_one_triangle(device: Any, dtype: Any) -> None:
    x = matrices((3, 6, 6), dtype)
    a = x + np.conj(np.swapaxes(x, -1, -2))
    for uplo, triangle in ((LOWER, np.tril), (UPPER, np.triu)):
        half = np.where(triangle(np.ones((6, 6))) > 0, a, np.nan).astype(dtype)
        v, w, info = run(
            device,
            "syevd",
            [columns(half)],
            [shape_of(a), real(dtype, (3, 6)), INFO],
            {"uplo": uplo, "mode": VECTORS},
        )
        v = columns(v)
        assert (info == 0).all()
        residual = a @ v - v * w[:, None, :]
        assert np.abs(residual).max() <= 100 * np.finfo(dtype).eps * np.abs(a).max()


def test_not_finite(device: Any) -> None:
    a = np.stack([np.eye(3), np.full((3, 3), np.nan), np.eye(3)]).astype(np.float32)
    v, w, info = run(
        device,
        "syevd",
        [a],
        [shape_of(a), real(np.float32, (3, 3)), INFO],
        {"uplo": LOWER, "mode": VECTORS},
    )
    np.testing.assert_array_equal(info, [0, -4, 0])
    assert np.isnan(v[1]).all()
    assert np.isnan(w[1]).all()
    np.testing.assert_array_equal(w[[0, 2]], 1)


def test_singular_matrices_say_so(device: Any) -> None:
    a = np.zeros((3, 2, 2))
    _, _, info = run(device, "getrf", [a], [shape_of(a), Shape(dtypes.S32, (3, 2)), INFO], {})
    np.testing.assert_array_equal(info, [1, 1, 1])
    _, info = run(device, "potrf", [a - np.eye(2)], [shape_of(a), INFO], {"uplo": LOWER})
    np.testing.assert_array_equal(info, [1, 1, 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_trsm(device: Any, dtype: Any) -> None:
    a = np.tril(matrices((4, 4), dtype)) + 4 * np.eye(4, dtype=dtype)
    b = matrices((4, 2), dtype)
    attributes = {"side": LOWER, "uplo": LOWER, "trans_x": ord("C"), "diag": ord("N")}
    (x,) = run(device, "trsm", [columns(a), columns(b)], [shape_of(columns(b))], attributes)
    np.testing.assert_allclose(np.conj(a.T) @ columns(x), b, rtol=1e-3, atol=1e-5)


A = np.zeros((3, 4, 4), np.float32)


@pytest.mark.parametrize(
    ("name", "operands", "results", "attributes", "words"),
    [
        ("getrf", [A], [shape_of(A)], {}, ["1 operands and 3 results"]),
        ("geqrf", [A], [shape_of(A), Shape(dtypes.F32, (3, 5))], {}, ["result 1", "f32[batch,4]"]),
        ("geqrf", [A[0, 0]], [shape_of(A[0, 0])] * 2, {}, ["at least 2 dimensions"]),
        ("geqrf", [A], [shape_of(A), Shape(dtypes.F32, (3, 4))], {"x": 1}, ["x"]),
        ("geqrf", [A.astype(np.int32)], [shape_of(A)] * 2, {}, ["s32", "LAPACK has f32"]),
        ("potrf", [A], [shape_of(A), INFO], {"uplo": 7}, ["uplo is 7", "LU"]),
        ("gehrd", [A], [shape_of(A), Shape(dtypes.F32, (3, 3)), INFO], {"low": 3, "high": 9}, ["high = 9"]),
        ("orgqr", [A, np.zeros((3, 5), np.float32)], [shape_of(A)], {}, ["5 reflectors"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    name: str, operands: Any, results: Any, attributes: Any, words: list[str]
) -> None:
    code, message = status(lambda: load(name, operands, results, attributes))
    assert code in ("INVALID_ARGUMENT", "UNIMPLEMENTED")
    for word in words:
        assert word in message


WITHOUT_LAPACK = """
import numpy as np
from tests.core.runtime.library.calls import load, shape_of
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape
a = np.eye(3, dtype=np.float32)
try:
    load("geqrf", [a], [shape_of(a), Shape(dtypes.F32, (3,))], {})
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nowhere/liblapack.so", ["UNAVAILABLE", "/nowhere/liblapack.so", "scipy-openblas32"]),
        ("{libtripont}", ["UNAVAILABLE", "sgetrf_", "scipy-openblas32"]),
        ("{text}", ["UNAVAILABLE", "cannot load"]),
    ],
    ids=["missing", "other library", "no library"],
)
def test_without_lapack(
    subprocess_environment: dict[str, str], tmp_path: Any, path: str, words: list[str]
) -> None:
    from tripont import library_path

    text = tmp_path / "liblapack.so"
    text.write_text("not a library")
    environment = subprocess_environment | {
        "TRIPONT_LAPACK_PATH": path.format(libtripont=library_path(), text=text),
        "PYTHONPATH": os.getcwd(),
    }
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_LAPACK],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    for word in words:
        assert word in result.stdout, result.stderr


def openblas_threads() -> tuple[Any, Any]:
    """(get, set): functions of the OpenBLAS with 32-bit integers that this process has loaded."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for prefix in ("scipy_", ""):
            name = f"{prefix}openblas_%s_num_threads"
            if hasattr(library, name % "get"):
                return getattr(library, name % "get"), getattr(library, name % "set")
    pytest.skip("this LAPACK is not OpenBLAS: it has no number of threads")


def test_a_batch_leaves_the_number_of_threads_that_the_program_chose(device: Any) -> None:
    """With threadpoolctl, say, after the library was opened."""
    a = matrices((64, 48, 48), np.float32)

    def factor() -> None:
        run(
            device,
            "getrf",
            [columns(a)],
            [shape_of(a), Shape(dtypes.S32, (64, 48)), Shape(dtypes.S32, (64,))],
            {},
        )

    factor()
    get, set_ = openblas_threads()
    before = get()
    try:
        for threads in (before + 1, 1):
            set_(threads)
            factor()
            assert get() == threads
    finally:
        set_(before)
