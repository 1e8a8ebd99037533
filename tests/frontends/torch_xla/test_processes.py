"""torchrun: a process for each of two devices, which exchange tensors and gradients over MPI.

Each process takes half of a batch, and trains by each of the ways that PyTorch has; the weights are those of one CPU
with all of the batch.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.starter import Starter

# More than 128 weights, so that the wrappers of FSDP have a part for each process.
_MODEL = """
import torch

def fresh():
    model = torch.nn.Sequential(torch.nn.Linear(4, 40), torch.nn.Tanh(), torch.nn.Linear(40, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
    return model

def train(model, batch, step=None, set_to_none=True):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad(set_to_none)
        model(batch).square().mean().backward()
        (step or torch.optim.SGD.step)(optimizer)
    return model

batch = torch.linspace(-2, 2, 32).reshape(8, 4)
"""

_PROGRAM = (
    """
import json, os, sys, time
import tripont.torch_xla, torch, torch_xla
import torch.distributed as dist
import torch_xla.core.xla_model as xm
import torch_xla.distributed.xla_backend
import torch_xla.runtime as xr
from torch.nn.parallel import DistributedDataParallel
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel
"""
    + _MODEL
    + """
dist.init_process_group("xla", init_method="xla://")
device, number = torch_xla.device(), xr.global_ordinal()
x = torch.arange(4.0, device=device) * (number + 1)
total, gathered = xm.all_reduce(xm.REDUCE_SUM, x), xm.all_gather(x)
y = torch.ones(3, device=device) * (number + 1)
dist.all_reduce(y)
z = torch.ones(4, device=device) * (number + 1)
half = z[:2]
dist.all_reduce(z)
w = torch.zeros(4, device=device)
quarter = w[3:]
xm.all_gather(y[:2], output=w, pin_layout=False)
torch_xla.sync()
report = {
    "counts": [xr.process_index(), xr.process_count(), xr.world_size()],
    "total": total.tolist(),
    "gathered": gathered.tolist(),
    "reduced": y.tolist(),
    "view": half.tolist() + quarter.tolist(),
}
mine = batch[4 * number : 4 * number + 4].to(device)
weights = {"optimizer_step": train(fresh().to(device), mine, xm.optimizer_step)}
for view in (False, True):
    model = DistributedDataParallel(fresh().to(device), gradient_as_bucket_view=view)
    weights[f"ddp {view}"] = train(model, mine, set_to_none=not view)
for flat in (False, True):
    model = XlaFullyShardedDataParallel(fresh().to(device), flatten_parameters=flat)
    weights[f"fsdp {flat}"] = train(model, mine)
torch_xla.sync()
shards = [p.flatten() for p in weights["fsdp False"].parameters()]
report["shards"] = [int(s.numel()) for s in shards]
for name, model in weights.items():
    parameters = [p.detach().flatten() for p in model.parameters()]
    if name.startswith("fsdp"):
        parameters = [xm.all_gather(p) for p in parameters]
    report[name] = [p.tolist() for p in parameters]
with open(f"{sys.argv[1]}/{number}.json", "w") as file:
    file.write(json.dumps(report))
if number == 1:
    time.sleep(2)  # process 0, which keeps torch_xla's coordinator, waits for the others in its end
"""
)

# Without torchax: torch_xla looks for its tensors where one is sharded, and importing it imports TensorFlow.
_SPMD_PROGRAM = (
    """
import json, os, sys, time
sys.modules["torchax"] = None
import numpy as np
import tripont.torch_xla, torch, torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel
"""
    + _MODEL
    + """
xr.use_spmd()
device, number, count = torch_xla.device(), xr.process_index(), xr.global_runtime_device_count()
mesh = xs.Mesh(np.arange(count), (count, 1), ("fsdp", "model"))
xs.set_global_mesh(mesh)
batch = batch.to(device)
xs.mark_sharding(batch, mesh, ("fsdp", None))
weights = {"data": train(fresh().to(device), batch)}
wrapped = SpmdFullyShardedDataParallel(fresh().to(device), mesh=mesh)
weights["fsdp"] = train(wrapped, batch)
report = {"counts": [number, xr.process_count(), count]}
for name, model in weights.items():
    report[name] = [p.detach().flatten().tolist() for p in model.parameters()]
with open(f"{sys.argv[1]}/{number}.json", "w") as file:
    file.write(json.dumps(report))
"""
)


# What torchrun does, by a process that has imported PyTorch. Process 0, which keeps torch_xla's coordinator, ends last.
_LIKE_TORCHRUN = """
import os, sys

other = os.fork()
os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0" if other else "1"
exec(compile(open(sys.argv[2]).read(), sys.argv[2], "exec"))
if other:
    _, status = os.waitpid(other, 0)
    sys.exit(status != 0)
"""


def _run(
    source: str, environment: dict[str, str], folder: Path, starter: Starter | None = None
) -> list[dict[str, Any]]:
    """What two processes of ``source`` report, started by torchrun, or as it does by one of ``starter``'s."""
    program = folder / "program.py"
    program.write_text(source)
    with socket.socket() as first, socket.socket() as second:
        ports = []
        for listener in (first, second):
            listener.bind(("127.0.0.1", 0))
            ports.append(str(listener.getsockname()[1]))
    environment |= {"TRIPONT_COLLECTIVE_TIMEOUT": "100", "XLA_COORDINATOR_PORT": ports[1]}
    if starter:
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ports[0]}
        environment |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
        done = starter.run(_LIKE_TORCHRUN, environment, str(folder), str(program), timeout=280)
    else:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
        done = subprocess.run(
            [*command, f"--master_port={ports[0]}", str(program), str(folder)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{number}.json").read_text()) for number in (0, 1)]


def _reference() -> list[torch.Tensor]:
    """The weights after training on all of the batch, on the CPU."""
    names: dict[str, Any] = {}
    exec(_MODEL, names)
    model = names["train"](names["fresh"](), names["batch"])
    return [p.detach().flatten() for p in model.parameters()]


def _check_weights(name: str, weights: list[list[float]], expected: list[torch.Tensor]) -> None:
    """One list for each parameter, or one for all of them, with zeros after each or at the end."""
    if len(weights) == 1:
        expected = [torch.cat(expected)]
    for found, wanted in zip(weights, expected, strict=True):
        padded = torch.zeros(len(found))
        padded[: len(wanted)] = wanted
        torch.testing.assert_close(torch.tensor(found), padded, msg=lambda m: f"{name}: {m}")


@pytest.mark.slow
def test_processes_exchange_gradients(
    subprocess_environment: dict[str, str], tmp_path: Path
) -> None:
    """xm.optimizer_step, DistributedDataParallel with and without views of its buckets, FSDP's wrapper."""
    expected = _reference()
    for number, report in enumerate(_run(_PROGRAM, subprocess_environment, tmp_path)):
        assert report.pop("counts") == [number, 2, 2]
        assert report.pop("total") == [0, 3, 6, 9]
        assert report.pop("gathered") == [0, 1, 2, 3, 0, 2, 4, 6]
        assert report.pop("reduced") == [3, 3, 3]
        # Views of a tensor that a collective wrote into.
        assert report.pop("view") == [3, 3, 3]
        assert max(report.pop("shards")) < max(p.numel() for p in expected)
        assert len(report) == 5
        for name, weights in report.items():
            _check_weights(name, weights, expected)


@pytest.mark.slow
def test_spmd_over_processes(
    subprocess_environment: dict[str, str], tmp_path: Path, starter: Starter
) -> None:
    """A batch sharded over the devices of both processes; with weights sharded too (SpmdFullyShardedDataParallel)."""
    expected = _reference()
    reports = _run(_SPMD_PROGRAM, subprocess_environment, tmp_path, starter)
    for number, report in enumerate(reports):
        assert report.pop("counts") == [number, 2, 2]
        assert report.keys() == {"data", "fsdp"}
        for name, weights in report.items():
            _check_weights(name, weights, expected)
