"""Reading a number back computes what it needs; with torch_xla's experiment early_sync, all that is recorded."""

from __future__ import annotations

import os

import pytest
import torch
import torch_xla

from tests.starter import Starter

_LOOP = """
import tripont.torch_xla
import torch, torch_xla
from torch_xla.debug import metrics

x = torch.full((3, 4), 2.0, device="xla")
y = torch.full((3, 4), 5.0, device="xla")
torch_xla.sync()
expected, total, counts = torch.full((3, 4), 2.0), torch.full((3, 4), 5.0), []
for _ in range(6):
    x = x * 0.5 + 0.25
    y = y + x
    expected = expected * 0.5 + 0.25
    total = total + expected
    assert x.sum().item() == expected.sum().item()
    counts.append(metrics.metric_data("CompileTime")[0])
assert torch.equal(x.cpu(), expected) and torch.equal(y.cpu(), total)
print(*counts)
"""


@pytest.mark.parametrize("read_first", [False, True])
def test_nothing_is_lost_beside_a_tensor_that_cannot_be_computed(read_first: bool) -> None:
    """With early_sync the reading fails, and all that is recorded is lost: it must not be on by itself."""
    torch_xla.sync()
    other = torch.ones(3, device="xla") * 5
    x = torch.arange(4.0, device="xla") * 2
    broken = torch.bitwise_not(torch.ones(3, device="xla"))
    try:
        if read_first:
            with pytest.raises(RuntimeError, match="bitwise_not"):
                broken.cpu()
        assert x.sum().item() == 12
        assert bool(x.sum() == 12)
        assert x.cpu().tolist() == [0, 2, 4, 6]
        assert other.cpu().tolist() == [5, 5, 5]
    finally:
        del broken  # the next sync of the process would fail


def test_gradients_after_a_number_was_read() -> None:
    w = torch.full((4,), 3.0, device="xla", requires_grad=True)
    loss = (w * w).sum()
    assert loss.item() == 36
    loss.backward()
    assert w.grad is not None
    assert w.grad.cpu().tolist() == [6, 6, 6, 6]


def test_with_early_sync_a_loop_that_reads_a_number_is_compiled_once(starter: Starter) -> None:
    environment = os.environ | {"XLA_EXPERIMENTAL": "early_sync", "PJRT_DEVICE": "XPU"}
    done = starter.run(_LOOP, environment)
    assert done.returncode == 0, done.stderr
    counts = done.stdout.split()
    assert counts[2:] == counts[2:3] * 4  # after the second step nothing is new
