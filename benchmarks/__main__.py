"""Run benchmarks and print a table with ratios to JAX's own CPU backend.

python -m benchmarks                      all of them
python -m benchmarks gemm conv            those whose names contain one of the words
python -m benchmarks --json results.json  also write the figures
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import Literal


def format_time(seconds: float | None, unit: str) -> str:
    if seconds is None:
        return ""
    if unit != "s":
        return f"{seconds:.1f} {unit}"
    for factor, name in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {name}"
    return f"{seconds:.2f} s"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; all benchmarks without")
    parser.add_argument("--list", action="store_true", help="only list the benchmarks")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of measuring for each benchmark"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()

    # Compile times are those of the compiler, not of the cache. (start_up turns it on for its own processes.)
    os.environ["TRIPONT_CACHE"] = "0"
    import jax
    from rich.console import Console
    from rich.table import Table

    from benchmarks.harness import REGISTRY, Benchmark, Result, run_benchmark

    for module in ("kernels", "training", "compiling"):  # they register their benchmarks
        importlib.import_module(f"benchmarks.{module}")

    console = Console(width=None if sys.stdout.isatty() else 120)
    chosen = [
        entry
        for name, entry in REGISTRY.items()
        if not arguments.names or any(word in name for word in arguments.names)
    ]
    if arguments.list or not chosen:
        for entry in REGISTRY.values():
            console.print(f"{entry.name:24} {entry.description}", highlight=False)
        return 0 if arguments.list else 2

    ours, reference = jax.devices("xpu")[0], jax.devices("cpu")[0]
    threads = len(os.sched_getaffinity(0))
    console.print(
        f"JAX {jax.__version__}, {threads} threads, {ours.device_kind}; times are median / minimum"
    )
    table = Table()
    for column in ("benchmark", "xpu", "XLA:CPU", "ratio", "of minima", "target", ""):
        justify: Literal["left", "right"] = "left" if column in ("benchmark", "target") else "right"
        table.add_column(column, justify=justify, no_wrap=True)
    results: list[Result] = []
    failures = 0
    for entry in chosen:
        with console.status(entry.name):
            try:
                if isinstance(entry, Benchmark):
                    result = run_benchmark(entry, ours, reference, arguments.seconds)
                else:
                    result = entry.run()
            except Exception as error:  # one benchmark that fails leaves the others
                failures += 1
                traceback.print_exc()
                table.add_row(
                    entry.name, f"[red]{type(error).__name__}[/]", "", "", "", "", "[red]failed[/]"
                )
                continue
        results.append(result)
        mark = {True: "[green]ok[/]", False: "[red]below[/]", None: ""}[result.passed]
        pair = [
            f"{format_time(a, result.unit)} / {format_time(b, result.unit)}"
            if a is not None
            else ""
            for a, b in (
                (result.ours_median, result.ours_minimum),
                (result.reference_median, result.reference_minimum),
            )
        ]
        medians = [text.split(" / ")[0] for text in pair]
        ratios = [
            f"{r:.2f}x" if r else "" for r in (result.ratio_of_medians, result.ratio_of_minima)
        ]
        table.add_row(entry.name, *medians, *ratios, result.target, mark)
        console.print(
            f"[dim]{entry.name}: {pair[0]} against {pair[1]} {ratios[0]}[/]", highlight=False
        )
    console.print(table)
    if arguments.json:
        machine = {
            "threads": threads,
            "cpu": platform.processor() or platform.machine(),
            "jax": jax.__version__,
        }
        rows = [
            dataclasses.asdict(r)
            | {"ratio_of_medians": r.ratio_of_medians, "ratio_of_minima": r.ratio_of_minima}
            for r in results
        ]
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"machine": machine, "results": rows}, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
