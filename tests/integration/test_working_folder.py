"""Helper processes started from a folder of somebody else's files, which have the names of modules.

The program itself lies elsewhere and imports none of them; no helper may run any.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

NAMES = ("struct", "socket", "select", "signal", "random", "json", "numpy", "tripont", "jaxlib")

# Compiles a program on a real worker and prints its command line's flags.
COMPILE = """
import sys
import tripont.core._tripont as t
client = t.Client({"device": "host", "cache": False})
program = b"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
client.compile(program)
(worker,) = t.worker_processes()
words = open(f"/proc/{worker}/cmdline").read().split("\\0")
print(*words[1 : words.index("-c")])
"""

LLVM_IR = """
from tripont.kernels import building, prototype
signature = prototype.read("void f(const float* x, float* y)")
print(len(building.compile_llvm_ir("define void @f(ptr %x, ptr %y) { ret void }", signature)[0]) > 0)
"""

DOCTOR = """
from tripont.cli.finding import in_process
print(in_process("import struct, socket, numpy, tripont.core, jaxlib; print(numpy.zeros(2).sum())"))
"""

MEASURE = """
import tripont.core._tripont as t
from tripont.explain.measure import measure
client = t.Client({"device": "host", "cache": False})
program = b"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { %0 = stablehlo.tanh %a : tensor<2xf32> return %0 : tensor<2xf32> }"
timeline = measure(client.compile(program)[0], "host", seconds=60)
print(timeline.runs > 0, timeline.reason)
"""


@pytest.fixture
def strange_folder(tmp_path: Path) -> Path:
    """A working folder with modules that leave a trace and fail."""
    folder = tmp_path / "strange"
    folder.mkdir()
    for name in NAMES:
        package = folder / name
        package.mkdir()
        (package / "__init__.py").write_text(
            f"import sys\nopen({str(tmp_path / 'trace')!r}, 'a').write({name!r} + ' ')\n"
            f"raise SystemExit('{name} of the working folder')\n"
        )
    return folder


def run(code: str, environment: dict[str, str], folder: Path, flags: tuple[str, ...] = ()) -> str:
    """What a program that lies elsewhere prints when it is run from `folder`."""
    program = folder.parent / "app" / "program.py"
    program.parent.mkdir(exist_ok=True)
    program.write_text(code)
    done = subprocess.run(
        [sys.executable, *flags, str(program)],
        env={k: v for k, v in environment.items() if not k.startswith("PYTHON")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    trace = folder.parent / "trace"
    assert not trace.exists(), f"a helper ran {trace.read_text()}of the working folder"
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [((), "-P"), (("-I", "-O"), "-I -O -P"), (("-E", "-s", "-B"), "-E -s -B -P")],
    ids=["none", "isolated", "single"],
)
def test_compile_worker(
    subprocess_environment: dict[str, str],
    strange_folder: Path,
    flags: tuple[str, ...],
    expected: str,
) -> None:
    assert run(COMPILE, subprocess_environment, strange_folder, flags) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [(LLVM_IR, "True"), (DOCTOR, "(True, '0.0')"), (MEASURE, "True")],
    ids=["kernels", "doctor", "explain"],
)
def test_other_helpers(
    subprocess_environment: dict[str, str], strange_folder: Path, code: str, expected: str
) -> None:
    assert run(code, subprocess_environment, strange_folder) == expected


@pytest.mark.parametrize("code", [COMPILE, LLVM_IR], ids=["worker", "kernels"])
def test_packages_that_only_the_program_finds(
    subprocess_environment: dict[str, str], strange_folder: Path, code: str
) -> None:
    """As pex, Bazel and notebooks have it: the interpreter alone finds no packages (-S)."""
    found = f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n"
    output = run(found + code, subprocess_environment, strange_folder, ("-I", "-S"))
    assert output in ("True", "-I -S -P")


def test_modules_beside_the_program_are_not_the_workers(
    subprocess_environment: dict[str, str], strange_folder: Path
) -> None:
    """A `socket.py` of the user's that is imported by nobody must not become the worker's."""
    beside = strange_folder.parent / "app" / "socket.py"
    beside.parent.mkdir()
    beside.write_text("raise SystemExit('the socket.py beside the program')")
    assert run(COMPILE, subprocess_environment, strange_folder) == "-P"
