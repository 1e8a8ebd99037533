"""Decompositions under the names that other frameworks write for them: XLA's, and those of our own frontends."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def call(target: str, results: Any, *arguments: Any, **attributes: Any) -> Any:
    function = jax.jit(lambda *a: jax.ffi.ffi_call(target, results)(*a, **attributes))
    return jax.tree.map(np.asarray, function(*arguments))


def shape(*dims: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(dims, dtype)


A = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
SQUARE = A @ A.swapaxes(1, 2)


def test_qr(xpu: Any) -> None:
    with jax.default_device(xpu):
        packed, tau = call("Qr", (shape(2, 4, 3), shape(2, 3)), A)
        q = call("ProductOfElementaryHouseholderReflectors", shape(2, 4, 3), packed, tau)
    np.testing.assert_allclose(q @ np.triu(packed[:, :3]), A, atol=1e-5)


def test_eigh(xpu: Any) -> None:
    with jax.default_device(xpu):
        v, w = call("Eigh", (shape(2, 4, 4), shape(2, 4)), SQUARE)
        nan, _ = call("Eigh", (shape(2, 4, 4), shape(2, 4)), SQUARE * np.nan)
    np.testing.assert_allclose(SQUARE @ v, v * w[:, None, :], atol=1e-4)
    assert np.isnan(nan).all()


def test_lu(xpu: Any) -> None:
    results = (shape(2, 4, 3), shape(2, 3, dtype=jnp.int32), shape(2, 4, dtype=jnp.int32))
    with jax.default_device(xpu):
        lu, pivots, permutation = call("LuDecomposition", results, A)
    product = (np.tril(lu, -1) + np.eye(4, 3)) @ np.triu(lu[:, :3])
    np.testing.assert_allclose(product, np.take_along_axis(A, permutation[..., None], 1), atol=1e-5)
    assert pivots.min() >= 0


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float16, 4e-3), (jnp.bfloat16, 4e-2)])
def test_small_floats(xpu: Any, dtype: Any, tolerance: float) -> None:
    """LAPACK has none: they are decomposed in f32, and rounded."""
    a, square = A.astype(dtype), SQUARE.astype(dtype)
    lu_shapes = (shape(2, 4, 3), shape(2, 3, dtype=jnp.int32), shape(2, 4, dtype=jnp.int32))
    narrow = lambda *shapes: tuple(shape(*s, dtype=dtype) for s in shapes)
    with jax.default_device(xpu):
        packed, tau = call("Qr", narrow((2, 4, 3), (2, 3)), a)
        of_q = shape(2, 4, 3, dtype=dtype)
        q = call("ProductOfElementaryHouseholderReflectors", of_q, packed, tau)
        v, w = call("Eigh", narrow((2, 4, 4), (2, 4)), square)
        lu, _, _ = call("LuDecomposition", (*narrow((2, 4, 3)), *lu_shapes[1:]), a)
        wide, _, _ = call("LuDecomposition", lu_shapes, a.astype(np.float32))
    results = (packed, q, v, w, lu)
    assert all(x.dtype == np.dtype(dtype) for x in results)
    packed, q, v, w, lu, a, square = (x.astype(np.float32) for x in (*results, a, square))
    np.testing.assert_allclose(q @ np.triu(packed[:, :3]), a, atol=3 * tolerance)
    np.testing.assert_allclose(square @ v, v * w[:, None, :], atol=10 * tolerance)
    np.testing.assert_allclose(lu, wide, atol=tolerance)


@pytest.mark.parametrize("mode", ["A", "S", "N"])
@pytest.mark.parametrize(("m", "n"), [(4, 3), (3, 4), (3, 3)])
def test_svd(xpu: Any, m: int, n: int, mode: str) -> None:
    a = np.random.default_rng(1).standard_normal((2, m, n)).astype(np.float32)
    k = min(m, n)
    rows, columns = (m, n) if mode == "A" else (k, k)
    results = (shape(2, m, rows), shape(2, k), shape(2, columns, n))
    with jax.default_device(xpu):
        u, s, vh = call("tripont.svd", results, a, mode=mode)
        *_, nan = call("tripont.svd", results, a * np.nan, mode=mode)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), atol=1e-5)
    assert np.isnan(nan).all()
    if mode != "N":
        np.testing.assert_allclose((u[..., :k] * s[:, None]) @ vh[:, :k], a, atol=1e-5)


@pytest.mark.parametrize(
    ("results", "attributes"),
    [
        ((shape(4, 4), shape(3), shape(3, 3)), {}),
        ((shape(4, 4), shape(3), shape(3, 3)), {"mode": "B"}),
        ((shape(4, 4), shape(3), shape(3, 3)), {"mode": "S"}),
        ((shape(4, 4), shape(3)), {"mode": "A"}),
        ((shape(4, 4), shape(3), shape(3, 3, dtype=jnp.complex64)), {"mode": "A"}),
    ],
)
def test_svd_of_other_results(xpu: Any, results: Any, attributes: dict[str, str]) -> None:
    with jax.default_device(xpu), pytest.raises(jax.errors.JaxRuntimeError, match=r"tripont\.svd"):
        call("tripont.svd", results, A[0], **attributes)


def test_fft(xpu: Any) -> None:
    given = {"fft_type": "RFFT", "fft_length": np.array([4, 3])}
    with jax.default_device(xpu):
        got = call("tripont.fft", shape(2, 4, 2, dtype=jnp.complex64), A, **given)
    np.testing.assert_allclose(got, np.fft.rfftn(A, axes=(1, 2)), atol=1e-5)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"fft_type": "RFFT"},
        {"fft_type": "RFFT", "fft_length": 3},
        {"fft_type": "RFFT", "fft_length": np.array([5])},
        {"fft_type": "RFFT", "fft_length": np.array([2, 4, 3, 1])},
        {"fft_type": "SINE", "fft_length": np.array([3])},
        {"fft_type": "RFFT", "fft_length": np.array([-3])},
    ],
)
def test_fft_of_other_attributes(xpu: Any, attributes: dict[str, Any]) -> None:
    result = shape(2, 4, 2, dtype=jnp.complex64)
    with jax.default_device(xpu), pytest.raises(jax.errors.JaxRuntimeError, match="fft"):
        call("tripont.fft", result, A, **attributes)
