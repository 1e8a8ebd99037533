"""Which programs were tried: a digest of each, so that one that was tried before is not counted again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import numpy as np

# Bytes of a digest: two of a million programs have the same one with a chance of one in 37 millions.
_LENGTH: Final = 8


class Tried:
    """The digests of a fuzzer's programs in a file, to which several processes may append."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, text: str) -> None:
        """Note a program, before it is run: it may end the process."""
        digest = hashlib.blake2b(text.encode(), digest_size=_LENGTH).digest()
        file = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, digest)
        finally:
            os.close(file)

    def count(self) -> int:
        """How many different programs there are."""
        if not self._file.exists():
            return 0
        return len(np.unique(np.fromfile(self._file, f"V{_LENGTH}").view(np.uint64)))
