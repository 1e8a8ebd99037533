"""The demo: train on xpu, then compare the step with JAX's own CPU backend and show what the compiler made of it.

The program itself is train.py, which is plain JAX; this file only reports.

    python examples/jax_digits/main.py [--epochs N] [--rounds N] [--dump FOLDER]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import train
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

REQUIRED_ACCURACY = 0.97
STAGES = {
    "stablehlo.mlir": "the program as JAX gave it",
    "before_optimizations.txt": "HLO as it was read",
    "after_optimizations.txt": "HLO after all passes: fusions and library calls",
    "thunk_sequence.txt": "what runs, in order",
    "buffer_assignment.txt": "where every value lives",
    "ir-no-opt.ll": "LLVM IR as it was generated",
    "ir-with-opt.ll": "LLVM IR after LLVM's passes",
    ".s": "machine code",
}
console = Console()


def run_training(epochs: int) -> float:
    """Train on JAX's default device. Returns the accuracy on the test images."""
    x, y, x_test, y_test = train.load_data()
    parameters, state = train.init(jax.random.key(0), x[: train.BATCH])
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    loss = float("nan")
    with Progress(
        *columns, TextColumn("loss {task.fields[loss]:.4f}"), console=console
    ) as progress:
        steps = epochs * (len(x) // train.BATCH)
        task = progress.add_task("training", total=steps, loss=loss)
        for epoch in range(epochs):
            for images, labels in train.batches(x, y, epoch):
                parameters, state, loss = train.train_step(parameters, state, images, labels)
                progress.advance(task)
            progress.update(task, loss=float(loss))
    return float(train.accuracy(parameters, x_test, y_test))


def make_stepper(device: Any) -> Callable[[], None]:
    """A function that does one training step on ``device`` and waits for it."""
    x, y, *_ = train.load_data()
    images, labels = jax.device_put((x[: train.BATCH], y[: train.BATCH]), device)
    with jax.default_device(device):
        model = jax.device_put(train.init(jax.random.key(0), images), device)

    def step() -> None:
        nonlocal model
        *model, loss = train.train_step(*model, images, labels)
        loss.block_until_ready()

    return step


def measure(steppers: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Seconds per step. The devices take turns, so that whatever else the machine does falls on both."""
    times: dict[str, list[float]] = {name: [] for name in steppers}
    for stepper in steppers.values():
        for _ in range(3):
            stepper()
    for _ in range(rounds):
        for name, stepper in steppers.items():
            stepper()  # the other device's data has left the caches
            start = time.perf_counter()
            for _ in range(3):
                stepper()
            times[name].append((time.perf_counter() - start) / 3)
    return times


def dump_stages(device: Any, folder: Path) -> list[Path]:
    """Compile the training step once more and have the compiler write every stage. Returns the files."""
    x, y, *_ = train.load_data()
    images, labels = x[: train.BATCH], y[: train.BATCH]
    options = {
        "xla_dump_to": str(folder),
        "xla_dump_hlo_as_text": True,
        "xla_dump_hlo_pass_re": ".*",
    }
    with jax.default_device(device):
        parameters, state = train.init(jax.random.key(0), images)
        train.train_step.lower(parameters, state, images, labels).compile(compiler_options=options)
    newest = max(folder.glob("module_*train_step*"), key=lambda file: file.name, default=None)
    return sorted(folder.glob(f"{newest.name.split('.')[0]}.*")) if newest else []


def report(times: dict[str, list[float]]) -> None:
    table = Table(title="one training step (the devices took turns)")
    for column in ("device", "median", "minimum", "speed"):
        table.add_column(column, justify="left" if column == "device" else "right")
    reference = statistics.median(times["cpu"])
    for name, values in times.items():
        median = statistics.median(values)
        label = "xpu (tripont)" if name == "xpu" else "cpu (JAX's own)"
        table.add_row(
            label,
            f"{median * 1e3:.2f} ms",
            f"{min(values) * 1e3:.2f} ms",
            f"{reference / median:.2f}x",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a CNN on handwritten digits on xpu.")
    parser.add_argument("--epochs", type=int, default=train.EPOCHS)
    parser.add_argument("--rounds", type=int, default=40, help="of steps whose time is taken")
    parser.add_argument(
        "--dump",
        type=Path,
        default=Path("dumps/jax_digits"),
        help="folder for the compiler's stages",
    )
    arguments = parser.parse_args()

    device = jax.devices()[0]
    console.print(
        f"JAX {jax.__version__} trains on [bold]{device.platform}[/], {device.device_kind}"
    )
    if device.platform != "xpu":
        console.print("[red]JAX did not choose xpu: run `tripont doctor` to see why[/]")
        return 1
    accuracy = run_training(arguments.epochs)
    good = accuracy >= REQUIRED_ACCURACY
    console.print(f"accuracy on the test images: [{'green' if good else 'red'}]{accuracy:.2%}[/]")

    steppers = {"xpu": make_stepper(device), "cpu": make_stepper(jax.devices("cpu")[0])}
    report(measure(steppers, arguments.rounds))

    folder = arguments.dump.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    files = dump_stages(device, folder)
    console.print(
        f"what the compiler made of the training step is in [bold]{folder}[/]:", soft_wrap=True
    )
    for suffix, meaning in STAGES.items():
        for file in files:
            if file.name.endswith(suffix):
                console.print(f"  {file.name:52} {meaning}", highlight=False, soft_wrap=True)
    if not files:
        console.print("[red]nothing: the compiler wrote no files[/]")
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
