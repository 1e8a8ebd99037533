"""What ``tripont explain`` reads and runs of what others made: dumps and locations name files, artifacts hold code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import PROGRAM, tripont
from tests.cli.test_explain import report_of

SECRET = "the content of a file that has nothing to do with the program"


def explain(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command in ``folder``; -P, because the tests' own packages lie in the checkout."""
    command = [sys.executable, "-P", "-m", "tripont", "explain", *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )


def program_at(*places: str) -> str:
    """A program, of operations at ``places``, each a file."""
    lines = ["func.func @main(%x0: tensor<4xf32>) -> tensor<4xf32> {"]
    for n, place in enumerate(places):
        location = f'loc("{place}":1:1)'
        lines.append(f"  %x{n + 1} = stablehlo.tanh %x{n} : tensor<4xf32> {location}")
    return "\n".join([*lines, f"  return %x{len(places)} : tensor<4xf32>", "}"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory, beside files of others."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "model.py").write_text("the line of others")
    work = tmp_path / "work"
    work.mkdir()
    (work / "own.py").write_text("a line of mine")
    (work / ".hidden").write_text(SECRET)
    (work / "link.py").symlink_to(tmp_path / "secret.txt")
    return work


def shown(page: Path) -> dict[str, Any]:
    """Source file -> what the page shows of it."""
    return {f: runs for f, runs in report_of(page)["sources"].items() if runs}


def test_sources_are_those_below_the_working_directory(folder: Path) -> None:
    outside = folder.parent / "secret.txt"
    inside = [str(folder / n) for n in ("own.py", ".hidden", "link.py")]
    (folder / "p.mlir").write_text(
        program_at(str(outside), "../secret.txt", "/etc/passwd", "own.py", *inside)
    )
    done = explain(folder, "p.mlir", "-o", "page.html", "--no-measure")
    assert done.returncode == 0, done.stderr
    assert set(shown(folder / "page.html")) == {"own.py", str(folder / "own.py")}
    report = report_of(folder / "page.html")
    assert SECRET not in json.dumps(report)
    assert any("--sources" in note for note in report["notes"])


def test_folders_that_the_user_allows(folder: Path) -> None:
    place = str(folder.parent / "others" / "model.py")
    (folder / "p.mlir").write_text(program_at(place))
    for allowed, expected in (((), set()), (("--sources", "../others"), {place})):
        done = explain(folder, "p.mlir", "-o", "page.html", "--no-measure", *allowed)
        assert done.returncode == 0, done.stderr
        assert set(shown(folder / "page.html")) == expected


def test_a_hidden_folder_that_the_user_allows(folder: Path) -> None:
    source = folder / ".venv" / "package" / "model.py"
    source.parent.mkdir(parents=True)
    source.write_text("y = x * 2\n")
    (folder / "p.mlir").write_text(program_at(str(source)))
    for allowed, expected in (((), set()), (("--sources", ".venv/package"), {str(source)})):
        done = explain(folder, "p.mlir", "-o", "page.html", "--no-measure", *allowed)
        assert done.returncode == 0, done.stderr
        assert set(shown(folder / "page.html")) == expected


def test_devices_and_fifos_are_not_read(folder: Path) -> None:
    os.mkfifo(folder / "fifo.py")
    (folder / "zero.py").symlink_to("/dev/zero")
    (folder / "p.mlir").write_text(program_at("/dev/zero", "fifo.py", "zero.py"))
    done = explain(folder, "p.mlir", "-o", "page.html", "--no-measure", "--sources", "/dev")
    assert done.returncode == 0, done.stderr
    assert shown(folder / "page.html") == {}
    done = explain(folder, "/dev/zero", "-o", "page.html")
    assert done.returncode == 1
    assert "device" in done.stderr


@pytest.fixture
def dump(folder: Path) -> Path:
    """A dump, and the artifact of the same program as p.tripont."""
    (folder / "p.mlir").write_text(PROGRAM)
    command = ["compile", folder / "p.mlir", "-o", folder / "p.tripont", "--dump", folder / "dump"]
    assert tripont(*command).returncode == 0
    return folder / "dump"


def test_a_dump_names_files_of_its_own_folder_only(folder: Path, dump: Path) -> None:
    (description,) = dump.glob("*.module.json")
    content = json.loads(description.read_text())
    (dump / "link.txt").symlink_to(folder.parent / "secret.txt")
    os.mkfifo(dump / "fifo.txt")
    stages = [s for s in content["files"] if s.endswith((".txt", ".mlir"))]
    names = [str(folder.parent / "secret.txt"), "../../secret.txt", "link.txt", "fifo.txt", ".."]
    for stage, name in zip(stages, names, strict=False):
        content["files"][stage] = name
    description.write_text(json.dumps(content))
    done = explain(folder, dump, "-o", "page.html")
    assert done.returncode == 0, done.stderr
    report = report_of(folder / "page.html")
    assert SECRET not in json.dumps(report)
    assert not {s["key"] for s in report["stages"]} & set(stages[: len(names)])

    description.unlink()
    os.mkfifo(description)
    done = explain(folder, dump, "-o", "page.html")
    assert done.returncode == 1
    assert "not a regular file" in done.stderr


def test_code_of_others_runs_only_when_asked(folder: Path, dump: Path) -> None:
    for given in (dump, folder / "p.tripont"):
        done = explain(folder, given, "-o", "page.html")
        assert done.returncode == 0, done.stderr
        timeline = report_of(folder / "page.html")["timeline"]
        assert timeline["measured"] is False
        assert "--measure" in timeline["reason"]
        assert "--measure" in " ".join(done.stdout.split())
    done = explain(folder, folder / "p.mlir", "-o", "page.html")  # compiled by the command itself
    assert report_of(folder / "page.html")["timeline"]["measured"], done.stdout


def test_the_page_has_a_policy(folder: Path, dump: Path) -> None:
    """Whatever were to get into the page could load nothing, and send nothing anywhere."""
    done = explain(folder, dump, "-o", "page.html")
    assert done.returncode == 0, done.stderr
    text = (folder / "page.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none';")
    assert text.index("Content-Security-Policy") < text.index("<style>")
