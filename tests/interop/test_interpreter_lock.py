"""Copies while a device's queue is full of calls of Python functions: whoever waits must not hold Python's lock."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import faulthandler, time
import jax, jax.numpy as jnp, numpy as np
from tripont.interop import jax_arrays
jax.config.update("jax_platforms", "xpu,cpu")
faulthandler.dump_traceback_later(60, exit=True)

def slow(a):
    time.sleep(0.005)
    return np.asarray(a)

@jax.jit
def call(a):
    return jax.pure_callback(slow, jax.ShapeDtypeStruct(a.shape, a.dtype), a) + 1

x = call(jnp.zeros(4)).block_until_ready()
array = jnp.arange(1 << 18).block_until_ready()
buffer = jax_arrays.read(array, None).buffer
for _ in range(150):  # more than a queue holds
    x = call(x)
copy = buffer.copy_to(buffer.device)
print(int(copy.numpy()[-1]), float(x[0]))
"""


def test_copies_behind_a_full_queue(subprocess_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str((1 << 18) - 1), "151.0"]
