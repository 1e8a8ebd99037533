"""Borders of negative sizes take elements away, as on PyTorch's CPU."""

from __future__ import annotations

import pytest
import torch

from .compare import assert_as_on_the_cpu


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("sides", [(-1, 2), (2, -1), (-1, -2), (0, -1), (1, 2), (-4, 3)])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_border(mode, sides, dimensions):
    x = torch.arange(2.0 * 5**dimensions).reshape(1, 2, *[5] * dimensions).requires_grad_(True)
    pad = [*sides, *[0, 1] * (dimensions - 1)]
    assert_as_on_the_cpu(lambda x: torch.nn.functional.pad(x, pad, mode) ** 2, x)
    with torch.inference_mode():
        assert_as_on_the_cpu(lambda x: torch.nn.functional.pad(x, pad, mode), x.detach().clone())


def test_more_replicas_than_elements():
    x = torch.arange(6.0).reshape(1, 2, 3).requires_grad_(True)
    assert_as_on_the_cpu(lambda x: torch.nn.functional.pad(x, [5, 4], "replicate") ** 2, x)
    with pytest.raises(RuntimeError):
        torch.nn.functional.pad(x.to("xla"), [-4, 0], "replicate").cpu()
