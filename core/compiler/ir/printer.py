"""HLO text: a module printed as XLA prints one.

The text follows XLA's syntax wherever our IR has the same idea. Where it differs on purpose: ``while``,
``conditional`` and ``call`` have their state as separate operands, and there are no layouts (all arrays are row-major).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, Final

import numpy as np

from .dtypes import DType
from .hlo import (
    Computation,
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    Instruction,
    Metadata,
    Module,
    ScatterDimensionNumbers,
    WindowDimension,
)
from .registry import OPS

# Constants with more elements print as {...}.
LARGE_CONSTANT: Final = 16


def print_module(module: Module, *, large_constants: bool = False, metadata: bool = True) -> str:
    """HLO text of ``module``. ``large_constants`` prints every element of every constant."""
    parts = [_header(module), ""]
    for computation in module.computations():
        is_entry = computation is module.entry
        parts.append(
            print_computation(
                computation, entry=is_entry, large_constants=large_constants, metadata=metadata
            )
        )
        parts.append("")
    return "\n".join(parts)


def print_computation(
    computation: Computation,
    *,
    entry: bool = False,
    large_constants: bool = False,
    metadata: bool = True,
) -> str:
    """HLO text of one computation."""
    parameters = ", ".join(f"{p.name}: {p.shape}" for p in computation.parameters)
    head = f"{'ENTRY ' if entry else ''}%{computation.name} ({parameters}) -> {computation.root.shape} {{"
    lines = [head]
    for instruction in computation.instructions:
        prefix = "  ROOT " if instruction is computation.root else "  "
        lines.append(
            prefix
            + print_instruction(instruction, large_constants=large_constants, metadata=metadata)
        )
    lines.append("}")
    return "\n".join(lines)


def print_instruction(
    instruction: Instruction, *, large_constants: bool = False, metadata: bool = True
) -> str:
    """``%name = f32[2]{0} opcode(operands), attribute=value, ...`` on one line."""
    opcode = instruction.opcode
    attributes = instruction.attributes
    if opcode == "parameter":
        operands = str(attributes["index"])
    elif opcode == "constant":
        operands = print_literal(attributes["literal"], instruction.dtype, large=large_constants)
    else:
        operands = ", ".join([f"%{o.name}" for o in instruction.operands])
    op = OPS[opcode]
    written = "custom-call" if op.hlo_call else opcode
    parts = [f"%{instruction.name} = {instruction.shape} {written}({operands})"]
    if op.hlo_call:
        parts.append(f'custom_call_target="{op.hlo_call}"')
    if op.whole_text is not None:
        parts.append(op.whole_text(attributes))
    for name, value in attributes.items() if op.whole_text is None else ():
        printer = op.text.get(name) or _ATTRIBUTES.get(name) or _generic
        text = printer(name, value)
        if text:
            parts.append(text)
    parts.extend(_called(instruction))
    if metadata and instruction.metadata is not None:
        text = print_metadata(instruction.metadata)
        if text:
            parts.append(text)
    return ", ".join(parts)


def print_metadata(metadata: Metadata) -> str:
    """``metadata={op_name="..." source_file="..." source_line=1}``, or nothing if it is empty."""
    fields = []
    if metadata.op_name:
        fields.append(f"op_name={_quoted(metadata.op_name)}")
    if metadata.source_file:
        fields.append(
            f"source_file={_quoted(metadata.source_file)} source_line={metadata.source_line}"
        )
    return f"metadata={{{' '.join(fields)}}}" if fields else ""


def print_literal(literal: np.ndarray, dtype: DType, *, large: bool = False) -> str:
    """A constant's value: ``1``, ``{1, 2}``, ``{ {1, 2}, {3, 4} }``, or ``{...}`` when it is large."""
    if literal.ndim == 0:
        return _number(literal[()], dtype)
    if literal.size > LARGE_CONSTANT and not large:
        return "{...}"
    return _nested(literal, dtype)


def _nested(literal: np.ndarray, dtype: DType) -> str:
    if literal.ndim == 1:
        return "{" + ", ".join([_number(v, dtype) for v in literal]) + "}"
    return "{ " + ", ".join([_nested(row, dtype) for row in literal]) + " }"


def _number(value: Any, dtype: DType) -> str:
    if dtype.kind == "pred":
        return "true" if value else "false"
    if dtype.is_complex:
        return f"({_float(value.real)}, {_float(value.imag)})"
    if dtype.is_float:
        return _float(value if dtype.bits in (32, 64) else np.float32(value))
    return str(int(value))


def _float(value: Any) -> str:
    """The shortest text that reads back as the same number, without a trailing ``.0``."""
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = (
        np.format_float_positional(value, trim="-")
        if 1e-4 <= abs(value) < 1e16
        else repr(value.item())
    )
    return "0" if text == "0.0" else "-0" if text == "-0.0" else text


def _header(module: Module) -> str:
    parts = [f"HloModule {module.name}"]
    if module.input_output_aliases:
        aliases = ", ".join(
            f"{{{i if len(module.entry.results) != 1 else ''}}}: ({j}, {{}}, {'must' if must else 'may'}-alias)"
            for i, j, must in module.input_output_aliases
        )
        parts.append(f"input_output_alias={{ {aliases} }}")
    if module.buffer_donors:
        parts.append(
            f"buffer_donor={{ {', '.join(f'({j}, {{}})' for j in module.buffer_donors)} }}"
        )
    parameters = ", ".join(str(p.shape) for p in module.entry.parameters)
    parts.append(f"entry_computation_layout={{({parameters})->{module.entry.root.shape}}}")
    if module.num_replicas != 1:
        parts.append(f"replica_count={module.num_replicas}")
    if module.num_partitions != 1:
        parts.append(f"num_partitions={module.num_partitions}")
    if module.frontend_attributes:
        pairs = ",".join(f"{k}={_quoted(v)}" for k, v in module.frontend_attributes.items())
        parts.append(f"frontend_attributes={{{pairs}}}")
    return ", ".join(parts)


