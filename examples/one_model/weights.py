"""The model's sizes, its weights, and what it computes: in NumPy, in double precision.

A decoder: token and position embeddings; layers of causal attention and a feed-forward network, each after a
normalisation and beside a residual connection; a last normalisation, and logits from the token embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EPSILON = 1e-5
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sizes:
    layers: int = 2
    width: int = 64
    heads: int = 4
    vocabulary: int = 128
    length: int = 32
    batch: int = 4

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def make_weights(sizes: Sizes, seed: int = 0) -> Weights:
    """float32, by name: ``layer0.query`` [width, width] and so on. Matrices are [in, out]."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    def near(value: float, size: int) -> np.ndarray:
        return (value + 0.1 * rng.standard_normal(size)).astype(np.float32)

    width = sizes.width
    weights = {
        "tokens": normal(sizes.vocabulary, width),
        "positions": normal(sizes.length, width),
        "scale": near(1, width),
        "bias": near(0, width),
    }
    for n in range(sizes.layers):
        layer = f"layer{n}."
        for norm in ("attention_norm", "network_norm"):
            weights[f"{layer}{norm}.scale"] = near(1, width)
            weights[f"{layer}{norm}.bias"] = near(0, width)
        for name in ("query", "key", "value", "output"):
            weights[layer + name] = normal(width, width)
            weights[f"{layer}{name}_bias"] = near(0, width)
        weights[f"{layer}up"] = normal(width, 4 * width)
        weights[f"{layer}up_bias"] = near(0, 4 * width)
        weights[f"{layer}down"] = normal(4 * width, width)
        weights[f"{layer}down_bias"] = near(0, width)
    return weights


def make_tokens(sizes: Sizes, seed: int = 1) -> np.ndarray:
    """int32[batch, length]"""
    rng = np.random.default_rng(seed)
    return rng.integers(0, sizes.vocabulary, (sizes.batch, sizes.length), dtype=np.int32)


def with_numpy(weights: Weights, tokens: np.ndarray, sizes: Sizes) -> np.ndarray:
    """Logits f64[batch, length, vocabulary]."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    batch, length = tokens.shape

    def normalise(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        return centred / np.sqrt(variance + EPSILON) * w[f"{name}scale"] + w[f"{name}bias"]

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[name] + w[f"{name}_bias"]

    def heads(x: np.ndarray) -> np.ndarray:
        return x.reshape(batch, length, sizes.heads, sizes.head_width).transpose(0, 2, 1, 3)

    x = w["tokens"][tokens] + w["positions"]
    future = np.triu(np.full((length, length), -np.inf), 1)
    for n in range(sizes.layers):
        layer = f"layer{n}."
        normal = normalise(x, f"{layer}attention_norm.")
        query, key, value = (heads(dense(normal, layer + s)) for s in ("query", "key", "value"))
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(sizes.head_width) + future
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ value
        x = x + dense(mixed.transpose(0, 2, 1, 3).reshape(x.shape), f"{layer}output")
        hidden = dense(normalise(x, f"{layer}network_norm."), f"{layer}up")
        gelu = hidden / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
        x = x + dense(gelu, f"{layer}down")
    return normalise(x, "") @ w["tokens"].T
