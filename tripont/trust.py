"""Which files and folders with code in them are trusted, by the rules of core/runtime/private_folder.h."""

from __future__ import annotations

import os
import stat
from typing import Final

WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def is_shared() -> bool:
    """Whether the user trusts a folder that others may write to."""
    return os.environ.get("TRIPONT_CACHE_SHARED", "").lower() in ("1", "true", "on", "yes")


def distrust(status: os.stat_result) -> str:
    """Why the file or folder that ``status`` is about is not trusted; empty if it is."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}, and this process runs as user {os.geteuid()}"
    if status.st_mode & WRITABLE_BY_OTHERS:
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def open_file(name: str | os.PathLike[str], *, shared: bool, folder: int | None = None) -> int:
    """A descriptor of a file that is trusted, to be read. ``folder`` is that of the folder in which ``name`` lies;
    without it, ``name`` is a path. With ``shared`` owners and modes are not looked at. Does not wait, whatever the file
    is.

    Raises OSError where it cannot be opened (ELOOP for a symbolic link), ValueError that says why it is not trusted.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if not shared and (reason := distrust(status)):
            raise ValueError(reason)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


__all__ = ["WRITABLE_BY_OTHERS", "distrust", "is_shared", "open_file"]
