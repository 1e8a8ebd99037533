"""Which threads use the device.

torch_xla takes what is recorded from every tensor alive, those of other threads as well, and until their program is
compiled these have neither a recording nor numbers: a thread that uses one of them meanwhile gets an error. So all is
computed at a reading only where one thread alone has used the device (:class:`Threads`).

A kernel that Python calls does not let other threads have Python's lock, and one that reads from the device waits for
its lock, which another thread may hold that waits for Python's. So threads take turns to read (:data:`reading`).
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any, Final

#: Held by the thread that reads from the device. A reading may have another one within it.
reading: Final = threading.RLock()
# Packages whose threads watch, load or wait, besides Python's own modules. None of them runs what a user has written.
_WATCHERS: Final = sys.stdlib_module_names | {
    "IPython", "_pydevd_bundle", "absl", "debugpy", "execnet", "grpc", "huggingface_hub", "ipykernel", "jupyter_client",
    "mlflow", "psutil", "pydevd", "sentry_sdk", "tensorboard", "torch", "torch_xla", "tornado", "tqdm", "traitlets",
    "urllib3", "wandb", "watchdog", "zmq",
}  # fmt: skip


class Threads:
    """The threads that have used the device, as far as they have moved arrays, read, or called ``sync()``."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._are_several = False

    def see(self) -> None:
        """The calling thread uses the device."""
        if self._first is None:
            self._first = threading.get_ident()
        elif self._first != threading.get_ident():
            self._are_several = True

    def is_alone(self) -> bool:
        """Whether the calling thread, which has been seen, is the only one, and no other thread but the main one runs
        what may be a user's.
        """
        if self._are_several:
            return False
        frames = sys._current_frames()
        try:
            for ident in (threading.get_ident(), threading.main_thread().ident):
                frames.pop(ident, None)  # type: ignore[arg-type]  # of a thread that has begun
            return not any(map(_is_users, frames.values()))
        finally:
            frames.clear()  # the callers' tensors would stay alive with this function's own frame


def _is_users(frame: FrameType | None) -> bool:
    """Whether a function on this stack is of another package than those of watchers."""
    while frame is not None:
        module: Any = frame.f_globals.get("__name__")
        if str(module).partition(".")[0] not in _WATCHERS:
            return True
        frame = frame.f_back
    return False