# ------------------------------------------------------------------------------------------ called computations


def _called(instruction: Instruction) -> list[str]:
    called = [f"%{c.name}" for c in instruction.called]
    if not called:
        return []
    callees = OPS[instruction.opcode].callees
    if callable(callees):
        return callees(instruction, called)
    return [f"{role}={name}" for role, name in zip(callees, called, strict=False)]


# ---------------------------------------------------------------------------------------------------- attributes

AttributePrinter = Callable[[str, Any], str]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _braces(values: Iterable[Any]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _generic(name: str, value: Any) -> str:
    """``name=value`` in HLO's spelling of Python's types."""
    return f"{name}={_value(value)}"


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return _quoted(value.decode("utf-8", "backslashreplace"))
        case tuple() | list():
            return "{" + ",".join(_value(v) for v in value) + "}"
        case dict():
            return "{" + ", ".join(f"{k}={_value(v)}" for k, v in value.items()) + "}"
        case np.ndarray():
            elements = "{...}" if value.size > LARGE_CONSTANT else str(value.tolist())
            return f"{value.dtype}{list(value.shape)}{elements}"
        case _:
            return str(value)


def nothing(name: str, value: Any) -> str:
    return ""


def unless(default: Any) -> AttributePrinter:
    """The attribute, but nothing when it has its default."""
    return lambda name, value: "" if value == default else _generic(name, value)


def renamed(name: str) -> AttributePrinter:
    return lambda _, value: _generic(name, value)


def dimension_as_list(name: str, value: int) -> str:
    return f"dimensions={{{value}}}"


def _window(name: str, window: tuple[WindowDimension, ...]) -> str:
    """``window={size=3x3 stride=2x2 pad=1_1x1_1}``, with only what is not a default."""
    fields = [f"size={'x'.join(str(w.size) for w in window)}"]
    if any(w.stride != 1 for w in window):
        fields.append(f"stride={'x'.join(str(w.stride) for w in window)}")
    if any(w.padding_low or w.padding_high for w in window):
        fields.append(f"pad={'x'.join(f'{w.padding_low}_{w.padding_high}' for w in window)}")
    if any(w.base_dilation != 1 for w in window):
        fields.append(f"lhs_dilate={'x'.join(str(w.base_dilation) for w in window)}")
    if any(w.window_dilation != 1 for w in window):
        fields.append(f"rhs_dilate={'x'.join(str(w.window_dilation) for w in window)}")
    if any(w.reversal for w in window):
        fields.append(f"rhs_reversal={'x'.join(str(int(w.reversal)) for w in window)}")
    return f"window={{{' '.join(fields)}}}" if window else ""


def _dimension_numbers(name: str, numbers: Any) -> str:
    match numbers:
        case DotDimensionNumbers():
            batch = ""
            if numbers.lhs_batch:
                batch = f"lhs_batch_dims={_braces(numbers.lhs_batch)}, rhs_batch_dims={_braces(numbers.rhs_batch)}, "
            return (
                f"{batch}lhs_contracting_dims={_braces(numbers.lhs_contracting)},"
                f" rhs_contracting_dims={_braces(numbers.rhs_contracting)}"
            )
        case ConvolutionDimensionNumbers():
            return f"dim_labels={convolution_labels(numbers)}"
        case GatherDimensionNumbers() | ScatterDimensionNumbers():
            named = {f.name: getattr(numbers, f.name) for f in fields(numbers)}
            vector = named.pop("index_vector_dim")
            # Batching dimensions are written where there are any.
            lists = [f"{n}={_braces(v)}" for n, v in named.items() if v or "batching" not in n]
            return ", ".join([*lists, f"index_vector_dim={vector}"])
        case _:
            return _generic(name, numbers)


def convolution_labels(numbers: ConvolutionDimensionNumbers) -> str:
    """XLA's ``b01f_01io->b01f``: what each dimension of input, kernel and output is."""
    rank = len(numbers.input_spatial) + 2

    def labels(places: dict[int, str], spatial: tuple[int, ...]) -> str:
        places.update({d: str(i) for i, d in enumerate(spatial)})
        return "".join(places[d] for d in range(rank))

    lhs = labels({numbers.input_batch: "b", numbers.input_feature: "f"}, numbers.input_spatial)
    kernel = labels(
        {numbers.kernel_input_feature: "i", numbers.kernel_output_feature: "o"},
        numbers.kernel_spatial,
    )
    output = labels(
        {numbers.output_batch: "b", numbers.output_feature: "f"}, numbers.output_spatial
    )
    return f"{lhs}_{kernel}->{output}"


def _precision(name: str, precision: tuple[str, ...]) -> str:
    if all(p == "DEFAULT" for p in precision):
        return ""
    return f"operand_precision={_braces(p.lower() for p in precision)}"


def quoted_value(name: str, value: Any) -> str:
    return f"{name}={_quoted(value)}" if isinstance(value, str) else _generic(name, value)


# The printers of attributes that several ops have.
_ATTRIBUTES: Final[dict[str, AttributePrinter]] = {
    "window": _window,
    "dimension_numbers": _dimension_numbers,
    "precision": _precision,
    "feature_group_count": unless(1),
    "batch_group_count": unless(1),
    "indices_are_sorted": unless(False),
    "unique_indices": unless(False),
    "is_stable": unless(False),
    "channel_id": unless(0),
    "use_global_device_ids": unless(False),
}
