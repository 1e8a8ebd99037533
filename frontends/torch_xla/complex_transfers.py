"""complex128 between the CPU and the device: torch_xla's conversions of it, both ways, leave the imaginary part out.

Both parts go as an array of float64, which they are in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Kernel = Callable[..., Any]


def to_copy(kernel: Kernel, x: Any, **options: Any) -> Any:
    """``_to_copy`` from one device to another."""
    import torch

    device = options["device"]
    dtype = options.pop("dtype", None) or x.dtype
    if torch.complex128 not in (x.dtype, dtype):
        return kernel(x, dtype=dtype, **options)
    if device.type == "xla":
        x = x.to(dtype).resolve_conj()
        if dtype != torch.complex128:
            return kernel(x, **options)
        return torch.view_as_complex_copy(kernel(torch.view_as_real(x), **options))
    if x.dtype == torch.complex128:
        return torch.view_as_complex(kernel(torch.view_as_real_copy(x), **options)).to(dtype)
    return kernel(x, **options).to(dtype)


def to_cpu(kernel: Kernel, tensors: Any) -> Any:
    """``_to_cpu``, with which torch_xla gets the operands of what it computes on the CPU.

    A number that PyTorch made a tensor of (``n`` of a polynomial) is a number of Python's again here.
    """
    import torch

    tensors = [t if isinstance(t, torch.Tensor) else torch.tensor(t) for t in tensors]
    whole = [t for t in tensors if t.dtype == torch.complex128 and t.device.type == "xla"]
    if not whole:
        return kernel(tensors)
    parts = [torch.view_as_real_copy(t) if any(t is w for w in whole) else t for t in tensors]
    moved = kernel(parts)
    return [
        torch.view_as_complex(m) if part is not t else m
        for t, part, m in zip(tensors, parts, moved, strict=True)
    ]


def copy(kernel: Kernel, x: Any, source: Any, non_blocking: bool = False) -> Any:
    """``copy``, the functional form of ``copy_``."""
    return kernel(x, _there(source, x), non_blocking)


def copy_(kernel: Kernel, x: Any, source: Any, non_blocking: bool = False) -> Any:
    """``copy_``, to another device too."""
    moved = _there(source, x)
    return kernel(x, source, non_blocking) if moved is source else x.copy_(moved)


def copy_from(kernel: Kernel, source: Any, x: Any, non_blocking: bool = False) -> Any:
    """``_copy_from``, which writes into ``x``."""
    return kernel(_there(source, x), x, non_blocking)


def _there(source: Any, x: Any) -> Any:
    """``source`` on the device of ``x``, if it is of complex128 and one of both is not of XLA."""
    import torch

    if torch.complex128 in (source.dtype, x.dtype) and source.device.type != x.device.type:
        return source.to(x.device, x.dtype)
    return source


#: Beside the kernels of the dispatch key XLA.
CORRECTIONS: Final[dict[str, Kernel]] = {
    "copy.default": copy,
}
