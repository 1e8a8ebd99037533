"""The largest and smallest elements of floats: ``max``, ``min``, ``amax``, ``amin`` and norms of infinite order.

torch_xla begins with the lowest or the highest finite number, so that the maximum of a row of ``-inf``, as masked rows
have it, is -3.4e38. Here they begin with the infinity, in a computation of XLA's own operations: exported programs hold
nothing that other devices cannot read, and shardings pass through it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

from . import zero_dimensions

# Of how many shapes the computations are kept.
_MOST_COMPUTATIONS: Final = 4096


def _along(opcode: str, x: Any, dimensions: list[int], keepdim: bool) -> Any:
    """The ``maximum`` or ``minimum`` of floats ``x`` along ``dimensions``, of which there is one at least."""
    import _XLAC

    (found,) = _XLAC._xla_user_computation(
        f"xla::{opcode}",
        [x],
        _computation(opcode, x.dtype, tuple(x.shape), tuple(dimensions)),
    )
    if not keepdim:
        return found
    return found.reshape([1 if d in dimensions else size for d, size in enumerate(x.shape)])


@functools.lru_cache(_MOST_COMPUTATIONS)
def _computation(
    opcode: str, dtype: Any, shape: tuple[int, ...], dimensions: tuple[int, ...]
) -> Any:
    """XLA's reduction, whose initial value is the infinity that changes no element."""
    from torch_xla.core import xla_builder as untyped

    xla_builder: Any = untyped
    element = xla_builder.Op.from_torch_type(dtype)
    operation = xla_builder.Op.max if opcode == "maximum" else xla_builder.Op.min
    start = -math.inf if opcode == "maximum" else math.inf

    def reduction(x: Any) -> Any:
        scalar = xla_builder.mkshape(element, ())
        body = xla_builder.create_computation(opcode, operation, (scalar, scalar))
        initial = xla_builder.Op.scalar(x.builder(), start, dtype=element)
        return x.reduce(initial, body, list(dimensions))

    taken = xla_builder.mkshape(element, shape)
    return xla_builder.create_computation(f"{opcode}_elements", reduction, (taken,))


def _is_taken(x: Any) -> bool:
    """Whether :func:`_along` takes ``x``: the kernel says what is wrong with an array without elements."""
    return bool(x.is_floating_point() and x.dim() and x.numel())


def _of_all(opcode: str, kernel: Callable[..., Any], x: Any) -> Any:
    """``max`` or ``min`` of all elements."""
    if not x.dim():
        return x.clone()
    return _along(opcode, x, list(range(x.dim())), False) if _is_taken(x) else kernel(x)


def _with_places(
    opcode: str, kernel: Callable[..., Any], x: Any, dim: int, keepdim: bool = False
) -> tuple[Any, Any]:
    """``max`` or ``min`` along a dimension, and the place of each, which is the kernel's."""
    values, places = kernel(x, dim, keepdim)
    if _is_taken(x):
        values = _along(opcode, x, [dim % x.dim()], keepdim)
    return values, places


def _extreme(all_elements: str, opcode: str) -> Callable[..., Any]:
    """``amax`` or ``amin``, which takes ``all_elements`` (``max`` or ``min``) where no dimensions are named."""
    import torch

    def extreme(kernel: Callable[..., Any], x: Any, dim: Any = (), keepdim: bool = False) -> Any:
        if dim and x.dim():
            dimensions = sorted({d % x.dim() for d in dim})
            fits = len(dimensions) == len(dim) and all(-x.dim() <= d < x.dim() for d in dim)
            if not fits or not _is_taken(x):
                return kernel(x, dim, keepdim)
            return _along(opcode, x, dimensions, keepdim)
        if dim:
            return zero_dimensions.of_a_number(getattr(torch, f"a{all_elements}"), x, dim)
        result = getattr(x, all_elements)()
        return result.reshape((1,) * x.dim()) if keepdim else result

    return extreme


def _with_gradients(name: str) -> Callable[..., Any]:
    """``amax`` or ``amin`` along all dimensions where none are named."""
    import torch

    def extreme(kernel: Callable[..., Any], x: Any, dim: Any = (), keepdim: bool = False) -> Any:
        if dim and not x.dim():
            return zero_dimensions.of_a_number(getattr(torch, name), x, dim)
        return kernel(x, dim or tuple(range(x.dim())), keepdim)

    return extreme


def _vector_norm(
    kernel: Callable[..., Any],
    x: Any,
    order: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """``linalg.vector_norm``, of complex numbers too, which torch_xla refuses; norms of infinite order are extrema."""
    import torch

    if x.is_complex():
        return torch.linalg.vector_norm(x.abs(), order, dim, keepdim, dtype=dtype)
    if abs(order) != math.inf or not _is_taken(x):
        return kernel(x, order, dim, keepdim, dtype=dtype)
    x = (x if dtype is None else x.to(dtype)).abs()
    return (x.amax if order > 0 else x.amin)(dim or (), keepdim)


#: Beside torch_xla's kernels of the dispatch key XLA.
CORRECTIONS: Final[dict[str, Callable[..., Any]]] = {
    "amax.default": _extreme("max", "maximum"),
    "amin.default": _extreme("min", "minimum"),
    "linalg_vector_norm.default": _vector_norm,
    "max.default": functools.partial(_of_all, "maximum"),
    "max.dim": functools.partial(_with_places, "maximum"),
    "min.default": functools.partial(_of_all, "minimum"),
    "min.dim": functools.partial(_with_places, "minimum"),
}

#: Beside those of the key AutogradXLA: the gradients of a maximum of all elements divide by a sum along no dimensions,
#: which is another number there.
WITH_GRADIENTS: Final[dict[str, Callable[..., Any]]] = {
    "amax.default": _with_gradients("amax"),
    "amin.default": _with_gradients("amin"),
}
