"""Linear algebra that torch_xla computes on the CPU: factors and what is solved with them.

They are custom calls of LAPACK's routines under XLA's names, which the compiler reads
(``core/compiler/passes/custom_calls.py``), and torch_xla's triangular solve. ``solve``, ``inv``, ``cholesky`` and
``lu_factor`` raise an error for a matrix that has no inverse or no factor: PyTorch reads one number of each matrix back
for that, and nothing else. ``solve_ex``, ``inv_ex``, ``cholesky_ex`` and ``lu_factor_ex`` read nothing.
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


def cholesky_ex(a: Any, *, upper: bool = False, check_errors: bool = False) -> tuple[Any, ...]:
    """``linalg.cholesky_ex`` of ``a`` [..., n, n]: the factors, and where LAPACK found that there is none, or 0."""
    import torch

    if not a.numel():
        return _on_cpu(torch.ops.aten.linalg_cholesky_ex, a, upper=upper)
    letter = {torch.float32: "s", torch.float64: "d", torch.complex64: "c"}.get(a.dtype, "z")
    # A row-major matrix is the transpose of LAPACK's, whose upper triangle is this lower one.
    triangle = ord("L" if upper else "U")
    results = [(a.shape, a.dtype), (a.shape[:-2], torch.int32)]
    factor, info = call(f"lapack_{letter}potrf_ffi", [a], results, {"uplo": triangle})
    _check("linalg.cholesky_ex", a, info, check_errors)
    return (torch.triu if upper else torch.tril)(factor), info


def lu_factor_ex(a: Any, *, pivot: bool = True, check_errors: bool = False) -> tuple[Any, ...]:
    """``linalg.lu_factor_ex`` of ``a`` [..., m, n]: the factors, LAPACK's pivots from 1, and info (:func:`_info`)."""
    import torch

    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    if not a.numel():
        return _on_cpu(torch.ops.aten.linalg_lu_factor_ex, a)
    *batch, m, n = a.shape
    results = [(a.shape, a.dtype), ((*batch, min(m, n)), torch.int32), ((*batch, m), torch.int32)]
    factors, pivots, _ = call("LuDecomposition", [a], results, {})
    info = _info(factors)
    _check("torch.linalg.lu_factor_ex", a, info, check_errors)
    return factors, pivots + 1, info


def lu(a: Any, *, pivot: bool = True) -> tuple[Any, ...]:
    """``linalg.lu``: the permutation, the lower and the upper triangle."""
    factors, pivots, _ = lu_factor_ex(a, pivot=pivot)
    return lu_unpack(factors, pivots)


def lu_unpack(
    factors: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, ...]:
    """``lu_unpack``: P [..., m, m], L [..., m, k] and U [..., k, n] of packed ``factors`` [..., m, n]."""
    import torch

    if not factors.numel():
        return _on_cpu(torch.ops.aten.lu_unpack, factors, pivots, unpack_data, unpack_pivots)
    m, n = factors.shape[-2:]
    k = min(m, n)
    nothing = torch.zeros((0,), dtype=factors.dtype, device=factors.device)
    permutation = lower = upper = nothing
    if unpack_data:
        left = torch.slice_copy(factors, -1, 0, k)
        one = torch.eye(m, k, dtype=factors.dtype, device=factors.device)
        lower = torch.tril(left, -1) + one
        upper = torch.triu(torch.slice_copy(factors, -2, 0, k))
    if unpack_pivots:
        order = torch.unsqueeze_copy(_order(pivots, m), -2)
        rows = torch.unsqueeze_copy(torch.arange(m, dtype=order.dtype, device=order.device), -1)
        permutation = (order == rows).to(factors.dtype)
    return permutation, lower, upper


def solve_ex(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> tuple[Any, ...]:
    """``aten::_linalg_solve_ex``: x with a x = b, or x a = b if not ``left``; the factors and pivots that gradients
    take, which are those of :func:`_lu`; info.
    """
    import torch

    if not a.numel() or not b.numel():
        return _on_cpu(torch.ops.aten._linalg_solve_ex, a, b, left=left)
    vectors = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    right = torch.unsqueeze_copy(b, -1) if vectors else b
    if (
        a.dim() < 2
        or a.shape[-1] != a.shape[-2]
        or right.shape[-2 if left else -1] != a.shape[-1]
        or (vectors and not left)
    ):
        return _on_cpu(torch.ops.aten._linalg_solve_ex, a, b, left=left)  # says what is wrong
    factors, pivots = _lu(a)
    info = _info(factors)
    _check("torch.linalg.solve_ex", a, info, check_errors)
    x = lu_solve(factors, pivots, right, left=left, adjoint=not a.is_complex())
    return torch.squeeze_copy(x, -1) if vectors else x, factors, pivots, info


def inv_ex(a: Any, *, check_errors: bool = False) -> tuple[Any, ...]:
    """``linalg.inv_ex`` of ``a`` [..., n, n]. torch_xla's is another matrix for complex numbers, and tells nothing of
    matrices that have no inverse.
    """
    import torch

    if not a.numel():
        return _on_cpu(torch.ops.aten.linalg_inv_ex, a)
    one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    x, _, _, info = solve_ex(a, torch.expand_copy(one, a.shape))
    _check("linalg.inv_ex", a, info, check_errors)
    return x, info


def _info(factors: Any) -> Any:
    """LAPACK's: the number from 1 of the first pivot that is 0, or 0."""
    import torch

    zero = (torch.diagonal_copy(factors, 0, -2, -1) == 0).to(torch.int32)
    first = torch.argmax(zero, -1).to(torch.int32) + 1
    return torch.where(torch.amax(zero, -1) > 0, first, 0).to(torch.int32)


def _check(name: str, a: Any, info: Any, check_errors: bool) -> None:
    import torch

    if check_errors:
        torch._linalg_check_errors(info, name, is_matrix=a.dim() == 2)


def _on_cpu(operation: Any, *operands: Any, **options: Any) -> tuple[Any, ...]:
    """For matrices without elements, and operands that do not fit, of which PyTorch says so."""
    import torch

    device = next(t.device for t in operands if isinstance(t, torch.Tensor))
    there = [t.cpu() if isinstance(t, torch.Tensor) else t for t in operands]
    return tuple(t.to(device) for t in operation(*there, **options))


def _order(pivots: Any, n: int) -> Any:
    """Which of ``n`` rows stand in the place of each, after LAPACK's interchanges from 1: s32 [..., n]."""
    import torch

    results = [((*pivots.shape[:-1], n), torch.int32)]
    (order,) = call("tripont.lu_pivots_to_permutation", [pivots - 1], results, {})
    return order


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
    order = _order(pivots, n)
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
