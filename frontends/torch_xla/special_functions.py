"""Functions that StableHLO's operations, and so torch_xla's, lack: custom calls that the compiler reads."""

from __future__ import annotations

from typing import Any

from .calls import call
from .copies import broadcast


def lgamma(x: Any) -> Any:
    return _of("lgamma", x)


def digamma(x: Any) -> Any:
    return _of("digamma", x)


def polygamma(n: int, x: Any) -> Any:
    """``polygamma``, the ``n``-th derivative of digamma. Raises RuntimeError for a negative ``n``."""
    import torch

    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return digamma(x)
    x = _floats(x)
    return _of("polygamma", torch.full_like(x, n), x)


def igamma(a: Any, x: Any) -> Any:
    return _of("igamma", a, x)


def igammac(a: Any, x: Any) -> Any:
    return _of("igammac", a, x)


def zeta(x: Any, q: Any) -> Any:
    return _of("zeta", x, q)


def _of(name: str, *operands: Any) -> Any:
    import torch

    operands = tuple(map(_floats, operands))
    dtype = operands[0].dtype
    for operand in operands[1:]:
        dtype = torch.promote_types(dtype, operand.dtype)
    same = broadcast(*(x.to(dtype) for x in operands))
    (result,) = call(f"tripont.{name}", same, [(same[0].shape, dtype)], {})
    return result


def _floats(x: Any) -> Any:
    import torch

    return x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
