"""``import tripont.tensorflow``: questions about TensorFlow's device XPU, and flags to compile kernels for it.

The device itself needs no import. See docs/tensorflow.md.
"""

from __future__ import annotations

from tripont.frontends.tensorflow import (
    DEVICE_TYPE,
    built_for,
    check,
    compile_flags,
    link_flags,
    ops_on_cpu,
    problem,
)

__all__ = [
    "DEVICE_TYPE",
    "built_for",
    "check",
    "compile_flags",
    "link_flags",
    "ops_on_cpu",
    "problem",
]
