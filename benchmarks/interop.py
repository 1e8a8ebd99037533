"""Exchanging an array of 100 MB between two frameworks: microseconds and allocations, of every pair.

python -m benchmarks.interop              the table
python -m benchmarks.interop --json f     and the figures in a file

An exchange takes an array that is there, and ends when the other framework has it and the result of the exchange
before is gone. The figure is the median of many, pairs in turns, so that each runs after all others; beside it are
the least of them, and what they changed in the core's allocator. The goal is less than 100 us, and no allocation.

`cold` is the median where 100 MB were written between two exchanges: nothing of Python or the frameworks is in the
processor's caches then, and whatever one calls waits for memory. For comparison, the last line is `torch.from_numpy`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Before TensorFlow: both register the same option of LLVM.
import tripont.torch_xla  # noqa: F401  # isort: skip
import torch_xla  # isort: skip
import jax
import numpy as np
import tensorflow as tf
import torch
from tripont.core import _tripont

from tripont import interop

BYTES = 100_000_000
GOAL_MICROSECONDS = 100.0
ROUNDS = 40
COLD_ROUNDS = 15

CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "jax": interop.to_jax,
    "tensorflow": interop.to_tensorflow,
    "torch_xla": interop.to_torch,
    "numpy": interop.to_numpy,
    "torch (cpu)": lambda x: interop.to_torch(x, device="cpu"),
}


def sources() -> dict[str, Any]:
    """An array of 100 MB of each framework, computed by it."""
    array = interop.empty(BYTES // 4)
    array[...] = np.arange(array.size) % 1000
    with tf.device("XPU:0"):
        of_tensorflow = tf.constant(array) + 1
    of_torch_xla = interop.to_torch(array, device="cpu").to("xla") + 1
    torch_xla.sync(wait=True)
    return {
        "jax": jax.block_until_ready(jax.device_put(array, jax.devices("xpu")[0]) + 1),
        "tensorflow": of_tensorflow,
        "torch_xla": of_torch_xla,
        "numpy": array,
        "torch (cpu)": torch.arange(array.size, dtype=torch.float32),
    }


@dataclass
class Pair:
    """One framework's array to another framework."""

    source: str
    target: str
    convert: Callable[[Any], Any]
    x: Any
    result: Any = None
    allocations: int = 0
    copies: int = 0
    seconds: list[float] = field(default_factory=list)
    cold_seconds: list[float] = field(default_factory=list)

    def exchange(self) -> float:
        """One exchange; how many seconds it took."""
        start = time.perf_counter()
        self.result = self.convert(self.x)
        return time.perf_counter() - start

    def counted_exchange(self, device: Any) -> float:
        allocated = device.memory_stats()["num_allocs"]
        copied = interop.statistics().copies
        seconds = self.exchange()
        self.allocations += device.memory_stats()["num_allocs"] - allocated
        self.copies += interop.statistics().copies - copied
        assert interop.pointer(self.result) == interop.pointer(self.x)
        return seconds

    def figures(self) -> dict[str, Any]:
        return {
            "from": self.source,
            "to": self.target,
            "microseconds": 1e6 * statistics.median(self.seconds),
            "least": 1e6 * min(self.seconds),
            "cold": 1e6 * statistics.median(self.cold_seconds),
            "allocations": self.allocations,
            "copies": self.copies,
        }


def measure() -> list[dict[str, Any]]:
    arrays = sources()
    pairs = [
        Pair(source, target, convert, x)
        for source, x in arrays.items()
        for target, convert in CONVERTERS.items()
        if source != target
    ]
    # What every framework and NumPy have: the least that an array's new handle costs.
    plain = Pair("numpy", "from_numpy", torch.from_numpy, arrays["numpy"])
    device = _tripont.Client().devices[0]
    for pair in pairs:
        pair.exchange()  # the first of its kind compiles nothing, but imports
    for _ in range(ROUNDS):
        for pair in pairs:
            pair.seconds.append(pair.counted_exchange(device))
        plain.seconds.append(plain.exchange())
    other = np.zeros(BYTES, np.uint8)
    for _ in range(COLD_ROUNDS):
        for pair in [*pairs, plain]:
            other += 1
            pair.cold_seconds.append(pair.exchange())
    return [pair.figures() for pair in [*pairs, plain]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows = measure()
    print(
        f"one exchange of {BYTES // 1_000_000} MB; goal: {GOAL_MICROSECONDS:.0f} us, no allocation"
    )
    print(
        f"{'from':<12} {'to':<12} {'median us':>10} {'least us':>10} {'cold us':>9} {'allocations':>12} {'copies':>7}"
    )
    for row in rows:
        good = row["microseconds"] < GOAL_MICROSECONDS and not row["allocations"]
        print(
            f"{row['from']:<12} {row['to']:<12} {row['microseconds']:>10.1f} {row['least']:>10.1f} "
            f"{row['cold']:>9.1f} {row['allocations']:>12} {row['copies']:>7}{'' if good else '   missed'}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
