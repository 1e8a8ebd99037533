"""Samples of volumes between their elements, and images made smaller without aliasing.

torch_xla computes both on the CPU. They are PyTorch's formulas (``aten/src/ATen/native/GridSampler*``,
``UpSampleKernel.cpp``) in terms of operations that have gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = range(3)
# The cubic filter's parameter where images are made smaller.
_CUBIC: Final = -0.5


def grid_sampler_3d(
    kernel: Callable[..., Any],
    x: Any,
    grid: Any,
    interpolation: int,
    padding: int,
    align_corners: bool,
) -> Any:
    """``grid_sampler_3d`` of ``x`` [n, c, depth, height, width] at ``grid`` [n, d, h, w, 3]: [n, c, d, h, w]."""
    import torch

    if (
        x.dim() != 5
        or grid.dim() != 5
        or not x.numel()
        or interpolation not in (_BILINEAR, _NEAREST)
    ):
        return kernel(x, grid, interpolation, padding, align_corners)
    sizes = x.shape[:1:-1]  # as the grid has them: width, height, depth
    places = [_place(grid[..., n], size, padding, align_corners) for n, size in enumerate(sizes)]
    flat = x.flatten(2)

    def at(corner: list[Any]) -> Any:
        """The elements at whole places, and zeros outside: [n, c, d, h, w]."""
        inside: Any = True
        index: Any = 0
        for place, size in reversed(list(zip(corner, sizes, strict=True))):
            inside = (place >= 0) & (place < size) & inside
            index = index * size + place.clamp(0, size - 1).long()
        index = index.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
        values = flat.gather(2, index).unflatten(2, grid.shape[1:4])
        return torch.where(inside.unsqueeze(1), values, 0)

    if interpolation == _NEAREST:
        return at([place.round() for place in places])
    low = [place.floor() for place in places]
    parts = [(1 - (place - first), place - first) for place, first in zip(places, low, strict=True)]
    total: Any = 0
    for corner in itertools.product((0, 1), repeat=3):
        weight: Any = 1
        for n, end in enumerate(corner):
            weight = weight * parts[n][end]
        whole = [first.detach() + end for first, end in zip(low, corner, strict=True)]
        total = total + at(whole) * weight.unsqueeze(1)
    return total


def _place(c: Any, size: int, padding: int, align_corners: bool) -> Any:
    """Where the coordinate ``c`` from -1 to 1 lies among ``size`` elements."""
    import torch

    place = (c + 1) / 2 * (size - 1) if align_corners else ((c + 1) * size - 1) / 2
    if padding == _ZEROS:
        return place
    if padding == _REFLECTION:
        first, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            return torch.zeros_like(place)
        place = (place - first).abs()
        flips = torch.floor(place / span)
        rest = place - flips.detach() * span
        place = torch.where(flips % 2 == 0, rest + first, span - rest + first)
    return place.clamp(0, size - 1)


def smaller_bilinear(
    x: Any, size: Any, align_corners: bool, height: Any = None, width: Any = None
) -> Any:
    """``_upsample_bilinear2d_aa`` of ``x`` [n, c, h, w] to ``size``; ``height`` and ``width`` are scales, if given."""
    return _resized(x, size, align_corners, (height, width), _triangle, 2)


def smaller_bicubic(
    x: Any, size: Any, align_corners: bool, height: Any = None, width: Any = None
) -> Any:
    """``_upsample_bicubic2d_aa``."""
    return _resized(x, size, align_corners, (height, width), _cubic, 4)


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float) -> float:
    x = abs(x)
    if x < 1:
        return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * _CUBIC if x < 2 else 0.0


def _resized(
    x: Any,
    size: Any,
    align_corners: bool,
    scales: tuple[Any, Any],
    filter_: Callable[[float], float],
    support: int,
) -> Any:
    """The rows and then the columns as products with the filter's weights, in float32 for shorter floats."""
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    rows, columns = (
        torch.tensor(
            _weights(given, int(wanted), align_corners, scale, filter_, support), dtype=wide.dtype
        ).to(x.device)
        for given, wanted, scale in zip(x.shape[2:], size, scales, strict=True)
    )
    return (rows @ wide @ columns.mT).to(x.dtype)


def _weights(
    given: int,
    wanted: int,
    align_corners: bool,
    scale: float | None,
    filter_: Callable[[float], float],
    support: int,
) -> list[list[float]]:
    """What each of the ``wanted`` elements takes of the ``given`` ones."""
    if align_corners:
        step = (given - 1) / (wanted - 1) if wanted > 1 else 0.0
    else:
        step = 1 / scale if scale else given / wanted
    reach = support / 2 * max(step, 1.0)
    matrix = []
    for n in range(wanted):
        center = step * (n + 0.5)
        first = max(int(center - reach + 0.5), 0)
        last = min(int(center + reach + 0.5), given)
        row = [0.0] * given
        for m in range(first, last):
            row[m] = filter_((m - center + 0.5) / max(step, 1.0))
        total = sum(row)
        matrix.append([weight / total for weight in row] if total else row)
    return matrix
