"""The ops: one registration for each, in files by family.

A registration (:func:`..ir.registry.register`) holds all that the compiler knows of an op. The rules of an op that are
short stand beside it. What shares more with its neighbours than with the op (readers of MLIR, kernels, library rules)
stands with them, and the registration names its functions.

Ops of wings (:mod:`..wings`) are registered behind these. An installed package registers its ops in a module
of its own, which an entry point names::

    [project.entry-points."tripont.ops"]
    abacus = "abacus.ops"
"""

from importlib import import_module

from .. import wings
from ..ir.registry import load_installed

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

# By name, as an import statement may wait until its name is used (PEP 810), and nobody uses these.
for _name in __all__:
    import_module(f"{__package__}.{_name}")
for _wing in wings.parts("ops"):
    pass  # importing it registers its ops
load_installed()
