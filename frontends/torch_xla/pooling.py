"""Pooling as torch_xla does not do it: means over a divisor of the caller's, which it ignores, and largest elements of
windows with gaps (dilation), which it looks for on the CPU and of whose gradients it makes a program that XLA refuses.
Its places of largest elements are wrong in windows of -inf, its gradients where there is a NaN, and its second
gradients lack a part. A call records one node here, whose computation of XLA's own operations is kept.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from . import operands

# Of how many shapes the computations are kept.
_MOST_COMPUTATIONS: Final = 1024


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
    kernel: Callable[..., Any],
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """``max_pool2d`` or ``max_pool3d`` of the last ``dimensions`` of ``x``, whose windows may have gaps.

    ``torch.func`` refuses functions with gradients of their own in a kernel, ours and torch_xla's: it gets those of
    the places.
    """
    import torch

    if all(gap == 1 for gap in dilation) and not torch._C._are_functorch_transforms_active():
        if torch.is_grad_enabled() and x.requires_grad and x.is_floating_point():
            lists = (
                _of_each(dimensions, v) if len(v) else v for v in (kernel_size, stride, padding)
            )
            return _differentiable().apply(dimensions, kernel, x, *lists, ceil_mode)
        return kernel(x, kernel_size, stride, padding, dilation, ceil_mode)
    with_places = operands.operation(f"max_pool{dimensions}d_with_indices.default")
    values, _ = with_places(x, kernel_size, stride, padding, dilation, ceil_mode)
    return values


@functools.cache
def _differentiable() -> Any:
    """The largest elements of windows without gaps, whose gradient is :func:`gradient_of_maximum`.

    The second gradient of torch_xla's own function lacks a part, and in three dimensions no kernel could replace the
    first one.
    """
    import torch

    class Maximum(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, dimensions: int, kernel: Any, x: Any, *windows: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.dimensions, ctx.windows = dimensions, windows
            *lists, ceil_mode = windows
            return kernel(x, *lists, (1,) * dimensions, ceil_mode)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            if not torch.is_grad_enabled():
                found = torch.ops.xla.max_pool2d_backward(gradient, x, *ctx.windows)
            else:
                *lists, ceil_mode = ctx.windows
                windows = (*lists, (1,) * ctx.dimensions, ceil_mode)
                name = f"max_pool{ctx.dimensions}d_with_indices"
                _, places = operands.operation(f"{name}.default")(x.detach(), *windows)
                found = operands.operation(f"{name}_backward.default")(
                    gradient, x, *windows, places
                )
            return (None, None, found, *(None for _ in ctx.windows))

    return Maximum


def maximum_with_places(
    dimensions: int,
    kernel: Callable[..., Any],
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """The largest elements of the windows, and in int64 where they lie among the last ``dimensions`` of ``x``, in the
    order of memory.

    As PyTorch's CPU: the place of the first of equal elements, or of the last NaN. torch_xla's are 2^32 - 1 where a
    window is all -inf, and its windows have no gaps. One node is recorded, whose computation is kept.
    """
    import _XLAC
    import torch

    windows, paddings, gaps = (
        _of_each(dimensions, values) for values in (kernel_size, padding, dilation)
    )
    _check_windows(windows, paddings, gaps)
    if not dimensions < x.dim() < dimensions + 3:
        return kernel(x, kernel_size, stride, padding, dilation, ceil_mode)
    steps = _of_each(dimensions, stride) if len(stride) else windows
    sizes = list(x.shape[-dimensions:])
    wide = [(window - 1) * gap + 1 for window, gap in zip(windows, gaps, strict=True)]
    counts = [
        _windows(*of_one, ceil_mode) for of_one in zip(sizes, wide, steps, paddings, strict=True)
    ]
    if min(counts) < 1:
        raise RuntimeError(f"The windows of {wide} elements do not fit into {sizes} elements.")
    if not x.numel():
        shape = (*x.shape[:-dimensions], *counts)
        return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)
    along = tuple(map(_Windows, windows, steps, paddings, gaps, counts))
    found = _XLAC._xla_user_computation(
        "xla::max_pool_with_places", [x], _search(x.dtype, tuple(x.shape), along)
    )
    return tuple(found)


class _Windows(NamedTuple):
    """The windows along one dimension."""

    size: int
    step: int
    padding: int
    gap: int
    number: int

    def padding_behind(self, size: int) -> int:
        """The padding that they need behind ``size`` elements."""
        end = (self.number - 1) * self.step + (self.size - 1) * self.gap + 1
        return max(0, end - size - self.padding)


@functools.lru_cache(_MOST_COMPUTATIONS)
def _search(dtype: Any, shape: tuple[int, ...], along: tuple[_Windows, ...]) -> Any:
    """XLA's computation of the largest elements of ``along``, the windows of the last dimensions, and their places.

    One dimension after the other, the last one first: the larger of two neighbours, the larger of two such pairs, ...
    """
    import torch
    from torch_xla.core import xla_builder as untyped

    xla_builder: Any = untyped
    element = xla_builder.Op.from_torch_type(dtype)
    floats = dtype.is_floating_point
    lowest: Any = -math.inf if floats else dtype != torch.bool and torch.iinfo(dtype).min
    first = len(shape) - len(along)

    def larger(a: Any, b: Any) -> Any:
        """As PyTorch's CPU: the first of equal elements, the last NaN, and padding only where nothing else is."""
        (best, where), (value, place) = a, b
        better = value > best
        if floats:
            better = better | (value != value)
        better = better | (where < where.zeros_like())
        return better.select(value, best), better.select(place, where)

    def search(x: Any) -> Any:
        builder = x.builder()
        places = xla_builder.mkshape(xla_builder.Type.S32, (math.prod(shape[first:]),))
        where = xla_builder.Op.iota(builder, places, 0).reshape(shape[first:])
        found = (x, where.broadcast_in_dim(shape, list(range(first, len(shape)))))
        sizes = list(shape)
        paddings = (
            xla_builder.Op.scalar(builder, lowest, dtype=element),
            xla_builder.Op.scalar(builder, -1, dtype=xla_builder.Type.S32),
        )
        for dim, windows in reversed(list(enumerate(along, first))):
            found = along_one(found, sizes, paddings, dim, windows)
        values, where = found
        return xla_builder.Op.tuple([values, where.cast(xla_builder.Type.S64)])

    def along_one(found: Any, sizes: list[int], paddings: Any, dim: int, windows: _Windows) -> Any:
        bounds = [(0, 0, 0)] * len(sizes)
        bounds[dim] = (windows.padding, windows.padding_behind(sizes[dim]), 0)
        if any(bounds[dim]):
            found = tuple(op.pad(edge, bounds) for op, edge in zip(found, paddings, strict=True))
        sizes[dim] += sum(bounds[dim])

        def cut(pair: Any, begin: int, count: int, step: int = 1) -> Any:
            limit = begin + (count - 1) * step + 1
            return tuple(op.slice_in_dim(begin, limit, dim, step) for op in pair)

        # Of how many elements, ``gap`` apart, each element is the largest one by now.
        taken = 1
        while 2 * taken < windows.size:
            sizes[dim] -= taken * windows.gap
            found = larger(cut(found, 0, sizes[dim]), cut(found, taken * windows.gap, sizes[dim]))
            taken *= 2
        left = cut(found, 0, windows.number, windows.step)
        if taken < windows.size:
            rest = (windows.size - taken) * windows.gap
            left = larger(left, cut(found, rest, windows.number, windows.step))
        sizes[dim] = windows.number
        return left

    taken_shape = xla_builder.mkshape(element, shape)
    return xla_builder.create_computation("max_pool_with_places", search, (taken_shape,))


