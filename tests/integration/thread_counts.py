"""Programs whose work is split over threads, each past the size from which it is; ``python -m`` prints a hash of the
results of each. :mod:`.test_thread_counts` compares what processes with other numbers of threads print.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_generator = np.random.default_rng(0)


def normal(*dims: int) -> np.ndarray:
    return _generator.standard_normal(dims).astype(np.float32)


def places(count: int, size: int) -> np.ndarray:
    return _generator.integers(0, count, size)


def convolution(x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def bf16_product(x: jax.Array, y: jax.Array) -> jax.Array:
    return x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "sum": (jnp.sum, (normal(3_000_001),)),
    "sum of columns": (lambda x: x.sum(0), (normal(5000, 333),)),
    "sum of rows": (lambda x: x.sum(1), (normal(333, 50_000),)),
    "running sum": (jnp.cumsum, (normal(1_000_001),)),
    "softmax": (lambda x: jax.nn.softmax(x, 0), (normal(3000, 500),)),
    "logsumexp": (jax.scipy.special.logsumexp, (normal(2_000_000),)),
    "dot": (jnp.dot, (normal(1_000_001), normal(1_000_001))),
    "product": (jnp.matmul, (normal(700, 700), normal(700, 700))),
    "deep product": (jnp.matmul, (normal(16, 60_000), normal(60_000, 24))),
    "wide product": (jnp.matmul, (normal(37, 900), normal(900, 4001))),
    "vector by matrix": (jnp.matmul, (normal(4000), normal(4000, 3000))),
    "matrix by vector": (jnp.matmul, (normal(3000, 4000), normal(4000))),
    "batch of products": (jnp.matmul, (normal(9, 130, 140), normal(9, 140, 150))),
    "bf16 product": (bf16_product, (normal(500, 3000), normal(3000, 300))),
    "convolution": (convolution, (normal(3, 40, 40, 32), normal(3, 3, 32, 64))),
    "convolution's gradients": (
        jax.grad(lambda x, w: (convolution(x, w) ** 2).sum(), (0, 1)),
        (normal(3, 40, 40, 32), normal(3, 3, 32, 64)),
    ),
    "attention": (attention, tuple(normal(2, 600, 4, 64) for _ in range(3))),
    "sort": (jnp.sort, (normal(1_000_000),)),
    "top_k": (lambda x: lax.top_k(x, 50), (normal(7, 150_000),)),
    "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)), (normal(30, 50_000),)),
    "fft2": (lambda x: jnp.abs(jnp.fft.fft2(x)), (normal(300, 360),)),
    "scatter": (
        lambda i, x: jnp.zeros((1000, 64)).at[i].add(x),
        (places(1000, 50_000), normal(50_000, 64)),
    ),
    "sum by segment": (
        lambda i, x: jax.ops.segment_sum(x, i, 500),
        (places(500, 1_000_000), normal(1_000_000)),
    ),
    "histogram": (lambda x: jnp.histogram(x, 100)[0], (normal(1_000_000),)),
    "cholesky": (
        lambda x: jnp.linalg.cholesky(x @ x.T + 600 * jnp.eye(600)),
        (normal(600, 600),),
    ),
    "solve": (jnp.linalg.solve, (normal(500, 500), normal(500, 30))),
    "batch of solves": (
        lambda a, b: jnp.linalg.solve(a + 8 * jnp.eye(16), b),
        (normal(2000, 16, 16), normal(2000, 16, 1)),
    ),
    "qr": (jnp.linalg.qr, (normal(400, 300),)),
    "eigh": (lambda x: jnp.linalg.eigh(x + x.T), (normal(250, 250),)),
    "svd": (jnp.linalg.svd, (normal(250, 200),)),
    "random numbers": (
        lambda x: jax.random.normal(jax.random.key(3), (1_000_000,)) + x,
        (normal(1),),
    ),
}


def main() -> None:
    hashes = {}
    for name, (function, arguments) in PROGRAMS.items():
        results = jax.tree.leaves(jax.jit(function)(*arguments))
        content = b"".join(np.asarray(result).tobytes() for result in results)
        hashes[name] = hashlib.sha256(content).hexdigest()
    print(json.dumps(hashes))


if __name__ == "__main__":
    main()
