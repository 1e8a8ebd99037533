"""Distances of broadcast batches, and of pairs by every norm."""

from __future__ import annotations

import math

import pytest
import torch

from .compare import assert_as_on_the_cpu

_X = torch.tensor([[0.0, 1.0, 2.0], [0.5, 1.0, -3.0], [4.0, 0.0, 2.5], [4.0, 0.0, 2.5]])


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
def test_pairs(p):
    assert_as_on_the_cpu(lambda x: torch.pdist(x, p), _X)
    assert_as_on_the_cpu(lambda x: torch.pdist(x, p), _X[:1])


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@pytest.mark.parametrize(
    ("shape", "other"), [((2, 1, 4, 3), (5, 6, 3)), ((4, 3), (2, 5, 3)), ((2, 4, 3), (1, 5, 3))]
)
def test_broadcast_batches(p, shape, other):
    torch.manual_seed(0)
    x, y = (torch.randn(s, requires_grad=True) for s in (shape, other))
    assert_as_on_the_cpu(lambda x, y: torch.cdist(x, y, p), x, y)
