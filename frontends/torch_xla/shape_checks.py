"""In-place operations are recorded without PyTorch's slow way of comparing equal shapes.

Before torch_xla records ``a.add_(b)``, PyTorch checks on tensors without data that ``b`` broadcasts to the shape of
``a``. That check is a Python function made for symbolic shapes, ``torch._meta_registrations.check_inplace_broadcast``:
10 us, more than recording the operation, and an optimizer has two or more of them for each parameter. :func:`install`
puts an answer for the plain cases before it: other shapes that are equal to the first, or of no dimension. Everything
else, errors and symbolic shapes among it, goes the old way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NAME = "check_inplace_broadcast"


def install() -> None:
    """Put the quick answer in place, once; nothing happens with a PyTorch that has no such function."""
    try:
        from torch import _meta_registrations
    except ImportError:
        return
    original = getattr(_meta_registrations, _NAME, None)
    if original is None or hasattr(original, "__wrapped__"):
        return

    def check_inplace_broadcast(self_shape: Sequence[Any], *args_shape: Sequence[Any]) -> None:
        for shape in args_shape:
            if shape and not _plainly_equal(shape, self_shape):
                original(self_shape, *args_shape)
                return

    check_inplace_broadcast.__wrapped__ = original  # type: ignore[attr-defined]
    setattr(_meta_registrations, _NAME, check_inplace_broadcast)


def _plainly_equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether both are the same integers. Symbolic sizes are not compared: that would note a condition on them."""
    return len(a) == len(b) and all(
        type(x) is int and type(y) is int and x == y for x, y in zip(a, b, strict=True)
    )
