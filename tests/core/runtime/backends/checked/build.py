"""Builds the shared library and the installed package that register the backend."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tripont.core.schema import generate

from tripont import library_path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[4]


def compiler() -> list[str]:
    """The command of the C++ compiler: ``$CXX``, else c++, g++ or clang++; empty if there is none."""
    given = shlex.split(os.environ.get("CXX", ""))
    if given:
        return given
    return next(([name] for name in ("c++", "g++", "clang++") if shutil.which(name)), [])


def missing() -> str:
    return "" if compiler() else "there is no C++ compiler"


@functools.cache
def library() -> Path:
    """The shared library, built from the checkout's headers for the tripont that is imported; kept between runs."""
    runtime = Path(library_path())
    headers = sorted((ROOT / "core" / "runtime").rglob("*.h"))
    headers += sorted((ROOT / "core" / "schema").glob("*.py"))
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in (HERE / "backend.cc", *headers)))
    digest.update(f"{runtime} {compiler()}".encode())
    folder = ROOT / "build" / "checked"
    folder.mkdir(parents=True, exist_ok=True)
    built = folder / f"libchecked-{digest.hexdigest()[:16]}.so"
    if not built.exists():
        command = [*compiler(), "-std=c++20", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra"]
        command += ["-I", str(ROOT), str(HERE / "backend.cc"), "-L", str(runtime.parent)]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            generate.main(Path(scratch), ROOT)
            command += ["-I", scratch]
            output = Path(scratch, "backend.so")
            done = subprocess.run(
                [*command, "-ltripont", "-o", str(output)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            output.rename(built)
    return built


@functools.cache
def package() -> Path:
    """A folder for sys.path in which the target is an installed package, with its entry point."""
    folder = Path(tempfile.mkdtemp(prefix="checked-target-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copy(HERE / "checked_target.py", folder)
    metadata = folder / "checked_target-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: checked-target\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[tripont.targets]\nchecked = checked_target:REGISTRATION\n"
    )
    return folder


def environment() -> dict[str, str]:
    """The variables of a process that uses the backend."""
    path = os.pathsep.join(filter(None, [str(package()), os.environ.get("PYTHONPATH", "")]))
    return {"TRIPONT_BACKENDS": str(library()), "PYTHONPATH": path}


if __name__ == "__main__":  # for `eval "$(python -m tests.core.runtime.backends.checked.build)"`
    for name, value in environment().items():
        print(f"export {name}={shlex.quote(value)}")
