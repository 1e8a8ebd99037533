"""Processes that compile the parts of a module beside the one that writes it.

They are forks of it, made when the first part is there. Parts lie in a file in memory; their places go through a pipe
that all processes read, so each takes the next when it is done with one. At the end the writing process does so too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import struct
import sys
import termios
from typing import TYPE_CHECKING, Final

from ..child import Child, KilledError

if TYPE_CHECKING:
    from .linker import Object
    from .text_target import TextTarget

MOST: Final = 3  # beside the one that writes the module
# Number of a part (or _STOP), whether it is compiled quickly, where its text begins and ends. Shorter than what a pipe
# takes and gives in one piece.
_JOB: Final = struct.Struct("<iiqq")
_STOP: Final = -1
# Bytes that wait in the pipe at most, which holds 4,096 at least: the rest is for the words to stop.
_WAITING: Final = 3072


class Processes:
    """Call :meth:`put` for each part, then :meth:`finish` once; and :meth:`close` in any case."""

    def __init__(self, target: TextTarget, dump: bool) -> None:
        self._target = target
        self._dump = dump
        self._jobs: dict[int, tuple[bool, int, int]] = {}
        self._made: dict[int, Object] = {}  # what this process has compiled
        self._texts = os.memfd_create("tripont-parts")
        self._size = 0
        self._read, self._write = os.pipe()
        count = max(1, min(len(os.sched_getaffinity(0)) - 1, MOST))
        self._children: list[Child] = []
        with contextlib.suppress(OSError):  # no more processes: those that there are do the work
            for _ in range(count):
                self._children.append(Child(self._work, "compiling a part of a module"))

    def put(self, number: int, text: str, quick: bool) -> None:
        """Have part ``number`` compiled. This process compiles some if many wait: the children are slow, or dead."""
        data = text.encode()
        start = self._size
        while self._size < start + len(data):
            self._size += os.pwrite(self._texts, data[self._size - start :], self._size)
        self._jobs[number] = quick, start, self._size
        while self._waiting() >= _WAITING:
            self._take()
        self._tell(number, quick, start, self._size)

    def finish(self) -> dict[int, Object]:
        """All parts' code by their numbers, when everything is compiled.

        What a child took that was killed, this process compiles when the others have ended: there is more memory then.
        Raises CompileError INTERNAL if LLVM refuses a part or dies of it.
        """
        for _ in range(len(self._children) + 1):
            self._tell(_STOP)
        while self._take():
            pass
        while self._children:
            with contextlib.suppress(KilledError):
                self._made |= pickle.loads(self._children.pop().result())
        for number, job in self._jobs.items():
            if number not in self._made:
                self._made[number] = self._compile(*job)
        return self._made

    def close(self) -> None:
        """End what still runs."""
        while self._children:
            self._children.pop().cancel()
        for descriptor in (self._texts, self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _tell(self, number: int, quick: bool = False, start: int = 0, end: int = 0) -> None:
        os.write(self._write, _JOB.pack(number, quick, start, end))

    def _waiting(self) -> int:
        """Bytes that are in the pipe."""
        return int.from_bytes(fcntl.ioctl(self._read, termios.FIONREAD, bytes(4)), sys.byteorder)

    def _work(self) -> bytes:
        """A child's work: compile parts until told to stop."""
        while self._take():
            pass
        return pickle.dumps(self._made)

    def _take(self) -> bool:
        """Compile the next part, or return False: the next word was to stop."""
        number, quick, start, end = _JOB.unpack(os.read(self._read, _JOB.size))
        if number == _STOP:
            return False
        self._made[number] = self._compile(bool(quick), start, end)
        return True

    def _compile(self, quick: bool, start: int, end: int) -> Object:
        text = os.pread(self._texts, end - start, start).decode()
        return self._target.compile_object(text, quick, dump=self._dump)
