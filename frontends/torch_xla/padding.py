"""Reflected and replicated borders that torch_xla refuses.

It takes none of negative sizes, and has no gradient of more replicas than there are elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def reflected(kernel: Callable[..., Any], x: Any, padding: Sequence[int]) -> Any:
    """``reflection_pad1d`` and its like of ``x``; ``padding`` begins with both sides of the last dimension."""
    sizes = _sizes(x, padding)
    if min(padding) >= 0 or any(max(sides) >= size for size, sides in sizes):
        return kernel(x, padding)

    def place(i: int, size: int) -> int:
        return size - 1 - abs(size - 1 - abs(i))

    return _taken(x, sizes, place)


def replicated(kernel: Callable[..., Any], x: Any, padding: Sequence[int]) -> Any:
    """``replication_pad1d`` and its like."""
    sizes = _sizes(x, padding)
    if min(padding) >= 0 and all(max(sides) < size for size, sides in sizes):
        return kernel(x, padding)
    if any(size < 1 or size + sum(sides) < 1 for size, sides in sizes):
        return kernel(x, padding)
    return _taken(x, sizes, lambda i, size: min(max(i, 0), size - 1))


def _sizes(x: Any, padding: Sequence[int]) -> list[tuple[int, tuple[int, int]]]:
    """The size of each dimension, from the last one on, and what both of its sides get."""
    sides = zip(padding[::2], padding[1::2], strict=True)
    return list(zip(reversed(x.shape), sides, strict=False))


def _taken(
    x: Any, sizes: list[tuple[int, tuple[int, int]]], place: Callable[[int, int], int]
) -> Any:
    import torch

    for n, (size, (before, behind)) in enumerate(sizes):
        if before or behind:
            places = [place(i, size) for i in range(-before, size + behind)]
            x = torch.index_select(x, x.dim() - 1 - n, torch.tensor(places, device=x.device))
    return x
