"""Write a module as the bytes of an HloModuleProto, the form in which PJRT hands out an optimised program.

The field numbers are those of XLA's ``hlo.proto`` and ``xla_data.proto`` and stand next to their names in
:class:`_Field`.

Where our IR is flatter than HLO, the proto gets HLO's form: ``while`` and ``conditional`` take tuples (so their
computations take one tuple parameter each), ``optimization-barrier`` takes one operand. A ``library-call`` becomes a
custom call with the target ``tripont$<name>``, and so do ``erfc`` and others (hlo.WRITTEN_AS_CALLS); one that is a
collective is that of HLO again. Large constants are left without their literal (XLA prints them as ``{...}``), so that
the bytes stay small whatever the program's weights.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..ir.dtypes import DType
from ..ir.hlo import (
    WRITTEN_AS_CALLS,
    AnyShape,
    Computation,
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    Instruction,
    LayoutOrder,
    Metadata,
    Module,
    ScatterDimensionNumbers,
    Shape,
    TokenShape,
    TupleShape,
    WindowDimension,
)
from .wire_format import float32, integer, integers, message, text, varint

# Literals of more bytes are elided.
MAX_LITERAL_BYTES: Final = 1024


class _Field:
    """Field numbers of HloInstructionProto."""

    NAME = 1
    OPCODE = 2
    SHAPE = 3
    METADATA = 7
    LITERAL = 8
    PARAMETER_NUMBER = 9
    FUSION_KIND = 11
    TUPLE_INDEX = 13
    DIMENSIONS = 14
    WINDOW = 15
    CONVOLUTION_DIMENSION_NUMBERS = 16
    SLICE_DIMENSIONS = 17
    EXPONENT_BITS = 18
    MANTISSA_BITS = 19
    DYNAMIC_SLICE_SIZES = 20
    PADDING_CONFIG = 21
    DISTRIBUTION = 23
    EPSILON = 24
    FEATURE_INDEX = 25
    CHANNEL_ID = 26
    CUSTOM_CALL_TARGET = 28
    DOT_DIMENSION_NUMBERS = 30
    FFT_TYPE = 31
    FFT_LENGTH = 32
    GATHER_DIMENSION_NUMBERS = 33
    GATHER_SLICE_SIZES = 34
    ID = 35
    OPERAND_IDS = 36
    CALLED_COMPUTATION_IDS = 38
    BACKEND_CONFIG = 43
    SCATTER_DIMENSION_NUMBERS = 48
    REPLICA_GROUPS = 49
    FEATURE_GROUP_COUNT = 50
    PRECISION_CONFIG = 51
    SOURCE_TARGET_PAIRS = 52
    BATCH_GROUP_COUNT = 58
    TRIANGULAR_SOLVE_OPTIONS = 59
    IS_STABLE = 60
    CHOLESKY_OPTIONS = 62
    COMPARISON_DIRECTION = 63
    CUSTOM_CALL_HAS_SIDE_EFFECT = 65
    INDICES_ARE_SORTED = 67
    UNIQUE_INDICES = 69
    RNG_ALGORITHM = 70
    USE_GLOBAL_DEVICE_IDS = 71
    COMPARISON_TYPE = 72
    OUTPUT_OPERAND_ALIASING = 74
    CUSTOM_CALL_API_VERSION = 77
    K = 81
    LARGEST = 85


_TUPLE_TYPE: Final = 13
_TOKEN_TYPE: Final = 17


def write_module(module: Module) -> bytes:
    """The module as a serialized HloModuleProto."""
    return _ModuleWriter(module).write()


# ------------------------------------------------------------------------------------------------------- modules


class _ModuleWriter:
    """Numbers, names and cached encodings of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._shapes: dict[AnyShape, bytes] = {}
        self._metadata: dict[Metadata, bytes] = {}
        self._names: dict[str, int] = {}
        self._next_id = 0
        # A computation is written once for each way it is called: (computation, takes a tuple, returns a tuple).
        self.computation_ids: dict[tuple[Computation, bool, bool], int] = {}

    def write(self) -> bytes:
        module = self.module
        computations = module.computations()
        forms: dict[Computation, dict[tuple[bool, bool, bool], None]] = {
            c: {} for c in computations
        }
        forms[module.entry][(False, False, False)] = None
        for computation in reversed(computations):
            for instruction in computation.instructions:
                for index, called in enumerate(instruction.called):
                    forms[called][(*_form(instruction, index), instruction.opcode == "fusion")] = (
                        None
                    )
        parts = [text(1, module.name)]
        entry_name, entry_id = "", 0
        for computation in computations:
            for takes_tuple, gives_tuple, is_fusion in forms[computation]:
                key = (computation, takes_tuple, gives_tuple)
                if key in self.computation_ids:
                    continue
                number = self.computation_ids[key] = self.new_id()
                name = self.unique_name(computation.name)
                writer = _ComputationWriter(self, computation, takes_tuple, gives_tuple)
                body = writer.write(name, number, is_fusion)
                parts.append(message(3, body))
                if computation is module.entry:
                    entry_name, entry_id = name, number
        parts.append(text(2, entry_name))
        parts.append(integer(6, entry_id))
        parts.append(message(4, self.program_shape()))
        parts.append(integer(5, 1))
        if module.input_output_aliases:
            parts.append(message(8, self._aliases()))
        if module.buffer_donors:
            parts.append(
                message(18, b"".join(message(1, integer(1, j)) for j in module.buffer_donors))
            )
        if module.frontend_attributes:
            entries = (
                message(1, text(1, k) + text(2, v)) for k, v in module.frontend_attributes.items()
            )
            parts.append(message(19, b"".join(entries)))
        parts.append(module.shardings)
        return b"".join(parts)

    def _aliases(self) -> bytes:
        is_tuple = self.module.entry.root.opcode == "tuple"
        entries = []
        for result, parameter, must in self.module.input_output_aliases:
            # Index 0 is a value that a packed field must hold.
            index = message(1, varint(result)) if is_tuple else b""
            entries.append(message(1, index + integer(2, parameter) + integer(4, 2 if must else 1)))
        return b"".join(entries)

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def unique_name(self, base: str) -> str:
        """A name that no computation or instruction of the module has."""
        names = self._names
        count = names.get(base)
        if count is None:
            names[base] = 0
            return base
        while True:
            count += 1
            name = f"{base}.{count}"
            if name not in names:
                names[base] = count
                names[name] = 0
                return name

    def shape(self, shape: AnyShape) -> bytes:
        """A ShapeProto with a row-major layout."""
        found = self._shapes.get(shape)
        if found is None:
            found = self._shapes[shape] = self._encode_shape(shape)
        return found

    def _encode_shape(self, shape: AnyShape) -> bytes:
        if isinstance(shape, TokenShape):
            return integer(2, _TOKEN_TYPE)
        if isinstance(shape, TupleShape):
            return integer(2, _TUPLE_TYPE) + b"".join(
                message(4, self.shape(e)) for e in shape.elements
            )
        return self.array(shape, range(len(shape.dims) - 1, -1, -1))

    def array(self, shape: Shape, minor_to_major: Sequence[int]) -> bytes:
        """The ShapeProto of the array that has the dimensions of ``shape`` in the order of memory, slowest first."""
        rank = len(shape.dims)
        dims = [shape.dims[rank - 1 - minor_to_major.index(d)] for d in range(rank)]
        layout = integers(1, minor_to_major) + integer(16, 1)
        dynamic = message(6, bytes(rank)) if rank else b""
        return integer(2, shape.dtype.code) + integers(3, dims) + dynamic + message(5, layout)

    def laid_out(self, instruction: Instruction, layout: LayoutOrder | None) -> bytes:
        """The ShapeProto of the caller's array that a parameter or result of the entry is."""
        shape = instruction.shape
        if layout is None or not isinstance(shape, Shape):
            return self.shape(shape)
        return self.array(shape, layout)

    def parameter_shapes(self) -> list[bytes]:
        """ShapeProtos of the caller's arrays."""
        module = self.module
        pairs = itertools.zip_longest(module.entry.parameters, module.parameter_layouts)
        return [self.laid_out(*pair) for pair in pairs]

    def result_shape(self) -> bytes:
        """The ShapeProto of what the caller gets."""
        entry, layouts = self.module.entry, self.module.result_layouts
        if not any(layouts):
            return self.shape(entry.root.shape)
        shapes = [self.laid_out(*pair) for pair in itertools.zip_longest(entry.results, layouts)]
        if entry.root.opcode != "tuple":
            return shapes[0]
        return integer(2, _TUPLE_TYPE) + b"".join(message(4, shape) for shape in shapes)

    def program_shape(self) -> bytes:
        """The ProgramShapeProto of the entry."""
        parts = [message(1, shape) for shape in self.parameter_shapes()]
        parts.append(message(2, self.result_shape()))
        parts.extend(message(3, p.name.encode()) for p in self.module.entry.parameters)
        return b"".join(parts)

    def metadata(self, metadata: Metadata) -> bytes:
        """The OpMetadata field of an instruction."""
        found = self._metadata.get(metadata)
        if found is None:
            body = (
                text(2, metadata.op_name)
                + text(3, metadata.source_file)
                + integer(4, metadata.source_line)
            )
            found = self._metadata[metadata] = message(_Field.METADATA, body)
        return found


