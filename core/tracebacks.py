"""Exceptions as text, for threads that are not the main program's.

CPython marks the part of a line that failed with carets, for which it parses that line. CPython 3.11 counts the depth
of its parser in one place for all threads: where two parse at the same time, either may raise ``SystemError: AST
constructor recursion depth mismatch``, and a test runner that is just importing a file ends with that.
"""

from __future__ import annotations

import logging
import threading
import traceback
from types import TracebackType


def format_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> str:
    """What ``traceback.format_exception`` gives, as one text, without carets below the lines."""
    whole = traceback.TracebackException(kind, error, trace, compact=True)
    waiting = [whole]
    while waiting:
        part = waiting.pop()
        for frame in part.stack:
            frame.colno = frame.end_colno = None
        causes = (part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ()))
        waiting += [cause for cause in causes if cause is not None]
    return "".join(whole.format())


class PlainTracebacks(logging.Filter):
    """Gives the records of a logger the text of their exception, where another thread than the main one logs it."""

    def filter(self, record: logging.LogRecord) -> bool:
        # On the main thread, formatters keep their own form.
        elsewhere = threading.current_thread() is not threading.main_thread()
        if elsewhere and record.exc_info and not record.exc_text:
            kind, error, trace = record.exc_info
            if kind is not None and error is not None:
                record.exc_text = format_exception(kind, error, trace).rstrip("\n")
        return True
