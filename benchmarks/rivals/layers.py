"""Layers of whole models, written as the users of each framework write them.

A model is a function of ``net``, which has the layers, and its data; it is written once (:mod:`.models`). Its
weights are a list: a layer takes the next ones. :class:`Recorder` goes through a model and makes the list, :class:`Jax`
and :class:`Torch` compute with it. Images are NHWC in JAX and NCHW in PyTorch, sequences are ``[batch, positions,
features]`` in both; the weights of a convolution are HWIO and OIHW, those of a dense layer ``[in, out]`` and
``[out, in]``: each framework has them as its users hold them (:func:`arranged`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

IMAGE: Final = "image"
KERNEL: Final = "kernel"
MATRIX: Final = "matrix"
OTHER: Final = "other"


def kind_of(data: Any) -> str:
    """That of a model's data: images, and sound of 80 frequencies, have their features last."""
    is_image = data.ndim > 3 or (data.ndim == 3 and data.shape[-1] == 80)
    return IMAGE if is_image else OTHER


def arranged(kind: str, array: Any) -> Any:
    """The array of JAX's order as PyTorch's users hold it; a contiguous copy."""
    if kind == IMAGE:
        array = np.moveaxis(array, -1, 1)
    elif kind == KERNEL:
        array = np.moveaxis(array, (-1, -2), (0, 1))
    elif kind == MATRIX:
        array = array.T
    return np.ascontiguousarray(array)


def rearranged(kind: str, array: Any) -> Any:
    """The inverse of :func:`arranged`, for results."""
    if kind == IMAGE:
        return np.moveaxis(array, 1, -1)
    if kind == KERNEL:
        return np.moveaxis(array, (0, 1), (-1, -2))
    return array.T if kind == MATRIX else array


