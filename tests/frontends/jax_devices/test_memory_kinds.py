"""Sharded programs whose arrays lie in the host's memory, or go there and back, on four devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SPECS = pytest.mark.parametrize("spec", [P(), P("x"), P(None, "x")], ids=str)


def kinds(array: jax.Array) -> set[str]:
    """The kinds of memory in which the parts of an array really are."""
    return {shard.data.sharding.memory_kind for shard in array.addressable_shards}


@SPECS
def test_results_in_the_memory_of_the_host(mesh: Mesh, spec: P) -> None:
    host = NamedSharding(mesh, spec, memory_kind="pinned_host")
    x = np.arange(96, dtype=np.float32).reshape(8, 12)
    y = jax.jit(lambda x: x * 2, out_shardings=host)(x)
    assert kinds(y) == {"pinned_host"}
    np.testing.assert_array_equal(y, x * 2)
    z = jax.jit(lambda y: jax.device_put(y, host.with_memory_kind("device")) + 1)(y)
    assert kinds(z) == {"device"}
    np.testing.assert_array_equal(z, x * 2 + 1)


@SPECS
def test_results_with_a_layout_in_the_memory_of_the_host(mesh: Mesh, spec: P) -> None:
    host = NamedSharding(mesh, spec, memory_kind="pinned_host")
    wanted = Format(Layout((1, 0)), host)
    x = np.arange(96, dtype=np.float32).reshape(8, 12)
    y = jax.jit(lambda x: x * 2, out_shardings=wanted)(x)
    assert kinds(y) == {"pinned_host"}
    assert y.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(y, x * 2)
    # JAX leaves this one's layout to the compiler, which finds the constraint.
    z = jax.jit(lambda x: with_layout_constraint(x * 2, wanted.layout), out_shardings=wanted)(x)
    assert kinds(z) == {"pinned_host"}
    assert z.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(z, x * 2)


def test_a_loop_that_keeps_its_state_in_the_memory_of_the_host(mesh: Mesh) -> None:
    device = NamedSharding(mesh, P("x"))
    host = device.with_memory_kind("pinned_host")

    @jax.jit
    def program(x: jax.Array) -> jax.Array:
        def step(kept: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jax.device_put(jax.device_put(kept, device) * 2, host), None

        return jax.device_put(lax.scan(step, jax.device_put(x, host), None, length=3)[0], device)

    x = jax.device_put(jnp.arange(16.0), device)
    y = program(x)
    assert kinds(y) == {"device"}
    np.testing.assert_array_equal(y, np.arange(16.0) * 8)
