"""The command ``tripont explain``: a wing (:mod:`tripont.core.compiler.wings`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripont.cli.options import Cpu, Device, Target


def explain(
    given: Annotated[
        Path,
        typer.Argument(help="A dump folder, an executable artifact, or a StableHLO or HLO file."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the page goes.")] = Path(
        "explain.html"
    ),
    module: Annotated[
        str, typer.Option(help="Number or name of the module, if a dump holds several.")
    ] = "",
    target: Target = "host",
    device: Device = "",
    cpu: Cpu = "",
    measure: Annotated[
        bool | None,
        typer.Option(
            "--measure/--no-measure",
            help="Run the program on random numbers for the timeline. The default is to run what this "
            "command compiles, and not the code that a dump or an artifact holds.",
            show_default=False,
        ),
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder whose source files may be shown, besides those below the working directory; "
            "can be given several times."
        ),
    ] = None,
    program_format: Annotated[
        str, typer.Option("--format", help="mlir or hlo; found out without.")
    ] = "",
) -> None:
    """Make one HTML page that shows every stage of a program, its graph and where its time goes."""
    from tripont.cli.machine import target_options

    from .run import run

    options = target_options(target, device, cpu)
    raise typer.Exit(run(given, output, module, options, measure, program_format, sources or ()))


def add_to(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(explain)


__all__ = ["add_to"]
