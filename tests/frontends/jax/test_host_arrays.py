"""Host arrays that the caller writes to after the call that they were given to.

``jax.device_put`` may alias them (``may_alias``); nothing else may. Memory that PyTorch and TensorFlow allocate lies at
multiples of 64 bytes, which is what kernels need to read it in place; NumPy's own does so by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core import _tripont

from tests.starter import run_with_jax

SIZES = [8_000, 131_072, 1 << 20]


@pytest.fixture(autouse=True)
def _on_xpu(xpu: Any) -> Iterator[None]:
    with jax.default_device(xpu):
        yield


def aligned(size: int) -> np.ndarray:
    room = np.empty(4 * size + 64, np.uint8)
    start = -room.ctypes.data % 64
    array = room[start : start + 4 * size].view(np.float32)
    array[:] = 1
    return array


@contextmanager
def occupied(device: Any, busy: bool) -> Iterator[None]:
    """While ``busy``, nothing runs on the device until the block ends."""
    until = _tripont.testing.Event()
    if busy:
        _tripont.testing.occupy(_tripont.Client().devices[device.id], until)
    try:
        yield
    finally:
        until.set_ready()


WAYS: dict[str, Callable[[Any], Any]] = {
    "array": jnp.array,
    "array with a dtype": lambda x: jnp.array(x, jnp.float32),
    "asarray": jnp.asarray,
    "argument": jax.jit(lambda x: x * 1.0),
    "argument of a loop of unknown length": jax.jit(
        lambda x: jax.lax.while_loop(lambda s: s[1] < s[0][0], lambda s: (s[0], s[1] + 1), (x, 0.0))[0] * 1
    ),
    "argument of a callback": jax.jit(
        lambda x: jax.pure_callback(lambda a: np.asarray(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    ),
    "operation": lambda x: jnp.add(x, 0),
    "donated": jax.jit(lambda x: x * 1.0, donate_argnums=0),
}  # fmt: skip


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("way", list(WAYS))
def test_what_is_written_later_is_not_seen(xpu: Any, way: str, busy: bool) -> None:
    for size in SIZES:
        WAYS[way](aligned(size)).block_until_ready()  # compiled before the device is occupied
        array = aligned(size)
        with occupied(xpu, busy):
            result = WAYS[way](array)
            array[:] = 5
        assert (np.asarray(result) == 1).all(), size


def test_a_buffer_that_is_used_again_for_every_batch(xpu: Any) -> None:
    """A loader with one buffer: each step gets the batch that was in it when the step was called."""
    step = jax.jit(
        lambda total, batch, n: jax.lax.fori_loop(0, n, lambda i, t: t + batch[0], total)
    )
    batch = aligned(1 << 18)
    total = jnp.zeros(())
    with occupied(xpu, True):
        for n in range(20):
            batch[:] = n
            total = step(total, batch, 2)
        batch[:] = -1000
    assert float(total) == 2 * sum(range(20))


def test_device_put_may_alias(xpu: Any) -> None:
    """What JAX documents, and XLA's CPU device does: nothing is copied."""
    array = aligned(1 << 20)
    put = jax.device_put(array)
    assert put.unsafe_buffer_pointer() == array.ctypes.data
    assert (np.asarray(jax.jit(lambda x: x + 1)(put)) == 2).all()
    assert put.unsafe_buffer_pointer() == array.ctypes.data


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.frontends.jax.test_host_arrays import aligned
from tripont.core import _tripont

shards = NamedSharding(Mesh(np.array(jax.devices("xpu")), ("x",)), PartitionSpec("x"))
f = jax.jit(lambda a, b: a + b, in_shardings=(shards, shards))
size = 1 << 17
f(aligned(size), jnp.zeros(size)).block_until_ready()
batch, labels = aligned(size), jax.block_until_ready(jnp.zeros(size) + 0)
until = _tripont.testing.Event()
for device in _tripont.Client().devices:
    _tripont.testing.occupy(device, until)
result = f(batch, labels)
batch[:] = 5
until.set_ready()
print(len(jax.devices("xpu")), (np.asarray(result) == 1).all())
"""


def test_an_array_is_sharded_between_lending_one_and_the_start(
    subprocess_environment: dict[str, str],
) -> None:
    """JAX runs a program of its own, which slices the second argument, after it has lent the first."""
    done = run_with_jax(SHARDED, subprocess_environment | {"TRIPONT_NUM_DEVICES": "2"}, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "True"]
