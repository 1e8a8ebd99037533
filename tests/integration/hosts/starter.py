"""A process that has imported JAX, and forks the processes of a job: what most of them cost is that import.

No backend starts, and nothing of tripont is loaded, before the fork. ``python -m tests.integration.hosts.starter``
reads one job from each line of its input, in JSON, and answers with how its processes ended.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

# What JAX reads while it is imported and uses when a backend starts.
_READ_AGAIN = "JAX_PLATFORMS"
# Modules that single workers import, for a second of the CPU in each of their processes.
_IMPORTED = {"checkpoint": "orbax.checkpoint"}
# What JAX reads while it is imported. All tests have one XLA_FLAGS (tests/conftest.py).
_IMPORT = {"JAX_ENABLE_X64": "1"} | {k: v for k, v in os.environ.items() if k == "XLA_FLAGS"}


def can_start(environment: Mapping[str, str]) -> bool:
    """Whether a process with these variables may begin as one of ours: what is read before the fork is the same."""
    return (
        not environment.get("LD_PRELOAD")
        and {
            name: value
            for name, value in environment.items()
            if name.startswith(("JAX_", "XLA_")) and name != _READ_AGAIN
        }
        == _IMPORT
    )


class Starter:
    """The process, as those see it who have jobs to run."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.hosts.starter"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
            | _IMPORT,
            text=True,
            start_new_session=True,
        )
        atexit.register(self._end)

    def run(
        self, processes: Sequence[tuple[list[str], dict[str, str], str]], limit: float
    ) -> list[tuple[int | None, float]]:
        """The status of each process, or None where it did not end in time, and the seconds to its end.

        Of each: the arguments of workers.py, the environment, and a file for its output.
        """
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        try:
            with self._one_at_a_time:
                print(json.dumps([processes, limit]), file=asked, flush=True)
                answer = answered.readline()
        except BaseException:  # pytest's limit, or Ctrl-C
            self._end()
            started.cache_clear()
            raise
        assert answer, "JAX's process has ended"
        return [(status, seconds) for status, seconds in json.loads(answer)]

    def _end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@functools.cache
def started() -> Starter:
    return Starter()


def _child(arguments: list[str], environment: dict[str, str], output: str) -> None:
    streams = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    )
    for number, stream in ((0, streams[0]), (1, streams[1]), (2, streams[1])):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["workers", *arguments]
    import jax

    from tests.integration.hosts import workers

    jax.config.update("jax_platforms", environment.get(_READ_AGAIN))
    workers.main()


def _wait(children: list[int], limit: float) -> list[Any]:
    start = time.monotonic()
    ended: dict[int, list[Any]] = {}
    while len(ended) < len(children):
        late = time.monotonic() - start > limit
        for child in set(children) - set(ended):
            if late:
                os.kill(child, signal.SIGKILL)
            pid, status = os.waitpid(child, 0 if late else os.WNOHANG)
            if pid:
                code = None if late else os.waitstatus_to_exitcode(status)
                ended[child] = [code, time.monotonic() - start]
        time.sleep(0.01)
    return [ended[child] for child in children]


def _main() -> None:
    from tests.integration.hosts import workers  # noqa: F401

    assert not any(name.startswith("tripont") for name in sys.modules)
    gc.freeze()  # so that no child looks through JAX's objects
    for line in sys.stdin:
        processes, limit = json.loads(line)
        for (worker, *_), _, _ in processes:
            if worker in _IMPORTED:
                importlib.import_module(_IMPORTED[worker])
        children = []
        for arguments, environment, output in processes:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # JAX's, about threads, which start with a backend
                child = os.fork()
            if child == 0:
                _child(arguments, environment, output)
                return  # Python ends
            children.append(child)
        print(json.dumps(_wait(children, limit)), flush=True)


if __name__ == "__main__":
    _main()
