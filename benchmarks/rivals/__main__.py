"""Measures users' programs on tripont and on what others run, each in an environment of its own, and writes
docs/performance.md. The results of rivals that a run leaves out (``--rivals``) stay beside its own, although
another run measured them.

python -m benchmarks.rivals                     all programs on all rivals; goes on where the last run stopped
python -m benchmarks.rivals cholesky attention  the programs whose names, kinds or sources have one of the words
python -m benchmarks.rivals --fresh attention   measured again
python -m benchmarks.rivals --clock cpu --threads 1  by processor time, on machines that do other things too
python -m benchmarks.rivals --memory            only the memory of programs whose times were measured
python -m benchmarks.rivals --set-up            only makes the environments under build/rivals (10 GB, minutes)
python -m benchmarks.rivals --list              the programs
python -m benchmarks.rivals --write             docs/performance.md from everything that was measured on this machine
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import limits, page
from .environments import OURS, RIVALS, ROOT, Rival, set_up
from .frameworks import function_of
from .measure import REFERENCE, Rounds, Team, alone, memories, run
from .program import Program, programs
from .protocol import RivalError
from .store import Store, commit, cpu_name, digest, instructions
from .worker import CLOCKS

LIMITS = "limits"
# The reference is computed by a release that is neither ours nor the newest one.
REFERENCES = ("jaxlib-0.10.2", "jaxlib-0.4.31")
PAGE = ROOT / "docs" / "performance.md"


def chosen(names: list[str]) -> list[Program]:
    return [
        program
        for program in programs().values()
        if not names or any(w in f"{program.name} {program.kind} {program.source}" for w in names)
    ]


def usable(console: Console, wanted: list[str]) -> tuple[dict[str, Rival], dict[str, str]]:
    """The rivals whose environments stand, and why the others cannot run."""
    ready: dict[str, Rival] = {}
    left_out: dict[str, str] = {}
    for name, rival in RIVALS.items():
        if wanted and name not in wanted and name != OURS:
            continue
        record = set_up(rival.environment, lambda text: console.print(text, highlight=False))
        if record.error:
            left_out[name] = record.error
        else:
            ready[name] = rival
    return ready, left_out


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="words of programs' names, kinds or sources")
    ] = None,
    rivals: Annotated[
        str, typer.Option(help="names of rivals, separated by commas; all without")
    ] = "",
    threads: Annotated[int, typer.Option(help="of every rival")] = len(os.sched_getaffinity(0)),
    seconds: Annotated[float, typer.Option(help="of measuring for each program and rival")] = 1.5,
    lock: Annotated[
        Path | None, typer.Option(help="a file to lock while something is measured")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="measure again what was measured")] = False,
    clock: Annotated[
        str,
        typer.Option(help="wall, or cpu: processor time of all threads, which is not for the page"),
    ] = "wall",
    only_set_up: Annotated[
        bool, typer.Option("--set-up", help="only make the environments")
    ] = False,
    only_memory: Annotated[
        bool, typer.Option("--memory", help="only measure memory, of programs that were timed")
    ] = False,
    list_programs: Annotated[bool, typer.Option("--list", help="only list the programs")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="write docs/performance.md at the end")
    ] = False,
) -> None:
    if clock not in CLOCKS or (write and clock != "wall"):
        raise typer.BadParameter("it is wall or cpu, and wall with --write", param_hint="--clock")
    console = Console()
    selected = chosen(names or [])
    if list_programs or not selected:
        for program in selected or programs().values():
            console.print(
                f"{program.name:32} {program.kind:16} {program.description}", highlight=False
            )
        raise typer.Exit(0 if list_programs else 2)
    ready, left_out = usable(console, [name for name in rivals.split(",") if name])
    for name, reason in left_out.items():
        console.print(f"[yellow]{name} is left out: {reason}[/]", highlight=False)
    if only_set_up:
        raise typer.Exit(0)
    store = Store.of_this_machine(clock)
    base = next((ready[name] for name in REFERENCES if name in ready), None)
    if base is None:
        raise typer.BadParameter(
            f"the reference needs {' or '.join(REFERENCES)}: name one of them too",
            param_hint="--rivals",
        )
    team = Team({**ready, REFERENCE: replace(base, name=REFERENCE)}, threads)
    try:
        if only_memory:
            measure_memory(console, store, team, selected, ready)
        else:
            rounds = Rounds(seconds, clock=clock)
            measure_all(console, store, team, selected, ready, rounds, lock, fresh, left_out)
    finally:
        team.close()
    if write:
        page.write(PAGE, store)
        console.print(f"{PAGE} was written")


def measure_memory(
    console: Console, store: Store, team: Team, selected: list[Program], ready: dict[str, Rival]
) -> None:
    """Memory into results that stand; their times stay, and what failed then stays failed."""
    for program in selected:
        result = store.read(program.name)
        if result is None or not (rows := store.rows(program, team.threads)):
            console.print(f"{program.name} was not timed", highlight=False)
            continue
        timed = [name for name in ready if name in rows and not rows[name]["error"]]
        peaks = memories(team, program, timed)
        for name, peak in peaks.items():
            rows[name] |= peak
        store.write(program.name, result | {"rivals": rows, "memory_commit": commit()})
        console.print(page.memory_line(program, peaks), highlight=False)


def measure_all(
    console: Console,
    store: Store,
    team: Team,
    selected: list[Program],
    ready: dict[str, Rival],
    rounds: Rounds,
    lock: Path | None,
    fresh: bool,
    left_out: dict[str, str],
) -> None:
    machine = measure_limits(team, ready, store.read(LIMITS), lock)
    machine["left_out"] = left_out
    store.write(LIMITS, machine)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(selected))
        for program in selected:
            names = [
                n for n, rival in ready.items() if function_of(rival.framework) in program.makers
            ]
            todo = names if fresh else store.missing(program, names, team.threads)
            if todo:
                # A rival that came later is measured beside all others, or its ratio would mean nothing.
                tell = lambda text, program=program: progress.update(
                    task, description=f"{program.name}: {text}"
                )
                try:
                    rows = run(team, program, names, rounds, lock, tell)
                except RivalError as error:
                    console.print(f"[red]{program.name}: no reference: {error}[/]", highlight=False)
                    progress.advance(task)
                    continue
                rows = store.rows(program, team.threads) | rows
                result: dict[str, Any] = {
                    "digest": digest(program), "commit": commit(), "time": time.strftime("%Y-%m-%d"),
                    "load": os.getloadavg()[0], "threads": team.threads, "rivals": rows,
                }  # fmt: skip
                store.write(program.name, result)
                console.print(page.line(program, rows), highlight=False)
            progress.advance(task)


def measure_limits(
    team: Team, ready: dict[str, Rival], before: dict[str, Any] | None, lock: Path | None
) -> dict[str, Any]:
    """What the machine can do: the best of this run and of those before."""
    name = "scipy" if "scipy" in ready else next(iter(ready))
    worker = team.worker(name)
    with alone(lock):
        found = limits.read(worker.ask(120.0, do="limits")["limits"])
    if before is not None and before["threads"] == team.threads:
        found = found.best(limits.read(before["limits"]))
    return {
        "limits": asdict(found), "cpu": cpu_name(), "instructions": instructions(), "threads": team.threads,
    }  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
