"""Operations that torch_xla alone would compute on the CPU."""

from __future__ import annotations

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.debug import metrics

NAN = float("nan")

INFINITY = float("inf")


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize(
    ("elements", "others"),
    [
        (torch.arange(6).reshape(2, 3), torch.tensor([1, 4])),
        (torch.tensor([1.0, NAN, 2.0]), torch.tensor([NAN, 2.0])),
        (torch.arange(5), torch.tensor([], dtype=torch.int64)),
        (torch.tensor([1, 2], dtype=torch.int32), torch.tensor([[1.5], [2.0]])),
        (torch.arange(256.0), torch.arange(250.0, 600.0)),
        (torch.tensor(3), torch.arange(5)),
        (3, torch.arange(5)),
        (torch.arange(5), 3),
        (torch.tensor([0.1, 0.2], dtype=torch.float64), 0.1),
        (0.1, torch.tensor([0.1, 0.2], dtype=torch.float64)),
        (torch.tensor([0.1, 0.2]), 0.1),
        (torch.arange(5), 2.5),
        (torch.tensor([2**24 + 1]), 2**24),
        (torch.tensor(0.1, dtype=torch.float64), torch.tensor([0.1, 0.2])),
        (torch.tensor([0.1, 0.2]), torch.tensor(0.1, dtype=torch.float64)),
    ],
    ids=[
        "plain",
        "NaN",
        "none",
        "two dtypes",
        "many",
        "scalar tensor",
        "number",
        "one",
        "float64 and a number",
        "a number and float64",
        "float32 and a number",
        "integers and a fraction",
        "more than float32 holds",
        "float64 without dimensions",
        "none of float64",
    ],
)
def test_isin(elements, others, invert):
    on_device = [t.to("xla") if isinstance(t, torch.Tensor) else t for t in (elements, others)]
    result = torch.isin(*on_device, invert=invert)
    assert result.device.type == "xla"
    assert torch.equal(result.cpu(), torch.isin(elements, others, invert=invert))


def test_isin_reads_nothing_back():
    x, ends = torch.arange(4, device="xla"), torch.tensor([2, 9], device="xla")
    torch_xla.sync()
    xm.wait_device_ops()  # The time of this run is recorded when it ends, which must be before the next line.
    metrics.clear_all()
    found = torch.isin(x + 1, ends)
    assert metrics.metric_data("ExecuteTime") is None
    assert "aten::isin" not in metrics.counter_names()
    assert found.cpu().tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("bins", "low", "high"),
    [(100, 0, 0), (1, 0, 0), (7, -2, 2), (64, -5.5, 3.25), (3, 1, 1), (13, -0.1, 0.3)],
)
@pytest.mark.parametrize("shape", [(0,), (1,), (7, 9), (1000,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histc(dtype, shape, bins, low, high):
    x = (
        3 * torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).to(dtype)
    result = torch.histc(x.to("xla"), bins, low, high)
    assert result.device.type == "xla"
    want = torch.histc(x, bins, low, high)
    assert result.dtype == want.dtype
    assert torch.equal(result.cpu(), want)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_histc_of_integers(dtype):
    """As on GPUs: PyTorch's CPU refuses them. A value for each part, and 8, which lies outside."""
    x = torch.randint(0, 9, (1000,), generator=torch.Generator().manual_seed(0)).to(dtype)
    result = torch.histc(x.to("xla"), bins=8, min=0, max=7)
    assert result.dtype == dtype
    # Counts wrap in uint8, as they do wherever they are sums in that type.
    assert torch.equal(result.cpu(), torch.bincount(x.long(), minlength=9)[:8].to(dtype))


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0, 0, 0), "bins must be > 0"),
        ((5, 3, 1), "max must be larger than min"),
        ((5, 0, INFINITY), "not finite"),
    ],
)
def test_histc_that_pytorch_refuses(numbers, said):
    for device in ("cpu", "xla"):
        with pytest.raises(RuntimeError, match=said):
            torch.histc(torch.ones(3, device=device), *numbers)


def test_histc_reads_nothing_back():
    experts = torch.tensor([3, 1, 1, 0], dtype=torch.int32, device="xla")
    torch_xla.sync()
    xm.wait_device_ops()
    metrics.clear_all()
    counts = torch.histc(experts, bins=4, min=0, max=3)
    assert metrics.metric_data("ExecuteTime") is None
    assert "aten::histc" not in metrics.counter_names()
    assert counts.cpu().tolist() == [1, 2, 0, 1]
