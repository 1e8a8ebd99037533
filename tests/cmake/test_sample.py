"""What `make test-fast` runs: every file outside of the frameworks' folders, and of every test at least a row."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import left_out_of_sample

ROOT = Path(__file__).parents[2]
# Files in which every test is slow: `make test-fast` runs nothing of them.
SLOW = {
    "tests/conformance/test_on_sycl.py",
    "tests/examples/test_three_frameworks.py",
    "tests/fuzz/test_faults.py",
    "tests/integration/test_three_frameworks.py",
    "tests/integration/test_wings.py",
}


class Row:
    """An item of a table: a test function with parameters."""

    def __init__(self, name: str, number: int, *, whole: bool = False) -> None:
        self.nodeid = f"tests/test_file.py::{name}[{number}]"
        self.number = number
        self.mark = pytest.mark.whole.mark if whole else None

    def get_closest_marker(self, name: str) -> Any:
        assert name == "whole"
        return self.mark


def kept(rows: list[Any], share: int = 8) -> list[Any]:
    left_out = left_out_of_sample(rows, share)
    return [row for row in rows if row not in left_out]


def test_one_row_in_eight_and_always_the_same() -> None:
    rows = [Row("test_many", n) for n in range(80)]
    chosen = kept(rows)
    assert len(chosen) == 10
    assert kept(rows[::-1])[::-1] == chosen
    assert [row.number for row in chosen] != list(range(0, 80, 8))
    assert kept(rows, 1) == rows


@pytest.mark.parametrize(("count", "chosen"), [(1, 1), (2, 1), (8, 1), (9, 2), (16, 2), (17, 3)])
def test_a_table_has_at_least_a_row(count: int, chosen: int) -> None:
    assert len(kept([Row("test_some", n) for n in range(count)])) == chosen


def test_a_table_with_the_mark_is_whole() -> None:
    rows = [Row("test_ops", n, whole=True) for n in range(9)]
    assert kept(rows) == rows


def test_every_table_is_a_choice_of_its_own() -> None:
    rows = [Row(f"test_{table}", n) for table in range(20) for n in range(3)]
    assert [row.nodeid.partition("[")[0] for row in kept(rows)] == [
        f"tests/test_file.py::test_{table}" for table in range(20)
    ]


def test_pytest_takes_the_sample(tmp_path: Path) -> None:
    """With the configuration of this project, whose option leaves out rows and which knows the mark."""
    for name, mark in (("test_rows", ""), ("test_all_rows", "@pytest.mark.whole\n")):
        test = f'@pytest.mark.parametrize("n", range(16))\ndef {name}(n):\n    assert n >= 0\n'
        (tmp_path / f"{name}.py").write_text(f"import pytest\n\n{mark}{test}")
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--sample", "8"]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "18 passed, 14 deselected" in done.stdout, done.stdout + done.stderr


def command_of(target: str) -> list[str]:
    """The arguments of pytest in a command of the Makefile, whatever command runs this test."""
    environment = {k: v for k, v in os.environ.items() if k != "ARGS" and not k.startswith("MAKE")}
    command = ["make", "--dry-run", target]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    (line,) = [line for line in done.stdout.splitlines() if "-m pytest" in line]
    return line.partition("-m pytest")[2].split()


def test_only_folders_of_frameworks_are_left_out_of_test_fast() -> None:
    arguments = command_of("test-fast")
    left_out = {a.removeprefix("--ignore=") for a in arguments if a.startswith("--ignore=")}
    assert left_out == {
        *(f"tests/frontends/{name}" for name in ("tensorflow", "torch_xla", "torchax")),
        *("tests/interop/frameworks", "tests/interop/test_interop.py"),
        *("tests/kernels/frameworks", "tests/nextpluggable"),
    }
    assert [a for a in arguments if a.startswith("tests")] == ["tests"]
    assert "not slow" in " ".join(arguments)
    assert not {"-k", "--deselect", "--lf"} & set(arguments)


def is_slow(node: ast.AST) -> bool:
    """Whether the decorators of a function or class say pytest.mark.slow."""
    decorators = getattr(node, "decorator_list", [])
    return any(ast.unparse(d).endswith("pytest.mark.slow") for d in decorators)


def runs_something(path: Path) -> bool:
    """Whether a file has a test that is not slow (a row that is slow leaves the others)."""
    tree = ast.parse(path.read_text())
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and "mark.slow" in ast.unparse(statement.value):
            return False  # pytestmark
    tests = [
        node
        for owner in ast.walk(tree)
        if isinstance(owner, ast.Module | ast.ClassDef) and not is_slow(owner)
        for node in owner.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    ]
    return any(not is_slow(test) for test in tests)


def test_every_other_file_has_a_test_that_runs() -> None:
    ignored = [a.removeprefix("--ignore=") for a in command_of("test-fast") if "--ignore" in a]
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(files) > 250
    silent = {
        file
        for file in files
        if not file.startswith(tuple(ignored)) and not runs_something(ROOT / file)
    }
    assert silent == SLOW
