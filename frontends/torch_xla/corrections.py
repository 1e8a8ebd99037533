"""Operations of PyTorch that torch_xla computes wrongly, or refuses, in terms of others that it has right.

torch_xla 2.9, the last one, gives on every device: other gradients of ELU and its relatives, 1 for a maximum norm, the
tensor itself for its maximum, NaN for ``logit`` with bounds, 0 for ``-1 >> 1``, one result for both of two pixel
shuffles with different factors, a running variance over n. It refuses gradients through a ``BatchNorm`` that is
evaluated, those of determinants' logarithms, and slices that begin before the first element (``x[-20:]`` of ten), packs
other rows of sequences than the right ones, and ends the process over the loss of one sample. PyTorch's
decompositions, or a few lines here, stand in their place.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final

from . import (
    complex_numbers,
    complex_transfers,
    copies,
    decomposed,
    distances,
    double_precision,
    extrema,
    integers,
    linear_algebra,
    lowerings,
    operands,
    pooling,
    promotion,
    ranges,
    reading,
    sampling,
    scatters,
    seeds,
    selection,
    singular_values,
    special_functions,
    zero_dimensions,
)
from .operands import operation as _operation

# Operations whose decomposition is PyTorch's own (torch._decomp).
_DECOMPOSED: Final = (
    "count_nonzero.default",
    "count_nonzero.dim_IntList",
    "elu.default",
    "elu_backward.default",
    "hardshrink.default",
    "hardsigmoid_backward.default",
    "hardswish_backward.default",
    "hardtanh_backward.default",
    "log_sigmoid_backward.default",
    "log_sigmoid_forward.default",
    "logit.default",
    "logit_backward.default",
    "pixel_shuffle.default",
    "pixel_unshuffle.default",
    "smooth_l1_loss.default",
    "smooth_l1_loss_backward.default",
    "soft_margin_loss.default",
    "soft_margin_loss_backward.default",
    "softshrink.default",
    "special_entr.default",
    "threshold.default",
    "tril_indices.default",
    "triu_indices.default",
)
# By their dispatch key. Held, for what they register goes with them.
_libraries: dict[str, Any] = {}


def install() -> None:
    """Put the corrections in place, once."""
    if _libraries:
        return
    import torch
    from torch._decomp import decomposition_table

    for key in _BESIDE:
        _libraries[key] = torch.library.Library("aten", "IMPL", key)  # type: ignore[no-untyped-call]
    corrections: dict[str, Callable[..., Any]] = {
        "__rshift__.Scalar": torch.bitwise_right_shift,
        "__rshift__.Tensor": torch.bitwise_right_shift,
        "_linalg_slogdet.default": linear_algebra.log_determinant,
        "linalg_inv_ex.default": linear_algebra.inv_ex,
        "_linalg_svd.default": singular_values.svd,
        "clamp_max.Tensor": promotion.bounded("minimum"),
        "clamp_max.default": lambda x, bound: x.clamp(max=bound),
        "clamp_min.Tensor": promotion.bounded("maximum"),
        "clamp_min.default": lambda x, bound: x.clamp(min=bound),
        "hardshrink_backward.default": _shrink_backward,
        "softshrink_backward.default": _shrink_backward,
        "upsample_nearest1d.default": sampling.nearest_of_others,
        "upsample_nearest3d.default": sampling.nearest_of_others,
    }
    for name in ("linear1d", "bilinear2d"):
        corrections[f"upsample_{name}.default"] = sampling.linear
        corrections[f"upsample_{name}_backward.default"] = sampling.linear_backward
    for dimensions in (1, 2, 3):
        corrections[f"upsample_nearest{dimensions}d_backward.default"] = sampling.nearest_backward
    for overload in ("Scalar", "ScalarOpt_dtype", "ScalarOpt_dim", "ScalarOpt_dim_dtype"):
        corrections[f"norm.{overload}"] = _norm
    for name in _DECOMPOSED:
        corrections[name] = decomposition_table[_operation(name)]
    _libraries["xla"] = torch.library.Library("xla", "IMPL", "XLA")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        # PyTorch says that a kernel is replaced.
        warnings.simplefilter("ignore")
        _libraries["xla"].impl("max_pool2d_backward", pooling.gradient_of_maximum)
        for name, kernel in corrections.items():
            _libraries["XLA"].impl(_operation(name), operands.of_taken(name, kernel))
        for name in (*decomposed.OF_PYTORCH, *decomposed.OURS):
            decomposition = decomposed.OURS.get(name) or decomposition_table[_operation(name)]
            _libraries["AutogradXLA"].impl(_operation(name), decomposition)
            _libraries["Functionalize"].impl(
                _operation(name), _on_device(name, _without_kernel(decomposition)), with_keyset=True
            )
        for name, correction in decomposed.BESIDE.items():
            _libraries["Functionalize"].impl(
                _operation(name), _on_device(name, correction), with_keyset=True
            )
        for key, beside in _BESIDE.items():
            if key == "XLA":
                beside = beside | scatters.corrections() | pooling.corrections()
                names = operands.taken().keys() - corrections.keys() - lowerings.NAMES
                beside = _with_checks(beside, names - operands.WITH_GRADIENTS)
            elif key == "AutogradXLA":
                beside = beside | {
                    name: operands.checked(name, beside.get(name))
                    for name in operands.WITH_GRADIENTS
                }
            for name, correction in beside.items():
                kernel = _beside(name, key, correction)
                _libraries[key].impl(_operation(name), kernel, with_keyset=True)


def _with_checks(
    corrections: dict[str, Callable[..., Any]], checked: Iterable[str]
) -> dict[str, Callable[..., Any]]:
    """The corrections, those of numbers, before both the checks of what operations take, and before all the seeds."""
    result = dict(corrections)
    for name in zero_dimensions.NAMES:
        result[name] = zero_dimensions.also_of_numbers(_operation(name), result.get(name))
    for name in checked:
        result[name] = operands.checked(name, result.get(name))
    for name in seeds.DRAWS:
        result[name] = seeds.drawing(result.get(name))
    return result


def _norm(x: Any, p: Any = 2, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Any:
    """``norm``, which is an older name of ``linalg.vector_norm``: all dimensions where ``dim`` names none."""
    import torch

    return torch.linalg.vector_norm(x, 2 if p is None else p, dim or None, keepdim, dtype=dtype)


def _shrink_backward(gradient: Any, x: Any, bound: Any) -> Any:
    """0 from -bound to bound, and the gradient elsewhere, NaN included."""
    import torch

    return torch.where((x >= -bound) & (x <= bound), 0, gradient)


# ------------------------------------------------ beside a kernel, which is called where it is right
def _beside(name: str, key: str, correction: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that calls ``correction`` with that of the dispatch key and the operands."""
    import torch

    kernel = torch.library.get_kernel(_operation(name), key)

    def corrected(keys: Any, *operands: Any, **options: Any) -> Any:
        return correction(functools.partial(kernel.call_boxed, keys), *operands, **options)

    return corrected


