"""``torch.xla``, and what PyTorch does with it: checkpoints and forks of random numbers."""

from __future__ import annotations

import pytest
import torch
import torch_xla
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_drops_the_same_elements_again(use_reentrant: bool) -> None:
    torch_xla.manual_seed(3)
    x = torch.full((1000,), 2.0, device="xla").requires_grad_()
    y = checkpoint(lambda x: F.dropout(x * x, 0.25), x, use_reentrant=use_reentrant)
    y.sum().backward()
    dropped = (y == 0).cpu()
    assert 100 < dropped.sum() < 400
    want = torch.where(dropped, 0.0, 4 / 0.75)
    torch.testing.assert_close(x.grad.cpu(), want)


def test_a_fork_leaves_the_random_numbers_as_they_were() -> None:
    torch_xla.manual_seed(3)
    with torch.random.fork_rng(devices=[0], device_type="xla"):
        inside = torch.rand(3, device="xla").cpu()
    assert torch.equal(inside, torch.rand(3, device="xla").cpu())


def test_devices() -> None:
    module = torch.get_device_module("xla")
    assert module.is_available()
    assert module.is_initialized()
    assert module.device_count() == 1
    with module.device(0):
        assert module.current_device() == 0
    with module.device(torch.device("xla:0")):
        assert torch.ones(1, device="xla").device == torch.device("xla:0")
