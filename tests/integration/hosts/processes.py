"""Starts the processes of a job, each of which runs one function of :mod:`.workers`."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

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
    running = []
    folder = tempfile.TemporaryDirectory()
    try:
        for number in range(processes):
            variables = (
                os.environ
                | {
                    "TRIPONT_NUM_DEVICES": str(devices),
                    "JAX_ENABLE_X64": "1",
                    VARIABLE: folder.name,
                }
                | dict(environment or {})
                | dict((of_process or {}).get(number, {}))
            )
            command = [*(under or {}).get(number, ())]
            command += [sys.executable, "-m", "tests.integration.hosts.workers", worker]
            command += [str(number), str(processes), str(port), *map(str, arguments)]
            running.append(
                subprocess.Popen(
                    command,
                    cwd=Path(__file__).parents[3],
                    env=variables,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        return _wait(running, start)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        folder.cleanup()


def _wait(running: Sequence[subprocess.Popen[str]], start: float) -> list[Ended]:
    ended = []
    for process in running:
        left = start + LIMIT - time.monotonic()
        try:
            output, _ = process.communicate(timeout=max(left, 1))
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0] + "\n[did not end]"
        ended.append(Ended(process.returncode, output, time.monotonic() - start))
    return ended


def check(ended: Sequence[Ended]) -> None:
    """All processes ended well."""
    assert [e.status for e in ended] == [0] * len(ended), "\n----\n".join(e.output for e in ended)
