"""Functions that StableHLO's operations, and so torch_xla's, lack: custom calls that the compiler reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .calls import call
from .copies import broadcast
from .integers import tensors


def lgamma(x: Any) -> Any:
    return _of("lgamma", x)


def digamma(x: Any) -> Any:
    """``digamma``, which is an infinity of the other sign at a zero, where XLA's is NaN."""
    import torch

    x = _floats(x)
    return torch.where(x == 0, -torch.reciprocal(x), _of("digamma", x))


def polygamma(n: int, x: Any) -> Any:
    """``polygamma``, the ``n``-th derivative of digamma. Raises RuntimeError for a negative ``n``."""
    import torch

    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return digamma(x)
    x = _floats(x)
    return _of("polygamma", torch.full_like(x, n), x)


def igamma(a: Any, x: Any) -> Any:
    return _of("igamma", a, x)


def igammac(a: Any, x: Any) -> Any:
    return _of("igammac", a, x)


def zeta(x: Any, q: Any) -> Any:
    return _of("zeta", x, q)


def logcumsumexp(x: Any, dim: int) -> Any:
    """``aten::_logcumsumexp``: logarithms of running sums of exponentials, in float32 for shorter floats.

    Each step adds the sums of the elements before, of twice as many as in the last step.
    """
    import torch

    if x.is_complex():
        return torch.ops.aten._logcumsumexp(x.cpu(), dim).to(x.device)
    if not x.dim():
        return torch.clone(x)
    dim %= x.dim()
    y = x.to(torch.promote_types(x.dtype, torch.float32))
    size, shift = x.shape[dim], 1
    while shift < size:
        padding = [0, 0] * (x.dim() - 1 - dim) + [shift, 0]
        before = torch.constant_pad_nd(
            torch.slice_copy(y, dim, 0, size - shift), padding, -math.inf
        )
        larger = torch.maximum(y, before)
        rest = torch.log1p(torch.exp(-torch.abs(y - before)))
        # Infinities are equal here, whose difference is NaN.
        y = torch.where(y == before, y + math.log(2), larger + rest)
        shift *= 2
    return y.to(x.dtype)


def round_to(x: Any, *, decimals: int) -> Any:
    """``round`` to ``decimals`` digits behind the point, or of those before it if it is negative, as PyTorch does."""
    import torch

    if not x.is_floating_point():
        raise RuntimeError('"round_cpu" not implemented for integers with decimals')
    ten = 10.0 ** abs(decimals)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if decimals >= 0:
        return (torch.round(wide * ten) / ten).to(x.dtype)
    return (torch.round(wide / ten) * ten).to(x.dtype)


def xlogy(kernel: Callable[..., Any], x: Any, y: Any) -> Any:
    """``xlogy`` of a number too, and of two dtypes: torch_xla refuses a number, and makes no program of two dtypes."""
    return kernel(*_alike(x, y))


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), 0 for an ``x`` of 0 unless ``y`` is NaN."""
    import torch

    x, y = _alike(x, y)
    product = torch.where(x == 0, torch.zeros_like(x), x * torch.log1p(y))
    return torch.where(torch.isnan(y), y, product)


def _alike(x: Any, y: Any) -> list[Any]:
    """Both on the device and of one shape, in the float dtype of both."""
    import torch

    dtype = torch.result_type(x, y)
    if not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    return broadcast(*(t.to(dtype) for t in tensors(x, y, dtype)))


def _of(name: str, *operands: Any) -> Any:

    same = [_floats(x) for x in operands] if len(operands) == 1 else _alike(*operands)
    (result,) = call(f"tripont.{name}", same, [(same[0].shape, same[0].dtype)], {})
    return result


def _floats(x: Any) -> Any:
    import torch

    return x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
