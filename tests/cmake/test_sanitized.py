"""Builds with sanitizers: the environment beside the running one, and that a mistake is reported."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

RACE = """
#include <atomic>
std::atomic<int> arrived{0};
volatile int counter;
extern "C" void work() {
  for (++arrived; arrived < 2;) {}
  for (int i = 0; i < 1000; ++i) counter = counter + 1;
}
"""
THREADS = """
import ctypes, sys, threading
library = ctypes.CDLL(sys.argv[1])
threads = [threading.Thread(target=library.work) for _ in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
print("ran")
"""


@pytest.fixture(scope="module")
def sanitized() -> ModuleType:
    specification = importlib.util.spec_from_file_location("sanitized", ROOT / "cmake/sanitized.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["sanitized"] = module  # dataclasses look there
    specification.loader.exec_module(module)
    return module


def test_the_environment_has_the_packages_and_not_tripont(
    sanitized: ModuleType, tmp_path: Path
) -> None:
    for _ in range(2):  # the second time everything is there
        python = sanitized.make_environment(tmp_path / "venv")
    script = "import sys, numpy; print(sys.prefix); import tripont"
    done = subprocess.run(
        [python, "-c", script],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(tmp_path / "venv"), done.stderr
    assert "No module named 'tripont'" in done.stderr


def test_every_suppression_names_a_library_of_others() -> None:
    for path in (ROOT / "cmake" / "sanitizers").iterdir():
        rules = [r for r in path.read_text().splitlines() if r and not r.startswith("#")]
        assert rules
        assert all(r.partition(":")[2].startswith("lib") and "tripont" not in r for r in rules)


def test_every_test_that_is_named_exists(sanitized: ModuleType) -> None:
    """pytest says nothing of a --deselect or --ignore that matches no test."""
    named = {*sanitized.MEMORY_TESTS, *sanitized.THREAD_TESTS}
    for name in sorted(test for test in named if not test.startswith("-k=")):
        path, _, function = (name.partition("=")[2] or name).partition("::")
        assert (ROOT / path).exists(), name
        if function:
            assert f"def {function}(" in (ROOT / path).read_text(), name


@pytest.mark.parametrize("name", ["address", "undefined", "thread"])
def test_a_worker_starts_without_the_library(
    sanitized: ModuleType, tmp_path: Path, name: str
) -> None:
    try:
        variables = sanitized.variables(name, tmp_path)
    except (SystemExit, subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip(f"the compiler has no library of the {name} sanitizer")
    assert variables["LD_PRELOAD"]
    script = "import os, sys; print(sys.prefix, 'LD_PRELOAD' in os.environ, *sys.argv[1:])"
    done = subprocess.run(
        [*sanitized.launcher(variables), variables["TRIPONT_PYTHON"], "-c", script, "a b"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{sys.prefix} False a b\n"), done.stderr


def test_a_race_is_reported(sanitized: ModuleType, tmp_path: Path) -> None:
    try:
        sanitized.library("libtsan.so")
    except (SystemExit, subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("the compiler has no library of the thread sanitizer")
    library = tmp_path / "race.so"
    (tmp_path / "race.cc").write_text(RACE)
    command = [sanitized.compiler(), "-O1", "-g1", "-fPIC", "-shared", "-fsanitize=thread"]
    subprocess.run([*command, tmp_path / "race.cc", "-o", library], check=True)
    (tmp_path / "reports").mkdir()
    start = sanitized.launcher(sanitized.variables("thread", tmp_path))
    done = subprocess.run(
        [*start, sys.executable, "-c", THREADS, library],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stderr + "".join(r.read_text() for r in sanitized.reports(tmp_path))
    if "unexpected memory mapping" in said:
        pytest.skip(
            "the thread sanitizer cannot start: addresses are random here and cannot be fixed"
        )
    assert done.stdout.strip() == "ran", said
    (report,) = sanitized.reports(tmp_path)
    assert "data race" in report.read_text()
    assert "in work" in report.read_text()
