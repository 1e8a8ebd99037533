"""Scatters and reductions of scattered rows that torch_xla refuses, or computes on the CPU.

torch_xla cuts the array to the size of the index, and refuses an index that is longer than the array. Means, and
reductions that leave the array's own elements out, it computes on the CPU, as it does those of rows. What is written
into a view with strides (``as_strided``) goes to other elements there. And torch_xla's translation of a scatter into
StableHLO ends the process where the index is a constant without elements: such a scatter, which changes nothing, is not
recorded (:data:`_INDICES`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from . import operands

Kernel = Callable[..., Any]
# Where the index is among the operands.
_INDICES: Final = {
    "index_add.default": 2,
    "index_copy.default": 2,
    "index_fill_.int_Scalar": 2,
    "index_fill_.int_Tensor": 2,
    "index_put_.default": 1,
    "put_.default": 1,
    "scatter.src": 2,
    "scatter.value": 2,
    "scatter_add.default": 2,
    "scatter_reduce.two": 2,
}


def _without_index(name: str, correction: Kernel | None) -> Kernel:
    """``correction``, or the kernel where there is none; nothing where the index has no elements."""
    import torch

    packet, overload = name.split(".")
    in_place = packet.endswith("_")
    called = operands.operation(f"{packet.removesuffix('_')}.{overload}")
    place = _INDICES[name]

    def scattered(kernel: Kernel, x: Any, *rest: Any, **options: Any) -> Any:
        given = rest[place - 1]
        indices = [given] if isinstance(given, torch.Tensor) else given
        if any(index is not None and not index.numel() for index in indices):
            operands.check(called, x, *rest, **options)
            return x if in_place else x.clone()
        if correction is None:
            return kernel(x, *rest, **options)
        return correction(kernel, x, *rest, **options)

    return scattered


def embedding_backward(kernel: Kernel, gradient: Any, index: Any, weights: int, *rest: Any) -> Any:
    """The gradient of an embedding's weights, of no indices too."""
    if index.numel():
        return kernel(gradient, index, weights, *rest)
    return gradient.new_zeros((weights, gradient.shape[-1]))


def diagonal_backward(kernel: Kernel, gradient: Any, sizes: Any, *rest: Any) -> Any:
    """The gradient of what a diagonal was taken of, of one without elements too, which torch_xla refuses."""
    return kernel(gradient, sizes, *rest) if gradient.numel() else gradient.new_zeros(sizes)


def scatter(kernel: Kernel, x: Any, dim: int, index: Any, source: Any, **options: Any) -> Any:
    """``scatter`` of a tensor or a number, whose index may be longer along ``dim`` than ``x``."""
    import torch

    if not x.dim() or not index.dim():
        shape = x.shape
        x, index, source = (
            torch.view_copy(t, (-1,)) if isinstance(t, torch.Tensor) else t
            for t in (x, index, source)
        )
        return torch.view_copy(scatter(kernel, x, dim, index, source, **options), shape)
    size = x.shape[dim]
    more = (index.shape[dim] if index.dim() else 1) - size
    if more <= 0:
        return kernel(x, dim, index, source, **options)
    padding = [0, 0] * (x.dim() - 1 - dim % x.dim()) + [0, more]
    wide = kernel(torch.constant_pad_nd(x, padding), dim, index, source, **options)
    return torch.slice_copy(wide, dim, 0, size)


def scatter_reduce(
    kernel: Kernel,
    x: Any,
    dim: int,
    index: Any,
    source: Any,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """``scatter_reduce`` by sums, products, means and extrema, with or without the elements of ``x``."""
    import torch

    if not x.dim() or reduce not in ("sum", "prod", "mean", "amax", "amin"):
        return kernel(x, dim, index, source, reduce, include_self=include_self)
    start = x
    if not include_self:
        start = torch.scatter(x, dim, index, _neutral(x.dtype, reduce))
    if reduce != "mean":
        return kernel(start, dim, index, source, reduce, include_self=True)
    total = torch.scatter_add(start, dim, index, source)
    ones = torch.ones(index.shape, dtype=x.dtype, device=x.device)
    zeros = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    count = torch.scatter_add(zeros, dim, index, ones)
    count = count + 1 if include_self else torch.clamp(count, min=1)
    rounding = None if x.dtype.is_floating_point or x.dtype.is_complex else "floor"
    return torch.div(total, count, rounding_mode=rounding)


def index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """``index_reduce``: row n of ``source`` along ``dim`` goes to row ``index[n]``."""
    import torch

    if index.dim() > 1 or index.numel() != (source.shape[dim] if source.dim() else 1):
        raise RuntimeError(
            f"index_reduce(): the index has the shape {tuple(index.shape)}, and needs one number for each of the rows "
            f"along dimension {dim} of a source of the shape {tuple(source.shape)}"
        )
    if not x.dim():
        return torch.scatter_reduce(x, dim, index, source, reduce, include_self=include_self)
    shape = [1] * source.dim()
    shape[dim] = index.numel()
    rows = torch.expand_copy(torch.view_copy(index, shape), source.shape)
    return torch.scatter_reduce(x, dim, rows, source, reduce, include_self=include_self)


def as_strided_scatter(
    kernel: Kernel, x: Any, source: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """``as_strided_scatter``, with which what is written into such a view reaches its base.

    torch_xla writes one element behind the other from the offset on, unless the view has all elements of ``x``.
    """
    import torch

    offset, count = storage_offset or 0, math.prod(size)
    dense = 1
    # The view's dimensions from the innermost in memory on: it has elements without gaps if each begins where the
    # one before it ends.
    for length, step in sorted(zip(size, stride, strict=True), key=lambda pair: pair[::-1]):
        dense = dense * length if length == 1 or step == dense else 0
    if not count:
        return x.clone()
    if dense == count == x.numel() and not offset:
        return kernel(x, source, size, stride, storage_offset)
    if offset < 0 or any(step < 0 for step in stride):
        raise RuntimeError(
            f"as_strided: a view with the strides {tuple(stride)} from element {offset} on: none may be negative"
        )
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if last >= x.numel():
        raise RuntimeError(
            f"as_strided: a view of the shape {tuple(size)} with the strides {tuple(stride)} from element {offset} on "
            f"ends at element {last}, but the tensor has {x.numel()}"
        )
    places = torch.full((), offset, dtype=torch.int64, device=x.device)
    for length, step in zip(size, stride, strict=True):
        along = torch.arange(length, device=x.device) * step
        places = torch.unsqueeze_copy(places, -1) + along
    flat = (torch.view_copy(t, (-1,)) for t in (x, places, source))
    array, index, numbers = flat
    return torch.view_copy(torch.scatter(array, 0, index, numbers), x.shape)


def _neutral(dtype: Any, reduce: str) -> Any:
    import torch

    if reduce in ("amax", "amin"):
        if dtype.is_floating_point:
            return float("-inf") if reduce == "amax" else float("inf")
        if dtype == torch.bool:
            return reduce == "amin"
        limits = torch.iinfo(dtype)
        return limits.min if reduce == "amax" else limits.max
    return 1 if reduce == "prod" else 0


def corrections() -> dict[str, Kernel]:
    """Beside torch_xla's kernels of the dispatch key XLA."""
    beside: dict[str, Kernel] = {
        "scatter.src": scatter,
        "scatter.value": scatter,
        "scatter_reduce.two": scatter_reduce,
    }
    return {
        "as_strided_scatter.default": as_strided_scatter,
        "diagonal_backward.default": diagonal_backward,
        "embedding_dense_backward.default": embedding_backward,
        **{name: _without_index(name, beside.get(name)) for name in _INDICES},
    }
