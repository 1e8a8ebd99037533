"""Documents that say what a program prints: the settings, the README's lines, the tutorial's dumps."""

from __future__ import annotations

import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "environment.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of the wheel's tests")
def test_environment_page_is_complete() -> None:
    from tripont.core import _tripont

    page = PAGE.read_text()
    for option, variable, meaning in _tripont.options():
        assert f"| `{variable}` | `{option}` | {meaning} |" in page


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of the wheel's tests")
def test_every_variable_that_is_read_is_listed() -> None:
    internal = {"TRIPONT_IN_WORKER"}
    page = PAGE.read_text()
    pattern = re.compile(
        r"""(?:getenv\(|environ(?:\.get)?[\[(]|environment(?:\.get)?[\[(])["'](TRIPONT_\w+)["']"""
    )
    for folder in ("core", "pjrt", "frontends", "tripont", "cmake"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".cc", ".h"} and path.is_file():
                for variable in pattern.findall(path.read_text()):
                    assert variable in internal or f"`{variable}`" in page, (
                        f"{variable}, read in {path}"
                    )


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of the wheel's tests")
def test_the_lines_of_the_readme_run(subprocess_environment: dict[str, str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "XpuDevice" in result.stdout


TUTORIAL = ROOT / "docs" / "tutorial.md"


@pytest.fixture
def tutorial() -> str:
    if not TUTORIAL.exists():
        pytest.skip("the documentation is not part of the wheel's tests")
    return TUTORIAL.read_text()


def test_the_program_of_the_tutorial_runs(
    tutorial: str, subprocess_environment: dict[str, str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", tutorial, re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "stablehlo.add" in result.stdout
    assert "[2. 2. 2. 2. 2. 2. 2. 2.]" in result.stdout


def test_the_dumps_of_the_tutorial_are_what_the_compiler_writes(
    tutorial: str, subprocess_environment: dict[str, str], tmp_path: Path
) -> None:
    """Word for word; of the assembly, which is LLVM's, the instructions' names."""
    (program,) = re.findall(r"```mlir\n(.*?)```", tutorial, re.DOTALL)
    (tmp_path / "add_one.mlir").write_text(program)

    def run(line: str) -> None:
        result = subprocess.run(
            [sys.executable, "-m", "tripont", *shlex.split(line)[1:]],
            env=subprocess_environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr

    commands = re.findall(r"^    (tripont .*)$", tutorial, re.MULTILINE)
    assert [c.split()[1] for c in commands] == ["compile", "run", "inspect", "explain"]
    run(commands[0])
    shown = re.findall(
        r"`(dumps/module_0001\.add_one\.[\w.-]+)`[^`]*?(?:`[^`]+`[^`]*?)*?\n```\n(.*?)```",
        tutorial,
        re.DOTALL,
    )
    assert len(shown) == 6
    for file, text in shown:
        written = (tmp_path / file).read_text()
        if file.endswith(".s"):
            names = [line.split()[0] for line in text.splitlines()]
            words = [line.split()[0] for line in written.splitlines() if line.split()]
            start = words.index(names[0])
            assert words[start : start + len(names)] == names
        else:
            assert text.strip() in written, file
    if platform.machine() == "x86_64" and "avx2" in Path("/proc/cpuinfo").read_text():
        for command in commands[1:3]:
            run(command)


def test_the_files_that_the_tutorial_reads_are_there(tutorial: str) -> None:
    files = re.findall(r"`((?:core|pjrt)/[\w/]+\.\w+)`", tutorial)
    assert len(files) >= 8
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert len(re.findall(r"^## \d\. ", tutorial, re.MULTILINE)) == 7
