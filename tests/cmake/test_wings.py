"""The C++ of wings, and that of tests, can be left out of a build: nothing else names it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The sources of each wing, and the headers that declare what is in them alone.
SOURCES = {
    "kernels": {"core/bindings/kernels.cc", "core/runtime/ffi/kernel.cc"},
    "interop": {"core/bindings/exchange.cc", "core/bindings/frameworks.cc"},
}
HEADERS = {"core/runtime/ffi/kernel.h", "core/bindings/dlpack.h"}


def configure(folder: Path, without: str, *options: str) -> subprocess.CompletedProcess[str]:
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin")
    assert cmake is not None, "`make dev` installs cmake"
    return subprocess.run(
        [
            *(cmake, "-S", str(ROOT), "-B", str(folder), f"-DPython_EXECUTABLE={sys.executable}"),
            *(f"-DTRIPONT_WITHOUT={without}", "-DTRIPONT_TENSORFLOW=OFF", *options),
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        ],
        capture_output=True,
        text=True,
    )


def test_a_build_without_kernels_and_interop_and_tests(tmp_path):
    done = configure(tmp_path, "kernels;interop", "-DTRIPONT_TESTING=OFF")
    assert done.returncode == 0, done.stderr
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    built = "".join(path.read_text() for path in tmp_path.rglob("unity_*.cxx"))
    built += "".join(command["file"] for command in commands)
    assert "core/bindings/module.cc" in built
    for source in set().union(*SOURCES.values()) | {"tests/core/runtime/testing.cc"}:
        assert source not in built


def test_a_wing_that_is_none_is_refused(tmp_path):
    done = configure(tmp_path, "kernel")
    assert done.returncode != 0
    assert 'no wing "kernel"' in done.stderr


def test_nothing_else_includes_their_headers():
    own = set().union(*SOURCES.values())
    for folder in ("core", "pjrt", "nextpluggable"):
        for path in (ROOT / folder).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".cc", ".h") and name not in own:
                assert not [h for h in HEADERS if f'#include "{h}"' in path.read_text()], name