def _form(instruction: Instruction, index: int) -> tuple[bool, bool]:
    """Whether an instruction's called computation takes one tuple and gives a tuple in HLO."""
    if instruction.opcode == "while":
        return True, index == 1
    return instruction.opcode == "conditional", False


class _ComputationWriter:
    """Writes one computation in one form."""

    def __init__(
        self, module: _ModuleWriter, computation: Computation, takes_tuple: bool, gives_tuple: bool
    ) -> None:
        self.module = module
        self.computation = computation
        self.takes_tuple = takes_tuple
        self.gives_tuple = gives_tuple
        self.ids: dict[Instruction, int] = {}
        self.parts: list[bytes] = []

    def write(self, name: str, number: int, is_fusion: bool) -> bytes:
        computation = self.computation
        parameter_shapes: list[AnyShape] = [p.shape for p in computation.parameters]
        parameter_names = [p.name for p in computation.parameters]
        if self.takes_tuple:
            whole = TupleShape(tuple(parameter_shapes))  # type: ignore[arg-type]
            parameter = self.emit("parameter", "parameter", whole, ())
            for index, p in enumerate(computation.parameters):
                element = integer(_Field.TUPLE_INDEX, index)
                self.ids[p] = self.emit("get-tuple-element", p.name, p.shape, (parameter,), element)
            parameter_shapes, parameter_names = [whole], ["parameter"]
        is_entry = computation is self.module.module.entry
        if is_entry:
            self.laid_out_parameters()
        for instruction in computation.instructions:
            if instruction.opcode == "parameter" and (self.takes_tuple or instruction in self.ids):
                continue
            self.ids[instruction] = self.instruction(instruction)
        root = computation.root
        root_id, root_shape = self.ids[root], root.shape
        if self.gives_tuple and root.opcode != "tuple":
            root_shape = TupleShape((root.shape,))  # type: ignore[arg-type]
            root_id = self.emit("tuple", "tuple", root_shape, (root_id,))
        if is_entry:
            root_id = self.laid_out_root(root_id)
            program_shape = self.module.program_shape()
        else:
            shape = self.module.shape
            program_shape = b"".join(
                [
                    *(message(1, shape(s)) for s in parameter_shapes),
                    message(2, shape(root_shape)),
                    *(message(3, n.encode()) for n in parameter_names),
                ]
            )
        return b"".join(
            [
                text(1, name),
                *self.parts,
                message(4, program_shape),
                integer(5, number),
                integer(6, root_id),
                integer(7, int(is_fusion)),
            ]
        )

    def laid_out_parameters(self) -> None:
        """Write the entry's parameters that are not row-major, and bitcasts of them to the order of their memory."""
        module = self.module.module
        shapes = self.module.parameter_shapes() if any(module.parameter_layouts) else []
        for p, layout, shape in zip(
            module.entry.parameters, module.parameter_layouts, shapes, strict=False
        ):
            if layout is not None:
                number = self.emit("parameter", p.name, shape, (), self.fields(p))
                self.ids[p] = self.emit("bitcast", p.name, p.shape, (number,))

    def laid_out_root(self, root_id: int) -> int:
        """Write bitcasts of the entry's results that are not row-major; the id of what is the root then."""
        module = self.module.module
        if not any(module.result_layouts):
            return root_id
        numbers = []
        for result, layout in itertools.zip_longest(module.entry.results, module.result_layouts):
            number = self.ids[result]
            if layout is not None:
                shape = self.module.laid_out(result, layout)
                number = self.emit("bitcast", result.name, shape, (number,))
            numbers.append(number)
        if module.entry.root.opcode != "tuple":
            return numbers[0]
        return self.emit("tuple", "tuple", self.module.result_shape(), numbers)

    def emit(
        self,
        opcode: str,
        name: str,
        shape: AnyShape | bytes,
        operands: Sequence[int],
        fields: bytes = b"",
        metadata: bytes = b"",
    ) -> int:
        """Append an instruction, whose shape may be encoded already; returns its id."""
        module = self.module
        number = module.new_id()
        body = b"".join(
            (
                text(_Field.NAME, module.unique_name(name or opcode)),
                text(_Field.OPCODE, opcode),
                message(_Field.SHAPE, shape if isinstance(shape, bytes) else module.shape(shape)),
                metadata,
                fields,
                integer(_Field.ID, number),
                integers(_Field.OPERAND_IDS, operands),
            )
        )
        self.parts.append(message(2, body))
        return number

    def tuple_of(self, operands: Sequence[Instruction]) -> int:
        """A tuple instruction over operands; returns its id."""
        shape = TupleShape(tuple(o.shape for o in operands))  # type: ignore[misc]
        return self.emit("tuple", "tuple", shape, [self.ids[o] for o in operands])

    def instruction(self, instruction: Instruction) -> int:
        """Write an instruction in HLO's form; returns the id of its value."""
        opcode, shape = instruction.opcode, instruction.shape
        operands = [self.ids[o] for o in instruction.operands]
        unwrap = False
        if opcode == "while":
            operands = [self.tuple_of(instruction.operands)]
            if not isinstance(shape, TupleShape):
                shape, unwrap = TupleShape((shape,)), True
        elif opcode == "conditional":
            flat, start, branches = instruction.operands, 1, []
            for count in instruction.attributes["operand_counts"]:
                branches.append(self.tuple_of(flat[start : start + count]))
                start += count
            operands = [operands[0], *branches]
        elif opcode == "optimization-barrier" and isinstance(shape, TupleShape):
            operands = [self.tuple_of(instruction.operands)]
        fields = self.fields(instruction)
        metadata = (
            b"" if instruction.metadata is None else self.module.metadata(instruction.metadata)
        )
        number = self.emit(
            _written_opcode(instruction), instruction.name, shape, operands, fields, metadata
        )
        if unwrap:
            number = self.emit(
                "get-tuple-element", "get-tuple-element", instruction.shape, (number,)
            )
        return number

    def fields(self, instruction: Instruction) -> bytes:
        """The fields of the instruction's attributes and called computations."""
        writer = _WRITERS.get(instruction.opcode)
        fields = writer(instruction) if writer is not None else b""
        if instruction.called:
            ids = [
                self.module.computation_ids[(called, *_form(instruction, index))]
                for index, called in enumerate(instruction.called)
            ]
            if instruction.opcode == "while":
                ids.reverse()  # HLO lists the body first
            fields += integers(_Field.CALLED_COMPUTATION_IDS, ids)
        return fields


