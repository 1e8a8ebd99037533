"""No program that is compiled reaches memory of others, in processes set up as a user's is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
REFUSED = sorted((HERE / "refused").glob("*.mlir"))


def run_module(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A module of this folder in a process that has nothing of pytest's."""
    environment = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PYTEST_", "PYTHON")) and k != "TRIPONT_VERIFY"
    }
    return subprocess.run(
        [sys.executable, "-m", f"tests.integration.memory_safety.{name}", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, str]]:
    """File name -> what became of the program."""
    done = run_module("outcomes", *map(str, (*REFUSED, *sorted((HERE / "seeds").glob("*.mlir")))))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: (kind, details) for name, kind, details in lines}


@pytest.mark.parametrize("path", REFUSED, ids=lambda p: p.stem)
def test_program_that_would_leave_its_arrays_is_refused(path, outcomes):
    kind, details = outcomes[path.name]
    assert kind == "refused", f"{kind}: {details}"
    assert "INVALID_ARGUMENT" in details
    # The line of the operation that is wrong, which each file marks.
    line = next(n for n, t in enumerate(path.read_text().splitlines(), 1) if "// HERE" in t)
    assert f"<program>:{line}" in details or f'"-":{line}:' in details


def test_valid_programs_run(outcomes):
    """Those that the fuzzer starts from: otherwise it would find nothing."""
    for path in sorted((HERE / "seeds").glob("*.mlir")):
        assert outcomes[path.name] == ("ran", ""), path.name


def test_other_numbers(tmp_path):
    """A short run of the fuzzer, with programs that are the same each time."""
    done = run_module("numbers", "--seed", "300", "--count", "250", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "250 programs" in done.stdout
    assert "ran" in done.stdout  # some are valid
