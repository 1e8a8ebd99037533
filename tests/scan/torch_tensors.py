"""Tensors of PyTorch for the scans: drawn by a fixed seed, on the CPU."""

from __future__ import annotations

from typing import Any, Final

import torch

INTEGERS: Final = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
FLOATS: Final = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
COMPLEX: Final = (torch.complex64, torch.complex128)
ALL: Final = (*FLOATS, *INTEGERS, torch.bool, *COMPLEX)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _generator(shape: tuple[int, ...], seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(hash((seed, *shape)) % 2**31)


def normal(
    *shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, grad: bool = False
) -> torch.Tensor:
    """Of a normal distribution."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    x = torch.randn(shape, dtype=wide, generator=_generator(shape, seed))
    return x.to(dtype).requires_grad_(grad)


def positive(*shape: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    """float32 between 0.1 and 2."""
    x = torch.rand(shape, generator=_generator(shape, seed)) * 1.9 + 0.1
    return x.requires_grad_(grad)


def unit(*shape: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    """float32 between 0.05 and 0.95."""
    return (torch.rand(shape, generator=_generator(shape, seed)) * 0.9 + 0.05).requires_grad_(grad)


def integers(
    *shape: int, least: int = 0, most: int = 3, seed: int = 0, dtype: torch.dtype = torch.int64
) -> torch.Tensor:
    """Whole numbers from ``least`` to ``most``, of any type."""
    x = torch.randint(least, most + 1, shape, generator=_generator(shape, seed))
    return x.to(dtype)


def distinct(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Whole numbers around 0, each once, in any order."""
    count = int(torch.Size(shape).numel())
    order = torch.randperm(count, generator=_generator(shape, seed)) - count // 2
    return order.reshape(shape).to(dtype)


def definite(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Matrices that are symmetric, or Hermitian, and positive definite."""
    a = normal(*shape, seed=seed, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    return (a @ a.mH + shape[-1] * torch.eye(shape[-1], dtype=a.dtype)).to(dtype)


def special(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Zeros, ones, infinities, NaN, ends of the type and ordinary numbers: 24 of them."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True, False] * 6)
    if not dtype.is_floating_point:
        ends = torch.iinfo(dtype)
        first = torch.tensor([0, 1, ends.max, ends.min, 7, ends.max - 1, ends.min + 1, 2])
        return torch.cat([first.to(dtype), integers(16, most=9, dtype=dtype)])
    ends_of_floats = torch.finfo(dtype)
    numbers = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 0.5, -2.5, 1e-6]
    numbers += [ends_of_floats.max, ends_of_floats.min, ends_of_floats.tiny]
    first = torch.tensor([*numbers, ends_of_floats.tiny / 8], dtype=torch.float64).to(dtype)
    return torch.cat([first, normal(10, dtype=dtype)])


def named(name: str, options: dict[str, Any]) -> str:
    """The name of a call with its options."""
    return ", ".join([name, *(f"{key} {value}" for key, value in options.items())])
