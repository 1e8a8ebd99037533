"""The host target: native x86-64 or AArch64 code with explicit vectors."""

from .target import HostTarget, for_cpu

__all__ = ["HostTarget", "for_cpu"]
