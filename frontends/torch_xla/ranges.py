"""``arange`` of floats, of which torch_xla counts the elements in float32, and ``linspace`` of float64, of which it
computes them there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Kernel = Callable[..., Any]
# Elements: half of one counts in float32 up to so many.
_MOST: Final = 1 << 22


def arange(kernel: Kernel, start: Any, end: Any, step: Any = 1, *, out: Any) -> Any:
    """``arange`` into ``out``, with as many elements as on the CPU; torch_xla gives four of five for (1, 2.2, 0.3).

    The end is half a step behind the last element, where no rounding changes how many there are.
    """
    import torch

    if out.is_floating_point():
        count = torch.arange(start, end, step, dtype=out.dtype, device="meta").numel()
        if count < _MOST:
            end = start + (count - 0.5) * step if count else start
    return kernel(start, end, step, out=out)


def linspace(kernel: Kernel, start: Any, end: Any, steps: int, **options: Any) -> Any:
    """``linspace``, of float64 and complex numbers from both ends to the middle, as on the CPU."""
    import torch

    dtype = options.get("dtype") or torch.get_default_dtype()
    if isinstance(start, complex) or isinstance(end, complex):
        dtype = options.get("dtype") or torch.promote_types(dtype, torch.complex64)
    if steps < 0 or not (dtype.is_complex or dtype == torch.float64):
        return kernel(start, end, steps, **options)
    place = torch.arange(steps, dtype=torch.float64, device=options.get("device"))
    step = (end - start) / max(steps - 1, 1)
    upwards, downwards = (
        _plus(first, factor, distance, dtype)
        for first, factor, distance in ((start, step, place), (end, -step, steps - 1 - place))
    )
    return torch.where(place < max(steps // 2, 1), upwards, downwards)


def _plus(number: Any, factor: Any, x: Any, dtype: Any) -> Any:
    """number + factor x, for ``x`` of float64."""
    import torch

    if not dtype.is_complex:
        return number + factor * x
    number, factor = complex(number), complex(factor)
    real, imaginary = number.real + factor.real * x, number.imag + factor.imag * x
    return torch.complex(real, imaginary).to(dtype)
