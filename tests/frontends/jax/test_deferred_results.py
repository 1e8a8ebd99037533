"""A product and its transpose as results: the second is made when somebody reads it. What JAX does with it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tripont import interop

_N = 512


@pytest.fixture
def both() -> Any:
    """x, w -> a product and its transpose, after enough work that they are not there at once."""

    def function(x: Any, w: Any) -> tuple[Any, Any]:
        for _ in range(4):
            x = jnp.tanh(x @ w)
        product = x @ w
        return product, product.T

    jitted = jax.jit(function)
    x, w = (
        jax.device_put(np.random.default_rng(seed).standard_normal((_N, _N)).astype(np.float32))
        for seed in range(2)
    )
    return lambda: jitted(x, w)


def test_its_address_is_that_of_its_content(both: Any) -> None:
    product, transpose = jax.block_until_ready(both())
    address = transpose.unsafe_buffer_pointer()
    assert address not in (0, product.unsafe_buffer_pointer())
    content = np.ctypeslib.as_array((ctypes.c_float * (_N * _N)).from_address(address))
    np.testing.assert_array_equal(content.reshape(_N, _N), np.asarray(product).T)


def test_who_asked_whether_it_is_ready_before_a_program_took_it_waits_for_its_content(
    both: Any,
) -> None:
    """JAX keeps the event that it was given first."""
    expected = np.asarray(both()[0]).T
    add = jax.jit(lambda a: a + 1)
    for _ in range(5):
        transpose = both()[1]
        transpose.is_ready()
        added = add(transpose)
        np.testing.assert_array_equal(np.array(transpose), expected)
        np.testing.assert_array_equal(np.asarray(added), expected + 1)


def test_it_is_donated_deleted_and_exported(both: Any) -> None:
    product, transpose = both()
    in_place = jax.jit(lambda a: a * 2, donate_argnums=0)
    doubled = in_place(transpose)
    assert transpose.is_deleted()
    np.testing.assert_array_equal(np.asarray(doubled), 2 * np.asarray(product).T)
    product, transpose = both()
    product.delete()
    np.testing.assert_array_equal(np.asarray(transpose) * 2, np.asarray(doubled))
    product, transpose = both()
    np.testing.assert_array_equal(np.from_dlpack(interop.export(transpose)), np.asarray(product).T)
    both()[1].delete()


_NO_ROOM = """
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x, w: (x @ w, (x @ w).T))
g = jax.jit(lambda a: a + 1)
x = jnp.full((512, 512), 0.5, jnp.float32)
product, transpose = jax.block_until_ready(f(x, x))
g(product).block_until_ready()
filler = []
try:
    while True:
        filler.append(jax.device_put(np.zeros(512 * 512, np.float32)))
except jax.errors.JaxRuntimeError:
    pass
for read in (np.asarray, g, lambda a: a.unsafe_buffer_pointer()):
    try:
        read(transpose)
    except Exception as error:
        assert "RESOURCE_EXHAUSTED" in str(error) and "f32[512,512]" in str(error), error
    else:
        raise AssertionError("there was room")
filler.clear()
np.testing.assert_array_equal(np.asarray(transpose), np.asarray(product).T)
print("read at last")
"""


def test_no_room_for_its_content_is_an_error_and_it_can_be_read_later() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _NO_ROOM],
        env={**os.environ, "TRIPONT_MEMORY_LIMIT": str(16 << 20), "JAX_PLATFORMS": "xpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "read at last" in done.stdout, done.stderr
