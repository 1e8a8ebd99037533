"""Gradients of Cholesky's factors become one library call, and two solves the cheaper order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.passes.library import match_library
from tripont.core.compiler.passes.library.triangles import LOWER, UPPER, triangles_of
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import compare, number, op, parameter
from tests.core.compiler.codegen.kernels.test_position_ranges import lower, positions, select

SERVER = for_cpu("icelake-server")


def calls(function: Callable[..., Any], *arguments: tuple[Any, Any]) -> list[Instruction]:
    """The library calls of the function's program; arguments: (dims, dtype)."""
    shapes = [jax.ShapeDtypeStruct(*a) for a in arguments]
    text = jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()
    module = read_program(text.encode(), "mlir")
    for step in (*pipeline.PREPARATION, *pipeline.OPTIMISATION):
        takes_target = step in pipeline.TARGET_PASSES
        module = step(module, SERVER) if takes_target else step(module)  # type: ignore[call-arg]
        if step is match_library:
            break
    return [i for i in module.entry.instructions if i.opcode == "library-call"]


def names(found: list[Instruction]) -> list[str]:
    return sorted(i.attributes["name"] for i in found)


def of_factor(a: Any) -> Any:
    return (jnp.linalg.cholesky(a) ** 2).sum()


def without_symmetry(a: Any) -> Any:
    return (jax.lax.linalg.cholesky(a, symmetrize_input=False) ** 2).sum()


@pytest.mark.parametrize("dims", [(100, 100), (3, 100, 100), (2, 8, 8)])
def test_gradients_are_one_call(dims: tuple[int, ...]) -> None:
    found = calls(jax.grad(of_factor), (dims, np.float32))
    assert names(found) == ["cholesky", "cholesky-gradient"]


def test_batches_in_lanes_are_solved() -> None:
    found = calls(jax.grad(of_factor), ((100, 8, 8), np.float32))
    assert names(found).count("triangular-solve") == 2


def test_gradients_without_symmetry_are_one_call() -> None:
    for function, symmetric in [(of_factor, 1), (without_symmetry, 0)]:
        found = calls(jax.grad(function), ((100, 100), np.float32))
        assert names(found) == ["cholesky", "cholesky-gradient"]
        assert found[1].attributes["config"]["symmetric"] == symmetric


def written(
    a: Any, x: Any, *, scale: float = 0.5, ones: float = 1.0, lower: bool = True, above: int = 0
) -> tuple[Any, Any]:
    """The gradient for ``a``, where that for the factor is ``x``, as JAX writes it, and the solution behind it."""
    factor, solve = jnp.linalg.cholesky(a), jax.lax.linalg.triangular_solve
    product = jax.lax.dot_general(factor, x, (((0,), (0,)), ((), ())))
    half = jnp.tril(product / (ones + jnp.eye(100, dtype=x.dtype)), above)
    y = solve(factor, half, left_side=True, lower=lower, transpose_a=True)
    w = solve(factor, y, left_side=False, lower=True)
    return scale * w + (scale * w).T, w


def test_what_is_another_sum_is_computed() -> None:
    """With other constants or triangles, or where a solution is a result as well."""
    square = ((100, 100), np.float32)

    def symmetric(**changes: Any) -> list[int]:
        found = calls(lambda a, x: written(a, x, **changes)[0], square, square)
        gradients = [i for i in found if i.attributes["name"] == "cholesky-gradient"]
        return [i.attributes["config"]["symmetric"] for i in gradients]

    assert symmetric() == [1]
    assert symmetric(scale=0.25) == [0]
    assert symmetric(ones=2.0) == []
    assert symmetric(lower=False) == []
    assert symmetric(above=1) == []
    assert symmetric(above=-1) == []
    both = [i for i in calls(written, square, square) if len(i.operands) == 2]
    assert [i.attributes["config"]["symmetric"] for i in both] == [0]


def test_the_solve_of_a_triangle_comes_first() -> None:
    def function(a: Any, x: Any) -> Any:
        solve = jax.lax.linalg.triangular_solve
        y = solve(a, jnp.tril(x), left_side=True, lower=True, transpose_a=True)
        return solve(a, y, left_side=False, lower=True)

    found = calls(function, ((100, 100), np.float32), ((100, 100), np.float32))
    solves = [i.attributes["config"] for i in found if i.attributes["name"] == "triangular-solve"]
    assert [(s["left_side"], s.get("triangular_b", 0)) for s in solves] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_triangles_are_told_to_the_library(side: str, *, transposed: bool) -> None:
    def solve(mask: Callable[..., Any]) -> Callable[..., Any]:
        def function(a: Any, b: Any) -> Any:
            return jax.lax.linalg.triangular_solve(
                a, mask(b), left_side=side == "left", lower=True, transpose_a=transposed
            )

        return function

    square = ((90, 90), np.float32)
    same, other = (jnp.triu, jnp.tril) if transposed else (jnp.tril, jnp.triu)
    for mask, is_told in [(same, True), (other, False), (lambda b: b, False)]:
        (call,) = calls(solve(mask), square, square)
        assert ("triangular_b" in call.attributes["config"]) == is_told
    (call,) = calls(solve(lambda b: jnp.eye(90, dtype=b.dtype)), square, square)
    assert call.attributes["config"]["triangular_b"] == 1
    (call,) = calls(solve(lambda b: jnp.tril(b, 1)), square, square)
    assert "triangular_b" not in call.attributes["config"]


def test_triangles() -> None:
    x, zeros = parameter(0, 20, 20), number(0.0, 20, 20)
    row, column = positions(x.dims)
    upper = select(compare(row, column, "GE"), zeros, x)
    assert triangles_of(lower(x)) == {LOWER}
    assert triangles_of(upper) == {UPPER}
    assert triangles_of(op("negate", lower(x))) == {LOWER}
    assert triangles_of(op("transpose", lower(x), dimensions=(1, 0))) == {UPPER}
    assert triangles_of(x) == set()
    assert triangles_of(op("add", lower(x), number(1.0, 20, 20))) == set()
