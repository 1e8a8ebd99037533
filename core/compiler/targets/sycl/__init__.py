"""The sycl target: OpenCL kernels in SPIR-V, for every device that a SYCL runtime drives."""

from .target import SyclTarget, for_device

__all__ = ["SyclTarget", "for_device"]
