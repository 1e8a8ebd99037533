"""A process that has imported PyTorch, and forks for each program that it is given: most of a start is that import.

torch_xla, and all that is tripont's, is imported by the programs. ``python -m tests.frontends.torch_xla.starter`` reads
a program and its environment from each line of its input, in JSON, and answers with what the program said.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
from typing import IO, Any

# A program's time, in seconds.
_LIMIT = 250


class Starter:
    """The process, as those see it who have programs to run."""

    def __init__(self) -> None:
        # tripont looks in /proc/self/environ, which the programs will have too, for what the user has chosen.
        environment = {k: v for k, v in os.environ.items() if k != "PJRT_DEVICE"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.frontends.torch_xla.starter"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, program: str, environment: dict[str, str], *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        """As subprocess.run does it with ``python -c program``."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        print(json.dumps([program, environment, arguments]), file=asked, flush=True)
        answer = answered.readline()
        assert answer, "PyTorch's process has ended"
        return subprocess.CompletedProcess(["-c", *arguments], *json.loads(answer))

    def end(self) -> None:
        self._process.communicate()


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
    sys.argv = ["-c", *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), main.__dict__)


def _main() -> None:

    assert "torch_xla" not in sys.modules
    assert not any(name.startswith("tripont.core") for name in sys.modules)
    gc.freeze()  # so that no child looks through PyTorch's objects
    for line in sys.stdin:
        program, environment, arguments = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                _run(program, environment, arguments, [out, errors])
                return  # Python ends
            signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))  # noqa: B023
            signal.alarm(_LIMIT)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            signal.alarm(0)
            answer: list[Any] = [status]
            for stream in (out, errors):
                stream.seek(0)
                answer.append(stream.read().decode(errors="replace"))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _main()
