"""Ctrl-C while JAX compiles: KeyboardInterrupt at once, and the program ends without waiting for the compile."""

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
