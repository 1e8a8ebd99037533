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
    "solve_ex": lambda a, b: linalg.solve_ex(a, b)[0],
    "solve_ex from the right": lambda a, b: linalg.solve_ex(a, b.mT, left=False)[0],
    "solve_ex of vectors": lambda a, b: linalg.solve_ex(a, b[..., 0])[0],
    "solve": lambda a, b: linalg.solve(a, b),
    "inv_ex": lambda a, _: linalg.inv_ex(a)[0],
    "inv": lambda a, _: linalg.inv(a),
    "cholesky_ex": lambda a, _: linalg.cholesky_ex(a @ a.mH)[0],
    "cholesky_ex upper": lambda a, _: linalg.cholesky_ex(a @ a.mH, upper=True)[0],
    "cholesky_ex of a triangle": lambda a, _: linalg.cholesky_ex(
        (a @ a.mH).tril() + 7 * torch.ones_like(a).triu(1)
    )[0],
    "cholesky": lambda a, _: linalg.cholesky(a @ a.mH),
    "lu_factor_ex": lambda a, _: linalg.lu_factor_ex(a)[0],
    "pivots of lu_factor_ex": lambda a, _: linalg.lu_factor_ex(a.detach())[1],
    "lu_factor of few rows": lambda a, _: linalg.lu_factor_ex(a.detach()[..., :3, :]),
    "lu_factor of few columns": lambda a, _: linalg.lu_factor_ex(a.detach()[..., :3]),
    "lu": lambda a, _: linalg.lu(a)[1:],
    "lu of few rows": lambda a, _: linalg.lu(a[..., :3, :])[2],
    "lu of few columns": lambda a, _: linalg.lu(a.detach()[..., :3]),
    "lu_unpack": lambda a, _: torch.lu_unpack(*linalg.lu_factor_ex(a.detach())[:2]),
    "pinv": lambda a, _: linalg.pinv(a),
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


SINGULAR = torch.tensor([[[1.0, 2], [2, 4]], [[2, 0], [0, 3]], [[0, 1], [0, 5]]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_without_an_inverse(dtype: torch.dtype) -> None:
    """info is LAPACK's, and those that check it raise."""
    a, one = SINGULAR.to(dtype), torch.eye(2, dtype=dtype).expand(3, 2, 2)
    on_device, right_sides = a.to("xla"), one.to("xla")
    metrics.clear_all()
    found = [
        [linalg.solve_ex(x, y)[1], linalg.inv_ex(x)[1], linalg.lu_factor_ex(x)[2]]
        for x, y in ((on_device, right_sides), (a, one))
    ]
    torch_xla.sync()
    assert not [c for c in metrics.counter_names() if c.startswith("aten::")]
    for got, want in zip(*found, strict=True):
        assert got.dtype == want.dtype
        assert got.tolist() == want.tolist()
    for call in (
        lambda: linalg.inv(on_device),
        lambda: linalg.solve(on_device, right_sides),
        lambda: linalg.inv_ex(on_device, check_errors=True),
        lambda: linalg.solve_ex(on_device, right_sides, check_errors=True),
        lambda: linalg.lu_factor_ex(on_device, check_errors=True),
        lambda: linalg.inv(on_device[0]),
    ):
        with pytest.raises(RuntimeError, match=r"is zero|singular"):
            call()


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_without_a_cholesky_factor(dtype: torch.dtype, upper: bool) -> None:
    a = torch.tensor([[[4.0, 2], [2, 1]], [[4, 2], [2, 5]], [[-1, 0], [0, 1]], [[1, 3], [3, 1]]])
    a = a.to(dtype)
    _, info = linalg.cholesky_ex(a.to("xla"), upper=upper)
    assert info.tolist() == linalg.cholesky_ex(a, upper=upper)[1].tolist() == [2, 0, 1, 2]
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        linalg.cholesky(a.to("xla"), upper=upper)
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        linalg.cholesky_ex(a.to("xla"), upper=upper, check_errors=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: linalg.solve(a[:2], a),
        lambda a: linalg.solve(a, a[:2]),
        lambda a: linalg.lu_factor(a, pivot=False),
    ],
)
def test_operands_that_do_not_fit(call: Callable[[torch.Tensor], Any]) -> None:
    for device in ("xla", "cpu"):
        with pytest.raises(RuntimeError, match=r"square|Incompatible|without pivoting"):
            call(torch.ones(3, 3, device=device))


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
