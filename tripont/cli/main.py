"""``tripont``: the command line. Each command is a function here; what it does is in the module of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripont import __version__
from tripont.core.compiler import wings

from .options import Cpu, Device, Target

app = typer.Typer(
    help="Look into tripont: what is installed, what a program compiles to, and how it runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"tripont {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def doctor(
    json_output: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON.")
    ] = False,
    hosts: Annotated[
        bool, typer.Option("--hosts", help="Try programs that span processes, too (docs/hosts.md).")
    ] = False,
) -> None:
    """Say what is found, what is missing and how to mend it. The exit code is 0 if the device works."""
    from .doctor import run

    raise typer.Exit(run(json_output, hosts))


@app.command()
def devices() -> None:
    """List the devices and their memory."""
    from .devices import run

    raise typer.Exit(run())


@app.command("compile")
def compile_file(
    file: Annotated[
        Path,
        typer.Argument(help="StableHLO (text, bytecode, portable artifact) or HloModuleProto."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where the executable artifact goes.")
    ],
    target: Target = "host",
    device: Device = "",
    cpu: Cpu = "",
    sycl_device: Annotated[str, typer.Option(help="The older name of --device.", hidden=True)] = "",
    dump: Annotated[
        Path | None, typer.Option(help="Folder for every stage of the compilation.")
    ] = None,
    program_format: Annotated[
        str, typer.Option("--format", help="mlir or hlo; found out without.")
    ] = "",
) -> None:
    """Compile a program ahead of time into an executable artifact."""
    from .compile import run
    from .machine import target_options

    options = target_options(target, device or sycl_device, cpu)
    raise typer.Exit(run(file, output, options, dump, program_format))


@app.command("run")
def run_artifact(
    artifact: Annotated[
        Path, typer.Argument(help="An executable artifact, from `tripont compile`.")
    ],
    inputs: Annotated[
        list[Path] | None, typer.Argument(help=".npy files, one a parameter; random without.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the results as .npy.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often to run for the timing.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
) -> None:
    """Run an artifact and show its results and how long it takes. Needs no compiler and no framework."""
    from .run import run

    raise typer.Exit(run(artifact, inputs or [], output, repeat, seed))


@app.command()
def inspect(
    artifact: Annotated[Path, typer.Argument(help="An executable artifact.")],
    thunks: Annotated[bool, typer.Option(help="List the thunk sequence.")] = True,
    memory: Annotated[bool, typer.Option(help="List the buffer assignment.")] = False,
    hlo: Annotated[bool, typer.Option(help="Print the optimised HLO.")] = False,
) -> None:
    """Show what an artifact holds: signature, thunks, memory, code, and what it needs to run."""
    from .inspect import run

    raise typer.Exit(run(artifact, thunks, memory, hlo))


def _add_missing(name: str) -> None:
    """A command that says which wing it needs."""
    given = {"allow_extra_args": True, "ignore_unknown_options": True}

    @app.command(name.removeprefix("tripont "), hidden=True, context_settings=given)
    def missing() -> None:
        from .terminal import fail

        fail(f"there is no {name} here{wings.lacking(name)}")


for _wing in wings.parts("commands"):
    _wing.add_to(app)
for _wing in wings.WINGS:
    for _name in _wing.provides if _wing.commands and not wings.is_here(_wing) else ():
        _add_missing(_name)


def main() -> None:
    app(prog_name="tripont")
