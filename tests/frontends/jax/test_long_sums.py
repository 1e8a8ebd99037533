"""Sums of millions of terms from JAX, where passes have split them: against sums in f64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

TERM = np.float32(0.1)
# 32 + 16 * 6 + 10 roundings of half an epsilon: tests/core/compiler/codegen/kernels/test_accumulation.py says why.
BOUND = 138 * 2.0**-24


def error(got: jax.Array, want: object) -> float:
    return float(np.max(np.abs(np.asarray(got, np.float64) - want) / np.abs(want)))


@pytest.mark.parametrize("n", [65_536, 1 << 20, (1 << 22) + 7, 1 << 24])
def test_equal_terms(n: int) -> None:
    x = jnp.full(n, TERM)
    want = n * np.float64(TERM)
    assert error(jnp.sum(x), want) <= BOUND
    assert error(jnp.dot(x, jnp.ones(n, np.float32)), want) <= BOUND
    assert error(jnp.cumsum(x), np.float64(TERM) * np.arange(1, n + 1)) <= BOUND
    assert error(jnp.sum(x.reshape(-1, 4 if n % 4 == 0 else 1), 0).sum(), want) <= BOUND


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [65_536, (1 << 20) + 1])
def test_cumulative_logarithm_of_sums(n: int, reverse: bool) -> None:
    """Each step of logaddexp has a few roundings of a result of at most log(n + 1) in size."""
    got = jax.jit(lambda x: jax.lax.cumlogsumexp(x, reverse=reverse))(jnp.zeros(n))
    count = np.arange(n, 0, -1) if reverse else np.arange(1, n + 1)
    difference = np.abs(np.asarray(got, np.float64) - np.log(count))
    assert difference.max() <= 4 * BOUND * np.log(n)
