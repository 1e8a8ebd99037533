"""Where compiled kernels are kept: each case in a process of its own, with another environment and working folder."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cpus import levels

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


def build(
    environment: dict[str, str], folder: Path, said: str = "", **variables: str | None
) -> Path:
    """The folder of a kernel that a process in `folder` built. `said`: what its warning says, if there is one."""
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
    assert said in done.stderr if said else not done.stderr, done.stderr
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


@pytest.fixture
def cache(subprocess_environment: dict[str, str]) -> Path:
    return Path(subprocess_environment["TRIPONT_CACHE_DIR"])


def library(cache: Path) -> Path:
    (found,) = (cache / "kernels").glob("twice-*.so")
    return found


@needs_compiler
def test_nobody_else_can_write_a_kernel(
    subprocess_environment: dict[str, str], tmp_path: Path, cache: Path
) -> None:
    before = os.umask(0)
    try:
        assert build(subprocess_environment, tmp_path) == cache / "kernels"
    finally:
        os.umask(before)
    for path in (cache, cache / "kernels", library(cache)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def _foreign(path: Path) -> None:
    os.chown(path, 65534, -1)


def _another(path: Path) -> None:
    """A library that is whole, and was built for another source."""
    source = path.with_suffix(".c")
    source.write_text("__attribute__((constructor)) void f(void) { __builtin_trap(); }")
    path.unlink()
    compiler = str(shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"))
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    path.chmod(0o700)
    source.unlink()


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


_CHANGES = {
    "writable": (lambda path: path.chmod(0o777), "others may write to it"),
    "foreign": (_foreign, "belongs to user 65534"),
    "another": (_another, "digest does not match"),
    "cut": (lambda path: os.truncate(path, path.stat().st_size - 1), "digest does not match"),
    "link": (_link, "cannot be opened"),
    "fifo": (_fifo, "not a regular file"),
}


@needs_compiler
@pytest.mark.parametrize("change", _CHANGES)
def test_kernel_that_is_not_trusted_is_built_again(
    subprocess_environment: dict[str, str], tmp_path: Path, cache: Path, change: str
) -> None:
    if change == "foreign" and os.geteuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    build(subprocess_environment, tmp_path)
    good = library(cache).read_bytes()
    do, said = _CHANGES[change]
    do(library(cache))
    assert build(subprocess_environment, tmp_path, said=said) == cache / "kernels"
    assert not library(cache).is_symlink()
    assert library(cache).read_bytes() == good
    build(subprocess_environment, tmp_path)  # without a warning


@needs_compiler
def test_folder_that_others_may_write_to(
    subprocess_environment: dict[str, str], tmp_path: Path, cache: Path
) -> None:
    for folder in (cache, cache / "kernels"):  # in the upper one, the lower one could be replaced
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
        found = build(subprocess_environment, tmp_path, said="is not trusted: others may write")
        assert found.parent == tmp_path
    shared = build(subprocess_environment, tmp_path, TRIPONT_CACHE_SHARED="1")
    assert shared == cache / "kernels"


# Prints whether the C compiler has AVX2, and the code of a kernel in LLVM IR that adds eight numbers.
INSTRUCTIONS = (
    """
import ctypes
from tripont.kernels import building, prototype
source = """
    + repr("""void level(float* y) {
#ifdef __AVX2__
  *y = 2;
#else
  *y = 1;
#endif
}""")
    + """
answer = ctypes.c_float()
library = ctypes.CDLL(str(building.compile_c(source, prototype.read(source), ())))
library.level(ctypes.byref(answer))
source = "void add(float* y)"
text = '''define void @add(ptr %y) {
  %x = load <8 x float>, ptr %y, align 4
  %z = fadd <8 x float> %x, %x
  store <8 x float> %z, ptr %y, align 4
  ret void
}'''
code, _, _ = building.compile_llvm_ir(text, prototype.read(source))
print(int(answer.value), code.hex())
"""
)


@needs_compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the levels are those of x86-64")
def test_kernels_keep_to_the_chosen_cpu(
    subprocess_environment: dict[str, str], tmp_path: Path
) -> None:
    answers = []
    for cpu in ("x86-64-v2", "x86-64-v3"):
        if missing := levels.lacking(cpu):
            pytest.skip(f"this machine has no {', '.join(missing)}")
        done = subprocess.run(
            [sys.executable, "-c", INSTRUCTIONS],
            env={**subprocess_environment, "TRIPONT_CPU": cpu},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.split())
    (narrow, code), (wide, other) = answers
    assert (narrow, wide) == ("1", "2")
    assert code != other  # 16 bytes at a time, and 32
