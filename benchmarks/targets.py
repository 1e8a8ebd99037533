"""The targets against each other: the same benchmarks on host, on SYCL devices and on JAX's own CPU backend.

python -m benchmarks.targets                          those with a goal
python -m benchmarks.targets softmax --seconds 10     those whose names contain one of the words
python -m benchmarks.targets --json results.json      also write the figures

A process uses one target, so each has a process of its own; this one gives them their turns, so that whatever else the
machine does falls on all.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, cast

TARGETS: Final = {  # name: TRIPONT_DEVICE, and the JAX platform that is measured
    "host": ("host", "xpu"),
    "sycl": ("sycl", "xpu"),
    "XLA:CPU": ("host", "cpu"),
}


@dataclass(frozen=True)
class Goal:
    """The time on ``sycl`` is to be at most ``most`` times that on ``against``."""

    against: str
    most: float


GOALS: Final = {
    "exp_4m": Goal("host", 1.25),
    "tanh_4m": Goal("host", 1.25),
    "gelu_4m": Goal("host", 1.25),
    "softmax": Goal("host", 1.5),
    "layer_norm": Goal("host", 1.5),
    "demo_cnn": Goal("XLA:CPU", 1.0),
}


@dataclass
class Child:
    """A process with one target. Its turns: the name of a benchmark on its stdin, seconds a call on its stdout."""

    target: str
    process: subprocess.Popen[str]
    times: dict[str, list[float]] = field(default_factory=dict)

    def turn(self, benchmark: str) -> None:
        inputs, outputs = cast(IO[str], self.process.stdin), cast(IO[str], self.process.stdout)
        inputs.write(benchmark + "\n")
        inputs.flush()
        answer = outputs.readline()
        if not answer:
            raise SystemExit(f"{benchmark} failed on {self.target}")
        self.times.setdefault(benchmark, []).append(float(answer))


def environment(target: str) -> dict[str, str]:
    """The environment of a process with that target."""
    return os.environ | {"TRIPONT_DEVICE": TARGETS[target][0]}


def start(target: str) -> Child:
    command = [sys.executable, "-m", "benchmarks.targets", "--serve", TARGETS[target][1]]
    process = subprocess.Popen(
        command, env=environment(target), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return Child(target, process)


def serve(platform: str) -> None:
    """What a child does: benchmarks on the first device of a JAX platform, as they are asked for."""
    answers, sys.stdout = sys.stdout, sys.stderr
    import jax

    from benchmarks.harness import REGISTRY, SLICE_SECONDS, Benchmark, Step, time_repeatedly

    for module in ("kernels", "training"):
        importlib.import_module(f"benchmarks.{module}")
    device = jax.devices(platform)[0]
    steps: dict[str, tuple[Step, int]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in steps:
            entry = REGISTRY[name]
            assert isinstance(entry, Benchmark)
            step = entry.make(device)
            step()
            step()
            estimate = time_repeatedly(step, 3)
            steps[name] = step, max(1, int(SLICE_SECONDS / max(estimate, 1e-7)))
        step, repeats = steps[name]
        step()
        print(time_repeatedly(step, repeats), file=answers, flush=True)


def measure(names: list[str], seconds: float) -> dict[str, dict[str, list[float]]]:
    """Benchmark -> target -> seconds a call, one for each turn."""
    children = [start(target) for target in TARGETS]
    try:
        for name in names:
            for child in children:
                child.turn(name)
                child.times[name].clear()  # compiling, and the first touch of memory
            deadline = time.perf_counter() + seconds
            turns = 0
            while time.perf_counter() < deadline or turns < 5:
                for child in children:
                    child.turn(name)
                turns += 1
    finally:
        for child in children:
            cast(IO[str], child.process.stdin).close()
            child.process.wait()
    return {name: {child.target: child.times[name] for child in children} for name in names}


def report(results: dict[str, dict[str, list[float]]]) -> bool:
    """Print a table; whether all goals are reached."""
    from rich.console import Console
    from rich.table import Table

    from benchmarks.__main__ import format_time

    table = Table()
    for column in ("benchmark", *TARGETS, "sycl / host", "sycl / XLA:CPU", "goal", ""):
        table.add_column(column, justify="left" if column == "benchmark" else "right")
    reached = True
    for name, times in results.items():
        median = {target: statistics.median(values) for target, values in times.items()}
        least = {target: min(values) for target, values in times.items()}
        cells = [f"{format_time(median[t], 's')} / {format_time(least[t], 's')}" for t in TARGETS]
        for other in ("host", "XLA:CPU"):
            ratios = median["sycl"] / median[other], least["sycl"] / least[other]
            cells.append(f"{ratios[0]:.2f} / {ratios[1]:.2f}")
        goal, mark = GOALS.get(name), ""
        if goal is not None:
            passed = median["sycl"] <= goal.most * median[goal.against]
            reached &= passed
            cells.append(f"<= {goal.most:g} of {goal.against}")
            mark = "[green]ok[/]" if passed else "[red]above[/]"
        else:
            cells.append("")
        table.add_row(name, *cells, mark)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print("median / minimum; ratios of medians / of minima", highlight=False)
    console.print(table)
    return reached


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.targets", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; those with a goal without")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of measuring for each benchmark"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return 0
    from benchmarks.harness import REGISTRY, Benchmark

    for module in ("kernels", "training"):
        importlib.import_module(f"benchmarks.{module}")
    known = [name for name, entry in REGISTRY.items() if isinstance(entry, Benchmark)]
    chosen = [n for n in known if any(word in n for word in arguments.names)]
    if arguments.names and not chosen:
        print("\n".join(known))
        return 2
    results = measure(chosen or [n for n in known if n in GOALS], arguments.seconds)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=1))
    return 0 if report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
