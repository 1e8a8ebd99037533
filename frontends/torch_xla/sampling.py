"""Samples of volumes between their elements, images made smaller without aliasing, gradients of larger ones.

torch_xla computes them on the CPU. They are PyTorch's formulas (``aten/src/ATen/native/GridSampler*``,
``UpSampleKernel.cpp``) in terms of operations that have gradients.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = range(3)
# The cubic filter's parameter where images are made smaller.
_CUBIC: Final = -0.5
# A program records the same sizes in each step.
_KEPT: Final = functools.lru_cache(maxsize=64)


def grid_sampler_2d(
    x: Any, grid: Any, interpolation: int, padding: int, align_corners: bool
) -> Any:
    """``grid_sampler_2d`` of ``x`` [n, c, height, width] at ``grid`` [n, h, w, 2], as PyTorch's decomposition has it:
    there, a place at the bounds has a gradient.
    """
    import torch
    from torch._decomp import decomposition_table

    if padding == _REFLECTION:
        # Every 4 there is a reflection as the one before, of which the decomposition counts 127 at most.
        grid = grid - 4 * torch.round(grid.detach() / 4)
    if interpolation == _BILINEAR and padding != _ZEROS and x.dim() == grid.dim() == 4:
        sizes = x.shape[:1:-1]
        places = [
            _reflected(grid[..., n].detach(), size, padding, align_corners)
            for n, size in enumerate(sizes)
        ]
        inside = torch.stack(
            [_is_inside(place, size) for place, size in zip(places, sizes, strict=True)], -1
        )
        grid = torch.where(inside, grid, grid.detach())
    sampler = decomposition_table[torch.ops.aten.grid_sampler_2d.default]
    samples = sampler(x, grid, interpolation, padding, align_corners)
    return _with_zeros_for(grid, samples) if interpolation == _NEAREST else samples


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
        return _with_zeros_for(grid, at([place.round() for place in places]))
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


def _with_zeros_for(grid: Any, samples: Any) -> Any:
    """``samples`` of the nearest elements, whose gradient for ``grid`` is zeros, and not None, as on PyTorch's CPU.

    ``torch.func`` takes None for zeros, and refuses functions with gradients of their own in a kernel.
    """
    import torch

    asks = torch.is_grad_enabled() and grid.requires_grad
    asks = asks and not torch._C._are_functorch_transforms_active()
    return _zeros_for().apply(grid, samples) if asks else samples


@functools.cache
def _zeros_for() -> Any:
    import torch

    class ZerosFor(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, grid: Any, samples: Any) -> Any:
            ctx.of_grid = grid.shape, grid.dtype
            return samples.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            shape, dtype = ctx.of_grid
            return gradient.new_zeros(shape, dtype=dtype), gradient

    return ZerosFor


def _place(c: Any, size: int, padding: int, align_corners: bool) -> Any:
    """Where the coordinate ``c`` from -1 to 1 lies among ``size`` elements. A place that is moved to the bounds, or
    lies there, has no gradient, as on PyTorch's CPU.
    """
    import torch

    place = _reflected(c, size, padding, align_corners)
    if padding == _ZEROS:
        return place
    return torch.where(_is_inside(place, size), place, place.detach().clamp(0, size - 1))


def _is_inside(place: Any, size: int) -> Any:
    return (place > 0) & (place < size - 1)


def _reflected(c: Any, size: int, padding: int, align_corners: bool) -> Any:
    """The place of the coordinate ``c``, which may be a little outside after a reflection, and anywhere without."""
    import torch

    place = (c + 1) / 2 * (size - 1) if align_corners else ((c + 1) * size - 1) / 2
    if padding != _REFLECTION:
        return place
    first, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return torch.zeros_like(place)
    place = (place - first).abs()
    flips = torch.floor(place / span)
    rest = place - flips.detach() * span
    return torch.where(flips % 2 == 0, rest + first, span - rest + first)


def nearest(
    kernel: Callable[..., Any], x: Any, output_size: Any, height: Any = None, width: Any = None
) -> Any:
    """``upsample_nearest2d`` of ``x`` [n, c, h, w]: torch_xla takes the ratio of sizes for a given factor."""
    import torch

    sources = [
        _sources(x.shape[dim], int(output_size[dim - 2]), scale)
        for dim, scale in ((2, height), (3, width))
    ]
    if all(
        np.array_equal(given, _sources(x.shape[dim], len(given), None))
        for dim, given in zip((2, 3), sources, strict=True)
    ):
        return kernel(x, output_size, height, width)
    for dim, given in zip((2, 3), sources, strict=True):
        x = torch.index_select(x, dim, torch.from_numpy(given).to(x.device))
    return x


def linear(x: Any, output_size: Any, align_corners: bool, *scales: float | None) -> Any:
    """``upsample_linear1d``, ``upsample_bilinear2d`` or ``upsample_trilinear3d`` of ``x`` [n, c, ...].

    torch_xla takes the ratio of the sizes for a given factor, and of a third as it is rounded other elements. Bytes are
    rounded after each dimension, the last one first, as on PyTorch's CPU.
    """
    dimensions = _dimensions(output_size, scales)
    for dim, wanted, scale in dimensions if x.is_floating_point() else reversed(dimensions):
        places = _neighbours(x.shape[dim], wanted, scale, align_corners, _of_places(x))
        x = _mixed(x, dim, *places)
    return x


def linear_backward(
    gradient: Any,
    output_size: Any,
    input_size: Any,
    align_corners: bool,
    *scales: float | None,
) -> Any:
    """The gradient of :func:`linear`: each element gets its share of what was made of it, [n, c, ...]."""
    for dim, wanted, scale in _dimensions(output_size, scales):
        places = _shares(int(input_size[dim]), wanted, scale, align_corners, _of_places(gradient))
        gradient = _mixed(gradient, dim, *places)
    return gradient


def _dimensions(output_size: Any, scales: Any) -> list[tuple[int, int, float | None]]:
    """Each dimension that gets another size, the size, and the factor that was given, if one was."""
    given = [*scales, *[None] * (len(output_size) - len(scales))]
    return [(n + 2, int(size), given[n]) for n, size in enumerate(output_size)]


def _of_places(x: Any) -> Any:
    """NumPy's type in which PyTorch computes where the elements of ``x`` lie."""
    import torch

    return np.float64 if x.dtype == torch.float64 else np.float32


