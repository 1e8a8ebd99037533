"""The same PyTorch program on torch_xla's device and on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch_xla

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
MakeOptimizer = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


@dataclass
class Training:
    losses: list[float]
    parameters: list[torch.Tensor]


def train(
    device: str,
    make_model: Callable[[], torch.nn.Module],
    make_optimizer: MakeOptimizer,
    x: torch.Tensor,
    y: torch.Tensor,
    loss_function: Loss,
    steps: int = 3,
    autocast: torch.dtype | None = None,
) -> Training:
    """Losses before each of some steps, and the parameters after the last; all on the CPU."""
    torch.manual_seed(0)
    model = make_model().to(device)
    optimizer = make_optimizer(model.parameters())
    x, y = x.to(device), y.to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        if device == "xla":
            torch_xla.sync()
        losses.append(loss.detach())
    return Training(
        [float(loss) for loss in losses],
        [parameter.detach().cpu() for parameter in model.parameters()],
    )


def assert_trains_alike(
    *arguments: Any, rtol: float = 1e-5, atol: float = 1e-6, **more: Any
) -> None:
    """Compare :func:`train` on the two devices. The losses must change, or nothing was tested."""
    expected = train("cpu", *arguments, **more)
    got = train("xla", *arguments, **more)
    assert len(set(expected.losses)) > 1
    torch.testing.assert_close(
        torch.tensor(got.losses), torch.tensor(expected.losses), rtol=rtol, atol=atol
    )
    torch.testing.assert_close(got.parameters, expected.parameters, rtol=rtol, atol=atol)


def assert_as_on_the_cpu(
    function: Callable[..., torch.Tensor],
    *operands: torch.Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> None:
    """Compare the value and its dtype, and the gradients of the operands that ask for one."""
    results = []
    for device in ("cpu", "xla"):
        given = [t.detach().to(device).requires_grad_(t.requires_grad) for t in operands]
        value = function(*given)
        asked = [t for t in given if t.requires_grad]
        gradients = torch.autograd.grad(value, asked, torch.ones_like(value)) if asked else ()
        results.append([t.detach().cpu() for t in (value, *gradients)])
    torch.testing.assert_close(results[1], results[0], rtol=rtol, atol=atol, equal_nan=True)
