"""The second stage, in JAX: a convolutional network and a step of Adam, as one program on xpu."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

optimizer = optax.adam(3e-3)
Weights = dict[str, jax.Array]


@jax.jit
def init(key: jax.Array) -> tuple[Weights, Any]:
    """Weights with the names and the shapes of evaluate.Network, and the optimizer's state."""
    shapes = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "dense": (10, 32 * 4 * 4)}
    keys = jax.random.split(key, len(shapes))
    weights = {}
    for (name, shape), one in zip(shapes.items(), keys, strict=True):
        fan_in = shape[1] if len(shape) == 2 else shape[1] * shape[2] * shape[3]
        weights[f"{name}.weight"] = jax.random.normal(one, shape) * jnp.sqrt(2 / fan_in)
        weights[f"{name}.bias"] = jnp.zeros(shape[0])
    return weights, optimizer.init(weights)


def logits_of(w: Weights, images: jax.Array) -> jax.Array:
    x = images
    for name in ("conv1", "conv2"):
        x = jax.lax.conv(x, w[f"{name}.weight"], (2, 2), "SAME")
        x = jax.nn.relu(x + w[f"{name}.bias"][:, None, None])
    return x.reshape(x.shape[0], -1) @ w["dense.weight"].T + w["dense.bias"]


@jax.jit
def step(
    weights: Weights, state: Any, images: jax.Array, labels: jax.Array
) -> tuple[Weights, Any, jax.Array]:
    """One step: new weights, the optimizer's new state, and the loss before."""

    def loss_of(weights: Weights) -> jax.Array:
        return optax.softmax_cross_entropy(logits_of(weights, images), labels).mean()

    loss, gradients = jax.value_and_grad(loss_of)(weights)
    updates, state = optimizer.update(gradients, state, weights)
    return optax.apply_updates(weights, updates), state, loss
