"""Machine code that this process has made, by its LLVM IR.

Programs that mean the same reach code generation as the same text, whichever framework they come from: names and
places in the user's source are not part of the IR. So a program that JAX and PyTorch both run is compiled once. (The
runtime's cache on disk is by the framework's bytes, and is asked before any compiler runs.) The host's code is kept
by parts of modules (:mod:`.host.parts`), so programs that share kernels share code.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from .image import Image

# Bytes of code to keep; what was used longest ago goes first.
LIMIT: Final = 64 << 20

_images: OrderedDict[bytes, Image] = OrderedDict()
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


def find(key: bytes) -> Image | None:
    """The code of a key from :func:`key`, if it was kept."""
    global _hits, _misses
    image = _images.get(key)
    if image is None:
        _misses += 1
    else:
        _images.move_to_end(key)
        _hits += 1
    return image


def keep(key: bytes, image: Image) -> None:
    """Let :func:`find` find ``image``."""
    global _size
    if key in _images:
        return
    _images[key] = image
    _size += len(image.code)
    while _size > LIMIT:
        _, oldest = _images.popitem(last=False)
        _size -= len(oldest.code)


def clear() -> None:
    """Forget everything."""
    global _size
    _images.clear()
    _size = 0
