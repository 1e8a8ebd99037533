"""``tripont compile``: a program file in, an executable artifact out, in this process."""

from __future__ import annotations

import time
from pathlib import Path

from tripont.core.compiler.formats.artifact import MAGIC

from . import inspect
from .program_file import guess_format, program_bytes, read
from .terminal import fail, make_console


def run(
    file: Path, output: Path, options: dict[str, str], dump: Path | None, program_format: str
) -> int:
    """Compile ``file`` and write the artifact to ``output``. Errors name the op and the line of the program.

    ``options``: of the compiler (``compile.OPTIONS``): what to compile for.
    """
    from tripont.core.compiler.compile import compile_program
    from tripont.core.compiler.ir.errors import CompileError

    console = make_console()
    program = read(file)
    if program_format not in {"", "mlir", "hlo"}:
        fail(f"unknown program format {program_format!r}: give mlir or hlo")
    if program.startswith(MAGIC):
        fail(f"{file} is already an executable artifact: `tripont run {file}` runs it")
    if dump is not None:
        options = options | {"dump_to": str(dump), "dump_hlo_pass_re": ".*"}
    program_format = program_format or guess_format(program, file)
    program = program_bytes(program, program_format)
    start = time.perf_counter()
    try:
        with console.status(f"compiling {file.name}"):
            artifact = compile_program(program, program_format, b"", options)
    except CompileError as error:
        fail(f"{file}: {error}")
    seconds = time.perf_counter() - start
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(artifact)
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    console.print(
        f"{output}: {inspect.size(len(artifact))}, compiled in {seconds * 1e3:.0f} ms",
        soft_wrap=True,
    )
    if dump is not None and any(dump.glob("module_*")):  # else there was a warning
        console.print(f"the stages are in {dump.resolve()}", soft_wrap=True)
    return 0
