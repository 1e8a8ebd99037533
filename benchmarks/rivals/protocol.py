"""The side of the process that compares: a worker's process, its requests and answers, and its stops
between turns.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self


class RivalError(Exception):
    """A rival refused, failed, died or did not answer in time. The message goes into the page."""


class Worker:
    """A process that answers requests (rivals/worker.py). Between requests it is stopped, so that threads that
    spin take no core.

    A worker that dies or is late cannot be used again: `alive` says so. Closing ends the process.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        start_seconds: float = 180.0,
        folder: Path | None = None,
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                list(command), env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, cwd=folder, start_new_session=True,
            )  # fmt: skip
        self.alive = True
        self._unread = b""
        try:
            self._read(start_seconds)
        except RivalError:
            self.close()
            raise
        self._pause(True)

    def ask(self, limit: float, /, **request: Any) -> dict[str, Any]:
        """The answer to a request. Raises RivalError: what the worker says, or that it took longer than ``limit``
        seconds, or died.
        """
        if not self.alive:
            raise RivalError("its process has ended")
        self._pause(False)
        try:
            inputs: IO[bytes] = self.process.stdin  # type: ignore[assignment]
            inputs.write(json.dumps(request).encode() + b"\n")
            inputs.flush()
        except OSError:
            self._fail(f"its process ended with {self.process.wait()}")
        answer = self._read(limit)
        self._pause(True)
        return answer

    def close(self) -> None:
        """Ends the process and those that it started."""
        self.alive = False
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # a request that nobody read
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, seconds: float) -> dict[str, Any]:
        outputs: IO[bytes] = self.process.stdout  # type: ignore[assignment]
        number = outputs.fileno()
        os.set_blocking(number, False)
        while b"\n" not in self._unread:
            ready, _, _ = select.select([number], [], [], seconds)
            if not ready:
                self._fail(f"no answer in {seconds:.0f} s")
            part = os.read(number, 1 << 20)
            if not part:
                self._fail(f"its process ended with {self.process.wait()}")
            self._unread += part
        line, self._unread = self._unread.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if answer.pop("error"):
            raise RivalError(json.loads(line)["error"])
        return answer

    def _fail(self, reason: str) -> None:
        self.close()
        raise RivalError(reason)

    def _pause(self, stop: bool) -> None:
        """The compile workers and the like that it started go on: they idle."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP if stop else signal.SIGCONT)
