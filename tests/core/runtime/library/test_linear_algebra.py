"""Library calls "cholesky", "cholesky-gradient" and "triangular-solve"."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
import scipy.linalg
from tripont.core import _tripont
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.starter import run_with_jax

from ..conftest import status
from .calls import load, run, shape_of

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
# Smaller than, equal to and larger than what is one tile (256), and several tiles.
SIZES = [1, 2, 5, 16, 17, 64, 130, 256, 257, 400]
RNG = np.random.default_rng(0)


def matrices(n, dtype):
    x = RNG.standard_normal((2, n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal((2, n, n))
    return x


def adjoint(x):
    return x.conj().swapaxes(-1, -2)


def tolerance(dtype):
    return 1e-4 if dtype in (np.float32, np.complex64) else 1e-12


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [0, 1])
def test_cholesky(device, dtype, lower):
    for n in SIZES:
        x = matrices(n, dtype)
        a = (x @ adjoint(x) + n * np.eye(n)).astype(dtype)
        triangle = (np.tril if lower else np.triu)(a)
        (got,) = run(device, "cholesky", [triangle], [shape_of(a)], {"lower": lower})
        want = np.linalg.cholesky(a.astype(np.complex128))
        want = want if lower else adjoint(want)
        assert np.abs(got - want).max() <= tolerance(dtype) * np.abs(want).max(), n


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 100, 400])
def test_not_positive_definite_gives_nans(device, n, dtype):
    """Of the matrices of a batch those alone that are not, or hold a NaN or an infinity where it is read."""
    eye = np.eye(n).astype(dtype)
    beside, far, infinite, last = (eye.copy() for _ in range(4))
    beside[1, 0] = beside[0, 1] = np.nan
    far[-1, 0] = far[0, -1] = np.inf
    infinite[n // 2, n // 2] = np.inf
    last[-1, -1] = 0
    a = np.stack([eye, -eye, beside, far, infinite, last, eye])
    for lower in (0, 1):
        (got,) = run(device, "cholesky", [a], [shape_of(a)], {"lower": lower})
        np.testing.assert_array_equal(got[[0, -1]], a[[0, -1]])
        triangle = (np.tril if lower else np.triu)(np.ones((n, n))) > 0
        assert np.isnan(got[1:-1][:, triangle]).all()
        assert (got[1:-1][:, ~triangle] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(device, dtype, transpose):
    # Up to four right-hand sides, in one block and in several (of 256), more together, and in several slices.
    few = [(5, 1), (17, 1), (17, 4), (130, 3), (300, 1), (275, 2), (529, 4)]
    for n, sides in [*few, (1, 7), (16, 7), (65, 7), (257, 70)]:
        base = matrices(n, dtype) / n + 2 * np.eye(n)
        for left, lower, unit in itertools.product((0, 1), repeat=3):
            # The other triangle, and a unit diagonal, must not be read: they hold NaN.
            a = (np.tril if lower else np.triu)(base).astype(dtype)
            solved = a.astype(np.complex128)
            poisoned = np.where(
                (np.tril if lower else np.triu)(np.ones((n, n))) == 0, np.nan, a
            ).astype(dtype)
            if unit:
                solved[:, np.arange(n), np.arange(n)] = 1
                poisoned[:, np.arange(n), np.arange(n)] = np.nan
            if transpose == "TRANSPOSE":
                solved = solved.swapaxes(-1, -2)
            elif transpose == "ADJOINT":
                solved = adjoint(solved)
            b = RNG.standard_normal((2, n, sides) if left else (2, sides, n)).astype(dtype)
            if np.dtype(dtype).kind == "c":
                b *= 1 + 0.5j
            if left:
                want = np.linalg.solve(solved, b)
            else:
                want = np.linalg.solve(solved.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)
            config = {
                "left_side": left,
                "lower": lower,
                "unit_diagonal": unit,
                "transpose_a": transpose,
            }
            (got,) = run(device, "triangular-solve", [poisoned, b], [shape_of(b)], config)
            error = np.abs(got - want).max() / np.abs(want).max()
            assert error <= tolerance(dtype), (n, sides, left, lower, unit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_right_sides(device, dtype, transpose):
    """The solution of a triangle of op(a)'s kind, and nothing is written beside it; in one slice and in several."""
    for n in (1, 17, 100, 257, 400):
        base = matrices(n, dtype) / n + 2 * np.eye(n)
        for left, lower in itertools.product((0, 1), repeat=2):
            a = (np.tril if lower else np.triu)(base).astype(dtype)
            op = {"NO_TRANSPOSE": a, "TRANSPOSE": a.swapaxes(-1, -2), "ADJOINT": adjoint(a)}
            triangle = np.tril if lower == (transpose == "NO_TRANSPOSE") else np.triu
            b = triangle(matrices(n, dtype)).astype(dtype)
            wide, sides = op[transpose].astype(np.complex128), b
            if not left:
                wide, sides = wide.swapaxes(-1, -2), b.swapaxes(-1, -2)
            want = np.linalg.solve(wide, sides)
            want = want if left else want.swapaxes(-1, -2)
            config = {
                "left_side": left,
                "lower": lower,
                "unit_diagonal": 0,
                "transpose_a": transpose,
                "triangular_b": 1,
            }
            (got,) = run(device, "triangular-solve", [a, b], [shape_of(b)], config)
            assert np.abs(got - want).max() <= tolerance(dtype) * np.abs(want).max(), (n, left)
            assert (got == triangle(got)).all()


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("n", [96, 97, 200])
def test_triangular_right_sides_of_matrices_without_an_inverse(device, n, bad):
    """What solves the system as a whole gives, whatever the size: 0 over 0 is no 0."""
    base = (np.tril(matrices(n, np.float32)) / n + 2 * np.eye(n)).astype(np.float32)
    for left, place in itertools.product((0, 1), [(n // 2, n // 2), (n - 1, 3)]):
        if bad == 0 and place[0] != place[1]:
            continue
        a = base.copy()
        a[0, *place] = bad
        b = np.broadcast_to(np.eye(n, dtype=np.float32), a.shape).copy()
        config = {"left_side": left, "lower": 1, "unit_diagonal": 0, "transpose_a": "NO_TRANSPOSE"}
        (want,) = run(device, "triangular-solve", [a, b], [shape_of(b)], config)
        (got,) = run(
            device, "triangular-solve", [a, b], [shape_of(b)], config | {"triangular_b": 1}
        )
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_allclose(got[1], want[1], atol=tolerance(np.float32))
        assert np.isfinite(got[0]).all() == (np.isinf(bad) and place[0] == place[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("symmetric", [0, 1])
def test_cholesky_gradient(device, dtype, symmetric):
    """Against L^-T P L^-1, where P is the lower triangle of L^T G with half of its diagonal, or that made symmetric."""
    for n in [*range(1, 6), 31, 32, 33, 64, 65, 130, 257, 400]:
        x = matrices(n, np.float64)
        factor = np.linalg.cholesky(x @ adjoint(x) / n + np.eye(n))
        given = np.tril(matrices(n, np.float64))
        half = np.tril(factor.swapaxes(-1, -2) @ given) / (1 + np.eye(n))
        inverse = np.linalg.inv(factor)
        want = inverse.swapaxes(-1, -2) @ half @ inverse
        if symmetric:
            want = (want + want.swapaxes(-1, -2)) / 2
        # The triangles above are not read: they hold NaN, but for the factor's where it has to hold zeros.
        above = np.triu(np.full((n, n), np.nan), 1)
        factor, given = np.tril(factor) + (above if symmetric else 0), given + above
        operands = [factor.astype(dtype), given.astype(dtype)]
        (got,) = run(
            device, "cholesky-gradient", operands, [shape_of(operands[1])], {"symmetric": symmetric}
        )
        assert np.abs(got - want).max() <= tolerance(dtype) * np.abs(want).max(), n
        assert not symmetric or (got == got.swapaxes(-1, -2)).all()


def test_no_gradient_of_complex_factors(device):
    a = np.eye(3, dtype=np.complex64)
    code, message = status(
        lambda: load("cholesky-gradient", [a, a], [shape_of(a)], {"symmetric": 1})
    )
    assert code == "UNIMPLEMENTED"
    assert "complex" in message


# Of a lower and an upper triangle in both orders of rows and columns: solved from the first and from the last unknown.
WAYS = list(itertools.product((0, 1), ("NO_TRANSPOSE", "TRANSPOSE")))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("lower", "transpose"), WAYS)
def test_few_right_hand_sides_are_as_exact_as_lapack(device, dtype, lower, transpose):
    """At each order around the groups of 8 and 16 unknowns and the blocks of 256, also with a zero and an infinity."""
    random = np.random.default_rng(0)
    for n, sides in [*((n, 1 + n % 4) for n in range(1, 36)), (255, 1), (264, 2), (530, 3)]:
        a = (np.tril if lower else np.triu)(random.standard_normal((1, n, n)) / n + 2 * np.eye(n))
        a = a.astype(dtype)
        b = random.standard_normal((1, n, sides)).astype(dtype)
        config = {"left_side": 1, "lower": lower, "unit_diagonal": 0, "transpose_a": transpose}
        (got,) = run(device, "triangular-solve", [a, b], [shape_of(b)], config)
        trans = 0 if transpose == "NO_TRANSPOSE" else 1
        lapack = scipy.linalg.solve_triangular(a[0], b[0], lower=bool(lower), trans=trans)
        wide = a[0].astype(np.longdouble)
        # The backward error, element by element: what it would take to change a for this solution to be exact.
        wide = wide.T if trans else wide

        def backward(x, wide=wide, b=b):
            return np.max(np.abs(wide @ x - b[0]) / (np.abs(wide) @ np.abs(x) + np.abs(b[0])))

        limit = max(6 * np.finfo(dtype).eps, 1.5 * backward(lapack.astype(np.longdouble)))
        assert backward(got[0].astype(np.longdouble)) <= limit, (n, sides)
    # A pivot of zero divides as LAPACK's does.
    a[0, n // 2, n // 2] = 0
    (got,) = run(device, "triangular-solve", [a, b], [shape_of(b)], config)
    assert not np.isfinite(got[0, n // 2]).any()
    first = lower != trans  # whether the first unknown is solved first
    assert np.isfinite(got[0, : n // 2] if first else got[0, n // 2 + 1 :]).all()


DIGESTS = """
import hashlib
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    a = (random.standard_normal((700, 700)) / 700 + 2 * np.eye(700)).astype(dtype)
    for sides in (1, 3):
        b = random.standard_normal((700, sides)).astype(dtype)
        for lower in (False, True):
            for transpose in (False, True):
                x = jax.lax.linalg.triangular_solve(
                    a, b, left_side=True, lower=lower, transpose_a=transpose
                )
                print(hashlib.sha256(np.asarray(x).tobytes()).hexdigest())
    for symmetric in (False, True):
        factor = lambda m: jax.lax.linalg.cholesky(m, symmetrize_input=symmetric)
        x = jax.jit(jax.grad(lambda m: (factor(m) ** 2).sum()))(a @ a.T)
        print(hashlib.sha256(np.asarray(x).tobytes()).hexdigest())
"""


@pytest.mark.skipif(
    not _tripont.testing.has_tile_product(), reason="BLAS's bits may depend on threads"
)
def test_bits_do_not_depend_on_threads():
    """One thread reads columns to their ends, several share blocks of them out; Cholesky's gradients in pieces."""
    environment = {**os.environ, "JAX_PLATFORMS": "xpu"}
    one, two = (
        run_with_jax(DIGESTS, {**environment, "TRIPONT_NUM_THREADS": threads}, timeout=280)
        for threads in ("1", "2")
    )
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    assert len(one.stdout.split()) == 20
    assert one.stdout == two.stdout


def test_no_right_hand_sides(device):
    config = {"lower": 1, "unit_diagonal": 0, "transpose_a": "NO_TRANSPOSE"}
    for left, dims in [(0, (1, 0, 300)), (1, (1, 300, 0))]:
        b = np.zeros(dims, np.float32)
        (got,) = run(
            device, "triangular-solve", [np.eye(300, dtype=np.float32)[None], b], [shape_of(b)],
            {"left_side": left, **config},
        )  # fmt: skip
        assert got.shape == dims


@pytest.mark.skipif(
    not _tripont.testing.has_tile_product(), reason="BLAS's bits may depend on sizes"
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE"])
def test_solutions_do_not_depend_on_those_beside(device, transpose, left, dtype):
    """A right-hand side has the same bits among 5, 150 and 1,100, which are slices of other sizes, and among 1 to 4."""
    n = 290
    a = np.tril(matrices(n, dtype)[0] / n + 2 * np.eye(n)).astype(dtype)[None]
    b = RNG.standard_normal((1, n, 1100)).astype(dtype)
    config = {"left_side": left, "lower": 1, "unit_diagonal": 0, "transpose_a": transpose}

    def solve(sides):
        x = np.ascontiguousarray(b[..., :sides] if left else b[..., :sides].swapaxes(-1, -2))
        (got,) = run(device, "triangular-solve", [a, x], [shape_of(x)], config)
        return got if left else got.swapaxes(-1, -2)

    for several, many in [((5, 150), 1100), ((1, 2, 3), 4)]:
        everything = solve(many)
        for sides in several:
            assert (solve(sides) == everything[..., :sides]).all(), sides


@pytest.mark.skipif(
    not _tripont.testing.has_tile_product(), reason="BLAS's bits may depend on sizes"
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_do_not_depend_on_columns_behind(device, dtype):
    """Of a wide matrix, whose last columns are a slice of another size."""
    m, n = 400, 405
    a = RNG.standard_normal((1, 700, m)).astype(dtype)  # column-major

    def factors(columns):
        x = np.ascontiguousarray(a[:, :columns])
        results = [shape_of(x), Shape(dtypes.S32, (1, m)), Shape(dtypes.S32, (1,))]
        return run(device, "getrf", [x], results, {})[0][:, :n]

    everything = factors(700)
    for columns in (n, n + 1, n + 20):
        assert (factors(columns) == everything).all(), columns


def test_shapes_are_checked():
    a, b = np.zeros((3, 3), np.float32), np.zeros((4, 2), np.float32)
    config = {"left_side": 1, "lower": 1, "unit_diagonal": 0, "transpose_a": "NO_TRANSPOSE"}
    code, message = status(lambda: load("triangular-solve", [a, b], [shape_of(b)], config))
    assert code == "INVALID_ARGUMENT"
    assert "f32[3,3]" in message
    code, message = status(lambda: load("cholesky", [b], [shape_of(b)], {"lower": 1}))
    assert code == "INVALID_ARGUMENT"
    code, message = status(
        lambda: load("cholesky", [a.astype(np.int32)], [Shape(dtypes.S32, (3, 3))], {"lower": 1})
    )
    assert code == "UNIMPLEMENTED"
    assert "s32" in message


WITHOUT_LAPACK = """
import jax, jax.numpy as jnp
a = jnp.eye(3)
for solve in (jnp.linalg.cholesky, lambda a: jax.lax.linalg.triangular_solve(a, a)):
    try:
        solve(a)
    except Exception as error:
        print(error)
"""


def test_without_lapack(tmp_path):
    """The error says which library is missing, and where it was looked for."""
    path = str(tmp_path / "liblapack.so")
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "xpu",
        "TRIPONT_LAPACK_PATH": path,
        "TRIPONT_CACHE": "0",
    }
    done = run_with_jax(WITHOUT_LAPACK, environment, timeout=280)
    assert done.returncode == 0, done.stderr
    for words in ("UNAVAILABLE", "scipy-openblas32", path):
        assert done.stdout.count(words) >= 2, done.stdout + done.stderr


def test_results_do_not_depend_on_threads():
    """Nor on how many pieces of columns a task has; of the numbers of columns some are no multiple of a piece."""
    program = (
        "import hashlib, jax, jax.numpy as jnp, numpy as np\n"
        "jax.config.update('jax_enable_x64', True)\n"
        "for dtype in (np.float32, np.float64):\n"
        "  for n in (600, 1030):\n"
        "    x = np.random.default_rng(0).standard_normal((n, n)).astype(dtype)\n"
        "    factor = jnp.linalg.cholesky(x @ x.T + n * np.eye(n, dtype=dtype))\n"
        "    solved = jax.lax.linalg.triangular_solve(factor, x, left_side=True, lower=True)\n"
        "    few = [jax.lax.linalg.triangular_solve(factor, x[:, :c], left_side=True, lower=True) for c in (1, 4)]\n"
        "    for result in (factor, solved, *few, *jax.lax.linalg.lu(x)):\n"
        "      print(hashlib.sha256(np.asarray(result).tobytes()).hexdigest())\n"
    )
    outputs = set()
    for threads in ("1", "3", "16"):
        environment = {**os.environ, "JAX_PLATFORMS": "xpu", "TRIPONT_NUM_THREADS": threads}
        done = run_with_jax(program, environment, timeout=280)
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
