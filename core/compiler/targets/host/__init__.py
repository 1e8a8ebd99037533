"""The host target: native x86-64 or AArch64 code with explicit vectors."""

from collections.abc import Mapping

from .target import HostTarget, for_cpu


def from_options(options: Mapping[str, str]) -> HostTarget:
    """The CPU ``cpu``, with or without ``onednn``."""
    return for_cpu(options.get("cpu") or "host", options.get("onednn") != "0")


def texts_of(code: bytes) -> dict[str, str]:
    """Machine code is read with a disassembler."""
    return {}


__all__ = ["HostTarget", "for_cpu", "from_options", "texts_of"]
