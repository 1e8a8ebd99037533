"""``torch.manual_seed`` on the device."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
import torch_xla

from tests.starter import Starter

_ON = {"device": "xla"}


def _ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, **_ON)  # type: ignore[call-overload,no-any-return]


_DRAWS: dict[str, Callable[[], torch.Tensor]] = {
    "rand": lambda: torch.rand(9, **_ON),
    "rand_like": lambda: torch.rand_like(_ones(9)),
    "randn": lambda: torch.randn(9, **_ON),
    "randint": lambda: torch.randint(0, 1000, (9,), **_ON),
    "normal": lambda: torch.normal(_ones(9), 2.0),
    "normal of two": lambda: torch.normal(_ones(9), _ones(9)),
    "bernoulli": lambda: torch.bernoulli(_ones(99) / 2),
    "bernoulli_": lambda: _ones(99).bernoulli_(0.5),
    "exponential_": lambda: _ones(9).exponential_(),
    "dropout": lambda: torch.nn.functional.dropout(_ones(99)),
    "rrelu": lambda: torch.nn.functional.rrelu(-_ones(9), training=True),
    "cauchy_": lambda: _ones(9).cauchy_(),
    "weights": lambda: torch.nn.Linear(3, 3, **_ON).weight.detach(),
    "one of several": lambda: torch.multinomial(_ones(9, 99), 1),
    "several": lambda: torch.multinomial(_ones(99), 9, replacement=True),
    "different ones": lambda: torch.multinomial(_ones(99), 9),
    "randperm": lambda: torch.randperm(99, **_ON),
    "Beta": lambda: torch.distributions.Beta(_ones(), _ones() * 2).sample((9,)),
    "Categorical": lambda: torch.distributions.Categorical(_ones(99)).sample((9,)),
}


@pytest.mark.parametrize("draw", _DRAWS.values(), ids=_DRAWS)
def test_draws_follow_the_seed(draw: Callable[[], torch.Tensor]) -> None:
    torch.manual_seed(11)
    first, next_one = draw().cpu(), draw().cpu()
    torch.manual_seed(12)
    other = draw().cpu()
    torch_xla.sync()
    torch.manual_seed(11)
    again = draw().cpu()
    assert torch.equal(first, again)
    assert not torch.equal(first, next_one)
    assert not torch.equal(first, other)


def test_it_is_torch_xlas_seed() -> None:
    torch.manual_seed(11)
    first = torch.rand(9, **_ON).cpu()
    torch_xla.manual_seed(11)
    assert torch.equal(torch.rand(9, **_ON).cpu(), first)
    torch.manual_seed(5)
    torch_xla.manual_seed(11)  # the later one
    assert torch.equal(torch.rand(9, **_ON).cpu(), first)


def test_any_seed_of_the_cpus_is_one() -> None:
    drawn = []
    for seed in (-1, 2**63, 0):
        torch.manual_seed(seed)
        drawn.append(torch.rand(9, **_ON).cpu())
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_the_state_is_that_of_the_seed() -> None:
    torch.manual_seed(11)
    first = torch.rand(9, **_ON).cpu()
    torch.manual_seed(11)
    state = torch.xla.get_rng_state()
    torch.rand(9, **_ON)
    torch.xla.set_rng_state(state)
    assert torch.equal(torch.rand(9, **_ON).cpu(), first)


def test_permutations_are_the_cpus() -> None:
    torch.manual_seed(11)
    drawn = torch.randperm(50, dtype=torch.int32, **_ON)
    torch.manual_seed(11)
    assert torch.equal(drawn.cpu(), torch.randperm(50, dtype=torch.int32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("replacement", [False, True], ids=["one", "several"])
def test_places_come_as_often_as_their_weights_say(dtype: torch.dtype, replacement: bool) -> None:
    """Of 16,384 draws each count is within five standard deviations, and none has the weight 0."""
    weights = torch.tensor([0, 1, 2, 0, 4, 1, 0], dtype=dtype)
    draws = 1 << 14
    torch.manual_seed(3)
    if replacement:
        places = torch.multinomial(weights.to("xla"), draws, replacement=True)
        assert places.shape == (draws,)
    else:
        places = torch.multinomial(weights.to("xla").expand(draws, 7), 1)
        assert places.shape == (draws, 1)
    assert places.dtype == torch.int64
    counts = torch.bincount(places.cpu().reshape(-1), minlength=7).double()
    p = weights.double() / weights.double().sum()
    assert bool(((counts - draws * p).abs() <= 5 * (draws * p * (1 - p)).sqrt()).all())


_WITHOUT_A_DEVICE = """
import tripont.torch_xla
import torch, _XLAC

torch.manual_seed(11)
assert not _XLAC._xla_runtime_is_initialized()
first = torch.rand(9, device="xla").cpu()
torch.manual_seed(11)
assert torch.equal(torch.rand(9, device="xla").cpu(), first)
"""


def test_a_seed_does_not_start_the_device(starter: Starter) -> None:
    done = starter.run(_WITHOUT_A_DEVICE, os.environ | {"PJRT_DEVICE": "XPU"})
    assert done.returncode == 0, done.stderr
