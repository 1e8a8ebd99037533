"""PyTorch's own table of operators and sample inputs, run on torch_xla's device and on the CPU.

The table (``op_db``) is what PyTorch's tests are made from: about 700 entries. Each entry's first sample inputs go
through both devices, forward, and backward for the first of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
import torch_xla
from torch.testing._internal.common_methods_invocations import op_db

NUM_SAMPLES = 2
NUM_LOOKED = 8
# Sums of float32 in another order, and torch_xla's formulas for what PyTorch's CPU has a function of its own.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
# Their results are singular vectors, whose signs are free.
FREE_SIGNS = frozenset(("pca_lowrank",))


def _name(operator: Any) -> str:
    variant = operator.variant_test_name
    return f"{operator.name}.{variant}" if variant else str(operator.name)


OPERATORS: dict[str, Any] = {_name(operator): operator for operator in op_db}


def dtype_of(operator: Any) -> torch.dtype:
    for dtype in (torch.float32, torch.int64, torch.bool):
        if dtype in operator.dtypes:
            return dtype
    return torch.float32  # operators of other dtypes choose them themselves


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    return pytree.tree_map(lambda x: function(x) if isinstance(x, torch.Tensor) else x, value)


def tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def _copy(value: Any, device: str) -> Any:
    def copy(tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.detach().clone().to(device)
        return moved.requires_grad_(tensor.requires_grad)

    return map_tensors(copy, value)


def _run(operator: Any, sample: Any, device: str, backward: bool) -> tuple[Any, Any]:
    """Results and gradients of one sample on a device, which may still have to compute them."""
    arguments = _copy((sample.input, sample.args, sample.kwargs), device)
    torch.manual_seed(0)
    result = operator.op(arguments[0], *arguments[1], **arguments[2])
    gradients: list[torch.Tensor | None] = []
    if backward:
        outputs = [t for t in tensors(result) if t.requires_grad]
        inputs = [t for t in tensors(arguments) if t.requires_grad]
        if outputs and inputs:
            total = sum((output * output.conj()).real.sum() for output in outputs)
            gradients = list(torch.autograd.grad(total, inputs, allow_unused=True))
    return map_tensors(torch.Tensor.detach, (result, gradients))


def _computed(value: Any) -> Any:
    """The value on the CPU; what the device has not computed yet is one program.

    Not torch_xla.sync(): that would take what operators have left that cannot be compiled. The gradients come first:
    torch_xla takes two programs to be the same if a product, and then its two gradients, differ only in which factor
    comes first (matmul and __rmatmul__; on its own CPU device too).
    """
    last_first = [t for t in reversed(tensors(value)) if t.device.type == "xla"]
    torch_xla._XLAC._xla_sync_multi(last_first, [])
    return map_tensors(torch.Tensor.cpu, value)


def _samples(operator: Any, dtype: torch.dtype, gradients: bool) -> list[Any]:
    """The first samples with elements and dimensions; where an operator has none of those, the first."""
    few = list(
        itertools.islice(operator.sample_inputs("cpu", dtype, requires_grad=gradients), NUM_LOOKED)
    )

    def is_ordinary(sample: Any) -> bool:
        arguments = tensors((sample.input, sample.args, sample.kwargs))
        return all(tensor.dim() > 0 and tensor.numel() > 0 for tensor in arguments)

    return ([sample for sample in few if is_ordinary(sample)] or few)[:NUM_SAMPLES]


def check(operator: Any) -> None:
    """Compare the device with the CPU. Raises AssertionError, or what the device raises."""
    dtype = dtype_of(operator)
    gradients = bool(operator.supports_autograd and dtype.is_floating_point)
    torch.manual_seed(0)
    samples = _samples(operator, dtype, gradients)
    assert samples
    expected, got = (
        [_run(operator, s, device, gradients and n == 0) for n, s in enumerate(samples)]
        for device in ("cpu", "xla")
    )
    got = _computed(got)
    if operator.name in FREE_SIGNS:
        got, expected = map_tensors(torch.Tensor.abs, (got, expected))
    torch.testing.assert_close(got, expected, equal_nan=True, check_stride=False, **TOLERANCE)
