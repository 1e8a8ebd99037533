"""Denormal numbers stay, on whatever thread a program runs.

The threads of XLA's pools, on which torch_xla calls the device, take them for 0.
"""

from __future__ import annotations

import pytest
import torch

from .compare import assert_as_on_the_cpu

_X = torch.tensor([1e-40, -1e-40, 1e-45, 0.5, 1e-38, 0.0])
FUNCTIONS = {
    "compare": lambda x: x > 0,
    "sign": torch.sign,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "scaled": lambda x: x * 1e10,
    "root": lambda x: x.abs().sqrt(),
    "logarithm": lambda x: x.abs().log(),
    "difference": lambda x: (x + 1e-38) - 1e-38,
    "sum": lambda x: x[:3].sum() * 1e20,
    "sort": lambda x: x.sort()[0],
    "product": lambda x: x[:5, None] @ torch.full((1, 3), 1e10, device=x.device),
    "logical": torch.logical_not,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    assert_as_on_the_cpu(FUNCTIONS[name], _X, rtol=1e-6, atol=0)


def test_all_threads():
    x = torch.full((1 << 22,), 1e-40)
    assert int(((x.to("xla") * 1e10) > 0).sum()) == x.numel()
