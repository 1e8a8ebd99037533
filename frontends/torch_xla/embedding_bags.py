"""``embedding_bag``: sums, means and maxima of rows of a table.

torch_xla computes sums and means on the CPU, and compares maxima with 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import selection

_SUM, _MEAN, _MAX = 0, 1, 2


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

    The ``indices`` [n] of bag b begin at ``offsets[b]``. With maxima the last has the row of each and is not empty.
    Sparse gradients and those that are scaled stay on the CPU.
    """
    import torch

    if sparse or scale_grad_by_freq or indices.dim() != 1:
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
    if mode == _MAX:
        taken = torch.ones_like(bag) if padding_idx < 0 else (indices != padding_idx).long()
        size = torch.zeros(bags, dtype=torch.int64, device=weight.device).index_add(0, bag, taken)
        found = _rows_of_maxima(rows.detach(), indices, bag, taken > 0, bags)
        total = torch.where((size > 0).unsqueeze(1), weight.gather(0, found), 0)
        return total, bag, size, found
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


def _rows_of_maxima(rows: Any, indices: Any, bag: Any, taken: Any, bags: int) -> Any:
    """[bags, columns]: the table's row with the first of the largest numbers of each column in a bag, 0 without any.

    As on PyTorch's CPU, a NaN is larger than what follows it if it is the first of its bag, and is passed over if not.
    """
    import torch

    n, columns = rows.shape
    places = torch.arange(n, device=rows.device)
    of_bags = bag.unsqueeze(1).expand(n, columns)

    def reduce(values: Any, start: Any, how: str) -> Any:
        into = torch.full((bags, columns), start, dtype=values.dtype, device=rows.device)
        return into.scatter_reduce(0, of_bags, values, how)

    def place(wanted: Any) -> Any:
        given = torch.where(wanted & taken.unsqueeze(1), places.unsqueeze(1), n)
        return reduce(given, n, "amin")

    first = place(torch.ones_like(rows, dtype=torch.bool)).gather(0, of_bags) == places.unsqueeze(1)
    infinity = float("inf")
    known = torch.where(rows.isnan(), torch.where(first, infinity, -infinity).to(rows.dtype), rows)
    largest = reduce(torch.where(taken.unsqueeze(1), known, -infinity), -infinity, "amax")
    found = place(known == largest.gather(0, of_bags))
    row = indices.to(torch.int64).index_select(0, found.clamp(max=max(n - 1, 0)).reshape(-1))
    return torch.where(found < n, row.reshape(bags, columns), 0)
