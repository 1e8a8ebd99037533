"""Exchanging an array of 100 MB between two frameworks: microseconds and allocations, of every pair.

python -m benchmarks.interop              the table
python -m benchmarks.interop --json f     and the figures in a file

An exchange takes an array that is there, and ends when the other framework has it. The figure is the median of many,
pairs in turns; beside it are the least of them, and what one changed in the core's allocator. The goal is less than
100 us, and no allocation.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
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


def measure() -> list[dict[str, Any]]:
    arrays = sources()
    pairs = [(a, b) for a in arrays for b in CONVERTERS if a != b]
    times: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    allocations = dict.fromkeys(pairs, 0)
    copies = dict.fromkeys(pairs, 0)
    device = _tripont.Client().devices[0]
    for _ in range(ROUNDS):
        for source, target in pairs:
            x, convert = arrays[source], CONVERTERS[target]
            result = convert(x)  # the first of its kind compiles nothing, but imports
            allocated = device.memory_stats()["num_allocs"]
            copied = interop.statistics().copies
            start = time.perf_counter()
            result = convert(x)
            times[source, target].append(time.perf_counter() - start)
            allocations[source, target] += device.memory_stats()["num_allocs"] - allocated
            copies[source, target] += interop.statistics().copies - copied
            assert interop.pointer(result) == interop.pointer(x)
            del result
    return [
        {
            "from": source,
            "to": target,
            "microseconds": 1e6 * sorted(values)[len(values) // 2],
            "least": 1e6 * min(values),
            "allocations": allocations[source, target],
            "copies": copies[source, target],
        }
        for (source, target), values in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows = measure()
    print(
        f"one exchange of {BYTES // 1_000_000} MB; goal: {GOAL_MICROSECONDS:.0f} us, no allocation"
    )
    print(
        f"{'from':<12} {'to':<12} {'median us':>10} {'least us':>10} {'allocations':>12} {'copies':>7}"
    )
    for row in rows:
        good = row["microseconds"] < GOAL_MICROSECONDS and not row["allocations"]
        print(
            f"{row['from']:<12} {row['to']:<12} {row['microseconds']:>10.1f} {row['least']:>10.1f} "
            f"{row['allocations']:>12} {row['copies']:>7}{'' if good else '   missed'}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
