"""What is compared: inputs, and what comes out in NumPy, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LEARNING_RATE = 0.1
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Workload:
    """``inputs``: float32. ``reference``: the results for them, from float64."""

    name: str
    inputs: Arrays
    reference: Callable[..., Arrays]

    def expected(self) -> Arrays:
        return self.reference(*(x.astype(np.float64) for x in self.inputs))


def make(scale: float = 1.0, seed: int = 0) -> list[Workload]:
    """The workloads. ``scale``: of all sizes."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    n = max(1, round(2**20 * scale))
    rows, width = max(2, round(512 * scale)), max(4, round(256 * scale))
    heads, length = 8, max(2, round(128 * scale))
    weights = (normal(width, 2 * width) / 16, normal(2 * width, 8) / 16)
    return [
        Workload("gelu", (normal(n),), _gelu),
        Workload("attention", tuple(normal(heads, length, 32) for _ in range(3)), _attention),
        Workload("training step", (normal(rows, width), normal(rows, 8), *weights), _step),
    ]


def _gelu(x: np.ndarray) -> Arrays:
    return (x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),)


def _attention(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> Arrays:
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return (scores / scores.sum(-1, keepdims=True) @ value,)


def _step(x: np.ndarray, y: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> Arrays:
    """A step of gradient descent on mean((tanh(x w1) w2 - y)^2): the new w1 and w2."""
    hidden = np.tanh(x @ w1)
    difference = 2 * (hidden @ w2 - y) / y.size
    gradient1 = x.T @ (difference @ w2.T * (1 - hidden**2))
    return w1 - LEARNING_RATE * gradient1, w2 - LEARNING_RATE * (hidden.T @ difference)
