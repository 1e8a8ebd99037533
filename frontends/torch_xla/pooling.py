"""Pooling as torch_xla does not do it: means over a divisor of the caller's, which it ignores, and largest elements of
windows with gaps (dilation), which it looks for on the CPU and of whose gradients it makes a program that XLA refuses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

# The elements of a window are compared one after the other up to this number: torch_xla's kernel takes less time to
# record and to compile, the more elements there are, and twice the time to run.
_MOST_COMPARED: Final = 64


def average(
    dimensions: int,
    kernel: Callable[..., Any],
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """``avg_pool2d`` or ``avg_pool3d`` of the last ``dimensions`` of ``x``."""
    import torch

    if divisor_override is None:
        return kernel(x, kernel_size, stride, padding, ceil_mode, count_include_pad)
    if not divisor_override:
        raise RuntimeError("divisor must be not zero")

    windows, paddings = (_of_each(dimensions, values) for values in (kernel_size, padding))
    steps = _of_each(dimensions, stride) if len(stride) else windows
    bounds: list[int] = []  # of zeros, the last dimension's first
    places = zip(x.shape[-dimensions:], windows, steps, paddings, strict=True)
    for size, window, step, padded in reversed(list(places)):
        last = _windows(size, window, step, padded, ceil_mode) - 1
        bounds += [padded, max(padded, last * step + window - size - padded)]
    if not x.is_floating_point():
        sums = _sums(torch.constant_pad_nd(x, bounds), windows, steps)
        return torch.div(sums, divisor_override, rounding_mode="trunc")
    means = kernel(torch.constant_pad_nd(x, bounds), windows, steps, [0] * dimensions, False, True)
    return means * (math.prod(windows) / divisor_override)


def _sums(x: Any, windows: Sequence[int], steps: Sequence[int]) -> Any:
    """The sums of the windows of integers, whose means would be rounded."""
    sizes = x.shape[-len(windows) :]
    total: Any = 0
    for offsets in itertools.product(*(range(window) for window in windows)):
        cut = [
            slice(offset, size - window + offset + 1, step)
            for offset, size, window, step in zip(offsets, sizes, windows, steps, strict=True)
        ]
        total = total + x[(..., *cut)]
    return total


def maximum(
    dimensions: int,
    with_places: bool,
    kernel: Callable[..., Any],
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """``max_pool2d`` or ``max_pool3d`` of the last ``dimensions`` of ``x``; ``with_places``: and where in them the
    largest elements are, in the order of memory.
    """
    windows, paddings, gaps = (
        _of_each(dimensions, values) for values in (kernel_size, padding, dilation)
    )
    if all(d == 1 for d in dilation) and not (with_places and x.is_floating_point()):
        return kernel(x, kernel_size, stride, padding, dilation, ceil_mode)
    _check_windows(windows, paddings, gaps)
    steps = _of_each(dimensions, stride) if len(stride) else windows
    sizes = list(x.shape[-dimensions:])
    wide = [(window - 1) * gap + 1 for window, gap in zip(windows, gaps, strict=True)]
    counts = [
        _windows(*of_one, ceil_mode) for of_one in zip(sizes, wide, steps, paddings, strict=True)
    ]
    if min(counts) < 1:
        raise RuntimeError(f"The windows of {wide} elements do not fit into {sizes} elements.")
    if all(gap == 1 for gap in gaps) and math.prod(windows) > _MOST_COMPARED:
        _, found = kernel(x.detach(), windows, steps, paddings, gaps, ceil_mode)
        places = _all_places(x.detach(), found, windows, steps, paddings, ceil_mode)
    else:
        places = _largest_places(x.detach(), windows, steps, paddings, gaps, counts)
    flat = x.flatten(-dimensions)
    values = flat.gather(-1, places.flatten(-dimensions)).reshape(places.shape)
    return (values, places) if with_places else values


def _all_places(
    x: Any,
    found: Any,
    windows: Sequence[int],
    steps: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
) -> Any:
    """The places that torch_xla's kernel has ``found`` in windows without gaps, and those it misses: the last NaN, and
    the first element of a window that is all -inf, of which it gives 2^32 - 1.
    """
    import torch

    dimensions = len(windows)
    sizes = x.shape[-dimensions:]
    first = torch.zeros((), dtype=torch.int64, device=x.device)
    counts = found.shape[-dimensions:]
    for size, step, padding, count in zip(sizes, steps, paddings, counts, strict=True):
        along = (torch.arange(count, device=x.device) * step - padding).clamp(min=0)
        first = first.unsqueeze(-1) * size + along
    places = torch.arange(math.prod(sizes), device=x.device).reshape(sizes)
    pool: Any = (
        torch.nn.functional.max_pool2d if dimensions == 2 else torch.nn.functional.max_pool3d
    )
    last = pool(torch.where(x.isnan(), places, -1), windows, steps, paddings, 1, ceil_mode)
    return torch.where(last >= 0, last, torch.where(found < math.prod(sizes), found, first))


def _largest_places(
    x: Any,
    windows: Sequence[int],
    steps: Sequence[int],
    paddings: Sequence[int],
    gaps: Sequence[int],
    counts: Sequence[int],
) -> Any:
    """Where the first largest element of each window lies among the last dimensions of ``x``, in int64."""
    import torch

    dimensions = len(windows)
    sizes = x.shape[-dimensions:]
    last = [(n - 1) * step for n, step in zip(counts, steps, strict=True)]
    bounds: list[int] = []  # of the padding, the last dimension's first
    for d in reversed(range(dimensions)):
        end = last[d] + (windows[d] - 1) * gaps[d] + 1
        bounds += [paddings[d], max(0, end - sizes[d] - paddings[d])]
    lowest = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    places = torch.arange(math.prod(sizes), device=x.device).reshape(sizes)
    padded, padded_places = (
        torch.constant_pad_nd(x, bounds, lowest),
        torch.constant_pad_nd(places, bounds, -1),
    )
    best: Any = None
    where: Any = None
    for offsets in itertools.product(*(range(window) for window in windows)):
        starts = [offset * gap for offset, gap in zip(offsets, gaps, strict=True)]
        cut: tuple[Any, ...] = (
            ...,
            *(
                slice(start, start + end + 1, step)
                for start, end, step in zip(starts, last, steps, strict=True)
            ),
        )
        candidate, place = padded[cut], padded_places[cut]
        if best is None:
            best, where = candidate, place.expand(candidate.shape)
            continue
        # As PyTorch's CPU: the first of equal elements, the last NaN, and what is padded only where nothing else is.
        better = (candidate > best) | (candidate != candidate) | (where < 0)
        best, where = torch.where(better, candidate, best), torch.where(better, place, where)
    return where


def _check_windows(windows: Sequence[int], paddings: Sequence[int], gaps: Sequence[int]) -> None:
    if min(windows) < 1 or min(gaps) < 1:
        raise RuntimeError("The window and the dilation of pooling must be greater than 0.")
    for window, padding, gap in zip(windows, paddings, gaps, strict=True):
        if not 0 <= padding <= ((window - 1) * gap + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but pad={padding}, kernel_size={window} "
                f"and dilation={gap}"
            )


def _of_each(dimensions: int, values: Sequence[int]) -> list[int]:
    """One value of each dimension, where one stands for all."""
    return [int(v) for v in values] * (1 if len(values) > 1 else dimensions)


def _windows(size: int, window: int, step: int, padding: int, ceil_mode: bool) -> int:
    """How many windows there are along a dimension."""
    rest = size + 2 * padding - window
    last = -(-rest // step) if ceil_mode else rest // step
    # It would begin in the padding behind.
    return last if last * step >= size + padding else last + 1