# ---------------------------------------------------------------------------------------------------- attributes

_OPCODES: Final = {
    "optimization-barrier": "opt-barrier",
    "library-call": "custom-call",
    "pack": "custom-call",
    "packed-dot": "custom-call",
    "window-product": "custom-call",
    **dict.fromkeys(WRITTEN_AS_CALLS, "custom-call"),
}

#: Library calls that HLO has an opcode for: who reads the program looks for it.
_COLLECTIVE_CALLS: Final = frozenset(
    ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute")
)


def _written_opcode(i: Instruction) -> str:
    if i.opcode == "library-call" and i.attributes["name"] in _COLLECTIVE_CALLS:
        return str(i.attributes["name"])
    return _OPCODES.get(i.opcode, i.opcode)


def _literal(literal: np.ndarray, shape: Shape) -> bytes:
    """A LiteralProto. The field's number and encoding depend on the dtype."""
    dtype = shape.dtype
    layout = integers(1, range(len(shape.dims) - 1, -1, -1))
    shape_proto = integer(2, dtype.code) + integers(3, shape.dims) + message(5, layout)
    number = _LITERAL_FIELDS[dtype.name]
    if dtype.kind in ("int", "uint") and dtype.bits >= 32:
        data = b"".join(map(varint, literal.reshape(-1).tolist()))
    else:
        data = literal.tobytes()
    return message(1, shape_proto) + message(number, data)


