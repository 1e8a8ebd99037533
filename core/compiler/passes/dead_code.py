"""Dead code: instructions whose value nobody needs."""

from __future__ import annotations

from ..ir.hlo import Module
from .rewrite import map_computations, prune


def eliminate_dead_code(module: Module) -> Module:
    """Drop what neither a result nor a side effect needs."""
    return map_computations(module, prune)
