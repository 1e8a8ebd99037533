"""Operations of PyTorch that torch_xla has no translation for, in terms of others that it has.

torch_xla computes such an operation on the CPU: it runs what has been recorded so far, reads the operands back and
sends the result to the device, in each step of a loop. ``isin`` is one of them, with which ``generate()`` of
transformers asks after each token whether it is the last one. ``histc`` is another, with which its mixtures of experts
count the tokens of each expert: of integers, as on GPUs, for which PyTorch has nothing on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from . import (
    complex_numbers,
    distances,
    fourier,
    grouped_products,
    linear_algebra,
    operands,
    scatters,
    special_functions,
    windows,
)

# Comparisons of each element with each of the others are made up to this number of others; with more of them, sorting
# on the CPU, as PyTorch does it, is the faster way.
_MOST_COMPARED: Final = 256
# What other files here translate.
_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "_cdist_backward": distances.cdist_backward,
    "_cholesky_solve_helper": linear_algebra.cholesky_solve,
    "_conj_physical": complex_numbers.conjugate,
    "_fft_c2c": fourier.c2c,
    "_fft_c2r": fourier.c2r,
    "_fft_r2c": fourier.r2c,
    "_grouped_mm": grouped_products.grouped_mm,
    "_linalg_det": linear_algebra.determinant,
    "_linalg_solve_ex": linear_algebra.solve_ex,
    "_logcumsumexp": special_functions.logcumsumexp,
    "angle": complex_numbers.angle,
    "cholesky_inverse": linear_algebra.cholesky_inverse,
    "complex": complex_numbers.from_parts,
    "conj_physical": complex_numbers.conjugate,
    "digamma": special_functions.digamma,
    "geqrf": linear_algebra.geqrf,
    "igamma": special_functions.igamma,
    "igammac": special_functions.igammac,
    "index_reduce": scatters.index_reduce,
    "lgamma": special_functions.lgamma,
    "linalg_cholesky_ex": linear_algebra.cholesky_ex,
    "linalg_householder_product": linear_algebra.householder_product,
    "linalg_lu": linear_algebra.lu,
    "linalg_lu_factor_ex": linear_algebra.lu_factor_ex,
    "linalg_lu_solve": linear_algebra.lu_solve,
    "linalg_qr": linear_algebra.qr,
    "linalg_solve_triangular": linear_algebra.solve_triangular,
    "lu_unpack": linear_algebra.lu_unpack,
    "polar": complex_numbers.polar,
    "polygamma": special_functions.polygamma,
    "round.decimals": special_functions.round_to,
    "special_xlog1py": special_functions.xlog1py,
    "special_zeta": special_functions.zeta,
    "unfold_backward": windows.unfold_backward,
    "unfold_copy": windows.unfold,
}
#: The operations of those, with their overloads.
NAMES: Final = frozenset(map(operands.with_overload, _OTHERS))
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
    _kernels.impl("histc", _histc)
    for name, kernel in _OTHERS.items():
        _kernels.impl(name, operands.of_taken(operands.with_overload(name), kernel))


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


def _histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """``torch.histc``: how many elements lie in each of ``bins`` equal parts of [min, max], in x's dtype.

    ``x``: floats of any shape, or integers, whose parts are those of PyTorch's kernel for GPUs. Equal ``min`` and
    ``max`` stand for the smallest and the largest element. Raises RuntimeError as PyTorch does; only bounds that are
    elements are not looked at, which would wait for the device.
    """
    import torch

    if bins <= 0:
        raise RuntimeError("torch.histc(): bins must be > 0")
    if not (math.isfinite(min) and math.isfinite(max)):
        raise RuntimeError(f"torch.histc(): range of [{min}, {max}] is not finite")
    if min > max:
        raise RuntimeError("torch.histc(): max must be larger than min")
    wide = (
        torch.result_type(x, torch.empty((), dtype=torch.float32))
        if x.is_floating_point()
        else torch.int64
    )
    values = x.reshape(-1).to(wide)
    low, high = (torch.tensor(bound, device=x.device).to(x.dtype).to(wide) for bound in (min, max))
    if min == max and values.numel():
        low, high = values.min(), values.max()
    same = low == high
    low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    rounding = None if x.is_floating_point() else "trunc"
    place = torch.div((values - low) * bins, high - low, rounding_mode=rounding).to(torch.int64)
    inside = (values >= low) & (values <= high)
    place = torch.where(inside, place.clamp(0, bins - 1), 0)
    counts = torch.zeros(bins, dtype=torch.int64, device=x.device)
    return counts.scatter_add_(0, place, inside.to(torch.int64)).to(x.dtype)
