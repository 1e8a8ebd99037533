"""The same program on another target, in a process of its own: a process has devices of one kind.

The process is started with the first program, serves the one that started it (a fuzzer's child), and ends with it.
"""

from __future__ import annotations

import functools
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

_LENGTH: Final = struct.Struct("<q")


class RefusedError(Exception):
    """The other target does not take the program, and says so."""


def _send(file: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value)
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def _receive(file: IO[bytes]) -> Any:
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    return pickle.loads(file.read(length))


class Server:
    """A process that compiles and runs programs on ``target``."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.other_target"],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"TRIPONT_CONFORMANCE_TARGET": target},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of StableHLO text. Raises RefusedError, or RuntimeError if the process ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, (text, [np.asarray(a) for a in arguments]))
            what, value = _receive(self._process.stdout)
        except (EOFError, BrokenPipeError):
            status = self._process.wait()
            raise RuntimeError(f"the process of target {self.target} ended with {status}") from None
        if what == "refused":
            raise RefusedError(value)
        if what == "failed":
            raise RuntimeError(value)
        return list(value)


@functools.cache
def server(target: str, process: int) -> Server:
    """The server of ``target`` for the process of this number, which is the caller's."""
    return Server(target)


@functools.cache
def has_sycl() -> bool:
    """Whether programs can run on SYCL's CPU device here: there is a device for a tiny one."""
    try:
        server("sycl", os.getpid()).run(
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}",
            [np.zeros(2, np.float32)],
        )
    except (RuntimeError, RefusedError):
        return False
    return True


def _serve() -> None:
    from tripont.core.compiler.ir.errors import CompileError

    from tests.conformance import device
    from tests.fuzz import ways

    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            text, arguments = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            results = ways.run(ways.load(text, device.OPTIONS), arguments)
            _send(answers, ("results", results))
        except CompileError as error:
            refused = error.code in ("UNIMPLEMENTED", "INVALID_ARGUMENT")
            _send(answers, ("refused" if refused else "failed", str(error)))
        except Exception as error:
            _send(answers, ("failed", f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    _serve()
