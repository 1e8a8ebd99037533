"""Factorisations, solves and their gradients; batches of small matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..program import Registry

PROGRAMS = Registry("linear algebra", __name__)
N = 1000


def positive(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Positive definite matrices with condition numbers of some ten."""
    a = random.normal(size=(*shape, shape[-1])).astype(np.float32)
    n = shape[-1]
    return a @ np.swapaxes(a, -1, -2) / np.float32(n) + np.eye(n, dtype=np.float32)


def lower(random: np.random.Generator, n: int) -> np.ndarray:
    return np.linalg.cholesky(positive(random, n))


def jax_of(text: str) -> Callable[[], Callable[..., Any]]:
    """The function that an expression over jax, jnp and jsp (jax.scipy) makes."""

    def make() -> Callable[..., Any]:
        import jax
        import jax.numpy as jnp
        import jax.scipy as jsp

        return eval(text, {"jax": jax, "jnp": jnp, "jsp": jsp})

    return make


def scipy_of(text: str) -> Callable[[], Callable[..., Any]]:
    def make() -> Callable[..., Any]:
        import scipy.linalg

        return eval(text, {"np": np, "linalg": scipy.linalg})

    return make


def torch_of(text: str) -> Callable[[], Callable[..., Any]]:
    def make() -> Callable[..., Any]:
        import torch

        return eval(text, {"torch": torch})

    return make


PROGRAMS.add(
    f"cholesky_{N}",
    f"Cholesky factor of {N}x{N}",
    lambda r: (positive(r, N),),
    jax=jax_of("jnp.linalg.cholesky"),
    numpy=scipy_of("lambda a: linalg.cholesky(a, lower=True, check_finite=False)"),
    torch=torch_of("torch.linalg.cholesky"),
    flops=N**3 / 3,
    terms=N,
)
PROGRAMS.add(
    f"triangular_solve_{N}",
    f"triangular solve of {N}x{N} with {N} right sides",
    lambda r: (lower(r, N), r.normal(size=(N, N)).astype(np.float32)),
    jax=jax_of("lambda l, b: jsp.linalg.solve_triangular(l, b, lower=True)"),
    numpy=scipy_of("lambda l, b: linalg.solve_triangular(l, b, lower=True, check_finite=False)"),
    torch=torch_of("lambda l, b: torch.linalg.solve_triangular(l, b, upper=False)"),
    flops=float(N**3),
    terms=N,
)
PROGRAMS.add(
    f"triangular_solve_{N}_1",
    f"triangular solve of {N}x{N} with one right side",
    lambda r: (lower(r, N), r.normal(size=(N, 1)).astype(np.float32)),
    jax=jax_of("lambda l, b: jsp.linalg.solve_triangular(l, b, lower=True)"),
    numpy=scipy_of("lambda l, b: linalg.solve_triangular(l, b, lower=True, check_finite=False)"),
    torch=torch_of("lambda l, b: torch.linalg.solve_triangular(l, b, upper=False)"),
    bytes=2.0 * N * N,
    flops=float(N**2),
    terms=N,
)
PROGRAMS.add(
    f"cholesky_{N}_gradient",
    f"gradient of the logarithm of the determinant through Cholesky, {N}x{N}",
    lambda r: (positive(r, N),),
    jax=jax_of("jax.grad(lambda a: 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(a))).sum())"),
    torch=torch_of(
        "torch.func.grad(lambda a: 2 * torch.log(torch.diagonal(torch.linalg.cholesky(a))).sum())"
    ),
    flops=N**3 * (1 / 3 + 2),
    terms=N,
)
PROGRAMS.add(
    "lu_solve_1500",
    "solve of 1500x1500 with four right sides",
    lambda r: (
        r.normal(size=(1500, 1500)).astype(np.float32) + 20 * np.eye(1500, dtype=np.float32),
        r.normal(size=(1500, 4)).astype(np.float32),
    ),
    jax=jax_of("jnp.linalg.solve"),
    numpy=scipy_of("lambda a, b: linalg.solve(a, b, check_finite=False)"),
    torch=torch_of("torch.linalg.solve"),
    flops=1500.0**3 * 2 / 3,
    terms=1500,
)


def rebuilt_eigh(results: list[np.ndarray]) -> list[np.ndarray]:
    values, vectors = results
    return [values, (vectors * values) @ vectors.T]


def rebuilt_svd(results: list[np.ndarray]) -> list[np.ndarray]:
    u, s, vt = results
    return [s, (u * s) @ vt]


def symmetric(random: np.random.Generator, *shape: int) -> np.ndarray:
    a = random.normal(size=(*shape, shape[-1])).astype(np.float32)
    return (a + np.swapaxes(a, -1, -2)) / 2


