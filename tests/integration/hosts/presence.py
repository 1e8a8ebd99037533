"""Which processes of a job are still there: none may leave while another one can ask it why something failed.

Each process holds locks on two files, one until it has nothing more to do and one until its end. The kernel lets go of
those of a process that dies, wherever it runs.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

# The variable with the folder of the files, which is the job's own.
VARIABLE = "HOSTS_PRESENCE"
# Seconds to wait for the others, who may be stopped or wait for messages of a network that is cut.
_LIMIT = 60


class Presence:
    """That of this process."""

    def __init__(self, process: int, processes: int) -> None:
        folder = Path(os.environ[VARIABLE])
        self._works, lives = (_open(folder, what, process) for what in ("works", "lives"))
        for file in (self._works, lives):
            fcntl.flock(file, fcntl.LOCK_EX)
        # Process 0 is the last: JAX's coordinator is in it.
        what = "lives" if process == 0 else "works"
        self._others = [_open(folder, what, p) for p in range(processes) if p != process]

    def leave(self) -> None:
        """Wait until no other process can ask this one anything."""
        os.close(self._works)
        end = time.monotonic() + _LIMIT
        for other in self._others:
            while not _is_free(other) and time.monotonic() < end:
                time.sleep(0.02)


def _open(folder: Path, what: str, process: int) -> int:
    return os.open(folder / f"{what} {process}", os.O_CREAT | os.O_RDWR)


def _is_free(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
