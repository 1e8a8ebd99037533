"""Preprocessing in TensorFlow, training in JAX, evaluation in PyTorch: on the same buffers, with the copies counted.

    python examples/bridge/main.py [--epochs N] [--batch N]

The three stages are plain programs of their frameworks (preprocess.py, train.py, evaluate.py); this file joins them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tripont.torch_xla  # noqa: F401, I001 - before TensorFlow: both register the same option of LLVM
import torch_xla
import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import evaluate
import preprocess
import train
from tripont import interop
from tripont.core import _tripont

REQUIRED_ACCURACY = 0.9  # after the epochs that are the default
console = Console()


@dataclass
class Exchange:
    """Hands arrays from one framework to another without copying them, and counts."""

    name: str
    to: Callable[..., Any]
    arrays: int = 0
    bytes: int = 0
    copies: int = 0
    same_address: int = 0
    seconds: list[float] = field(default_factory=list)

    def __call__(self, x: Any) -> Any:
        """``x`` in the other framework. Raises ExchangeError if it would have to be copied."""
        before = interop.pointer(x)  # waits for what computes x
        copies = interop.statistics().copies
        start = time.perf_counter()
        y = self.to(x, copy=False)
        self.seconds.append(time.perf_counter() - start)
        self.copies += interop.statistics().copies - copies
        self.arrays += 1
        self.bytes += interop.to_numpy(y, copy=False).nbytes
        self.same_address += interop.pointer(y) == before
        return y


def run(epochs: int, batch: int) -> tuple[float, list[Exchange]]:
    """Train and evaluate. Returns the accuracy on the test images, and what was exchanged."""
    batches = Exchange("batches: TensorFlow → JAX", interop.to_jax)
    weights_out = Exchange("weights: JAX → PyTorch", interop.to_torch)
    tests = Exchange("tests: TensorFlow → PyTorch", interop.to_torch)

    images, test_images, labels, test_labels = preprocess.load_data()
    x_test, y_test = map(tests, preprocess.test_set(test_images, test_labels))
    network = evaluate.Network().to("xla")
    with jax.default_device(jax.devices("xpu")[0]):
        weights, state = train.init(jax.random.key(0))
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("loss {task.fields[loss]:.4f}, accuracy {task.fields[accuracy]:.2%}"),
        )
        accuracy = float("nan")
        with Progress(*columns, console=console) as progress:
            total = epochs * (len(images) // batch)
            task = progress.add_task("training", total=total, loss=float("nan"), accuracy=accuracy)
            for epoch in range(epochs):
                for x, y in preprocess.training_batches(images, labels, batch, epoch):
                    weights, state, loss = train.step(weights, state, batches(x), batches(y))
                    progress.advance(task)
                in_torch = {name: weights_out(value) for name, value in weights.items()}
                accuracy = evaluate.accuracy(network, in_torch, x_test, y_test)
                progress.update(task, loss=float(loss), accuracy=accuracy)
        torch_xla.sync()
    return accuracy, [batches, weights_out, tests]


def report(exchanges: list[Exchange]) -> bool:
    """Print what was exchanged; whether nothing was copied."""
    table = Table(title="what passed from one framework to another")
    for column in ("", "arrays", "MB", "copied", "same address", "fastest"):
        table.add_column(column, justify="right" if column else "left")
    for one in exchanges:
        table.add_row(
            one.name,
            str(one.arrays),
            f"{one.bytes / 1e6:.1f}",
            str(one.copies),
            f"{one.same_address} of {one.arrays}",
            f"{1e6 * min(one.seconds):.0f} µs",
        )
    console.print(table)
    return all(one.copies == 0 and one.same_address == one.arrays for one in exchanges)


def main() -> int:
    parser = argparse.ArgumentParser(description="One pipeline through three frameworks.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--accuracy", type=float, default=REQUIRED_ACCURACY, help="to be reached")
    arguments = parser.parse_args()
    console.print(
        "[bold]TensorFlow[/] preprocesses, [bold]JAX[/] trains, [bold]PyTorch[/] evaluates:"
        f" {_tripont.Client().devices[0].description}",
        soft_wrap=True,
    )
    accuracy, exchanges = run(arguments.epochs, arguments.batch)
    shared = report(exchanges)
    good = accuracy >= arguments.accuracy
    console.print(
        f"accuracy on the test images [{'green' if good else 'red'}]{accuracy:.2%}[/],"
        f" {sum(one.copies for one in exchanges)} copies"
    )
    return 0 if good and shared else 1


if __name__ == "__main__":
    sys.exit(main())
