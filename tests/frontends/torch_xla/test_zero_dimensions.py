"""Operations along dimension 0 or -1 of a tensor that has no dimensions: values and gradients as on PyTorch's CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Operation = Callable[..., Any]

# Of floats, of integers and of truth values, where the CPU has them.
REDUCTIONS: dict[str, tuple[Operation, str]] = {
    **{
        name: (getattr(torch, name), "fib")
        for name in ("sum", "prod", "amax", "amin", "max", "min", "any", "all", "logsumexp")
    },
    "argmax": (torch.argmax, "fi"),
    "argmin": (torch.argmin, "fi"),
    "mean": (torch.mean, "f"),
    "var": (lambda x, dim, keepdim: torch.var(x, dim, correction=0, keepdim=keepdim), "f"),
    "var of one": (torch.var, "f"),
    "std": (torch.std, "f"),
    "var_mean": (torch.var_mean, "f"),
    "std_mean": (torch.std_mean, "f"),
    "vector_norm": (lambda x, dim, keepdim: torch.linalg.vector_norm(x, 2, dim, keepdim), "f"),
    "kthvalue": (lambda x, dim, keepdim: torch.kthvalue(x, 1, dim, keepdim), "fi"),
}
OTHERS: dict[str, tuple[Operation, str]] = {
    "softmax": (torch.softmax, "f"),
    "softmax in float64": (lambda x, dim: torch.softmax(x, dim, dtype=torch.float64), "fi"),
    "log_softmax": (torch.log_softmax, "f"),
    **{name: (getattr(torch, name), "fib") for name in ("cumsum", "cumprod", "cummax", "cummin")},
    "sort": (torch.sort, "fib"),
    "argsort": (torch.argsort, "fib"),
    "topk": (lambda x, dim: torch.topk(x, 1, dim), "fi"),
    "flip": (lambda x, dim: torch.flip(x, (dim,)), "fib"),
    "squeeze": (torch.squeeze, "fib"),
    "index_select": (lambda x, dim: torch.index_select(x, dim, places(x)), "fib"),
    "gather": (lambda x, dim: torch.gather(x, dim, places(x).reshape(())), "fib"),
    "gather of an array": (lambda x, dim: torch.gather(x, dim, places(x)), "fib"),
    "scatter_add": (lambda x, dim: x.scatter_add(dim, places(x).reshape(()), 2 * x), "fi"),
    "index_add": (lambda x, dim: x.index_add(dim, places(x), 2 * x), "fi"),
    "index_copy": (lambda x, dim: x.index_copy(dim, places(x), 2 * x), "fi"),
    "index_fill": (lambda x, dim: x.index_fill(dim, places(x), 1), "fib"),
    "index_fill with a number": (lambda x, dim: x.index_fill(dim, places(x), 2 * x), "fi"),
    "scatter_reduce": (
        lambda x, dim: x.scatter_reduce(dim, places(x).reshape(()), 2 * x, "amax"),
        "fi",
    ),
    "index_reduce": (lambda x, dim: x.index_reduce(dim, places(x), 2 * x, "prod"), "fi"),
}
NUMBERS = {"f": 1.5, "i": 3, "b": True}
CASES = {
    **{
        f"{name}{', kept' * kept} along {dim} of {NUMBERS[kind]}": (
            lambda x, operation=operation, dim=dim, kept=kept: operation(x, dim, keepdim=kept),
            NUMBERS[kind],
        )
        for name, (operation, kinds) in REDUCTIONS.items()
        for kind in kinds
        for dim in (0, -1)
        for kept in (False, True)
    },
    **{
        f"{name} along {dim} of {NUMBERS[kind]}": (
            lambda x, operation=operation, dim=dim: operation(x, dim),
            NUMBERS[kind],
        )
        for name, (operation, kinds) in OTHERS.items()
        for kind in kinds
        for dim in (0, -1)
    },
    "amax of NaN": (lambda x: x.amax(0), float("nan")),
    "logsumexp of integers": (lambda x: torch.logsumexp(x + torch.arange(4).to(x), 0), 3),
}


def places(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(1, dtype=torch.int64, device=x.device)


def values_and_gradient(name: str, device: str) -> list[torch.Tensor]:
    function, number = CASES[name]
    x = torch.tensor(number, device=device)
    x.requires_grad_(x.is_floating_point())
    found = function(x)
    results = list(found) if isinstance(found, tuple) else [found]
    values = [t.detach().cpu() for t in results]
    if results[0].requires_grad:
        values.append(torch.autograd.grad(3 * results[0].sum(), x)[0].cpu())
    return values


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of the variance of one number
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    got, want = (values_and_gradient(name, device) for device in ("xla", "cpu"))
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        # Shapes, dtypes and values; an exponential and a logarithm of few numbers.
        torch.testing.assert_close(one, other, rtol=2e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dim", [1, -2])
def test_dimensions_that_a_number_has_not(dim: int) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        torch.ones((), device="xla").mean(dim)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32])
def test_a_scatter_at_one_place(dtype):
    x, index, source = torch.arange(3, dtype=dtype), torch.tensor(1), torch.tensor(7, dtype=dtype)
    for given in (7, source):
        want, got = (
            x.to(d).scatter(0, index.to(d), given if given is not source else source.to(d))
            for d in ("cpu", "xla")
        )
        assert torch.equal(got.cpu(), want)
