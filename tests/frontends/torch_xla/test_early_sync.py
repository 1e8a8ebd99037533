"""Reading a number back cuts what is recorded, and operations without a translation of torch_xla's do not read back."""

from __future__ import annotations

import pytest
import torch
import torch_xla
from torch_xla.debug import metrics
from tripont.frontends.torch_xla import early_sync


def _compiled() -> int:
    data = metrics.metric_data("CompileTime")
    return data[0] if data else 0


@pytest.mark.parametrize(
    ("read", "width"),  # another program each: what one has compiled another need not
    [(torch.Tensor.item, 4), (bool, 5), (float, 6)],
    ids=["item", "bool", "float"],
)
def test_a_loop_that_reads_a_number_is_compiled_once(read, width):
    x = torch.full((3, width), 2.0, device="xla")
    y = torch.full((3, width), 5.0, device="xla")
    torch_xla.sync()
    counts = []
    for _ in range(6):
        x = x * 0.5 + 0.25
        y = y + x
        read(x.sum())
        counts.append(_compiled())
    assert counts[2:] == counts[2:3] * 4  # after the second step nothing is new
    expected, total = torch.full((3, width), 2.0), torch.full((3, width), 5.0)
    for _ in range(6):
        expected = expected * 0.5 + 0.25
        total = total + expected
    assert torch.equal(x.cpu(), expected)
    assert torch.equal(y.cpu(), total)


def test_gradients_after_a_number_was_read():
    w = torch.full((4,), 3.0, device="xla", requires_grad=True)
    loss = (w * w).sum()
    assert loss.item() == 36
    loss.backward()
    assert w.grad.cpu().tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"XLA_EXPERIMENTAL": "early_sync:tripont"}),
        ({"WORLD_SIZE": "1", "TRIPONT_NUM_DEVICES": "1"}, "on"),
        ({"XLA_EXPERIMENTAL": ""}, "same"),
        ({"XLA_EXPERIMENTAL": "early_sync", "WORLD_SIZE": "2"}, "same"),
        ({"WORLD_SIZE": "2"}, "same"),
        ({"TRIPONT_NUM_DEVICES": "4"}, "same"),
        ({"TRIPONT_NUM_DEVICES": "many"}, "same"),
        ({"XLA_EXPERIMENTAL": "early_sync:tripont", "WORLD_SIZE": "2"}, {"WORLD_SIZE": "2"}),
    ],
)
def test_where_it_is_on(before, after):
    environment = dict(before)
    early_sync.install(environment)
    if after == "same":
        assert environment == before
    elif after == "on":
        assert environment == before | {"XLA_EXPERIMENTAL": "early_sync:tripont"}
    else:
        assert environment == after


@pytest.mark.parametrize(
    ("value", "others"),
    [
        ("", ""),
        ("early_sync", ""),
        ("early_sync:tripont", ""),
        ("early_sync:nonzero", "early_sync:nonzero"),
    ],
)
def test_the_users_own_experiments(value, others):
    assert early_sync.others({"XLA_EXPERIMENTAL": value}) == others
