"""In-place operations are recorded without PyTorch's slow way of comparing equal shapes.

Before torch_xla records ``a.add_(b)``, PyTorch checks on tensors without data that ``b`` broadcasts to the shape of
``a``. That check is a Python function made for symbolic shapes, ``torch._meta_registrations.check_inplace_broadcast``:
10 us, more than recording the operation, and an optimizer has two or more of them for each parameter. :func:`install`
puts an answer for the plain cases before it: other shapes that are equal to the first, or of no dimension. The same
for all that ``add_`` and ``sub_`` check. Everything else, errors and symbolic shapes among it, goes the old way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_NAME = "check_inplace_broadcast"
_INTEGERS: Final = {int}
# Held, for what it registers goes with it.
_kernels: Any = None


def install() -> None:
    """Put the quick answers in place, once; nothing happens with a PyTorch that has no such functions."""
    global _kernels
    try:
        from torch import _meta_registrations, library
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
    other_kernel = getattr(_meta_registrations, "meta_binop_inplace_alpha", None)
    if other_kernel is not None:
        _kernels = library.Library("aten", "IMPL", "Meta")  # type: ignore[no-untyped-call]
        for name in ("add_.Tensor", "sub_.Tensor"):
            _kernels.impl(name, _in_place(other_kernel), allow_override=True)


def _in_place(other_kernel: Any) -> Any:
    """What add_ and sub_ do on tensors without data, where dtypes and shapes are equal: nothing can be wrong then."""

    def kernel(self: Any, other: Any, alpha: Any = 1) -> Any:
        if self.dtype is other.dtype and _plainly_equal(self.shape, other.shape):
            return self
        return other_kernel(self, other, alpha=alpha)

    return kernel


def _plainly_equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether both are the same integers. Symbolic sizes are not compared: that would note a condition on them."""
    return {*map(type, a), *map(type, b)} == _INTEGERS and a == b
