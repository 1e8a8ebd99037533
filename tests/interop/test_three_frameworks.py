"""tripont.interop with PyTorch/XLA and TensorFlow, on tripont's device, in one process: their arrays are copied."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

PROGRAM = """
import tripont.torch_xla, torch, torch_xla  # before TensorFlow: both register the same option of LLVM
import jax, numpy as np, tensorflow as tf
from tripont import interop

expected = np.float32([[1, 2, 3], [4, 5, 6]])
lazy = torch.arange(6.0).reshape(2, 3).to(torch_xla.device()) + 1
with tf.device("/device:XPU:0"):
    eager = tf.constant(expected) * 1
on_jax = jax.device_put(expected, jax.devices("xpu")[0])
for array in (lazy, eager, on_jax, expected):
    for convert in (interop.to_jax, interop.to_numpy, interop.to_torch, interop.to_tensorflow):
        np.testing.assert_array_equal(interop.to_numpy(convert(array)), expected)
assert interop.to_jax(lazy).devices() == on_jax.devices()
assert "XPU:0" in interop.to_tensorflow(lazy, device="/device:XPU:0").device
assert interop.to_tensorflow(eager, device="/device:XPU:0") is eager
for array, convert, reason in (
    (lazy, interop.to_jax, "xla:0"),
    (eager, interop.to_torch, "XPU:0"),
    (on_jax, interop.to_tensorflow, "TensorFlow copies"),
):
    try:
        convert(array, copy=False)
    except interop.ExchangeError as error:
        assert reason in str(error) and "float32" in str(error), error
    else:
        raise AssertionError(f"{convert} did not refuse to copy")
print("all exchanged")
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch_xla", "tensorflow"))),
    reason="TensorFlow or PyTorch/XLA is not installed",
)
def test_every_pair(subprocess_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("all exchanged")
