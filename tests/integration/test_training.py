"""Models train on xpu as they do on JAX's CPU backend: the same losses, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

STEPS = 6


class MLP(nn.Module):
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for width in (64, 32):
            x = nn.relu(nn.Dense(width, dtype=self.dtype)(x))
        return nn.Dense(10, dtype=self.dtype)(x).astype(jnp.float32)


class CNN(nn.Module):
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.relu(nn.Conv(8, (3, 3), dtype=self.dtype)(x))
        x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.gelu(nn.Conv(16, (3, 3), strides=2, dtype=self.dtype)(x))
        x = nn.LayerNorm(dtype=self.dtype)(x)
        return nn.Dense(10, dtype=self.dtype)(x.reshape(x.shape[0], -1)).astype(jnp.float32)


class DepthwiseCNN(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(8, (3, 3))(x)
        x = nn.silu(nn.Conv(8, (3, 3), feature_group_count=8)(x))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        return nn.Dense(10)(x.mean((1, 2)))


class Recurrent(nn.Module):
    cell: Callable[..., Any]

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(10)(nn.RNN(self.cell(16))(x)[:, -1])


class Block(nn.Module):
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Any) -> Any:
        batch, length, width = x.shape
        h = nn.LayerNorm(dtype=self.dtype)(x)
        q, k, v = jnp.split(nn.Dense(3 * width, dtype=self.dtype)(h), 3, -1)
        q, k, v = (a.reshape(batch, length, 4, width // 4) for a in (q, k, v))
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / (width // 4) ** 0.5
        scores = jnp.where(
            jnp.tril(jnp.ones((length, length), bool)), scores.astype(jnp.float32), -1e9
        )
        weights = jax.nn.softmax(scores).astype(self.dtype)
        x = x + nn.Dense(width, dtype=self.dtype)(
            jnp.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape)
        )
        h = nn.gelu(nn.Dense(4 * width, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x)))
        return x + nn.Dense(width, dtype=self.dtype)(h)


class GPT(nn.Module):
    dtype: Any = jnp.float32
    remat: bool = False

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        block = nn.remat(Block) if self.remat else Block
        x = nn.Embed(50, 32, dtype=self.dtype)(tokens)
        x = x + self.param("positions", nn.initializers.normal(0.02), (tokens.shape[1], 32)).astype(
            self.dtype
        )
        for _ in range(2):
            x = block(self.dtype)(x)
        return nn.Dense(50, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x)).astype(jnp.float32)


@dataclass(frozen=True)
class Model:
    name: str
    model: nn.Module
    input_shape: tuple[int, ...]
    optimizer: optax.GradientTransformation
    epsilon: float = 2.0**-23  # of the type that the model computes in


BF16, F16 = 2.0**-7, 2.0**-10
MODELS = [
    Model("mlp-sgd", MLP(), (32, 20), optax.sgd(0.1)),
    Model("mlp-momentum", MLP(), (32, 20), optax.sgd(0.1, momentum=0.9, nesterov=True)),
    Model("mlp-adam", MLP(), (32, 20), optax.adam(1e-2)),
    Model(
        "mlp-adamw-clip",
        MLP(),
        (32, 20),
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2)),
    ),
    Model("mlp-schedule", MLP(), (32, 20), optax.rmsprop(optax.cosine_decay_schedule(1e-2, 10))),
    Model("mlp-bf16", MLP(jnp.bfloat16), (32, 20), optax.sgd(0.1), BF16),
    Model("mlp-f16", MLP(jnp.float16), (32, 20), optax.sgd(0.1), F16),
    Model("cnn-adam", CNN(), (16, 8, 8, 1), optax.adam(1e-2)),
    Model("cnn-bf16", CNN(jnp.bfloat16), (16, 8, 8, 1), optax.sgd(0.1), BF16),
    Model("cnn-depthwise", DepthwiseCNN(), (16, 8, 8, 3), optax.adam(1e-2)),
    Model("lstm", Recurrent(nn.OptimizedLSTMCell), (8, 12, 5), optax.adam(1e-2)),
    Model("gru", Recurrent(nn.GRUCell), (8, 12, 5), optax.adam(1e-2)),
    Model("gpt", GPT(), (4, 16), optax.adam(1e-3)),
    Model("gpt-checkpoint", GPT(remat=True), (4, 16), optax.adam(1e-3)),
    Model("gpt-bf16", GPT(jnp.bfloat16), (4, 16), optax.adam(1e-3), BF16),
]


def make_data(shape: tuple[int, ...], steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    if len(shape) == 2 and shape[1] == 16:  # tokens, each to predict the next
        tokens = rng.integers(0, 50, (steps, shape[0], shape[1] + 1)).astype(np.int32)
        return [(t[:, :-1], t[:, 1:]) for t in tokens]
    x = rng.standard_normal((steps, *shape)).astype(np.float32)
    return [(a, rng.integers(0, 10, shape[0]).astype(np.int32)) for a in x]


def make_parameters(model: Model, x: np.ndarray) -> Any:
    """As Flax would, but made by NumPy: to compile its generators takes JAX's CPU longer than the training step."""
    rng = np.random.default_rng(1)

    def make(path: Any, like: Any) -> np.ndarray:
        if path[-1].key in ("bias", "scale"):
            return np.full(like.shape, float(path[-1].key == "scale"), like.dtype)
        deviation = np.prod(like.shape[:-1]) ** -0.5
        return (rng.standard_normal(like.shape) * deviation).astype(like.dtype)

    shapes = jax.eval_shape(model.model.init, jax.random.key(0), x)
    return jax.tree_util.tree_map_with_path(make, shapes)


