"""The host target: native x86-64 or AArch64 code with explicit vectors."""

from collections.abc import Mapping

from ..threads import read_count
from .costs import USUAL_THREADS
from .target import HostTarget, for_cpu


def from_options(options: Mapping[str, str]) -> HostTarget:
    """The CPU ``cpu``, with or without ``onednn``, and work cut for ``threads``."""
    threads = USUAL_THREADS
    if text := options.get("threads"):
        # Powers of two: a program is compiled anew for twice as many threads, not for one more.
        threads = 1 << (read_count("threads", text, 1).bit_length() - 1)
    return for_cpu(options.get("cpu") or "host", options.get("onednn") != "0", threads)


def texts_of(code: bytes) -> dict[str, str]:
    """Machine code is read with a disassembler."""
    return {}


__all__ = ["HostTarget", "for_cpu", "from_options", "texts_of"]
