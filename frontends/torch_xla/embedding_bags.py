"""``embedding_bag``: sums and means of rows of a table, which torch_xla computes on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import selection

_SUM, _MEAN = 0, 1


def embedding_bag(
    kernel: Callable[..., Any],
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, Any, Any, Any]:
    """``aten::_embedding_bag``: a row for each bag, the bag of each index, the bags' sizes and an empty tensor.

    The ``indices`` [n] of bag b begin at ``offsets[b]``. Maxima, sparse gradients and those that are scaled stay on the
    CPU.
    """
    import torch

    if mode not in (_SUM, _MEAN) or sparse or scale_grad_by_freq or indices.dim() != 1:
        return kernel(  # type: ignore[no-any-return]
            weight,
            indices,
            offsets,
            scale_grad_by_freq,
            mode,
            sparse,
            per_sample_weights,
            include_last_offset,
            padding_idx,
        )
    bags = offsets.numel() - include_last_offset
    begins = offsets[:bags].to(torch.int64)
    places = torch.arange(indices.numel(), device=weight.device)
    bag = (selection.searchsorted(begins, places, right=True) - 1).clamp(min=0)
    counts = torch.ones(indices.shape, dtype=torch.int64, device=weight.device)
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if padding_idx >= 0:
        taken = indices != padding_idx
        rows = torch.where(taken.unsqueeze(1), rows, 0)
        counts = taken.long()
    total = weight.new_zeros((bags, weight.shape[1])).index_add(0, bag, rows)
    size = torch.zeros(bags, dtype=torch.int64, device=weight.device).index_add(0, bag, counts)
    if mode == _MEAN:
        total = total / size.clamp(min=1).unsqueeze(1).to(total.dtype)
    nothing = torch.zeros(0, dtype=torch.int64, device=weight.device)
    return total, bag, size, nothing
