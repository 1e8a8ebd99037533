"""What is around a batch of small matrices becomes a part of the library call, and near misses do not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir.hlo import Module
from tripont.core.compiler.passes.custom_calls import lay_out_custom_calls, match_custom_calls
from tripont.core.compiler.passes.simplify import simplify

from ..test_library import SERVER, calls, config, instructions, matched

F32, F64 = np.float32, np.float64
BATCH = (12, 5, 5)


def cholesky(a: Any) -> Any:
    return lax.linalg.cholesky(a, symmetrize_input=False)


def symmetrized(a: Any) -> Any:
    return (a + jnp.swapaxes(a, -1, -2)) / 2


def test_symmetrizing_and_the_triangle_are_the_calls() -> None:
    module = matched(jnp.linalg.cholesky, (BATCH, F32))
    assert config(module)["symmetrize"] == 1
    assert not instructions(module, "transpose")
    assert not instructions(module, "select")
    assert module.entry.root.opcode == "library-call"


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (jnp.linalg.cholesky, ((7, 5, 5), F32)),
        (jnp.linalg.cholesky, ((12, 65, 65), F32)),
        (jnp.linalg.cholesky, ((5, 5), F32)),
        (jnp.linalg.cholesky, (BATCH, np.complex64)),
        (lambda a: cholesky((a + jnp.swapaxes(a, -1, -2)) / 3), (BATCH, F32)),
        (lambda a: cholesky((a - jnp.swapaxes(a, -1, -2)) / 2), (BATCH, F32)),
        (lambda a: cholesky((a + jnp.swapaxes(2 * a, -1, -2)) / 2), (BATCH, F32)),
        (lambda a: cholesky((a + jnp.transpose(a, (1, 0, 2))) / 2), ((12, 12, 12), F32)),
    ],
)
def test_other_means_and_other_matrices_stay(function: Any, argument: Any) -> None:
    module = matched(function, argument)
    assert "symmetrize" not in config(module)
    assert instructions(module, "add") or instructions(module, "subtract")


@pytest.mark.parametrize(
    "function",
    [
        lambda a: jnp.tril(cholesky(a), -1),
        lambda a: jnp.triu(cholesky(a)),
        lambda a: jnp.where(jnp.tri(5, dtype=bool), cholesky(a), 1),
        lambda a: jnp.where(jnp.tri(5, dtype=bool)[:, :, None], cholesky(a).transpose(1, 2, 0), 0),
    ],
)
def test_other_parts_of_the_factor_stay(function: Any) -> None:
    module = matched(function, (BATCH, F32))
    assert module.entry.root.opcode != "library-call"


def laid_out(function: Any, dims: tuple[int, ...], dtype: Any) -> Module:
    """The function as JAX lowers it for CPUs, after the passes for custom calls."""
    with jax.enable_x64(True):
        lowered = (
            jax.jit(function)
            .trace(jax.ShapeDtypeStruct(dims, dtype))
            .lower(lowering_platforms=("cpu",))
        )
        module = read_program(lowered.as_text().encode(), "mlir")
    return match_custom_calls(lay_out_custom_calls(module), SERVER)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("getrf", lambda a: lax.linalg.lu(a)[0]),
        ("geqrf", lambda a: lax.linalg.qr(a)[0]),
        ("syevd", lambda a: lax.linalg.eigh(a, symmetrize_input=False)[0]),
        ("gesdd", lambda a: lax.linalg.svd(a)[0]),
    ],
)
def test_batches_in_lanes_have_no_transposes(name: str, function: Any) -> None:
    module = laid_out(function, BATCH, F32)
    (call,) = [i for i in instructions(module, "library-call") if i.attributes["name"] == name]
    assert call.attributes["config"]["row_major"] == 1
    assert not instructions(module, "transpose")


@pytest.mark.parametrize("dtype", [F32, np.complex128])
@pytest.mark.parametrize("dims", [(257, 257), (2, 400, 300)])
def test_lu_in_tiles_has_no_transposes_and_never_fails(dims: tuple[int, ...], dtype: Any) -> None:
    """A matrix whose U has a zero has factors all the same: nothing is to be replaced by NaNs."""
    module = simplify(laid_out(lambda a: lax.linalg.lu(a)[0], dims, dtype))
    (call,) = [i for i in instructions(module, "library-call") if i.attributes["name"] == "getrf"]
    assert call.attributes["config"]["row_major"] == 1
    assert not instructions(module, "transpose")
    assert not instructions(module, "select")


@pytest.mark.parametrize(
    ("function", "dims", "dtype"),
    [
        (lambda a: lax.linalg.lu(a)[0], (256, 300), F32),
        (lambda a: lax.linalg.lu(a)[0], (7, 5, 5), F32),
        (lambda a: lax.linalg.lu(a)[0], (12, 5, 65), F64),
        (lambda a: lax.linalg.lu(a)[0], BATCH, np.complex64),
        (lambda a: lax.linalg.eigh(a, symmetrize_input=False)[0], (12, 17, 17), F32),
        (lambda a: lax.linalg.svd(a, full_matrices=False)[0], (12, 5, 4), F32),
        (lambda a: lax.linalg.hessenberg(a)[0], BATCH, F32),
    ],
)
def test_others_are_transposed(function: Any, dims: tuple[int, ...], dtype: Any) -> None:
    module = laid_out(function, dims, dtype)
    assert "row_major" not in str([i.attributes for i in instructions(module, "library-call")])
    assert instructions(module, "transpose")
    assert calls(module)


@pytest.mark.parametrize("op", [0, 1, 2])
@pytest.mark.parametrize("dtype", [F32, np.complex64])
@pytest.mark.parametrize("lower", [False, True])
def test_a_transpose_before_a_solve_is_its_flag(lower: bool, dtype: Any, op: int) -> None:
    """The solve reads the other triangle of the matrix itself, but for conjugates of complex ones."""

    def solve(a: Any, b: Any) -> Any:
        return lax.linalg.triangular_solve(
            a.T, b, left_side=True, lower=lower, transpose_a=op > 0, conjugate_a=op == 2
        )

    module = matched(solve, ((40, 40), dtype), ((40, 2), dtype))
    if op == 2 and dtype is np.complex64:
        assert config(module)["transpose_a"] == "ADJOINT"
        assert instructions(module, "transpose")
        return
    assert config(module)["lower"] == (not lower)
    assert config(module)["transpose_a"] == ("NO_TRANSPOSE" if op else "TRANSPOSE")
    assert not instructions(module, "transpose")
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((40, 40)) / 40 + 2 * np.eye(40)).astype(dtype)
    b = rng.standard_normal((40, 2)).astype(dtype)
    x = np.asarray(jax.jit(solve)(a, b), np.complex128)
    triangle = (np.tril if lower else np.triu)(a.T)
    error = {0: triangle, 1: triangle.T, 2: triangle.conj().T}[op].astype(np.complex128) @ x - b
    assert np.abs(error).max() <= 40 * np.finfo(dtype).eps * np.abs(b).max()
