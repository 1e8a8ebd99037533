"""The checks of in-place operations' shapes: as PyTorch's, and not PyTorch's slow ones where shapes are equal."""

from __future__ import annotations

import pytest
import torch
from torch import _meta_registrations
from tripont.frontends.torch_xla import shape_checks


@pytest.fixture
def slow_checks(monkeypatch) -> list[tuple]:
    """The arguments with which PyTorch's own check is called."""
    calls: list[tuple] = []
    original = _meta_registrations.check_inplace_broadcast.__wrapped__

    def recorded(*shapes):
        calls.append(tuple(map(tuple, shapes)))
        return original(*shapes)

    monkeypatch.setattr(_meta_registrations, "check_inplace_broadcast", recorded)
    shape_checks.install()
    return calls


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.add_(torch.ones(2, 3, device="xla"), alpha=3),
        lambda x: x.mul_(0.9),
        lambda x: x.sub_(torch.ones((), device="xla")),
        lambda x: x.addcmul_(torch.ones(2, 3, device="xla"), torch.ones(2, 3, device="xla")),
    ],
    ids=["equal", "number", "no dimension", "three"],
)
def test_plain_shapes_are_answered_at_once(operation, slow_checks):
    x = torch.full((2, 3), 2.0, device="xla")
    operation(x)
    assert x.shape == (2, 3)
    assert slow_checks == []


def test_other_shapes_are_compared_by_pytorch(slow_checks):
    x = torch.zeros(2, 3, device="xla")
    x.add_(torch.ones(3, device="xla"))
    assert slow_checks == [((2, 3), (3,))]
    assert x.cpu().tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("shape", [(2, 3), (4,), (1, 3)], ids=str)
def test_a_shape_that_does_not_fit_is_an_error(shape):
    x = torch.zeros(3, device="xla")
    with pytest.raises(
        RuntimeError, match=r"doesn't match the broadcast shape|Attempting to broad"
    ):
        x.add_(torch.ones(shape, device="xla"))
    assert x.cpu().tolist() == [0, 0, 0]


def test_symbolic_shapes_stay_symbolic(slow_checks):
    compiles = []

    def backend(graph, inputs):
        compiles.append(graph)
        return graph.forward

    def function(x, y):
        return x.mul(1).add_(y).mul_(y)

    compiled = torch.compile(function, backend=backend, dynamic=True)
    for size in (3, 4, 5):
        x = torch.arange(float(size))
        torch.testing.assert_close(compiled(x, x), (x + x) * x)
    assert len(compiles) == 1
    assert slow_checks  # the sizes were symbols


def test_installing_twice_changes_nothing():
    before = _meta_registrations.check_inplace_broadcast
    shape_checks.install()
    assert _meta_registrations.check_inplace_broadcast is before


@pytest.mark.parametrize("operation", ["add_", "sub_"])
def test_a_type_that_does_not_fit_is_an_error(operation):
    x = torch.zeros(3, dtype=torch.int32, device="xla")
    with pytest.raises(RuntimeError, match=r"Promotion of int.add/sub_"):
        getattr(x, operation)(torch.ones(3, device="xla"))
    getattr(x, operation)(torch.ones(3, dtype=torch.int32, device="xla"), alpha=2)
    assert x.cpu().tolist() == [2 if operation == "add_" else -2] * 3
