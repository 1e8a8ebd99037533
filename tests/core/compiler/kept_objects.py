"""Objects that LLVM made for tests, kept from one run of the tests to the next.

Four in ten seconds of the tests of generated code were LLVM's, which is the same library each time. What LLVM makes
depends on the text that it reads, on the machine that it compiles for and on how it is called: these are an object's
key. So every test still reads, optimises, fuses and writes its program, and links and runs the code; only the step
from a text to the object that this text had before is left out. `make test-nightly` keeps nothing.

The objects lie in ``~/.cache/tripont-build/test-objects`` (or ``$XDG_CACHE_HOME/tripont-build/test-objects``), where
the build keeps what outlives a checkout. Each begins with a digest of the rest; one that is damaged is made again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import Final

import llvmlite
import llvmlite.binding as llvm
from tripont.core.compiler.ir import verifier
from tripont.core.compiler.targets.host import target as host
from tripont.core.compiler.targets.host.target import HostTarget

_DIGEST: Final = 32  # bytes of SHA-256
# Seconds after which an object that no test has asked for goes.
LIFE: Final = 14 * 24 * 3600


def usual_folder() -> Path:
    """The folder of this user's tests."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "tripont-build", "test-objects")


class KeptObjects:
    """A folder of objects, in place of :meth:`HostTarget.elf_object`. Processes may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = 0
        self._make = HostTarget.elf_object
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def elf_object(self, target: HostTarget, text: str, quick: bool) -> bytes:
        file = self.folder / key_of(target, text, quick)
        made = _read(file)
        if made is None:
            made = self._make(target, text, quick)
            _write(file, made)
        else:
            self.found += 1
        return made

    def forget_old_ones(self) -> None:
        """Remove what no test has asked for in a while: a folder does not grow with every change of a kernel."""
        before = time.time() - LIFE
        for file in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                if file.stat().st_mtime < before:
                    file.unlink()


@functools.cache
def _how() -> str:
    """What calls LLVM, and which LLVM that is."""
    source = Path(host.__file__).read_bytes()
    versions = f"{llvmlite.__version__} {llvm.llvm_version_info}"
    return f"{hashlib.sha256(source).hexdigest()} {versions}"


def key_of(target: HostTarget, text: str, quick: bool) -> str:
    """The name of an object's file."""
    machine = [target.triple, *target.features]
    words = [_how(), " ".join(machine), f"{quick} {verifier.enabled()}", text]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def _read(file: Path) -> bytes | None:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    digest, made = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(made).digest() != digest:
        return None
    if file.stat().st_mtime < time.time() - LIFE / 2:
        with contextlib.suppress(FileNotFoundError):
            os.utime(file)
    return made


def _write(file: Path, made: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as new:
        new.write(hashlib.sha256(made).digest() + made)
    os.replace(new.name, file)
