"""Host callbacks of programs for several devices: once for a whole array, or once for the part of each device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax, shard_map
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

VALUES = np.arange(8, dtype=np.float32)
WHOLE = jax.ShapeDtypeStruct(VALUES.shape, VALUES.dtype)


@pytest.fixture
def sharded(mesh: Mesh) -> jax.Array:
    return jax.device_put(VALUES, NamedSharding(mesh, P("x")))


class Recorder:
    """A callback that keeps what it is called with, and gives twice that."""

    def __init__(self) -> None:
        self.calls: list[np.ndarray[Any, Any]] = []

    def __call__(self, x: Any) -> Any:
        self.calls.append(np.array(x))
        return self.calls[-1] * 2

    def only_record(self, x: Any) -> None:
        self(x)


@pytest.mark.parametrize("ordered", [False, True])
def test_io_callback_of_a_sharded_array(sharded: jax.Array, ordered: bool) -> None:
    recorder = Recorder()
    result = jax.jit(lambda x: io_callback(recorder, WHOLE, x, ordered=ordered))(sharded)
    np.testing.assert_array_equal(result, 2 * VALUES)
    jax.effects_barrier()
    np.testing.assert_array_equal(recorder.calls, [VALUES])


def test_callbacks_without_results(sharded: jax.Array) -> None:
    recorder = Recorder()

    @jax.jit
    def f(x: Any) -> Any:
        jax.debug.callback(recorder.only_record, x)
        return lax.fori_loop(0, 2, step, x)

    def step(i: Any, x: Any) -> Any:
        io_callback(recorder.only_record, None, x * 10)
        return x + 1

    np.testing.assert_array_equal(f(sharded), VALUES + 2)
    jax.effects_barrier()
    assert len(recorder.calls) == 3
    expected = [VALUES, VALUES * 10, (VALUES + 1) * 10]
    np.testing.assert_array_equal(sorted(map(tuple, recorder.calls)), sorted(map(tuple, expected)))


def test_pure_callback_and_its_sharded_result(mesh: Mesh, sharded: jax.Array) -> None:
    @jax.jit
    def f(x: Any) -> Any:
        y = jax.pure_callback(lambda v: np.asarray(v)[::-1] + 1, WHOLE, x)
        return lax.with_sharding_constraint(y * 2, NamedSharding(mesh, P("x")))

    result = f(sharded)
    assert result.sharding.spec == P("x")
    np.testing.assert_array_equal(result, 2 * (VALUES[::-1] + 1))


def test_each_device_calls_with_its_part(mesh: Mesh, sharded: jax.Array) -> None:
    recorder = Recorder()
    part = jax.ShapeDtypeStruct((2,), np.float32)
    f = shard_map(
        lambda x: io_callback(recorder, part, x), mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    np.testing.assert_array_equal(jax.jit(f)(sharded), 2 * VALUES)
    jax.effects_barrier()
    assert sorted(map(tuple, recorder.calls)) == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_an_exception_reaches_the_user(sharded: jax.Array) -> None:
    def fail(x: Any) -> Any:
        raise ValueError("not this array")

    with pytest.raises(Exception, match="not this array"):
        jax.block_until_ready(jax.jit(lambda x: io_callback(fail, WHOLE, x))(sharded))
