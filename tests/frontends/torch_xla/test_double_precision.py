"""Functions of float64 have its precision, and logarithms of powers are whole."""

from __future__ import annotations

import pytest
import torch

from .compare import assert_as_on_the_cpu

_X = torch.tensor([0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1], dtype=torch.float64)


@pytest.mark.parametrize(
    "function",
    [
        torch.log2,
        torch.log10,
        torch.nn.functional.gelu,
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=1.7, mode="linear"),
        lambda x: torch.log2(torch.complex(x, -x)),
    ],
    ids=["log2", "log10", "gelu", "gelu_tanh", "interpolate", "log2_of_complex"],
)
def test_float64(function):
    assert_as_on_the_cpu(function, _X.clone().requires_grad_(True), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logarithms_of_powers(dtype):
    exponents = torch.arange(-30, 30, dtype=torch.float64)
    for base, logarithm in ((2.0, torch.log2), (10.0, torch.log10)):
        powers = (base**exponents).to(dtype)
        assert torch.equal(logarithm(powers.to("xla")).cpu(), exponents.to(dtype))
    special = torch.tensor([0.0, -1.0, float("inf"), float("nan"), 1.0, 1 + 2**-52], dtype=dtype)
    got = torch.log2(special.to("xla")).cpu()
    torch.testing.assert_close(got, torch.log2(special), rtol=1e-6, atol=0, equal_nan=True)


def test_angle_of_negative_numbers():
    assert_as_on_the_cpu(torch.angle, torch.cat([_X, -_X]), rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_bytes_are_rounded(mode, antialias):
    """Where PyTorch's CPU, with its weights of 16 bits, is not beside the middle of two."""
    torch.manual_seed(0)
    x = torch.randint(0, 256, (1, 3, 9, 7), dtype=torch.uint8)
    want, got = (
        torch.nn.functional.interpolate(x.to(d), size=(4, 12), mode=mode, antialias=antialias)
        for d in ("cpu", "xla")
    )
    difference = (got.cpu().int() - want.int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).float().mean() < 0.02
