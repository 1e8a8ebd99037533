"""``import tripont.tensorflow``: questions about TensorFlow's device XPU, flags to compile kernels for it,
compiled replicas, and a strategy for several workers.

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
from tripont.frontends.tensorflow.workers import multi_worker_strategy

__all__ = [
    "DEVICE_TYPE",
    "built_for",
    "check",
    "compile_flags",
    "compile_replicas",
    "link_flags",
    "multi_worker_strategy",
    "ops_on_cpu",
    "problem",
]
