"""``tripont``: the command line. Each command is a function here; what it does is in the module of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripont import __version__

app = typer.Typer(
    help="Look into tripont: what is installed, what a program compiles to, and how it runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# What a program file is compiled for.
Target = Annotated[
    str, typer.Option(help="Kind of device to compile for: host, sycl, or that of another package.")
]
Device = Annotated[
    str,
    typer.Option(
        help="Which device of the target to compile for, without which it is a common one. "
        "host: a CPU, as --cpu. sycl: cpu or gpu, and what it has of fp16, fp64, sub-groups: gpu,fp64."
    ),
]
Cpu = Annotated[
    str,
    typer.Option(
        help="CPU that library calls run on, on every target: host (this one), or a name such as "
        "x86-64-v3."
    ),
]


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


@app.command()
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
    from .explain import run
    from .machine import target_options

    options = target_options(target, device, cpu)
    raise typer.Exit(run(given, output, module, options, measure, program_format, sources or ()))


def main() -> None:
    app(prog_name="tripont")


if __name__ == "__main__":
    main()
