"""``link_portable.py COMPILER ARGUMENTS...``: link a shared library for glibc 2.28 or newer, as COMPILER would.

Objects of the system's GCC are linked by the wheel ``ziglang``: its linker has the symbol tables of every glibc. Linked
against the system's own, a library would ask for that one's newest symbols. GCC's C++ library becomes a part of each
library, hidden by its version script; the unwinder, of which a process must have one, stays ``libgcc_s.so.1``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

TARGET = "x86_64-linux-gnu.2.28"
UNKNOWN_TO_ZIG = ("--exclude-libs,ALL",)  # version scripts do it
MISSING = Path(__file__).with_name("old_glibc.c")


def linker_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """What of GCC's arguments matters for linking, for zig."""
    for argument in arguments:
        if argument.startswith("-Wl,"):
            for unknown in UNKNOWN_TO_ZIG:
                argument = argument.replace(f",{unknown}", "")
            if argument == "-Wl":
                continue
        elif argument.startswith(("-O", "-g", "-f", "-D", "-W", "-std=")):
            continue  # of the compiler
        yield argument


def library(compiler: str, name: str) -> str:
    """The path of one of GCC's libraries. Raises SystemExit if it is not installed."""
    asked = subprocess.run(
        [compiler, f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True
    )
    path = asked.stdout.strip()
    if not os.path.isabs(path):
        raise SystemExit(f"{compiler} has no {name}")
    return path


def main(compiler: str, *arguments: str) -> int:
    found = importlib.util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the wheel ziglang is not installed: pip install ziglang")
    zig = Path(found.submodule_search_locations[0], "zig")
    with tempfile.TemporaryDirectory() as folder:
        missing = f"{folder}/old_glibc.o"
        compile_missing = [compiler, "-x", "c", "-O2", "-fPIC", "-c", str(MISSING), "-o", missing]
        subprocess.run(compile_missing, check=True)
        of_gcc = [library(compiler, name) for name in ("libstdc++.a", "libgcc.a", "libgcc_s.so.1")]
        command = [
            str(zig),
            "cc",
            "-target",
            TARGET,
            *linker_arguments(arguments),
            missing,
            *of_gcc,
        ]
        # One version script serves both libraries of the TensorFlow adapter; GCC's linker does not mind.
        command += ["-Wl,--undefined-version", "-lpthread", "-ldl", "-lm"]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
