"""Means of windows over a divisor of the caller's, which torch_xla ignores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any


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

    def of_each(values: Sequence[int]) -> list[int]:
        return [int(v) for v in values] * (1 if len(values) > 1 else dimensions)

    windows, paddings = of_each(kernel_size), of_each(padding)
    steps = of_each(stride) if len(stride) else windows
    bounds: list[int] = []  # of zeros, the last dimension's first
    places = zip(x.shape[-dimensions:], windows, steps, paddings, strict=True)
    for size, window, step, padded in reversed(list(places)):
        rest = size + 2 * padded - window
        last = -(-rest // step) if ceil_mode else rest // step
        if last * step >= size + padded:  # it would begin in the padding behind
            last -= 1
        bounds += [padded, max(padded, last * step + window - size - padded)]
    means = kernel(torch.constant_pad_nd(x, bounds), windows, steps, [0] * dimensions, False, True)
    return means * (math.prod(windows) / divisor_override)
