"""Machine code that this process has made, by its LLVM IR.

Programs that mean the same reach code generation as the same text, whichever framework they come from: names and
places in the user's source are not part of the IR. So a program that JAX and PyTorch both run is compiled once. (The
runtime's cache on disk is by the framework's bytes, and is asked before any compiler runs.) The host's code is kept
by functions (:mod:`.host.parts`), so programs that share kernels share their code. Functions that other processes have
compiled are on disk (:mod:`.code_store`), where the runtime names a folder for them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from .code_store import CodeStore

# Bytes of code to keep; what was used longest ago goes first.
LIMIT: Final = 64 << 20


class Code(Protocol):
    """An image, or a function's part of one."""

    code: bytes


AnyCode = TypeVar("AnyCode", bound=Code)

# Images as they are, and functions as bytes: the sections of one take several times as much.
_kept: OrderedDict[bytes, Code | bytes] = OrderedDict()
_size = 0
_hits = 0
_misses = 0
_store: CodeStore | None = None


def hits() -> int:
    """How often :func:`find` has found its code."""
    return _hits


def misses() -> int:
    """How often :func:`find` has not found its code."""
    return _misses


def use(store: CodeStore | None) -> None:
    """Ask ``store`` for what this process has not compiled from now on; nobody, if None. Raises nothing."""
    global _store
    _store = store
    if store is not None:
        with _without_the_store():
            store.refresh()


@contextlib.contextmanager
def _without_the_store() -> Iterator[None]:
    """Go on without the store, where it fails in a way that it does not know."""
    global _store
    try:
        yield
    except Exception:  # a compile, whose program is right, is not to fail of it
        _store = None


def flush() -> None:
    """Let other processes find what this one has kept for them. Raises nothing."""
    if _store is not None:
        with _without_the_store():
            _store.flush()


def key(target_fingerprint: str, ir: str) -> bytes:
    """What identifies the code of ``ir`` for a target."""
    return hashlib.sha256(f"{target_fingerprint}\0{ir}".encode()).digest()


def find(key: bytes, read: Callable[[bytes], Code] | None = None) -> Code | None:
    """The code of a key from :func:`key`, if it was kept. ``read`` makes code of the bytes that :func:`keep` was given,
    or that are on disk.
    """
    global _hits, _misses
    code = _kept.get(key)
    if code is not None:
        _kept.move_to_end(key)
    elif read is not None and _store is not None:
        with _without_the_store():
            code = _store.find(key)
        if code is not None:
            _keep(key, code)
    if isinstance(code, bytes):
        try:
            code = read(code) if read is not None else None
        except ValueError:
            code = None
    if code is None:
        _misses += 1
    else:
        _hits += 1
    return code


def keep(key: bytes, code: AnyCode, write: Callable[[AnyCode], bytes] | None = None) -> None:
    """Let :func:`find` find ``code``. ``write`` makes bytes of it: with it, other processes find it on disk."""
    if key in _kept:
        return
    if write is None:
        _keep(key, code)
        return
    content = write(code)
    _keep(key, content)
    if _store is not None:
        _store.put(key, content)


def _keep(key: bytes, code: Code | bytes) -> None:
    global _size
    _kept[key] = code
    _size += _size_of(code)
    while _size > LIMIT:
        _, oldest = _kept.popitem(last=False)
        _size -= _size_of(oldest)


def _size_of(code: Code | bytes) -> int:
    return len(code if isinstance(code, bytes) else code.code)


def clear() -> None:
    """Forget everything that this process keeps."""
    global _size
    _kept.clear()
    _size = 0
