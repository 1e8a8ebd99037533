"""MLIR passes that some programs need before they can be read: chlo, dynamic shapes, quantized types.

Most programs need none, and a pass over the module costs more than reading it; so the reader asks for a stage when it
meets an operation that it cannot take (:class:`.stablehlo.NeedsPasses`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import bindings
from .bindings import ir

CHLO: Final = "chlo"
DYNAMISM: Final = "dynamism"
QUANTIZED: Final = "quantized"

# chlo operations that have an opcode of ours: the pass must not expand them. They pass through it as custom calls of these names,
# which the reader knows (ops_control.KNOWN_CUSTOM_CALLS).
KEPT: Final = {
    "chlo.erf": "tripont.erf",
    "chlo.top_k": "tripont.topk",
}


def legalize_chlo(module: ir.Module) -> ir.Module:
    """Expand chlo operations into StableHLO, all but those in :data:`KEPT`. Works in place."""
    _hide_kept(module)
    bindings.run_passes(module, "func.func(chlo-legalize-to-stablehlo)")
    return module


def legalize_dynamism(module: ir.Module) -> ir.Module:
    """Make operations with dynamic shapes static where constants say how. Works in place."""
    bindings.run_passes(
        module,
        "stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes",
    )
    return module


def legalize_quantized(module: ir.Module) -> ir.Module:
    """Turn operations on quantized types into integer and float arithmetic. Works in place."""
    bindings.run_passes(module, "func.func(stablehlo-legalize-quant-to-math)")
    return module


STAGES: Final[dict[str, Callable[[ir.Module], ir.Module]]] = {
    CHLO: legalize_chlo,
    DYNAMISM: legalize_dynamism,
    QUANTIZED: legalize_quantized,
}


def _hide_kept(module: ir.Module) -> None:
    """Replace the operations of :data:`KEPT` by custom calls with the same operands, results and attributes."""
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in KEPT:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with module.context:
        for operation in found:
            attributes = {
                "call_target_name": ir.StringAttr.get(KEPT[operation.name]),
                "mhlo.attributes": ir.DictAttr.get({name: operation.attributes[name] for name in operation.attributes}),
            }
            replacement = ir.Operation.create(
                "stablehlo.custom_call",
                results=[result.type for result in operation.results],
                operands=list(operation.operands),
                attributes=attributes,
                loc=operation.location,
                ip=ir.InsertionPoint(operation),
            )
            for old, new in zip(operation.results, replacement.results, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()
