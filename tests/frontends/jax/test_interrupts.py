"""Ctrl-C while JAX compiles, and while a program's callback runs: KeyboardInterrupt at once.

The end of the program does not wait for the compile.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# The worker says nothing: only the interrupt ends the compile.
PROGRAM = """
import os, signal, threading, time
import jax
jax.config.update("jax_platforms", "xpu")
jax.devices()
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    jax.jit(lambda a: a + 1)(1.0)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < 30)
"""


def test_ctrl_c(subprocess_environment: dict[str, str], tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 50\n")
    silent.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=subprocess_environment | {"TRIPONT_PYTHON": str(silent), "TRIPONT_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=40,  # the worker alone would take 50
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted", "True"]


IN_A_CALLBACK = """
import os, signal, time
import jax, numpy as np
jax.config.update("jax_platforms", "xpu,cpu")
press = False

def callback(a):
    if press:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    return np.asarray(a)

f = jax.jit(lambda x: jax.pure_callback(callback, jax.ShapeDtypeStruct((), np.float32), x) + 1)
x = jax.numpy.float32(1)
print(f(x))
press = True
for _ in range(2):
    try:
        f(x)
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted")
press = False
print(f(x))
"""


def test_ctrl_c_in_a_callback(subprocess_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_CALLBACK],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2.0", "interrupted", "interrupted", "2.0"]
