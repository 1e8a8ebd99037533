"""What the compiler is, in a few characters: part of the key of the on-disk cache of artifacts."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator

from . import __path__ as package_path
from .version import __version__

# Of the files that decide what the compiler makes: its code, and the tables beside it.
_SUFFIXES = (".py", ".txt")


def _source_files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Those in the folder ``core`` of the package: of the compiler, and of what it shares with the runtime."""
    for name in ("compiler", "schema"):
        if os.path.isdir(below := os.path.join(folder, name)):
            yield from _files_below(below)


def _files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files_below(entry.path)
            elif entry.name.endswith(_SUFFIXES):
                yield entry


def compiler_fingerprint() -> str:
    """Changes when tripont, LLVM's or jaxlib's version changes, or a file of the compiler is edited.

    Names, sizes and modification times stand for the files' contents: this is called whenever a client is created.
    """
    import importlib.metadata  # loads more than the compile workers need

    digest = hashlib.sha256(__version__.encode())
    for name in ("llvmlite", "jaxlib"):
        try:
            digest.update(importlib.metadata.version(name).encode())
        except importlib.metadata.PackageNotFoundError:
            digest.update(b"none")
    for root in package_path:
        folder = os.path.join(root, "core")
        if os.path.isdir(os.path.join(folder, "compiler")):
            for entry in _source_files(folder):
                status = entry.stat()
                digest.update(f"{entry.name} {status.st_size} {status.st_mtime_ns}\n".encode())
            break
    return digest.hexdigest()[:16]


def compiler_sources() -> str:
    """A digest of the names and contents of the compiler's source files; empty if there are none.

    ``core/runtime/installation.cc`` computes it in the same way: the runtime compares its own with a worker's.
    """
    for root in package_path:
        folder = os.path.join(root, "core")
        if os.path.isdir(os.path.join(folder, "compiler")):
            digest = hashlib.sha256()
            for entry in _source_files(folder):
                with open(entry.path, "rb") as file:
                    checksum = zlib.crc32(file.read())
                name = os.path.relpath(entry.path, folder)
                digest.update(f"{name} {checksum}\n".encode())
            return digest.hexdigest()[:16]
    return ""
