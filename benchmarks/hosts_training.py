"""A data parallel training step over several processes of one thread, beside one process with as many threads.

python -m benchmarks.hosts_training                      two processes
python -m benchmarks.hosts_training --processes 4        others
python -m benchmarks.hosts_training --sizes 4x256x1024   layers x width x tokens of a batch
python -m benchmarks.hosts_training --wire 1250x50       over a wire of 1,250 bytes/us (10 Gbit/s) with 50 us a message
python -m benchmarks.hosts_training --start              start of the processes to their first collective instead
python -m benchmarks.hosts_training --start --first-ahead 0.1   process 0 calls jax.distributed.initialize 0.1 s earlier
python -m benchmarks.hosts_training --start --await-coordinator the others wait until process 0 listens, then call it
python -m benchmarks.hosts_training --start --cold              each start with an empty cache of compiled programs

Both train the same GPT with Adam on the same batches; the processes have a part of each batch, and gradients are
all-reduced. They take turns of a few steps, so that what else the machine does disturbs both alike. The first number
is the least time of a step in any turn, the second the median of the turns. The goal is 0.9 of one process.

--wire puts benchmarks/slow_wire.c before MPI, whose receives take as long as on such a network, and compares two jobs
of several processes over it: one whose collectives run beside the backward pass, and one whose device waits in each
(compiled with the option overlap_collectives=false).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .harness import free_port

LENGTH = 64  # tokens of a sequence
STEPS_OF_TURN = 4
TURNS = 7


def prepare(
    layers: int, width: int, tokens: int, overlap: bool = True
) -> tuple[Any, list[Any], int]:
    """A compiled step, its state (parameters, Adam's, tokens) and how many parameters there are."""
    import jax
    import numpy as np
    import optax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from benchmarks.training import GPT

    mesh = Mesh(np.array(jax.devices()), "x")
    whole = NamedSharding(mesh, PartitionSpec())
    model = GPT(layers=layers, width=width)
    optimizer = optax.adam(1e-3)
    numbers = np.random.default_rng(0).integers(0, 256, (tokens // LENGTH, LENGTH + 1), np.int32)
    batch = jax.make_array_from_callback(
        numbers.shape, NamedSharding(mesh, PartitionSpec("x")), lambda index: numbers[index]
    )

    def loss_of(parameters: Any, sequences: Any) -> Any:
        logits = model.apply(parameters, sequences[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, sequences[:, 1:]).mean()

    def step(parameters: Any, state: Any, sequences: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, sequences)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    parameters = jax.jit(model.init, out_shardings=whole)(jax.random.key(0), numbers[:1, :-1])
    state = jax.jit(optimizer.init, out_shardings=whole)(parameters)
    count = sum(p.size for p in jax.tree.leaves(parameters))
    jitted = jax.jit(step, donate_argnums=(0, 1), out_shardings=whole)
    options = {} if overlap else {"overlap_collectives": "false"}
    compiled = jitted.lower(parameters, state, batch).compile(options)
    return compiled, [parameters, state, batch], count


def work(process: int, processes: int, port: int, size: str, overlap: bool) -> None:
    """Runs as many steps as each line of its input says, and prints how long that took."""
    import jax

    if processes > 1:
        jax.distributed.initialize(f"localhost:{port}", processes, process)
    layers, width, tokens = map(int, size.split("x"))
    step, (parameters, state, batch), count = prepare(layers, width, tokens, overlap)
    print(count, flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        for _ in range(int(line)):
            parameters, state, loss = step(parameters, state, batch)
        loss.block_until_ready()
        print(time.perf_counter() - begin, flush=True)
    os._exit(0)


class Job:
    """Processes that train one model."""

    def __init__(
        self,
        processes: int,
        threads: int,
        size: str,
        *,
        overlap: bool = True,
        environment: dict[str, str] | None = None,
    ) -> None:
        port = free_port()
        variables = os.environ | {
            "TRIPONT_NUM_THREADS": str(threads),
            "TRIPONT_NUM_DEVICES": "1",
            "JAX_PLATFORMS": "xpu",
        }
        variables |= environment or {}
        command = [sys.executable, "-m", "benchmarks.hosts_training", "--size", size]
        command += ["--processes", str(processes), "--port", str(port)]
        command += [] if overlap else ["--no-overlap"]
        command += ["--worker"]
        self.workers = [
            subprocess.Popen(
                [*command, str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if number else None,
                text=True,
                env=variables,
            )
            for number in range(processes)
        ]

    def answers(self) -> list[float]:
        """The next line of each process."""
        lines = [worker.stdout.readline() for worker in self.workers if worker.stdout]
        if not all(lines):
            raise SystemExit("a process failed")
        return [float(line) for line in lines]

    def steps(self, count: int) -> float:
        """Seconds of a step, of the slowest process."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{count}\n")
            worker.stdin.flush()
        return max(self.answers()) / count

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()


def slow_wire(folder: str, wire: str) -> dict[str, str]:
    """Environment of processes whose messages take as long as ``wire`` says: bytes of a microsecond x microseconds."""
    from tripont.cli.hosts import mpi_library

    bandwidth, latency = wire.split("x")
    real = Path(mpi_library()).resolve()
    library = Path(folder) / "slow_wire.so"
    source = Path(__file__).with_name("slow_wire.c")
    command = ["cc", "-shared", "-fPIC", "-O2", str(source), "-o", str(library), "-ldl"]
    command += [
        "-Wl,--no-as-needed",
        str(real),
        f"-Wl,-rpath,{real.parent}",
        "-Wl,-soname,slow_wire",
    ]
    subprocess.run(command, check=True)
    return {
        "TRIPONT_MPI_PATH": str(library),
        "SLOW_WIRE_BYTES_PER_US": bandwidth,
        "SLOW_WIRE_US": latency,
    }


def compare(processes: int, size: str, wire: str = "") -> dict[str, Any]:
    """Times of a step in each turn."""
    with tempfile.TemporaryDirectory() as folder:
        if wire:
            environment = slow_wire(folder, wire)
            jobs = {
                name: Job(processes, 1, size, overlap=name == "overlapped", environment=environment)
                for name in ("overlapped", "waiting")
            }
        else:
            jobs = {"processes": Job(processes, 1, size), "threads": Job(1, processes, size)}
        return _take_turns(jobs, size)


def _take_turns(jobs: dict[str, Job], size: str) -> dict[str, Any]:
    try:
        counts = [job.answers() for job in jobs.values()]
        for job in jobs.values():
            job.steps(2)
        times: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(TURNS):
            for name, job in jobs.items():
                times[name].append(job.steps(STEPS_OF_TURN))
    finally:
        for job in jobs.values():
            job.end()
    return {"size": size, "parameters": int(counts[0][0]), "times": times}


def report(found: dict[str, Any]) -> str:
    """A row."""
    best = {name: min(times) for name, times in found["times"].items()}
    median = {name: statistics.median(times) for name, times in found["times"].items()}
    text = f"{found['size']:>12} {found['parameters'] / 1e6:6.1f}M parameters"
    for name in best:
        text += f"  {name} {best[name] * 1e3:7.1f} / {median[name] * 1e3:7.1f} ms"
    first, second = best
    ratios = (d[second] / d[first] for d in (best, median))
    return text + f"  speed of {first} : {second} " + "{:.2f} / {:.2f}".format(*ratios)


_START = """
import glob, os, socket, sys, time
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
process, processes, port = map(int, sys.argv[1:])
def of_workers():
    ticks = 0
    for file in glob.glob("/proc/self/task/*/children"):
        for child in open(file).read().split():
            fields = open(f"/proc/{child}/stat").read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
times = []
def note():
    times.extend((time.monotonic(), time.process_time() - used))
print("ready", flush=True)
awaits = sys.stdin.readline().strip() == "await"
used = time.process_time()
note()
while awaits and process:
    try:
        socket.create_connection(("localhost", port)).close()
        break
    except ConnectionRefusedError:
        time.sleep(0.005)
jax.distributed.initialize(f"localhost:{port}", processes, process)
note()
mesh = Mesh(np.array(jax.devices()), "x")
note()
spec = PartitionSpec("x")
array = jax.make_array_from_callback(
    (processes, 4), NamedSharding(mesh, spec), lambda _: np.ones((1, 4), np.float32))
body = jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=spec, out_specs=spec)
assert np.asarray(jax.jit(body)(array).addressable_data(0))[0, 0] == processes
note()
print(*times, of_workers(), flush=True)
"""


def start(processes: int, rounds: int, ahead: float, awaits: bool, cold: bool) -> None:
    """From jax.distributed.initialize to the first all-reduce's result, with all processes imported and waiting."""
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            lines = _start_once(
                processes, ahead, awaits, {"TRIPONT_CACHE_DIR": folder} if cold else {}
            )
        print(f"start {number}: {_told(lines)}", flush=True)


def _start_once(
    processes: int, ahead: float, awaits: bool, variables: dict[str, str]
) -> list[list[float]]:
    """What each process prints."""
    port = free_port()
    environment = os.environ | {"TRIPONT_NUM_DEVICES": "1", "JAX_PLATFORMS": "xpu"} | variables
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _START, str(n), str(processes), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        for n in range(processes)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    for place, worker in enumerate(workers):
        if place == 1:
            time.sleep(ahead)
        assert worker.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # of a process that failed
            worker.stdin.write("await\n" if awaits else "\n")
            worker.stdin.flush()
    lines = [worker.stdout.readline().split() for worker in workers if worker.stdout]
    statuses = [worker.wait() for worker in workers]
    if any(statuses):
        raise SystemExit("a process failed")
    return [list(map(float, line)) for line in lines]


def _told(lines: list[list[float]]) -> str:
    """Seconds until the last process is there, from the call of process 0 and from the first call of the others."""
    first, others = lines[0][0], min(line[0] for line in lines[1:] or lines)
    told = []
    for place, what in enumerate(("coordinator", "devices", "first all-reduce"), 1):
        last = max(line[2 * place] for line in lines)
        used = statistics.mean(line[2 * place + 1] for line in lines)
        told.append(
            f"{what} after {last - others:.2f} s ({last - first:.2f} s from process 0's call, "
            f"{used:.2f} s of CPU a process)"
        )
    told.append(f"compile worker: {statistics.mean(line[-1] for line in lines):.2f} s of CPU each")
    return "; ".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sizes", default="2x128x1024,4x256x1024,2x512x1024")
    parser.add_argument("--wire", default="", metavar="BYTES_PER_US x US")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--first-ahead", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--await-coordinator", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    for hidden in ("--worker", "--port"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--size", help=argparse.SUPPRESS)
    parser.add_argument("--no-overlap", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        overlap = not arguments.no_overlap
        work(arguments.worker, arguments.processes, arguments.port, arguments.size, overlap)
        return
    if arguments.start:
        ahead, awaits = arguments.first_ahead, arguments.await_coordinator
        start(arguments.processes, 3, ahead, awaits, arguments.cold)
        return
    found = []
    for size in arguments.sizes.split(","):
        found.append(compare(arguments.processes, size, arguments.wire))
        print(report(found[-1]), flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