_LITERAL_FIELDS: Final = {
    "pred": 2, "u8": 3, "s32": 4, "s64": 5, "u32": 6, "u64": 7, "f32": 8, "f64": 9, "f16": 11, "c64": 12,
    "bf16": 13, "s8": 15, "u16": 16, "s16": 17, "c128": 18, "f8e5m2": 19, "f8e4m3fn": 20, "f8e4m3b11fnuz": 23,
    "f8e5m2fnuz": 24, "f8e4m3fnuz": 25, "f8e4m3": 28, "f8e3m4": 29, "f8e8m0fnu": 33,
}  # fmt: skip


def _constant(i: Instruction) -> bytes:
    literal = i.attributes["literal"]
    # Sub-byte literals are packed in the proto; they are rare enough to be elided too.
    if literal.nbytes > MAX_LITERAL_BYTES or i.dtype.name not in _LITERAL_FIELDS:
        return b""
    return message(_Field.LITERAL, _literal(literal, i.shape))  # type: ignore[arg-type]


def _dimensions(i: Instruction) -> bytes:
    return integers(_Field.DIMENSIONS, i.attributes["dimensions"])


def _dimension(name: str) -> Callable[[Instruction], bytes]:
    """One dimension, which HLO keeps in the list of dimensions."""
    return lambda i: message(_Field.DIMENSIONS, varint(i.attributes[name]))


