"""Operations whose operands, or whose indices, have no elements: as on PyTorch's CPU, its errors among it.

torch_xla's translation of a scatter at a constant index without elements ends the process.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from .compare import assert_as_on_the_cpu


def _nowhere(x: torch.Tensor) -> torch.Tensor:
    """A constant index without elements."""
    return torch.arange(0, 0, 4, device=x.device)


def _rows(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros((0, *x.shape[1:]), device=x.device)


def _places(x: torch.Tensor) -> torch.Tensor:
    return _nowhere(x).reshape(0, *[1] * (x.dim() - 1)).expand(0, *x.shape[1:])


def _set(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[_nowhere(x)] = 3
    return x


SCATTERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "embedding": lambda x: torch.nn.functional.embedding(_nowhere(x), x.view(-1, 1)),
    "gather": lambda x: x.gather(0, _places(x)),
    "index": lambda x: x[_nowhere(x)],
    "index_add": lambda x: x.index_add(0, _nowhere(x), _rows(x)),
    "index_copy": lambda x: x.index_copy(0, _nowhere(x), _rows(x)),
    "index_fill": lambda x: x.index_fill(0, _nowhere(x), 1.0),
    "index_fill of a tensor": lambda x: x.index_fill(
        0, _nowhere(x), torch.tensor(1.0, device=x.device)
    ),
    "index_put": lambda x: x.index_put((_nowhere(x),), _rows(x)),
    "index_put of sums": lambda x: x.index_put((_nowhere(x),), _rows(x), accumulate=True),
    "index_reduce": lambda x: x.index_reduce(0, _nowhere(x), _rows(x), "amax"),
    "index_select": lambda x: x.index_select(0, _nowhere(x)),
    "put": lambda x: x.put(_nowhere(x), torch.zeros(0, device=x.device)),
    "scatter": lambda x: x.scatter(0, _places(x), _rows(x)),
    "scatter of a number": lambda x: x.scatter(0, _places(x), 2.0),
    "scatter_add": lambda x: x.scatter_add(0, _places(x), _rows(x)),
    "scatter_reduce": lambda x: x.scatter_reduce(
        0, _places(x), _rows(x), "mean", include_self=False
    ),
    "setitem": _set,
}


@pytest.mark.parametrize("shape", [(0,), (5,), (0, 3)])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_nowhere(name: str, shape: tuple[int, ...]) -> None:
    assert_as_on_the_cpu(SCATTERS[name], torch.ones(shape))
    assert_as_on_the_cpu(SCATTERS[name], torch.ones(shape, requires_grad=True))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cumsum(5),
        lambda x: x.cumprod(5),
        lambda x: x.gather(7, torch.empty(2, 0, 3, dtype=torch.int64, device=x.device)),
        lambda x: x.index_add(4, _nowhere(x), torch.zeros(2, 0, 3, device=x.device)),
    ],
)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_dimensions_out_of_range(
    function: Callable[[torch.Tensor], torch.Tensor], requires_grad: bool
) -> None:
    x = torch.empty(2, 0, 3).to("xla").requires_grad_(requires_grad)
    with pytest.raises(IndexError, match="Dimension out of range"):
        function(x)


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_logsumexp(dim: int | tuple[int, ...], keepdim: bool) -> None:
    x = torch.empty(0, 3, requires_grad=True)
    assert_as_on_the_cpu(lambda x: x.logsumexp(dim, keepdim), x)


@pytest.mark.parametrize("dims", [(0, 1), (1, 2)])
def test_diagonals(dims: tuple[int, int]) -> None:
    x = torch.empty((2, 0, 3)[2 - max(dims) :], requires_grad=True)
    assert_as_on_the_cpu(lambda x: torch.diagonal(x, 0, *dims), x)
    assert_as_on_the_cpu(
        lambda x: torch.diagonal_scatter(x, torch.diagonal(x, 0, *dims), 0, *dims), x
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32])
def test_the_median_of_no_elements(dtype):
    assert_as_on_the_cpu(torch.median, torch.empty(0, dtype=dtype))
