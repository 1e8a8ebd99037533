"""Single operations that users measured against other libraries."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..rivals.program import Registry

PROGRAMS = Registry("single operations", __name__)
N = 1 << 20


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def jnp_of(name: str, **settings: Any) -> Callable[[], Callable[..., Any]]:
    def make() -> Callable[..., Any]:
        import jax.numpy as jnp

        return lambda *arrays: getattr(jnp, name)(*arrays, **settings)

    return make


def torch_of(name: str, **settings: Any) -> Callable[[], Callable[..., Any]]:
    def make() -> Callable[..., Any]:
        import torch

        return lambda *tensors: getattr(torch, name)(*tensors, **settings)

    return make


def distinct(random: np.random.Generator) -> np.ndarray:
    return random.permutation(N).astype(np.float32)


PROGRAMS.add(
    "argsort",
    "argsort of a million distinct floats",
    lambda r: (distinct(r),),
    jax=jnp_of("argsort"),
    numpy=lambda: np.argsort,
    torch=torch_of("argsort"),
    bytes=8.0 * N,
    source="jax-ml/jax#10434",
)


def sort_pairs() -> Callable[..., Any]:
    import jax

    return lambda keys, *values: jax.lax.sort((keys, *values), num_keys=1)


def sort_pairs_numpy() -> Callable[..., Any]:
    def run(keys: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
        order = np.argsort(keys)
        return [a[order] for a in (keys, *values)]

    return run


PROGRAMS.add(
    "sort_three",
    "a million keys with two arrays of values (lax.sort of three operands)",
    lambda r: (distinct(r), normal(r, N), np.arange(N, dtype=np.int32)),
    jax=sort_pairs,
    numpy=sort_pairs_numpy,
    bytes=24.0 * N,
    source="jax-ml/jax#27004",
)
PROGRAMS.add(
    "sum_first_axis",
    "sum of 128^3 over the first axis",
    lambda r: (normal(r, 128, 128, 128),),
    jax=jnp_of("sum", axis=0),
    numpy=lambda: lambda x: x.sum(0),
    torch=torch_of("sum", dim=0),
    bytes=4.0 * 128**3,
    flops=128.0**3,
    terms=128,
    source="jax-ml/jax#25187",
)


def fftn_jax() -> Callable[..., Any]:
    import jax.numpy as jnp

    return jnp.fft.fftn


def fftn_scipy() -> Callable[..., Any]:
    import scipy.fft

    return lambda x: scipy.fft.fftn(x, workers=int(os.environ["OMP_NUM_THREADS"]))


def fftn_torch() -> Callable[..., Any]:
    import torch

    return torch.fft.fftn


PROGRAMS.add(
    "fftn_200",
    "fftn of 200^3 complex64",
    lambda r: ((normal(r, 200, 200, 200) + 1j * normal(r, 200, 200, 200)).astype(np.complex64),),
    jax=fftn_jax,
    numpy=fftn_scipy,
    torch=fftn_torch,
    bytes=16.0 * 200**3,
    flops=5.0 * 200**3 * np.log2(200.0**3),
    terms=24,
    source="jax-ml/jax#25808",
)


def depthwise_jax() -> Callable[..., Any]:
    import jax

    def run(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            w,
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=x.shape[-1],
        )

    return run


def depthwise_torch() -> Callable[..., Any]:
    import torch

    def run(x: Any, w: Any) -> Any:
        y = torch.nn.functional.conv2d(
            x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1, groups=x.shape[-1]
        )
        return y.permute(0, 2, 3, 1)

    return run


def depthwise_tensorflow() -> Callable[..., Any]:
    import tensorflow as tf

    return lambda x, w: tf.nn.depthwise_conv2d(
        x, tf.transpose(w, (0, 1, 3, 2)), (1, 1, 1, 1), "SAME"
    )


PROGRAMS.add(
    "depthwise_convolution",
    "3x3 depthwise convolution of 8x56x56x128",
    lambda r: (normal(r, 8, 56, 56, 128), normal(r, 3, 3, 1, 128)),
    jax=depthwise_jax,
    torch=depthwise_torch,
    tensorflow=depthwise_tensorflow,
    bytes=8.0 * 8 * 56 * 56 * 128,
    flops=18.0 * 8 * 56 * 56 * 128,
    terms=9,
    source="jax-ml/jax#23713",
)
PROGRAMS.add(
    "product_f16_1024",
    "float16 product of 1024x1024",
    lambda r: (normal(r, 1024, 1024).astype(np.float16), normal(r, 1024, 1024).astype(np.float16)),
    jax=jnp_of("matmul"),
    torch=torch_of("matmul"),
    bytes=6.0 * 1024**2,
    flops=2.0 * 1024**3,
    unit="f16",
    terms=1024,
    source="jax-ml/jax#7462, pytorch/pytorch#146508",
)


def bf16(random: np.random.Generator, *shape: int) -> np.ndarray:
    import ml_dtypes

    return normal(random, *shape).astype(ml_dtypes.bfloat16)


def convolution_jax() -> Callable[..., Any]:
    import jax

    return lambda x, w: jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def convolution_torch() -> Callable[..., Any]:
    import torch

    return lambda x, w: torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1
    ).permute(0, 2, 3, 1)


PROGRAMS.add(
    "convolution_bf16",
    "3x3 bf16 convolution, 64 to 64 on 8x56x56",
    lambda r: (bf16(r, 8, 56, 56, 64), bf16(r, 3, 3, 64, 64)),
    jax=convolution_jax,
    torch=convolution_torch,
    flops=2.0 * 8 * 56 * 56 * 9 * 64 * 64,
    unit="bf16",
    terms=576,
    source="pytorch/pytorch#183815",
)
