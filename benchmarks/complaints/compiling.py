"""Programs whose compilation is the complaint: the page's column "compile" is what counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..rivals.program import Registry

PROGRAMS = Registry("large programs", __name__)


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def chain(length: int) -> Callable[..., Any]:
    """Unrolled by Python: a product, an activation and a sum in turns, each with a constant of its own."""
    import jax.numpy as jnp

    def run(x: Any, w: Any) -> Any:
        for index in range(length):
            y = jnp.tanh(x @ w) if index % 8 == 0 else jnp.sin(x * (1 + index / 1000))
            x = y - y.mean(index % 2, keepdims=True)
        return x

    return run


PROGRAMS.add(
    "unrolled_400",
    "400 unrolled steps (some 1,600 operations) on 16x16",
    lambda r: (normal(r, 16, 16), 0.2 * normal(r, 16, 16)),
    jax=lambda: chain(400),
    terms=400,
    source="jax-ml/jax#7829",
)

LAYERS, WIDTH, LENGTH = 6, 128, 64


def transformer() -> Callable[..., Any]:
    """Every layer written out, with weights of its own."""
    import jax
    import jax.numpy as jnp

    def norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def loss(weights: Any, x: Any) -> Any:
        for qkv, out, up, down in weights:
            q, k, v = jnp.split((norm(x) @ qkv).reshape(LENGTH, 12, WIDTH // 4), 3, axis=1)
            scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(WIDTH // 4)
            x = (
                x
                + jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v).reshape(LENGTH, WIDTH) @ out
            )
            x = x + jax.nn.gelu(norm(x) @ up) @ down
        return (x**2).mean()

    def gradient(x: Any, *flat: Any) -> Any:
        return jax.grad(loss)([flat[i : i + 4] for i in range(0, len(flat), 4)], x)

    return gradient


def transformer_inputs(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    shapes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    weights = [0.05 * normal(random, *shape) for _ in range(LAYERS) for shape in shapes]
    return (normal(random, LENGTH, WIDTH), *weights)


PROGRAMS.add(
    "transformer_6_gradient",
    f"gradient of {LAYERS} transformer layers, written out, width {WIDTH}",
    transformer_inputs,
    jax=transformer,
    terms=512 * LAYERS,
    flops=6.0 * LAYERS * LENGTH * 12 * WIDTH**2,
    source="jax-ml/jax#4924",
)
