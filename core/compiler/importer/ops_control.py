"""Readers of control flow, calls, custom calls, composites, tuples, tokens, random numbers and Shardy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..formats import ffi_attributes
from ..ir import dtypes, hlo
from ..ir.hlo import Instruction, Shape, TupleShape
from ..ir.registry import OPS
from . import (
    attributes,
    bindings,
    bounded_shapes,
    legalize,
    ops_elementwise,
    ops_quantized,
    ops_reduction,
)

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results


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


def _conditional(block: BlockReader, operation: Any) -> Results:
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
    native = KNOWN_COMPOSITES.get(name)
    if native is not None:
        given = {}
        if "composite_attributes" in operation.attributes:
            given = attributes.python_value(operation.attributes["composite_attributes"])
        results = native(block, operation, given)
        if results is not None:
            return results
    return call(block, operation, attributes.symbol(operation.attributes["decomposition"]))


# ------------------------------------------------------------------------------------------------- custom calls


def read_custom_call(block: BlockReader, operation: Any) -> Results:
    given = operation.attributes
    target, written_attributes = _split_target(block, operation)
    if target in legalize.EXPANDED:
        raise block.unknown(operation, target)
    known = KNOWN_CUSTOM_CALLS.get(target)
    if known is not None:
        config: dict[str, Any] = {}
        for name in ("mhlo.attributes", "mhlo.backend_config", "backend_config"):
            if name in given:
                value = attributes.python_value(given[name])
                if isinstance(value, dict):
                    config.update(value)
        results = known(block, operation, config)
        if results is not None:
            return results
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


Known = Callable[["BlockReader", Any, dict[str, Any]], "Results | None"]


def _identity_call(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    del config
    operands = block.operands(operation)
    if len(operands) != len(operation.results):
        return None
    for operand, result in zip(operands, operation.results, strict=True):
        if operand.shape != block.program.shape(result.type):
            message = f"this custom call gives back its operand of shape {operand.shape}"
            raise block.invalid(operation, f"{message}, and its result's type is another")
    return operands


# Functions of chlo that are opcodes of ours.
_FUNCTIONS: Final = {"erf": "erf", **ops_elementwise.REAL}

# Operations of StableHLO that come as composites, because clients would expand those of complex numbers.
_OF_COMPLEX: Final = {
    **{name: name for name in ("log", "logistic", "sqrt", "rsqrt")},
    "log_plus_one": "log-plus-one",
}

# Functions that no dialect has: JAX's, which are calls where HLO is written.
_OF_JAX: Final = {
    "igamma": "igamma",
    "igammac": "igammac",
    "igamma_grad_a": "igamma-grad-a",
    "regularized_incomplete_beta": "regularized-incomplete-beta",
}


def _elementwise_call(opcode: str) -> Known:
    def read(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
        del config
        operands = block.operands(operation)
        if not operands or len(operands) != OPS[opcode].operands:
            return None
        if operands[0].dtype.is_complex and opcode in ops_elementwise.REAL.values():
            if opcode in ops_elementwise.OF_COMPLEX:
                return ops_elementwise.hyperbolic(block, opcode, operands[0])
            return None
        return block.emit(opcode, block.shape(operation), operands)

    return read


def _topk_call(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    if len(block.operands(operation)) != 1 or len(operation.results) != 2:
        return None
    values = {
        "k": int(config.get("k", block.shape(operation).dims[-1])),
        "largest": bool(config.get("largest", True)),
    }
    return ops_reduction.topk(block, operation, values)


def _approximate_topk(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    """``lax.approx_max_k``: the exact answer, by sorting. Operands: values, indices, and an initial value of each."""
    operands = block.operands(operation)[:2]
    given = operation.attributes
    if len(operands) != 2 or "called_computations" not in given or "reduction_dim" not in config:
        return None
    comparator = block.program.function(attributes.symbol(given["called_computations"][0]))
    dimension = int(config["reduction_dim"]) % len(operands[0].dims)
    values = {"dimension": dimension, "is_stable": True}
    shapes = [o.shape for o in operands]
    whole = block.emit("sort", TupleShape(tuple(shapes)), operands, values, (comparator,))  # type: ignore[arg-type]
    results = []
    for index, result in enumerate(operation.results):
        element = block.emit("get-tuple-element", shapes[index], (whole,), {"index": index})
        shape = block.program.shape(result.type)
        rank = len(element.dims)
        bounds = {"starts": (0,) * rank, "limits": shape.dims, "strides": (1,) * rank}  # type: ignore[union-attr]
        results.append(block.emit("slice", shape, (element,), bounds))
    return results


def _nothing(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    """A call without results that asks XLA for an order, or not to drop a value: no result depends on it."""
    del config
    if not len(operation.results):
        return []
    empty = TupleShape(())  # how HLO says so
    shapes = [block.program.shape(result.type) for result in operation.results]
    return block.emit("tuple", empty, ()) if shapes == [empty] else None


def _exp2(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    del config
    (x,) = block.operands(operation)
    two = ops_elementwise.splat(block, 2, x.shape)  # type: ignore[arg-type]
    return block.emit("power", block.shape(operation), (two, x))


def _log2(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    del config
    (x,) = block.operands(operation)
    scale = ops_elementwise.splat(block, math.log2(math.e), x.shape)  # type: ignore[arg-type]
    logarithm = block.emit("log", x.shape, (x,))
    return block.emit("multiply", block.shape(operation), (logarithm, scale))


def _square(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results | None:
    del config
    return ops_elementwise.read_square(block, operation)


# Custom calls that are operations of ours, by target. A reader may return None: then it stays a custom call.
KNOWN_CUSTOM_CALLS: Final[dict[str, Known]] = {
    **dict.fromkeys(
        (
            "Sharding",
            "SPMDFullToShardShape",
            "SPMDShardToFullShape",
            "annotate_device_placement",
            "LayoutConstraint",
            "xla.sdy.FuncResultSharding",
            "xla.sdy.GlobalToLocalShape",
            "xla.sdy.LocalToGlobalShape",
            "xla_ffi_identity",
        ),
        _identity_call,
    ),
    **dict.fromkeys(("control_dep", "dce_sink"), _nothing),
    **{f"tripont.{n}": _elementwise_call(c) for n, c in {**_FUNCTIONS, **_OF_JAX}.items()},
    "mhlo.erf": _elementwise_call("erf"),
    "tripont.topk": _topk_call,
    "mhlo.topk": _topk_call,
    "TopK": _topk_call,
    "ApproxTopK": _approximate_topk,
    "mhlo.tan": _elementwise_call("tan"),
    "tripont.exp2": _exp2,
    "tripont.log2": _log2,
    **dict.fromkeys(bounded_shapes.TARGETS.values(), bounded_shapes.read_call),
    "tripont.uniform_quantize": ops_quantized.read_uniform_quantize,
    "tripont.uniform_dequantize": ops_quantized.read_uniform_dequantize,
}

# Composites that are operations of ours, by name.
KNOWN_COMPOSITES: Final[dict[str, Known]] = {
    **{f"chlo.{name}": _elementwise_call(code) for name, code in _FUNCTIONS.items()},
    "chlo.top_k": _topk_call,
    "chlo.tan": _elementwise_call("tan"),
    "chlo.square": _square,
    # Of complex numbers, from JAX.
    **{f"tripont.{name}": _elementwise_call(code) for name, code in _OF_COMPLEX.items()},
    **{f"tripont.{name}": _elementwise_call(code) for name, code in _OF_JAX.items()},
}


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


_BOTH: Final[dict[str, Reader]] = {
    "while": read_while,
    "if": _conditional,
    "case": _conditional,
    "composite": read_composite,
    "custom_call": read_custom_call,
    "tuple": read_tuple,
    "get_tuple_element": read_get_tuple_element,
    "optimization_barrier": read_optimization_barrier,
    "after_all": read_after_all,
    "create_token": read_after_all,
    "rng_bit_generator": read_rng_bit_generator,
    "rng": read_rng,
}

_SHARDY_IDENTITIES: Final = (
    "sharding_constraint reshard propagation_barrier data_flow_edge all_gather all_slice all_to_all all_reduce"
    " collective_permute reduce_scatter replicated_to_unreduced sharded_to_unreduced"
)

READERS: Final[dict[str, Reader]] = {
    **{
        f"{dialect}.{name}": reader
        for dialect in ("stablehlo", "mhlo")
        for name, reader in _BOTH.items()
    },
    "func.call": read_call,
    "mhlo.add_dependency": read_add_dependency,
    "mhlo.domain": read_identity,
    **{f"sdy.{name}": read_identity for name in _SHARDY_IDENTITIES.split()},
    "sdy.manual_computation": read_manual_computation,
    "sdy.named_computation": read_named_computation,
    "sdy.sharding_group": read_nothing,
    "chlo.top_k": ops_reduction.read_topk,
}
