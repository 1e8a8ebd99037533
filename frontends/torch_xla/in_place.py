"""Collectives that write into a tensor reach its views too.

PyTorch keeps tensors that share memory as one base and rules for its views. torch_xla's collectives that write into a
tensor (``xm.all_reduce`` of a list, ``output=`` of the others) replace what this one tensor stands for and tell nobody
else, so that its views keep the values from before. DistributedDataParallel with ``gradient_as_bucket_view=True``
reduces a bucket whose views are the gradients: the gradients stayed those of each process, without an error, on every
device of torch_xla. :func:`install` has such a collective write into a copy of a tensor that shares its memory, and
``copy_`` the result back, which PyTorch hands on to all views.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

# Collectives that write, and which of their arguments they write into: a tensor or a list of them.
_WRITTEN: Final = {
    "_xla_all_reduce_inplace": 1,
    "_xla_all_gather_out": 0,
    "_xla_all_gather_coalesced_out": 0,
    "_xla_reduce_scatter_out": 1,
    "_xla_reduce_scatter_coalesced_out": 1,
}


def install() -> None:
    """Put this in place, once; functions that this torch_xla does not have are left out."""
    import _XLAC

    for name, position in _WRITTEN.items():
        original = getattr(_XLAC, name, None)
        if original is not None and not hasattr(original, "__wrapped__"):
            setattr(_XLAC, name, _reaching_views(original, position))


def _reaching_views(collective: Callable[..., Any], position: int) -> Callable[..., Any]:
    """``collective``, whose positional argument ``position`` is what it writes into."""

    def reaching_views(*arguments: Any) -> Any:
        import torch

        given = arguments[position]
        written = [given] if isinstance(given, torch.Tensor) else list(given)
        if not any(map(_shares_memory, written)):
            return collective(*arguments)
        with torch.no_grad():
            copies = [t.clone() if _shares_memory(t) else t for t in written]
            replaced = copies[0] if isinstance(given, torch.Tensor) else copies
            result = collective(*arguments[:position], replaced, *arguments[position + 1 :])
            for tensor, copy in zip(written, copies, strict=True):
                if copy is not tensor:
                    tensor.copy_(copy)
        return result

    reaching_views.__wrapped__ = collective  # type: ignore[attr-defined]
    return reaching_views


def _shares_memory(tensor: Any) -> bool:
    """Whether another tensor is a view of this one's memory, or this one of another's."""
    import torch

    return bool(torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) > 1)