def _on_device(name: str, correction: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel for views (the dispatch key Functionalize) that calls ``correction`` for tensors on XLA's devices alone.

    Tensors of inference mode have no gradients' key, so this is the first kernel that they meet, and the last that
    takes views. Nor has what a kernel for gradients calls. Tensors on other devices come here where PyTorch traces
    programs.
    """
    import torch

    kernel = torch.library.get_kernel(_operation(name), "Functionalize")

    def on_device(keys: Any, *operands: Any, **options: Any) -> Any:
        original = functools.partial(kernel.call_boxed, keys)
        for t in (*operands, *options.values()):
            if isinstance(t, torch.Tensor):
                if t.device.type != "xla":
                    break
                return correction(original, *operands, **options)
        return original(*operands, **options)

    return on_device


def _without_kernel(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition, which takes the place of the kernel that it is given."""
    return lambda kernel, *operands, **options: decomposition(*operands, **options)


def _nll_loss(kernel: Any, x: Any, target: Any, *rest: Any) -> Any:
    """The loss of one sample without a batch, which ends the process in torch_xla's kernel."""
    if x.dim() != 1:
        return kernel(x, target, *rest)
    if target.shape not in ((), (1,)):
        raise ValueError(
            "nll_loss of one sample (1-d input) takes one target of shape () or (1,), but its shape is "
            f"{tuple(target.shape)}."
        )
    loss, weight = kernel(x.unsqueeze(0), target.reshape(1), *rest)
    return loss.reshape(()), weight


def _nll_loss_backward(kernel: Any, gradient: Any, x: Any, target: Any, *rest: Any) -> Any:
    if x.dim() != 1:
        return kernel(gradient, x, target, *rest)
    reduction = rest[1]
    of_losses = gradient if reduction else gradient.reshape(1)
    return kernel(of_losses, x.unsqueeze(0), target.reshape(1), *rest).squeeze(0)


def _masked_scatter(kernel: Any, x: Any, mask: Any, source: Any) -> Any:
    """``x`` and the mask of the result's shape, and of the source as many elements as the result has at most.

    torch_xla makes a program of a longer source that XLA refuses, and refuses an ``x`` and a mask that are broadcast.
    """
    import torch

    shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]
    x, mask = torch.expand_copy(x, shape), torch.expand_copy(mask, shape)
    if not shape:  # of a number it makes a program that XLA refuses
        x, mask = torch.view_copy(x, (1,)), torch.view_copy(mask, (1,))
        return torch.view_copy(_masked_scatter(kernel, x, mask, source), ())
    if source.numel() > x.numel():
        source = source.reshape(-1)[: x.numel()]
    return kernel(x, mask, source)


