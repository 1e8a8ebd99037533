"""The sycl target: OpenCL kernels in SPIR-V, for every device that a SYCL runtime drives."""

from collections.abc import Mapping

from .disassemble import disassemble
from .spirv import kernel_names
from .target import HEADER, SyclTarget, for_device


def from_options(options: Mapping[str, str]) -> SyclTarget:
    """The device ``device``, beside a host of ``cpu`` and ``onednn``."""
    cpu = options.get("cpu") or "host"
    return for_device(options.get("device") or "", cpu, options.get("onednn") != "0")


def texts_of(code: bytes) -> dict[str, str]:
    """The SPIR-V module with the kernels, as text."""
    size, _ = HEADER.unpack_from(code)
    return {"spvasm": disassemble(code[HEADER.size : HEADER.size + size])} if size else {}


__all__ = ["SyclTarget", "disassemble", "for_device", "from_options", "kernel_names", "texts_of"]
