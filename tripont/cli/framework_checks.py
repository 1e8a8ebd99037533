"""The checks of ``tripont doctor`` that ask each framework whether it sees the device, and why not.

A framework may be missing: that is not a fault. Each is tried in a process of its own.
"""

from __future__ import annotations

import importlib.metadata
import os
import time

from .finding import ERROR, OK, WARNING, Finding, in_process


def check_jax_entry_point() -> Finding:
    entries = importlib.metadata.entry_points(group="jax_plugins")
    found = [e.value for e in entries if e.value == "tripont.frontends.jax"]
    if found:
        return Finding("JAX entry point", OK, found[0])
    return Finding(
        "JAX entry point",
        ERROR,
        "JAX does not know of tripont",
        "pip install --force-reinstall tripont",
    )


JAX = """
import time, warnings
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_platforms", "xpu,cpu")
start = time.perf_counter()
devices = jax.devices("xpu")
ready = time.perf_counter()
x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
y = jax.jit(lambda a: jnp.tanh(a @ a).sum(0))(jax.device_put(x, devices[0]))
y = np.asarray(y)
done = time.perf_counter()
difference = np.abs(y - np.tanh(x.astype(np.float64) @ x).sum(0)).max()
assert difference < 1e-3, f"wrong result: off by {difference}"
print(f"{len(devices)} x {devices[0].device_kind}; start {ready - start:.2f} s, first result {done - ready:.2f} s")
"""


def check_jax() -> Finding:
    start = time.perf_counter()
    good, answer = in_process(JAX)
    if good:
        return Finding("JAX", OK, f"{answer} {since(start)}")
    fix = "the first error above is the likely cause; TRIPONT_LOG_LEVEL=3 says more"
    return Finding("JAX", ERROR, answer, fix)


def installed(*names: str) -> str:
    """The version of the first distribution of these that is installed; empty if none is."""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


TENSORFLOW = """
import tensorflow as tf, tripont.tensorflow
tripont.tensorflow.check()
with tf.device("XPU:0"):
    y = tf.reduce_sum(tf.constant([1.0, 2.0]) * 3)
assert "XPU" in y.device and float(y) == 9, f"wrong result: {y}"
print(len(tf.config.list_physical_devices("XPU")), "x XPU")
"""


def check_tensorflow() -> Finding:
    version = installed("tensorflow-cpu", "tensorflow")
    if not version:
        return Finding("TensorFlow", OK, "not installed (pip install 'tripont[tensorflow]')")
    start = time.perf_counter()
    good, answer = in_process(TENSORFLOW, timeout=300, TF_CPP_MIN_LOG_LEVEL="2")
    if good:
        return Finding("TensorFlow", OK, f"{version}, {answer} {since(start)}")
    answer = answer.removeprefix("RuntimeError: ")
    if "adapter was built for TensorFlow" in answer:
        return Finding("TensorFlow", WARNING, answer, "pip install 'tripont[tensorflow]'")
    return Finding("TensorFlow", ERROR, f"{version}: {answer}", "docs/troubleshooting.md")


TORCH_XLA = """
import torch, torch_xla
from torch_xla.core import xla_model
y = torch.arange(4.0, device="xla") * 2
assert y.cpu().tolist() == [0, 2, 4, 6], f"wrong result: {y}"
kind = xla_model.xla_device_hw(torch_xla.device())
assert kind == "XPU", f"its device is {kind}"
print(len(xla_model.get_xla_supported_devices()), "x", kind)
"""


def check_torch_xla() -> Finding:
    version = installed("torch_xla")
    if not version:
        return Finding("PyTorch/XLA", OK, "not installed (pip install 'tripont[torch]')")
    start = time.perf_counter()
    good, answer = in_process(TORCH_XLA, timeout=300, PJRT_DEVICE="XPU")
    if not good:
        fix = "pip install 'tripont[torch]' brings the torch and torch_xla that belong together"
        return Finding("PyTorch/XLA", ERROR, f"{version}: {answer}", fix)
    detail = f"{version} with torch {installed('torch')}, {answer} {since(start)}"
    chosen = os.environ.get("PJRT_DEVICE", "")
    if chosen in ("", "XPU"):
        return Finding("PyTorch/XLA", OK, detail)
    fix = "unset PJRT_DEVICE, or set it to XPU"
    return Finding("PyTorch/XLA", WARNING, f"{detail}; PJRT_DEVICE={chosen} leaves it out", fix)


def since(start: float) -> str:
    return f"({time.perf_counter() - start:.1f} s with imports)"
