"""Readers of control flow, calls, custom calls, composites, tuples, tokens, random numbers and Shardy."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import wings
from ..formats import ffi_attributes
from ..ir import dtypes, hlo
from ..ir.hlo import Instruction, Shape, TupleShape
from ..ir.registry import CALLS, COMPOSITES
from . import attributes, bindings, requests

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Results


def read_while(block: BlockReader, operation: Any) -> Results:
    operands = block.operands(operation)
    condition = block.region(operation, 0)
    body = block.region(operation, 1)
    captures = list({**condition.captured, **body.captured})
    program = block.program
    called = (
        condition.computation(program.unique_name("while_condition"), captures),
        body.computation(program.unique_name("while_body"), captures, pass_through=True),
    )
    extra = [block.value(v) for v in captures]
    if not operands and not extra:
        raise block.unimplemented(operation, "a loop without any state is not supported")
    return block.emit_results(
        operation, "while", [*operands, *extra], {}, called, [e.shape for e in extra]
    )


def read_conditional(block: BlockReader, operation: Any) -> Results:
    """``case``, and ``if`` whose selector is pred: branch 0 when true."""
    (selector,) = block.operands(operation)
    operands = [selector]
    counts, called = [], []
    for index in range(len(operation.regions)):
        branch = block.region(operation, index)
        captures = list(branch.captured)
        called.append(branch.computation(block.program.unique_name("branch"), captures))
        operands.extend(block.value(v) for v in captures)
        counts.append(len(captures))
    return block.emit_results(
        operation, "conditional", operands, {"operand_counts": tuple(counts)}, called
    )


def read_call(block: BlockReader, operation: Any) -> Results:
    return call(block, operation, attributes.symbol(operation.attributes["callee"]))


def call(block: BlockReader, operation: Any, function: str) -> Results:
    """A call of ``function`` with the operands and results of ``operation``."""
    computation = block.program.function(function)
    operands = block.operands(operation)
    if len(operands) != len(computation.parameters):
        raise block.invalid(
            operation,
            f"@{function} takes {len(computation.parameters)} operands, not {len(operands)}",
        )
    return block.emit_results(operation, "call", operands, {}, (computation,))


def read_composite(block: BlockReader, operation: Any) -> Results:
    """A composite that we know natively, else its decomposition."""
    name = operation.attributes["name"].value
    native = COMPOSITES.get(name)
    if native is not None:
        given = {}
        if "composite_attributes" in operation.attributes:
            given = attributes.python_value(operation.attributes["composite_attributes"])
        results: Results | None = native(block, operation, given)
        if results is not None:
            return results
    return call(block, operation, attributes.symbol(operation.attributes["decomposition"]))


# ------------------------------------------------------------------------------------------------- custom calls


def read_custom_call(block: BlockReader, operation: Any) -> Results:
    given = operation.attributes
    target, written_attributes = _split_target(block, operation)
    if target in requests.EXPANDED:
        raise block.unknown(operation, target)
    known = CALLS.get(target)
    if known is not None:
        config: dict[str, Any] = dict(written_attributes or {})
        for name in ("mhlo.attributes", "mhlo.backend_config", "backend_config"):
            if name in given:
                value = attributes.python_value(given[name])
                if isinstance(value, dict):
                    config.update(value)
        results: Results | None = known(block, operation, config)
        if results is not None:
            return results
    lacking = wings.lacking(target)
    if lacking:
        raise block.unimplemented(operation, f"the custom call {target} is not known{lacking}")
    api_version = attributes.integer(operation, "api_version", 1)
    backend_config: Any = b""
    if "mhlo.backend_config" in given:  # how JAX writes typed calls
        api_version = ffi_attributes.API_VERSION
    typed = api_version == ffi_attributes.API_VERSION
    read = attributes.typed_value if typed else attributes.python_value
    for name in ("backend_config", "mhlo.backend_config"):
        if name in given:
            backend_config = read(given[name])
    if isinstance(backend_config, str):
        backend_config = backend_config.encode()
    if written_attributes is not None:
        api_version, backend_config = ffi_attributes.API_VERSION, written_attributes
    values: dict[str, Any] = {
        "custom_call_target": target,
        "backend_config": backend_config,
        "api_version": api_version,
        "has_side_effect": attributes.flag(operation, "has_side_effect"),
        "output_operand_aliases": _output_operand_aliases(operation),
    }
    for name in ("operand_layouts", "result_layouts"):
        layouts = _layouts(given[name]) if name in given else None
        if layouts is not None:
            values[name] = layouts
    called = []
    if "called_computations" in given:
        called = [
            block.program.function(attributes.symbol(a)) for a in given["called_computations"]
        ]
    operands = block.operands(operation)
    if any(isinstance(o.shape, TupleShape) for o in operands):
        raise block.unimplemented(
            operation, "custom calls with tuples as operands are not supported"
        )
    return block.emit_results(operation, "custom-call", operands, values, called)


def _split_target(block: BlockReader, operation: Any) -> tuple[str, dict[str, Any] | None]:
    """The name of what is called, and the attributes that stand in it (``ffi_attributes.IN_TARGET``), if any."""
    target: str = operation.attributes["call_target_name"].value
    name, marker, text = target.partition(ffi_attributes.IN_TARGET)
    if not marker:
        return target, None
    written = None
    if text.startswith("{"):  # MLIR's parser dies of an empty text
        with contextlib.suppress(bindings.ir.MLIRError):
            written = bindings.ir.Attribute.parse(text, operation.context)
    if not isinstance(written, bindings.ir.DictAttr):
        raise block.invalid(
            operation, f"the attributes of the custom call {target!r} are not a dictionary of MLIR"
        )
    return name, attributes.typed_value(written)


def _layouts(attribute: Any) -> tuple[tuple[int, ...], ...] | None:
    """Minor-to-major orders, or None if all are row-major."""
    layouts = tuple(attributes.integers(a) for a in attribute)
    if all(layout == tuple(range(len(layout) - 1, -1, -1)) for layout in layouts):
        return None
    return layouts


def _output_operand_aliases(operation: Any) -> tuple[tuple[int, int], ...]:
    given = operation.attributes
    if "output_operand_aliases" not in given:
        return ()
    pairs = []
    for attribute in given["output_operand_aliases"]:
        alias = bindings.OutputOperandAlias(attribute)
        indices = list(alias.output_tuple_indices)
        pairs.append((indices[0] if indices else 0, alias.operand_index))
    return tuple(pairs)


def read_identity_call(
    block: BlockReader, operation: Any, config: dict[str, Any]
) -> Results | None:
    del config
    operands = block.operands(operation)
    if len(operands) != len(operation.results):
        return None
    for operand, result in zip(operands, operation.results, strict=True):
        if operand.shape != block.program.shape(result.type):
            message = f"this custom call gives back its operand of shape {operand.shape}"
            raise block.invalid(operation, f"{message}, and its result's type is another")
    return operands


def read_nothing_call(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    """A call without results that asks XLA for an order, or not to drop a value: no result depends on it."""
    del config
    if not len(operation.results):
        return []
    empty = TupleShape(())  # how HLO says so
    shapes = [block.program.shape(result.type) for result in operation.results]
    return block.emit("tuple", empty, ()) if shapes == [empty] else None


# ------------------------------------------------------------------------------ tuples, tokens, barriers, random


def read_tuple(block: BlockReader, operation: Any) -> Results:
    operands = block.operands(operation)
    if any(isinstance(o.shape, TupleShape) for o in operands):
        raise block.unimplemented(operation, "nested tuples are not supported")
    return block.emit("tuple", TupleShape(tuple(o.shape for o in operands)), operands)  # type: ignore[misc]


def read_get_tuple_element(block: BlockReader, operation: Any) -> Results:
    (operand,) = block.operands(operation)
    index = attributes.integer(operation, "index")
    if operand.opcode == "tuple":
        return operand.operands[index]
    return block.emit(
        "get-tuple-element", operand.result_shapes[index], (operand,), {"index": index}
    )


def read_optimization_barrier(block: BlockReader, operation: Any) -> Results:
    operands = block.operands(operation)
    return block.emit_results(operation, "optimization-barrier", operands) if operands else []


def read_add_dependency(block: BlockReader, operation: Any) -> Results:
    """A value that must not be had before a token."""
    operands = block.operands(operation)
    both = TupleShape(tuple(o.shape for o in operands))  # type: ignore[misc]
    barrier = block.emit("optimization-barrier", both, operands)
    return block.emit("get-tuple-element", operands[0].shape, (barrier,), {"index": 0})


def read_after_all(block: BlockReader, operation: Any) -> Results:
    return block.emit("after-all", hlo.TOKEN, block.operands(operation))


def read_rng_bit_generator(block: BlockReader, operation: Any) -> Results:
    """For a type that is not an integer of whole bytes, its values are the low bits of such an integer, as in XLA."""
    algorithm = attributes.enumerator(operation, "rng_algorithm", bindings.RngAlgorithm, "DEFAULT")
    values = {"algorithm": algorithm}
    state, bits = (block.program.shape(result.type) for result in operation.results)
    assert isinstance(state, Shape)
    assert isinstance(bits, Shape)
    if bits.dtype.is_integer and bits.dtype.bits >= 8:
        return block.emit_results(operation, "rng-bit-generator", block.operands(operation), values)
    width = bits.dtype.bits
    if width not in (2, 4, 8, 16, 32, 64):
        raise block.unimplemented(operation, f"random bits of type {bits.dtype}")
    whole = Shape(dtypes.from_name(f"u{max(8, width)}"), bits.dims)
    both = block.emit(
        "rng-bit-generator", TupleShape((state, whole)), block.operands(operation), values
    )
    number = block.emit("get-tuple-element", whole, (both,), {"index": 1})
    if width < 8:
        narrow = Shape(dtypes.from_name(f"u{width}"), bits.dims)
        number = block.emit("convert", narrow, (number,))
    if number.dtype is not bits.dtype:
        number = block.emit("bitcast-convert", bits, (number,))
    return [block.emit("get-tuple-element", state, (both,), {"index": 0}), number]


def read_rng(block: BlockReader, operation: Any) -> Results:
    """The third operand is the shape, which the result's type says already."""
    low, high = block.operands(operation)[:2]
    kind = attributes.enumerator(operation, "rng_distribution", bindings.RngDistribution, "UNIFORM")
    return block.emit("rng", block.shape(operation), (low, high), {"distribution": kind.lower()})


