"""Machine code that this process has made, by its LLVM IR.

Programs that mean the same reach code generation as the same text, whichever framework they come from: names and
places in the user's source are not part of the IR. So a program that JAX and PyTorch both run is compiled once. (The
runtime's cache on disk is by the framework's bytes, and is asked before any compiler runs.) The host's code is kept
by functions (:mod:`.host.parts`), so programs that share kernels share their code.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final, Protocol

# Bytes of code to keep; what was used longest ago goes first.
LIMIT: Final = 64 << 20


class Code(Protocol):
    """An image, or a function's part of one."""

    code: bytes


_kept: OrderedDict[bytes, Code] = OrderedDict()
_size = 0
_hits = 0
_misses = 0


def hits() -> int:
    """How often :func:`find` has found its code."""
    return _hits


def misses() -> int:
    """How often :func:`find` has not found its code."""
    return _misses


def key(target_fingerprint: str, ir: str) -> bytes:
    """What identifies the code of ``ir`` for a target."""
    return hashlib.sha256(f"{target_fingerprint}\0{ir}".encode()).digest()


def find(key: bytes) -> Code | None:
    """The code of a key from :func:`key`, if it was kept."""
    global _hits, _misses
    code = _kept.get(key)
    if code is None:
        _misses += 1
    else:
        _kept.move_to_end(key)
        _hits += 1
    return code


def keep(key: bytes, code: Code) -> None:
    """Let :func:`find` find ``code``."""
    global _size
    if key in _kept:
        return
    _kept[key] = code
    _size += len(code.code)
    while _size > LIMIT:
        _, oldest = _kept.popitem(last=False)
        _size -= len(oldest.code)


def clear() -> None:
    """Forget everything."""
    global _size
    _kept.clear()
    _size = 0
