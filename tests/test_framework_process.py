"""Test files in processes of their own: which share one, what chooses tests there, and what is said of failures."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.framework_process import spread

_ROOT = Path(__file__).parents[1]

_OUTER = """
import pytest
from tests.framework_process import in_few_processes

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = in_few_processes(items)
"""

_INNER = """
from tests.framework_process import make_module

def pytest_pycollect_makemodule(module_path, parent):
    return make_module(
        module_path, parent, apart=[["test_c.py"], ["test_d.py", "test_e.py"]], first=["test_b.py"]
    )
"""

_TEST = """
import importlib
import os
from pathlib import Path
import pytest
from tests.framework_process import with_all_packages

def test_{name}():
    Path(__file__).with_suffix(".pid").write_text(str(os.getpid()))
    with open("order", "a") as order:
        print("{name}", file=order)
    assert "{name}" != "{wrong}"

def test_packages_that_only_examples_use_are_hidden():
    if "{name}" != "outside":
        with pytest.raises(ImportError, match="hides matplotlib"):
            importlib.import_module("matplotlib")
        assert with_all_packages(os.environ)["PYTHONPATH"] == {path!r}
"""


def _run(folder: Path, *arguments: str, wrong: str = "") -> tuple[str, dict[str, str]]:
    """What pytest says of a folder with test_outside.py and a folder with five files, and each test's process."""
    inner = folder / "inner"
    inner.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -ra\n")
    (folder / "conftest.py").write_text(_OUTER)
    (inner / "conftest.py").write_text(_INNER)
    files = {name: inner / f"test_{name}.py" for name in "abcde"}
    for name, path in (files | {"outside": folder / "test_outside.py"}).items():
        path.write_text(_TEST.format(name=name, wrong=wrong, path=str(_ROOT)))
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments, "."]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(_ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == bool(wrong), done.stdout + done.stderr
    return done.stdout, {p.stem: p.read_text() for p in folder.rglob("*.pid")}


def test_files_of_a_folder_share_a_process(tmp_path: Path) -> None:
    said, processes = _run(tmp_path)
    assert processes.keys() == {*(f"test_{name}" for name in "abcde"), "test_outside"}
    assert processes["test_a"] == processes["test_b"]
    assert processes["test_d"] == processes["test_e"]
    assert len({*processes.values()}) == 4
    assert (tmp_path / "order").read_text().split() == ["b", "a", "c", "d", "e", "outside"]
    # The processes come first.
    names = ["in_one_process", "own", "in_one_process[test_d, test_e]", "test_outside"]
    places = [said.index(f"{name} PASSED") for name in names]
    assert places == sorted(places)


def test_tests_are_chosen_in_the_process(tmp_path: Path) -> None:
    said, processes = _run(tmp_path, "-k", "test_b or test_c")
    assert processes.keys() == {"test_b", "test_c"}
    assert "inner/test_b.py::in_a_process_of_its_own PASSED" in said


def test_a_failure_is_named(tmp_path: Path) -> None:
    said, _ = _run(tmp_path, wrong="b")
    assert "in_one_process FAILED" in said
    assert "FAILED inner/test_b.py::test_b" in said
    assert "1 failed" in said


@pytest.mark.parametrize(
    ("workers", "first"),
    [(1, ["ABCDE"]), (2, ["ABCDE", ""]), (3, ["ACE", "", "BD"]), (4, ["ACE", "", "BD", ""])],
)
def test_long_items_do_not_wait_for_one_another(workers: int, first: list[str]) -> None:
    """They are the first ones of the parts that xdist's worksteal hands out."""
    long: list[Any] = [*"ABCDE"]
    others: list[Any] = [*range(101)]
    items = spread(long, others, workers)
    assert [item for item in items if item in others] == others
    left = items
    for remaining, expected in zip(range(workers, 0, -1), first, strict=True):
        size = len(left) // remaining
        part, left = left[:size], left[size:]
        assert part[: len(expected)] == [*expected]
        assert all(item in others for item in part[len(expected) :])


def test_more_long_items_than_a_worker_gets() -> None:
    long: list[Any] = [*"ABCDE"]
    others: list[Any] = [1]
    assert sorted(map(str, spread(long, others, 4))) == [*"1ABCDE"]


_FRAMEWORKS = {"torch", "tensorflow", "keras"}


def _imported_with(source: str) -> set[str]:
    """The frameworks that importing a file with this source imports: bodies of functions and strings do not run."""
    found = set()
    left: list[ast.AST] = [ast.parse(source)]
    while left:
        node = left.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                left += node.args.defaults
                left += [] if isinstance(node, ast.Lambda) else node.decorator_list
                continue
            case ast.Import():
                found |= {name.name.split(".")[0] for name in node.names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.split(".")[0])
            case ast.Call(
                func=ast.Attribute(attr="importorskip"), args=[ast.Constant(value=str(module)), *_]
            ):
                found.add(module.split(".")[0])
        left += ast.iter_child_nodes(node)
    return found & _FRAMEWORKS


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os\nimport torch.nn as nn", {"torch"}),
        ("try:\n    from tensorflow import keras\nexcept ImportError:\n    pass", {"tensorflow"}),
        ("keras = pytest.importorskip('keras.layers')", {"keras"}),
        ("@mark(pytest.importorskip('torch'))\ndef f(): pass", {"torch"}),
        ("def f():\n    import torch\nfrom . import keras", set()),
        ('PROGRAM = """\nimport tensorflow\n"""', set()),
    ],
)
def test_imports_of_frameworks_are_found_where_they_run(source: str, expected: set[str]) -> None:
    assert _imported_with(source) == expected


def test_no_framework_is_imported_while_all_tests_are_collected() -> None:
    """Every process that runs some tests collects all, but for those of the folders that have processes."""
    tests = _ROOT / "tests"
    apart = {
        file.parent for file in tests.rglob("conftest.py") if "make_module" in file.read_text()
    }
    files = [file for file in tests.rglob("test_*.py") if not apart & {*file.parents}]
    assert len(files) > 200
    assert [str(file) for file in files if _imported_with(file.read_text())] == []
