"""``Tensor.unfold``: overlapping parts of one dimension, which torch_xla computes on the CPU, and their gradient."""

from __future__ import annotations

from typing import Any


def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    """``unfold_copy``: parts of ``size`` elements along ``dimension``, ``step`` apart, as a last dimension."""
    import torch

    if not x.dim():
        return torch.view_copy(unfold(torch.view_copy(x, (1,)), dimension, size, step), (size,))
    dim = dimension % x.dim()
    if size > x.shape[dim]:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dimension} is {x.shape[dim]} but size is {size}"
        )
    places, count = _places(x, dim, size, step)
    taken = torch.index_select(x, dim, places)
    parts = torch.view_copy(taken, (*x.shape[:dim], count, size, *x.shape[dim + 1 :]))
    order = [d for d in range(x.dim() + 1) if d != dim + 1] + [dim + 1]
    return torch.permute_copy(parts, order)


def unfold_backward(gradient: Any, input_sizes: Any, dim: int, size: int, step: int) -> Any:
    """Each element gets the sum of what was made of it."""
    import torch

    shape = [int(n) for n in input_sizes]
    zeros = torch.zeros(shape, dtype=gradient.dtype, device=gradient.device)
    if not shape:
        return torch.view_copy(torch.sum(gradient), ())
    dim %= len(shape)
    places, _ = _places(zeros, dim, size, step)
    order = [*range(dim + 1), len(shape), *range(dim + 1, len(shape))]
    parts = torch.permute_copy(gradient, order)
    rows = torch.view_copy(parts, (*shape[:dim], places.numel(), *shape[dim + 1 :]))
    return torch.index_add(zeros, dim, places, rows)


def _places(x: Any, dim: int, size: int, step: int) -> tuple[Any, int]:
    """The element of each part's elements, one part behind the other, and how many parts there are."""
    import torch

    count = (x.shape[dim] - size) // step + 1
    begins = torch.arange(count, device=x.device) * step
    along = torch.arange(size, device=x.device)
    places = torch.unsqueeze_copy(begins, -1) + along
    return torch.view_copy(places, (-1,)), count
