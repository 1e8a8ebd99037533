"""Fourier transforms on the device: torch_xla computes them on the CPU.

It reads the operand back for that, with all that is recorded before it computed, and sends the result to the device:
a spectral layer is two such stops forward and two backward in each step. A transform is one operation of StableHLO,
of up to three dimensions, for which torch_xla has no name: it is recorded as a custom call that the compiler reads
(``core/compiler/importer/ops_contraction.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from . import copies
from .calls import call

_TARGET: Final = "tripont.fft"
# StableHLO's operation takes so many dimensions.
_MOST_DIMENSIONS: Final = 3
# PyTorch's numbers of normalizations: none, by the square root of the number of elements that are summed, by it.
_NONE, _BY_ROOT, _BY_COUNT = range(3)


def c2c(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """``aten::_fft_c2c``: complex ``x`` along ``dim``, in that shape."""
    kind = "FFT" if forward else "IFFT"
    count = math.prod(x.shape[d] for d in dim)
    rest = list(dim)
    while rest:
        part, rest = rest[-_MOST_DIMENSIONS:], rest[:-_MOST_DIMENSIONS]
        x = _along(kind, x, part, [x.shape[d] for d in part])
    return _normalized(x, count, normalization, inverse=not forward)


def r2c(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """``aten::_fft_r2c``: real ``x`` along ``dim``, of whose last one the first half is left if ``onesided``."""
    import torch

    if not onesided:
        return c2c(torch.complex(x, torch.zeros_like(x)), dim, normalization, True)
    count = math.prod(x.shape[d] for d in dim)
    part, rest = list(dim)[-_MOST_DIMENSIONS:], list(dim)[:-_MOST_DIMENSIONS]
    x = _along("RFFT", x, part, [x.shape[d] for d in part])
    if rest:
        x = c2c(x, rest, _NONE, True)
    return _normalized(x, count, normalization, inverse=False)


def c2r(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    """``aten::_fft_c2r``: the inverse of ``r2c``, where the last of ``dim`` gets ``last_dim_size`` elements."""
    part, rest = list(dim)[-_MOST_DIMENSIONS:], list(dim)[:-_MOST_DIMENSIONS]
    count = math.prod(x.shape[d] for d in dim[:-1]) * last_dim_size
    if rest:
        x = c2c(x, rest, _BY_COUNT, False)
    x = _along("IRFFT", x, part, [*(x.shape[d] for d in part[:-1]), last_dim_size])
    return _normalized(x, count, normalization, inverse=True)


def _along(kind: str, x: Any, dim: list[int], length: list[int]) -> Any:
    """The transform of ``kind`` along ``dim``, which are the last dimensions to StableHLO."""

    order = copies.with_last(x, *dim)
    moved = copies.in_order(x, order)
    shape = [*moved.shape[: -len(dim)], *length]
    dtype = x.dtype
    if kind == "RFFT":
        shape[-1] = length[-1] // 2 + 1
        dtype = dtype.to_complex()
    elif kind == "IRFFT":
        dtype = dtype.to_real()
    attributes: dict[str, str | Sequence[int]] = {"fft_type": kind, "fft_length": length}
    (result,) = call(_TARGET, [moved], [(shape, dtype)], attributes)
    return copies.back(result, order)


def _normalized(x: Any, count: int, normalization: int, *, inverse: bool) -> Any:
    """``x`` over ``count`` to the power that ``normalization`` asks for; StableHLO's inverse is over it already."""
    power = {_NONE: 0.0, _BY_ROOT: -0.5, _BY_COUNT: -1.0}[normalization] + inverse
    return x * float(count) ** power if power else x
