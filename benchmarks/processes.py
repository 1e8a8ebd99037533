"""Several processes that compute on the same cores: what they lose to one another, and what an idle one takes.

python -m benchmarks.processes                       8 processes, each program, on both devices
python -m benchmarks.processes --processes 4 --programs matmul linalg
python -m benchmarks.processes --json out.json

Each process compiles a program, waits until all have, and runs it for a number of steps. The figures are the time and
the CPU time (all processes, all threads) of their steps when they run together, over those when they run one after
another: 1.00 means that nothing is lost. Then each process sleeps for a second, and what it takes of the CPU meanwhile
is its idle time. The processes know nothing of one another: each has all of the threads.
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
from typing import Any, Final

PROGRAMS: Final = ("elementwise", "matmul", "linalg", "sort", "convolution")
#: Rounds of together and one after another, in turns.
ROUNDS: Final = 3
#: Seconds of work of a process, one thread after the other.
WORK: Final = 0.5


def program(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    generator = np.random.default_rng(0)

    def normal(*dims: int) -> np.ndarray:
        return generator.standard_normal(dims).astype(np.float32)

    if name == "elementwise":
        return lambda x: jnp.tanh(x) * jnp.exp(-x * x), (normal(1 << 21),)
    if name == "matmul":
        return lambda x, y: jnp.tanh(x @ y), (normal(1024, 1024), normal(1024, 1024))
    if name == "linalg":
        return lambda x: jnp.linalg.qr(x)[1], (normal(512, 512),)
    if name == "sort":
        return lambda x: jnp.sort(x), (normal(1 << 20),)
    if name == "convolution":
        return (
            lambda x, w: lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
            (normal(4, 56, 56, 64), normal(3, 3, 64, 64)),
        )
    raise SystemExit(f"no program {name}")


def work(name: str, device: str) -> None:
    """A process: says "ready", runs for each line that it reads, and says what that took."""
    import jax

    with jax.default_device(jax.devices(device)[0]):
        function, arguments = program(name)
        compiled = jax.jit(function)
        arguments = jax.device_put(arguments)
        jax.block_until_ready(compiled(*arguments))
        print("ready", flush=True)
        for line in sys.stdin:
            steps = int(line)
            cpu, start = time.process_time(), time.monotonic()
            if steps:
                for _ in range(steps):
                    jax.block_until_ready(compiled(*arguments))
            else:
                time.sleep(1)
            print(time.process_time() - cpu, start, time.monotonic(), flush=True)


class Worker:
    def __init__(self, name: str, device: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.processes", "--work", name, "--device", device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "xpu,cpu"},
        )

    def read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a process ended with {self._process.wait()}")
        return line

    def start(self, steps: int) -> None:
        assert self._process.stdin is not None
        print(steps, file=self._process.stdin, flush=True)

    def finish(self) -> tuple[float, float, float]:
        """CPU time, and when it began and ended, seconds."""
        cpu, start, end = map(float, self.read().split())
        return cpu, start, end

    def run(self, steps: int) -> tuple[float, float, float]:
        self.start(steps)
        return self.finish()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def together(workers: list[Worker], steps: int) -> tuple[float, float]:
    """Time from the first start to the last end, and CPU time of all, seconds."""
    for worker in workers:
        worker.start(steps)
    ended = [worker.finish() for worker in workers]
    return max(end for _, _, end in ended) - min(start for _, start, _ in ended), sum(
        cpu for cpu, _, _ in ended
    )


def in_turn(workers: list[Worker], steps: int) -> tuple[float, float]:
    ended = [worker.run(steps) for worker in workers]
    return sum(end - start for _, start, end in ended), sum(cpu for cpu, _, _ in ended)


def measure(name: str, device: str, processes: int) -> dict[str, Any]:
    workers = [Worker(name, device) for _ in range(processes)]
    try:
        for worker in workers:
            worker.read()
        _, begin, end = workers[0].run(3)
        steps = max(1, round(WORK / ((end - begin) / 3)))
        rounds = [(together(workers, steps), in_turn(workers, steps)) for _ in range(ROUNDS)]
        idle = [worker.run(0)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.close()
    return {
        "program": name,
        "device": device,
        "processes": processes,
        "steps": steps,
        "time": statistics.median(t[0] / s[0] for t, s in rounds),
        "cpu": statistics.median(t[1] / s[1] for t, s in rounds),
        "seconds in turn": statistics.median(s[0] for _, s in rounds),
        "idle": max(idle),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--programs", nargs="*", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--devices", nargs="*", default=("xpu", "cpu"))
    parser.add_argument("--json")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--device", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.device)
        return
    print(f"{'program':12} {'device':6}  together / in turn: time   CPU    CPU of an idle second")
    rows = []
    for name in arguments.programs:
        for device in arguments.devices:
            row = measure(name, device, arguments.processes)
            rows.append(row)
            print(
                f"{name:12} {device:6}  {row['time']:24.2f}  {row['cpu']:4.2f}  {row['idle']:12.4f} s",
                flush=True,
            )
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