def _window_proto(window: Sequence[WindowDimension]) -> bytes:
    dimensions = (
        integer(1, w.size)
        + integer(2, w.stride)
        + integer(3, w.padding_low)
        + integer(4, w.padding_high)
        + integer(5, w.window_dilation)
        + integer(6, w.base_dilation)
        + integer(7, int(w.reversal))
        for w in window
    )
    return message(_Field.WINDOW, b"".join(message(1, d) for d in dimensions))


def _window(i: Instruction) -> bytes:
    return _window_proto(i.attributes["window"])


_PRECISIONS: Final = {"DEFAULT": 0, "HIGH": 1, "HIGHEST": 2}
_ALGORITHMS: Final = {
    "f16_f16_f16": 3, "f16_f16_f32": 4, "bf16_bf16_bf16": 5, "bf16_bf16_f32": 6, "bf16_bf16_f32_x3": 7,
    "bf16_bf16_f32_x6": 8, "tf32_tf32_f32": 9, "tf32_tf32_f32_x3": 10, "f32_f32_f32": 11, "f64_f64_f64": 12,
    "bf16_bf16_f32_x9": 13,
}  # fmt: skip


def _precision(i: Instruction) -> bytes:
    values = [_PRECISIONS.get(p, 0) for p in i.attributes["precision"]]
    algorithm = _ALGORITHMS.get(i.attributes.get("algorithm", ""), 0)
    return message(_Field.PRECISION_CONFIG, integers(1, values) + integer(2, algorithm))


