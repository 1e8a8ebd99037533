"""The model in JAX: a function of weights and tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from weights import EPSILON, Sizes


def _normalise(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * scale + bias


def forward(weights: dict[str, jax.Array], tokens: jax.Array, sizes: Sizes) -> jax.Array:
    """Logits f32[batch, length, vocabulary]."""
    w = weights
    x = w["tokens"][tokens] + w["positions"]
    for n in range(sizes.layers):
        layer = f"layer{n}."
        y = _normalise(x, w[f"{layer}attention_norm.scale"], w[f"{layer}attention_norm.bias"])
        query, key, value = (
            (y @ w[layer + name] + w[f"{layer}{name}_bias"]).reshape(
                *tokens.shape, sizes.heads, sizes.head_width
            )
            for name in ("query", "key", "value")
        )
        mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + mixed.reshape(x.shape) @ w[f"{layer}output"] + w[f"{layer}output_bias"]
        y = _normalise(x, w[f"{layer}network_norm.scale"], w[f"{layer}network_norm.bias"])
        y = jax.nn.gelu(y @ w[f"{layer}up"] + w[f"{layer}up_bias"], approximate=True)
        x = x + y @ w[f"{layer}down"] + w[f"{layer}down_bias"]
    return jnp.matmul(_normalise(x, w["scale"], w["bias"]), w["tokens"].T)
