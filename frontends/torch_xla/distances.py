"""Distances of rows.

torch_xla refuses those of batches that are broadcast, has other numbers for pairs by 0 and infinity, and computes the
gradients of ``torch.cdist`` on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .copies import broadcast_shape


def cdist(kernel: Callable[..., Any], x: Any, y: Any, p: float, mode: Any) -> Any:
    """``aten::_cdist_forward`` of ``x`` [..., m, k] and ``y`` [..., n, k], whose other dimensions are broadcast."""
    import torch

    if x.dim() < 2 or y.dim() < 2 or x.shape[:-2] == y.shape[:-2]:
        return kernel(x, y, p, mode)
    batch = broadcast_shape(x.shape[:-2], y.shape[:-2])
    x, y = (torch.expand_copy(t, (*batch, *t.shape[-2:])) for t in (x, y))
    return kernel(x, y, p, mode)


def pdist(kernel: Callable[..., Any], x: Any, p: float = 2) -> Any:
    """``aten::_pdist_forward``: the distances of each two of the rows of ``x`` [n, k]."""
    import torch

    if p not in (0, math.inf) or not x.numel():
        return kernel(x, p)
    first, second = (t.to(x.device) for t in torch.triu_indices(x.shape[0], x.shape[0], 1))
    difference = torch.abs(torch.index_select(x, 0, first) - torch.index_select(x, 0, second))
    if p == math.inf:
        return torch.amax(difference, 1)
    return torch.sum(difference != 0, 1).to(x.dtype)


def cdist_backward(gradient: Any, x: Any, y: Any, p: float, distance: Any) -> Any:
    """``aten::_cdist_backward``: the gradient for ``x`` [..., m, k] of its distances to ``y`` [..., n, k].

    ``gradient`` and ``distance`` are [..., m, n]. Where a distance is 0 its gradient is, too.
    """
    import torch

    difference = torch.unsqueeze_copy(x, -2) - torch.unsqueeze_copy(y, -3)
    gradient, distance = (torch.unsqueeze_copy(t, -1) for t in (gradient, distance))
    if p == 0:
        return torch.zeros_like(x)
    if p == 1:
        return torch.sum(gradient * torch.sgn(difference), -2)
    if p == math.inf:
        furthest = (torch.abs(difference) == distance).to(x.dtype)
        return torch.sum(gradient * torch.sgn(difference) * furthest, -2)
    there = distance != 0
    safe = torch.where(there, distance, 1)
    if p == 2:
        terms = gradient * difference / safe
    else:
        powers = torch.sgn(difference) * torch.pow(torch.abs(difference), p - 1)
        terms = gradient * powers / torch.pow(safe, p - 1)
    return torch.sum(torch.where(there, terms, 0), -2)
