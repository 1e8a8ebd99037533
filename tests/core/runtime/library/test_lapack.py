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

from tests.starter import run_with_jax

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
@pytest.mark.parametrize("row_major", [0, 1])
def test_getrf_in_tiles(device: Any, row_major: int, dims: tuple[int, int], dtype: Any) -> None:
    """Factors of several tiles, one of which has a pivot of 0."""
    a = matrices((1, *dims), dtype)
    a[0, :, 200] = 0
    k = min(dims)
    given = a if row_major else columns(a)
    shapes = [shape_of(given), Shape(dtypes.S32, (1, k)), Shape(dtypes.S32, (1,))]
    lu, pivots, info = run(device, "getrf", [given], shapes, {"row_major": row_major})
    assert info[0] == 201
    lu = (lu if row_major else columns(lu))[0].astype(np.complex128)
    rows = a[0].astype(np.complex128)
    for j, p in enumerate(pivots[0] - 1):
        rows[[j, p]] = rows[[p, j]]
    lower = np.tril(lu, -1)[:, :k] + np.eye(dims[0], k)
    assert np.abs(lower).max() <= 1.5  # LAPACK chooses pivots by |re| + |im|
    error = np.linalg.norm(lower @ np.triu(lu)[:k] - rows)
    assert error <= 4 * k * np.finfo(dtype).eps * np.linalg.norm(rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [(33, 33), (100, 100), (300, 64), (64, 300), (257, 229)])
def test_qr_in_panels(device: Any, dims: tuple[int, int], dtype: Any) -> None:
    """Several panels and pieces of columns, and a column that depends on those before it."""
    m = dims[0]
    k = min(dims)
    a = matrices((1, *dims), dtype)
    a[0, :, 20] = a[0, :, 3]
    shapes = [shape_of(columns(a)), Shape(dtypes.from_numpy(np.dtype(dtype)), (1, k))]
    qr, tau = run(device, "geqrf", [columns(a)], shapes, {})
    r = np.triu(columns(qr)[0])
    reflectors = np.ascontiguousarray(qr[:, :k])
    (q,) = run(device, "orgqr", [reflectors, tau], [shape_of(reflectors)], {})
    q = columns(q)[0].astype(np.complex128)
    bound = 10 * np.sqrt(m * k) * np.finfo(dtype).eps
    assert np.linalg.norm(q.conj().T @ q - np.eye(k)) <= bound
    assert np.linalg.norm(q @ r[:k] - a[0]) <= bound * np.linalg.norm(a)
    # More columns of Q than there are reflectors.
    wide = np.zeros((1, m, m), dtype)
    wide[:, :k] = reflectors
    (whole,) = run(device, "orgqr", [wide, tau], [shape_of(wide)], {})
    whole = columns(whole)[0].astype(np.complex128)
    assert np.linalg.norm(whole.conj().T @ whole - np.eye(m)) <= 10 * m * np.finfo(dtype).eps
    assert np.linalg.norm(whole[:, :k] - q) <= bound


