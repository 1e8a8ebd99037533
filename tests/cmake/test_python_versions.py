"""pyproject.toml names the versions of Python that are supported; every text that names them says the same."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tripont.cli import doctor

ROOT = Path(__file__).resolve().parents[2]
CLASSIFIERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
VERSIONS = [c.rpartition(" ")[2] for c in CLASSIFIERS if "Python :: 3." in c]
RANGE = f"{VERSIONS[0]} to {VERSIONS[-1]}"
TEXTS = ("Makefile", "README.md", "docs/development.md", "docs/troubleshooting.md")


def test_texts_name_them() -> None:
    for name in TEXTS:
        found = re.findall(r"Python (3\.\d+ to 3\.\d+)", (ROOT / name).read_text())
        assert found, name
        assert {*found} == {RANGE}, name


def test_doctor_knows_them() -> None:
    ends = (doctor.OLDEST_PYTHON, doctor.NEWEST_PYTHON)
    assert [f"{major}.{minor}" for major, minor in ends] == [VERSIONS[0], VERSIONS[-1]]
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in VERSIONS


def test_an_environment_is_made_of_no_other(tmp_path: Path) -> None:
    """The script beside a find_python.sh that finds nothing, whatever the machine has."""
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake/find_python.sh").write_text("find_python() { return 1; }\n")
    for name in ("cmake/make_environment.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        [str(tmp_path / "cmake/make_environment.sh"), "--interpreter"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 1
    assert f"no Python {RANGE} found" in done.stderr


def test_wheels_are_built_for_each() -> None:
    program = "from develop import pythons_of, read_pyproject; print(*pythons_of(read_pyproject()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / "cmake",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == VERSIONS
