"""``jax.lax.ragged_dot``: the products of a mixture of experts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

SIZES = np.array([7, 0, 9, 2], np.int32)  # of 20 rows, of which two belong to no group


def operands(dtype=np.float32) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return tuple(random.integers(-4, 5, dims).astype(dtype) for dims in ((20, 6), (4, 6, 5)))  # type: ignore[return-value]


def rows_of_groups() -> list[slice]:
    ends = np.cumsum(SIZES)
    return [slice(end - size, end) for size, end in zip(SIZES, ends, strict=True)]


def products(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    result = np.zeros((len(lhs), rhs.shape[2]), lhs.dtype)
    for n, rows in enumerate(rows_of_groups()):
        result[rows] = lhs[rows] @ rhs[n]
    return result


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.int32, np.complex64])
def test_rows_of_groups(dtype) -> None:
    lhs, rhs = operands(dtype)
    lowered = jax.jit(lax.ragged_dot).lower(lhs, rhs, SIZES)
    assert "tripont.ragged_dot" in lowered.as_text()
    got = lowered.compile()(lhs, rhs, SIZES)
    np.testing.assert_array_equal(np.asarray(got), products(lhs, rhs))


def test_gradients() -> None:
    """Whole numbers, so to the bit: of lhs by each group's transposed matrix, of rhs by each group's rows."""
    lhs, rhs = operands()
    weights = np.random.default_rng(1).integers(-4, 5, (20, 5)).astype(np.float32)
    of_both = jax.jit(jax.grad(lambda a, b: jnp.sum(weights * lax.ragged_dot(a, b, SIZES)), (0, 1)))
    of_lhs, of_rhs = of_both(lhs, rhs)
    np.testing.assert_array_equal(of_lhs, products(weights, rhs.transpose(0, 2, 1)))
    want = [lhs[rows].T @ weights[rows] for rows in rows_of_groups()]
    np.testing.assert_array_equal(of_rhs, np.array(want))


def test_other_result_dtype() -> None:
    lhs, rhs = operands(np.int8)
    got = jax.jit(lambda *a: lax.ragged_dot(*a, preferred_element_type=jnp.int32))(lhs, rhs, SIZES)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, products(lhs.astype(np.int32), rhs.astype(np.int32)))


def test_vectorized() -> None:
    """Where each row of a batch has sizes of its own, JAX's way is taken."""
    lhs, rhs = operands()
    stacked = [np.stack([a, a]) for a in (lhs, rhs, SIZES)]
    got = jax.jit(jax.vmap(lax.ragged_dot))(*stacked)
    for n in range(2):
        np.testing.assert_array_equal(got[n], products(lhs, rhs))


def test_the_composite_is_what_jax_writes() -> None:
    """Whoever does not know the composite takes its decomposition: the CPU does."""
    lhs, rhs = operands()
    text = jax.jit(lax.ragged_dot).lower(lhs, rhs, SIZES).as_text()
    (cpu,) = jax.devices("cpu")[:1]
    from jaxlib import _jax

    executable = cpu.client.compile_and_load(text, _jax.DeviceList((cpu,)))
    given = [jax.device_put(a, cpu) for a in (lhs, rhs, SIZES)]
    (result,) = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    np.testing.assert_array_equal(np.asarray(result[0]), products(lhs, rhs))
