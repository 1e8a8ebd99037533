"""What a benchmark is to reach against others, and the table that says whether it does.

Shared by the benchmarks of TensorFlow and PyTorch programs, which measure ours against several others.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Times = Mapping[str, Sequence[float]]  # who -> seconds a call, one for each turn


@dataclass(frozen=True)
class Goal:
    """The time of ``against`` is to be at least ``least`` times ours (below 1: we may take longer)."""

    against: str
    least: float


def ratios(times: Times, ours: str, against: str) -> tuple[float, float]:
    """``against``'s time over ours: of medians, of minima."""
    return (
        statistics.median(times[against]) / statistics.median(times[ours]),
        min(times[against]) / min(times[ours]),
    )


def reached(times: Times, ours: str, goal: Goal) -> bool:
    """By medians."""
    return ratios(times, ours, goal.against)[0] >= goal.least


def report(results: Mapping[str, Times], goals: Mapping[str, Sequence[Goal]], ours: str) -> bool:
    """Print a table, a line for each pair that was measured; whether all goals are reached."""
    from rich.console import Console
    from rich.table import Table

    from benchmarks.__main__ import format_time

    def median_and_minimum(values: Sequence[float]) -> str:
        return f"{format_time(statistics.median(values), 's')} / {format_time(min(values), 's')}"

    table = Table()
    for column in ("benchmark", ours, "against", "its time", "ratio", "goal", ""):
        left = column in ("benchmark", "against")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    all_reached = True
    for name, times in results.items():
        of_others = {goal.against: goal for goal in goals[name]}
        for other in times:
            if other == ours:
                continue
            goal = of_others.get(other)
            passed = goal is None or reached(times, ours, goal)
            all_reached &= passed
            of_medians, of_minima = ratios(times, ours, other)
            table.add_row(
                name,
                median_and_minimum(times[ours]),
                other,
                median_and_minimum(times[other]),
                f"{of_medians:.2f}x / {of_minima:.2f}x",
                f">= {goal.least:.2f}x" if goal else "",
                "" if goal is None else "[green]ok[/]" if passed else "[red]below[/]",
            )
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(
        "median / minimum; ratios of medians / of minima: its time to ours", highlight=False
    )
    console.print(table)
    return all_reached


def write(path: Path, results: Mapping[str, Times], ours: str) -> None:
    """All times, and the ratios, as JSON."""
    rows = {
        name: {
            "seconds": {who: list(values) for who, values in times.items()},
            "ratios": {who: ratios(times, ours, who) for who in times if who != ours},
        }
        for name, times in results.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1))
