"""``torch._grouped_mm``, the products of a mixture of experts, as the compiler's ``ragged-dot``.

PyTorch's kernel for all devices ends the process with tensors of torch_xla: it takes their strides for those of memory.
"""

from __future__ import annotations

from typing import Any

from .calls import call

_TARGET = "tripont.ragged_dot"


def grouped_mm(a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Products of groups of rows, columns or terms, which end at ``offs`` (s32 [groups]); those behind the last are 0.

    ``a`` [rows, k] and ``b`` [groups, k, n] give [rows, n]; [groups, m, k] and [k, columns] give [m, columns];
    [m, terms] and [terms, n] give [groups, m, n]; with three dimensions each, it is ``torch.bmm``. Raises RuntimeError
    for other shapes.
    """
    import torch

    dtype = out_dtype or a.dtype
    if bias is not None:
        raise RuntimeError("torch._grouped_mm: bias is not supported, in PyTorch neither")
    ranks = (a.dim(), b.dim())
    if not set(ranks) <= {2, 3} or (offs is None) != (ranks == (3, 3)):
        raise RuntimeError(
            f"torch._grouped_mm: a of shape {tuple(a.shape)} and b of shape {tuple(b.shape)} have two or three "
            "dimensions, and there are offsets unless both have three"
        )
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"torch._grouped_mm: {tuple(a.shape)} and {tuple(b.shape)} do not fit: the last size of the first is "
            "that of the second's rows"
        )
    if ranks == (3, 3):
        return torch.bmm(a, b).to(dtype)
    for tensor in (a, b):
        if tensor.dim() == 3 and tensor.shape[0] != offs.numel():
            raise RuntimeError(
                f"torch._grouped_mm: {offs.numel()} offsets for {tensor.shape[0]} groups"
            )
    if ranks == (2, 2):
        sums = (offs.numel(), a.shape[0], b.shape[1])
        return _call(a, b, offs, sums, dtype, contracting=(1, 0), ragged=1)
    if ranks == (2, 3):
        shape = (a.shape[0], b.shape[2])
        return _call(a, b, offs, shape, dtype, contracting=(1, 1), ragged=0, groups=[0])
    shape = (b.shape[1], a.shape[1])
    return _call(b, a, offs, shape, dtype, contracting=(0, 2), ragged=1, groups=[0]).t()


def _call(
    lhs: Any,
    rhs: Any,
    offs: Any,
    shape: tuple[int, ...],
    dtype: Any,
    *,
    contracting: tuple[int, int],
    ragged: int,
    groups: list[int] | None = None,
) -> Any:
    """The custom call that the compiler reads: ``core/compiler/importer/ops_ragged.py``."""
    import torch

    config = {
        "lhs_contracting_dimensions": [contracting[0]],
        "rhs_contracting_dimensions": [contracting[1]],
        "lhs_ragged_dimensions": [ragged],
        "rhs_group_dimensions": groups or [],
    }
    sizes = torch.diff(offs, prepend=offs.new_zeros(1))
    (result,) = call(_TARGET, (lhs, rhs, sizes), [(shape, dtype)], config)
    return result
