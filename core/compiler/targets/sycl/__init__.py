"""The SYCL target: OpenCL kernels in SPIR-V, for every device that a SYCL runtime drives."""
