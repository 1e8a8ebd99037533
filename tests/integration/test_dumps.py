"""Dumps asked for from outside a program, in a process of its own: XLA's flags, our variable, a folder that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
f = jax.jit(lambda x: jnp.tanh(x @ x).sum(0))
x = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64)
device = jax.devices("xpu")[0]
np.testing.assert_allclose(f(jax.device_put(x, device)), np.tanh(x @ x).sum(0), rtol=1e-4, atol=1e-4)
print("the result is right")
"""


def run(folder: Path, **environment: str) -> str:
    """Standard error of the program, saved as a file so that its lines are sources."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    if flags := environment.get("XLA_FLAGS"):
        # Beside those of all tests: JAX's cache has other programs for others.
        environment["XLA_FLAGS"] = f"{os.environ['XLA_FLAGS']} {flags}"
    done = subprocess.run(
        [sys.executable, str(path)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the result is right" in done.stdout
    return done.stderr


@pytest.mark.parametrize("variable", ["XLA_FLAGS", "TRIPONT_DUMP_TO"])
def test_a_program_in_a_process_of_its_own(tmp_path: Path, variable: str) -> None:
    folder = tmp_path / "dumps"
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=fuse"
    run(tmp_path, **{variable: flags if variable == "XLA_FLAGS" else str(folder)})
    (path,) = folder.glob("module_*.jit__lambda.module.json")
    module = json.loads(path.read_text())
    assert module["complete"]
    sources = {
        (Path(s["file"]).name, s["line"]) for o in module["operations"] for s in o["sources"]
    }
    assert ("program.py", 3) in sources
    fused = list(folder.glob("*.optimization.*after_fuse*"))
    assert len(fused) == (1 if variable == "XLA_FLAGS" else 0)


@pytest.mark.parametrize("variable", ["XLA_FLAGS", "TRIPONT_DUMP_TO"])
def test_a_program_from_the_cache_of_jax(tmp_path: Path, variable: str) -> None:
    """It is not compiled, and still dumped: what it holds itself."""
    cached = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    run(tmp_path, **cached)
    folder = tmp_path / "dumps"
    flags = f"--xla_dump_to={folder}"
    run(tmp_path, **cached, **{variable: flags if variable == "XLA_FLAGS" else str(folder)})
    (text,) = folder.glob("module_*.jit__lambda.after_optimizations.txt")
    assert "tanh" in text.read_text()
    assert not list(folder.glob("*.received.*"))


@pytest.mark.parametrize("variable", ["XLA_FLAGS", "TRIPONT_DUMP_TO"])
def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, variable: str) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    folder = str(blocked / "dumps")
    error = run(
        tmp_path, **{variable: f"--xla_dump_to={folder}" if variable == "XLA_FLAGS" else folder}
    )
    assert f"cannot write dumps to {folder}" in error
    assert "the compilation goes on without them" in error
