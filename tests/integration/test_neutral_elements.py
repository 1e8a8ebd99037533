"""Values that parts of a reduction or a scatter start from: they change no bit of what the program's definition gives.

Sizes are on both sides of those from which on passes split the work.
"""

from __future__ import annotations

from collections.abc import Callable
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


FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.complex64]


@pytest.mark.parametrize("dtype", FLOATS)
def test_scattered_sums_leave_minus_zeros_alone(dtype: Any) -> None:
    with jax.enable_x64(True):
        x = minus_zeros((16,), dtype)
        program = jax.jit(lambda x, i, u: x.at[i].add(u))
        got = program(x, np.zeros(1 << 15, np.int32), np.ones(1 << 15, dtype))
    assert_same_bits(np.asarray(got)[1:], x[1:])


def sums_of_zeros(way: Callable[[Any, Any], Any], dims: tuple[int, ...], dtype: Any) -> None:
    """Sums of -0.0 alone are -0.0 if they start there, and +0.0 if they start at +0.0.

    The start is a number that the compiler knows, or an argument. JAX starts a sum by ``lax.add`` itself at +0.0
    always, so these are by a function of their own.
    """
    x, below = minus_zeros(dims, dtype), minus_zeros((), dtype)[()]
    above = np.zeros((), dtype)[()]
    with jax.enable_x64(True):
        unknown = jax.jit(way)
        for start in (below, above):
            known = jax.jit(lambda x, start=start: way(x, start))
            for got in (known(x), unknown(x, start)):
                assert_same_bits(got, np.full(got.shape, start, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("dims", "dimensions"),
    [((7,), (0,)), ((1000,), (0,)), ((262_147,), (0,)), ((40, 300), (1,)), ((300, 40), (0,)), ((9, 7), (0, 1))],
    ids=str,
)  # fmt: skip
def test_sums_that_start_at_minus_zero_stay_there(
    dtype: Any, dims: tuple[int, ...], dimensions: tuple[int, ...]
) -> None:
    sums_of_zeros(lambda x, s: lax.reduce(x, s, lambda a, b: a + b, dimensions), dims, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dims", [(100,), (5003,), (40, 30)], ids=str)
def test_cumulative_sums_that_start_at_minus_zero_stay_there(
    dtype: Any, dims: tuple[int, ...]
) -> None:
    """Along the first dimension, where vectors run along the second one if there is one."""
    window = (dims[0], *[1] * len(dims[1:]))
    padding = [(dims[0] - 1, 0), *[(0, 0)] * len(dims[1:])]
    sums_of_zeros(
        lambda x, s: lax.reduce_window(x, s, lambda a, b: a + b, window, (1,) * len(dims), padding),
        dims,
        dtype,
    )


def test_sums_of_sums_start_at_both_zeros() -> None:
    """Two sums that become one: +0.0 and an unknown -0.0 are +0.0, -0.0 and -0.0 are -0.0."""
    x, below = minus_zeros((9, 33, 17), np.float32), np.float32(-0.0)

    def sums(x: Any, first: Any, second: Any) -> Any:
        inner = lax.reduce(x, first, lambda a, b: a + b, (1,))
        return lax.reduce(inner, second, lambda a, b: a + b, (0,))

    for first, want in ((np.float32(0), np.float32(0)), (below, below)):
        program = jax.jit(lambda x, second, first=first: sums(x, first, second))
        assert_same_bits(program(x, below), np.full(17, want))
