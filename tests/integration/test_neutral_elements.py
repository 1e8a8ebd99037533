"""Values that parts of a reduction or a scatter start from: they change no bit of what the program's definition gives.

Sizes are on both sides of those from which on passes split the work.
"""

from __future__ import annotations

from typing import Any

import jax
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
