"""The workloads in PyTorch: eagerly on the CPU, and recorded by PyTorch/XLA on tripont's device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
import torch_xla
from workloads import LEARNING_RATE, Workload

from tripont import interop

DEVICES = {"own": "cpu", "tripont": "xla"}


def _gelu(x: Any) -> Any:
    return (F.gelu(x, approximate="tanh"),)


def _attention(query: Any, key: Any, value: Any) -> Any:
    return (F.scaled_dot_product_attention(query, key, value),)


def _step(x: Any, y: Any, w1: Any, w2: Any) -> Any:
    w1, w2 = w1.detach().requires_grad_(), w2.detach().requires_grad_()
    ((torch.tanh(x @ w1) @ w2 - y) ** 2).mean().backward()
    return (w1 - LEARNING_RATE * w1.grad).detach(), (w2 - LEARNING_RATE * w2.grad).detach()


FUNCTIONS = {"gelu": _gelu, "attention": _attention, "training step": _step}


def prepare(workload: Workload, where: str) -> Callable[[], list[np.ndarray]]:
    """A function that runs the workload once and waits; its results as NumPy arrays that share their memory."""
    inputs = [torch.from_numpy(x).to(DEVICES[where]) for x in workload.inputs]
    function = FUNCTIONS[workload.name]

    def run() -> list[np.ndarray]:
        results = function(*inputs)
        if where == "tripont":
            torch_xla.sync(wait=True)
        return [interop.to_numpy(y) for y in results]

    return run
