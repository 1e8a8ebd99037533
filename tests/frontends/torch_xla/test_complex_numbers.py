"""Complex numbers, many of whose operations torch_xla alone computes wrongly or refuses: as on PyTorch's CPU."""

from __future__ import annotations

import pytest
import torch

# complex64: a few ulps of numbers below 64.
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}
WINDOW = 16


def spectrogram(z: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(WINDOW, device=z.device)
    return torch.stft(z.real.flatten().repeat(8), WINDOW, return_complex=True, window=window).abs()


CASES = {
    "abs": lambda z: z.abs() * 2,
    "angle and abs": lambda z: torch.polar(z.abs(), z.angle()),
    "logarithm of abs": lambda z: (z.abs() + 1e-3).log(),
    "sgn": torch.sgn,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "quotient": lambda z: z / (z + 1),
    "quotient by the conjugate": lambda z: z / z.conj(),
    "quotient by a real number": lambda z: z / 3,
    "quotient by a complex number": lambda z: z / (1 + 2j),
    "quotient by real numbers": lambda z: z / (1 + z.real**2),
    "quotient of a real number": lambda z: 2 / z,
    "quotient of real numbers": lambda z: z.real / z,
    "mean": lambda z: z.mean() + z.mean(1, keepdim=True),
    "variance": lambda z: z.var() + z.var(1, correction=0),
    "deviation": lambda z: z.std(0) + torch.std_mean(z)[1].abs(),
    "norm": lambda z: z.norm() + torch.linalg.vector_norm(z, 3, 1),
    "maximum norm": lambda z: torch.linalg.vector_norm(z, float("inf")),
    "norm of a matrix": torch.linalg.matrix_norm,
    "products with the conjugate": lambda z: torch.einsum("ij,kj->ik", z, z.conj()),
    "logarithm of a sum of exponentials": lambda z: z.logsumexp(1) + z.logsumexp((0, 1), True),
    "sums of products": lambda z: torch.einsum("ij,ij->i", z, z),
    "inverse": lambda z: torch.linalg.inv(z[:, :3]),
    "singular values": torch.linalg.svdvals,
    "spectrogram": spectrogram,
    "parts in another order": lambda z: torch.view_as_real(z).transpose(0, 1).contiguous(),
    "power": lambda z: torch.fft.rfft(z.real).abs().pow(2).sum(),
}


def value_and_gradient(name: str, device: str) -> list[torch.Tensor]:
    z = torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    z = z.to(device).requires_grad_()
    result = CASES[name](z)
    weights = torch.arange(1, result.numel() + 1, device=device).reshape(result.shape) / 8
    result.backward(
        (weights + 1j * (1 - weights)).to(result.dtype) if result.is_complex() else weights
    )
    return [result.detach().cpu().resolve_conj(), z.grad.cpu().resolve_conj()]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    for got, want in zip(
        value_and_gradient(name, "xla"), value_and_gradient(name, "cpu"), strict=True
    ):
        torch.testing.assert_close(got, want, **TOLERANCE)


def test_a_quotient_by_nothing_is_no_number() -> None:
    for device in ("xla", "cpu"):
        quotient = torch.ones(2, dtype=torch.complex64, device=device) / 0j
        assert not quotient.cpu().isfinite().any()


def test_what_is_no_number() -> None:
    nothing = float("nan")
    z = torch.tensor([1 + 2j, complex(nothing, 1), complex(1, nothing)])
    assert z.to("xla").isnan().cpu().tolist() == [False, True, True]
    infinity = float("inf")
    z = torch.tensor([1 + 2j, complex(infinity, 1), complex(1, -infinity)])
    assert z.to("xla").isinf().cpu().tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("divisor", [3, 0.5, True, torch.tensor(3.0), torch.tensor([2, 4])])
def test_quotients_of_real_numbers_are_as_they_were(dtype, divisor) -> None:
    x = torch.tensor([1, 7], dtype=dtype)
    on_device = divisor.to("xla") if isinstance(divisor, torch.Tensor) else divisor
    got = x.to("xla") / on_device
    want = x / divisor
    assert got.dtype == want.dtype
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_numbers_without_a_real_part_are_true(dtype):
    x = torch.tensor([0j, 1j, 2 + 0j, complex(0, float("nan"))], dtype=dtype)
    y = x.to("xla")
    assert torch.equal(y.bool().cpu(), x.bool())
    assert torch.equal(x.to("xla", torch.bool).cpu(), x.bool())
    assert torch.equal(y.to("cpu", torch.bool), x.bool())
    assert torch.equal(torch.logical_not(y).cpu(), torch.logical_not(x))
    for function in (torch.logical_and, torch.logical_or, torch.logical_xor):
        for other in (x, x.real, torch.tensor(False)):
            assert torch.equal(function(y, other.to("xla")).cpu(), function(x, other))
