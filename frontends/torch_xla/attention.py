"""Causal attention with a mask that the compiler knows, so that it leaves out what is masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def attention(
    kernel: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Any = None,
    **options: Any,
) -> Any:
    """``aten::_scaled_dot_product_attention_math``, which ``scaled_dot_product_attention`` is on XLA's devices.

    PyTorch fills the mask of causal attention with the number -inf, which torch_xla passes to the program when it runs,
    as it does with all numbers but 0 and 1. The logarithm of 0 is the same number, and part of the program.
    """
    import torch

    if is_causal and attn_mask is None and query.dim() > 1 and query.is_floating_point():
        options_of_mask = {"device": query.device, "dtype": query.dtype}
        zero = torch.zeros((), **options_of_mask)
        seen = torch.ones((query.shape[-2], key.shape[-2]), device=query.device, dtype=torch.bool)
        attn_mask, is_causal = torch.where(seen.tril(), zero, zero.log()), False
    return kernel(query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, **options)
