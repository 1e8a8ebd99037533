"""Collectives between processes on one machine, beside JAX's CPU device with Gloo.

python -m benchmarks.collectives                    two processes with a device each
python -m benchmarks.collectives --processes 4      others
python -m benchmarks.collectives --json f           and the figures in a file

Both devices are in the same processes and take turns, so that what else the machine does disturbs both alike. A figure
is the time from the call of a compiled program to its results being there, in process 0; the first number is the least
of many, the second the median. The goals are those of an all-reduce: at most half of Gloo's time for 4 bytes, and twice
its bandwidth for 16 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .harness import free_port

ROUNDS = {4: 300, 4 << 10: 200, 256 << 10: 60, 16 << 20: 20}
PLATFORMS = ("xpu", "cpu")


def programs(platform: str, size: int) -> dict[str, Callable[[], Any]]:
    """Compiled programs of ``size`` bytes a device, by the name of their collective."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = np.array(jax.devices(platform))
    mesh = Mesh(devices, "x")
    spec = PartitionSpec("x")
    count = len(devices)
    shape = (count, max(size // 4, count if size > 4 else 1))
    array = jax.make_array_from_callback(
        shape, NamedSharding(mesh, spec), lambda index: np.ones((1, shape[1]), np.float32)
    )
    ring = [(i, (i + 1) % count) for i in range(count)]
    bodies: dict[str, Callable[[Any], Any]] = {
        "all-reduce": lambda x: jax.lax.psum(x, "x"),
        "all-gather": lambda x: jax.lax.all_gather(x, "x"),
        "collective-permute": lambda x: jax.lax.ppermute(x, "x", ring),
    }
    if size > 4:
        bodies["reduce-scatter"] = lambda x: jax.lax.psum_scatter(
            x.reshape(count, -1), "x", tiled=True
        )
        bodies["all-to-all"] = lambda x: jax.lax.all_to_all(
            x.reshape(count, -1), "x", 0, 0, tiled=True
        )
    compiled = {}
    for name, body in bodies.items():
        mapped = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        compiled[name] = partial(jax.jit(mapped).lower(array).compile(), array)
    return compiled


def work(process: int, processes: int, port: int) -> None:
    """One of the processes; process 0 prints each figure as a line of JSON."""
    import jax

    start = time.perf_counter()
    jax.distributed.initialize(f"localhost:{port}", processes, process)
    jax.devices("xpu")
    started = time.perf_counter() - start
    for size, rounds in ROUNDS.items():
        by_platform = {platform: programs(platform, size) for platform in PLATFORMS}
        if size == 4:
            next(iter(by_platform["xpu"].values()))().block_until_ready()
            if process == 0:
                print(json.dumps({"start": started, "first": time.perf_counter() - start}))
        for name in by_platform["xpu"]:
            times: dict[str, list[float]] = {platform: [] for platform in PLATFORMS}
            for _ in range(rounds):
                for platform in PLATFORMS:
                    program = by_platform[platform][name]
                    program().block_until_ready()  # all are there
                    begin = time.perf_counter()
                    program().block_until_ready()
                    times[platform].append(time.perf_counter() - begin)
            if process == 0:
                print(json.dumps({"name": name, "bytes": size, "times": times}), flush=True)


def report(line: dict[str, Any]) -> str:
    """A row of the table."""
    if "start" in line:
        return (
            f"from jax.distributed.initialize to the devices {line['start']:.2f} s, "
            f"to the first collective {line['first']:.2f} s (with compiling it on both devices)"
        )
    text = f"{line['name']:20} {line['bytes']:>10,} bytes"
    best = {p: min(line["times"][p]) for p in PLATFORMS}
    median = {p: statistics.median(line["times"][p]) for p in PLATFORMS}
    for platform in PLATFORMS:
        text += f"  {platform} {best[platform] * 1e6:8.0f} / {median[platform] * 1e6:8.0f} us"
    return text + (
        f"  cpu : xpu {best['cpu'] / best['xpu']:5.2f} / {median['cpu'] / median['xpu']:5.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker[0], arguments.processes, arguments.worker[1])
        return
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.collectives"]
    command += ["--processes", str(arguments.processes), "--worker"]
    workers = [
        subprocess.Popen(
            [*command, str(number), str(port)],
            stdout=subprocess.PIPE if number == 0 else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if number else None,
            text=True,
            env=os.environ | {"TRIPONT_NUM_DEVICES": "1"},
        )
        for number in range(arguments.processes)
    ]
    lines = []
    try:
        assert workers[0].stdout is not None
        for text in workers[0].stdout:
            if not text.startswith("{"):
                continue
            lines.append(json.loads(text))
            print(report(lines[-1]), flush=True)
        if any(worker.wait(60) for worker in workers):
            raise SystemExit("a process failed")
    finally:
        for worker in workers:
            worker.kill()
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
