"""Where compiled kernels are kept: each case in a process of its own, with another environment and working folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")),
    reason="the machine has no C compiler",
)

# Prints the folder of the library, which the process can load.
BUILD = """
import ctypes
from tripont.kernels import building, prototype
source = "void twice(const float* x, float* y) { *y = 2 * *x; }"
library = building.compile_c(source, prototype.read(source), ())
ctypes.CDLL(str(library))
print(library.parent)
"""


def build(environment: dict[str, str], folder: Path, **variables: str | None) -> Path:
    """The folder of a kernel that a process in `folder` built."""
    merged = environment | {"XDG_CACHE_HOME": "", "TMPDIR": str(folder)} | variables
    done = subprocess.run(
        [sys.executable, "-c", BUILD],
        env={name: value for name, value in merged.items() if value is not None},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@needs_compiler
@pytest.mark.parametrize("home", ["/dev/null", "relative", None], ids=["file", "relative", "none"])
def test_without_a_home(
    subprocess_environment: dict[str, str], tmp_path: Path, home: str | None
) -> None:
    folder = build(subprocess_environment, tmp_path, TRIPONT_CACHE_DIR=None, HOME=home)
    assert folder.parent == tmp_path  # TMPDIR
    assert not list(tmp_path.iterdir())  # nothing is left, and nothing was made beside the program


@needs_compiler
def test_a_relative_xdg_cache_home_is_ignored(
    subprocess_environment: dict[str, str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    folder = build(
        subprocess_environment,
        tmp_path,
        TRIPONT_CACHE_DIR=None,
        HOME=str(home),
        XDG_CACHE_HOME="cache",
    )
    assert folder == home / ".cache/tripont/kernels"
    assert list(tmp_path.iterdir()) == [home]


@needs_compiler
def test_without_a_cache(subprocess_environment: dict[str, str], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    folder = build(
        subprocess_environment, tmp_path, TRIPONT_CACHE="0", TRIPONT_CACHE_DIR=str(cache)
    )
    assert folder.parent == tmp_path
    assert not cache.exists()
