"""Work on a thread beside the caller, for what does not hold Python's lock: LLVM compiles while Python goes on.

Between its calls of LLVM the thread needs Python's lock for a moment, for which it may wait as long as the
interpreter's switch interval, so the compile worker sets a short one (worker.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Beside(Generic[T]):
    """The result of a function that runs on a thread of its own, from now on; :meth:`result` gives it, or raises."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._result: T
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(
            target=self._run, name="tripont-beside", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: the caller does it
            self._thread = None

    def result(self) -> T:
        """What the function gave, when it is done. Call this once. Raises what the function raised."""
        if self._thread is None:
            return self._function()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result

    @property
    def is_done(self) -> bool:
        """Whether :meth:`result` does not wait (though it may do the work)."""
        return self._thread is None or not self._thread.is_alive()

    def wait(self) -> None:
        """Until the function is done, however it ends."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error
