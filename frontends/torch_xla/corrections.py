"""Operations of PyTorch that torch_xla computes wrongly, or refuses, in terms of others that it has right.

torch_xla 2.9, the last one, gives on every device: other gradients of ELU and its relatives, 1 for a maximum norm, the
tensor itself for its maximum, NaN for ``logit`` with bounds, 0 for ``-1 >> 1``, one result for both of two pixel
shuffles with different factors, a running variance over n. It refuses gradients through a ``BatchNorm`` that is
evaluated and those of determinants' logarithms, and ends the process over the loss of one sample. PyTorch's
decompositions, or a few lines here, stand in their place.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Final

# Operations whose decomposition is PyTorch's own (torch._decomp).
_DECOMPOSED: Final = (
    "clamp_max.Tensor",
    "clamp_min.Tensor",
    "count_nonzero.default",
    "count_nonzero.dim_IntList",
    "elu.default",
    "elu_backward.default",
    "logit.default",
    "pixel_shuffle.default",
    "pixel_unshuffle.default",
    "smooth_l1_loss.default",
    "smooth_l1_loss_backward.default",
)
# Held, for what it registers goes with it.
_kernels: Any = None


def install() -> None:
    """Put the corrections in place, once."""
    global _kernels
    if _kernels is not None:
        return
    import torch
    from torch._decomp import decomposition_table

    _kernels = torch.library.Library("aten", "IMPL", "XLA")  # type: ignore[no-untyped-call]
    corrections: dict[str, Callable[..., Any]] = {
        "__rshift__.Scalar": torch.bitwise_right_shift,
        "__rshift__.Tensor": torch.bitwise_right_shift,
        "_linalg_slogdet.default": _slogdet,
    }
    for overload in ("Scalar", "ScalarOpt_dtype", "ScalarOpt_dim", "ScalarOpt_dim_dtype"):
        corrections[f"norm.{overload}"] = _norm
    for name in _DECOMPOSED:
        corrections[name] = decomposition_table[_operation(name)]
    replaced = {name: _beside(name, correction) for name, correction in _BESIDE.items()}
    with warnings.catch_warnings():
        # PyTorch says that a kernel is replaced.
        warnings.simplefilter("ignore")
        for name, kernel in corrections.items():
            _kernels.impl(_operation(name), kernel)
        for name, kernel in replaced.items():
            _kernels.impl(_operation(name), kernel, with_keyset=True)
    for place in (torch, torch.Tensor):
        for name, all_elements in (("amax", torch.max), ("amin", torch.min)):
            setattr(place, name, _of_all_elements(getattr(place, name), all_elements))
    torch.nn.functional.batch_norm = _as_on_the_cpu(torch.nn.functional.batch_norm)


def _operation(name: str) -> Any:
    import torch

    operation, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, operation), overload)


def _of_all_elements(extreme: Callable[..., Any], all_elements: Callable[..., Any]) -> Any:
    """``amax`` or ``amin``, which takes ``all_elements`` (``max`` or ``min``) where no dimensions are named. A kernel
    in its place would not do: its gradient sums along no dimensions, too.
    """

    @functools.wraps(extreme)
    def of_all_elements(input: Any, dim: Any = (), keepdim: bool = False, **options: Any) -> Any:
        named = input.dim() and (isinstance(dim, int) or len(dim))
        if options or named or input.device.type != "xla":
            return extreme(input, dim, keepdim, **options)
        result = all_elements(input)
        return result.reshape((1,) * input.dim()) if keepdim else result

    return of_all_elements


def _norm(x: Any, p: Any = 2, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Any:
    """``norm``, which is an older name of ``linalg.vector_norm``: all dimensions where ``dim`` names none."""
    import torch

    return torch.linalg.vector_norm(x, 2 if p is None else p, dim or None, keepdim, dtype=dtype)


def _slogdet(x: Any) -> Any:
    """``linalg.slogdet`` on the CPU, with the factors that the gradient is made of."""
    import torch

    return tuple(t.to(x.device) for t in torch.ops.aten._linalg_slogdet(x.cpu()))


# ------------------------------------------------ beside torch_xla's kernel, which is called where it is right
def _beside(name: str, correction: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that calls ``correction`` with torch_xla's kernel and the operands."""
    import torch

    kernel = torch.library.get_kernel(_operation(name), "XLA")

    def corrected(keys: Any, *operands: Any) -> Any:
        return correction(functools.partial(kernel.call_boxed, keys), *operands)

    return corrected


def _nll_loss(kernel: Any, x: Any, target: Any, *rest: Any) -> Any:
    """The loss of one sample without a batch, which ends the process in torch_xla's kernel."""
    if x.dim() != 1:
        return kernel(x, target, *rest)
    loss, weight = kernel(x.unsqueeze(0), target.reshape(1), *rest)
    return loss.reshape(()), weight


def _nll_loss_backward(kernel: Any, gradient: Any, x: Any, target: Any, *rest: Any) -> Any:
    if x.dim() != 1:
        return kernel(gradient, x, target, *rest)
    reduction = rest[1]
    of_losses = gradient if reduction else gradient.reshape(1)
    return kernel(of_losses, x.unsqueeze(0), target.reshape(1), *rest).squeeze(0)


def _diagonal(kernel: Any, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Diagonals of the last two dimensions: torch_xla takes those beside the main one of others in another order."""
    return kernel(x.movedim((dim1, dim2), (-2, -1)), offset, -2, -1)


_BESIDE: Final[dict[str, Callable[..., Any]]] = {
    "diagonal_copy.default": _diagonal,
    "nll_loss_backward.default": _nll_loss_backward,
    "nll_loss_forward.default": _nll_loss,
}


def _as_on_the_cpu(batch_norm: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.nn.functional.batch_norm``, whose evaluation on XLA's devices has a gradient, and whose running variance
    is that of n - 1 degrees of freedom.
    """
    import torch
    from torch.autograd.grad_mode import _unsafe_preserve_version_counter

    @functools.wraps(batch_norm)
    def as_on_the_cpu(
        input: Any,
        running_mean: Any,
        running_var: Any,
        weight: Any = None,
        bias: Any = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Any:
        arguments = input, running_mean, running_var, weight, bias, training, momentum, eps
        if input.device.type != "xla":
            return batch_norm(*arguments)
        if training:
            count = input.numel() // max(input.shape[1], 1)
            if running_var is None or count < 2 or not momentum:
                return batch_norm(*arguments)
            # torch_xla adds momentum * variance over n to (1 - momentum) * running_var.
            correction = count / (count - 1)
            with torch.no_grad():
                running_var.div_(correction)
            result = batch_norm(*arguments)
            # The gradient keeps the tensor without reading it.
            with torch.no_grad(), _unsafe_preserve_version_counter(running_var):
                running_var.mul_(correction)
            return result
        if not torch.is_grad_enabled() or not any(
            t is not None and t.requires_grad for t in (input, weight, bias)
        ):
            return batch_norm(*arguments)
        shape = (1, -1, *(1,) * (input.dim() - 2))
        scale = (running_var + eps).rsqrt()
        if weight is not None:
            scale = scale * weight
        result = (input - running_mean.reshape(shape)) * scale.reshape(shape)
        return (result if bias is None else result + bias.reshape(shape)).to(input.dtype)

    return as_on_the_cpu