def make_step(model: Model) -> Any:
    """The jitted training step: (parameters, optimizer state, inputs, labels) -> (parameters, state, loss)."""

    def loss_of(parameters: Any, x: Any, y: Any) -> Any:
        logits = model.model.apply(parameters, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(parameters: Any, state: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
        updates, state = model.optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    return step


def train(
    step: Any, model: Model, device: Any, parameters: Any, data: list[tuple[Any, Any]]
) -> np.ndarray:
    """The losses of one step per batch.

    The parameters say where it runs: with another default device JAX would trace the step once more.
    """
    parameters = jax.device_put(parameters, device)
    # On the device as the later states are, or JAX would compile the step again for them.
    state = jax.device_put(jax.jit(model.optimizer.init)(parameters), device)
    losses = []
    for x, y in data:
        parameters, state, loss = step(parameters, state, x, y)
        losses.append(loss)
    assert losses[-1].devices() == {device}
    return np.asarray([float(loss) for loss in losses])


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_losses_match(model: Model, xpu: Any, cpu: Any) -> None:
    """The losses differ by no more than the program's own conditioning explains.

    How much rounding may change a training run depends on the run. So the CPU trains three more times from parameters
    that are off by a few roundings of the model's type (as many as the longest sums lose); xpu may differ from the
    CPU by four times what those runs differ by.
    """
    data, step = make_data(model.input_shape, STEPS), make_step(model)
    parameters = make_parameters(model, data[0][0])
    expected = train(step, model, cpu, parameters, data)
    spread = (
        np.full(STEPS, 64 * model.epsilon if model.epsilon < BF16 else model.epsilon)
        * np.abs(expected)
        / 16
    )
    for seed in range(3):
        rng = np.random.default_rng(seed)
        factor = 1 + 8 * model.epsilon

        def perturb(a: Any, rng: Any = rng, factor: float = factor) -> Any:
            return np.asarray(a) * np.where(rng.random(a.shape) < 0.5, factor, 1 / factor).astype(
                a.dtype
            )

        spread = np.maximum(
            spread,
            np.abs(train(step, model, cpu, jax.tree.map(perturb, parameters), data) - expected),
        )
    actual = train(step, model, xpu, parameters, data)
    assert np.isfinite(actual).all()
    assert (np.abs(actual - expected) <= 4 * np.maximum.accumulate(spread)).all(), (
        actual,
        expected,
        4 * spread,
    )
