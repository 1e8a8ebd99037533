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


__all__ = ["WRITABLE_BY_OTHERS", "distrust", "is_shared"]
