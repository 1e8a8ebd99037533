"""A limit on the processor time that reading a program may take, for processes that exist to be ended.

MLIR's bytecode reader can take exponential time on damaged bytes (a dictionary attribute that holds itself), inside a
call that Python cannot interrupt. A compile worker therefore lets the kernel end it: the runtime tells the user that
the compile failed, and starts another worker. A process that called nobody's :func:`enable` is never ended.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

# Reading takes about 0.1 s of a megabyte; a limit that is too high only delays the error for a damaged program.
_SECONDS = 5.0
_SECONDS_PER_BYTE = 20e-6

_enabled = False


def enable() -> None:
    """From now on, reading that takes much too long ends this process with SIGVTALRM."""
    global _enabled
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    _enabled = True


@contextlib.contextmanager
def reading_limit(program_size: int) -> Iterator[None]:
    """Around the reading of a program of so many bytes."""
    if not _enabled:
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS + _SECONDS_PER_BYTE * program_size)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
