"""Singular values by LAPACK, as on PyTorch's CPU.

torch_xla writes them as loops of Jacobi rotations, gives those of a batch in another order of dimensions than
PyTorch's (the values of a batch of 2 matrices 3x3 have the shape (3,)), and refuses complex matrices. Here they are a
custom call that the compiler reads (``core/compiler/passes/custom_calls.py``).
"""

from __future__ import annotations

from typing import Any, Final

from .calls import call

_TARGET: Final = "tripont.svd"


def svd(
    a: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Any, Any, Any]:
    """``aten::_linalg_svd`` of ``a`` [..., m, n]: u [..., m, m or k], values [..., k] and vh [..., k or n, n].

    k is the smaller of m and n. Without ``compute_uv`` u and vh have no elements. ``driver`` names an algorithm of
    cuSOLVER's. A matrix whose iterations do not converge, or that is not finite, gives NaN.
    """
    import torch

    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    *batch, m, n = a.shape
    k = min(m, n)
    rows, columns = (m, n) if full_matrices and compute_uv else (k, k)
    shapes = (*batch, m, rows), (*batch, k), (*batch, columns, n)
    real = a.dtype.to_real() if a.is_complex() else a.dtype
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    results = list(zip(shapes, (a.dtype, real, a.dtype), strict=True))
    if not a.numel():
        return _of_nothing(*shapes, a, real, compute_uv)
    u, values, vh = call(_TARGET, [a], results, {"mode": mode})
    if compute_uv:
        return u, values, vh
    nothing = torch.empty((0,), dtype=a.dtype, device=a.device)
    return nothing, values, nothing


def _of_nothing(
    u: Any, values: Any, vh: Any, a: Any, real: Any, compute_uv: bool
) -> tuple[Any, Any, Any]:
    """The values of matrices ``a`` without elements, and the bases, which are unit matrices, of these shapes."""
    import torch

    def unit(shape: Any) -> Any:
        return torch.eye(*shape[-2:], dtype=a.dtype, device=a.device).expand(shape).clone()

    none = torch.empty(values, dtype=real, device=a.device)
    if not compute_uv:
        nothing = torch.empty((0,), dtype=a.dtype, device=a.device)
        return nothing, none, nothing
    return unit(u), none, unit(vh)
