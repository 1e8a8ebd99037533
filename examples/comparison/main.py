"""JAX, TensorFlow and PyTorch, each on its own CPU backend and on tripont: how fast, and how exact.

python examples/comparison/main.py [--png FILE] [--rounds N] [--scale X]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tripont.torch_xla  # noqa: F401, I001 - before TensorFlow: both register the same option of LLVM
import in_jax
import in_tensorflow
import in_torch
import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import workloads

matplotlib.use("Agg")
from matplotlib import pyplot

FRAMEWORKS = {
    "JAX": in_jax.prepare,
    "TensorFlow": in_tensorflow.prepare,
    "PyTorch": in_torch.prepare,
}
PLACES = {"own": "own CPU", "tripont": "tripont"}
COLOURS = {"own": "#9aa5b1", "tripont": "#2f6fde"}
# Of float32 sums, relative to the largest value of the result.
TOLERANCE = 1e-4
console = Console()


@dataclass
class Measurement:
    """``error``: the largest difference from NumPy's double precision, relative to the largest value."""

    workload: str
    framework: str
    where: str
    error: float
    seconds: float = float("inf")


def measure(scale: float, rounds: int) -> list[Measurement]:
    """Every workload in every framework at both places. They take turns; the fastest of all rounds counts."""
    measurements, runs = [], []
    for workload in workloads.make(scale):
        expected = workload.expected()
        for framework, prepare in FRAMEWORKS.items():
            for where in PLACES:
                run = prepare(workload, where)
                error = max(
                    float(np.abs(y - e).max() / np.abs(e).max())
                    for y, e in zip(run(), expected, strict=True)
                )
                measurements.append(Measurement(workload.name, framework, where, error))
                runs.append(run)
    for _ in track(range(rounds), "measuring", console=console):
        for measurement, run in zip(measurements, runs, strict=True):
            run()  # what the others left in the caches goes
            start = time.perf_counter()
            run()
            measurement.seconds = min(measurement.seconds, time.perf_counter() - start)
    return measurements


def report(measurements: list[Measurement]) -> None:
    table = Table(title="results on the host, in milliseconds and relative error")
    for column in ("workload", "framework", *PLACES.values(), "speed", "error", "on tripont"):
        left = column in ("workload", "framework")
        table.add_column(column, justify="left" if left else "right")
    for own, ours in zip(measurements[::2], measurements[1::2], strict=True):
        table.add_row(
            own.workload,
            own.framework,
            f"{1e3 * own.seconds:.3f}",
            f"{1e3 * ours.seconds:.3f}",
            f"{own.seconds / ours.seconds:.2f}x",
            f"{own.error:.1e}",
            f"{ours.error:.1e}",
        )
    console.print(table)


def plot(measurements: list[Measurement], file: Path) -> None:
    """Two rows of bars: times and errors, a column a workload."""
    names = list(dict.fromkeys(m.workload for m in measurements))
    figure, axes = pyplot.subplots(
        2, len(names), figsize=(4 * len(names), 6), layout="constrained", squeeze=False
    )
    places = np.arange(len(FRAMEWORKS))
    for column, name in enumerate(names):
        for number, (where, label) in enumerate(PLACES.items()):
            chosen = [m for m in measurements if (m.workload, m.where) == (name, where)]
            values = ([1e3 * m.seconds for m in chosen], [m.error for m in chosen])
            for row in (0, 1):
                axes[row, column].bar(
                    places + 0.4 * number - 0.2,
                    values[row],
                    width=0.38,
                    color=COLOURS[where],
                    label=label,
                )
        axes[0, column].set_title(name)
        for row in (0, 1):
            axes[row, column].set_xticks(places, list(FRAMEWORKS))
            axes[row, column].spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("milliseconds")
    axes[1, 0].set_ylabel("error relative to the largest value")
    axes[0, 0].legend(frameon=False)
    figure.savefig(file, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--png", type=Path, default=Path("comparison.png"))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    arguments = parser.parse_args()
    measurements = measure(arguments.scale, arguments.rounds)
    report(measurements)
    plot(measurements, arguments.png)
    console.print(f"bars are in [bold]{arguments.png}[/]", soft_wrap=True)
    wrong = [m for m in measurements if m.error > TOLERANCE]
    for m in wrong:
        console.print(f"[red]{m.workload} in {m.framework} on {m.where}: error {m.error:.1e}[/]")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