def spectrum(kind: str, n: int) -> Any:
    """Eigenvalues that divide and conquer joins in different ways."""
    if kind == "two values":  # nearly all of them are the same
        return np.where(np.arange(n) < n // 3, 2.0, -1.0)
    if kind == "graded":
        return 0.5 ** (np.arange(n) / 8.0)
    return RNG.standard_normal(n) * {"tiny": 1e-30, "huge": 1e30}.get(kind, 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["any", "two values", "graded", "tiny", "huge"])
@pytest.mark.parametrize("n", [33, 129, 300])
def test_syevd_in_steps(device: Any, n: int, kind: str, dtype: Any) -> None:
    """Undivided, in halves and in quarters, from either triangle."""
    q, _ = np.linalg.qr(matrices((n, n), np.complex128 if np.dtype(dtype).kind == "c" else float))
    a = (q * spectrum(kind, n)) @ q.conj().T
    a = ((a + a.conj().T) / 2).astype(dtype)
    for uplo, triangle in ((LOWER, np.tril), (UPPER, np.triu)):
        half = np.where(triangle(np.ones((n, n))) > 0, a, np.nan).astype(dtype)[None]
        shapes = [shape_of(half), real(dtype, (1, n)), Shape(dtypes.S32, (1,))]
        attributes = {"uplo": uplo, "mode": VECTORS}
        v, w, info = run(device, "syevd", [columns(half)], shapes, attributes)
        v, w, wide = columns(v)[0].astype(np.complex128), w[0], a.astype(np.complex128)
        assert info[0] == 0
        assert (np.diff(w) >= 0).all()
        bound = 4 * n * np.finfo(dtype).eps
        assert np.linalg.norm(v.conj().T @ v - np.eye(n)) <= bound
        assert np.linalg.norm(wide @ v - v * w) <= bound * np.linalg.norm(wide, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("kind", ["any", "two values", "tiny", "huge"])
@pytest.mark.parametrize("n", [1, 20, 128, 300])
def test_syevd_of_values_alone(device: Any, n: int, kind: str, dtype: Any) -> None:
    """From either triangle. Each of n reflections rounds an element four times, by half a unit at most, and roundings
    add up as random ones do: sqrt(4 n) / 2 units. A complex product has sqrt(5) roundings.
    """
    q, _ = np.linalg.qr(matrices((n, n), np.complex128 if np.dtype(dtype).kind == "c" else float))
    a = (q * spectrum(kind, n)) @ q.conj().T
    a = ((a + a.conj().T) / 2).astype(dtype)
    want = np.linalg.eigvalsh(a.astype(np.complex128))
    for uplo, triangle in ((LOWER, np.tril), (UPPER, np.triu)):
        half = np.where(triangle(np.ones((n, n))) > 0, a, np.nan).astype(dtype)[None]
        shapes = [shape_of(half), real(dtype, (1, n)), Shape(dtypes.S32, (1,))]
        attributes = {"uplo": uplo, "mode": ord("N")}
        _, w, info = run(device, "syevd", [columns(half)], shapes, attributes)
        assert info[0] == 0
        assert (np.diff(w[0]) >= 0).all()
        roundings = 5**0.5 if np.dtype(dtype).kind == "c" else 1.0
        bound = roundings * max(8, n**0.5) * np.finfo(dtype).eps * np.abs(want).max()
        assert np.abs(w[0] - want).max() <= bound


def test_syevd_of_diagonal_matrices(device: Any) -> None:
    """Nothing is beside the diagonal: each half is joined without a change."""
    values = RNG.permutation(np.arange(300.0))
    a = np.diag(values)[None]
    shapes = [shape_of(a), real(np.float64, (1, 300)), Shape(dtypes.S32, (1,))]
    for scale in (1.0, 0.0):
        v, w, info = run(device, "syevd", [a * scale], shapes, {"uplo": LOWER, "mode": VECTORS})
        assert info[0] == 0
        np.testing.assert_array_equal(w[0], np.arange(300.0) * scale)
        np.testing.assert_array_equal(np.abs(v[0]).sum(0), 1)
        np.testing.assert_array_equal(np.abs(v[0]).sum(1), 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", "SA")
@pytest.mark.parametrize(
    ("dims", "scale"),
    [((33, 33), 1), ((120, 100), 1e30), ((100, 120), 1e-30), ((260, 70), 1), ((70, 260), 1)],
)
def test_gesdd_in_steps(
    device: Any, dims: tuple[int, int], scale: float, mode: str, dtype: Any
) -> None:
    """Nearly square, tall and wide matrices, of which a column and a row depend on others."""
    (m, n), k = dims, min(dims)
    a = matrices((1, *dims), dtype) * np.asarray(scale, dtype)
    a[0, :, 20], a[0, 20] = a[0, :, 3], a[0, 3]
    rows, vectors = (m, n) if mode == "A" else (k, k)
    element = dtypes.from_numpy(np.dtype(dtype))
    shapes = [
        shape_of(columns(a)),
        real(dtype, (1, k)),
        Shape(element, (1, rows, m)),
        Shape(element, (1, n, vectors)),
        Shape(dtypes.S32, (1,)),
    ]
    _, s, u, vt, info = run(device, "gesdd", [columns(a)], shapes, {"mode": ord(mode)})
    assert info[0] == 0
    assert (np.diff(s[0]) <= 0).all()
    u, vt = columns(u)[0].astype(np.complex128), columns(vt)[0].astype(np.complex128)
    s = s[0].astype(float)
    bound = 4 * max(dims) * np.finfo(dtype).eps
    assert np.linalg.norm(u.conj().T @ u - np.eye(rows)) <= bound
    assert np.linalg.norm(vt @ vt.conj().T - np.eye(vectors)) <= bound
    assert np.linalg.norm((u[:, :k] * s) @ vt[:k] - a[0]) <= bound * s[0]


def test_workspace_of_singular_vectors() -> None:
    """What LAPACK's divide and conquer takes (3 n^2 numbers) and, of a tall matrix, its R; the steps before and
    after it lie in the same memory. The largest allocation is that of a process: sizes grow.
    """
    n = 200
    program = (
        "import jax, numpy as np\n"
        "for m in (240, 400):\n"
        f"  jax.numpy.linalg.svd(np.ones((m, {n}), np.float32), full_matrices=False)[0].block_until_ready()\n"
        "  print(jax.devices()[0].memory_stats()['largest_alloc_size'])\n"
    )
    done = run_with_jax(program, {**os.environ, "JAX_PLATFORMS": "xpu"}, timeout=280)
    assert done.returncode == 0, done.stderr
    for squares, size in zip((3, 4), map(int, done.stdout.split()), strict=True):
        # A third of a square more: what the steps take besides, and the rounding of sizes to a class.
        assert size <= (squares + 1 / 3) * n * n * 4


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
@pytest.mark.parametrize("letters", ["LLN", "LUN", "LLT", "LUC", "RLN", "RUN", "RUT", "RLC"])
def test_trsm_of_vectors_in_blocks(device: Any, letters: str, dtype: Any) -> None:
    """Three right-hand sides of three blocks, the last of which is short."""
    side, uplo, transpose = letters
    n = 600
    a = matrices((1, n, n), dtype) / n + 2 * np.eye(n, dtype=dtype)
    triangle = (np.tril if uplo == "L" else np.triu)(a[0])
    op = {"N": triangle, "T": triangle.T, "C": triangle.conj().T}[transpose].astype(np.complex128)
    b = matrices((1, n, 3) if side == "L" else (1, 3, n), dtype)
    attributes = {"side": ord(side), "uplo": ord(uplo), "trans_x": ord(transpose), "diag": ord("N")}
    (x,) = run(device, "trsm", [columns(a), columns(b)], [shape_of(columns(b))], attributes)
    x = columns(x)[0].astype(np.complex128)
    error = (op @ x if side == "L" else x @ op) - b[0]
    assert np.abs(error).max() <= 40 * np.finfo(dtype).eps * np.abs(b).max()


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
