"""Linear algebra on xpu: every decomposition by its residual, and JAX's semantics of batches, gradients and bad input.

A backward stable algorithm gives factors whose product differs from the matrix by a small multiple of n eps |A|
(Higham, Accuracy and Stability of Numerical Algorithms, chapters 9 and 19); :func:`check_small` allows 30 times that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax._src.lax import linalg as lax_linalg
from jax.test_util import check_grads

Array = np.ndarray[Any, Any]

DTYPES = ["float32", "float64", "complex64", "complex128"]
# Wide, tall, square; of one row; larger than the blocks of LAPACK; a batch that runs on several threads.
SHAPES = [(3, 5), (2, 6, 4), (5, 5), (1, 4), (70, 70), (40, 20, 20)]
SQUARE = [(1, 1), (5, 5), (2, 3, 6, 6), (70, 70), (40, 20, 20)]


@pytest.fixture(autouse=True)
def _on_xpu(xpu: Any) -> Iterator[None]:
    with jax.enable_x64(True), jax.default_device(xpu):
        yield


def matrix(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def hermitian(shape: tuple[int, ...], dtype: str) -> Array:
    a = matrix(shape, dtype)
    return (a + adjoint(a)) / 2


def adjoint(a: Any) -> Any:
    return np.conj(np.swapaxes(a, -1, -2))


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    return jax.tree.map(np.asarray, jax.jit(function)(*arguments))


def check_small(difference: Any, like: Any) -> None:
    """``difference`` is rounding error of factors of ``like``, in the precision of ``like``'s dtype."""
    order = max((1, *like.shape[-2:]))
    bound = 30 * order * np.finfo(like.dtype).eps * max(1.0, np.abs(like).max(initial=0))
    assert np.abs(difference).max(initial=0) <= bound


def check_orthonormal(q: Array) -> None:
    check_small(adjoint(q) @ q - np.eye(q.shape[-1]), q)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
