"""Where compiled kernels are kept, and which of them may be loaded: a kernel is code, whoever wrote it.

The rules are those of the cache of compiled programs (core/runtime/artifact_cache.h, private_folder.h): the folder, the
one that it lies in, and the library must belong to this user or root, and nobody else may write to them. A library ends
with a digest of its key and content, behind what the loader reads, so that none answers for another one.
``TRIPONT_CACHE_SHARED=1`` turns the checks of owners and modes off.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Final

from tripont.trust import WRITABLE_BY_OTHERS, distrust, is_shared, open_file

_MAGIC: Final = b"TPKERNEL"
_SEAL_SIZE: Final = len(_MAGIC) + hashlib.sha256().digest_size


def cache_folder() -> Path | None:
    """Where compiled kernels are kept: beside the compiled programs, by the rules of core/runtime/artifact_cache.cc.

    None where nothing is to be kept (``TRIPONT_CACHE=0``) or no folder is named. A relative ``XDG_CACHE_HOME`` or
    ``HOME`` names none: it would be a folder of wherever the program happens to run.
    """
    if os.environ.get("TRIPONT_CACHE", "").lower() in ("0", "false", "off", "no"):
        return None
    if given := os.environ.get("TRIPONT_CACHE_DIR"):
        return Path(given, "kernels")
    for variable, below in (("XDG_CACHE_HOME", "tripont"), ("HOME", ".cache/tripont")):
        base = os.environ.get(variable, "")
        if os.path.isabs(base):
            return Path(base, below, "kernels")
    return None


@functools.cache
def private_folder() -> Path:
    """A folder of this process alone, for kernels that cannot be kept. It goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="tripont-kernels-")
    atexit.register(_remove_private_folder, folder, os.getpid())
    return Path(folder)


def _remove_private_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a child of fork() leaves it to its parent
        shutil.rmtree(folder, ignore_errors=True)


def writable_folder() -> Path:
    """:func:`cache_folder`, made if it is not there; :func:`private_folder` where that cannot be written to, or is not
    trusted.
    """
    folder = cache_folder()
    if folder is None:
        return private_folder()
    try:
        _make(folder)
        if reason := _distrust_folder(folder):
            _warn(reason)
            return private_folder()
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:  # a read-only home, or none, as in containers
        return private_folder()


def find(name: str, key: bytes) -> Path | None:
    """The kept library ``name``, if it is there, trusted and whole. Another one is removed, and said."""
    folder = cache_folder()
    if folder is None or not os.path.lexists(folder / name):
        return None
    if reason := _distrust_folder(folder):
        _warn(reason)
        return None
    path = folder / name
    reason = _distrust_library(path, key)
    if not reason:
        return path
    warnings.warn(
        f"the kernel {path} is not used: {reason}; compiling again", RuntimeWarning, stacklevel=2
    )
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def keep(built: Path, library: Path, key: bytes) -> None:
    """Move a library that was just built to its place, which is on the same file system."""
    with open(built, "r+b") as file:
        content = file.read()
        file.write(_seal(key, content))
    if not is_shared():
        built.chmod(0o700)
    built.rename(library)


def _make(folder: Path) -> None:
    """Make ``folder`` and those above it, for this user alone unless they are shared on purpose."""
    mode = 0o777 if is_shared() else 0o700
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode, exist_ok=True)


def _seal(key: bytes, content: bytes) -> bytes:
    digest = hashlib.sha256(len(key).to_bytes(8, "little") + key + content)
    return _MAGIC + digest.digest()


def _distrust_folder(folder: Path) -> str:
    """The same of a folder and the one that it lies in, in which somebody could put another one in its place.

    Folders whose place tripont chose itself are made private if they are this user's.
    """
    if is_shared():
        return ""
    for path in (folder.parent, folder):
        status = path.stat()
        chosen = not os.environ.get("TRIPONT_CACHE_DIR")
        if chosen and status.st_uid == os.geteuid() and status.st_mode & WRITABLE_BY_OTHERS:
            with contextlib.suppress(
                OSError
            ):  # a read-only file system: the folder is not trusted then
                path.chmod(0o700)
            status = path.stat()
        if reason := distrust(status):
            return f"the cache folder {path} is not trusted: {reason}"
    return ""


def _distrust_library(path: Path, key: bytes) -> str:
    try:
        with open(open_file(path, shared=is_shared()), "rb") as file:
            content = file.read()
    except ValueError as error:
        return str(error)
    except OSError as error:
        return f"it cannot be opened: {error.strerror}"
    if content[-_SEAL_SIZE:] != _seal(key, content[:-_SEAL_SIZE]):
        return "it is damaged (its digest does not match)"
    return ""


def _warn(reason: str) -> None:
    """Say once why kernels are not kept."""
    warnings.warn(
        f"{reason}; kernels are compiled anew in each process (TRIPONT_CACHE_SHARED=1 trusts the folder)",
        RuntimeWarning,
        stacklevel=3,
    )
