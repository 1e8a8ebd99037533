"""JAX, TensorFlow and PyTorch/XLA in one process: one device, one worker, one allocator, one compilation."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

_SCRIPT = """
import json
{imports}
import numpy as np
from tripont.core import _tripont

x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
results, counters = {{}}, {{}}


def in_jax():
    y = jax.jit(lambda v: jnp.tanh(v @ v) + 1)(x)
    return y, np.asarray(y)


def in_torch():
    v = torch.from_numpy(x).to("xla")
    y = torch.tanh(v @ v) + 1
    torch_xla.sync(wait=True)
    return y, y.cpu().numpy()


def in_tensorflow():
    with tf.device("/device:XPU:0"):
        y = tf.function(lambda v: tf.tanh(v @ v) + 1, jit_compile=True)(tf.constant(x))
    return y, y.numpy()


kept = []
for name in {order!r}:
    y, results[name] = {{"jax": in_jax, "torch": in_torch, "tensorflow": in_tensorflow}}[name]()
    kept.append(y)
    counters[name] = _tripont.worker_counters()
(device,) = _tripont.Client().devices


def settle():
    # torch_xla's threads let go of what a program read a moment after its results are there.
    torch_xla.sync(wait=True)
    torch_xla.core.xla_model.wait_device_ops()
    device.synchronize()


settle()
before = device.memory_stats()["bytes_in_use"]
kept += [
    jnp.ones(1 << 18).block_until_ready(),
    torch.ones(1 << 18).to("xla"),
]
if "tensorflow" in {order!r}:
    with tf.device("/device:XPU:0"):
        kept.append(tf.identity(tf.ones(1 << 18)))
settle()
print(json.dumps({{
    "agree": all(np.array_equal(r, results["jax"]) for r in results.values()),
    "close": bool(np.allclose(results["jax"], np.tanh(x @ x) + 1, atol=1e-6)),
    "counters": counters,
    "workers": len(_tripont.worker_processes()),
    "grown": device.memory_stats()["bytes_in_use"] - before,
    "seen": [
        device.memory_stats()["bytes_in_use"],
        jax.devices("xpu")[0].memory_stats()["bytes_in_use"],
        torch_xla.core.xla_model.get_memory_info("xla:0")["bytes_used"],
    ],
}}))
"""

_IMPORTS = {
    "jax": "import jax, jax.numpy as jnp",
    "torch": "import tripont.torch_xla, torch, torch_xla, torch_xla.core.xla_model",
    "tensorflow": "import tensorflow as tf",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        # The third begins with the first's, and the device's part in all of them is the same.
        pytest.param(("jax", "torch"), marks=pytest.mark.nightly),
        pytest.param(("torch", "jax", "tensorflow"), marks=pytest.mark.nightly),
        ("jax", "torch", "tensorflow"),
    ],
    ids="-".join,
)
def test_one_core(order, subprocess_environment):
    script = _SCRIPT.format(imports="\n".join(_IMPORTS[name] for name in order), order=order)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=subprocess_environment | {"TRIPONT_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["agree"]
    assert report["close"]
    assert report["workers"] == 1
    # The first framework's program was compiled; to the others its machine code was there.
    reused = [report["counters"][name]["reused"] for name in order]
    compiles = [report["counters"][name]["compiles"] for name in order]
    assert reused[0] == 0
    assert all(later > earlier for earlier, later in itertools.pairwise(reused))
    assert compiles == sorted(compiles)
    # Every framework's statistics count the arrays of all.
    assert report["grown"] >= len(order) << 20
    assert len(set(report["seen"])) == 1
