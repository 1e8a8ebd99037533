"""Runs every fuzzer for a while: ``python -m tests.fuzzers --minutes 10`` (``make fuzz-native``).

Those in C++ are built with Clang, which brings libFuzzer; those in Python run under Atheris (PyPI), which is installed
into ``build/fuzz-native`` if it is missing. Inputs that reach new code are kept there for the next run. An input
that fails is kept too and its path is printed: mend what it found, and put it into ``tests/fuzzers/corpus``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .targets import CORPUS, TARGETS

ROOT = CORPUS.parents[2]
FOLDER = ROOT / "build" / "fuzz-native"
NATIVE = ("artifact", "compile_options")
LARGEST = {"artifact": 16384, "artifact_reader": 16384}  # bytes of an input; 4096 unless said here


def clang() -> str | None:
    names = [os.environ.get("CXX", ""), "clang++", *(f"clang++-{n}" for n in range(22, 15, -1))]
    return next((n for n in names if "clang" in n and shutil.which(n)), None)


def build() -> bool:
    """Whether the fuzzers in C++ are there."""
    compiler = clang()
    if compiler is None:
        print("the fuzzers in C++ are left out: they need Clang 16 or newer (Debian: clang-16)")
        return False
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"}
    configure = ["cmake", "-S", CORPUS.parent, "-B", FOLDER / "cmake", "-G", "Ninja"]
    for command in (
        [*configure, f"-DCMAKE_CXX_COMPILER={compiler}"],
        ["cmake", "--build", FOLDER / "cmake"],
    ):
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return True


def install_atheris() -> dict[str, str]:
    """Variables of a process that imports Atheris."""
    if importlib.util.find_spec("atheris"):
        return {}
    packages = FOLDER / "packages"
    if not (packages / "atheris").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", packages, "atheris"]
        subprocess.run(pip, check=True)
    return {"PYTHONPATH": str(packages)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzzers", description=__doc__)
    parser.add_argument("readers", nargs="*", help=f"of {', '.join((*NATIVE, *TARGETS))}")
    parser.add_argument("--minutes", type=float, default=10, help="of all fuzzers together")
    given = parser.parse_args()
    readers = given.readers or [*NATIVE, *TARGETS]
    FOLDER.mkdir(parents=True, exist_ok=True)
    if any(reader in NATIVE for reader in readers) and not build():
        readers = [reader for reader in readers if reader not in NATIVE]
    python = [sys.executable, "-m", "tests.fuzzers.python_fuzzer"]
    variables = install_atheris() if any(reader in TARGETS for reader in readers) else {}
    failed = []
    for reader in readers:
        found = FOLDER / "found" / reader
        found.mkdir(parents=True, exist_ok=True)
        command = [FOLDER / "cmake" / reader] if reader in NATIVE else [*python, reader]
        seconds = max(1, round(60 * given.minutes / len(readers)))
        limits = [f"-max_total_time={seconds}", f"-max_len={LARGEST.get(reader, 4096)}"]
        limits += ["-timeout=20", "-rss_limit_mb=4096", f"-artifact_prefix={FOLDER}/{reader}-"]
        done = subprocess.run(
            [*command, *limits, found, CORPUS / reader],
            cwd=ROOT,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        lines = done.stderr.splitlines()
        if done.returncode:
            failed.append(reader)
            print("\n".join(lines[-60:]))
        summary = next((line for line in reversed(lines) if line.startswith("Done ")), "failed")
        print(f"{reader}: {summary}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
