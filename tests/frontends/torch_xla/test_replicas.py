"""torch_xla.launch: a thread for each of two devices, which exchange tensors and gradients."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frontends.torch_xla.one_device import trained_model
from tests.starter import Starter

_PROGRAM = """
import json, sys
import tripont.torch_xla, torch, torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr


def work(index, folder):
    device, number = torch_xla.device(), xr.global_ordinal()
    x = torch.arange(4.0, device=device) * (number + 1)
    total, gathered = xm.all_reduce(xm.REDUCE_SUM, x), xm.all_gather(x)
    torch_xla.sync()
    model = torch.nn.Linear(4, 2)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch = torch.linspace(-2, 2, 32).reshape(8, 4)
    part = batch[4 * number : 4 * number + 4].to(device)
    for _ in range(3):
        optimizer.zero_grad()
        model(part).square().mean().backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
    report = [xr.world_size(), total.tolist(), gathered.tolist(), model.weight.tolist()]
    open(f"{folder}/{number}.json", "w").write(json.dumps(report))


if __name__ == "__main__":
    torch_xla.launch(work, args=(sys.argv[1],), start_method=sys.argv[2])
"""


# PyTorch puts the threads in a new Python, or in a fork where its user asks for one. Both do the same, and the new
# Python imports everything a second time.
@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.nightly)])
def test_replicas_exchange_gradients(
    method: str, subprocess_environment: dict[str, str], tmp_path: Path, starter: Starter
) -> None:
    """Each replica takes half of the batch; the steps are those of one device on all of it."""
    environment = subprocess_environment
    environment |= {"TRIPONT_NUM_DEVICES": "2", "TRIPONT_COLLECTIVE_TIMEOUT": "60"}
    if method == "fork":
        done = starter.run(_PROGRAM, environment, str(tmp_path), method, timeout=240)
    else:
        program = tmp_path / "program.py"
        program.write_text(_PROGRAM)
        done = subprocess.run(
            [sys.executable, str(program), str(tmp_path), method],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    model = trained_model()
    for number in (0, 1):
        size, total, gathered, weight = json.loads((tmp_path / f"{number}.json").read_text())
        assert size == 2
        assert total == [0, 3, 6, 9]
        assert gathered == [0, 1, 2, 3, 0, 2, 4, 6]
        assert weight == [pytest.approx(row, rel=1e-5) for row in model.weight.tolist()]
