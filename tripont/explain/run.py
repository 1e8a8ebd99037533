"""``tripont explain``: a dump folder, an artifact or a program file in, one HTML page out."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tripont.cli import inspect
from tripont.cli.program_file import guess_format, program_bytes, read
from tripont.cli.terminal import fail, make_console
from tripont.core.compiler.formats.artifact import MAGIC

from . import page, report
from .artifact_input import read_artifact
from .dump_folder import ExplainError, ModuleDump, choose, numbered, read_description, read_folder
from .measure import Timeline, measure


def run(
    given: Path,
    output: Path,
    module: str,
    options: dict[str, str],
    measured: bool | None,
    program_format: str,
    sources: Sequence[Path] = (),
) -> int:
    """Explain ``given`` on the page ``output``. ``options``: for compiling, if that is a program. ``measured``: whether
    to run it; None: if this command compiled it, because an artifact is code. ``sources``: folders whose files may be
    shown, besides the working directory.
    """
    console = make_console()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tripont-explain-") as scratch:
        try:
            modules = load(given, options, program_format, Path(scratch))
            chosen = choose(modules, module)
            if measured is None:
                measured = chosen.ours
                timeline = Timeline(reason=f"{given} was not run; --measure runs the code in it")
            else:
                timeline = Timeline(reason="not measured, as asked")
            if measured:
                with console.status(f"measuring {chosen.name}"):
                    timeline = measure(chosen.artifact_bytes(), chosen.description["target"])
            text = page.write_page(report.build(chosen, timeline, sources))
        except ExplainError as error:
            fail(str(error))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    seconds = time.perf_counter() - start
    console.print(
        f"{output}: {chosen.name}, {len(chosen.description['operations'])} operations, "
        f"{inspect.size(len(text.encode()))}, made in {seconds:.1f} s",
        soft_wrap=True,
        highlight=False,
    )
    if timeline.reason and timeline.reason != "not measured, as asked":
        console.print(f"the timeline shows estimates: {timeline.reason}", soft_wrap=True)
    others = [m for m in modules if m is not chosen]
    if others:
        names = ", ".join(f"{numbered(m)} {m.name}" for m in others[:12])
        more = f" and {len(others) - 12} more" if len(others) > 12 else ""
        console.print(
            f"other modules of the dump (--module): {names}{more}", style="dim", soft_wrap=True
        )
    return 0


def load(
    given: Path, options: dict[str, str], program_format: str, scratch: Path
) -> list[ModuleDump]:
    """What was given, as compilations to explain. Raises ExplainError."""
    if given.is_dir():
        return read_folder(given)
    if given.name.endswith(".module.json"):
        return [read_description(given)]
    data = read(given)
    if data.startswith(MAGIC):
        return [read_artifact(data, str(given))]
    from tripont.core.compiler.compile import compile_program
    from tripont.core.compiler.ir.errors import CompileError

    chosen = program_format or guess_format(data, given)
    try:
        compile_program(
            program_bytes(data, chosen),
            chosen,
            b"",
            options | {"dump_to": str(scratch), "dump_hlo_pass_re": ".*"},
        )
    except CompileError as error:
        raise ExplainError(f"{given}: {error}") from error
    modules = read_folder(scratch)
    for module in modules:
        module.origin = str(given)
        module.ours = True
    return modules
