"""Gradients of ``torch.cdist``, which torch_xla computes on the CPU."""

from __future__ import annotations

import math
from typing import Any


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
