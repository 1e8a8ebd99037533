"""The ops: one registration for each, in files by family.

A registration (:func:`..ir.registry.register`) holds all that the compiler knows of an op. The rules of an op that are
short stand beside it. What shares more with its neighbours than with the op (readers of MLIR, kernels, library rules)
stands with them, and the registration names its functions.
"""

from . import (
    annotations,
    collective,
    compositions,
    contraction,
    control,
    data,
    elementwise,
    functions,
    indexed,
    linear_algebra,
    normalization,
    ordering,
    random,
    reduction,
    sizes,
    special,
    window,
)

__all__ = [
    "annotations",
    "collective",
    "compositions",
    "contraction",
    "control",
    "data",
    "elementwise",
    "functions",
    "indexed",
    "linear_algebra",
    "normalization",
    "ordering",
    "random",
    "reduction",
    "sizes",
    "special",
    "window",
]
