"""Fourier transforms."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..program import Registry

PROGRAMS = Registry("Fourier transforms", __name__)


def of_scipy(name: str, axes: tuple[int, ...]) -> Callable[..., Any]:
    import scipy.fft

    threads = int(os.environ["OMP_NUM_THREADS"])
    return lambda x: getattr(scipy.fft, name)(x, axes=axes, workers=threads)


def of_jax(name: str, axes: tuple[int, ...]) -> Callable[..., Any]:
    import jax.numpy as jnp

    return lambda x: getattr(jnp.fft, name)(x, axes=axes)


def of_torch(name: str, axes: tuple[int, ...]) -> Callable[..., Any]:
    import torch

    return lambda x: getattr(torch.fft, name)(x, dim=axes)


def add(
    name: str, shape: tuple[int, ...], function: str, rank: int, dtype: type = np.float32
) -> None:
    """``rank``: the last dimensions, which are transformed."""
    axes = tuple(range(-rank, 0))
    size = math.prod(shape)
    is_complex = np.dtype(dtype).kind == "c"
    itemsize = np.dtype(dtype).itemsize
    operations = (5.0 if is_complex else 2.5) * size * math.log2(math.prod(shape[-rank:]))

    def inputs(random: np.random.Generator) -> tuple[np.ndarray]:
        real = random.normal(size=shape)
        return (
            (real + 1j * random.normal(size=shape)).astype(dtype)
            if is_complex
            else real.astype(dtype),
        )

    PROGRAMS.add(
        name,
        f"{function} of {'x'.join(map(str, shape))} {np.dtype(dtype).name}",
        inputs,
        jax=lambda: of_jax(function, axes),
        numpy=lambda: of_scipy(function, axes),
        torch=lambda: of_torch(function, axes),
        bytes=2 * size * itemsize,
        flops=operations,
        unit="f64" if itemsize // (1 + is_complex) == 8 else "f32",
        terms=max(1, int(math.log2(math.prod(shape[-rank:])))),
    )


add("rfft2_360", (16, 360, 360), "rfft2", 2)
add("rfft2_256", (16, 256, 256), "rfft2", 2)
add("irfftn_64", (64, 64, 33), "irfftn", 3, np.complex64)
add("fft_1024", (1024, 1024), "fftn", 1, np.complex64)
add("fft_1m", (1 << 20,), "fftn", 1, np.complex64)
add("fft_prime_1009", (256, 1009), "fftn", 1, np.complex64)
add("fftn_100", (100, 100, 100), "fftn", 3, np.complex64)
add("rfft_f64_1000", (1000, 1000), "rfftn", 1, np.float64)
