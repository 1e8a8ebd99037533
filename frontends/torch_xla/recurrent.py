"""``torch.nn.GRU`` where torch_xla's own class, which takes its place, computes nothing.

That class computes by torch_xla's ``scan``, which takes tensors on the device alone, no packed sequences, and traces
gradients, which inference mode forbids. PyTorch's class, from which it is derived, does.
"""

from __future__ import annotations

import functools
from typing import Any


def install() -> None:
    """Have torch_xla's class call PyTorch's for what it does not take, once."""
    import torch
    from torch_xla.experimental import gru

    by_torch_xla: Any = gru.GRU
    if hasattr(by_torch_xla.forward, "__wrapped__"):
        return
    by_scan, whole = by_torch_xla.forward, by_torch_xla.__base__.forward

    @functools.wraps(by_scan)
    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        is_on_device = isinstance(input, torch.Tensor) and input.device.type == "xla"
        if is_on_device and not torch.is_inference_mode_enabled():
            return by_scan(self, input, hx)
        return whole(self, input, hx)

    by_torch_xla.forward = forward
