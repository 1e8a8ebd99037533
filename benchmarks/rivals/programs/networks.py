"""Layers of neural networks, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..program import Registry

PROGRAMS = Registry("network layers", __name__)


def normal(random: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * random.normal(size=shape)).astype(np.float32)


HEADS, LENGTH, WIDTH = 8, 2048, 64


def attention_jax(gradient: bool) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (WIDTH**-0.5)
        causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
        return jnp.einsum("bhqk,bhkd->bhqd", weights, v)

    if gradient:
        return jax.grad(lambda *qkv: (attention(*qkv) ** 2).sum(), argnums=(0, 1, 2))
    return attention


def attention_torch(gradient: bool) -> Callable[..., Any]:
    import torch

    sdpa = torch.nn.functional.scaled_dot_product_attention
    if not gradient:
        return lambda q, k, v: sdpa(q, k, v, is_causal=True)

    def backward(*qkv: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in qkv]
        return torch.autograd.grad((sdpa(*leaves, is_causal=True) ** 2).sum(), leaves)

    return backward


for gradient in (False, True):
    PROGRAMS.add(
        f"attention_{LENGTH}_causal" + "_gradient" * gradient,
        f"causal attention 1x{HEADS}x{LENGTH}x{WIDTH}"
        + (", gradient" if gradient else ", softmax(QK^T)V by hand in JAX, SDPA in torch"),
        lambda r: tuple(normal(r, 1, HEADS, LENGTH, WIDTH) for _ in range(3)),
        jax=lambda gradient=gradient: attention_jax(gradient),
        torch=lambda gradient=gradient: attention_torch(gradient),
        bytes=4.0 * (6 if gradient else 4) * HEADS * LENGTH * WIDTH,
        flops=(2 + 5 * gradient) * HEADS * LENGTH**2 * WIDTH * 1.0,
        terms=LENGTH,
    )

CHANNELS, SIDE = 128, 64


def unet_jax() -> Callable[..., Any]:
    import jax

    def group_norm(x: Any, scale: Any, groups: int = 32) -> Any:
        parts = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
        mean = parts.mean((1, 2, 4), keepdims=True)
        variance = ((parts - mean) ** 2).mean((1, 2, 4), keepdims=True)
        return ((parts - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale

    def conv(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def loss(weights: Any, x: Any) -> Any:
        w1, s1, w2, s2 = weights
        y = conv(jax.nn.silu(group_norm(x, s1)), w1)
        y = conv(jax.nn.silu(group_norm(y, s2)), w2)
        return ((x + y) ** 2).mean()

    def gradient(x: Any, w1: Any, s1: Any, w2: Any, s2: Any) -> Any:
        return jax.grad(loss)((w1, s1, w2, s2), x)

    return gradient


def unet_torch() -> Callable[..., Any]:
    import torch
    from torch.nn import functional

    def gradient(x: Any, w1: Any, s1: Any, w2: Any, s2: Any) -> Any:
        leaves = [w.detach().requires_grad_() for w in (w1, s1, w2, s2)]
        first, scale1, second, scale2 = leaves
        image = x.permute(0, 3, 1, 2)
        y = functional.silu(functional.group_norm(image, 32, scale1))
        y = functional.conv2d(y, first.permute(3, 2, 0, 1), padding=1)
        y = functional.silu(functional.group_norm(y, 32, scale2))
        y = functional.conv2d(y, second.permute(3, 2, 0, 1), padding=1)
        return torch.autograd.grad(((image + y) ** 2).mean(), leaves)

    return gradient


PROGRAMS.add(
    "unet_block_gradient",
    f"residual block of a diffusion UNet, 3x3 {CHANNELS} to {CHANNELS} on {SIDE}x{SIDE}: gradient of the weights",
    lambda r: (
        normal(r, 1, SIDE, SIDE, CHANNELS),
        normal(r, 3, 3, CHANNELS, CHANNELS, scale=0.03),
        normal(r, CHANNELS),
        normal(r, 3, 3, CHANNELS, CHANNELS, scale=0.03),
        normal(r, CHANNELS),
    ),
    jax=unet_jax,
    torch=unet_torch,
    flops=2.0 * SIDE**2 * 9 * CHANNELS**2 * 5,
    terms=9 * CHANNELS,
)


def dilated_jax() -> Callable[..., Any]:
    import jax

    def loss(ws: Any, x: Any) -> Any:
        for power, w in enumerate(ws):
            dilation = 2**power
            padded = jax.lax.conv_general_dilated(
                x,
                w,
                (1,),
                [(2 * dilation, 0)],
                rhs_dilation=(dilation,),
                dimension_numbers=("NWC", "WIO", "NWC"),
            )
            x = x + jax.nn.gelu(padded)
        return (x**2).mean()

    return lambda x, *ws: jax.grad(loss)(ws, x)


def dilated_torch() -> Callable[..., Any]:
    import torch
    from torch.nn import functional

    def gradient(x: Any, *ws: Any) -> Any:
        leaves = [w.detach().requires_grad_() for w in ws]
        y = x.permute(0, 2, 1)
        for power, w in enumerate(leaves):
            padded = functional.pad(y, (2 * 2**power, 0))
            z = functional.conv1d(padded, w.permute(2, 1, 0), dilation=2**power)
            y = y + functional.gelu(z, approximate="tanh")
        return torch.autograd.grad((y**2).mean(), leaves)

    return gradient


PROGRAMS.add(
    "dilated_1d_gradient",
    "WaveNet: five causal 1-d convolutions, dilations 1 to 16, 4x2048x64: gradient",
    lambda r: (normal(r, 4, 2048, 64), *(normal(r, 3, 64, 64, scale=0.05) for _ in range(5))),
    jax=dilated_jax,
    torch=dilated_torch,
    flops=2.0 * 4 * 2048 * 3 * 64 * 64 * 5 * 3,
    terms=8192,
)


def transposed_jax() -> Callable[..., Any]:
    import jax

    return lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME")


def transposed_torch() -> Callable[..., Any]:
    import torch

    def run(x: Any, w: Any) -> Any:
        kernel = w.flip(0, 1).permute(2, 3, 0, 1)
        y = torch.nn.functional.conv_transpose2d(x.permute(0, 3, 1, 2), kernel, stride=2, padding=1)
        return y.permute(0, 2, 3, 1)

    return run


PROGRAMS.add(
    "transposed_convolution",
    "4x4 transposed convolution, stride 2, 128 to 64 on 4x32x32",
    lambda r: (normal(r, 4, 32, 32, 128), normal(r, 4, 4, 128, 64)),
    jax=transposed_jax,
    torch=transposed_torch,
    flops=2.0 * 4 * 32 * 32 * 16 * 128 * 64,
    terms=4 * 128,
)

VOCABULARY, FEATURES, TOKENS = 30_000, 256, 4096


def embedding_jax() -> Callable[..., Any]:
    import jax

    return jax.grad(lambda table, ids: (table[ids] ** 2).sum())


def embedding_torch() -> Callable[..., Any]:
    import torch

    def gradient(table: Any, ids: Any) -> Any:
        leaf = table.detach().requires_grad_()
        loss = (torch.nn.functional.embedding(ids, leaf) ** 2).sum()
        return torch.autograd.grad(loss, leaf)

    return gradient


PROGRAMS.add(
    "embedding_gradient",
    f"gradient of {TOKENS:,} rows of a table of {VOCABULARY:,}x{FEATURES}",
    lambda r: (normal(r, VOCABULARY, FEATURES), r.integers(0, VOCABULARY, TOKENS).astype(np.int32)),
    jax=embedding_jax,
    torch=embedding_torch,
    bytes=4.0 * FEATURES * (VOCABULARY + 3 * TOKENS),
    terms=4,
)