def _masked_scatter_in_place(kernel: Any, x: Any, mask: Any, source: Any) -> Any:
    """``masked_scatter_``, which keeps the shape of ``x``: torch_xla gives it that of a larger mask."""
    import torch

    if x.device.type == "xla":
        shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]
        if shape != x.shape:
            raise RuntimeError(
                f"masked_scatter_ of a tensor of shape {tuple(x.shape)} takes a mask that broadcasts to this "
                f"shape, but the mask's shape is {tuple(mask.shape)}."
            )
    return kernel(x, mask, source)


def _pack_padded_sequence(kernel: Any, x: Any, lengths: Any, batch_first: bool) -> Any:
    """The rows of sequences in the order of time, and how many sequences are that long, on the CPU.

    PyTorch's kernel takes views of views, of which torch_xla gives the first elements, and the fallback of
    functionalization wraps the counts as if they were a tensor on the device, so that nothing can read them.
    """
    import torch

    if x.device.type != "xla":
        return kernel(x, lengths, batch_first)
    if batch_first:
        x = x.transpose(0, 1)
    if lengths.numel() != x.shape[1]:
        raise RuntimeError(
            f"pack_padded_sequence of {x.shape[1]} sequences takes {x.shape[1]} lengths, but there are "
            f"{lengths.numel()}."
        )
    if lengths.numel() and int(lengths.min()) <= 0:
        raise RuntimeError(
            "pack_padded_sequence takes lengths that are greater than 0, but the lengths are "
            f"{lengths.tolist()}."
        )
    if bool((lengths[1:] > lengths[:-1]).any()):
        raise RuntimeError(
            "pack_padded_sequence takes lengths in decreasing order, but the lengths are "
            f"{lengths.tolist()}. With enforce_sorted=False it sorts them."
        )
    longest = int(lengths.max()) if lengths.numel() else 0
    there = torch.arange(longest)[:, None] < lengths
    rows = (torch.arange(longest)[:, None] * x.shape[1] + torch.arange(x.shape[1]))[there]
    return x.flatten(0, 1).index_select(0, rows.to(x.device)), there.sum(1)


