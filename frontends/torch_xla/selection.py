"""Medians, running minima, searches in sorted numbers and draws without replacement, which torch_xla computes on the
CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def median(x: Any) -> Any:
    """``median`` of all elements: the lower one of two, and NaN if there is one."""
    return _of_all(median_along, x)


def nanmedian(x: Any) -> Any:
    return _of_all(nanmedian_along, x)


def median_along(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """``median`` along a dimension, and the index of each."""
    import torch

    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    _check(x, dim)
    order = torch.argsort(x.detach(), dim=dim, stable=True)
    index = order.narrow(dim, (x.shape[dim] - 1) // 2, 1)
    if x.is_floating_point():
        nan = x.isnan()
        index = torch.where(nan.any(dim, True), nan.int().argmax(dim, True), index)
    return _taken(x, dim, index, keepdim)


def nanmedian_along(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """``nanmedian`` along a dimension: that of the numbers, and NaN where there are none."""
    import torch

    if not x.dim() or not x.is_floating_point():
        return median_along(x, dim, keepdim)
    _check(x, dim)
    nan = x.isnan()
    order = torch.argsort(torch.where(nan, 0, x.detach()), dim=dim, stable=True)
    # Numbers before what is none, and both in order: infinities are numbers.
    order = order.gather(dim, torch.argsort(nan.gather(dim, order).int(), dim=dim, stable=True))
    count = nan.logical_not().sum(dim, True)
    return _taken(x, dim, order.gather(dim, ((count - 1) // 2).clamp(min=0)), keepdim)


def searchsorted(
    sequence: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """``searchsorted``: where each of ``x`` goes into ``sequence``, sorted along its last dimension.

    ``sequence`` has one dimension, or all but the last of ``x``. Raises RuntimeError as PyTorch does.
    """
    import torch

    if not isinstance(x, torch.Tensor):
        x = torch.tensor(x, dtype=sequence.dtype, device=sequence.device)
    if side is not None and (side not in ("left", "right") or (right and side == "left")):
        raise RuntimeError(
            f"torch.searchsorted(): side is 'left' or 'right' and agrees with right={right}, but it is {side!r}"
        )
    if sequence.dtype != x.dtype:
        raise RuntimeError(
            "torch.searchsorted(): boundary tensor and input value tensor should have same dtype, but they have "
            f"{sequence.dtype} and {x.dtype}"
        )
    if not sequence.dim() or (sequence.dim() > 1 and sequence.shape[:-1] != x.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but they have {tuple(sequence.shape)} and {tuple(x.shape)}"
        )
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    size = sequence.shape[-1]
    low = torch.zeros(x.shape, dtype=torch.int64, device=x.device)
    high = torch.full_like(low, size)
    for _ in range(size.bit_length()):
        middle = torch.bitwise_right_shift(low + high, 1)
        place = middle.clamp(max=size - 1)
        if sequence.dim() == 1:
            found = sequence.index_select(0, place.reshape(-1)).reshape(place.shape)
        else:
            found = sequence.gather(-1, place)
        ends = found > x if right or side == "right" else found >= x
        searches = low < high
        high = torch.where(searches & ends, middle, high)
        low = torch.where(searches & ends.logical_not(), middle + 1, low)
    return low.int() if out_int32 else low


def bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """``bucketize``: where each of ``x`` goes into the ``boundaries``, which are sorted."""
    import torch

    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    dtype = torch.result_type(x, boundaries)
    return searchsorted(boundaries.to(dtype), x.to(dtype), out_int32=out_int32, right=right)


def cummin(kernel: Callable[..., Any], x: Any, dim: int) -> tuple[Any, Any]:
    """``cummin``: running minima along a dimension, and the last place of each. They are maxima of what falls where
    ``x`` rises; the kernel, PyTorch's own, computes them on the CPU.
    """
    import torch

    if x.dtype == torch.bool:
        falling = torch.logical_not(x)
    else:
        falling = -x if x.is_floating_point() else torch.bitwise_not(x)
    _, index = torch.cummax(falling, dim)
    return torch.gather(x, dim, index), index


def cummax(kernel: Callable[..., Any], x: Any, dim: int) -> tuple[Any, Any]:
    """``cummax``: the place of a maximum is the last one so far, as on PyTorch's CPU. torch_xla gives the first."""
    import torch

    values, _ = kernel(x, dim)
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    here = torch.view_copy(torch.arange(x.shape[dim], device=x.device), shape)
    is_maximum = x == values
    if x.is_floating_point():
        is_maximum = is_maximum | torch.isnan(x)
    return values, kernel(torch.where(is_maximum, here, 0), dim)[0]


def multinomial(
    kernel: Callable[..., Any],
    x: Any,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Any = None,
) -> Any:
    """``multinomial``: without replacement the places of the largest quotients of weights and exponential draws, as on
    PyTorch's CPU. The draws are the CPU's and go to the device as data. Whether the weights are a distribution is read
    back, as on PyTorch's other devices; the kernel says what is wrong. One place, and places that may be equal, are
    drawn on the device, from its seed, which the kernel does not take.
    """
    import torch

    if num_samples < 1 or not x.numel() or (num_samples > x.shape[-1] and not replacement):
        return kernel(x, num_samples, replacement, generator=generator)
    if num_samples == 1:
        return _one_of(x)
    if replacement:
        return _several_of(x, num_samples)
    is_distribution = (x >= 0).all() & (x.amax() < math.inf) & (x.sum(-1) > 0).all()
    if not is_distribution.item():
        return kernel(x, num_samples, replacement, generator=generator)
    draws = torch.empty(x.shape, dtype=x.dtype).exponential_(generator=generator)
    return torch.topk(x / draws.to(x.device), num_samples, -1)[1]


def _one_of(weights: Any) -> Any:
    """A place with a probability that is proportional to its weight, of each row."""
    import torch

    draws = torch.empty_like(weights, dtype=torch.float32).exponential_()
    quotients = weights / draws.clamp(min=torch.finfo(torch.float32).tiny)
    return torch.where(weights > 0, quotients, -1.0).argmax(-1, keepdim=True)


def _several_of(weights: Any, count: int) -> Any:
    """``count`` such places of each row."""
    import torch

    sums = weights.to(torch.promote_types(weights.dtype, torch.float32)).cumsum(-1)
    total = sums[..., -1:].contiguous()
    draws = torch.rand((*weights.shape[:-1], count), dtype=sums.dtype, device=weights.device)
    last = (sums < total).sum(-1, keepdim=True)  # of those that have a weight
    return torch.searchsorted(sums, draws * total, right=True).minimum(last)


def randperm(kernel: Callable[..., Any], n: int, **options: Any) -> Any:
    """``randperm``: the CPU's permutation, whose seed it follows. torch_xla's follows none."""
    import torch

    device = options.pop("device", None)
    return torch.randperm(n, **options, device="cpu").to(device)


def _of_all(along: Any, x: Any) -> Any:
    import torch

    if not x.numel():
        nothing = float("nan") if x.is_floating_point() else torch.iinfo(x.dtype).min
        return torch.full((), nothing, dtype=x.dtype, device=x.device)
    return along(x.reshape(-1), 0)[0]


def _taken(x: Any, dim: int, index: Any, keepdim: bool) -> tuple[Any, Any]:
    values = x.gather(dim, index)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _check(x: Any, dim: int) -> None:
    if not x.shape[dim]:
        raise IndexError(
            f"median(): Expected reduction dim {dim} to have non-zero size, but x has the shape {tuple(x.shape)}"
        )
