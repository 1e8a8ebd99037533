"""Operations that torch_xla alone would compute on the CPU."""

from __future__ import annotations

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.debug import metrics

NAN = float("nan")


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
