"""Starts the processes of a job, each of which runs one function of :mod:`.workers`."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import starter
from .presence import VARIABLE

# Until all processes have ended, in seconds: they import JAX, on a machine that may do other things too.
LIMIT = 200


@dataclasses.dataclass
class Ended:
    """How a process ended, and what it printed."""

    status: int
    output: str
    seconds: float  # from the start of all to its end


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(
    worker: str,
    *arguments: object,
    processes: int = 2,
    devices: int = 1,
    environment: Mapping[str, str] | None = None,
    of_process: Mapping[int, Mapping[str, str]] | None = None,
    under: Mapping[int, Sequence[str]] | None = None,
) -> list[Ended]:
    """Run the function ``worker`` of workers.py in each process of a job.

    ``environment`` is for all of them, ``of_process`` for single ones. ``under``: the command that starts a
    process. None of them outlives the call.
    """
    port = free_port()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        # Not pipes: one that is full would keep its process, and so the others, from their end.
        outputs = [Path(folder) / f"output {number}" for number in range(processes)]
        commands = [
            [worker, str(number), str(processes), str(port), *map(str, arguments)]
            for number in range(processes)
        ]
        environments = [
            os.environ
            | {"TRIPONT_NUM_DEVICES": str(devices), "JAX_ENABLE_X64": "1", VARIABLE: folder}
            | dict(environment or {})
            | dict((of_process or {}).get(number, {}))
            for number in range(processes)
        ]
        if not under and all(map(starter.can_start, environments)):
            jobs = list(zip(commands, environments, map(str, outputs), strict=True))
            ended = starter.started().run(jobs, LIMIT)
            return [
                Ended(
                    -signal.SIGKILL if status is None else status,
                    output.read_text() + ("\n[did not end]" if status is None else ""),
                    seconds,
                )
                for (status, seconds), output in zip(ended, outputs, strict=True)
            ]
        running = []
        try:
            for number in range(processes):
                command = [*(under or {}).get(number, ())]
                command += [sys.executable, "-m", "tests.integration.hosts.workers"]
                command += commands[number]
                with outputs[number].open("w") as output:
                    running.append(
                        subprocess.Popen(
                            command,
                            cwd=Path(__file__).parents[3],
                            env=environments[number],
                            stdout=output,
                            stderr=subprocess.STDOUT,
                        )
                    )
            return [
                _wait(process, start, path) for process, path in zip(running, outputs, strict=True)
            ]
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], start: float, output: Path) -> Ended:
    left = start + LIMIT - time.monotonic()
    end = ""
    try:
        process.wait(max(left, 1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        end = "\n[did not end]"
    return Ended(process.returncode, output.read_text() + end, time.monotonic() - start)


def check(ended: Sequence[Ended]) -> None:
    """All processes ended well."""
    assert [e.status for e in ended] == [0] * len(ended), "\n----\n".join(e.output for e in ended)