def _sum(kernel: Any, x: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
    """The sum over all dimensions where ``dim`` names none, as gradients of a maximum norm ask for it; and of a number
    along the dimension that it has to PyTorch.
    """
    if dim is not None and (not dim or not x.dim()):
        dim = list(range(x.dim()))
    return kernel(x, dim, keepdim, **options)


def _diagonal(kernel: Any, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Diagonals of the last two dimensions: torch_xla takes those beside the main one of others in another order."""
    return kernel(copies.in_order(x, copies.with_last(x, dim1, dim2)), offset, -2, -1)


def _diagonal_scatter(
    kernel: Any, x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    """Diagonals of the last two dimensions are replaced: torch_xla refuses others that are not the first two, and
    diagonals without elements.
    """
    if not source.numel():
        return x.clone()
    order = copies.with_last(x, dim1, dim2)
    return copies.back(kernel(copies.in_order(x, order), source, offset, -2, -1), order)


def _compare(kernel: Any, x: Any, number: Any) -> Any:
    """A comparison with a number of Python's, which is rounded to the dtype of both first: torch_xla compares in
    float64, where no float32 is 0.1.
    """
    import torch

    if type(number) is not float or x.dtype == torch.float64:
        return kernel(x, number)
    dtype = torch.result_type(x, number)
    return kernel(x.to(dtype), torch.tensor(number, dtype=dtype).item())


def _cumsum(kernel: Any, x: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running sums of integers and of bool in int64; torch_xla keeps their dtype, in which they overflow."""
    of = _of_running(x, dtype)
    if not x.numel():  # which torch_xla refuses
        operands.check(_operation("cumsum.default"), x, dim)
        return x.new_empty(x.shape, dtype=of)
    return kernel(x, dim, dtype=dtype) if of is x.dtype else kernel(x.to(of), dim, dtype=of)


def _cumprod(kernel: Any, x: Any, dim: int, *, dtype: Any = None) -> Any:
    """``cumprod``, which torch_xla refuses of no elements."""
    if x.numel():
        return kernel(x, dim, dtype=dtype)
    operands.check(_operation("cumprod.default"), x, dim)
    return x.new_empty(x.shape, dtype=_of_running(x, dtype))


def _of_running(x: Any, dtype: Any) -> Any:
    """The dtype of running sums and products: int64 for integers and bool, if none is asked for."""
    import torch

    if dtype is None and not (x.is_floating_point() or x.is_complex()):
        return torch.int64
    return dtype or x.dtype


def _logsumexp(kernel: Any, x: Any, dim: Any, keepdim: bool = False) -> Any:
    """``logsumexp``, of integers and complex numbers too, which torch_xla refuses. A row whose largest number is
    infinite has that number, where torch_xla's difference from it is NaN.
    """
    import torch

    if x.is_complex():
        largest = complex_numbers.real(x).amax(dim, True)
        largest = torch.where(torch.isinf(largest), 0, largest)
        sums = (x - largest).exp().sum(dim, True).log() + largest
        return sums if keepdim else sums.squeeze(dim)
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    if not x.numel():  # whose gradients torch_xla refuses
        return x.exp().sum(dim, keepdim).log()
    found = kernel(x, dim, keepdim)
    largest = x.amax(dim, keepdim)
    return torch.where(torch.isinf(largest), largest, found)


def _nan_to_num(
    kernel: Any, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None
) -> Any:
    """``nan_to_num``, whose largest numbers are those of the dtype: torch_xla's are float32's for bfloat16."""
    import torch

    if x.is_floating_point():
        bounds = torch.finfo(x.dtype)
        posinf, neginf = (
            (bounds.max if posinf is None else posinf),
            (bounds.min if neginf is None else neginf),
        )
    return kernel(x, nan, posinf, neginf)


def _trace(kernel: Any, x: Any) -> Any:
    """``trace``, whose sum of integers is of int64: torch_xla keeps their dtype, in which it overflows. And it adds the
    other elements times 0, which is NaN of infinities.
    """
    import torch

    if x.dim() != 2:
        return kernel(x)
    return torch.diagonal_copy(x).sum()


def _repeat(kernel: Any, x: Any, repeats: Any) -> Any:
    """``repeat``, also no times, which torch_xla refuses."""
    if 0 not in repeats or len(repeats) < x.dim() or min(repeats) < 0:
        return kernel(x, repeats)
    sizes = [1] * (len(repeats) - x.dim()) + list(x.shape)
    return x.new_empty([size * times for size, times in zip(sizes, repeats, strict=True)])


def _gather(kernel: Any, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """``gather``, also of no elements, which torch_xla refuses."""
    if index.numel():
        return kernel(x, dim, index, sparse_grad=sparse_grad)
    operands.check(_operation("gather.default"), x, dim, index)
    return x.new_empty(index.shape)


def _batch_norm(
    kernel: Any,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    *rest: Any,
) -> Any:
    """``native_batch_norm``, whose running variance is over n - 1: torch_xla adds momentum * variance over n to
    (1 - momentum) * running variance.
    """
    momentum, _ = rest
    count = x.numel() // max(x.shape[1], 1)
    if not training or variance is None or count < 2 or not momentum:
        return kernel(x, weight, bias, mean, variance, training, *rest)
    correction = count / (count - 1)
    variance.copy_(variance / correction)
    result = kernel(x, weight, bias, mean, variance, training, *rest)
    variance.copy_(variance * correction)
    return result


def _batch_norm_backward(kernel: Any, *operands: Any) -> Any:
    """The gradient in evaluation, too, which torch_xla refuses."""
    from torch._decomp import decomposition_table

    _, _, _, _, _, _, _, train, *_ = operands
    gradient = decomposition_table[_operation("native_batch_norm_backward.default")]
    return (kernel if train else gradient)(*operands)


def _clamp(kernel: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    """``clamp``, whose missing bound is infinity: torch_xla's is the largest finite number."""
    import torch

    if any(type(bound) is float for bound in (min, max)) and not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    if x.is_floating_point():
        min, max = (-math.inf if min is None else min), (math.inf if max is None else max)
    return kernel(x, min, max)


def _lerp(kernel: Any, x: Any, end: Any, weight: Any) -> Any:
    """``lerp``, from ``end`` where the weight is a half or more: x + weight (end - x) is NaN for infinite ``x``, and
    for a weight of 1 not quite ``end``.
    """
    import torch

    if not isinstance(weight, torch.Tensor):
        return kernel(x, end, weight) if abs(weight) < 0.5 else kernel(end, x, 1 - weight)
    of_end = weight.abs() >= 0.5
    return torch.where(of_end, kernel(end, x, 1 - weight), kernel(x, end, weight))


def _slice(
    kernel: Any, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """``slice_copy``: bounds before the first element are moved to it, as in Python."""
    return kernel(x, dim, _within(x, dim, start), _within(x, dim, end), step)


def _slice_scatter(
    kernel: Any,
    x: Any,
    source: Any,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Any:
    return kernel(x, source, dim, _within(x, dim, start), _within(x, dim, end), step)


def _within(x: Any, dim: int, bound: Any) -> Any:
    """A bound of a slice of ``x``: 0 where it lies before the first element."""
    if bound is None or bound >= 0:
        return bound
    return 0 if bound < -x.shape[dim] else bound


# By the dispatch key of their kernel. Tensors of inference mode have no "AutogradXLA".
_BESIDE: Final[dict[str, dict[str, Callable[..., Any]]]] = {
    "XLA": {
        "_cdist_forward.default": distances.cdist,
        "_pdist_forward.default": distances.pdist,
        "arange.start_out": ranges.arange,
        "clamp.default": _clamp,
        "cummax.default": selection.cummax,
        "cummin.default": selection.cummin,
        "cumprod.default": _cumprod,
        "cumsum.default": _cumsum,
        "diagonal_copy.default": _diagonal,
        "diagonal_scatter.default": _diagonal_scatter,
        "div.Tensor_mode": integers.divide,
        "floor_divide.default": integers.floor_divide,
        "gather.default": _gather,
        "gelu.default": double_precision.gelu,
        "gelu_backward.default": double_precision.gelu_backward,
        "lerp.Scalar": _lerp,
        "lerp.Tensor": _lerp,
        "linspace.default": ranges.linspace,
        "log10.default": double_precision.log10,
        "log2.default": double_precision.log2,
        "logsumexp.default": _logsumexp,
        "masked_scatter.default": _masked_scatter,
        "multinomial.default": selection.multinomial,
        "nan_to_num.default": _nan_to_num,
        "native_batch_norm.default": _batch_norm,
        "native_batch_norm_backward.default": _batch_norm_backward,
        "nll_loss_backward.default": _nll_loss_backward,
        "nll_loss_forward.default": _nll_loss,
        "randperm.default": selection.randperm,
        "repeat.default": _repeat,
        "slice_copy.Tensor": _slice,
        "slice_scatter.default": _slice_scatter,
        "sum.dim_IntList": _sum,
        "trace.default": _trace,
        "upsample_nearest2d.default": sampling.nearest,
        "xlogy.Tensor": special_functions.xlogy,
        **{f"{name}.Scalar": _compare for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        **complex_numbers.CORRECTIONS,
        **complex_transfers.CORRECTIONS,
        **reading.CORRECTIONS,
        **extrema.CORRECTIONS,
        **promotion.CORRECTIONS,
    },
    "AutogradXLA": {
        **extrema.WITH_GRADIENTS,
        **complex_numbers.WITH_GRADIENTS,
        **decomposed.BESIDE,
    },
    "Functionalize": {
        "_pack_padded_sequence.default": _pack_padded_sequence,
        "masked_scatter_.default": _masked_scatter_in_place,
    },
}
