"""torchrun: a process for each of two devices, which exchange tensors and gradients over MPI."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest
import torch

from tests.frontends.torch_xla.one_device import trained_model

_PROGRAM = """
import json, os, sys, time
import tripont.torch_xla, torch, torch_xla
import torch.distributed as dist
import torch_xla.core.xla_model as xm
import torch_xla.distributed.xla_backend
import torch_xla.runtime as xr

dist.init_process_group("xla", init_method="xla://")
device, number = torch_xla.device(), xr.global_ordinal()
x = torch.arange(4.0, device=device) * (number + 1)
total, gathered = xm.all_reduce(xm.REDUCE_SUM, x), xm.all_gather(x)
y = torch.ones(3, device=device) * (number + 1)
dist.all_reduce(y)
torch_xla.sync()
batch = torch.linspace(-2, 2, 32).reshape(8, 4)[4 * number : 4 * number + 4].to(device)


model = torch.nn.Linear(4, 2)
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
model = model.to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    xm.optimizer_step(optimizer)
    torch_xla.sync()
counts = [xr.process_index(), xr.process_count(), xr.world_size()]
report = [counts, total.tolist(), gathered.tolist(), y.tolist(), model.weight.tolist()]
with open(f"{sys.argv[1]}/{number}.json", "w") as file:
    file.write(json.dumps(report))
while number == 0 and not os.path.exists(f"{sys.argv[1]}/1.json"):
    time.sleep(0.1)  # torch_xla ends the others with its coordinator, which is here
os._exit(0)
"""


@pytest.mark.slow
def test_processes_exchange_gradients(subprocess_environment, tmp_path):
    """Each process takes half of the batch; the steps are those of one device on all of it."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    with socket.socket() as first, socket.socket() as second:
        ports = []
        for listener in (first, second):
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    done = subprocess.run(
        [*command, f"--master_port={ports[0]}", str(program), str(tmp_path)],
        env=subprocess_environment
        | {"TRIPONT_COLLECTIVE_TIMEOUT": "60", "XLA_COORDINATOR_PORT": str(ports[1])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    model = trained_model()
    for number in (0, 1):
        counts, total, gathered, reduced, weight = json.loads(
            (tmp_path / f"{number}.json").read_text()
        )
        assert counts == [number, 2, 2]
        assert total == [0, 3, 6, 9]
        assert gathered == [0, 1, 2, 3, 0, 2, 4, 6]
        assert reduced == [3, 3, 3]
        torch.testing.assert_close(torch.tensor(weight), model.weight.detach())
