"""Operations along a dimension, of a tensor that has none.

To PyTorch such a tensor has one dimension there, 0 or -1, with one element. torch_xla refuses it. Here it is an array
of one element, and the results are numbers again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: The operations, which have kernels of the dispatch key XLA, or PyTorch's own there.
NAMES: Final = (
    "_log_softmax.default",
    "_log_softmax_backward_data.default",
    "_softmax.default",
    "_softmax_backward_data.default",
    "all.dim",
    "any.dim",
    "argmax.default",
    "argmin.default",
    "cummax.default",
    "cummin.default",
    "cumprod.default",
    "cumsum.default",
    "flip.default",
    "gather.default",
    "index_add.default",
    "index_copy.default",
    "index_fill.int_Scalar",
    "index_fill.int_Tensor",
    "index_select.default",
    "kthvalue.default",
    "logsumexp.default",
    "max.dim",
    "mean.dim",
    "min.dim",
    "prod.dim_int",
    "scatter_add.default",
    "scatter_reduce.two",
    "sort.default",
    "sort.stable",
    "squeeze_copy.dim",
    "squeeze_copy.dims",
    "std.correction",
    "std_mean.correction",
    "topk.default",
    "var.correction",
    "var_mean.correction",
)


def also_of_numbers(
    operation: Callable[..., Any], correction: Callable[..., Any] | None
) -> Callable[..., Any]:
    """``correction``, or the kernel where there is none, that also takes a first operand without dimensions."""

    def corrected(kernel: Callable[..., Any], x: Any, *rest: Any, **options: Any) -> Any:
        if not x.dim():
            return of_a_number(operation, x, *rest, **options)
        if correction is None:
            return kernel(x, *rest, **options)
        return correction(kernel, x, *rest, **options)

    return corrected


def of_a_number(operation: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """``operation`` of arrays in the place of numbers. Results have the shape of the first operand that is one, or of
    the index that was asked for.
    """
    import torch

    number = 3 if operation is torch.ops.aten.index_fill.int_Tensor else None
    arrays = [
        torch.view_copy(t, (1,))
        if isinstance(t, torch.Tensor) and not t.dim() and n != number
        else t
        for n, t in enumerate(operands)
    ]
    found = operation(*arrays, **options)
    shape = operands[2].shape if operation is torch.ops.aten.gather.default else ()
    if isinstance(found, torch.Tensor):
        return torch.view_copy(found, shape)
    return tuple(torch.view_copy(t, shape) for t in found)
