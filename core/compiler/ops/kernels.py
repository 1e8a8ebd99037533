"""The kernels of ops and fusions. Each is imported when one is first written: most programs need few of them."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from ..ir.registry import Emitter


def kernel(module: str) -> Emitter:
    """What ``codegen/kernels/<module>.py`` emits."""
    return functools.partial(_emit, module)


def _emit(module: str, *arguments: Any) -> Any:
    return importlib.import_module(f"..codegen.kernels.{module}", __package__).emit(*arguments)
