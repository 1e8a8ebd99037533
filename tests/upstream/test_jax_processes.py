"""The runner of JAX's tests of several processes, on files that write the reports of such tests."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

from tests.upstream import jax_processes, outcomes

# What JAX's files leave behind: the standard error of each of their processes.
TESTS = """
import os, sys
reports = {reports!r}
for number, report in enumerate(reports):
    with open(os.environ["TEST_UNDECLARED_OUTPUTS_DIR"] + f"/jax_{{number}}_stderr.log", "w") as file:
        file.write(report)
assert "--num_processes=2" in sys.argv
sys.exit({status})
"""
PASSES = "[ RUN      ] A.test_one\n[       OK ] A.test_one\n"
SKIPS = "[ RUN      ] A.test_two\n[  SKIPPED ] A.test_two - Test requires 8 global devices.\n"
FAILS = "[ RUN      ] A.test_one\nTraceback ...\n[  FAILED  ] A.test_one\n"
ENDS = PASSES + "[ RUN      ] A.test_three\nFatal Python error: Aborted\n"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    spec = importlib.machinery.ModuleSpec("portpicker", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    (tmp_path / "tests" / "multiprocess").mkdir(parents=True)
    return tmp_path


def _run(source: Path, reports: list[str], status: int, *arguments: str) -> int:
    file = source / "tests" / "multiprocess" / "small_test.py"
    file.write_text(TESTS.format(reports=reports, status=status))
    given = ["--jax", str(source), "--results", str(source / "results"), *arguments]
    return jax_processes.main(given)


def test_a_test_passes_if_it_does_in_all_processes(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(source, [PASSES + SKIPS, PASSES + SKIPS], 0) == 0
    assert "xpu-2x1: 1 passed, 1 skipped, 0 failed" in capsys.readouterr().out
    assert _run(source, [PASSES, FAILS], 1) == 1
    output = capsys.readouterr().out
    assert "NEW A.test_one: it failed in a process" in output
    assert "xpu-2x1: 0 passed, 0 skipped, 1 failed" in output


def test_a_process_that_ends(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(source, [PASSES, ENDS], 1) == 1
    assert "NEW A.test_three: a process ended in it" in capsys.readouterr().out
    assert _run(source, ["", ""], 0) == 1
    assert "no results" in capsys.readouterr().out
    assert _run(source, [PASSES, PASSES], 1) == 1
    assert "a process ended with an error after its tests" in capsys.readouterr().out
    assert _run(source, [PASSES, FAILS], 1, "--platform", "cpu") == 0


def test_no_files_are_no_success(source: Path) -> None:
    assert _run(source, [PASSES, PASSES], 0, "another_test") == 1


def test_known_failures_have_reasons_and_may_depend_on_the_number_of_processes() -> None:
    of_two, of_four = jax_processes.read_known(2), jax_processes.read_known(4)
    for entry in of_two:
        assert entry.kind in outcomes.KINDS
        assert entry.reason
        assert entry.tests
    assert {entry.file for entry in of_two} - {entry.file for entry in of_four} == {"array_test"}
