"""Train a small convolutional network on the handwritten digits of scikit-learn.

An ordinary JAX program: nothing in this file knows of any device. JAX runs it on its default one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH = 128
EPOCHS = 20


class Network(nn.Module):
    """Two convolutions, a pooling and two dense layers: f32[batch,8,8,1] -> f32[batch,10]."""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        x = nn.relu(nn.Conv(32, (3, 3))(images))
        x = nn.relu(nn.Conv(64, (3, 3))(x))
        x = nn.max_pool(x, (2, 2), (2, 2))
        x = x.reshape(x.shape[0], -1)
        x = nn.relu(nn.Dense(128)(x))
        return nn.Dense(10)(x)


network = Network()
optimizer = optax.adam(2e-3)


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images f32[n,8,8,1] in [0, 1] and labels s32[n], then the same for the test."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    x, x_test, y, y_test = train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return x, y, x_test, y_test


def batches(x: np.ndarray, y: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The data in random order, in batches of one size (the rest is left out)."""
    order = np.random.default_rng(seed).permutation(len(x))
    for start in range(0, len(x) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        yield x[chosen], y[chosen]


@jax.jit
def init(key: jax.Array, images: jax.Array) -> tuple[Any, Any]:
    parameters = network.init(key, images)
    return parameters, optimizer.init(parameters)


def loss_of(parameters: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
    logits = network.apply(parameters, images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@functools.partial(jax.jit, donate_argnums=(0, 1))
def train_step(
    parameters: Any, state: Any, images: jax.Array, labels: jax.Array
) -> tuple[Any, Any, jax.Array]:
    """One step of Adam: the new parameters, the new optimizer state, and the loss before the step."""
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state, loss


@jax.jit
def accuracy(parameters: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
    return (network.apply(parameters, images).argmax(-1) == labels).mean()
