"""Factors and solves that torch_xla alone would compute on the CPU: recorded, with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch_xla
from torch import linalg
from torch_xla.debug import metrics

SHAPES = [(4, 4), (2, 4, 4), (3, 2, 4, 4), (40, 4, 4), (0, 4, 4)]
DTYPES = [torch.float64, torch.complex64]


def numbers(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def square(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Matrices whose inverses are of about 1, so that the errors are those of the results."""
    return numbers(shape, dtype) / 4 + torch.eye(shape[-1], dtype=dtype)


def right(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return numbers((*shape[:-1], 3), dtype, 1)


def factor(a: torch.Tensor) -> torch.Tensor:
    """Lower triangles with real diagonals."""
    diagonal = a.diagonal(0, -2, -1).abs() + 1
    return a.tril(-1) + torch.diag_embed(diagonal).to(a.dtype)


def of_factors(a: torch.Tensor, b: torch.Tensor, left: bool, adjoint: bool) -> torch.Tensor:
    factors, pivots = (t.to(a.device) for t in linalg.lu_factor(a.detach().cpu()))
    return linalg.lu_solve(factors, pivots, b if left else b.mT, left=left, adjoint=adjoint)


# By name: a function of matrices and right sides.
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "upper": lambda a, b: linalg.solve_triangular(a, b, upper=True),
    "lower": lambda a, b: linalg.solve_triangular(a, b, upper=False),
    "upper with ones": lambda a, b: linalg.solve_triangular(a, b, upper=True, unitriangular=True),
    "from the right": lambda a, b: linalg.solve_triangular(a, b.mT, upper=True, left=False),
    "one matrix": lambda a, b: linalg.solve_triangular(
        torch.ones_like(a)[..., :1, :1], b[..., :1, :], upper=True
    ),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, factor(a)),
    "cholesky_solve upper": lambda a, b: torch.cholesky_solve(b, factor(a).mH, upper=True),
    "cholesky_inverse": lambda a, _: torch.cholesky_inverse(factor(a)),
    "cholesky_inverse upper": lambda a, _: torch.cholesky_inverse(factor(a).mH, upper=True),
    "det": lambda a, _: linalg.det(a),
    "slogdet": lambda a, _: linalg.slogdet(a)[1],
    "sign of slogdet": lambda a, _: linalg.slogdet(a.detach())[0],
    "det of singular matrices": lambda a, _: linalg.det(
        a.detach() * torch.tensor([1, 0, 1, 1], device=a.device)
    ),
    "lu_solve": lambda a, b: of_factors(a, b, True, False),
    "lu_solve of the adjoint": lambda a, b: of_factors(a, b, True, True),
    "lu_solve from the right": lambda a, b: of_factors(a, b, False, False),
    "lu_solve of the adjoint from the right": lambda a, b: of_factors(a, b, False, True),
    "qr": lambda a, _: linalg.qr(a),
    "qr of few columns": lambda a, _: linalg.qr(a[..., :3]),
    "qr of few rows": lambda a, _: linalg.qr(a.detach()[..., :3, :]),
    "qr, R alone": lambda a, _: linalg.qr(a.detach()[..., :3], "r")[1],
    "complete qr": lambda a, _: linalg.qr(a.detach()[..., :3], "complete"),
    "geqrf": lambda a, _: torch.geqrf(a.detach()[..., :3]),
    "householder_product": lambda a, _: linalg.householder_product(*torch.geqrf(a.detach())),
    "of slices": lambda a, b: linalg.solve_triangular(a[..., 1:, :3].mT, b.mT[..., 1:], upper=True),
}


def results_and_gradients(
    name: str, shape: Sequence[int], dtype: torch.dtype, device: str
) -> list[torch.Tensor]:
    operands = [make(shape, dtype).to(device).requires_grad_() for make in (square, right)]
    results = CASES[name](*operands)
    results = list(results) if isinstance(results, tuple) else [results]
    with_gradient = [t for t in results if t.requires_grad]
    if with_gradient:
        total = sum((t * t.conj()).real.sum() + t.real.sum() for t in with_gradient)
        total.backward()
    gradients = [x.grad for x in operands if x.grad is not None]
    if device == "xla":
        torch_xla.sync()
    return [*(t.detach() for t in results), *gradients]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_recorded(name: str, shape, dtype) -> None:
    metrics.clear_all()
    on_device = results_and_gradients(name, shape, dtype, "xla")
    read_back = {c for c in metrics.counter_names() if c.startswith("aten::")}
    assert read_back <= {"aten::_local_scalar_dense"}
    on_cpu = results_and_gradients(name, shape, dtype, "cpu")
    assert len(on_device) == len(on_cpu)
    # Some tens of roundings of numbers up to 100, of float64 or of complex64's parts.
    tolerance = 1e-11 if dtype == torch.float64 else 2e-4
    for got, want in zip(on_device, on_cpu, strict=True):
        torch.testing.assert_close(
            got.cpu(), want, rtol=tolerance, atol=tolerance, check_stride=False
        )


def test_no_elements() -> None:
    assert linalg.det(torch.zeros(2, 0, 0, device="xla")).cpu().tolist() == [1, 1]
    q, r = linalg.qr(torch.zeros(2, 0, 3, device="xla"))
    assert (q.cpu().shape, r.cpu().shape) == ((2, 0, 0), (2, 0, 3))


def test_a_mode_that_qr_does_not_have() -> None:
    with pytest.raises(RuntimeError, match="unrecognized mode 'full'"):
        linalg.qr(torch.eye(3, device="xla"), "full")


@pytest.mark.parametrize("name", ["complex", "polar", "conj_physical"])
def test_parts_of_complex_numbers(name: str) -> None:
    """Of slices, which have other elements below PyTorch's treatment of views."""
    metrics.clear_all()
    results = []
    for device in ("xla", "cpu"):
        x, y = (numbers((3, 5), torch.float32, seed).to(device).requires_grad_() for seed in (2, 3))
        operands = [x[:, 1:4].T, y[:, :3].T]
        if name == "conj_physical":
            operands = [torch.complex(*operands)]
        result = getattr(torch, name)(*operands)
        (result * result).real.sum().backward()
        results.append([result.detach(), x.grad, y.grad])
    assert not [c for c in metrics.counter_names() if c.startswith("aten::")]
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=2e-6, atol=2e-6)


def test_parts_of_two_dtypes() -> None:
    with pytest.raises(RuntimeError, match=r"torch.float32 and torch.float64"):
        torch.complex(torch.ones(2, device="xla"), torch.ones(2, dtype=torch.float64, device="xla"))
