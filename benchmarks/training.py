"""Training steps, with donated parameters and optimizer state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.harness import Step, benchmark


class MLP(nn.Module):
    widths: tuple[int, ...]

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for width in self.widths[:-1]:
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.widths[-1])(x)


class Block(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = jnp.split(nn.Dense(3 * width)(nn.LayerNorm()(x)), 3, -1)
        q, k, v = (a.reshape(batch, length, self.heads, -1) for a in (q, k, v))
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)
        x = x + nn.Dense(width)(mixed.reshape(x.shape))
        return x + nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(nn.LayerNorm()(x))))


class GPT(nn.Module):
    layers: int
    width: int
    heads: int = 4
    vocabulary: int = 256

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        x = nn.Embed(self.vocabulary, self.width)(tokens)
        x = x + self.param("positions", nn.initializers.normal(0.02), (tokens.shape[1], self.width))
        for _ in range(self.layers):
            x = Block(self.heads)(x)
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(x))


def make_loss(model: nn.Module) -> Any:
    def loss_of(parameters: Any, x: Any, y: Any) -> Any:
        logits = model.apply(parameters, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    return loss_of


def training_step(model: nn.Module, optimizer: Any, x: Any, y: Any, device: Any) -> Step:
    """A step that trains once on the same batch and waits for the loss."""
    loss_of = make_loss(model)

    def train(parameters: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    compiled = jax.jit(train, donate_argnums=(0, 1))
    x, y = jax.device_put((x, y), device)
    with jax.default_device(device):
        parameters = jax.jit(model.init)(jax.random.key(0), x)
        state = jax.jit(optimizer.init)(parameters)
    parameters, state = jax.device_put((parameters, state), device)

    def step() -> None:
        nonlocal parameters, state
        parameters, state, loss = compiled(parameters, state, x, y)
        loss.block_until_ready()

    return step


def random_batch(shape: tuple[int, ...], classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape).astype(np.float32), rng.integers(0, classes, shape[0]).astype(
        np.int32
    )


def random_tokens(batch: int, length: int, vocabulary: int = 256) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(0).integers(0, vocabulary, (batch, length + 1)).astype(np.int32)
    return tokens[:, :-1], tokens[:, 1:]


@benchmark("MLP training step, 784-512-10, batch 128, SGD", target=1.3)
def mlp(device: Any) -> Step:
    return training_step(MLP((512, 10)), optax.sgd(0.1), *random_batch((128, 784), 10), device)


@benchmark("MLP training step, 64-64-16, batch 32, SGD", target=2.0)
def mlp_small(device: Any) -> Step:
    return training_step(MLP((64, 16)), optax.sgd(0.1), *random_batch((32, 64), 16), device)


@benchmark("the demo's CNN training step", target=1.5)
def demo_cnn(device: Any) -> Step:
    folder = str(Path(__file__).parent.parent / "examples" / "jax_digits")
    if folder not in sys.path:
        sys.path.append(folder)
    import train

    x, y, *_ = train.load_data()
    return training_step(train.network, train.optimizer, x[: train.BATCH], y[: train.BATCH], device)


@benchmark("GPT training step, 4 layers of 256, batch 4 x 128 tokens, Adam", target=1.1)
def gpt(device: Any) -> Step:
    return training_step(GPT(4, 256), optax.adam(1e-3), *random_tokens(4, 128), device)
