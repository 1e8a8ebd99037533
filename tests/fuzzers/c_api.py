"""Random sequences of calls of the PJRT C API: ``python -m tests.fuzzers.c_api --minutes 10`` (``make fuzz-c-api``).

``c_api.cc`` makes the calls: structs of the lengths of older and newer headers, null pointers, wrong orders, handles
whose content is gone, several threads. What the API leaves to its callers is kept to (handles are of the right type,
host memory is as large as the shape). A crash, a hang, or an error without a message is a mistake of ours. There is no
coverage to guide the fuzzer: an input is made of its seed alone. ``make test-asan ARGS=tests/fuzzers/test_c_api.py``
makes the calls with the address sanitizer in our libraries.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cc")
ROOT = SOURCE.parents[2]
PROGRAM = """func.func @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64xf32> {
  %y = stablehlo.add %x, %x : tensor<64xf32>
  return %y : tensor<64xf32>
}"""
SECONDS = 60.0  # that one input may take


def build(folder: Path) -> list[str]:
    """The command of the fuzzer, without its seeds."""
    return command(SOURCE, folder)


def command(source: Path, folder: Path) -> list[str]:
    """The command of a program in C++ that calls the API: it is told of our library and of an artifact."""
    from tripont.core.compiler.compile import compile_module
    from tripont.core.compiler.formats import artifact
    from tripont.core.compiler.importer.program import read_program

    import tripont

    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise SystemExit("no C++ compiler on this machine")
    header = subprocess.run(
        [sys.executable, ROOT / "cmake" / "fetch_pjrt_header.py"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    binary, program = folder / source.stem, folder / "double.tripont"
    flags = ["-std=c++20", "-O1", "-g1", "-Wall", "-Werror", "-pthread"]
    subprocess.run([compiler, *flags, f"-I{header}", source, "-o", binary, "-ldl"], check=True)
    executable = compile_module(read_program(PROGRAM.encode(), "mlir"), {"target": "host"})
    program.write_bytes(artifact.serialize(executable))
    return [str(binary), str(tripont.library_path()), str(program)]


def failure(command: list[str], first: int, count: int, seconds: float = SECONDS) -> str:
    """What goes wrong with inputs of ``count`` seeds, beginning with which one; empty if nothing does."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, str(first), str(count)], stdout=subprocess.PIPE, stderr=errors
        )
        assert process.stdout is not None
        pipe, said = process.stdout.fileno(), b""
        while True:
            if not select.select([pipe], [], [], seconds)[0]:
                process.kill()
                break
            read = os.read(pipe, 1 << 16)
            if not read:
                break
            said += read
        status = process.wait()
        last = said.split()[-1].decode() if said.split() else "none"
        if status == 0 and last == "done":
            return ""
        errors.seek(0)
        told = errors.read().decode(errors="replace")[-3000:]
        return f"the input of seed {last} ends the process with {status}\n{told}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzzers.c_api", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed")
    parser.add_argument("--count", type=int, default=200, help="how many seeds a process has")
    parser.add_argument("--minutes", type=float, default=0, help="go on for so long")
    given = parser.parse_args()
    end, seed = time.monotonic() + 60 * given.minutes, given.seed
    with tempfile.TemporaryDirectory(prefix="tripont-c-api-") as folder:
        command = build(Path(folder))
        while True:
            wrong = failure(command, seed, given.count)
            if wrong:
                print(wrong)
                return 1
            seed += given.count
            if time.monotonic() > end:
                print(f"{seed - given.seed} inputs from seed {given.seed}: nothing wrong")
                return 0


if __name__ == "__main__":
    sys.exit(main())
