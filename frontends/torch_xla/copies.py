"""Arrays in other shapes, as copies.

Kernels of PyTorch's dispatch key XLA stand below its own treatment of views: a view of a slice has other elements
there, so what would be a view elsewhere is a copy.
"""

from __future__ import annotations

from typing import Any


def with_last(x: Any, *last: int) -> list[int]:
    """The dimensions of ``x`` with ``last`` behind the others."""
    moved = [d % x.dim() for d in last]
    return [d for d in range(x.dim()) if d not in moved] + moved


def in_order(x: Any, order: list[int]) -> Any:
    """``x`` with its dimensions in ``order``; itself if they are."""
    import torch

    return x if order == sorted(order) else torch.permute_copy(x, order)


def back(x: Any, order: list[int]) -> Any:
    """What :func:`in_order` was given, of its result."""
    return in_order(x, [order.index(d) for d in range(x.dim())])


def broadcast_shape(*shapes: Any) -> Any:
    import torch

    return torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]


def broadcast(*tensors: Any) -> list[Any]:
    """The tensors in one shape."""
    import torch

    shape = broadcast_shape(*(t.shape for t in tensors))
    return [torch.expand_copy(t, shape) for t in tensors]