class TestFactorizations:
    @pytest.mark.parametrize("mode", ["reduced", "complete"])
    def test_qr(self, shape: tuple[int, ...], dtype: str, mode: str) -> None:
        a = matrix(shape, dtype)
        q, r = run(lambda x: jnp.linalg.qr(x, mode=mode), a)
        assert q.dtype == r.dtype == a.dtype
        check_small(q @ r - a, a)
        check_orthonormal(q)
        assert (np.tril(r, -1) == 0).all()

    def test_qr_with_pivots(self, shape: tuple[int, ...], dtype: str) -> None:
        a = matrix(shape, dtype).reshape(-1, *shape[-2:])[0]
        q, r, pivots = run(lambda x: jsl.qr(x, pivoting=True, mode="economic"), a)
        check_small(q @ r - a[:, pivots], a)
        check_orthonormal(q)
        diagonal = np.abs(np.diagonal(r))
        assert (np.diff(diagonal) <= 1e-5).all(), "the pivots are chosen by size"

    def test_lu(self, shape: tuple[int, ...], dtype: str) -> None:
        a = matrix(shape, dtype)
        lu, pivots, permutation = run(jax.lax.linalg.lu, a)
        k = min(shape[-2:])
        lower = np.tril(lu[..., :, :k], -1) + np.eye(shape[-2], k)
        upper = np.triu(lu[..., :k, :])
        rows = np.take_along_axis(a, permutation[..., None], axis=-2)
        check_small(lower @ upper - rows, a)
        assert np.abs(lower).max() <= 1.5  # complex pivots are chosen by |re| + |im|
        assert pivots.min() >= 0

    @pytest.mark.parametrize("algorithm", ["DEFAULT", "QR"])
    @pytest.mark.parametrize("full", [True, False])
    def test_svd(self, shape: tuple[int, ...], dtype: str, full: bool, algorithm: str) -> None:
        a = matrix(shape, dtype)
        chosen = jax.lax.linalg.SvdAlgorithm[algorithm]
        u, s, vt = run(lambda x: jax.lax.linalg.svd(x, full_matrices=full, algorithm=chosen), a)
        k = s.shape[-1]
        check_small((u[..., :k] * s[..., None, :]) @ vt[..., :k, :] - a, a)
        check_orthonormal(u)
        check_orthonormal(adjoint(vt))
        assert (np.diff(s) <= 0).all()
        only = run(lambda x: jnp.linalg.svd(x, full_matrices=full, compute_uv=False), a)
        check_small(only - s, a)

    def test_pseudoinverse(self, shape: tuple[int, ...], dtype: str) -> None:
        a = matrix(shape, dtype)
        inverse = run(jnp.linalg.pinv, a)
        condition = np.linalg.cond(a.astype(np.complex128)).max()
        check_small((a @ inverse @ a - a) / condition, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
class TestSquare:
    @pytest.mark.parametrize("lower", [True, False])
    def test_eigh(self, shape: tuple[int, ...], dtype: str, lower: bool) -> None:
        a = hermitian(shape, dtype)
        triangle = np.tril(a) if lower else np.triu(a)
        v, w = run(lambda x: jax.lax.linalg.eigh(x, lower=lower, symmetrize_input=False), triangle)
        check_small(a @ v - v * w[..., None, :], a)
        check_orthonormal(v)
        assert (np.diff(w) >= 0).all()
        assert w.dtype == np.zeros(0, dtype).real.dtype

    def test_eig(self, shape: tuple[int, ...], dtype: str) -> None:
        a = matrix(shape, dtype)
        w, left, right = run(jax.lax.linalg.eig, a)
        check_small(a @ right - right * w[..., None, :], a)
        check_small(adjoint(left) @ a - w[..., :, None] * adjoint(left), a)
        np.testing.assert_allclose(np.linalg.norm(right, axis=-2), 1, rtol=1e-4)
        np.testing.assert_allclose(w, run(jnp.linalg.eigvals, a), rtol=1e-3, atol=1e-3)

    def test_schur(self, shape: tuple[int, ...], dtype: str) -> None:
        a = matrix(shape, dtype).reshape(-1, *shape[-2:])[0]
        t, z = run(jsl.schur, a)
        check_small(z @ t @ adjoint(z) - a, a)
        check_orthonormal(z)
        below = -1 if a.dtype.kind == "c" else -2
        assert (np.tril(t, below) == 0).all()

    def test_hessenberg(self, shape: tuple[int, ...], dtype: str) -> None:
        a = matrix(shape, dtype)
        h, q = run(lambda x: jsl.hessenberg(x, calc_q=True), a)
        check_small(q @ h @ adjoint(q) - a, a)
        check_orthonormal(q)
        assert (np.tril(h, -2) == 0).all()

    @pytest.mark.parametrize("lower", [True, False])
    def test_tridiagonal(self, shape: tuple[int, ...], dtype: str, lower: bool) -> None:
        a = hermitian(shape, dtype)
        _, d, e, _ = run(lambda x: jax.lax.linalg.tridiagonal(x, lower=lower), a)
        n = shape[-1]
        t = np.zeros(shape)
        t[..., np.arange(n), np.arange(n)] = d
        t[..., np.arange(n - 1), np.arange(1, n)] = e
        t[..., np.arange(1, n), np.arange(n - 1)] = e
        wanted = np.linalg.eigvalsh(a.astype(np.complex128))
        check_small(np.linalg.eigvalsh(t) - wanted, a)

    def test_solve_and_inverse(self, shape: tuple[int, ...], dtype: str) -> None:
        a = matrix(shape, dtype) + 2 * shape[-1] * np.eye(shape[-1], dtype=dtype)
        b = matrix((*shape[:-1], 3), dtype, seed=1)
        x = run(jnp.linalg.solve, a, b)
        check_small(a @ x - b, a)
        check_small(a @ run(jnp.linalg.inv, a) - np.eye(shape[-1]), a)
        sign, logdet = run(jnp.linalg.slogdet, a)
        want_sign, want_logdet = np.linalg.slogdet(a.astype(np.complex128))
        check_small(sign - want_sign, a)
        np.testing.assert_allclose(logdet, want_logdet, rtol=1e-5)

    def test_cholesky(self, shape: tuple[int, ...], dtype: str) -> None:
        x = matrix(shape, dtype)
        a = x @ adjoint(x) + shape[-1] * np.eye(shape[-1], dtype=dtype)
        factor = run(jnp.linalg.cholesky, a)
        check_small(factor @ adjoint(factor) - a, a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_reflectors(dtype: str) -> None:
    a = matrix((2, 6, 4), dtype)
    c = matrix((2, 6, 6), dtype, seed=1)

    def both(x: Any, y: Any) -> Any:
        qr, tau = lax_linalg.geqrf(x)
        padded = jnp.concatenate([qr, jnp.zeros((2, 6, 2), dtype)], axis=-1)
        q = jax.lax.linalg.householder_product(padded, tau)
        products = [
            lax_linalg.ormqr(qr, tau, y, left=left, transpose=transpose)
            for left in (True, False)
            for transpose in (False, True)
        ]
        return q, *products

    q, qc, qhc, cq, cqh = run(both, a, c)
    check_orthonormal(q)
    for got, want in zip(
        (qc, qhc, cq, cqh), (q @ c, adjoint(q) @ c, c @ q, c @ adjoint(q)), strict=True
    ):
        check_small(got - want, c)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_tridiagonal_solve(dtype: str, n: int) -> None:
    lower, upper = matrix((2, 3, n), dtype)
    diagonal = matrix((3, n), dtype, seed=1) + 4
    b = matrix((3, n, 2), dtype, seed=2)
    dense = np.zeros((3, n, n), dtype)
    dense[:, np.arange(n), np.arange(n)] = diagonal
    dense[:, np.arange(1, n), np.arange(n - 1)] = lower[:, 1:]
    dense[:, np.arange(n - 1), np.arange(1, n)] = upper[:, :-1]
    for perturb in (False, True):
        x = run(
            lambda *d, perturb=perturb: jax.lax.linalg.tridiagonal_solve(
                *d, perturb_singular=perturb
            ),
            lower, diagonal, upper, b,
        )  # fmt: skip
        check_small(dense @ x - b, dense)


@pytest.mark.parametrize("dtype", DTYPES)
def test_perturbed_tridiagonal_solve_of_a_singular_matrix(dtype: str, cpu: Any) -> None:
    """One step of inverse iteration gives the null vector of [[1, 1, 0], [1, 2, 1], [0, 1, 1]]."""
    lower = np.asarray([0, 1, 1], dtype)
    diagonal = np.asarray([1, 2, 1], dtype)
    upper = np.asarray([1, 1, 0], dtype)
    b = np.asarray([[1], [2], [4]], dtype)
    x = run(
        lambda *d: jax.lax.linalg.tridiagonal_solve(*d, perturb_singular=True),
        lower, diagonal, upper, b,
    )[:, 0]  # fmt: skip
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x / x[0], [1, -1, 1], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cholesky_update_and_symmetric_product(dtype: str) -> None:
    x = matrix((6, 6), dtype)
    a = x @ x.T + np.eye(6, dtype=dtype)
    r = np.linalg.cholesky(a).T.copy()
    w = matrix((6,), dtype, seed=1)
    updated = run(jax.lax.linalg.cholesky_update, r, w)
    check_small(updated.T @ updated - (a + np.outer(w, w)), a)
    product = run(lambda p, q: jax.lax.linalg.symmetric_product(p, q, alpha=2.0, beta=0.5), x, a)
    check_small(np.tril(product) - np.tril(2 * x @ x.T + 0.5 * a), a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "function",
    [
        jnp.linalg.eigh,
        jnp.linalg.eig,
        jnp.linalg.svd,
        jnp.linalg.qr,
        jnp.linalg.cholesky,
        lambda x: jax.lax.linalg.lu(x)[0],
        lambda x: jax.lax.linalg.schur(x),
    ],
    ids=["eigh", "eig", "svd", "qr", "cholesky", "lu", "schur"],
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_gives_nans_in_its_matrix_alone(
    dtype: str, function: Callable[..., Any], bad: float
) -> None:
    good = hermitian((4, 4), dtype) + 8 * np.eye(4, dtype=dtype)
    poisoned = good.copy()
    poisoned[:, 0] = poisoned[0] = bad
    results = jax.tree.leaves(run(function, np.stack([poisoned, good])))
    # As many matrices as before: a single one may be computed by another routine.
    wanted = jax.tree.leaves(run(function, np.stack([good, good])))
    for result, want in zip(results, wanted, strict=True):
        assert not np.isfinite(result[0]).all()
        np.testing.assert_array_equal(result[1], want[1])


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (jnp.linalg.eigh, (0, 0)),
        (jnp.linalg.eigh, (0, 3, 3)),
        (jnp.linalg.eig, (0, 0)),
        (jnp.linalg.svd, (0, 3)),
        (jnp.linalg.svd, (2, 4, 0)),
        (jnp.linalg.qr, (0, 3)),
        (jnp.linalg.qr, (3, 0)),
        (jnp.linalg.inv, (0, 0)),
        (jax.lax.linalg.lu, (0, 4, 4)),
        (jax.lax.linalg.lu, (0, 0)),
        (jax.lax.linalg.tridiagonal, (1, 1)),
        (jax.lax.linalg.hessenberg, (0, 2, 2)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_empty(function: Callable[..., Any], shape: tuple[int, ...], cpu: Any) -> None:
    x = np.ones(shape, np.float32)
    got = jax.tree.leaves(run(function, x))
    with jax.default_device(cpu):
        want = jax.tree.leaves(run(function, x))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w)


def test_singular_matrices() -> None:
    lu, _, permutation = run(jax.lax.linalg.lu, np.zeros((3, 3), np.float32))
    np.testing.assert_array_equal(lu, np.zeros((3, 3)))
    np.testing.assert_array_equal(permutation, [0, 1, 2])
    assert not np.isfinite(run(jnp.linalg.inv, np.zeros((3, 3), np.float32))).any()
    assert run(jnp.linalg.det, np.ones((3, 3))) == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.linalg.qr(x),
        lambda x: jnp.linalg.svd(x, compute_uv=False),
        lambda x: jnp.linalg.eigh(x + x.T)[0],
        lambda x: jnp.linalg.inv(x),
        lambda x: jnp.linalg.solve(x, x[:, :2]),
        lambda x: jnp.linalg.slogdet(x)[1],
        lambda x: jnp.linalg.cholesky(x @ x.T),
        lambda x: jnp.linalg.pinv(x),
        lambda x: jnp.abs(jnp.linalg.eigvals(x)),
        lambda x: jsl.expm(0.1 * x),
    ],
    ids=["qr", "svd", "eigh", "inv", "solve", "slogdet", "cholesky", "pinv", "eigvals", "expm"],
)
def test_gradients(function: Callable[..., Any]) -> None:
    x = matrix((4, 4), "float64", seed=3) + 4 * np.diag([1.0, 2.0, 3.0, 4.0])
    check_grads(
        jax.jit(function), (jnp.asarray(x),), order=1, modes=["fwd", "rev"], atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.linalg.qr(x)[1],
        lambda x: jnp.linalg.svd(x)[1],
        lambda x: jnp.linalg.eigh(x)[0],
        lambda x: jax.lax.linalg.lu(x)[0],
        lambda x: jax.lax.linalg.schur(x)[0],
        lambda x: jsl.expm(x),
    ],
    ids=["qr", "svd", "eigh", "lu", "schur", "expm"],
)
def test_vmap(function: Callable[..., Any]) -> None:
    x = matrix((4, 3, 3), "float64")
    mapped = run(jax.vmap(function, in_axes=1, out_axes=1), np.moveaxis(x, 0, 1))
    for i in range(4):
        np.testing.assert_allclose(mapped[:, i], run(function, x[i]), rtol=1e-9, atol=1e-12)


