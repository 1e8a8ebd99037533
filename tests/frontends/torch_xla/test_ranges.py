"""``arange`` has as many elements as on PyTorch's CPU, and ``linspace`` of float64 its precision."""

from __future__ import annotations

import itertools

import pytest
import torch

_STEPS = (0.1, 0.01, 0.3, 0.7, 1 / 3, -0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_arange_of_floats(dtype):
    for start, step, count in itertools.product((0, 0.1, 1, -1), _STEPS, (1, 4, 12, 25)):
        for end in (start + count * step, start + (count - 0.5) * step, start):
            expected = torch.arange(start, end, step, dtype=dtype)
            got = torch.arange(start, end, step, dtype=dtype, device="xla").cpu()
            assert got.shape == expected.shape, (start, end, step)
            torch.testing.assert_close(got, expected)


def test_arange_refuses_a_step_away_from_the_end():
    with pytest.raises(RuntimeError, match="upper bound"):
        torch.arange(1.0, 0.0, 0.5, device="xla")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex128])
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_linspace(dtype, steps):
    end = 0.7 - 0.2j if dtype.is_complex else 0.7
    expected = torch.linspace(0.1, end, steps, dtype=dtype)
    got = torch.linspace(0.1, end, steps, dtype=dtype, device="xla").cpu()
    torch.testing.assert_close(
        got, expected, rtol=1e-15 if dtype != torch.float32 else 1e-6, atol=0
    )
