"""What callers in C++ may meet: threads that drop one reference at once, and memory that runs out within a call."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fuzzers import c_api


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler on this machine")
    source = Path(__file__).with_name("hard_times.cc")
    return c_api.command(source, tmp_path_factory.mktemp("hard_times"))


@pytest.mark.parametrize("what", ["references", "allocations"])
def test_hard_times(command: list[str], what: str) -> None:
    done = subprocess.run(
        [*command, what], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
