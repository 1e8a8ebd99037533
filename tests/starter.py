"""A process that has imported a framework, and forks for each program that it is given: most of a start is that import.

tripont, and what starts a device or reads settings of one, is imported by the programs: ``Starter("jax")`` has
imported JAX, whose backends start later. ``python -m tests.starter MODULE ...`` reads a program and its environment
from each line of its input, in JSON, and answers with what the program said.
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
import tempfile
import time
import types
import warnings
from collections.abc import Mapping
from typing import IO, Any

# What frameworks read while they are imported, and Python and the dynamic linker when they start.
_READ_EARLY = ("JAX_", "XLA_FLAGS", "LD_", "PYTHON")
# What JAX reads so, and uses when a backend starts.
_READ_AGAIN = "JAX_PLATFORMS"


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_EARLY) and name != _READ_AGAIN
    }


class Starter:
    """The process, as those see it who have programs to run.

    Named arguments are variables of its environment: those that are read before a program begins.
    """

    def __init__(self, *modules: str, **variables: str) -> None:
        # tripont looks in /proc/self/environ, which the programs will have too, for a device that the user has chosen.
        self._environment = {k: v for k, v in os.environ.items() if k != "PJRT_DEVICE"} | variables
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.starter", *modules],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Whether nothing of these variables would come too late."""
        return _read_early(environment) == _read_early(self._environment)

    def run(
        self, program: str, environment: dict[str, str], *arguments: str, timeout: float = 250
    ) -> subprocess.CompletedProcess[str]:
        """As subprocess.run does it with ``python -c program``."""
        assert self.can_run(environment)
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        print(json.dumps([program, environment, arguments, timeout]), file=asked, flush=True)
        answer = answered.readline()
        assert answer, "the process that starts others has ended"
        status, output, errors = json.loads(answer)
        if status is None:
            raise subprocess.TimeoutExpired(["-c", *arguments], timeout, output, errors)
        return subprocess.CompletedProcess(["-c", *arguments], status, output, errors)

    def end(self) -> None:
        self._process.communicate()


@functools.cache
def starter_of(*modules: str) -> Starter:
    """The one of these modules, which ends with the process."""
    started = Starter(*modules)
    atexit.register(started.end)
    return started


def run_with_jax(
    program: str, environment: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """A program that imports JAX, in a process of its own."""
    starter = starter_of("jax", "jax.numpy")
    if starter.can_run(environment):
        return starter.run(program, environment, timeout=timeout)
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def _run(
    program: str, environment: dict[str, str], arguments: list[str], streams: list[IO[bytes]]
) -> None:
    """What the child does; it ends as a Python of its own would."""
    os.setsid()  # so that what it starts can be killed with it
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    if jax := sys.modules.get("jax"):
        jax.config.update("jax_platforms", environment.get(_READ_AGAIN))
    sys.argv = ["-c", *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), main.__dict__)


def _wait(child: int, seconds: float) -> int | None:
    """The child's status; None if it did not end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _main() -> None:
    for module in sys.argv[1:]:
        importlib.import_module(module)
    assert not any(name.startswith(("torch_xla", "tripont.core")) for name in sys.modules)
    gc.freeze()  # so that no child looks through the framework's objects
    for line in sys.stdin:
        program, environment, arguments, timeout = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            sys.stdout.flush()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # JAX's, about threads, which start with a backend
                child = os.fork()
            if child == 0:
                _run(program, environment, arguments, [out, errors])
                return  # Python ends
            answer: list[Any] = [_wait(child, timeout)]
            for stream in (out, errors):
                stream.seek(0)
                answer.append(stream.read().decode(errors="replace"))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _main()
