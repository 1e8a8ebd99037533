"""Exchanges on SYCL devices: one that uses the process's memory, and one that has memory of its own.

The second is the CPU device, treated as a GPU: nothing of the host's is read in place, and arrays are in the device's
allocations.
"""

from __future__ import annotations

import importlib.util

import pytest

from tests.core.runtime.backends.sycl.conftest import sycl_device  # noqa: F401
from tests.core.runtime.backends.sycl.processes import output
from tests.starter import starter_of

# `make test-fast` runs in an environment without PyTorch: the other way back is tested there all the same.
BACK = ["interop.to_numpy"]
if importlib.util.find_spec("torch"):
    BACK.append("lambda x, **options: interop.to_torch(x, device='cpu', **options)")
BOTH = pytest.mark.parametrize("kind", ["sycl:cpu", "sycl:cpu-as-gpu"])

PRELUDE = """
import jax, numpy as np
from tripont import interop

def refusal(call):
    try:
        call()
    except interop.ExchangeError as error:
        return str(error)

array = interop.empty((64, 65))
array[...] = np.arange(array.size).reshape(array.shape)
"""

HOST = f"""
x = jax.device_put(array, jax.devices("xpu")[0]) + 1
assert interop.pointer(x) == x.unsafe_buffer_pointer()
for convert in ({", ".join(BACK)},):
    y = convert(x)
    assert (np.asarray(y) == array + 1).all()
    print(refusal(lambda: convert(x, copy=False)) or interop.pointer(y) == interop.pointer(x))
y = interop.to_jax(array) + 1
assert (np.asarray(y) == array + 1).all()
print(refusal(lambda: interop.to_jax(array, copy=False)) or interop.pointer(interop.to_jax(array)) == array.ctypes.data)
print(interop.statistics())
"""

FRAMEWORKS = """
x = jax.device_put(array, jax.devices("xpu")[0]) + 1
address = interop.pointer(x)
for _ in range(2):
    for convert in (interop.to_tensorflow, interop.to_torch, interop.to_jax):
        x = convert(x, copy=False)
        assert interop.pointer(x) == address
assert interop.statistics().copies == 0
assert (np.asarray(x) == array + 1).all()
for convert in (interop.to_tensorflow, interop.to_torch, interop.to_jax):
    with tf.device("XPU:0"):
        x = convert(x, copy=False) + 1
assert (interop.to_numpy(x) == array + 4).all()
print(interop.to_tensorflow(x).device, interop.to_torch(x).device)
whole = interop.to_jax(np.arange(12, dtype=np.int32).reshape(3, 4))  # TensorFlow has these on the host
print(interop.to_numpy(interop.to_tensorflow(whole)).tolist())
"""


def test_the_process_s_memory_is_shared() -> None:
    text = output(PRELUDE + HOST, TRIPONT_DEVICE="sycl:cpu")
    *shared, statistics = text.splitlines()
    assert shared == ["True"] * (len(BACK) + 1)
    assert "copies=0" in statistics


def test_memory_of_its_own_is_copied() -> None:
    text = output(PRELUDE + HOST, TRIPONT_DEVICE="sycl:cpu-as-gpu")
    *back, to_jax, statistics = text.splitlines()
    assert len(back) == len(BACK)
    for line in back:
        assert line.startswith("the jax.Array of shape (64, 65) and dtype float32 cannot be shared")
        assert "has memory of its own" in line
        assert line.endswith("(leave out copy=False)")
    assert to_jax.startswith("the numpy.ndarray of shape (64, 65) and dtype float32 cannot be")
    assert "cannot read the process's memory in place" in to_jax
    assert f"copies={len(BACK) + 1}" in statistics


@pytest.mark.slow
@BOTH
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch_xla", "tensorflow"))),
    reason="the frameworks are extras",
)
def test_three_frameworks_share_device_memory(kind: str) -> None:
    imports = (
        "from tests import three_frameworks\nthree_frameworks.load()\nimport tensorflow as tf\n"
    )
    starter = starter_of("tests.three_frameworks")
    text = output(imports + PRELUDE + FRAMEWORKS, starter, TRIPONT_DEVICE=kind)
    devices, whole = text.splitlines()[-2:]
    assert devices == "/job:localhost/replica:0/task:0/device:XPU:0 xla:0"
    assert whole == "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]"
