"""Two devices in PyTorch/XLA: tensors on each, and SPMD over both, with exchanges there."""

from __future__ import annotations

import os

import pytest

from tests.starter import Starter

# How many devices there are, and whether they are SPMD's, is settled once in a process: one each.
_SETUP = """
import os
os.environ["PJRT_DEVICE"] = "XPU"
import numpy as np
import torch, torch_xla
import torch_xla.runtime as xr
"""

_TWO = (
    _SETUP
    + """
assert xr.global_runtime_device_count() == 2
a = torch.arange(4.0).to("xla:0")
b = (torch.ones(4) * 2).to("xla:1")
assert (a.device.index, b.device.index) == (0, 1)
assert torch.equal((a + 1).cpu(), torch.arange(4.0) + 1)
assert torch.equal((b * 3).cpu(), torch.full((4,), 6.0))
c = b.to("xla:0") + a
assert torch.equal(c.cpu(), torch.arange(4.0) + 2)
print("right")
"""
)

# Without torchax: torch_xla looks for its tensors where one is sharded, and importing it imports TensorFlow.
_SPMD = (
    _SETUP
    + """
import sys
sys.modules["torchax"] = None
import torch_xla.distributed.spmd as xs
xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2,), ("x",))
torch.manual_seed(0)
x, y = torch.randn(16, 8), torch.randn(16, 3)
w = torch.randn(8, 3)

def train(w, x, y, sync):
    losses = []
    for _ in range(4):
        w = w.detach().requires_grad_()
        loss = ((torch.tanh(x @ w) - y) ** 2).mean()
        loss.backward()
        w = w - 0.5 * w.grad
        sync()
        losses.append(loss.detach())
    return torch.stack([l.cpu() for l in losses]), w.detach().cpu()

expected_losses, expected_w = train(w, x, y, lambda: None)
device = torch_xla.device()
xd, yd = x.to(device), y.to(device)
xs.mark_sharding(xd, mesh, ("x", None))
xs.mark_sharding(yd, mesh, ("x", None))
assert "devices=[2,1]" in torch_xla._XLAC._get_xla_sharding_spec(xd)
largest = xd.amax(-1)
torch_xla.sync()
assert "devices=[2]" in torch_xla._XLAC._get_xla_sharding_spec(largest)
losses, found = train(w.to(device), xd, yd, torch_xla.sync)
torch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-5)
torch.testing.assert_close(found, expected_w, rtol=1e-5, atol=1e-5)

# What is divided, and what is on both devices, is exchanged by copies, and refused where they are.
from tripont import interop
for tensor, value in ((xd, x), (xd + 1, x + 1), (torch.ones(3).to(device), torch.ones(3))):
    np.testing.assert_array_equal(interop.to_numpy(tensor), value.numpy())
    try:
        interop.to_numpy(tensor, copy=False)
        raise AssertionError("not copied")
    except interop.ExchangeError as error:
        assert "not in the memory of one tripont device" in str(error), error
print("right")
"""
)


def check(program: str, starter: Starter) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = starter.run(program, environment | {"TRIPONT_NUM_DEVICES": "2"})
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split()[-1:] == ["right"]


def test_two_devices(starter: Starter) -> None:
    check(_TWO, starter)


@pytest.mark.slow
def test_spmd_training(starter: Starter) -> None:
    check(_SPMD, starter)
