"""How deep Python may call: regions of a program nest, and so do the calls that read and compile them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

# Python frames live on the heap, so this bounds memory, not the C stack.
LIMIT: Final = 200_000


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Within this, programs may nest as deep as anybody writes them. The limit is one for the process."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
