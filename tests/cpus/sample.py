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


# One program of several results: of a program for each, most would be what JAX and the worker do around it.


@jax.jit
def computed(a: Any, b: Any, image: Any, kernel: Any) -> dict[str, Any]:
    numbers = ("NHWC", "HWIO", "NHWC")
    results = {
        "product": a @ b,
        "sum": jnp.sum(a, 0),
        "convolution": lax.conv_general_dilated(
            image, kernel, (1, 1), "VALID", dimension_numbers=numbers
        ),
    }
    if not jnp.issubdtype(a.dtype, jnp.complexfloating):
        results["sort"] = jnp.sort(a, axis=1)
    return results


@jax.jit
def multiplied_out(m: Any, gram: Any, normal: Any) -> dict[str, Any]:
    u, s, vt = jnp.linalg.svd(m)
    q, r = jnp.linalg.qr(m)
    lower = jnp.linalg.cholesky(gram)
    solved = jnp.linalg.solve(normal, m.T)
    return {
        "svd": (u * s) @ vt,
        "qr": q @ r,
        "cholesky": lower @ lower.T,
        "solve": m @ solved @ m,
    }


def differences() -> Iterator[str]:
    for dtype in (*FLOATS, *INTEGERS, *COMPLEX):
        x, y = whole((96, 120), 0), whole((120, 80), 1)
        image, kernel = whole((2, 12, 10, 16), 2), whole((3, 3, 16, 8), 3)
        if np.dtype(dtype).kind == "u":
            x, y, image, kernel = (abs(a) for a in (x, y, image, kernel))
        convolved = np.zeros((2, 10, 8, 8), np.int64)
        for i in range(3):
            for j in range(3):
                convolved += image[:, i : i + 10, j : j + 8] @ kernel[i, j]
        want = {"product": x @ y, "sum": x.sum(0), "convolution": convolved, "sort": np.sort(x, 1)}
        got = computed(*(a.astype(dtype) for a in (x, y, image, kernel)))
        assert len(got) == (3 if np.dtype(dtype).kind == "c" else 4)
        for what, result in got.items():
            yield from compare(what, dtype, result, want[what])
    for dtype in (np.float32, np.float64):
        m = np.random.default_rng(4).standard_normal((60, 60)).astype(dtype)
        bound = (
            60 * 60 * np.finfo(dtype).eps
        )  # n^2 eps: a generous bound on backward errors of norm 1
        eye = np.eye(60, dtype=dtype)
        gram, normal = m @ m.T + 60 * eye, m.T @ m + eye
        exact = {"svd": m, "qr": m, "cholesky": gram, "solve": m @ np.linalg.solve(normal, m.T) @ m}
        for what, product in multiplied_out(m, gram, normal).items():
            error = float(
                np.abs(np.asarray(product) - exact[what]).max() / np.abs(exact[what]).max()
            )
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