def _dot(i: Instruction) -> bytes:
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    body = (
        integers(1, numbers.lhs_contracting)
        + integers(2, numbers.rhs_contracting)
        + integers(3, numbers.lhs_batch)
        + integers(4, numbers.rhs_batch)
    )
    return message(_Field.DOT_DIMENSION_NUMBERS, body) + _precision(i)


def _convolution(i: Instruction) -> bytes:
    n: ConvolutionDimensionNumbers = i.attributes["dimension_numbers"]
    body = (
        integer(7, n.input_batch)
        + integer(8, n.input_feature)
        + integers(11, n.input_spatial)
        + integer(3, n.kernel_input_feature)
        + integer(4, n.kernel_output_feature)
        + integers(6, n.kernel_spatial)
        + integer(9, n.output_batch)
        + integer(10, n.output_feature)
        + integers(12, n.output_spatial)
    )
    return (
        _window(i)
        + message(_Field.CONVOLUTION_DIMENSION_NUMBERS, body)
        + integer(_Field.FEATURE_GROUP_COUNT, i.attributes["feature_group_count"])
        + integer(_Field.BATCH_GROUP_COUNT, i.attributes["batch_group_count"])
        + _precision(i)
    )


def _gather(i: Instruction) -> bytes:
    n: GatherDimensionNumbers = i.attributes["dimension_numbers"]
    body = (
        integers(1, n.offset_dims)
        + integers(2, n.collapsed_slice_dims)
        + integers(3, n.start_index_map)
        + integer(4, n.index_vector_dim)
        + integers(5, n.operand_batching_dims)
        + integers(6, n.start_indices_batching_dims)
    )
    return (
        message(_Field.GATHER_DIMENSION_NUMBERS, body)
        + integers(_Field.GATHER_SLICE_SIZES, i.attributes["slice_sizes"])
        + integer(_Field.INDICES_ARE_SORTED, int(i.attributes["indices_are_sorted"]))
    )


def _scatter(i: Instruction) -> bytes:
    n: ScatterDimensionNumbers = i.attributes["dimension_numbers"]
    body = (
        integers(1, n.update_window_dims)
        + integers(2, n.inserted_window_dims)
        + integers(3, n.scatter_dims_to_operand_dims)
        + integer(4, n.index_vector_dim)
        + integers(5, n.input_batching_dims)
        + integers(6, n.scatter_indices_batching_dims)
    )
    return (
        message(_Field.SCATTER_DIMENSION_NUMBERS, body)
        + integer(_Field.INDICES_ARE_SORTED, int(i.attributes["indices_are_sorted"]))
        + integer(_Field.UNIQUE_INDICES, int(i.attributes["unique_indices"]))
    )


def _slice(i: Instruction) -> bytes:
    bounds = zip(
        i.attributes["starts"], i.attributes["limits"], i.attributes["strides"], strict=True
    )
    return b"".join(
        message(_Field.SLICE_DIMENSIONS, integer(1, start) + integer(2, limit) + integer(3, stride))
        for start, limit, stride in bounds
    )


def _pad(i: Instruction) -> bytes:
    edges = zip(i.attributes["low"], i.attributes["high"], i.attributes["interior"], strict=True)
    body = b"".join(message(1, integer(1, a) + integer(2, b) + integer(3, c)) for a, b, c in edges)
    return message(_Field.PADDING_CONFIG, body)


def _compare(i: Instruction) -> bytes:
    return text(_Field.COMPARISON_DIRECTION, i.attributes["direction"]) + text(
        _Field.COMPARISON_TYPE, i.attributes["comparison_type"]
    )


def _reduce_precision(i: Instruction) -> bytes:
    return integer(_Field.EXPONENT_BITS, i.attributes["exponent_bits"]) + integer(
        _Field.MANTISSA_BITS, i.attributes["mantissa_bits"]
    )


def _sort(i: Instruction) -> bytes:
    return _dimension("dimension")(i) + integer(_Field.IS_STABLE, int(i.attributes["is_stable"]))


def _topk(i: Instruction) -> bytes:
    return integer(_Field.K, i.attributes["k"]) + integer(
        _Field.LARGEST, int(i.attributes["largest"])
    )


