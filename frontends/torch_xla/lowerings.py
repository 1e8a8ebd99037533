"""Operations of PyTorch that torch_xla has no translation for, in terms of others that it has.

torch_xla computes such an operation on the CPU: it runs what has been recorded so far, reads the operands back and
sends the result to the device, in each step of a loop. ``isin`` is one of them, with which ``generate()`` of
transformers asks after each token whether it is the last one.
"""

from __future__ import annotations

from typing import Any, Final

# Comparisons of each element with each of the others are made up to this number of others; with more of them, sorting
# on the CPU, as PyTorch does it, is the faster way.
_MOST_COMPARED: Final = 256
# Held, for what it registers goes with it.
_kernels: Any = None


def install() -> None:
    """Put the translations in place, once."""
    global _kernels
    if _kernels is not None:
        return
    from torch import library

    _kernels = library.Library("aten", "IMPL", "XLA")  # type: ignore[no-untyped-call]
    for overload in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"):
        _kernels.impl(f"isin.{overload}", _isin)


def _isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """``torch.isin``: for each of ``elements`` whether it equals one of ``test_elements`` (not, with ``invert``)."""
    import torch

    device = next(t.device for t in (elements, test_elements) if isinstance(t, torch.Tensor))
    if isinstance(test_elements, torch.Tensor) and test_elements.numel() > _MOST_COMPARED:
        on_cpu = [t.cpu() if isinstance(t, torch.Tensor) else t for t in (elements, test_elements)]
        return torch.isin(*on_cpu, assume_unique=assume_unique, invert=invert).to(device)
    # The dtype is chosen before numbers become tensors and before shapes change: neither a number nor a tensor without
    # dimensions widens another tensor.
    dtype = torch.result_type(elements, test_elements)
    elements, test_elements = (
        torch.as_tensor(x, dtype=dtype, device=device) for x in (elements, test_elements)
    )
    found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return found.logical_not() if invert else found
