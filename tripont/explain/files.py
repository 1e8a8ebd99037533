"""Reading files that somebody else named: the files of a dump, and the source files that a program's locations name.

The page is made to be shown to others, and dumps, artifacts and programs come from others. So nothing is read but
regular files of a bounded size, in the folders that they belong to.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LARGEST_FILE: Final = 1 << 30  # bytes of a file of a dump: artifacts hold a program's constants
LARGEST_SOURCE: Final = 4 << 20  # bytes of a source file


def read_regular(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The content of a regular file, of at most ``largest`` bytes. Never waits for a device or FIFO.

    Raises OSError: also for a symbolic link, for what is not a regular file, and for a larger one.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file", str(path))
        data = file.read(largest + 1)
        if len(data) > largest:
            raise OSError(0, f"it has more than {largest} bytes", str(path))
        return data


def read_named(folder: Path, name: str) -> bytes:
    """The file ``name`` of a folder; empty if that is not the name of a regular file right in the folder."""
    if name in ("", ".", "..") or Path(name).name != name:
        return b""
    try:
        return read_regular(folder / name)
    except (OSError, ValueError):
        return b""


class Sources:
    """The source files that may be shown: those below some folders, hidden files and folders excepted.

    A location in a program can name any file of the machine; ``refused`` collects those that exist outside.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        """``folders``: besides the working directory."""
        self.folders = [Path(f).resolve() for f in folders]
        with contextlib.suppress(FileNotFoundError):  # a working directory that was removed
            self.folders.insert(0, Path.cwd().resolve())
        self.refused: list[str] = []

    def read(self, file: str) -> str:
        """The text of a source file, empty if there is none that may be shown."""
        try:
            path = Path(file).resolve()
            if not self._allowed(path):
                if path.is_file():
                    self.refused.append(file)
                return ""
            return read_regular(path, LARGEST_SOURCE).decode(errors="replace")
        except (OSError, ValueError, RuntimeError):  # no such file, no name of one, a loop of links
            return ""

    def _allowed(self, path: Path) -> bool:
        """``path`` has no links in it."""
        return any(
            path.is_relative_to(folder)
            and not any(part.startswith(".") for part in path.relative_to(folder).parts)
            for folder in self.folders
        )
