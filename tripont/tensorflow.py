"""``import tripont.tensorflow``: questions about TensorFlow's device XPU, flags to compile kernels for it,
and compiled replicas.

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
from tripont.frontends.tensorflow.replicas import compile_replicas

__all__ = [
    "DEVICE_TYPE",
    "built_for",
    "check",
    "compile_flags",
    "compile_replicas",
    "link_flags",
    "ops_on_cpu",
    "problem",
]