def _fft(i: Instruction) -> bytes:
    kind = ("FFT", "IFFT", "RFFT", "IRFFT").index(i.attributes["fft_type"])
    return integer(_Field.FFT_TYPE, kind) + integers(_Field.FFT_LENGTH, i.attributes["fft_length"])


def _triangular_solve(i: Instruction) -> bytes:
    transpose = ("INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT").index(
        i.attributes["transpose_a"]
    )
    flags = (int(i.attributes[name]) for name in ("left_side", "lower", "unit_diagonal"))
    body = b"".join(integer(n, flag) for n, flag in enumerate(flags, 1)) + integer(4, transpose)
    return message(_Field.TRIANGULAR_SOLVE_OPTIONS, body)


def _batch_norm(i: Instruction) -> bytes:
    return float32(_Field.EPSILON, i.attributes["epsilon"]) + integer(
        _Field.FEATURE_INDEX, i.attributes["feature_index"]
    )


def _rng(i: Instruction) -> bytes:
    return integer(_Field.DISTRIBUTION, {"uniform": 1, "normal": 2}[i.attributes["distribution"]])


def _rng_bit_generator(i: Instruction) -> bytes:
    return integer(
        _Field.RNG_ALGORITHM, ("DEFAULT", "THREE_FRY", "PHILOX").index(i.attributes["algorithm"])
    )


def _custom_call(i: Instruction) -> bytes:
    attributes = i.attributes
    config = attributes["backend_config"]
    if isinstance(config, dict):
        config = _json(config)
    several = isinstance(i.shape, TupleShape)
    aliases = b"".join(
        message(
            _Field.OUTPUT_OPERAND_ALIASING,
            (message(1, varint(output)) if several else b"") + integer(2, operand),
        )
        for output, operand in attributes["output_operand_aliases"]
    )
    return (
        text(_Field.CUSTOM_CALL_TARGET, attributes["custom_call_target"])
        + (message(_Field.BACKEND_CONFIG, config) if config else b"")
        + integer(_Field.CUSTOM_CALL_API_VERSION, attributes["api_version"])
        + integer(_Field.CUSTOM_CALL_HAS_SIDE_EFFECT, int(attributes["has_side_effect"]))
        + aliases
    )


def _library_call(i: Instruction) -> bytes:
    config = i.attributes["config"]
    if i.attributes["name"] in _COLLECTIVE_CALLS:
        return _collective_call(i)
    return (
        text(_Field.CUSTOM_CALL_TARGET, f"tripont${i.attributes['name']}")
        + (message(_Field.BACKEND_CONFIG, _json(config)) if config else b"")
        + integer(_Field.CUSTOM_CALL_API_VERSION, 1)
    )


def _packed(i: Instruction) -> bytes:
    """A generated product, or the packing before it: as a call, with its configuration for readers."""
    return (
        text(_Field.CUSTOM_CALL_TARGET, f"tripont${i.opcode}")
        + message(_Field.BACKEND_CONFIG, _json(i.attributes["config"]))
        + integer(_Field.CUSTOM_CALL_API_VERSION, 1)
    )


def _json(config: dict[str, Any]) -> bytes:
    """A call's configuration as readable text."""
    return json.dumps(config, default=_jsonable, separators=(",", ":")).encode()


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist() if value.nbytes <= MAX_LITERAL_BYTES else "..."
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, DType):
        return value.name
    return str(value)


_FUSION_KINDS: Final = {"loop": "kLoop", "reduce": "kInput", "row": "kInput", "transpose": "kInput"}


def _fusion(i: Instruction) -> bytes:
    kind = str(i.attributes["kind"])
    return text(_Field.FUSION_KIND, _FUSION_KINDS.get(kind, "kLoop")) + message(
        _Field.BACKEND_CONFIG, _json({"kind": kind})
    )


