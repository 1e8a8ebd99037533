"""Run a function in a child process and take its result: :class:`Child`.

For two reasons. LLVM's SPIR-V backend keeps state from module to module (the numbers of basic blocks, by addresses that
are used again), so the second module that a process emits may be wrong; and it ends the process over what it cannot do.
In a child that emits one module neither matters: the parent never emits, and a child's end is an error with LLVM's last
words. And LLVM runs in one thread at a time: a large module takes half the time in two processes.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import warnings
from collections.abc import Callable

from ..ir.errors import CompileError, internal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_RAISED = "\0"  # what a child wrote to stderr ends here, and the text of its exception begins
_libc = ctypes.CDLL(None)  # before any fork: a child looks up nothing


class KilledError(CompileError):
    """A child was killed (SIGKILL), as the kernel does when memory runs out: the same may succeed later."""


class Child:
    """``function()``, being computed by a fork of this process. Call :meth:`result` or :meth:`cancel` once, or it
    stays behind.

    The child ends with the thread that made it, however that ends: when the runtime's process goes, its compile worker
    goes at once, and nobody is left to read what a child writes.

    Raises OSError where there can be no further process.
    """

    def __init__(self, function: Callable[[], bytes], what: str) -> None:
        self._what = what
        # In memory: a full disk keeps nobody from compiling.
        self._messages = os.fdopen(os.memfd_create("tripont"), "r+b")
        self._pipe, write_end = os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            # About forks of processes with threads: the child runs LLVM only and takes no lock of another library.
            warnings.simplefilter("ignore")
            try:
                self._process = os.fork()
            except OSError:
                os.close(self._pipe)
                os.close(write_end)
                self._messages.close()
                raise
        if self._process == 0:
            _child(function, write_end, self._messages.fileno(), parent)
        os.close(write_end)

    def result(self) -> bytes:
        """Wait for the child and take what the function gave.

        Raises KilledError (RESOURCE_EXHAUSTED) if somebody killed the child, and CompileError INTERNAL if it died
        otherwise or raised; the message has ``what`` and what it wrote to stderr.
        """
        with os.fdopen(self._pipe, "rb") as pipe:
            result = pipe.read()
        _, status = os.waitpid(self._process, 0)
        with self._messages as messages:
            if status == 0:
                return result
            messages.seek(0)
            text = messages.read().decode(errors="replace").strip()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            raise KilledError(
                "RESOURCE_EXHAUSTED",
                f"{self._what}: its process was killed, as happens when memory runs out",
            )
        _, raised, error = text.rpartition(_RAISED)
        if raised:
            raise internal(f"{self._what}: {error}")
        lines = [line for line in text.splitlines() if "LLVM ERROR" in line]
        lines = lines or text.splitlines()[-1:]
        reason = lines[0] if lines else f"it ended with status {status}"
        raise internal(f"{self._what}: {reason}")

    def cancel(self) -> None:
        """End the child, instead of :meth:`result`."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._pipe)
        self._messages.close()


def result_of(function: Callable[[], bytes], what: str) -> bytes:
    """``Child(function, what).result()``, tried once more if the child is killed."""
    try:
        return Child(function, what).result()
    except KilledError:
        return Child(function, what).result()


def _child(function: Callable[[], bytes], write_end: int, messages: int, parent: int) -> None:
    """Never returns, and runs nothing of the parent's exit handlers."""
    code = 1
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(code)  # it went before we asked
        faulthandler.disable()  # its report would go to the parent's stderr
        os.dup2(messages, 2)
        data = memoryview(function())
        while data:
            data = data[os.write(write_end, data) :]
        code = 0
    except BaseException as error:  # whatever it is, the parent must hear of it
        os.write(2, f"{_RAISED}{type(error).__name__}: {error}".encode())
    finally:
        os._exit(code)
