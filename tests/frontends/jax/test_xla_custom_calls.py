"""Decompositions under the names that XLA has for them, which other frameworks write."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def call(target: str, results: Any, *arguments: Any) -> Any:
    function = jax.jit(lambda *a: jax.ffi.ffi_call(target, results)(*a))
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