def gradient_by_places(
    dimensions: int, kernel: Callable[..., Any], gradient: Any, x: Any, *rest: Any
) -> Any:
    """The gradient of :func:`maximum_with_places`: each element gets those of the windows whose place it is."""
    import torch

    *_, places = rest
    if not gradient.numel():
        return x.new_zeros(x.shape)
    outer = x.shape[:-dimensions]
    zeros = x.new_zeros((*outer, math.prod(x.shape[-dimensions:])))
    places, gradient = (torch.view_copy(t, (*outer, -1)) for t in (places, gradient))
    return torch.view_copy(torch.scatter_add(zeros, -1, places, gradient), x.shape)


def gradient_of_maximum(
    gradient: Any,
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
) -> Any:
    """The gradient of ``max_pool2d``, and of ``max_pool3d`` of three window sizes, of windows without gaps. A NaN gets
    it, as on PyTorch's CPU: in torch_xla's kernel a NaN is smaller than what follows it.
    """
    import _XLAC

    if not gradient.numel():
        return x.new_zeros(x.shape)
    dimensions = len(kernel_size)
    windows, paddings = (_of_each(dimensions, values) for values in (kernel_size, padding))
    steps = _of_each(dimensions, stride) if len(stride) else windows
    counts = gradient.shape[-dimensions:]
    along = tuple(map(_Windows, windows, steps, paddings, [1] * dimensions, counts))
    (found,) = _XLAC._xla_user_computation(
        "xla::max_pool_gradient", [gradient, x], _selection(x.dtype, tuple(x.shape), along)
    )
    return found


@functools.lru_cache(_MOST_COMPUTATIONS)
def _selection(dtype: Any, shape: tuple[int, ...], along: tuple[_Windows, ...]) -> Any:
    """XLA's selection of the element of each window that gets its gradient."""
    from torch_xla.core import xla_builder as untyped

    xla_builder: Any = untyped
    element = xla_builder.Op.from_torch_type(dtype)
    outer = list(shape[: -len(along)])
    bounds = [(0, 0)] * len(outer)
    for size, windows in zip(shape[len(outer) :], along, strict=True):
        bounds.append((windows.padding, windows.padding_behind(size)))

    def stays(best: Any, value: Any) -> Any:
        """Whether ``best`` stays the largest: the first of equal elements does, and a NaN before a number."""
        return (best >= value) | ((best != best) & (value == value))

    def selection(gradient: Any, x: Any) -> Any:
        return x.select_and_scatter_with_general_padding(
            gradient,
            xla_builder.Op.zero(x.builder(), dtype=element),
            [1] * len(outer) + [windows.size for windows in along],
            [1] * len(outer) + [windows.step for windows in along],
            stays,
            lambda a, b: a + b,
            bounds,
        )

    counts = (*outer, *(windows.number for windows in along))
    given = [xla_builder.mkshape(element, of_one) for of_one in (counts, shape)]
    return xla_builder.create_computation("max_pool_gradient", selection, given)


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


def corrections() -> dict[str, Callable[..., Any]]:
    """Beside torch_xla's kernels of the dispatch key XLA."""
    found: dict[str, Callable[..., Any]] = {}
    for dimensions in (2, 3):
        name = f"max_pool{dimensions}d_with_indices"
        found[f"{name}.default"] = functools.partial(maximum_with_places, dimensions)
        found[f"{name}_backward.default"] = functools.partial(gradient_by_places, dimensions)
    return found
