"""Arrays on xpu: transfers, donation, deletion, several devices, views, memory, through JAX's own interface."""

from __future__ import annotations

import gc
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.starter import run_with_jax

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "float16",
    "float32",
    "complex64",
]
DTYPES += [
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.int4,
    ml_dtypes.uint4,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (0, 4), (2, 3, 4)], ids=str)
def test_round_trip(xpu: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    value = (np.arange(size) % 7).reshape(shape).astype(dtype)
    array = jax.device_put(value, xpu)
    assert array.devices() == {xpu}
    np.testing.assert_array_equal(np.asarray(array), value)


def test_strided_inputs(xpu: Any) -> None:
    base = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    for view in (
        base.T,
        base[::2],
        base[:, ::-1],
        base[..., 1],
        np.broadcast_to(base[0], (3, 5, 6)),
    ):
        np.testing.assert_array_equal(np.asarray(jax.device_put(view, xpu)), view)


def test_a_changed_numpy_array_does_not_change_the_device_array(xpu: Any) -> None:
    value = np.ones(1000, np.float32)
    array = jax.device_put(value.copy(), xpu)
    doubled = jax.jit(lambda x: x * 2)(array)
    value[:] = 5
    np.testing.assert_array_equal(np.asarray(doubled), 2.0)


def test_large_array(xpu: Any) -> None:
    value = np.random.default_rng(0).standard_normal((3000, 1001)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(jax.device_put(value, xpu)), value)


def test_donation_is_on(xpu: Any) -> None:
    """JAX hands the donation over, the plugin takes the buffer, and the result lies in the same memory."""
    # A result of a program: an array made from NumPy's memory may be a view of it, which cannot be reused.
    x = jax.jit(lambda a: a * 1)(jax.device_put(np.ones((256, 256), np.float32), xpu))
    address = x.unsafe_buffer_pointer()
    y = jax.jit(lambda a: a + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    assert y.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(np.asarray(y), 2.0)
    with pytest.raises(RuntimeError, match=r"deleted|donated"):
        np.asarray(x)


def test_donation_of_one_of_several(xpu: Any) -> None:
    x, y = (jax.device_put(np.full(100, v, np.float32), xpu) for v in (1.0, 2.0))
    result = jax.jit(lambda a, b: (a * b, b - a), donate_argnums=0)(x, y)
    assert x.is_deleted()
    assert not y.is_deleted()
    np.testing.assert_array_equal(np.asarray(result[0]), 2.0)
    np.testing.assert_array_equal(np.asarray(result[1]), 1.0)
    np.testing.assert_array_equal(np.asarray(y), 2.0)


def test_donation_of_an_array_that_is_also_an_argument(xpu: Any) -> None:
    x = jax.device_put(np.ones(100, np.float32), xpu)
    with pytest.raises((RuntimeError, ValueError), match=r"(?i)donat"):
        jax.jit(lambda a, b: a + b, donate_argnums=0)(x, x)


def test_a_deleted_array_is_refused(xpu: Any) -> None:
    x = jax.device_put(np.ones(100, np.float32), xpu)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jax.jit(lambda a: a + 1)(x)


def test_an_array_of_the_cpu_client_is_refused(xpu: Any, cpu: Any) -> None:
    x, y = jax.device_put(np.ones(3), xpu), jax.device_put(np.ones(3), cpu)
    with pytest.raises(ValueError, match="incompatible devices"):
        jax.jit(jnp.add)(x, y)


def test_between_backends(xpu: Any, cpu: Any) -> None:
    x = jax.device_put(np.arange(10), cpu)
    y = jax.device_put(x, xpu)
    assert y.devices() == {xpu}
    np.testing.assert_array_equal(np.asarray(jax.device_put(y * 2, cpu)), np.arange(10) * 2)


def test_out_of_memory(xpu: Any) -> None:
    """A result larger than any memory is an error, and the device works afterwards."""
    big = jax.jit(lambda: jnp.zeros((1 << 20, 1 << 20), jnp.float32), device=None)
    with jax.default_device(xpu), pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
        big().block_until_ready()
    np.testing.assert_array_equal(
        np.asarray(jax.jit(lambda x: x + 1)(jax.device_put(np.ones(3), xpu))), 2
    )


def test_memory_is_returned(xpu: Any) -> None:
    gc.collect()  # what earlier tests have left would go meanwhile
    stats = xpu.memory_stats()
    assert stats is not None
    before = stats["bytes_in_use"]
    fill = jax.jit(
        lambda i: jnp.full(1 << 18, i, jnp.float32)
    )  # what comes from NumPy may be a view of its memory
    arrays = [fill(jax.device_put(i, xpu)) for i in range(8)]
    jax.block_until_ready(arrays)
    during = xpu.memory_stats()["bytes_in_use"]
    assert during - before >= 8 << 20
    del arrays
    gc.collect()
    assert xpu.memory_stats()["bytes_in_use"] <= before + (1 << 16)


def test_asynchronous_error_free_dispatch(xpu: Any) -> None:
    """Many programs in flight, each using the result of the last one."""
    x = jax.device_put(np.zeros(1000, np.float32), xpu)
    step = jax.jit(lambda a: a + 1)
    for _ in range(2000):
        x = step(x)
    np.testing.assert_array_equal(np.asarray(x), 2000)


def test_threads(xpu: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    function = jax.jit(lambda a: (a @ a).sum())
    arrays = [jax.device_put(np.full((64, 64), i, np.float32), xpu) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda a: float(function(a)), arrays * 20))
    assert results == [64.0**3 * i * i for i in range(8)] * 20


def test_ahead_of_time(xpu: Any) -> None:
    x = jax.device_put(np.ones((8, 8), np.float32), xpu)
    with jax.default_device(xpu):
        compiled = jax.jit(lambda a: jnp.tanh(a @ a)).lower(x).compile()
    assert "tanh" in compiled.as_text() or "fusion" in compiled.as_text()
    costs = compiled.cost_analysis()
    assert (costs[0] if isinstance(costs, list) else costs)["flops"] >= 2 * 8**3
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 256
    np.testing.assert_allclose(np.asarray(compiled(x)), np.tanh(8.0), rtol=1e-6)


def test_serialized_executable(xpu: Any) -> None:
    from jax.experimental import serialize_executable

    x = jax.device_put(np.arange(12, dtype=np.float32), xpu)
    with jax.default_device(xpu):
        compiled = jax.jit(lambda a: (a * 2, a.sum())).lower(x).compile()
        payload, in_tree, out_tree = serialize_executable.serialize(compiled)
        loaded = serialize_executable.deserialize_and_load(
            payload, in_tree, out_tree, backend="xpu", execution_devices=[xpu]
        )
    doubled, total = loaded(x)
    np.testing.assert_array_equal(np.asarray(doubled), np.arange(12) * 2)
    assert float(total) == 66


def test_memory_kinds(xpu: Any) -> None:
    kinds = {memory.kind for memory in xpu.addressable_memories()}
    assert {"device", "pinned_host", "unpinned_host"} <= kinds
    sharding = jax.sharding.SingleDeviceSharding(xpu, memory_kind="pinned_host")
    host = jax.device_put(np.arange(5), sharding)
    assert host.sharding.memory_kind == "pinned_host"
    back = jax.device_put(host, jax.sharding.SingleDeviceSharding(xpu, memory_kind="device"))
    np.testing.assert_array_equal(np.asarray(back), np.arange(5))


SEVERAL_DEVICES = """
import jax, jax.numpy as jnp, numpy as np
devices = jax.devices("xpu")
assert len(devices) == 4, devices
assert [d.id for d in devices] == [0, 1, 2, 3]
for i, device in enumerate(devices):
    x = jax.device_put(np.full((33, 33), i, np.float32), device)
    y = jax.jit(lambda a: a @ a + 1)(x)
    assert y.devices() == {device}
    np.testing.assert_array_equal(np.asarray(y), 33 * i * i + 1)
moved = jax.device_put(y, devices[1])
assert moved.devices() == {devices[1]}
np.testing.assert_array_equal(np.asarray(moved), 33 * 9 + 1)
donated = jax.jit(lambda a: a * 2, donate_argnums=0)(moved)
assert moved.is_deleted() and donated.devices() == {devices[1]}
try:
    jax.jit(jnp.add)(jax.device_put(1.0, devices[0]), jax.device_put(1.0, devices[1]))
except ValueError as error:
    assert "incompatible devices" in str(error)
else:
    raise AssertionError("arrays of two devices were added")
print("several devices work")
"""


def test_several_devices(subprocess_environment: dict[str, str]) -> None:
    environment = subprocess_environment | {"TRIPONT_NUM_DEVICES": "4"}
    result = run_with_jax(SEVERAL_DEVICES, environment, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "several devices work" in result.stdout
