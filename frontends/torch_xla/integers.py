"""Quotients that are whole numbers: of integers, which torch_xla computes in float32 (2147483647 // 3 is 22 too large
there), and of floats rounded down, which it rounds before (0.5 // 0.1 is 5 there, and 4 in Python and on the CPU).

The quotient of integers towards zero is a custom call that the compiler reads as StableHLO's division. A quotient by 0
is -1, where PyTorch's CPU raises an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import operands
from .calls import call
from .copies import broadcast

Kernel = Callable[..., Any]

_TARGET: Final = "tripont.divide"


def divide(kernel: Kernel, x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """``div`` with a rounding mode; ``kernel`` for floats that are not rounded down."""
    import torch

    dtype = torch.result_type(x, y)
    if dtype.is_complex and rounding_mode is not None:
        mode = torch.ops.aten.div.Tensor_mode
        return operands.by_cpu(mode, x, y, rounding_mode=rounding_mode)
    if rounding_mode == "floor" and dtype.is_floating_point:
        return _floor_of_floats(x, y, dtype)
    if rounding_mode is None or not _is_integer(dtype):
        return kernel(*tensors(x, y, dtype), rounding_mode=rounding_mode)
    return _floor(x, y, dtype) if rounding_mode == "floor" else _quotient(x, y, dtype)[0]


def floor_divide(kernel: Kernel, x: Any, y: Any) -> Any:
    """``floor_divide``; ``kernel`` for others than integers and floats."""
    import torch

    dtype = torch.result_type(x, y)
    if dtype.is_complex:
        return operands.by_cpu(torch.ops.aten.floor_divide.default, x, y)
    if dtype.is_floating_point:
        return _floor_of_floats(x, y, dtype)
    if not _is_integer(dtype):
        return kernel(*tensors(x, y, dtype))
    return _floor(x, y, dtype)


def _is_integer(dtype: Any) -> bool:
    import torch

    return not (dtype == torch.bool or dtype.is_floating_point or dtype.is_complex)


def _floor(x: Any, y: Any, dtype: Any) -> Any:
    import torch

    quotient, x, y = _quotient(x, y, dtype)
    if not dtype.is_signed:
        return quotient
    rest = torch.fmod(x, y)
    return quotient - ((rest != 0) & ((rest < 0) != (y < 0))).to(dtype)


def _floor_of_floats(x: Any, y: Any, dtype: Any) -> Any:
    """The whole quotient of Python's: that of ``x`` without what ``fmod`` leaves of it.

    In float32 for shorter floats.
    """
    import torch

    wide = torch.promote_types(dtype, torch.float32)
    x, y = (t.to(wide) for t in tensors(x, y, wide))
    rest, ratio = torch.fmod(x, y), x / y
    quotient = (x - rest) / y
    quotient = torch.where((rest != 0) & ((rest < 0) != (y < 0)), quotient - 1, quotient)
    whole = torch.floor(quotient)
    whole = torch.where(quotient - whole > 0.5, whole + 1, whole)
    whole = torch.where(quotient == 0, ratio * 0, whole)  # a zero with the sign of the ratio
    return torch.where(y == 0, ratio, whole).to(dtype)


def _quotient(x: Any, y: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """The quotient towards zero, and both operands in its dtype and shape."""
    x, y = broadcast(*(t.to(dtype) for t in tensors(x, y, dtype)))
    (quotient,) = call(_TARGET, [x, y], [(x.shape, dtype)], {})
    return quotient, x, y


def tensors(x: Any, y: Any, dtype: Any) -> tuple[Any, Any]:
    """Both on the device: a number of Python's, or a tensor of the CPU's that stands for it, is a constant there."""
    import torch

    device = next(
        t.device for t in (x, y) if isinstance(t, torch.Tensor) and t.device.type == "xla"
    )

    def on_device(t: Any) -> Any:
        if isinstance(t, torch.Tensor) and t.device == device:
            return t
        number = t.item() if isinstance(t, torch.Tensor) else t
        return torch.full((), number, dtype=dtype, device=device)

    return on_device(x), on_device(y)
