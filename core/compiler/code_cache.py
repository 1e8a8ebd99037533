"""Machine code that this process has made, by its LLVM IR.

Programs that mean the same reach code generation as the same text, whichever framework they come from: names and
places in the user's source are not part of the IR. So a program that JAX and PyTorch both run is compiled once. (The
runtime's cache on disk is by the framework's bytes, and is asked before any compiler runs.)
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .targets.target import Image

# Bytes of code to keep; what was used longest ago goes first.
LIMIT: Final = 64 << 20

_images: OrderedDict[bytes, Image] = OrderedDict()
_size = 0
_hits = 0


def hits() -> int:
    """How often :func:`get` has found its code."""
    return _hits


def get(target_fingerprint: str, ir: str, compile_ir: Callable[[], Image]) -> Image:
    """The code of ``ir`` for a target: from an earlier call, or made by ``compile_ir``."""
    global _size, _hits
    key = hashlib.sha256(f"{target_fingerprint}\0{ir}".encode()).digest()
    image = _images.get(key)
    if image is not None:
        _images.move_to_end(key)
        _hits += 1
        return image
    image = compile_ir()
    _images[key] = image
    _size += len(image.code)
    while _size > LIMIT:
        _, oldest = _images.popitem(last=False)
        _size -= len(oldest.code)
    return image


def clear() -> None:
    """Forget everything."""
    global _size
    _images.clear()
    _size = 0
