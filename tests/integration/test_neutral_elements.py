"""Values that parts of a reduction or a scatter start from: they change no bit of what the program's definition gives.

Sizes are on both sides of those from which on passes split the work.
"""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax

Array = np.ndarray[Any, Any]
SIZES = [1 << 10, 1 << 15]


def assert_same_bits(got: Any, want: Array) -> None:
    """Equal numbers, and equal signs of zeros, in each component."""
    got = np.asarray(got)
    assert got.dtype == want.dtype
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("n", SIZES)
def test_complex_products_leave_other_elements_alone(n: int) -> None:
    x = np.ones(16, np.complex64)
    x[3], x[4] = np.inf, complex(-0.0, -1)
    program = jax.jit(lambda x, i, u: x.at[i].multiply(u))
    got = program(x, np.zeros(n, np.int32), np.ones(n, np.complex64))
    assert_same_bits(got, x)


@pytest.mark.parametrize("dims", [(300,), (300_000,), (40, 300), (300, 40)], ids=str)
def test_complex_products_start_from_their_initial_value(dims: tuple[int, ...]) -> None:
    """(1+1j) * (inf+0j) has no NaN, and (1+0j) * (inf+0j) has."""
    x = np.ones(dims, np.complex64)
    x[(-1,) * len(dims)] = np.inf
    for d in range(len(dims)):
        got = jax.jit(lambda x, d=d: lax.reduce(x, np.complex64(1 + 1j), lax.mul, (d,)))(x)
        want = np.full(x.size // dims[d], 1 + 1j, np.complex64)
        want[-1] = complex(np.inf, np.inf)
        assert_same_bits(got, want.reshape(got.shape))


def minus_zeros(dims: tuple[int, ...], dtype: Any) -> Array:
    value = complex(-0.0, -0.0) if np.issubdtype(dtype, np.complexfloating) else -0.0
    return np.full(dims, value, dtype)


FLOATS = [np.float32, np.float64, ml_dtypes.bfloat16, np.complex64]


@pytest.mark.parametrize("dtype", FLOATS)
def test_scattered_sums_leave_minus_zeros_alone(dtype: Any) -> None:
    with jax.enable_x64(True):
        x = minus_zeros((16,), dtype)
        program = jax.jit(lambda x, i, u: x.at[i].add(u))
        got = program(x, np.zeros(1 << 15, np.int32), np.ones(1 << 15, dtype))
    assert_same_bits(np.asarray(got)[1:], x[1:])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("dims", "dimensions"),
    [((7,), (0,)), ((1000,), (0,)), ((262_147,), (0,)), ((40, 300), (1,)), ((300, 40), (0,)), ((9, 7), (0, 1))],
    ids=str,
)  # fmt: skip
def test_sums_that_start_at_minus_zero_stay_there(
    dtype: Any, dims: tuple[int, ...], dimensions: tuple[int, ...]
) -> None:
    """JAX starts a sum by ``lax.add`` itself at +0.0 always, so this one is by a function of its own."""
    with jax.enable_x64(True):
        start = minus_zeros((), dtype)[()]
        got = jax.jit(lambda x: lax.reduce(x, start, lambda a, b: a + b, dimensions))(
            minus_zeros(dims, dtype)
        )
    assert_same_bits(got, minus_zeros(got.shape, dtype))
