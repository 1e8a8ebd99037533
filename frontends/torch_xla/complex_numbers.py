"""Operations of complex numbers that torch_xla computes wrongly, or refuses, in terms of others that it has right.

torch_xla takes what is not a floating-point dtype for an integer one in many places: a quotient of complex numbers is a
float32 without its imaginary part, an absolute value is complex, and means, variances and norms are refused. A
transpose of ``view_as_real`` ends the process. Gradients of ``tanh`` and ``sigmoid`` lack the conjugate. Each function
here stands beside torch_xla's kernel, which it calls for real numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

from .copies import broadcast

Kernel = Callable[..., Any]


def _of_complex(correction: Callable[..., Any]) -> Callable[..., Any]:
    """``correction`` for a complex first operand, and the kernel for others."""

    def operation(kernel: Kernel, x: Any, *rest: Any, **options: Any) -> Any:
        if x.is_complex():
            return correction(x, *rest, **options)
        return kernel(x, *rest, **options)

    return operation


def from_parts(real: Any, imag: Any) -> Any:
    """``complex``, which torch_xla computes on the CPU, of two floating-point tensors of one dtype."""
    import torch

    if real.dtype != imag.dtype or real.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(
            "torch.complex takes two tensors of one dtype, float32 or float64, and got "
            f"{real.dtype} and {imag.dtype}"
        )
    return torch.view_as_complex_copy(torch.stack(broadcast(real, imag), -1))


def polar(absolute: Any, angle: Any) -> Any:
    """``polar``, which torch_xla computes on the CPU."""
    return from_parts(absolute * angle.cos(), absolute * angle.sin())


def angle(x: Any) -> Any:
    """``angle``, which torch_xla computes on the CPU: that of a negative number is pi, and that of NaN is NaN."""
    import torch

    if x.is_complex():
        return torch.atan2(_imag(x), real(x))
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    return torch.where(x.isnan(), x, (x < 0).to(x.dtype) * math.pi)


def conjugate(x: Any) -> Any:
    """``conj_physical``, which torch_xla computes on the CPU."""
    return from_parts(real(x), -_imag(x)) if x.is_complex() else x


def real(x: Any) -> Any:
    return _part(x, 0)


def _imag(x: Any) -> Any:
    return _part(x, 1)


def _part(x: Any, number: int) -> Any:
    """The real or the imaginary part, as a copy: below PyTorch's own treatment of views there are none."""
    import torch

    return torch.select_copy(torch.view_as_real_copy(x), -1, number)


def _as_real(kernel: Kernel, x: Any) -> Any:
    """``view_as_real``: torch_xla's shape of it has no layout for the last dimension, and a transpose of it ends the
    process. A view makes the shape anew.
    """
    import torch

    parts = kernel(x)
    return torch.view_copy(parts, parts.shape)


def _abs(kernel: Kernel, x: Any) -> Any:
    """The kernel's result is the absolute value, as a complex number."""
    return real(kernel(x)) if x.is_complex() else kernel(x)


def _div(kernel: Kernel, x: Any, y: Any) -> Any:
    """A quotient by a complex number as a product by its reciprocal, which torch_xla has right.

    ``y``: a tensor; or a number of Python's, which the kernel does not take, but that of ``div.Scalar_mode`` does.
    """
    if isinstance(y, complex):
        import torch

        y = torch.scalar_tensor(y, dtype=torch.result_type(x, y), device=x.device)
    if isinstance(y, int | float):
        divide = _division_by_numbers()
        if x.is_complex():
            return _parts(lambda part: divide(part, y, rounding_mode=None), x)
        return divide(x, y, rounding_mode=None)
    if y.is_complex():
        return x * y.reciprocal()
    return _parts(lambda part: kernel(part, y), x) if x.is_complex() else kernel(x, y)


@functools.cache
def _division_by_numbers() -> Any:
    import torch

    return torch.ops.aten.div.Scalar_mode  # looking it up takes longer than calling it


def _parts(function: Callable[[Any], Any], x: Any) -> Any:
    """``function`` of the real and of the imaginary part, as a complex number."""
    return from_parts(function(real(x)), function(_imag(x)))


def _mean(x: Any, *rest: Any, dtype: Any = None, **options: Any) -> Any:
    x = x if dtype is None else x.to(dtype)
    return _parts(lambda part: part.mean(*rest, **options), x)


def _var(x: Any, *rest: Any, **options: Any) -> Any:
    import torch

    return torch.var(real(x), *rest, **options) + torch.var(_imag(x), *rest, **options)


def _std(x: Any, *rest: Any, **options: Any) -> Any:
    return _var(x, *rest, **options).sqrt()


def _with_mean(spread: Callable[..., Any]) -> Callable[..., Any]:
    """``var_mean`` or ``std_mean``."""

    def both(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        return spread(x, dim, correction=correction, keepdim=keepdim), x.mean(dim, keepdim)

    return both


def _isinf(x: Any) -> Any:
    return real(x).isinf() | _imag(x).isinf()


def _isnan(x: Any) -> Any:
    return real(x).isnan() | _imag(x).isnan()


def _tanh_backward(gradient: Any, y: Any) -> Any:
    return gradient * conjugate(1 - y * y)


def _sigmoid_backward(gradient: Any, y: Any) -> Any:
    return gradient * conjugate(y * (1 - y))


def before_cast(x: Any, dtype: Any) -> Any:
    """The complex ``x`` itself; for a cast to bool whether it is not 0, as torch_xla looks at the real part alone."""
    import torch

    return x != 0 if dtype is torch.bool else x


def _logical(kernel: Kernel, *operands: Any) -> Any:
    """``logical_not`` and its like of complex numbers, which are true if they are not 0."""
    return kernel(*(x != 0 if x.is_complex() else x for x in operands))


def _einsum(kernel: Kernel, equation: str, operands: Any, **options: Any) -> Any:
    """PyTorch's own products: the gradients of torch_xla's lack the conjugate."""
    import torch

    if not any(x.is_complex() for x in operands):
        return kernel(equation, operands, **options)
    return torch.ops.aten.einsum.default.decompose(equation, operands, **options)


#: Beside the kernels of the dispatch key XLA.
CORRECTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs.default": _abs,
    "div.Scalar": _div,
    "div.Tensor": _div,
    "isinf.default": _of_complex(_isinf),
    "isnan.default": _of_complex(_isnan),
    **{f"logical_{name}.default": _logical for name in ("and", "not", "or", "xor")},
    "mean.default": _of_complex(_mean),
    "mean.dim": _of_complex(_mean),
    "sigmoid_backward.default": _of_complex(_sigmoid_backward),
    "std.correction": _of_complex(_std),
    "std_mean.correction": _of_complex(_with_mean(_std)),
    "tanh_backward.default": _of_complex(_tanh_backward),
    "var.correction": _of_complex(_var),
    "var_mean.correction": _of_complex(_with_mean(_var)),
    "view_as_real_copy.default": _as_real,
}

#: Beside those of the key AutogradXLA.
WITH_GRADIENTS: Final[dict[str, Callable[..., Any]]] = {"einsum.default": _einsum}
