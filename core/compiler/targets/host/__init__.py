"""The host target: native x86-64 or AArch64 code with explicit vectors."""

from collections.abc import Mapping
from typing import Final

from ...ir.errors import invalid_argument
from .costs import FEW_THREADS
from .target import HostTarget, for_cpu

_MOST_THREADS: Final = 1 << 16


def from_options(options: Mapping[str, str]) -> HostTarget:
    """The CPU ``cpu``, with or without ``onednn``, and work cut for ``threads``."""
    text = options.get("threads") or str(FEW_THREADS)
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MOST_THREADS):
        raise invalid_argument(
            f"the compiler option threads is {text!r}, which is not a number from 1 to {_MOST_THREADS}"
        )
    # Powers of two: a program is compiled anew for twice as many threads, not for one more.
    threads = 1 << (int(text).bit_length() - 1)
    return for_cpu(
        options.get("cpu") or "host", options.get("onednn") != "0", max(threads, FEW_THREADS)
    )


def texts_of(code: bytes) -> dict[str, str]:
    """Machine code is read with a disassembler."""
    return {}


__all__ = ["HostTarget", "for_cpu", "from_options", "texts_of"]