def test_inside_loops_and_conditionals() -> None:
    """Powers of a matrix by its QR iteration: its eigenvalues."""
    a = hermitian((5, 5), "float64")

    def step(_: Any, x: Any) -> Any:
        q, r = jnp.linalg.qr(x)
        return jax.lax.cond(jnp.trace(r) > -1e9, lambda: r @ q, lambda: jnp.linalg.inv(x))

    t = run(lambda x: jax.lax.fori_loop(0, 300, step, x), a)
    np.testing.assert_allclose(np.sort(np.diagonal(t)), np.linalg.eigvalsh(a), rtol=1e-6)


def test_a_program_exported_for_cpus_has_the_same_calls(xpu: Any) -> None:
    """`trsm` and `potrf` come from such programs alone: on xpu JAX uses StableHLO's operations."""
    from jax import export

    def solve(a: Any, b: Any) -> Any:
        return jsl.cho_solve((jnp.linalg.cholesky(a), True), b)

    a = np.eye(3) * 4 + 1
    b = np.arange(6.0).reshape(3, 2)
    exported = export.export(
        jax.jit(solve), platforms=["cpu"], disabled_checks=[export.DisabledSafetyCheck.platform()]
    )(a, b)
    assert "lapack_dtrsm_ffi" in exported.mlir_module()
    np.testing.assert_allclose(np.asarray(exported.call(a, b)), np.linalg.solve(a, b), rtol=1e-12)


@pytest.mark.parametrize("shape", ["2, 4, 4", "b, 4, 4", "b, n, n"])
@pytest.mark.parametrize("function", [jnp.linalg.inv, jnp.linalg.det, lax_linalg.lu])
def test_factors_are_exported(function: Callable[..., Any], shape: str) -> None:
    """With the custom calls alone that JAX promises to keep."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 4, 4)), jnp.float32)
    given = jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), x.dtype)
    program = jax.export.export(jax.jit(function))(given)
    again = jax.export.deserialize(program.serialize()).call(x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), again, function(x))
