"""Singular values on the device: torch_xla's own have another order of dimensions in batches."""

from __future__ import annotations

import pytest
import torch
import torch_xla
from torch_xla.debug import metrics

SHAPES = [
    (3, 3),
    (5, 3),
    (3, 5),
    (2, 3, 3),
    (2, 4, 3),
    (2, 3, 4),
    (2, 2, 3, 3),
    (70, 8, 8),
    (1, 1),
    (0, 3, 2),
]


def matrices(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors(shape, dtype, full) -> None:
    a = matrices(shape, dtype)
    u, s, vh = (t.cpu() for t in torch.linalg.svd(a.to("xla"), full_matrices=full))
    wanted = torch.linalg.svd(a, full_matrices=full)
    assert [t.shape for t in (u, s, vh)] == [t.shape for t in wanted]
    assert [t.dtype for t in (u, s, vh)] == [t.dtype for t in wanted]
    # LAPACK's bound: some eps times the largest value and the order.
    largest = wanted.S.max().item() if s.numel() else 0
    bound = 8 * max(shape[-2:]) * torch.finfo(dtype).eps
    torch.testing.assert_close(s, wanted.S, rtol=0, atol=bound * largest)
    k = s.shape[-1]
    product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    torch.testing.assert_close(product, a, rtol=0, atol=bound * largest)
    for factor in (u.mH @ u, vh @ vh.mH):
        one = torch.eye(factor.shape[-1], dtype=dtype).expand_as(factor)
        torch.testing.assert_close(factor, one, rtol=0, atol=bound)


@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 4, 3), (2, 3, 4)], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.svdvals,
        torch.linalg.pinv,
        torch.linalg.cond,
        torch.linalg.matrix_rank,
        lambda a: torch.linalg.matrix_norm(a, 2),
        lambda a: torch.linalg.matrix_norm(a, "nuc"),
    ],
    ids=["values", "pseudo-inverse", "condition", "rank", "norm", "nuclear norm"],
)
def test_what_is_made_of_them(shape, function) -> None:
    """float64, in whose errors of 1e-16 even the condition of these matrices leaves ten digits."""

    def value_and_gradient(device: str) -> list[torch.Tensor]:
        a = matrices(shape, torch.float64).to(device).requires_grad_()
        result = function(a)
        if not result.requires_grad:
            return [result.cpu()]
        result.sum().backward()
        assert a.grad is not None
        return [result.detach().cpu(), a.grad.cpu()]

    for got, want in zip(value_and_gradient("xla"), value_and_gradient("cpu"), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_a_matrix_that_is_not_finite() -> None:
    a = matrices((2, 3, 3), torch.float32)
    a[1, 0, 0] = float("nan")
    values = torch.linalg.svdvals(a.to("xla")).cpu()
    assert values[0].isfinite().all()
    assert values[1].isnan().all()


def test_nothing_is_read_back() -> None:
    metrics.clear_all()
    a = torch.ones(2, 3, 3, device="xla", requires_grad=True)
    torch.linalg.svdvals(a + torch.eye(3, device="xla")).sum().backward()
    torch_xla.sync()
    assert not [name for name in metrics.counter_names() if name.startswith("aten::")]


def test_an_algorithm_of_cusolver() -> None:
    with pytest.raises(RuntimeError, match="only supported on CUDA"):
        torch.linalg.svd(torch.eye(3, device="xla"), driver="gesvd")


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(3, 0, 5), (4, 0), (0, 2, 3)])
def test_matrices_without_elements(shape, full) -> None:
    a = torch.zeros(shape)
    for got, expected in zip(
        torch.linalg.svd(a.to("xla"), full), torch.linalg.svd(a, full), strict=True
    ):
        torch.testing.assert_close(got.cpu(), expected)
