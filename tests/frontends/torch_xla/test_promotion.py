"""Operations of two operands have the dtype of both, and take a tensor of the CPU's that stands for a number."""

from __future__ import annotations

import pytest
import torch

from .compare import assert_as_on_the_cpu

FUNCTIONS = {
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "atan2": torch.atan2,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp_min": torch.clamp_min,
    "clamp_max": torch.clamp_max,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
}
_X = torch.tensor([[3, -7, 5], [2, 9, -4]])
_DTYPES = [torch.int64, torch.float32, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_two_dtypes(name, dtype):
    for other in (*_DTYPES, torch.int32):
        assert_as_on_the_cpu(FUNCTIONS[name], _X.to(dtype), (_X[:1] + 1).to(other))


@pytest.mark.parametrize("name", [*FUNCTIONS, "logaddexp", "xlogy", "special.zeta"])
@pytest.mark.parametrize("dtype", _DTYPES[:3])
def test_a_tensor_of_the_cpu(name, dtype):
    function = torch.special.zeta if name == "special.zeta" else getattr(torch, name)
    if (name, dtype) in (("logaddexp", torch.int64), ("special.zeta", torch.bfloat16)):
        pytest.skip("the CPU refuses it")
    for number in (2.5, 2):
        tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-5
        call = lambda x, n=number: function(x, torch.tensor(n))
        assert_as_on_the_cpu(call, _X.abs().to(dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_numbers(dtype):
    x = _X.to(dtype)
    for function in (torch.remainder, torch.fmod, torch.clamp_min, torch.clamp_max):
        for number in (0.3, 2, -2.5):
            assert_as_on_the_cpu(lambda x, f=function, n=number: f(x, n), x, rtol=1e-2, atol=1e-6)
    assert_as_on_the_cpu(lambda x: x.clamp(-1.5, 4), x)
    assert_as_on_the_cpu(lambda x: 7 % x, x)


def test_bools():
    assert_as_on_the_cpu(lambda x: x % torch.ones(3, dtype=torch.bool, device=x.device), _X)
    assert_as_on_the_cpu(lambda x: torch.atan2(x > 0, x > 2), _X)
