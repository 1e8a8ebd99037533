"""Train on XPU with a progress bar, and compare losses and the time of a step with TensorFlow's own CPU device.

The program itself is train.py, which is plain Keras; this file says where it runs, and reports.

    python examples/tensorflow_digits/main.py [--epochs N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
import train
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

REQUIRED_ACCURACY = 0.97
# Relative difference of the first epoch's losses between the devices. They start from the same weights; sums are
# added in different orders (a few times 1e-7), and each of the eleven steps multiplies that.
TOLERANCE = 1e-3
console = Console()


class Bar(keras.callbacks.Callback):
    """Keras's progress as a bar of rich."""

    def __init__(self, progress: Progress, steps: int) -> None:
        super().__init__()
        self.bar = progress
        self.task = progress.add_task("training", total=steps, loss=float("nan"))

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self.bar.advance(self.task)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.bar.update(self.task, loss=(logs or {}).get("loss", float("nan")))


def fit(
    device: str, weights: list[np.ndarray], data: train.Data, epochs: int
) -> tuple[list[float], float]:
    """Train from ``weights`` on a device. Returns the loss of each epoch and the accuracy on the test images."""
    x, y, x_test, y_test = data
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        tf.device(device),
        Progress(*columns, TextColumn("loss {task.fields[loss]:.4f}"), console=console) as progress,
    ):
        model = train.make_model()
        model.set_weights(weights)
        bar = Bar(progress, epochs * (len(x) // train.BATCH))
        history = model.fit(
            train.batches(x, y), epochs=epochs, shuffle=False, verbose=0, callbacks=[bar]
        )
        accuracy = model.evaluate(x_test, y_test, batch_size=len(x_test), verbose=0)[1]
    return history.history["loss"], accuracy


def make_stepper(device: str, data: train.Data) -> Callable[[], None]:
    """A function that does one training step on ``device`` and waits for it."""
    with tf.device(device):
        model = train.make_model()
        images, labels = tf.constant(data[0][: train.BATCH]), tf.constant(data[1][: train.BATCH])

    def step() -> None:
        with tf.device(device):
            model.train_on_batch(images, labels)

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


def report(times: dict[str, list[float]]) -> None:
    table = Table(title="one training step (the devices took turns)")
    for column in ("device", "median", "minimum", "speed"):
        table.add_column(column, justify="left" if column == "device" else "right")
    reference = statistics.median(times["CPU:0"])
    for name, values in times.items():
        median = statistics.median(values)
        label = "XPU (tripont)" if name == "XPU:0" else "CPU (TensorFlow's own)"
        table.add_row(
            label,
            f"{median * 1e3:.2f} ms",
            f"{min(values) * 1e3:.2f} ms",
            f"{reference / median:.2f}x",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a CNN on handwritten digits on XPU.")
    parser.add_argument("--epochs", type=int, default=train.EPOCHS)
    parser.add_argument("--rounds", type=int, default=30, help="of steps whose time is taken")
    arguments = parser.parse_args()

    if not tf.config.list_physical_devices("XPU"):
        console.print("[red]TensorFlow has no device XPU: run `tripont doctor` to see why[/]")
        return 1
    console.print(f"TensorFlow {tf.__version__}, Keras {keras.__version__} train on [bold]XPU:0[/]")
    data = train.load_data()
    with tf.device("CPU:0"):
        keras.utils.set_random_seed(0)
        weights = train.make_model().get_weights()
    losses, accuracy = fit("XPU:0", weights, data, arguments.epochs)
    good = accuracy >= REQUIRED_ACCURACY
    console.print(f"accuracy on the test images: [{'green' if good else 'red'}]{accuracy:.2%}[/]")

    cpu_losses, _ = fit("CPU:0", weights, data, 1)
    difference = abs(losses[0] - cpu_losses[0]) / abs(cpu_losses[0])
    same = difference <= TOLERANCE
    console.print(
        f"loss of the first epoch: {losses[0]:.6f} on XPU, {cpu_losses[0]:.6f} on the CPU,"
        f" relative difference [{'green' if same else 'red'}]{difference:.1e}[/]",
        soft_wrap=True,
    )
    steppers = {device: make_stepper(device, data) for device in ("XPU:0", "CPU:0")}
    report(measure(steppers, arguments.rounds))
    return 0 if good and same else 1


if __name__ == "__main__":
    sys.exit(main())
