"""MLIR passes that some programs need before they can be read: chlo, dynamic shapes, sizes that depend on values and
quantized types.

Most programs need none, and a pass over the module costs more than reading it; so the reader asks for a stage when it
meets an operation that it cannot take (:class:`.stablehlo.NeedsPasses`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .. import wings
from ..ir.errors import unimplemented
from ..ir.registry import CALLS, OPCODES_AS_THEY_STAND, READERS, load, rewritten_proto
from . import bindings, hlo_module, ops_elementwise
from .bindings import ir
from .requests import BOUNDS, CHLO, DYNAMISM, EXPANDED, QUANTIZATION, UNARY


def _kept() -> dict[str, str]:
    """The chlo operations that are ops of ours, which the pass must not expand, and the custom calls as which they pass
    through it: those that are read under both names.
    """
    load()
    names = [n.removeprefix("chlo.") for n in (*READERS, *OPCODES_AS_THEY_STAND) if "chlo." in n]
    return {f"chlo.{name}": f"tripont.{name}" for name in names if f"tripont.{name}" in CALLS}


KEPT_COMPLEX: Final = {f"chlo.{name}" for name in (*ops_elementwise.OF_COMPLEX, "ragged_dot")}


def legalize_chlo(module: ir.Module) -> ir.Module:
    """Expand chlo operations into StableHLO, all but those of :func:`_kept`. Works in place."""
    _widen_short_floats(module)
    _hide_kept(module)
    _turn_reverse_scans(module)
    bindings.run_passes(module, "func.func(chlo-legalize-to-stablehlo)")
    return module


def legalize_dynamism(module: ir.Module) -> ir.Module:
    """Make operations with dynamic shapes static where constants say how. Works in place."""
    bindings.run_passes(
        module,
        "stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes",
    )
    return module


def legalize_bounds(module: ir.Module) -> ir.Module:
    """Make types with bounds static (:mod:`..sizes.bounded_shapes`). As HLO, which says in one bit what is a bound."""
    lacking = wings.lacking(BOUNDS)
    if lacking:
        raise unimplemented(f"sizes that depend on values, up to a bound{lacking}")
    program = rewritten_proto(bindings.stablehlo_to_hlo(module))
    converted = bindings.hlo_to_stablehlo(hlo_module.convertible(program))
    return bindings.parse_module(converted, module.context)


def legalize_quantization(module: ir.Module) -> ir.Module:
    """Make quantized types integers: operations between ``dequantize`` and ``quantize``, as StableHLO's specification
    defines them. Works in place. Raises CompileError for what the passes would get wrong.
    """
    # They make signless integers of the storage, which are signed ones everywhere else.
    if "!quant.uniform<u" in module.operation.get_asm(large_elements_limit=16):
        raise unimplemented(
            "quantized types with unsigned storage (!quant.uniform<u8:...>) are not supported"
        )
    bindings.run_passes(
        module,
        "func.func(stablehlo-legalize-quantized-op-to-qdq),func.func(stablehlo-legalize-quant-to-math)",
    )
    return module


# Functions that are expanded into several operations, whose values types without infinities could not hold.
_FUNCTIONS: Final = frozenset(f"chlo.{name}" for name in (*UNARY.split(), "polygamma", "zeta"))
_NO_INFINITY: Final = ("f4E2M1FN>", "f6E2M3FN>", "f6E3M2FN>")


def _widen_short_floats(module: ir.Module) -> None:
    """Let functions of floats of less than 8 bits be functions of f32, rounded once."""
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in _FUNCTIONS and str(operation.results[0].type).endswith(_NO_INFINITY):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for operation in found:
        narrow = operation.results[0].type
        with operation.location, ir.InsertionPoint(operation):
            wide = ir.RankedTensorType.get(ir.RankedTensorType(narrow).shape, ir.F32Type.get())

            def convert(value: ir.Value, target: ir.Type) -> ir.Value:
                return ir.Operation.create("stablehlo.convert", [target], [value]).results[0]

            operands = [convert(v, wide) for v in operation.operands]
            value = ir.Operation.create(operation.name, [wide], operands).results[0]
            operation.results[0].replace_all_uses_with(convert(value, narrow))
        operation.erase()


STAGES: Final[dict[str, Callable[[ir.Module], ir.Module]]] = {
    CHLO: legalize_chlo,
    DYNAMISM: legalize_dynamism,
    BOUNDS: legalize_bounds,
    QUANTIZATION: legalize_quantization,
}


def _hide_kept(module: ir.Module) -> None:
    """Replace operations of :func:`_kept` by custom calls with the same attributes, and :data:`EXPANDED` by chlo."""
    all_kept = _kept()
    found: list[tuple[ir.Operation, str]] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        name = operation.name
        if name in ("stablehlo.custom_call", "mhlo.custom_call"):
            name = operation.attributes["call_target_name"].value
        expanded = EXPANDED.get(name)
        if expanded in all_kept and (expanded in KEPT_COMPLEX or not _is_complex(operation)):
            name = expanded
        kept = name in all_kept and (name in KEPT_COMPLEX or not _is_complex(operation))
        if kept or name in EXPANDED:
            found.append((operation, name))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with module.context:
        for operation, name in found:
            if name in all_kept:
                given = {key: operation.attributes[key] for key in operation.attributes}
                _replace(
                    operation,
                    "stablehlo.custom_call",
                    {
                        "call_target_name": ir.StringAttr.get(all_kept[name]),
                        "mhlo.attributes": ir.DictAttr.get(given),
                    },
                )
            else:
                _replace(operation, EXPANDED[name], _chlo_attributes(operation))


def _turn_reverse_scans(module: ir.Module) -> None:
    """Let scans from the end be scans of reversed inputs: the pass does not look at ``is_reverse``."""
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "chlo.scan" and "is_reverse" in operation.attributes:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for operation in found:
        given = operation.attributes
        from_the_end = ir.BoolAttr(given["is_reverse"]).value
        del given["is_reverse"]
        if not from_the_end:
            continue
        dimension = ir.IntegerAttr(given["dimension"]).value
        inputs = ir.DenseI32ArrayAttr(given["operandSegmentSizes"])[0]
        outputs = ir.DenseI32ArrayAttr(given["resultSegmentSizes"])[0]
        for i in range(inputs):
            turned = _reverse(operation.operands[i], dimension, ir.InsertionPoint(operation))
            operation.operands[i] = turned.results[0]
        for result in list(operation.results)[:outputs]:
            turned = _reverse(result, dimension, ir.InsertionPoint.after(operation))
            result.replace_all_uses_except(turned.results[0], turned)


def _reverse(value: ir.Value, dimension: int, place: ir.InsertionPoint) -> ir.Operation:
    dimensions = ir.DenseI64ArrayAttr.get([dimension], value.context)
    return ir.Operation.create(
        "stablehlo.reverse",
        [value.type],
        [value],
        attributes={"dimensions": dimensions},
        loc=value.location,
        ip=place,
    )


def _chlo_attributes(operation: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes of an MHLO operation as CHLO's operation of the same name has them."""
    if operation.name == "mhlo.scan":
        return {key: operation.attributes[key] for key in operation.attributes}
    return {}


def _is_complex(operation: ir.Operation) -> bool:
    return "complex<" in str(operation.operands[0].type)


def _replace(operation: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    """Put an operation of the same operands, results and regions in another one's place."""
    replacement = ir.Operation.create(
        name,
        results=[result.type for result in operation.results],
        operands=list(operation.operands),
        attributes=attributes,
        regions=len(operation.regions),
        loc=operation.location,
        ip=ir.InsertionPoint(operation),
    )
    for old_region, new_region in zip(operation.regions, replacement.regions, strict=True):
        for block in list(old_region.blocks):
            block.append_to(new_region)
            _end_with_stablehlo(block)
    for old, new in zip(operation.results, replacement.results, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()


def _end_with_stablehlo(block: ir.Block) -> None:
    last = block.operations[len(block.operations) - 1].operation
    if last.name == "mhlo.return":
        ir.Operation.create(
            "stablehlo.return",
            operands=list(last.operands),
            loc=last.location,
            ip=ir.InsertionPoint(last),
        )
        last.erase()
