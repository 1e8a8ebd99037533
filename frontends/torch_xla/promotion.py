"""Operations of two operands in the dtype of both.

torch_xla leaves some of them in the dtype of the first one (an integer modulo 0.3 is an integer there), and refuses a
tensor of the CPU without dimensions, which stands for a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .copies import broadcast
from .integers import tensors

Kernel = Callable[..., Any]


def joined(kernel: Kernel, x: Any, y: Any) -> Any:
    """``kernel`` of both on the device and in the dtype of both."""
    return kernel(*_alike(x, y))


def by_number(kernel: Kernel, x: Any, number: Any) -> Any:
    import torch

    return kernel(x.to(torch.result_type(x, number)), number)


def atan2(kernel: Kernel, x: Any, y: Any) -> Any:
    """``atan2``, of integers too, in the default float dtype, and bools among them."""
    import torch

    x, y = _alike(x, y)
    if not x.is_floating_point():
        x, y = (t.to(torch.get_default_dtype()) for t in (x, y))
    return kernel(x, y)


def bounded(name: str) -> Callable[..., Any]:
    """``clamp_min`` or ``clamp_max`` by a tensor or a number: the larger or the smaller one of both."""

    def bound(x: Any, limit: Any) -> Any:
        import torch

        return getattr(torch, name)(*broadcast(*_alike(x, limit)))

    return bound


def _alike(x: Any, y: Any) -> list[Any]:
    import torch

    dtype = torch.result_type(x, y)
    return [t.to(dtype) for t in tensors(x, y, dtype)]


#: Beside the kernels of the dispatch key XLA.
CORRECTIONS: Final[dict[str, Callable[..., Any]]] = {
    "atan2.default": atan2,
    **{f"{name}.Scalar": by_number for name in ("fmod", "remainder")},
    **{f"{name}.Tensor": joined for name in ("fmod", "remainder")},
    **{f"{name}.default": joined for name in ("maximum", "minimum")},
}