@_KEPT
def _shares(given: int, wanted: int, scale: float | None, align_corners: bool, dtype: Any) -> Any:
    """Which of the ``wanted`` elements are made of each of the ``given`` ones, and its shares in them: [given, k]."""
    sources, weights = _neighbours(given, wanted, scale, align_corners, dtype)
    made: list[list[tuple[int, float]]] = [[] for _ in range(given)]
    for n, (near, shares) in enumerate(zip(sources, weights, strict=True)):
        for source, share in zip(near, shares, strict=True):
            made[source].append((n, share))
    most = max(map(len, made), default=0)
    padded = [row + [(0, 0.0)] * (most - len(row)) for row in made]
    table = np.array(padded, np.float64).reshape(given, most, 2)
    return table[..., 0].astype(np.int64), np.ascontiguousarray(table[..., 1])


def _step(given: int, wanted: int, scale: float | None, align_corners: bool) -> float:
    """How far two of the ``wanted`` elements lie from each other among the ``given`` ones."""
    if align_corners:
        return (given - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1 / scale if scale else given / max(wanted, 1)


@_KEPT
def _neighbours(
    given: int, wanted: int, scale: float | None, align_corners: bool, dtype: Any
) -> Any:
    """The two of ``given`` elements that each of the ``wanted`` ones lies between, and their shares: [wanted, 2]."""
    step = dtype(_step(given, wanted, scale, align_corners))
    if align_corners:
        place = np.arange(wanted, dtype=dtype) * step
    else:
        half = dtype(0.5)
        place = np.maximum((np.arange(wanted, dtype=dtype) + half) * step - half, 0)
    first = np.minimum(place.astype(np.int64), given - 1)
    share = np.clip(place - first.astype(dtype), 0, 1)
    return np.stack([first, np.minimum(first + 1, given - 1)], 1), np.stack([1 - share, share], 1)


def _mixed(x: Any, dim: int, sources: Any, weights: Any) -> Any:
    """Sums of the elements ``sources`` [n, k] of ``x`` along ``dim``, times ``weights``: n elements there.

    In float32 for shorter floats.
    """
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    taken = torch.index_select(wide, dim, torch.from_numpy(sources.reshape(-1)).to(x.device))
    shape = (*x.shape[:dim], *sources.shape, *x.shape[dim + 1 :])
    factors = torch.from_numpy(weights).to(wide.dtype).to(x.device)
    factors = torch.view_copy(factors, (*sources.shape, *(1 for _ in x.shape[dim + 1 :])))
    return _in_type(torch.sum(torch.view_copy(taken, shape) * factors, dim + 1), x.dtype)


def _in_type(x: Any, dtype: Any) -> Any:
    """``x`` in another type: the nearest number of it, the upper one of two."""
    import torch

    if dtype.is_floating_point:
        return x.to(dtype)
    ends = torch.iinfo(dtype)
    return torch.clamp(torch.floor(x + 0.5), ends.min, ends.max).to(dtype)


def nearest_of_others(x: Any, output_size: Any, *scales: float | None) -> Any:
    """``upsample_nearest1d`` and ``upsample_nearest3d`` of ``x`` [n, c, ...], which torch_xla computes on the CPU."""
    import torch

    for dim, wanted, scale in _dimensions(output_size, scales):
        places = torch.from_numpy(_sources(x.shape[dim], wanted, scale))
        x = torch.index_select(x, dim, places.to(x.device))
    return x


def nearest_backward(
    gradient: Any, output_size: Any, input_size: Any, *scales: float | None
) -> Any:
    """``upsample_nearest2d_backward`` and its like: each element of ``input_size`` gets what was made of it."""
    import torch

    for dim, wanted, scale in _dimensions(output_size, scales):
        given = int(input_size[dim])
        sources = _sources(given, wanted, scale)
        times = wanted // max(given, 1)
        if wanted == given * times and np.array_equal(sources, np.arange(wanted) // max(times, 1)):
            shape = (*gradient.shape[:dim], given, times, *gradient.shape[dim + 1 :])
            gradient = torch.sum(torch.view_copy(gradient, shape), dim + 1)
        else:
            shape = (*gradient.shape[:dim], given, *gradient.shape[dim + 1 :])
            zeros = torch.zeros(shape, dtype=gradient.dtype, device=gradient.device)
            places = torch.from_numpy(sources).to(gradient.device)
            gradient = torch.index_add(zeros, dim, places, gradient)
    return gradient


@_KEPT
def _sources(given: int, wanted: int, scale: float | None) -> Any:
    """Which of ``given`` elements each of the ``wanted`` ones is, in float32 as PyTorch computes it."""
    step = np.float32(_step(given, wanted, scale, False))
    return np.minimum((np.arange(wanted, dtype=np.float32) * step).astype(np.int64), given - 1)


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
    if x.is_floating_point():
        return (rows @ wide @ columns.mT).to(x.dtype)
    return _in_type(rows @ _in_type(wide @ columns.mT, x.dtype).to(wide.dtype), x.dtype)


@_KEPT
def _weights(
    given: int,
    wanted: int,
    align_corners: bool,
    scale: float | None,
    filter_: Callable[[float], float],
    support: int,
) -> list[list[float]]:
    """What each of the ``wanted`` elements takes of the ``given`` ones."""
    step = _step(given, wanted, scale, align_corners)
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
