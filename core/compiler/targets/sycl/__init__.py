"""The sycl target: OpenCL kernels in SPIR-V, for every device that a SYCL runtime drives."""

from .disassemble import disassemble
from .target import SyclTarget, for_device

__all__ = ["SyclTarget", "disassemble", "for_device"]
