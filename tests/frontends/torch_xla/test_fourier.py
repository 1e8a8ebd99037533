"""Fourier transforms of PyTorch on the device, which torch_xla alone computes on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch_xla
from torch_xla.debug import metrics

REAL, COMPLEX = torch.float32, torch.complex64
# By name: the dtype of the operand, and what is done with it.
CASES: dict[str, tuple[torch.dtype, Callable[..., torch.Tensor]]] = {
    "fft": (COMPLEX, torch.fft.fft),
    "ifft": (COMPLEX, torch.fft.ifft),
    "rfft": (REAL, torch.fft.rfft),
    "irfft": (COMPLEX, torch.fft.irfft),
    "hfft": (COMPLEX, torch.fft.hfft),
    "ihfft": (REAL, torch.fft.ihfft),
    "fft of real numbers": (REAL, torch.fft.fft),
    "fft2": (COMPLEX, torch.fft.fft2),
    "rfft2": (REAL, torch.fft.rfft2),
    "irfft2": (COMPLEX, torch.fft.irfft2),
    "fftn": (COMPLEX, torch.fft.fftn),  # of four dimensions, more than StableHLO's operation takes
    "ifftn": (COMPLEX, torch.fft.ifftn),
    "rfftn": (REAL, torch.fft.rfftn),
    "irfftn": (COMPLEX, torch.fft.irfftn),
    "first dimension": (COMPLEX, lambda x, norm: torch.fft.fft(x, dim=0, norm=norm)),
    "two of four dimensions": (REAL, lambda x, norm: torch.fft.rfftn(x, dim=(2, 0), norm=norm)),
    "back from two of four": (COMPLEX, lambda x, norm: torch.fft.irfftn(x, dim=(2, 0), norm=norm)),
    # A slice: below PyTorch's treatment of views its transposition has other elements.
    "fewer, to an odd number": (COMPLEX, lambda x, norm: torch.fft.irfft(x, 7, 2, norm)),
    "more": (REAL, lambda x, norm: torch.fft.rfft(x, 16, norm=norm)),
    "of a transpose": (COMPLEX, lambda x, norm: torch.fft.ifft(x.mT[:, 1:], norm=norm)),
    "one element": (REAL, lambda x, norm: torch.fft.rfft(x[..., :1], norm=norm)),
}


def value_and_gradient(name: str, norm: str, device: str, double: bool) -> list[torch.Tensor]:
    """In double precision on the CPU, for the errors to be those of one side."""
    dtype, function = CASES[name]
    x = torch.randn(3, 4, 6, 5, dtype=dtype, generator=torch.Generator().manual_seed(0))
    x = (x.to(dtype.to_complex().to_real() if dtype is REAL else dtype)).to(device)
    if double:
        x = x.to(torch.complex128 if dtype is COMPLEX else torch.float64)
    x = x.detach().requires_grad_()
    result = function(x, norm=norm)
    weights = torch.arange(1, result.numel() + 1, device=device).reshape(result.shape) / 8
    result.backward((weights + 1j * weights).to(result.dtype) if result.is_complex() else weights)
    assert x.grad is not None
    return [t.detach().cpu().resolve_conj() for t in (result, x.grad)]


def assert_close(got: torch.Tensor, want: torch.Tensor, count: int) -> None:
    """A transform of ``count`` elements errs by some eps log2(count), as a part of the norm of all results."""
    assert got.shape == want.shape
    assert got.is_complex() == want.is_complex()
    error = torch.linalg.vector_norm(got.to(want.dtype) - want)
    bound = 4 * torch.finfo(torch.float32).eps * math.log2(2 * count)
    assert error <= bound * torch.linalg.vector_norm(want)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, norm: str) -> None:
    on_device = value_and_gradient(name, norm, "xla", double=False)
    on_cpu = value_and_gradient(name, norm, "cpu", double=True)
    for got, want in zip(on_device, on_cpu, strict=True):
        assert_close(got, want, 3 * 4 * 6 * 10)


def test_transforms_of_equal_shapes_are_told_apart() -> None:
    """torch_xla takes two custom calls of one name with equal shapes for the same, unless the name tells."""
    x = torch.randn(4, 4, dtype=COMPLEX, generator=torch.Generator().manual_seed(1))
    on_device = x.to("xla")
    for function in (torch.fft.fft, torch.fft.ifft, torch.fft.fft2, torch.fft.ifft2):
        assert_close(function(on_device).cpu(), function(x.to(torch.complex128)), 16)


def test_a_spectrogram_and_back() -> None:
    x = torch.randn(2, 64, generator=torch.Generator().manual_seed(2))

    def there_and_back(device: str) -> torch.Tensor:
        window = torch.hann_window(16, device=device)
        spectrum = torch.stft(x.to(device), 16, window=window, return_complex=True)
        return torch.istft(spectrum, 16, window=window).cpu()

    torch.testing.assert_close(there_and_back("xla"), there_and_back("cpu"), rtol=1e-5, atol=1e-5)


def test_nothing_is_read_back() -> None:
    metrics.clear_all()
    x = torch.randn(4, 8, device="xla", requires_grad=True)
    spectrum = torch.fft.rfft(x)
    torch.fft.irfft(spectrum * spectrum).sum().backward()
    torch_xla.sync()
    assert not [name for name in metrics.counter_names() if name.startswith("aten::")]


def test_no_elements() -> None:
    x = torch.zeros(0, 8, dtype=COMPLEX, device="xla")
    assert torch.fft.fft(x).cpu().shape == (0, 8)
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        torch.fft.fft(torch.zeros(3, 0, dtype=COMPLEX, device="xla"))
