"""Gathers, scatters, sums by segment, histograms, sparse products and interpolation beside XLA:CPU, NumPy and PyTorch.

python -m benchmarks.scatter                   benchmarks/rivals/programs/indices.py, and an embedding's gradient
python -m benchmarks.scatter bincount sparse   programs of benchmarks.rivals whose names contain one of the words
python -m benchmarks.scatter --clock cpu       of processor time, on machines that do other things too

All run in one process, in turns, with what is installed there (SciPy's functions count as NumPy's): that takes seconds,
where benchmarks.rivals takes environments of 10 GB. Figures are the minimum of a call, in microseconds, and the ratio
to the best of the others (above 1: faster than all of them).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TRIPONT_CACHE", "0")

import jax

from benchmarks.rivals.program import Program, programs
from benchmarks.small_matrices import measure


def steps_of(program: Program) -> dict[str, Callable[[], Any]]:
    """The steps of ours and of each of the others, ours first. Frameworks that are not installed are left out."""
    arguments = program.make_inputs()
    steps: dict[str, Callable[[], Any]] = {}
    function = program.makers["jax"]()
    compiled = jax.jit(function) if program.jit else function
    for name, platform in (("ours", "xpu"), ("XLA:CPU", "cpu")):
        placed = jax.device_put(arguments, jax.devices(platform)[0])
        steps[name] = lambda a=placed: jax.block_until_ready(compiled(*a))
    try:
        if "numpy" in program.makers:
            numpy = program.makers["numpy"]()
            steps["NumPy"] = lambda: numpy(*arguments)
        if "torch" in program.makers:
            torch = program.makers["torch"]()
            import torch as framework

            tensors = [framework.from_numpy(a) for a in arguments]
            steps["PyTorch"] = lambda: torch(*tensors)
    except ImportError as error:
        print(f"{program.name}: left out: {error}")
    return steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names")
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring for each row")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    device = jax.devices("xpu")[0]
    print(
        f"JAX {jax.__version__}, {len(os.sched_getaffinity(0))} threads, {device.device_kind}; "
        f"us of {options.clock} time, minima"
    )
    for program in programs().values():
        wanted = program.kind == "gather and scatter" or program.name == "embedding_gradient"
        if options.names:
            wanted = any(word in program.name for word in options.names)
        if not wanted or "jax" not in program.makers:
            continue
        seconds = measure(steps_of(program), clock, options.seconds)
        least = {name: 1e6 * value for name, value in seconds.items()}
        ours = least.pop("ours")
        others = "  ".join(f"{key} {value:9.0f}" for key, value in least.items())
        print(
            f"{program.name:20} {ours:9.0f}   {others}   {min(least.values()) / ours:6.2f}x",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
