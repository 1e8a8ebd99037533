"""cmake/make_environment.sh makes what is missing, and removes nothing of the user's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "cmake" / "make_environment.sh"


def make_environment(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}  # no HOME
    return subprocess.run(
        [str(SCRIPT), str(folder)], env=environment, capture_output=True, text=True, timeout=200
    )


def test_a_folder_with_other_files_stays(tmp_path: Path) -> None:
    precious = tmp_path / "my files" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("years of work")
    done = make_environment(precious.parent)
    assert done.returncode == 1
    assert "is not a virtual environment" in done.stderr
    assert precious.read_text() == "years of work"


def test_an_environment_whose_making_was_interrupted_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    done = make_environment(folder)
    assert done.returncode == 0, done.stderr
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "--version"], check=True, stdout=subprocess.DEVNULL)
    assert make_environment(folder).stdout == ""  # what works is kept


def find_python(lowest: str, highest: str, path: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.with_name("find_python.sh")
    return subprocess.run(
        ["bash", "-c", f"source {script}; find_python {lowest} {highest}"],
        env={"PATH": path},
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_interpreters_that_do_not_run_or_are_of_another_version(tmp_path: Path) -> None:
    for name, text in (("python3.11", "exit 127"), ("python3.12", f'exec {sys.executable} "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    newest = f"3.{max(12, sys.version_info[1])}"  # python3.12 is this interpreter in truth
    found = find_python("3.11", newest, path)
    assert found.stdout.strip() == "python3.12", found.stderr
    for other in ("3.9", "3.98"):
        nothing = find_python(other, other, path)
        assert nothing.returncode == 1
        assert nothing.stdout == ""
