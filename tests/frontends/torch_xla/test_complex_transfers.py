"""complex128 between the CPU and the device, with its imaginary part."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch

NUMBERS = torch.tensor([[1 + 2j, 3 - 4j, 0], [-5j, 1e300, 7 + 1e-300j]], dtype=torch.complex128)
SINGLE = torch.tensor([1 + 2j, -3.5j], dtype=torch.complex64)


def copied(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).copy_(source)


def saved(x: torch.Tensor) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, map_location="cpu")


# By name: a function of a tensor of the CPU and a device, with a result anywhere.
CASES: dict[str, Callable[[torch.Tensor, str], torch.Tensor]] = {
    "there and back": lambda x, device: x.to(device),
    "computed": lambda x, device: x.to(device) * x.to(device).conj() + 1j,
    "a slice": lambda x, device: x.to(device)[:, 1:].T,
    "of a slice": lambda x, device: x[:, 1:].T.to(device),
    "of a conjugate": lambda x, device: x.conj().to(device),
    "conjugate": lambda x, device: x.to(device).conj(),
    "a number": lambda x, device: x[0, 1].to(device),
    "nothing": lambda x, device: x[:0].to(device),
    "to complex64": lambda x, device: x[:1].to(device, torch.complex64),
    "as complex64": lambda x, device: x[:1].to(device).to("cpu", torch.complex64),
    "from complex64": lambda _, device: SINGLE.to(device, torch.complex128),
    "as complex128": lambda _, device: SINGLE.to(device).to("cpu", torch.complex128),
    "from real numbers": lambda x, device: x.real.to(device, torch.complex128),
    "tensor": lambda x, device: torch.tensor(x.tolist(), dtype=x.dtype, device=device),
    "copied there": lambda x, device: copied(x.to(device), x),
    "copied back": lambda x, device: copied(x, x.to(device)),
    "copied back to complex64": lambda _, device: copied(
        SINGLE, SINGLE.to(torch.complex128).to(device)
    ),
    "copied from complex64": lambda _, device: copied(
        SINGLE.to(torch.complex128).to(device), SINGLE
    ),
    "written into a part": lambda x, device: copied(x.to(device), x)[:, :2].copy_(x[:, 1:]),
    "listed": lambda x, device: torch.tensor(x.to(device).tolist()),
    "one item": lambda x, device: torch.tensor(x.to(device)[1, 2].item()),
    "as an array of NumPy": lambda x, device: torch.from_numpy(x.to(device).numpy(force=True)),
    "saved": lambda x, device: saved(x.to(device)),
    "computed on the CPU": lambda x, device: torch.matrix_exp(
        (x[:, :2] * torch.tensor([[0.1], [0]])).to(device)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    got, want = (CASES[name](NUMBERS, device) for device in ("xla", "cpu"))
    assert got.dtype == want.dtype
    torch.testing.assert_close(got.cpu(), want, rtol=1e-15, atol=0)


def test_gradients_through_a_transfer() -> None:
    gradients = []
    for device in ("xla", "cpu"):
        x = NUMBERS[:, ::2].clone().requires_grad_()
        y = x.to(device)
        (y * y * (2 - 3j)).sum().abs().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, rtol=1e-14, atol=0)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_without_gradients(mode: Callable[[], object]) -> None:
    with mode():
        assert torch.equal(NUMBERS.to("xla").cpu(), NUMBERS)


def test_parameters() -> None:
    layer = torch.nn.Linear(3, 2, dtype=torch.complex128)
    want = layer(NUMBERS[:, :3] / 1e300)
    got = layer.to("xla")((NUMBERS[:, :3] / 1e300).to("xla"))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-14, atol=1e-14)