PROGRAMS.add(
    "eigh_300",
    "eigenvalues and eigenvectors of a symmetric 300x300",
    lambda r: (symmetric(r, 300),),
    jax=jax_of("lambda a: tuple(jnp.linalg.eigh(a))"),
    numpy=scipy_of("lambda a: linalg.eigh(a, check_finite=False, driver='evd')"),
    torch=torch_of("lambda a: tuple(torch.linalg.eigh(a))"),
    comparable=rebuilt_eigh,
    terms=300,
    flops=300.0**3 * 9,
)
PROGRAMS.add(
    "svd_400",
    "singular values and vectors of 400x200",
    lambda r: (r.normal(size=(400, 200)).astype(np.float32),),
    jax=jax_of("lambda a: tuple(jnp.linalg.svd(a, full_matrices=False))"),
    numpy=scipy_of("lambda a: linalg.svd(a, full_matrices=False, check_finite=False)"),
    torch=torch_of("lambda a: tuple(torch.linalg.svd(a, full_matrices=False))"),
    comparable=rebuilt_svd,
    terms=400,
    flops=6 * 400 * 200.0**2 + 20 * 200.0**3,
)
PROGRAMS.add(
    "qr_512",
    "QR of 512x512, rebuilt",
    lambda r: (r.normal(size=(512, 512)).astype(np.float32),),
    jax=jax_of("lambda a: tuple(jnp.linalg.qr(a))"),
    numpy=scipy_of("lambda a: linalg.qr(a, check_finite=False)"),
    torch=torch_of("lambda a: tuple(torch.linalg.qr(a))"),
    comparable=lambda qr: [qr[0] @ qr[1]],
    terms=512,
    flops=512.0**3 * 8 / 3,
)

BATCH = 4096
PROGRAMS.add(
    "cholesky_8_batch",
    f"Cholesky factors of {BATCH:,} 8x8",
    lambda r: (positive(r, BATCH, 8),),
    jax=jax_of("jnp.linalg.cholesky"),
    numpy=lambda: np.linalg.cholesky,
    torch=torch_of("torch.linalg.cholesky"),
    bytes=BATCH * 8 * 8 * 8.0,
    flops=BATCH * 512 / 3,
    terms=8,
)
PROGRAMS.add(
    "solve_8_batch",
    f"solves of {BATCH:,} 8x8 with one right side",
    lambda r: (positive(r, BATCH, 8), r.normal(size=(BATCH, 8, 1)).astype(np.float32)),
    jax=jax_of("jnp.linalg.solve"),
    numpy=lambda: np.linalg.solve,
    torch=torch_of("torch.linalg.solve"),
    bytes=BATCH * (64 + 16) * 4.0,
    flops=BATCH * 512 * 2 / 3,
    terms=8,
)
PROGRAMS.add(
    "inverse_16_batch",
    "inverses of 1,024 16x16",
    lambda r: (positive(r, 1024, 16),),
    jax=jax_of("jnp.linalg.inv"),
    numpy=lambda: np.linalg.inv,
    torch=torch_of("torch.linalg.inv"),
    bytes=1024 * 256 * 8.0,
    flops=1024 * 2 * 16.0**3,
    terms=16,
)
PROGRAMS.add(
    "eigh_3_batch",
    f"eigenvalues of {BATCH:,} symmetric 3x3",
    lambda r: (symmetric(r, BATCH, 3),),
    jax=jax_of("jnp.linalg.eigvalsh"),
    numpy=lambda: np.linalg.eigvalsh,
    torch=torch_of("torch.linalg.eigvalsh"),
    bytes=BATCH * 48.0,
    terms=9,
)
PROGRAMS.add(
    "svd_3_batch",
    f"singular values of {BATCH:,} 3x3",
    lambda r: (r.normal(size=(BATCH, 3, 3)).astype(np.float32),),
    jax=jax_of("lambda a: jnp.linalg.svd(a, compute_uv=False)"),
    numpy=lambda: lambda a: np.linalg.svd(a, compute_uv=False),
    torch=torch_of("torch.linalg.svdvals"),
    bytes=BATCH * 48.0,
    terms=9,
)
PROGRAMS.add(
    "determinant_4_batch",
    f"determinants of {4 * BATCH:,} 4x4",
    lambda r: (positive(r, 4 * BATCH, 4),),
    jax=jax_of("jnp.linalg.det"),
    numpy=lambda: np.linalg.det,
    torch=torch_of("torch.linalg.det"),
    bytes=4 * BATCH * 68.0,
    terms=4,
)
PROGRAMS.add(
    "qr_8_batch",
    f"QR of {BATCH:,} 8x8, rebuilt",
    lambda r: (positive(r, BATCH, 8),),
    jax=jax_of("lambda a: tuple(jnp.linalg.qr(a))"),
    numpy=lambda: np.linalg.qr,
    torch=torch_of("lambda a: tuple(torch.linalg.qr(a))"),
    comparable=lambda qr: [qr[0] @ qr[1]],
    bytes=BATCH * 64 * 12.0,
    terms=8,
)
