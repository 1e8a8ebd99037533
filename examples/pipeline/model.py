"""A small transformer as a chain of chunks, each with its own parameters."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Parameters = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Model:
    """``layers`` blocks, of which each of ``chunks`` has as many; the first embeds, the last gives the loss."""

    chunks: int
    layers: int = 8
    width: int = 128
    heads: int = 4
    length: int = 64
    vocabulary: int = 256

    def __post_init__(self) -> None:
        if self.layers % self.chunks:
            raise ValueError(f"{self.layers} layers do not split into {self.chunks} chunks")

    def initial(self, chunk: int) -> Parameters:
        """The parameters of one chunk: those of a layer are the same however layers are split."""
        count = self.layers // self.chunks
        root = jax.random.key(0)
        parameters: Parameters = {
            "blocks": [
                self._block(jax.random.fold_in(root, chunk * count + i)) for i in range(count)
            ]
        }
        scale = self.width**-0.5
        if chunk == 0:
            keys = jax.random.split(jax.random.fold_in(root, 1000))
            shapes = {
                "tokens": (self.vocabulary, self.width),
                "positions": (self.length, self.width),
            }
            for key, (name, shape) in zip(keys, shapes.items(), strict=True):
                parameters[name] = scale * jax.random.normal(key, shape)
        if chunk == self.chunks - 1:
            key = jax.random.fold_in(root, 1001)
            parameters["head"] = scale * jax.random.normal(key, (self.width, self.vocabulary))
        return parameters

    def _block(self, key: jax.Array) -> Parameters:
        shapes = {"qkv": (self.width, 3 * self.width), "out": (self.width, self.width)}
        shapes |= {"up": (self.width, 4 * self.width), "down": (4 * self.width, self.width)}
        keys = jax.random.split(key, len(shapes))
        return {
            name: jax.random.normal(k, shape) * shape[0] ** -0.5
            for k, (name, shape) in zip(keys, shapes.items(), strict=True)
        }

    def activations(self, sequences: int) -> tuple[int, int, int]:
        """The shape of what chunks hand on."""
        return (sequences, self.length, self.width)

    def run(
        self, chunk: int, parameters: Parameters, x: jax.Array, targets: jax.Array
    ) -> jax.Array:
        """Activations for the next chunk; the last one's are the mean loss. The first one's ``x`` are tokens."""
        if chunk == 0:
            x = parameters["tokens"][x] + parameters["positions"]
        for block in parameters["blocks"]:
            x = x + self._attention(block, _normalise(x))
            x = x + jax.nn.gelu(_normalise(x) @ block["up"]) @ block["down"]
        if chunk < self.chunks - 1:
            return x
        logits = jax.nn.log_softmax(_normalise(x) @ parameters["head"])
        return -jnp.mean(jnp.take_along_axis(logits, targets[..., None], axis=-1))

    def _attention(self, block: Parameters, x: jax.Array) -> jax.Array:
        parts = (x @ block["qkv"]).reshape(*x.shape[:2], 3, self.heads, -1)
        q, k, v = jnp.moveaxis(parts, 2, 0)
        scores = jnp.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
        causal = jnp.tril(jnp.ones((self.length, self.length), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e9))
        return jnp.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape) @ block["out"]


def _normalise(x: jax.Array) -> jax.Array:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


class Chunk:
    """One chunk's programs, parameters and gradients, on the device that is the default one."""

    def __init__(self, model: Model, number: int, microbatches: int) -> None:
        self.number = number
        self.is_last = number == model.chunks - 1
        self.parameters = jax.jit(partial(model.initial, number))()
        self.momentum = jax.tree.map(jnp.zeros_like, self.parameters)
        self.gradients: Parameters | None = None
        self.inputs: dict[int, tuple[jax.Array, jax.Array]] = {}  # of microbatches under way
        run = partial(model.run, number)

        def backward(
            parameters: Parameters, x: jax.Array, targets: jax.Array, above: jax.Array
        ) -> tuple[Parameters, jax.Array | None]:
            """Gradients of the parameters and of ``x``. What was forgotten since the forward pass is computed again."""
            if number == 0:  # tokens have no gradient
                _, pull = jax.vjp(lambda p: run(p, x, targets), parameters)
                return pull(above)[0], None
            _, pull = jax.vjp(lambda p, x: run(p, x, targets), parameters, x)
            return pull(above)

        def step(
            parameters: Parameters, momentum: Parameters, gradients: Parameters
        ) -> tuple[Parameters, Parameters]:
            momentum = jax.tree.map(lambda m, g: 0.9 * m + g / microbatches, momentum, gradients)
            return jax.tree.map(lambda p, m: p - 0.02 * m, parameters, momentum), momentum

        self._forward = jax.jit(run)
        self._backward = jax.jit(backward)
        self._add = jax.jit(partial(jax.tree.map, jnp.add), donate_argnums=0)
        self._step = jax.jit(step, donate_argnums=(0, 1))

    def forward(self, microbatch: int, x: jax.Array, targets: jax.Array) -> jax.Array:
        self.inputs[microbatch] = (x, targets)
        return self._forward(self.parameters, x, targets)

    def backward(self, microbatch: int, above: jax.Array | None) -> jax.Array | None:
        """Adds to the gradients. ``above``: the gradient of what ``forward`` gave; the last chunk's is 1."""
        x, targets = self.inputs.pop(microbatch)
        if above is None:
            above = jnp.float32(1)
        gradients, below = self._backward(self.parameters, x, targets, above)
        first = self.gradients is None
        self.gradients = gradients if first else self._add(self.gradients, gradients)
        return below

    def step(self) -> None:
        self.parameters, self.momentum = self._step(self.parameters, self.momentum, self.gradients)
        self.gradients = None


def batches(model: Model, microbatches: int, sequences: int, seed: int) -> np.ndarray:
    """Text to learn: sequences that count up, in steps of their own. [microbatches, sequences, length + 1]"""
    random = np.random.default_rng(seed)
    start, stride = random.integers(0, 7, (2, microbatches, sequences, 1))
    return ((start + stride * np.arange(model.length + 1)) % model.vocabulary).astype(np.int32)
