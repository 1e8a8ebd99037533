"""Ctrl-C while JAX compiles, and while a program's callback runs: KeyboardInterrupt at once.

The end of the program does not wait for the compile.
"""

from __future__ import annotations

from pathlib import Path

from tests.starter import run_with_jax

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
    variables = {"TRIPONT_PYTHON": str(silent), "TRIPONT_CACHE": "0"}
    # The worker alone would take 50 s.
    done = run_with_jax(PROGRAM, subprocess_environment | variables, timeout=40)
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
    done = run_with_jax(IN_A_CALLBACK, subprocess_environment, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2.0", "interrupted", "interrupted", "2.0"]
