"""Largest elements of windows, their places and gradients, with NaN and infinities: as on PyTorch's CPU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from torch.nn import functional

from .compare import assert_as_on_the_cpu

# Windows, steps, padding, gaps, and whether the last window may reach beyond the end.
WINDOWS = {
    "pairs": ((2, 2), (1, 1), (0, 0), (1, 1), False),
    "three of five": ((3, 5), (2, 1), (1, 2), (1, 1), True),
    "with gaps": ((3, 2), (1, 3), (1, 1), (2, 3), False),
    "up to the end": ((4, 3), (3, 3), (2, 1), (1, 1), True),
    "large": ((7, 9), (2, 2), (3, 4), (1, 1), False),
    "a row": ((1, 7), (1, 2), (0, 0), (1, 1), False),
}


def pool_of(dimensions: int) -> Callable[..., Any]:
    return functional.max_pool2d if dimensions == 2 else functional.max_pool3d


def special(dimensions: int) -> torch.Tensor:
    """Numbers that occur often, every eighth a NaN and every third -inf."""
    shape = (2, 2, *[3] * (dimensions - 2), 8, 9)
    n = torch.arange(math.prod(shape))
    x = n.mul(37).remainder(11).float()
    x[n.mul(13).remainder(8) == 0] = math.nan
    x[n.mul(7).remainder(3) == 0] = -math.inf
    return x.reshape(shape)


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_places_and_gradients(dimensions: int, windows: str) -> None:
    *lists, ceil_mode = WINDOWS[windows]
    given = [
        tuple(values) if dimensions == 2 else (rest, *values)
        for values, rest in zip(lists, (2, 1, 0, 1), strict=True)
    ]
    pool = pool_of(dimensions)
    x = special(dimensions)
    for places in (False, True):

        def largest(x: torch.Tensor, places: bool = places) -> torch.Tensor:
            found = pool(x, *given, ceil_mode, return_indices=places)
            return found[0] if places else found

        assert_as_on_the_cpu(largest, x.requires_grad_())
    assert_as_on_the_cpu(lambda x: pool(x, *given, ceil_mode, return_indices=True)[1], x.detach())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32, torch.uint8])
def test_dtypes(dtype: torch.dtype) -> None:
    x = torch.arange(60).mul(7).remainder(23).reshape(1, 6, 10).to(dtype)
    for part in (0, 1):
        assert_as_on_the_cpu(
            lambda x, part=part: functional.max_pool2d(x, 3, 2, 1, return_indices=True)[part], x
        )


def test_images_without_a_batch_and_without_elements() -> None:
    for x in (special(2)[0], special(2)[:0]):
        assert_as_on_the_cpu(lambda x: functional.max_pool2d(x, 2), x.clone().requires_grad_())
        assert_as_on_the_cpu(
            lambda x: functional.max_pool2d(x, 2, return_indices=True)[0],
            x.clone().requires_grad_(),
        )
    assert_as_on_the_cpu(lambda x: functional.max_pool1d(x, 3, 2, 1, 2), special(2)[0])


@pytest.mark.parametrize(("dimensions", "places"), list(itertools.product([2, 3], [False, True])))
def test_second_gradients(dimensions: int, places: bool) -> None:
    """Those of torch_xla's own functions lack what comes through the first gradient."""
    pool = pool_of(dimensions)

    def of_gradient(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            y = x.sin()
            found = pool(y, 2, 1, return_indices=places)
            value = (found[0] if places else found).pow(3).sum()
            (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        return gradient.square().sum()

    shape = (1, 1, *[4] * dimensions)
    x = torch.arange(math.prod(shape)).mul(7).remainder(23).float().reshape(shape)
    assert_as_on_the_cpu(of_gradient, x.requires_grad_(), rtol=1e-4)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_gradients_of_functions(dimensions: int) -> None:
    """``torch.func`` refuses functions with gradients of their own in a kernel."""
    pool = pool_of(dimensions)
    of_one = torch.func.grad(lambda x: pool(x, 2).pow(2).sum())
    x = special(dimensions).nan_to_num(0.0, 2.0, -2.0)
    assert_as_on_the_cpu(of_one, x)
    assert_as_on_the_cpu(torch.func.vmap(of_one), x)
    assert_as_on_the_cpu(torch.func.vmap(of_one, 1), x)
    assert_as_on_the_cpu(torch.func.vmap(torch.func.vmap(of_one)), x.unsqueeze(2))
    summed = torch.func.vmap(lambda x: pool(x, 2).pow(2).sum())
    assert_as_on_the_cpu(torch.func.grad(lambda x: summed(x).sum()), x)


def test_a_compiled_function() -> None:
    x = special(2)
    compiled = torch.compile(
        lambda x: functional.max_pool2d(x, 2, return_indices=True), backend="openxla"
    )
    got = compiled(x.to("xla"))
    torch_xla.sync()
    for part, want in zip(got, functional.max_pool2d(x, 2, return_indices=True), strict=True):
        torch.testing.assert_close(part.cpu(), want, equal_nan=True)


def test_places_are_recorded_as_one_node() -> None:
    """Windows of a few elements were compared one by one, in operations that took a millisecond to record."""
    import _XLAC

    x = torch.zeros(1, 1, 8, 8, device="xla")
    torch_xla.sync()
    values, places = functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    text = _XLAC._get_xla_tensors_text([values, places])
    assert len(text.splitlines()) < 12, text


@pytest.mark.parametrize("dimensions", [2, 3])
def test_lists_of_one_number_stand_for_all_dimensions(dimensions: int) -> None:
    pool = torch.max_pool2d if dimensions == 2 else torch.max_pool3d
    assert_as_on_the_cpu(lambda x: pool(x, [2], [1]), special(dimensions).requires_grad_())
