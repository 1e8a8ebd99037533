"""Memory of SYCL devices: the kinds, the statistics, the limit.

The CPU device can access all memory of the process, and uses it. As a GPU it uses shared, host and device allocations.
"""

from __future__ import annotations

import pytest

from .processes import output

BOTH = pytest.mark.parametrize("device", ["sycl:cpu", "sycl:cpu-as-gpu"])

# A program of kernels alone, with temporary values of 4 MB each; and one with a sort, which the host does.
PROGRAMS = """
import numpy as np
from tripont.core import _tripont
type = b"tensor<1024x1024xf32>"
body = b'''
  %0 = stablehlo.transpose %x, dims = [1, 0] : (TYPE) -> TYPE
  %1 = stablehlo.dot %0, %x : (TYPE, TYPE) -> TYPE
  %2 = stablehlo.dot %1, %0 : (TYPE, TYPE) -> TYPE
  return %2 : TYPE
'''
kernels = (b"func.func @main(%x: TYPE) -> TYPE {" + body + b"}").replace(b"TYPE", type)
client = _tripont.Client({"prestart_worker": False, "cache": False})
device = client.devices[0]
program = _tripont.Executable.load(client.compile(kernels)[0])
x = np.eye(1024, dtype=np.float32)
"""


@BOTH
def test_temporary_values_are_counted(device: str) -> None:
    text = output(
        PROGRAMS
        + """
before = device.memory_stats()
(y,) = program.run(device, [x])
assert np.array_equal(y, x)
after = device.memory_stats()
print(after["num_allocs"] > before["num_allocs"], after["peak_bytes_in_use"] >= 3 * x.nbytes)
del y
print(device.memory_stats()["bytes_in_use"] <= before["bytes_in_use"] + 4096)
""",
        TRIPONT_DEVICE=device,
    )
    assert text.split() == ["True", "True", "True"]


@BOTH
def test_the_limit_holds_for_temporary_values(device: str) -> None:
    text = output(
        PROGRAMS
        + """
try:
    program.run(device, [x])
except _tripont.StatusError as error:
    print(error.code, error)
""",
        TRIPONT_MEMORY_LIMIT=str(12 << 20),
        TRIPONT_DEVICE=device,
    )
    assert text.startswith("RESOURCE_EXHAUSTED")


@BOTH
def test_host_memory_kinds(device: str) -> None:
    """An array in pinned host memory is computed with where it lies, and one can be put there."""
    text = output(
        """
        import jax, jax.numpy as jnp
        from jax.sharding import SingleDeviceSharding
        device = jax.devices("xpu")[0]
        host = SingleDeviceSharding(device, memory_kind="pinned_host")
        x = jax.device_put(jnp.arange(1000.0), host)
        y = jax.jit(lambda x: x * 2, out_shardings=host)(x)
        z = jax.device_put(y, SingleDeviceSharding(device, memory_kind="device"))
        print(y.sharding.memory_kind, float(y[999]), z.sharding.memory_kind, float((z + 1).sum()))
        """,
        TRIPONT_DEVICE=device,
    )
    assert text.split() == ["pinned_host", "1998.0", "device", "1000000.0"]
