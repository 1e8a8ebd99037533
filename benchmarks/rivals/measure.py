"""One program on all rivals: prepared by each, compared with the reference, then timed in turns."""

from __future__ import annotations

import contextlib
import fcntl
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from . import agreement
from .environments import EXACT_MEMORY, FOLDER, JAXLIBS, OURS, Rival, process_environment
from .frameworks import function_of
from .program import Program
from .protocol import RivalError, Worker

PREPARE_SECONDS: Final = 300.0
TURN_LIMIT_SECONDS: Final = 120.0
REFERENCE: Final = "reference"
HOLDERS: Final = (OURS, *JAXLIBS)  # the rivals whose memory is measured


@dataclass(frozen=True)
class Rounds:
    """``seconds`` of measuring for each rival, in turns of ``turn`` seconds (or one call), at least ``least``
    of them. ``clock``: wall, or cpu for the processor time of all threads.
    """

    seconds: float = 1.5
    turn: float = 0.1
    least: int = 4
    clock: str = "wall"

    def count(self, slowest_call: float) -> int:
        """Three rounds where a call takes longer than all rounds should."""
        if slowest_call > self.seconds:
            return 3
        return max(
            self.least,
            min(int(self.seconds / self.turn), int(4 * self.seconds / max(slowest_call, 1e-9))),
        )


@dataclass
class Team:
    """The rivals' processes: started when they are needed, again where they died."""

    rivals: Mapping[str, Rival]
    threads: int
    modules: tuple[str, ...] = ()  # with more programs
    logs: Path = FOLDER / "logs"
    versions: dict[str, str] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)

    def worker(self, name: str, variables: Mapping[str, str] | None = None) -> Worker:
        """The rival's process; with ``variables`` of its environment, one for these alone."""
        key = " ".join([name, *(variables or {})])
        found = self.workers.get(key)
        if found is None or not found.alive:
            rival = self.rivals[name]
            rival = replace(rival, variables=rival.variables | dict(variables or {}))
            command = [
                str(rival.environment.python), "-m", "benchmarks.rivals.worker", rival.framework,
                str(self.threads), *self.modules,
            ]  # fmt: skip
            found = Worker(
                command,
                process_environment(rival, self.threads),
                self.logs / f"{name}.log",
                folder=self.folder(),
            )
            self.workers[key] = found
            self.versions[name] = found.ask(60.0, do="describe")["version"]
        return found

    def folder(self) -> Path:
        """The workers' working folder: nothing in it can be imported by chance."""
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


@contextlib.contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """Holds a lock that other measurements on the machine hold too."""
    if lock is None:
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load(path: Path) -> list[np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return [file[f"arr_{index}"] for index in range(len(file.files))]


def reference_results(
    team: Team, program: Program, folder: Path
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """The exact results, those of inputs that are off by the roundings of a sum, and the size of one rounding."""
    names = [np.asarray(value).dtype.name for value in program.make_inputs()]
    eps = agreement.epsilon([program.rounding] if program.rounding else names)
    rounding = agreement.displacement(eps, program.terms)
    paths = [folder / f"reference{index}.npz" for index in range(2)]
    team.worker(REFERENCE).ask(
        PREPARE_SECONDS, do="reference", program=program.name, results=[str(path) for path in paths],
        wide=program.wide, rounding=rounding,
    )  # fmt: skip
    exact, moved = (load(path) for path in paths)
    return exact, moved, eps


def compare(
    program: Program,
    results: list[np.ndarray],
    reference: tuple[list[np.ndarray], list[np.ndarray], float],
) -> str:
    """What is wrong with a rival's results; "" if nothing is."""
    if program.check is not None:
        return program.check(results)
    exact, moved, eps = reference
    eps = max(eps, agreement.epsilon([array.dtype.name for array in results]))
    if program.comparable is not None:
        results, exact, moved = (program.comparable(arrays) for arrays in (results, exact, moved))
    return agreement.disagreement(results, exact, moved, eps, program.terms, program.tolerance)


def run(
    team: Team,
    program: Program,
    names: list[str],
    rounds: Rounds,
    lock: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, dict[str, Any]]:
    """Rival -> version, seconds of compiling, seconds a call (all turns), for some the peak bytes; or ``error``."""
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        reference = None
        if program.check is None:
            tell("reference")
            reference = reference_results(team, program, folder)
        for name in names:
            if function_of(team.rivals[name].framework) not in program.makers:
                continue
            tell(name)
            path = folder / f"{name}.npz"
            try:
                row = team.worker(name).ask(
                    PREPARE_SECONDS, do="prepare", program=program.name, results=str(path)
                )
                problem = compare(program, load(path), reference)  # type: ignore[arg-type]
                rows[name] = row | {
                    "version": team.versions[name],
                    "error": f"wrong: {problem}" if problem else "",
                }
            except RivalError as error:
                rows[name] = {"version": team.versions.get(name, ""), "error": str(error)}
        timed = [name for name, row in rows.items() if not row["error"]]
        for name in timed:
            rows[name]["seconds"] = []
        slowest = max((rows[name]["call_seconds"] for name in timed), default=0.0)
        with alone(lock):
            for index in range(rounds.count(slowest)):
                tell(f"round {index + 1}")
                for name in list(timed):
                    try:
                        turn = team.worker(name).ask(
                            TURN_LIMIT_SECONDS, do="turn", seconds=rounds.turn, clock=rounds.clock
                        )
                        times = turn["seconds"]
                        rows[name]["seconds"].append([min(times), statistics.median(times)])
                    except RivalError as error:
                        rows[name]["error"] = str(error)
                        timed.remove(name)
    peaks = memories(team, program, timed, tell)
    return {name: row | peaks.get(name, {}) for name, row in rows.items()}


def memories(
    team: Team,
    program: Program,
    names: Iterable[str],
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, dict[str, Any]]:
    """Rival -> peak bytes, or ``error``; of those among ``names`` whose memory is measured."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in HOLDERS and function_of(team.rivals[name].framework) in program.makers:
            tell(f"{name}: memory")
            try:
                found[name] = team.worker(name, EXACT_MEMORY).ask(
                    PREPARE_SECONDS, do="memory", program=program.name
                )
            except RivalError as error:
                found[name] = {"error": f"memory: {error}"}
    return found


def minimum(row: Mapping[str, Any]) -> float:
    return min(least for least, _ in row["seconds"])


def median(row: Mapping[str, Any]) -> float:
    return statistics.median(middle for _, middle in row["seconds"])
