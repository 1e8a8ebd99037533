"""Quotients of integers that float32 does not hold: exact, as on PyTorch's CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from torch_xla.debug import metrics

LARGE = [7, -7, 2**24 + 1, 2**31 - 1, 2**40 + 1, -(2**40) - 1, 2**53 + 1, 2**62 + 3, -(2**62) - 3]
SMALL = [2, 2, 1, 3, 3, -3, 1, 1, 7]
CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "floor": lambda x, y: x // y,
    "floor by a number": lambda x, _: x // 3,
    "floor by a negative number": lambda x, _: x // -3,
    "a number by integers": lambda _, y: 100 // y,
    "towards zero": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "towards zero by a number": lambda x, _: torch.div(x, 3, rounding_mode="trunc"),
    "floor mode": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "floor_divide": torch.floor_divide,
    "in place": lambda x, y: (x + 0).floor_divide_(y),
    "in place, towards zero": lambda x, y: (x + 0).div_(y, rounding_mode="trunc"),
    "one by all": lambda x, y: x[3] // y,
    "all by one": lambda x, y: x // y[3],
    "broadcast": lambda x, y: x[:, None] // y[None],
    "of slices": lambda x, y: x.reshape(3, 3)[:, 1:].T // y.reshape(3, 3)[:, :2].T,
    "two dtypes": lambda x, y: x // y.to(torch.int16),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
@pytest.mark.parametrize("name", CASES)
def test_quotients(name: str, dtype: torch.dtype) -> None:
    limit = torch.iinfo(dtype).max
    x = torch.tensor([n if abs(n) <= limit else limit - k for k, n in enumerate(LARGE)]).to(dtype)
    y = torch.tensor(SMALL).to(dtype)
    metrics.clear_all()
    got = CASES[name](x.to("xla"), y.to("xla"))
    torch_xla.sync()
    assert not [counter for counter in metrics.counter_names() if counter.startswith("aten::")]
    want = CASES[name](x, y)
    assert got.dtype == want.dtype
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_without_gradients(mode: Callable[[], Any]) -> None:
    x = torch.tensor([2**31 - 1, -7], dtype=torch.int32)
    with mode():
        for rounding in ("floor", "trunc"):
            got = torch.div(x.to("xla"), 3, rounding_mode=rounding)
            assert torch.equal(got.cpu(), torch.div(x, 3, rounding_mode=rounding))
        assert (x.to("xla") // 3).tolist() == [(2**31 - 1) // 3, -3]


def test_without_a_sign() -> None:
    x = torch.tensor([0, 7, 200, 255], dtype=torch.uint8)
    assert torch.equal((x.to("xla") // 3).cpu(), x // 3)


def test_the_smallest_integer() -> None:
    x = torch.tensor([-(2**31), -(2**31) + 1], dtype=torch.int32)
    assert (x.to("xla") // 2).tolist() == [-(2**30), -(2**30)]


@pytest.mark.parametrize("rounding_mode", ["floor", "trunc"])
@pytest.mark.parametrize("y", [2.5, 2, torch.tensor([2.0, -3.0])])
def test_floats_are_as_they_were(y, rounding_mode: str) -> None:
    x = torch.tensor([7.0, -7.0])
    on_device = y.to("xla") if isinstance(y, torch.Tensor) else y
    got = torch.div(x.to("xla"), on_device, rounding_mode=rounding_mode)
    assert torch.equal(got.cpu(), torch.div(x, y, rounding_mode=rounding_mode))
    got = torch.floor_divide(x.to("xla"), on_device)
    assert torch.equal(got.cpu(), torch.floor_divide(x, y))


def test_integers_by_floats() -> None:
    x = torch.tensor([7, -7])
    got = x.to("xla") // 2.5
    assert got.dtype == torch.float32
    assert got.tolist() == [2, -3]


FLOATS = [0.1, 0.3, 0.5, 0.7, 0.9, -0.5, -0.3, 6.0, 0.0, -0.0, 3e38, float("inf"), float("nan")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("divisor", [0.1, -0.1, 0.3, 0.0, float("inf"), -float("inf"), 7])
def test_floats_rounded_down(dtype: torch.dtype, divisor: float) -> None:
    """As in Python, where 0.5 // 0.1 is 4, for 0.1 is a little more than a tenth."""
    x = torch.tensor(FLOATS, dtype=torch.float64).to(dtype)
    y = torch.full((), divisor, dtype=dtype)
    for by in (divisor, y, y.expand(len(FLOATS)).clone()):
        on_device = by.to("xla") if isinstance(by, torch.Tensor) else by
        want, got = x // by, (x.to("xla") // on_device).cpu()
        assert got.dtype == dtype
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(got.signbit()[~want.isnan()], want.signbit()[~want.isnan()])
