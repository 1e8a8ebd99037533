"""A client made without options: the interpreter of its compile worker, and its compiler's fingerprint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tripont.core import _tripont

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


def test_only_files_in_absolute_folders_are_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder named python3, and the working folder, which an empty or relative part of PATH names."""
    (tmp_path / "folder" / "python3").mkdir(parents=True)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "python3").write_text("not executable")
    (tmp_path / "good").mkdir()
    good = tmp_path / "good" / "python3"
    for script in (good, tmp_path / "python3"):
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    useless = f":.:good:{tmp_path}/folder:{tmp_path}/plain:"
    monkeypatch.setenv("PATH", f"{useless}{tmp_path}/good:")
    assert _tripont.find_python("") == str(good)
    monkeypatch.setenv("PATH", useless)
    with pytest.raises(_tripont.StatusError, match="no python3 on PATH") as caught:
        _tripont.find_python("")
    assert caught.value.code == "NOT_FOUND"
    for path in (tmp_path / "folder" / "python3", tmp_path / "plain" / "python3"):
        with pytest.raises(_tripont.StatusError, match="cannot be executed"):
            _tripont.find_python(str(path))
