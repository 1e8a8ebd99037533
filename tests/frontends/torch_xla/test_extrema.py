"""Largest and smallest elements among infinities and NaN, and norms of infinite order: as on PyTorch's CPU."""

from __future__ import annotations

import pytest
import torch
from torch_xla import stablehlo

from .compare import assert_as_on_the_cpu

INFINITY, NAN = float("inf"), float("nan")
ROWS = torch.tensor(
    [
        [-INFINITY] * 3,
        [INFINITY] * 3,
        [1, -INFINITY, 2],
        [NAN, -INFINITY, 1],
        [-INFINITY, 3, INFINITY],
    ]
)
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
FUNCTIONS = {
    "amax": lambda x: x.amax(1),
    "amax of two dimensions": lambda x: x.unsqueeze(0).amax((0, -1), keepdim=True),
    "amin": lambda x: x.amin(-1, True),
    "max": lambda x: x.max(1).values,
    "places of max": lambda x: x.max(1, True).indices,
    "min": lambda x: x.min(0).values,
    "places of min": lambda x: x.min(1).indices,
    "max of all": lambda x: x[0].max(),
    "min of all": lambda x: x[1].min(),
    "max of a number": lambda x: x[0, 0].max(),
    "aminmax": lambda x: torch.stack(x.aminmax(dim=1)),
    "smallest norm": lambda x: torch.linalg.vector_norm(x, -INFINITY, 1),
    "largest norm": lambda x: torch.linalg.vector_norm(x, INFINITY),
    "logsumexp": lambda x: x.logsumexp(1),
    "logsumexp of two dimensions": lambda x: x[:1].logsumexp((0, 1), True),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_infinities(name: str, dtype: torch.dtype) -> None:
    assert_as_on_the_cpu(FUNCTIONS[name], ROWS.to(dtype))


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "smallest norm", "logsumexp"])
def test_gradients(name: str) -> None:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert_as_on_the_cpu(FUNCTIONS[name], x)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool])
@pytest.mark.parametrize("name", ["amax", "amin", "max", "min of all"])
def test_integers(name: str, dtype: torch.dtype) -> None:
    assert_as_on_the_cpu(FUNCTIONS[name], torch.arange(-3, 3).reshape(2, 3).to(dtype))


@pytest.mark.parametrize("dim", [2, (0, 0), (-1, 1)])
def test_dimensions_that_do_not_fit(dim: int | tuple[int, ...]) -> None:
    with pytest.raises((RuntimeError, IndexError), match=r"(?i)range|dim"):
        ROWS.to("xla").amax(dim).cpu()


def test_the_largest_norm_of_another_dtype() -> None:
    x = torch.tensor([3e38, -INFINITY, 1])
    assert_as_on_the_cpu(lambda x: torch.linalg.vector_norm(x, INFINITY, dtype=torch.float64), x)


@pytest.mark.parametrize("x", [ROWS[3], torch.tensor(NAN), torch.tensor(2.0)])
@pytest.mark.parametrize("name", ["amax", "amin", "max", "min"])
def test_gradients_of_all_elements(name: str, x: torch.Tensor) -> None:
    assert_as_on_the_cpu(lambda x: getattr(x, name)(), x.detach().requires_grad_())


def test_computations_of_one_shape_are_kept_apart() -> None:
    x = torch.arange(9.0).reshape(3, 3)
    assert_as_on_the_cpu(lambda x: torch.stack([x.amax(0), x.amax(1), x.amin(0), x.amin(1)]), x)


class _Extrema(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        norm = torch.linalg.vector_norm(x, INFINITY, dim=-1)
        return x.amax(-1), x.max(), x.min(-1)[0], norm, torch.logsumexp(x, -1)


def test_exported_programs_hold_no_custom_calls() -> None:
    program = torch.export.export(_Extrema(), (torch.ones(3, 4),))
    text = stablehlo.exported_program_to_stablehlo(program).get_stablehlo_text()
    assert "stablehlo.maximum" in text
    assert "custom_call" not in text
