"""``xlogy`` and ``xlog1py`` of numbers, of two dtypes, and their gradients where ``x`` is 0."""

from __future__ import annotations

import pytest
import torch

from .compare import assert_as_on_the_cpu

_X = torch.tensor([0.0, 0.0, 0.0, 0.5, 2.0, float("nan"), 0.0])
_Y = torch.tensor([0.0, 2.0, float("nan"), 3.0, 0.0, 1.0, -1.0])


@pytest.mark.parametrize("function", [torch.xlogy, torch.special.xlog1py])
def test_gradients(function):
    assert_as_on_the_cpu(function, _X.clone().requires_grad_(True), _Y.clone().requires_grad_(True))


@pytest.mark.parametrize("function", [torch.xlogy, torch.special.xlog1py])
def test_numbers_and_two_dtypes(function):
    assert_as_on_the_cpu(lambda x: function(x, 0.3), _X.clone().requires_grad_(True))
    assert_as_on_the_cpu(lambda x: function(0.3, x), _Y)
    assert_as_on_the_cpu(lambda x: function(x, torch.tensor(0.3, dtype=torch.float64)), _X)
    assert_as_on_the_cpu(function, _X.double(), _Y)
    assert_as_on_the_cpu(function, torch.tensor([0, 1, 3]), torch.tensor([2, 5, 0]))
    assert_as_on_the_cpu(lambda x: function(x[:, None], x), _Y)
