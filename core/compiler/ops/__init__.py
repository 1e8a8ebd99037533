"""The ops: one registration for each, in files by family.

A registration (:func:`..ir.registry.register`) holds all that the compiler knows of an op. The rules of an op that are
short stand beside it. What shares more with its neighbours than with the op (readers of MLIR, kernels, library rules)
stands with them, and the registration names its functions.

Ops of wings (:mod:`..wings`) are registered behind these. An installed package registers its ops in a module
of its own, which an entry point names::

    [project.entry-points."tripont.ops"]
    abacus = "abacus.ops"
"""

from .. import wings
from ..ir.registry import load_installed
from . import (
    annotations,
    collective,
    compositions,
    contraction,
    control,
    data,
    elementwise,
    functions,
    fusion,
    indexed,
    linear_algebra,
    normalization,
    ordering,
    ragged,
    random,
    reduction,
    window,
)

for _wing in wings.parts("ops"):
    pass  # importing it registers its ops
load_installed()

__all__ = [
    "annotations",
    "collective",
    "compositions",
    "contraction",
    "control",
    "data",
    "elementwise",
    "functions",
    "fusion",
    "indexed",
    "linear_algebra",
    "normalization",
    "ordering",
    "ragged",
    "random",
    "reduction",
    "window",
]
