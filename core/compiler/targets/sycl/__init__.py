"""The sycl target: OpenCL kernels in SPIR-V, for every device that a SYCL runtime drives.

A wing (:mod:`...wings`). The modules that do the work are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ..registration import Registration

if TYPE_CHECKING:
    from .target import SyclTarget, for_device

REGISTRATION: Final = Registration(
    "sycl",
    "cpu or gpu, and what it has of fp16, fp64, sub-groups (of 16): cpu,fp16,fp64 (the default)",
    old_device_option="sycl_device",
    kernel_format="SPIR-V",
)


def from_options(options: Mapping[str, str]) -> SyclTarget:
    """The device ``device``, beside a host of ``cpu`` and ``onednn``."""
    from .target import for_device

    cpu = options.get("cpu") or "host"
    return for_device(options.get("device") or "", cpu, options.get("onednn") != "0")


def texts_of(code: bytes) -> dict[str, str]:
    """The SPIR-V module with the kernels, as text."""
    from .disassemble import disassemble
    from .target import HEADER

    size, _ = HEADER.unpack_from(code)
    return {"spvasm": disassemble(code[HEADER.size : HEADER.size + size])} if size else {}


def kernel_names(module: bytes) -> list[str]:
    """The names of the kernels in a SPIR-V module. ValueError for bytes that are not one."""
    from . import spirv

    return list(spirv.kernel_names(module))


def __getattr__(name: str) -> Any:
    if name not in ("SyclTarget", "for_device"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import target

    return getattr(target, name)


__all__ = [
    "REGISTRATION",
    "SyclTarget",
    "for_device",
    "from_options",
    "kernel_names",
    "texts_of",
]
