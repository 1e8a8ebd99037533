"""Training steps of PyTorch programs: on tripont, on PyTorch/XLA's own CPU device, and eager on the CPU.

python -m benchmarks.torch_training                all models
python -m benchmarks.torch_training mlp --json f   one, and the figures in a file

A process has one device of torch_xla, so each device has a process of its own, and they take short turns. A turn runs
some steps as a training loop does (nothing is read back) and waits for the last one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.goals import Goal, report, write

DEVICES = ("tripont", "torch_xla", "eager")
MODELS = {
    "mlp": "784-512-10, batch 128, SGD with momentum",
    "cnn": "two convolutions with batch norm and pooling, 28x28, batch 64, SGD with momentum",
    "transformer": "2 layers of width 256, 128 tokens, batch 16, Adam (torch_xla's where it runs)",
}
GOALS = {
    name: [Goal(other, least) for other in DEVICES[1:]]
    for name, least in (("mlp", 1.5), ("cnn", 1.0), ("transformer", 1.0))
}
TURN_SECONDS = 0.15

# ------------------------------------------------------------------------------------------ in a device's process


def _mlp(torch: Any) -> tuple[Any, Any, Any]:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
    return model, torch.randn(128, 784), torch.randint(10, (128,))


def _cnn(torch: Any) -> tuple[Any, Any, Any]:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 10),
    )
    return model, torch.randn(64, 1, 28, 28), torch.randint(10, (64,))


def _transformer(torch: Any) -> tuple[Any, Any, Any]:
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(
        256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    model = nn.Sequential(
        nn.Embedding(256, 256), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    )
    model.append(nn.Linear(256, 256))
    return model, torch.randint(256, (16, 128)), torch.randint(256, (16, 128))


def make_steps(name: str, device: str) -> Callable[[int], None]:
    """A function that runs so many training steps and waits for the last."""
    import torch

    if device != "eager":
        import torch_xla
    torch.manual_seed(0)
    model, x, y = {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer}[name](torch)
    place = "cpu" if device == "eager" else "xla"
    model, x, y = model.to(place), x.to(place), y.to(place)
    optimizer: torch.optim.Optimizer
    if name == "transformer" and device == "eager":
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    elif name == "transformer":
        from torch_xla.amp import syncfree

        optimizer = syncfree.Adam(model.parameters(), 1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()

    def steps(count: int) -> None:
        for number in range(count):
            step()
            if device != "eager":
                torch_xla.sync(wait=number == count - 1)

    return steps


def serve(name: str, device: str) -> None:
    """Answer each line on standard input, a number of steps, with the seconds a step took."""
    steps = make_steps(name, device)
    steps(5)
    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter()
        steps(count)
        print((time.perf_counter() - start) / count, flush=True)


# ---------------------------------------------------------------------------------------------- in the parent


class _Child:
    def __init__(self, name: str, device: str) -> None:
        variables = {"tripont": {"PJRT_DEVICE": "XPU"}, "torch_xla": {"PJRT_DEVICE": "CPU"}}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.torch_training", "--serve", name, device],
            env=os.environ | variables.get(device, {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"
        self.count = max(2, int(TURN_SECONDS / min(self.seconds(2), self.seconds(2))))

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError("a benchmark's process ended; its error is above")
        return line

    def seconds(self, count: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(name: str, seconds: float) -> dict[str, list[float]]:
    """Seconds a step of each device, many turns."""
    children = {device: _Child(name, device) for device in DEVICES}
    times: dict[str, list[float]] = {device: [] for device in DEVICES}
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline or len(times["eager"]) < 5:
        for device, child in children.items():
            child.seconds(2)  # what the others evicted from the caches is not counted
            times[device].append(child.seconds(child.count))
    for child in children.values():
        child.close()
    return times


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_training")
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], help="all without")
    parser.add_argument("--seconds", type=float, default=10.0, help="of measuring for each model")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(*arguments.serve)
        return 0
    results = {}
    for name in arguments.names or MODELS:
        print(f"{name}: training step, {MODELS[name]}", flush=True)
        results[name] = measure(name, arguments.seconds)
    if arguments.json:
        write(arguments.json, results, DEVICES[0])
    return 0 if report(results, GOALS, DEVICES[0]) else 1


if __name__ == "__main__":
    sys.exit(main())
