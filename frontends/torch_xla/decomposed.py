"""Operations that torch_xla computes on the CPU, in terms of others that it records.

For an operation that it has no translation of, torch_xla computes what is recorded, reads the operands back, and sends
the result to the device: in each step of a loop, forward and backward. PyTorch's decompositions, or a few lines here,
stand above PyTorch's treatment of views and gradients, for they take views, and some of their gradients have no
decomposition. Tensors of inference mode have no gradients' key: for them the same stand at the key of views itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

from . import attention, embedding_bags, padding, pooling, sampling, selection
from .integers import tensors

#: Those of which PyTorch's decomposition is taken (torch._decomp).
OF_PYTORCH: Final = (
    "_adaptive_avg_pool2d.default",
    "_upsample_nearest_exact1d.default",
    "_upsample_nearest_exact2d.default",
    "_chunk_cat.default",
    "_weight_norm_interface.default",
    "addmv.default",
    "addr.default",
    "aminmax.default",
    "channel_shuffle.default",
    "col2im.default",
    "dist.default",
    "glu_backward.default",
    "heaviside.default",
    "huber_loss.default",
    "im2col.default",
    "isneginf.default",
    "isposinf.default",
    "linalg_cross.default",
    "multi_margin_loss.default",
    "nansum.default",
    "upsample_bicubic2d.default",
)


def _exp2(x: Any) -> Any:
    import torch

    return torch.pow(2.0, x)


def _fmax(x: Any, y: Any) -> Any:
    """The larger one, and the other one beside a NaN."""
    return _chosen("ge", x, y)


def _fmin(x: Any, y: Any) -> Any:
    return _chosen("le", x, y)


def _chosen(comparison: str, x: Any, y: Any) -> Any:
    """``x`` where it compares so with ``y`` or that is NaN, else ``y``."""
    import torch

    dtype = torch.result_type(x, y)
    x, y = (t.to(dtype) for t in tensors(x, y, dtype))
    first = getattr(torch, comparison)(x, y)
    return torch.where(first | y.isnan() if dtype.is_floating_point else first, x, y)


def _logaddexp(name: str) -> Callable[..., Any]:
    """PyTorch's decomposition, of both operands on the device."""

    def function(x: Any, y: Any) -> Any:
        import torch
        from torch._decomp import decomposition_table

        dtype = torch.result_type(x, y)
        x, y = (t.to(dtype) for t in tensors(x, y, dtype))
        return decomposition_table[getattr(torch.ops.aten, name).default](x, y)

    return function


def _sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 at 0, where the gradient is 0, and where squares are. In float32 for shorter floats."""
    import torch

    dtype = torch.result_type(x, 1.0)
    wide = x.to(torch.promote_types(dtype, torch.float32))
    zero = torch.abs(wide) < math.sqrt(torch.finfo(wide.dtype).tiny)
    scaled = torch.where(zero, 1, wide) * math.pi
    return torch.where(zero, 1, scaled.sin() / scaled).to(dtype)


def _addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta x + alpha (the sum of products), without an ``x`` that nothing is taken of: it may be NaN."""
    if not x.is_floating_point() and not x.is_complex():
        beta, alpha = int(beta), int(alpha)
    product = (a @ b).sum(0) * alpha
    return (product if beta == 0 else x * beta + product).to(x.dtype)


def _vdot(x: Any, y: Any) -> Any:
    import torch

    if x.dim() != 1 or x.shape != y.shape:
        raise RuntimeError(
            f"vdot takes two vectors of one size, but their shapes are {tuple(x.shape)} and {tuple(y.shape)}"
        )
    return (x.conj() * y).sum(dtype=torch.promote_types(x.dtype, y.dtype))


def _renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    """``renorm``, whose factors are float32 for shorter floats, of which PyTorch's decomposition has no gradient."""
    import torch
    from torch._decomp import decomposition_table

    if x.dtype not in (torch.bfloat16, torch.float16) or x.dim() < 2 or maxnorm < 0 or p <= 0:
        return decomposition_table[torch.ops.aten.renorm.default](x, p, dim, maxnorm)
    others = [d for d in range(x.dim()) if d != dim % x.dim()]
    norm = torch.linalg.vector_norm(x, p, others, keepdim=True, dtype=torch.float32)
    factor = torch.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1.0)
    return x * factor.to(x.dtype)


#: Those that are written here and in the files beside.
OURS: Final[dict[str, Callable[..., Any]]] = {
    "_upsample_bicubic2d_aa.default": sampling.smaller_bicubic,
    "_upsample_bilinear2d_aa.default": sampling.smaller_bilinear,
    "addbmm.default": _addbmm,
    "bucketize.Tensor": selection.bucketize,
    "exp2.default": _exp2,
    "fmax.default": _fmax,
    "fmin.default": _fmin,
    "grid_sampler_2d.default": sampling.grid_sampler_2d,
    "logaddexp.default": _logaddexp("logaddexp"),
    "logaddexp2.default": _logaddexp("logaddexp2"),
    "median.default": selection.median,
    "median.dim": selection.median_along,
    "nanmedian.default": selection.nanmedian,
    "nanmedian.dim": selection.nanmedian_along,
    "renorm.default": _renorm,
    "searchsorted.Scalar": selection.searchsorted,
    "searchsorted.Tensor": selection.searchsorted,
    "sinc.default": _sinc,
    # torch_xla puts a kernel of the key XLA in place when it is imported, and raises where one stands there.
    "upsample_trilinear3d.default": sampling.linear,
    "vdot.default": _vdot,
}

#: Beside PyTorch's kernels of the dispatch key AutogradXLA, which are called for what these do not take.
BESIDE: Final[dict[str, Callable[..., Any]]] = {
    "_embedding_bag.default": embedding_bags.embedding_bag,
    "_embedding_bag_forward_only.default": embedding_bags.embedding_bag,
    "_scaled_dot_product_attention_math.default": attention.attention,
    "avg_pool2d.default": functools.partial(pooling.average, 2),
    "avg_pool3d.default": functools.partial(pooling.average, 3),
    "grid_sampler_3d.default": sampling.grid_sampler_3d,
    "max_pool2d.default": functools.partial(pooling.maximum, 2),
    "max_pool3d.default": functools.partial(pooling.maximum, 3),
    **{
        f"{name}_pad{d}d.default": pad
        for name, pad in (("reflection", padding.reflected), ("replication", padding.replicated))
        for d in (1, 2, 3)
    },
}
