"""Random calls of the C API: a few hundred inputs, and that the fuzzer tells of what goes wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fuzzers import c_api

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler on this machine")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return c_api.build(tmp_path_factory.mktemp("c_api"))


def test_calls(command: list[str]) -> None:
    assert c_api.failure(command, 0, 250) == ""


def test_what_goes_wrong_is_told(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 7\necho 8\necho oh >&2\nkill -SEGV $$\n")
    program.chmod(0o755)
    told = c_api.failure([str(program)], 7, 10)
    assert told.startswith("the input of seed 8 ends the process with -11")
    assert "oh" in told
    program.write_text("#!/bin/sh\necho 7\nexec sleep 60\n")
    told = c_api.failure([str(program)], 7, 10, seconds=3)
    assert told.startswith("the input of seed 7 ends the process with -9")
