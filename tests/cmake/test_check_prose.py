"""The check of docs/style.md's patterns: what it finds, what it leaves alone, and where it looks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[2] / "cmake" / "check_prose.py"


@pytest.fixture(scope="module")
def prose() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("check_prose", PATH)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "text",
    [
        "a {} is no array of JAX",
        "its function is none of this process",
        "the attributes are none",
        "a mesh of [2] has not 4 devices",
        "a type that the device has not",
        "a function of this module needs it not",
        "Of the random inputs.",
        "read. Of types other than integers: bits",
        "element types that there are not",
        "the first are taken, which are there",
        "What is not dense is refused",
        "the low bits of such a one",
        "the program has two results of those",
    ],
)
def test_patterns_are_found(prose: types.ModuleType, text: str) -> None:
    assert list(prose.faults(text))


@pytest.mark.parametrize(
    "text",
    [
        "there is no device 3",
        "RuntimeError if there is none.",
        "it is no longer there",
        "the program has not been compiled",
        "what helps: set TRIPONT_DEVICE=host",
        "bytes all arrays may take (default 0: what the machine has)",
        "the size of each array",
        "one of these devices",
    ],
)
def test_plain_sentences_pass(prose: types.ModuleType, text: str) -> None:
    assert list(prose.faults(text)) == []


def test_strings_and_docstrings_of_python_but_no_comments(
    prose: types.ModuleType, tmp_path: Path
) -> None:
    file = tmp_path / "code.py"
    file.write_text(
        '''"""It is no module."""

def f(x):
    """It is no function."""
    # It is no comment.
    y = "it is no table"  # prose: not a message
    raise TypeError(
        f"a {type(x).__name__} is "
        "no array"
    )
'''
    )
    found = {fault.split(": ")[0] for fault in prose.check_file(file)}
    assert found == {f"{file}:{line}" for line in (1, 4, 8)}


def test_literals_and_comments_of_cpp_over_several_lines(
    prose: types.ModuleType, tmp_path: Path
) -> None:
    file = tmp_path / "code.cc"
    file.write_text(
        """#include "is no header"
// "It is not
// a header": it is
// no header.
return InvalidArgument("device ", number, " is none of "
                       "them");
return InvalidArgument("device ", number, " is not there");
"""
    )
    found = [fault.split(": ")[0] for fault in prose.check_file(file)]
    assert found == [f"{file}:5", f"{file}:2"]


def test_subjects_of_commits(prose: types.ModuleType) -> None:
    assert prose.check_subject("A subject of a good length\n\n" + "body " * 50) == []
    (fault,) = prose.check_subject("long " * 15 + "\n")
    assert "74 characters" in fault or "75 characters" in fault
    assert prose.check_subject("Revert " + "long " * 20) == []


def test_the_command_fails_where_something_is_found(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(PATH), *arguments], capture_output=True, text=True, check=False
        )

    message = tmp_path / "message"
    message.write_text("x" * 73)
    assert run("--message", str(message)).returncode == 1
    message.write_text("x" * 72)
    assert run("--message", str(message)).returncode == 0
    bad = tmp_path / "bad.py"
    bad.write_text('error("this is no array")\n')
    found = run(str(bad))
    assert found.returncode == 1
    assert f"{bad}:1: 'is no a'" in found.stdout


def test_no_string_of_the_product_has_a_pattern(prose: types.ModuleType) -> None:
    root = PATH.parents[1]
    folders = ("benchmarks", "core", "examples", "frontends", "nextpluggable", "pjrt", "tripont")
    files = [p for folder in folders for p in sorted((root / folder).rglob("*.*"))]
    checked = [p for p in files if p.suffix in {".py", ".cc", ".h"}]
    assert len(checked) > 300
    assert [fault for path in checked for fault in prose.check_file(path)] == []


def test_no_page_has_a_pattern(prose: types.ModuleType) -> None:
    root = PATH.parents[1]
    pages = [root / "README.md", root / "SECURITY.md", *(root / "docs").glob("*.md")]
    pages += (root / "examples").glob("*/*.md")
    checked = [page for page in pages if page.name != "style.md"]  # which has an example of each
    assert len(checked) > 30
    assert [fault for path in checked for fault in prose.check_file(path)] == []


def test_pages_are_read_by_paragraphs_items_and_cells(
    prose: types.ModuleType, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        """# What is missing

This is
no sentence.

```
this is no code
```
* What it prints: the time.
* What lies on a device stays there.
  1. It is none
     of them.

| what | which are there, as it is |
|---|---|
| is no cell | a cell |
"""
    )
    lines = [fault.split(": ")[0].split(":")[1] for fault in prose.check_file(page)]
    assert lines == ["3", "10", "11", "14", "16"]


def test_docstrings_are_read_by_paragraphs(prose: types.ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        'def f():\n    """Makes an array.\n\n    Raises TypeError for what is no\n    array.\n    """\n'
    )
    (fault,) = prose.check_file(path)
    assert "is no a" in fault
    path.write_text('def f():\n    """One of\n\n    those that exist."""\n')
    assert not prose.check_file(path)