def rotary_tables(positions: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines ``[positions, width]`` of rotary embeddings, whose halves are rotated (f32)."""
    frequencies = 10_000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(positions)[:, None] * np.concatenate([frequencies, frequencies])
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class Recorder:
    """Makes the weights that a model asks for, and counts its multiplications; computes shapes alone.

    ``terms``: of the longest sum of the model, and, of a model in ``training``, of those of its gradients too.
    ``layers``: with weights that it has; in half precision the result of each is rounded.
    """

    def __init__(self, random: np.random.Generator | None, training: bool = False) -> None:
        self.random = random
        self.training = training
        self.weights: list[np.ndarray] = []
        self.kinds: list[str] = []
        self.products = 0.0
        self.terms = 1
        self.layers = 0

    def sum_of(self, terms: int, *in_gradients: int) -> None:
        """A layer has sums of so many terms; those of its gradients."""
        self.layers += 1
        self.terms = max(self.terms, terms, *(in_gradients if self.training else ()))

    def weight(self, kind: str, *shape: int, mean: float = 0.0, scale: float) -> None:
        values = np.broadcast_to(np.float32(0), shape)
        if self.random is not None:
            values = (mean + scale * self.random.standard_normal(shape, np.float32)).astype(
                np.float32
            )
        self.weights.append(values)
        self.kinds.append(kind)

    def shape(self, *shape: int) -> np.ndarray:
        return np.broadcast_to(np.float32(0), shape)

    def conv(
        self,
        x: Any,
        features: int,
        size: int,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
        padding: int | None = None,
    ) -> Any:
        dimensions = x.ndim - 2
        terms = size**dimensions * x.shape[-1] // groups
        self.weight(
            KERNEL, *(size,) * dimensions, x.shape[-1] // groups, features, scale=terms**-0.5
        )
        if bias:
            self.weight(OTHER, features, scale=0.1)
        around = 2 * ((size - 1) // 2 if padding is None else padding)
        space = [(n + around - size) // stride + 1 for n in x.shape[1:-1]]
        self.products += float(np.prod([x.shape[0], *space, features, terms]))
        positions = x.shape[0] * math.prod(space)
        # A first layer's input is data, which has no gradient.
        behind = size**dimensions * features // groups if self.weights[2 if bias else 1 :] else 1
        self.sum_of(terms, behind, positions)
        return self.shape(x.shape[0], *space, features)

    def dense(self, x: Any, features: int, bias: bool = True) -> Any:
        self.weight(MATRIX, x.shape[-1], features, scale=x.shape[-1] ** -0.5)
        if bias:
            self.weight(OTHER, features, scale=0.1)
        self.products += float(x.size * features)
        self.sum_of(x.shape[-1], features, x.size // x.shape[-1])
        return self.shape(*x.shape[:-1], features)

    def embed(self, tokens: Any, count: int, width: int) -> Any:
        self.weight(OTHER, count, width, scale=1.0)
        return self.shape(*tokens.shape, width)

    def parameter(self, *shape: int, mean: float = 0.0, scale: float = 0.1) -> Any:
        self.weight(OTHER, *shape, mean=mean, scale=scale)
        return self.shape(*shape)

    def scale_and_shift(self, x: Any) -> Any:
        self.weight(OTHER, x.shape[-1], mean=1.0, scale=0.1)
        self.weight(OTHER, x.shape[-1], scale=0.1)
        self.sum_of(1, x.size // x.shape[-1])
        return x

    def batch_norm(self, x: Any, training: bool) -> Any:
        self.scale_and_shift(x)
        if not training:
            self.weight(OTHER, x.shape[-1], scale=0.1)
            self.weight(OTHER, x.shape[-1], mean=1.0, scale=0.05)
        return x

    def group_norm(self, x: Any, groups: int) -> Any:
        self.sum_of(x.size // x.shape[0] // groups)
        return self.scale_and_shift(x)

    def layer_norm(self, x: Any) -> Any:
        self.sum_of(x.shape[-1])
        return self.scale_and_shift(x)

    def rms_norm(self, x: Any) -> Any:
        self.weight(OTHER, x.shape[-1], mean=1.0, scale=0.1)
        self.sum_of(x.shape[-1], x.size // x.shape[-1])
        return x

    def attention(self, q: Any, k: Any, v: Any, heads: int, causal: bool = False) -> Any:
        self.products += float(2 * q.size * k.shape[1]) * (0.5 if causal else 1.0)
        self.sum_of(max(q.shape[-1] // heads, k.shape[1]), q.shape[1])
        return q

    def lstm(self, x: Any, width: int) -> Any:
        self.weight(MATRIX, x.shape[-1], 4 * width, scale=x.shape[-1] ** -0.5)
        self.weight(MATRIX, width, 4 * width, scale=width**-0.5)
        self.weight(OTHER, 4 * width, scale=0.1)
        self.products += float(np.prod(x.shape[:2])) * (x.shape[-1] + width) * 4 * width
        self.sum_of(x.shape[-1] + width, 4 * width, math.prod(x.shape[:2]))
        return self.shape(*x.shape[:2], width)

    def selective_scan(self, x: Any, step: Any, into: Any, out: Any, rates: Any) -> Any:
        self.sum_of(x.shape[1] + into.shape[-1], math.prod(x.shape[:2]))
        return x

    def max_pool(self, x: Any) -> Any:
        return self.shape(x.shape[0], *(-(-n // 2) for n in x.shape[1:-1]), x.shape[-1])

    def upsample(self, x: Any) -> Any:
        return self.shape(x.shape[0], *(2 * n for n in x.shape[1:-1]), x.shape[-1])

    def concatenate(self, x: Any, y: Any) -> Any:
        return self.shape(*x.shape[:-1], x.shape[-1] + y.shape[-1])

    def mean(self, x: Any) -> Any:
        self.sum_of(x.size // x.shape[0] // x.shape[-1])
        return self.shape(x.shape[0], x.shape[-1])

    def sequence(self, x: Any) -> Any:
        return self.shape(x.shape[0], int(np.prod(x.shape[1:-1])), x.shape[-1])

    def image(self, x: Any, like: Any) -> Any:
        return self.shape(*like.shape[:-1], x.shape[-1])

    def add_features(self, x: Any, y: Any) -> Any:
        return x

    def rows(self, x: Any, places: Any) -> Any:
        return self.shape(places.shape[0], x.shape[-1])

    def sums(self, x: Any, places: Any, count: int) -> Any:
        return self.shape(count, x.shape[-1])

    def same(self, x: Any) -> Any:
        return x

    relu = relu6 = silu = gelu = softplus = same

    def rotate(self, x: Any, heads: int) -> Any:
        return x

    def split(self, x: Any, *widths: int) -> list[Any]:
        return [self.shape(*x.shape[:-1], width) for width in widths]


class Jax:
    """``half``: convolutions and dense layers take bf16 (flax's ``dtype``), weights are kept in their type."""

    def __init__(self, weights: Sequence[Any], half: bool = False) -> None:
        import jax

        self.jax = jax
        self.np = jax.numpy
        self.weights = iter(weights)
        self.half = half

    def next(self) -> Any:
        return next(self.weights)

    def cast(self, *arrays: Any) -> list[Any]:
        """The reference computes in f64, and what is f64 stays."""
        half = self.np.bfloat16
        return [a.astype(half) if self.half and a.dtype == self.np.float32 else a for a in arrays]

    def conv(
        self,
        x: Any,
        features: int,
        size: int,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
        padding: int | None = None,
    ) -> Any:
        dimensions = x.ndim - 2
        x, kernel = self.cast(x, self.next())
        letters = "DHW"[-dimensions:]
        around = (size - 1) // 2 if padding is None else padding
        y = self.jax.lax.conv_general_dilated(
            x, kernel, (stride,) * dimensions, [(around, around)] * dimensions,
            dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"), feature_group_count=groups,
        )  # fmt: skip
        return y + self.next().astype(y.dtype) if bias else y

    def dense(self, x: Any, features: int, bias: bool = True) -> Any:
        x, matrix = self.cast(x, self.next())
        y = x @ matrix
        return y + self.next().astype(y.dtype) if bias else y

    def embed(self, tokens: Any, count: int, width: int) -> Any:
        return self.next()[tokens]

    def parameter(self, *shape: int, mean: float = 0.0, scale: float = 0.1) -> Any:
        return self.next()

    def normal(self, x: Any, axes: tuple[int, ...]) -> Any:
        mean = x.mean(axes, keepdims=True)
        variance = ((x - mean) ** 2).mean(axes, keepdims=True)
        return (x - mean) * self.jax.lax.rsqrt(variance + 1e-5)

    def wide(self, x: Any) -> Any:
        """Norms of bf16 are computed in f32, in flax as in PyTorch."""
        return x.astype(self.np.float32) if x.dtype == self.np.bfloat16 else x

    def scale_and_shift(self, normal: Any, x: Any) -> Any:
        return (normal * self.next() + self.next()).astype(x.dtype)

    def batch_norm(self, x: Any, training: bool) -> Any:
        if training:
            return self.scale_and_shift(self.normal(self.wide(x), tuple(range(x.ndim - 1))), x)
        scale, shift, mean, variance = (self.next() for _ in range(4))
        factor = self.wide(scale) * self.jax.lax.rsqrt(self.wide(variance) + 1e-5)
        return ((self.wide(x) - mean) * factor + shift).astype(x.dtype)

    def group_norm(self, x: Any, groups: int) -> Any:
        parts = self.wide(x).reshape(*x.shape[:-1], groups, -1)
        axes = (*range(1, x.ndim - 1), x.ndim)
        return self.scale_and_shift(self.normal(parts, axes).reshape(x.shape), x)

    def layer_norm(self, x: Any) -> Any:
        return self.scale_and_shift(self.normal(self.wide(x), (-1,)), x)

    def rms_norm(self, x: Any) -> Any:
        wide = self.wide(x)
        factor = self.jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
        return (wide * factor * self.next()).astype(x.dtype)

    def attention(self, q: Any, k: Any, v: Any, heads: int, causal: bool = False) -> Any:
        width = q.shape[-1] // heads
        q, k, v = (a.reshape(*a.shape[:2], -1, width) for a in (q, k, v))
        y = self.jax.nn.dot_product_attention(q, k, v, is_causal=causal)
        return y.reshape(*y.shape[:2], -1)

    def lstm(self, x: Any, width: int) -> Any:
        jax, jnp = self.jax, self.np
        wide, own, bias = self.next(), self.next(), self.next()

        def step(state: Any, x: Any) -> Any:
            c, h = state
            i, f, g, o = jnp.split(x @ wide + h @ own + bias, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (c, h), h

        zero = jnp.zeros((x.shape[0], width), x.dtype)
        return jnp.swapaxes(jax.lax.scan(step, (zero, zero), jnp.swapaxes(x, 0, 1))[1], 0, 1)

    def selective_scan(self, x: Any, step: Any, into: Any, out: Any, rates: Any) -> Any:
        jnp = self.np

        def advance(state: Any, row: Any) -> Any:
            x, step, into, out = row
            state = (
                jnp.exp(step[..., None] * rates) * state + (step * x)[..., None] * into[:, None, :]
            )
            return state, (state * out[:, None, :]).sum(-1)

        zero = jnp.zeros((x.shape[0], *rates.shape), x.dtype)
        rows = [jnp.swapaxes(a, 0, 1) for a in (x, step, into, out)]
        return jnp.swapaxes(self.jax.lax.scan(advance, zero, rows)[1], 0, 1)

    def max_pool(self, x: Any) -> Any:
        """3 wide, stride 2, padded by one."""
        inner = x.ndim - 2
        return self.jax.lax.reduce_window(
            x, -self.np.inf, self.jax.lax.max, (1, *(3,) * inner, 1), (1, *(2,) * inner, 1),
            [(0, 0), *[(1, 1)] * inner, (0, 0)],
        )  # fmt: skip

    def upsample(self, x: Any) -> Any:
        shape = (x.shape[0], *(2 * n for n in x.shape[1:-1]), x.shape[-1])
        return self.jax.image.resize(x, shape, "nearest")

    def concatenate(self, x: Any, y: Any) -> Any:
        return self.np.concatenate([x, y], -1)

    def mean(self, x: Any) -> Any:
        return x.mean(tuple(range(1, x.ndim - 1)))

    def sequence(self, x: Any) -> Any:
        return x.reshape(x.shape[0], -1, x.shape[-1])

    def image(self, x: Any, like: Any) -> Any:
        return x.reshape(like.shape[:-1] + x.shape[-1:])

    def add_features(self, x: Any, y: Any) -> Any:
        """``y``, ``[batch, features]``, at every place of the image."""
        return x + y.reshape(y.shape[0], *(1,) * (x.ndim - 2), -1)

    def rows(self, x: Any, places: Any) -> Any:
        return x[places]

    def sums(self, x: Any, places: Any, count: int) -> Any:
        return self.jax.ops.segment_sum(x, places, count)

    def split(self, x: Any, *widths: int) -> list[Any]:
        return self.np.split(x, np.cumsum(widths)[:-1].tolist(), -1)  # type: ignore[no-any-return]

    def rotate(self, x: Any, heads: int) -> Any:
        """Rotary embeddings of ``[batch, positions, heads * width]``."""
        parts = x.reshape(*x.shape[:2], heads, -1)
        cos, sin = (
            self.np.asarray(t[:, None, :], x.dtype)
            for t in rotary_tables(x.shape[1], parts.shape[-1])
        )
        first, second = self.np.split(parts, 2, -1)
        return (parts * cos + self.np.concatenate([-second, first], -1) * sin).reshape(x.shape)

    def relu(self, x: Any) -> Any:
        return self.jax.nn.relu(x)

    def relu6(self, x: Any) -> Any:
        return self.jax.nn.relu6(x)

    def silu(self, x: Any) -> Any:
        return self.jax.nn.silu(x)

    def gelu(self, x: Any) -> Any:
        return self.jax.nn.gelu(x, approximate=False)

    def softplus(self, x: Any) -> Any:
        return self.jax.nn.softplus(x)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        logs = self.jax.nn.log_softmax(self.wide(logits))
        return -self.np.take_along_axis(logs, labels[..., None], -1).mean()


class Torch:
    """``half``: ``torch.autocast`` stands around the model, so nothing is to be done here."""

    def __init__(self, weights: Sequence[Any], half: bool = False) -> None:
        import torch

        self.torch = torch
        self.f = torch.nn.functional
        self.weights = iter(weights)

    def next(self) -> Any:
        return next(self.weights)

    def conv(
        self,
        x: Any,
        features: int,
        size: int,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
        padding: int | None = None,
    ) -> Any:
        convolve = (self.f.conv1d, self.f.conv2d, self.f.conv3d)[x.ndim - 3]
        kernel = self.next()
        around = (size - 1) // 2 if padding is None else padding
        return convolve(x, kernel, self.next() if bias else None, stride, around, 1, groups)

    def dense(self, x: Any, features: int, bias: bool = True) -> Any:
        matrix = self.next()
        return self.f.linear(x, matrix, self.next() if bias else None)

    def embed(self, tokens: Any, count: int, width: int) -> Any:
        return self.f.embedding(tokens, self.next())

    def parameter(self, *shape: int, mean: float = 0.0, scale: float = 0.1) -> Any:
        return self.next()

    def batch_norm(self, x: Any, training: bool) -> Any:
        scale, shift = self.next(), self.next()
        if training:
            return self.f.batch_norm(x, None, None, scale, shift, training=True)
        return self.f.batch_norm(x, self.next(), self.next(), scale, shift)

    def group_norm(self, x: Any, groups: int) -> Any:
        return self.f.group_norm(x, groups, self.next(), self.next())

    def layer_norm(self, x: Any) -> Any:
        return self.f.layer_norm(x, x.shape[-1:], self.next(), self.next())

    def rms_norm(self, x: Any) -> Any:
        return self.f.rms_norm(x, x.shape[-1:], self.next(), 1e-5)

    def attention(self, q: Any, k: Any, v: Any, heads: int, causal: bool = False) -> Any:
        width = q.shape[-1] // heads
        shared = heads != k.shape[-1] // width
        q, k, v = (a.unflatten(-1, (-1, width)).transpose(1, 2) for a in (q, k, v))
        y = self.f.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared)
        return y.transpose(1, 2).flatten(2)

    def lstm(self, x: Any, width: int) -> Any:
        wide, own, bias = self.next(), self.next(), self.next()
        zero = x.new_zeros(1, x.shape[0], width)
        weights = [wide, own, bias, self.torch.zeros_like(bias)]
        return self.torch.lstm(x, (zero, zero), weights, True, 1, 0.0, False, False, True)[0]

    def selective_scan(self, x: Any, step: Any, into: Any, out: Any, rates: Any) -> Any:
        """As transformers' Mamba does it without a kernel of its own."""
        torch = self.torch
        decay = torch.exp(step[..., None] * rates)
        added = (step * x)[..., None] * into[:, :, None, :]
        state = x.new_zeros(x.shape[0], *rates.shape)
        results = []
        for position in range(x.shape[1]):
            state = decay[:, position] * state + added[:, position]
            results.append(torch.matmul(state, out[:, position, :, None])[..., 0])
        return torch.stack(results, 1)

    def max_pool(self, x: Any) -> Any:
        return (self.f.max_pool1d, self.f.max_pool2d, self.f.max_pool3d)[x.ndim - 3](x, 3, 2, 1)

    def upsample(self, x: Any) -> Any:
        return self.f.interpolate(x, scale_factor=2.0, mode="nearest")

    def concatenate(self, x: Any, y: Any) -> Any:
        return self.torch.cat([x, y], 1 if x.ndim > 3 else -1)

    def mean(self, x: Any) -> Any:
        return x.mean(tuple(range(2, x.ndim)) if x.ndim > 3 else 1)

    def sequence(self, x: Any) -> Any:
        return x.flatten(2).transpose(1, 2)

    def image(self, x: Any, like: Any) -> Any:
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], *like.shape[2:])

    def add_features(self, x: Any, y: Any) -> Any:
        return x + y.reshape(*y.shape, *(1,) * (x.ndim - 2))

    def rows(self, x: Any, places: Any) -> Any:
        return x[places]

    def sums(self, x: Any, places: Any, count: int) -> Any:
        return x.new_zeros(count, x.shape[-1]).index_add(0, places, x)

    def split(self, x: Any, *widths: int) -> list[Any]:
        return list(x.split(widths, -1))

    def rotate(self, x: Any, heads: int) -> Any:
        parts = x.unflatten(-1, (heads, -1))
        tables = rotary_tables(x.shape[1], parts.shape[-1])
        cos, sin = (self.torch.from_numpy(t)[:, None, :].to(x.dtype) for t in tables)
        first, second = parts.chunk(2, -1)
        return (parts * cos + self.torch.cat([-second, first], -1) * sin).flatten(2)

    def relu(self, x: Any) -> Any:
        return self.f.relu(x)

    def relu6(self, x: Any) -> Any:
        return self.f.relu6(x)

    def silu(self, x: Any) -> Any:
        return self.f.silu(x)

    def gelu(self, x: Any) -> Any:
        return self.f.gelu(x)

    def softplus(self, x: Any) -> Any:
        return self.f.softplus(x)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return self.f.cross_entropy(logits.flatten(0, -2).float(), labels.flatten().long())


Model = Callable[..., Any]  # net, data, training -> results
