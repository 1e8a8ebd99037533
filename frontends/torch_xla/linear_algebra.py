"""Linear algebra that torch_xla computes on the CPU: factors and what is solved with them.

They are custom calls of LAPACK's routines under XLA's names, which the compiler reads
(``core/compiler/passes/custom_calls.py``), and torch_xla's triangular solve. What raises an error for a matrix that has
no inverse or no factor (``solve``, ``cholesky``, ``lu_factor``) has to be read back anyhow, and stays on the CPU.
"""

from __future__ import annotations

from typing import Any

from .calls import call
from .complex_numbers import conjugate
from .copies import broadcast_shape


def solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """``linalg.solve_triangular``: x with a x = b, or x a = b if not ``left``, in batches that are broadcast."""
    import torch

    if not left:
        a, b = _transposed(a), _transposed(b)
        x = solve_triangular(a, b, upper=not upper, unitriangular=unitriangular)
        return _transposed(x)
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    a = torch.expand_copy(a, (*batch, *a.shape[-2:]))
    b = torch.expand_copy(b, (*batch, *b.shape[-2:]))
    return torch.triangular_solve(b, a, upper=upper, unitriangular=unitriangular)[0]


def cholesky_solve(b: Any, factor: Any, upper: bool) -> Any:
    """``aten::_cholesky_solve_helper``: x with (l l^H) x = b, of the factor l, or of its adjoint if ``upper``."""
    lower = _adjoint(factor) if upper else factor
    half = solve_triangular(lower, b, upper=False)
    return solve_triangular(_adjoint(lower), half, upper=True)


def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    import torch

    one = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return cholesky_solve(torch.expand_copy(one, factor.shape), factor, upper)


def geqrf(a: Any) -> tuple[Any, Any]:
    """``geqrf`` of ``a`` [..., m, n]: reflectors below the diagonal of R, and their factors [..., min(m, n)]."""
    *batch, m, n = a.shape
    packed, tau = call("Qr", [a], [(a.shape, a.dtype), ((*batch, min(m, n)), a.dtype)], {})
    return packed, tau


def householder_product(reflectors: Any, tau: Any) -> Any:
    """``linalg.householder_product``: the first n columns of Q, of ``reflectors`` [..., m, n]."""
    (q,) = call(
        "ProductOfElementaryHouseholderReflectors",
        [reflectors, tau],
        [(reflectors.shape, reflectors.dtype)],
        {},
    )
    return q


def qr(a: Any, mode: str = "reduced") -> tuple[Any, Any]:
    """``linalg.qr`` of ``a`` [..., m, n]: Q [..., m, k] and R [..., k, n]; with "r" Q has no elements.

    k is m with "complete", else the smaller of m and n. Raises RuntimeError for other modes.
    """
    import torch

    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    m, n = a.shape[-2:]
    packed, tau = geqrf(a)
    columns = m if mode == "complete" else min(m, n)
    r = torch.triu(packed if columns == m else torch.slice_copy(packed, -2, 0, columns))
    if mode == "r":
        return torch.empty((0,), dtype=a.dtype, device=a.device), r
    reflectors = torch.slice_copy(packed, -1, 0, min(m, n))
    if columns > n:
        reflectors = torch.constant_pad_nd(reflectors, (0, columns - n))
    return householder_product(reflectors, tau), r


def determinant(a: Any) -> tuple[Any, Any, Any]:
    """``aten::_linalg_det``: the determinants of ``a`` [..., n, n], and the factors and pivots that gradients take."""
    import torch

    factors, pivots = _lu(a)
    diagonal = torch.diagonal_copy(factors, 0, -2, -1)
    return torch.prod(diagonal, -1) * _sign(pivots).to(a.dtype), factors, pivots


def log_determinant(a: Any) -> tuple[Any, Any, Any, Any]:
    """``aten::_linalg_slogdet``: the determinants' signs and logarithms, and the factors and pivots."""
    import torch

    factors, pivots = _lu(a)
    diagonal = torch.diagonal_copy(factors, 0, -2, -1)
    sign = torch.prod(torch.sgn(diagonal), -1) * _sign(pivots).to(a.dtype)
    return sign, torch.sum(torch.log(torch.abs(diagonal)), -1), factors, pivots


def lu_solve(factors: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """``linalg.lu_solve``: x with a x = b, or x a = b if not ``left``. ``a`` has these factors, or its adjoint has."""
    import torch

    if not left:
        x = lu_solve(factors, pivots, _adjoint(b), adjoint=not adjoint)
        return _adjoint(x)
    batch = broadcast_shape(factors.shape[:-2], b.shape[:-2])
    n = factors.shape[-1]
    b = torch.expand_copy(b, (*batch, n, b.shape[-1]))
    if b.numel() == 0:
        return b  # XLA refuses to gather from an array without elements
    (order,) = call(
        "tripont.lu_pivots_to_permutation",
        [pivots - 1],
        [((*pivots.shape[:-1], n), torch.int32)],
        {},
    )
    if adjoint:
        order = torch.argsort(order, -1)
    rows = torch.expand_copy(torch.unsqueeze_copy(order.long(), -1), b.shape)
    if adjoint:
        turned = _adjoint(factors)
        half = solve_triangular(turned, b, upper=False)
        half = solve_triangular(turned, half, upper=True, unitriangular=True)
        return torch.gather(half, -2, rows)
    half = solve_triangular(factors, torch.gather(b, -2, rows), upper=False, unitriangular=True)
    return solve_triangular(factors, half, upper=True)


def _lu(a: Any) -> tuple[Any, Any]:
    """The factors of square matrices, and LAPACK's pivots, from 1: of their transposes if they are real.

    Those are what PyTorch's gradients solve with, where a matrix is contiguous. Those of torch_xla always are.
    """
    import torch

    if not a.is_complex():
        a = _transposed(a)
    batch = a.shape[:-1]
    results = [(a.shape, a.dtype), (batch, torch.int32), (batch, torch.int32)]
    factors, pivots, _ = call("LuDecomposition", [a], results, {})
    return factors, pivots + 1


def _sign(pivots: Any) -> Any:
    """The sign of the permutation: it is -1 where an odd number of rows change places."""
    import torch

    here = torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype, device=pivots.device)
    return 1 - 2 * (torch.sum(pivots != here, -1) % 2)


def _transposed(a: Any) -> Any:
    import torch

    return torch.transpose_copy(a, -2, -1)


def _adjoint(a: Any) -> Any:
    return conjugate(_transposed(a))
