"""The model in PyTorch: modules of torch.nn."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import nn
from weights import EPSILON, Sizes, Weights


class Layer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.heads = (sizes.heads, sizes.head_width)
        self.attention_norm = nn.LayerNorm(width, eps=EPSILON)
        self.network_norm = nn.LayerNorm(width, eps=EPSILON)
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.attention_norm(x)
        query, key, value = (
            linear(y).unflatten(-1, self.heads).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.network_norm(x)), approximate="tanh"))


class Model(nn.Module):
    """int64[batch, length] -> f32[batch, length, vocabulary]"""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.positions = nn.Parameter(torch.empty(sizes.length, sizes.width))
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width, eps=EPSILON)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.tokens.weight.T


def make_model(weights: Weights, sizes: Sizes) -> Model:
    model = Model(sizes)
    model.load_state_dict({_name(n): torch.from_numpy(_value(n, w)) for n, w in weights.items()})
    return model


def _name(name: str) -> str:
    """PyTorch's name of a weight."""
    if name in ("scale", "bias"):
        return f"norm.{'weight' if name == 'scale' else 'bias'}"
    if name == "tokens":
        return "tokens.weight"
    if name == "positions":
        return name
    layer, _, rest = name.removeprefix("layer").partition(".")
    if "norm" in rest:
        rest = rest.replace(".scale", ".weight")
    elif rest.endswith("_bias"):
        rest = rest.removesuffix("_bias") + ".bias"
    else:
        rest += ".weight"
    return f"layers.{layer}.{rest}"


def _value(name: str, weight: np.ndarray) -> np.ndarray:
    """PyTorch keeps the matrices of its linear layers as [out, in]."""
    return weight.T.copy() if weight.ndim == 2 and name.startswith("layer") else weight
