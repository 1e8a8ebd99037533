"""The script that runs clang-tidy, beside a cmake and a clang-tidy that only say what they were given."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "cmake" / "run_clang_tidy.sh"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose build compiles one of two files."""
    (tmp_path / "cmake").mkdir()
    shutil.copy(SCRIPT, tmp_path / "cmake")
    for file in ("compiled.cc", "other.cc"):
        (tmp_path / file).touch()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    (tmp_path / "build" / "cmake").mkdir(parents=True)
    (tmp_path / "build" / "cmake" / "CMakeCache.txt").write_text(
        "_Python_EXECUTABLE:INTERNAL=/python\n"
    )
    (tmp_path / "build" / "lint").mkdir()
    (tmp_path / "build" / "lint" / "compile_commands.json").write_text(
        json.dumps([{"file": str(tmp_path / "compiled.cc")}])
    )
    (tmp_path / "bin").mkdir()
    for name in ("cmake", "clang-tidy"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("files", [(), ("compiled.cc", "other.cc")], ids=["all", "named"])
def test_files_that_are_not_read_are_named(checkout: Path, files: tuple[str, ...]) -> None:
    done = subprocess.run(
        [checkout / "cmake" / "run_clang_tidy.sh", *files],
        env=os.environ | {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "clang-tidy --quiet -p build/lint compiled.cc\n"
    assert done.stderr == "not read, since the build does not compile it: other.cc\n"


def tracked(*patterns: str) -> list[str]:
    """Files of the repository."""
    command = ["git", "ls-files", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_each_file_can_be_compiled_alone() -> None:
    """A target that always joins its files has no compile commands of them."""
    files = tracked("*CMakeLists.txt", "*.cmake")
    assert len(files) > 3
    assert [f for f in files if "UNITY_BUILD ON" in (ROOT / f).read_text()] == []


def test_every_file_has_compile_commands() -> None:
    """Those of tests and examples, too, which they compile by themselves (cmake/outside.cmake)."""
    files = tracked("tests/*.cc", "examples/*.cc")
    lists = [ROOT / "cmake" / "outside.cmake", ROOT / "core" / "bindings" / "CMakeLists.txt"]
    named = "".join(p.read_text() for p in lists)
    assert len(files) > 5
    assert [f for f in files if f not in named] == []
    assert "-DTRIPONT_OUTSIDE=ON" in SCRIPT.read_text()
