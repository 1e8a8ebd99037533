"""A short sample of JAX programs: products, convolutions, sums, sorts and linear algebra in every element type.

``python -m tests.cpus.sample`` prints what is wrong, and ends with 1 if something is. Operands are small whole numbers:
results are exact in every type, except for the decompositions, which are multiplied out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

FLOATS = (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)
INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.int64)
COMPLEX = (np.complex64, np.complex128)
Array = np.ndarray[Any, Any]


def whole(dims: tuple[int, ...], seed: int) -> Array:
    """Numbers -1, 0 and 1: sums of up to 256 products of them are numbers of bf16."""
    return np.random.default_rng(seed).integers(-1, 2, dims)


def compare(what: str, dtype: Any, got: Any, want: Array) -> Iterator[str]:
    got = np.asarray(got)
    exact = got if got.dtype.kind == "c" else got.astype(np.float64)
    wrong = int((exact != want).sum())
    if wrong:
        yield f"{what} of {np.dtype(dtype).name}: {wrong} of {want.size} numbers are wrong"


def differences() -> Iterator[str]:
    for dtype in (*FLOATS, *INTEGERS, *COMPLEX):
        signed = np.dtype(dtype).kind != "u"
        x, y = (a if signed else abs(a) for a in (whole((96, 120), 0), whole((120, 80), 1)))
        a, b = (jnp.asarray(v.astype(dtype)) for v in (x, y))
        yield from compare("product", dtype, jax.jit(jnp.matmul)(a, b), x @ y)
        yield from compare("sum", dtype, jnp.sum(a, 0), x.sum(0))
        if np.dtype(dtype).kind != "c":
            yield from compare("sort", dtype, jnp.sort(a, axis=1), np.sort(x, 1))
        image, kernel = whole((2, 12, 10, 16), 2), whole((3, 3, 16, 8), 3)
        if not signed:
            image, kernel = abs(image), abs(kernel)
        convolve = jax.jit(
            lambda i, k: lax.conv_general_dilated(
                i, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
        )
        got = convolve(jnp.asarray(image.astype(dtype)), jnp.asarray(kernel.astype(dtype)))
        want = np.zeros((2, 10, 8, 8), np.int64)
        for i in range(3):
            for j in range(3):
                want += image[:, i : i + 10, j : j + 8] @ kernel[i, j]
        yield from compare("convolution", dtype, got, want)
    for dtype in (np.float32, np.float64):
        m = np.random.default_rng(4).standard_normal((60, 60)).astype(dtype)
        bound = (
            60 * 60 * np.finfo(dtype).eps
        )  # n^2 eps: a generous bound on backward errors of norm 1
        u, s, vt = jnp.linalg.svd(m)
        q, r = jnp.linalg.qr(m)
        lower = jnp.linalg.cholesky(m @ m.T + 60 * np.eye(60, dtype=dtype))
        for what, product, exact in (
            ("svd", (u * s) @ vt, m),
            ("qr", q @ r, m),
            ("cholesky", lower @ lower.T, m @ m.T + 60 * np.eye(60, dtype=dtype)),
            ("solve", m @ jnp.linalg.solve(m.T @ m + np.eye(60, dtype=dtype), m.T) @ m, None),
        ):
            if exact is None:
                exact = m @ np.linalg.solve(m.T @ m + np.eye(60, dtype=dtype), m.T) @ m
            error = float(np.abs(np.asarray(product) - exact).max() / np.abs(exact).max())
            if not error < bound:
                yield f"{what} of {np.dtype(dtype).name}: an error of {error:.2g}, more than {bound:.2g}"


def main() -> int:
    found = list(differences()) if jax.devices()[0].platform == "xpu" else ["there is no xpu"]
    for line in found:
        print(line)
    print(f"{jax.devices()[0].device_kind}: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
