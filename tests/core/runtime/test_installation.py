"""A client made without options: the interpreter of its compile worker, and its compiler's fingerprint."""

from __future__ import annotations

import os
import subprocess
import sys

# The library is told nothing, and no python3 on PATH could help it.
_SCRIPT = """
import os
from tripont.core import _tripont
client = _tripont.Client()
program = b"func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"
for from_cache in (False, True):
    artifact, found = client.compile(program, format="mlir")
    assert found is from_cache, found
pid = _tripont.worker_processes()[0]
print(open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")[0].decode())
"""


def _run(environment, script=_SCRIPT):
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_worker_runs_on_the_interpreter_of_the_process(subprocess_environment):
    environment = subprocess_environment | {"PATH": "/nonexistent"}
    environment.pop("TRIPONT_PYTHON", None)
    assert _run(environment) == sys.executable


def test_fingerprint_from_the_files_is_part_of_the_key(subprocess_environment):
    environment = {k: v for k, v in subprocess_environment.items() if k != "TRIPONT_PYTHON"}
    _run(environment)
    folder = environment["TRIPONT_CACHE_DIR"]
    assert len([name for name in os.listdir(folder) if name.endswith(".tripont")]) == 1
    _run(environment | {"TRIPONT_COMPILER_FINGERPRINT": "another state"})
    assert len([name for name in os.listdir(folder) if name.endswith(".tripont")]) == 2
