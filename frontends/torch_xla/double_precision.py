"""Functions whose constants torch_xla rounds to float32: of float64 they have the precision of float32 there.

Logarithms of a float32 are computed in float64 besides, so that ``log2(2**n)`` is ``n``, as on PyTorch's CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Kernel = Callable[..., Any]


def log2(kernel: Kernel, x: Any) -> Any:
    return _logarithm(kernel, x, 2.0)


def log10(kernel: Kernel, x: Any) -> Any:
    return _logarithm(kernel, x, 10.0)


def _logarithm(kernel: Kernel, x: Any, base: float) -> Any:
    """The logarithm to a base: a whole number of a power of the base."""
    import torch

    factor = 1 / math.log(base)
    if x.dtype == torch.float32:
        return (torch.log(x.to(torch.float64)) * factor).to(torch.float32)
    if x.dtype == torch.complex128:
        return torch.log(x) * factor
    if x.dtype != torch.float64:
        return kernel(x)
    result = torch.log(x) * factor
    whole = torch.round(result)
    power = torch.pow(base, torch.abs(whole))
    power = torch.where(whole < 0, 1 / power, power)
    # The logarithm of a neighbour of a power of 10 is rounded to the same number, but near 1.
    is_power = (torch.abs(power - x) <= x * 2**-52) & (whole != 0)
    return torch.where(is_power, whole, result)


def gelu(kernel: Kernel, x: Any, *, approximate: str = "none") -> Any:
    import torch

    if x.dtype != torch.float64:
        return kernel(x, approximate=approximate)
    if approximate == "tanh":
        return 0.5 * x * (1 + torch.tanh(_of_tanh(x)))
    return x * 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))


def gelu_backward(kernel: Kernel, gradient: Any, x: Any, *, approximate: str = "none") -> Any:
    import torch

    if x.dtype != torch.float64:
        return kernel(gradient, x, approximate=approximate)
    if approximate == "tanh":
        y = torch.tanh(_of_tanh(x))
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
        return gradient * (0.5 * (1 + y) + 0.5 * x * (1 - y * y) * slope)
    share = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
    return gradient * (share + x * torch.exp(x * x * -0.5) / math.sqrt(2 * math.pi))


def _of_tanh(x: Any) -> Any:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