# -------------------------------------------------------------------------------------------------------- Shardy


def read_identity(block: BlockReader, operation: Any) -> Results:
    """An operation that only says where data lies: its first operand."""
    operands = block.operands(operation)
    if operation.results and operands[0].shape != block.shape(operation):
        raise block.unimplemented(
            operation, "programs for several devices must be partitioned first"
        )
    return operands[: len(operation.results)]


def read_manual_computation(block: BlockReader, operation: Any) -> Results:
    """On one device the local shapes are the global ones, and the region is the computation."""
    inner = block.single_block(operation, 0)
    operands = block.operands(operation)
    for argument, operand in zip(inner.arguments, operands, strict=True):
        if block.program.shape(argument.type) != operand.shape:
            raise block.unimplemented(
                operation, "programs for several devices must be partitioned first"
            )
        block.values[argument] = operand
    return _inline(block, inner)


def read_named_computation(block: BlockReader, operation: Any) -> Results:
    inner = block.single_block(operation, 0)
    for argument, operand in zip(inner.arguments, block.operands(operation), strict=True):
        block.values[argument] = operand
    return _inline(block, inner)


def _inline(block: BlockReader, inner: Any) -> Sequence[Instruction]:
    outer_results = block.results
    block.read_operations(inner)
    results, block.results = block.results, outer_results
    return results


def read_nothing(block: BlockReader, operation: Any) -> Results:
    """An annotation without results."""
    del block, operation
    return []