def _collective(dimension: str = "") -> Callable[[Instruction], bytes]:
    """Replica groups and channel of a collective, and its dimension if it has one."""

    def write(i: Instruction) -> bytes:
        attributes = i.attributes
        groups = b"".join(
            message(_Field.REPLICA_GROUPS, message(1, b"".join(map(varint, group))))
            for group in attributes["replica_groups"]
        )
        where = (
            message(_Field.DIMENSIONS, varint(attributes[dimension]))
            if dimension in attributes
            else b""
        )
        return (
            groups
            + where
            + integer(_Field.CHANNEL_ID, attributes["channel_id"])
            + integer(
                _Field.USE_GLOBAL_DEVICE_IDS, int(attributes.get("use_global_device_ids", False))
            )
        )

    return write


def _collective_permute(i: Instruction) -> bytes:
    pairs = b"".join(
        message(_Field.SOURCE_TARGET_PAIRS, integer(1, source) + integer(2, target))
        for source, target in i.attributes["source_target_pairs"]
    )
    return pairs + integer(_Field.CHANNEL_ID, i.attributes["channel_id"])


def _collective_call(i: Instruction) -> bytes:
    """The attributes that HLO has for a call that passes/collectives.py made, which splits and joins the first
    dimension, and what the call has besides.
    """
    name, config = i.attributes["name"], i.attributes["config"]
    attributes = {"channel_id": config["channel"]}
    if name == "collective-permute":
        sources = enumerate(config["sources"])
        attributes["source_target_pairs"] = [(a, b) for b, a in sources if a >= 0]
    else:
        members = iter(config["groups"])
        groups = [[next(members) for _ in range(size)] for size in config["group_sizes"]]
        attributes["replica_groups"] = groups
        attributes["use_global_device_ids"] = config["channel"] > 0
        attributes |= {"all_gather_dimension": 0, "scatter_dimension": 0}
        if not isinstance(i.shape, TupleShape):
            attributes["split_dimension"] = 0
    collective = Instruction(name, i.shape, i.operands, attributes, i.called)
    rest = {key: config[key] for key in ("meeting", "cost_ns")}
    return _WRITERS[name](collective) + message(_Field.BACKEND_CONFIG, _json(rest))


_WRITERS: Final[dict[str, Callable[[Instruction], bytes]]] = {
    "parameter": lambda i: integer(_Field.PARAMETER_NUMBER, i.attributes["index"]),
    "constant": _constant,
    "iota": _dimension("dimension"),
    "compare": _compare,
    "reduce-precision": _reduce_precision,
    "broadcast": _dimensions,
    "transpose": _dimensions,
    "reverse": _dimensions,
    "reduce": _dimensions,
    "map": _dimensions,
    "concatenate": _dimension("dimension"),
    "slice": _slice,
    "pad": _pad,
    "dynamic-slice": lambda i: integers(_Field.DYNAMIC_SLICE_SIZES, i.attributes["slice_sizes"]),
    "gather": _gather,
    "scatter": _scatter,
    "reduce-window": _window,
    "select-and-scatter": _window,
    "dot": _dot,
    "convolution": _convolution,
    "sort": _sort,
    "topk": _topk,
    "get-tuple-element": lambda i: integer(_Field.TUPLE_INDEX, i.attributes["index"]),
    "fft": _fft,
    "cholesky": lambda i: message(_Field.CHOLESKY_OPTIONS, integer(1, int(i.attributes["lower"]))),
    "triangular-solve": _triangular_solve,
    "batch-norm-training": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-grad": _batch_norm,
    "rng": _rng,
    "rng-bit-generator": _rng_bit_generator,
    "custom-call": _custom_call,
    "library-call": _library_call,
    "pack": _packed,
    "packed-dot": _packed,
    "window-product": _packed,
    **dict.fromkeys(
        WRITTEN_AS_CALLS,
        lambda i: text(_Field.CUSTOM_CALL_TARGET, WRITTEN_AS_CALLS[i.opcode]),
    ),
    "fusion": _fusion,
    "all-reduce": _collective(),
    "all-gather": _collective("all_gather_dimension"),
    "all-to-all": _collective("split_dimension"),
    "reduce-scatter": _collective("scatter_dimension"),
    "collective-permute": _collective_permute,
    "collective-broadcast": _collective(),
}
