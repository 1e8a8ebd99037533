"""Write a module as the bytes of an HloModuleProto, the form in which PJRT hands out an optimised program.

The protocol-buffer wire format is simple enough to write by hand, which spares a dependency; the field numbers are
those of XLA's ``hlo.proto`` and ``xla_data.proto`` and stand next to their names in :class:`_Field`.

Where our IR is flatter than HLO, the proto gets HLO's form: ``while`` and ``conditional`` take tuples (so their
computations take one tuple parameter each), ``optimization-barrier`` takes one operand. A ``library-call`` becomes a
custom call with the target ``tripont$<name>``. Large constants are left without their literal (XLA prints them as
``{...}``), so that the bytes stay small whatever the program's weights.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from .dtypes import DType
from .hlo import (
    AnyShape,
    Computation,
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    Instruction,
    Metadata,
    Module,
    ScatterDimensionNumbers,
    Shape,
    TokenShape,
    TupleShape,
    WindowDimension,
)

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


# --------------------------------------------------------------------------------------------------- wire format


def _varint(value: int) -> bytes:
    """An integer in base 128; negative ones as 64-bit two's complement."""
    if 0 <= value < 128:
        return _SMALL[value]
    if value < 0:
        value += 1 << 64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(bytes((i,)) for i in range(128))
_VARINT_KEYS: Final = tuple(_varint(n << 3) for n in range(100))
_BYTES_KEYS: Final = tuple(_varint(n << 3 | 2) for n in range(100))


def _integer(field: int, value: int) -> bytes:
    """An integer, boolean or enumeration field; absent when zero, as proto3 has it."""
    return _VARINT_KEYS[field] + _varint(value) if value else b""


def _message(field: int, payload: bytes) -> bytes:
    """A message, string or bytes field; present even when empty."""
    return _BYTES_KEYS[field] + _varint(len(payload)) + payload


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode("utf-8", "replace")) if value else b""


def _integers(field: int, values: Iterable[int]) -> bytes:
    """A packed repeated integer field."""
    payload = b"".join(map(_varint, values))
    return _BYTES_KEYS[field] + _varint(len(payload)) + payload if payload else b""


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


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
        parts = [_text(1, module.name)]
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
                parts.append(_message(3, body))
                if computation is module.entry:
                    entry_name, entry_id = name, number
        parts.append(_text(2, entry_name))
        parts.append(_integer(6, entry_id))
        parts.append(_message(4, self.program_shape(module.entry)))
        parts.append(_integer(5, 1))
        if module.input_output_aliases:
            parts.append(_message(8, self._aliases()))
        if module.buffer_donors:
            parts.append(
                _message(18, b"".join(_message(1, _integer(1, j)) for j in module.buffer_donors))
            )
        if module.frontend_attributes:
            entries = (
                _message(1, _text(1, k) + _text(2, v))
                for k, v in module.frontend_attributes.items()
            )
            parts.append(_message(19, b"".join(entries)))
        parts.append(module.shardings)
        return b"".join(parts)

    def _aliases(self) -> bytes:
        is_tuple = self.module.entry.root.opcode == "tuple"
        entries = []
        for result, parameter, must in self.module.input_output_aliases:
            # Index 0 is a value that a packed field must hold.
            index = _message(1, _varint(result)) if is_tuple else b""
            entries.append(
                _message(1, index + _integer(2, parameter) + _integer(4, 2 if must else 1))
            )
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
            return _integer(2, _TOKEN_TYPE)
        if isinstance(shape, TupleShape):
            return _integer(2, _TUPLE_TYPE) + b"".join(
                _message(4, self.shape(e)) for e in shape.elements
            )
        rank = len(shape.dims)
        layout = _integers(1, range(rank - 1, -1, -1)) + _integer(16, 1)
        dynamic = _message(6, bytes(rank)) if rank else b""
        return (
            _integer(2, shape.dtype.code) + _integers(3, shape.dims) + dynamic + _message(5, layout)
        )

    def program_shape(self, computation: Computation) -> bytes:
        """A ProgramShapeProto."""
        parts = [_message(1, self.shape(p.shape)) for p in computation.parameters]
        parts.append(_message(2, self.shape(computation.root.shape)))
        parts.extend(_message(3, p.name.encode()) for p in computation.parameters)
        return b"".join(parts)

    def metadata(self, metadata: Metadata) -> bytes:
        """The OpMetadata field of an instruction."""
        found = self._metadata.get(metadata)
        if found is None:
            body = (
                _text(2, metadata.op_name)
                + _text(3, metadata.source_file)
                + _integer(4, metadata.source_line)
            )
            found = self._metadata[metadata] = _message(_Field.METADATA, body)
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
                element = _integer(_Field.TUPLE_INDEX, index)
                self.ids[p] = self.emit("get-tuple-element", p.name, p.shape, (parameter,), element)
            parameter_shapes, parameter_names = [whole], ["parameter"]
        for instruction in computation.instructions:
            if instruction.opcode == "parameter" and self.takes_tuple:
                continue
            self.ids[instruction] = self.instruction(instruction)
        root = computation.root
        root_id, root_shape = self.ids[root], root.shape
        if self.gives_tuple and root.opcode != "tuple":
            root_shape = TupleShape((root.shape,))  # type: ignore[arg-type]
            root_id = self.emit("tuple", "tuple", root_shape, (root_id,))
        shape = self.module.shape
        program_shape = b"".join(
            [
                *(_message(1, shape(s)) for s in parameter_shapes),
                _message(2, shape(root_shape)),
                *(_message(3, n.encode()) for n in parameter_names),
            ]
        )
        return b"".join(
            [
                _text(1, name),
                *self.parts,
                _message(4, program_shape),
                _integer(5, number),
                _integer(6, root_id),
                _integer(7, int(is_fusion)),
            ]
        )

    def emit(
        self,
        opcode: str,
        name: str,
        shape: AnyShape,
        operands: Sequence[int],
        fields: bytes = b"",
        metadata: bytes = b"",
    ) -> int:
        """Append an instruction; returns its id."""
        module = self.module
        number = module.new_id()
        body = b"".join(
            (
                _text(_Field.NAME, module.unique_name(name or opcode)),
                _text(_Field.OPCODE, opcode),
                _message(_Field.SHAPE, module.shape(shape)),
                metadata,
                fields,
                _integer(_Field.ID, number),
                _integers(_Field.OPERAND_IDS, operands),
            )
        )
        self.parts.append(_message(2, body))
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
            _OPCODES.get(opcode, opcode), instruction.name, shape, operands, fields, metadata
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
            fields += _integers(_Field.CALLED_COMPUTATION_IDS, ids)
        return fields


# ---------------------------------------------------------------------------------------------------- attributes

_OPCODES: Final = {"optimization-barrier": "opt-barrier", "library-call": "custom-call"}


def _literal(literal: np.ndarray, shape: Shape) -> bytes:
    """A LiteralProto. The field's number and encoding depend on the dtype."""
    dtype = shape.dtype
    layout = _integers(1, range(len(shape.dims) - 1, -1, -1))
    shape_proto = _integer(2, dtype.code) + _integers(3, shape.dims) + _message(5, layout)
    number = _LITERAL_FIELDS[dtype.name]
    if dtype.kind in ("int", "uint") and dtype.bits >= 32:
        data = b"".join(map(_varint, literal.reshape(-1).tolist()))
    else:
        data = literal.tobytes()
    return _message(1, shape_proto) + _message(number, data)


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
    return _message(_Field.LITERAL, _literal(literal, i.shape))  # type: ignore[arg-type]


def _dimensions(i: Instruction) -> bytes:
    return _integers(_Field.DIMENSIONS, i.attributes["dimensions"])


def _dimension(name: str) -> Callable[[Instruction], bytes]:
    """One dimension, which HLO keeps in the list of dimensions."""
    return lambda i: _message(_Field.DIMENSIONS, _varint(i.attributes[name]))


def _window_proto(window: Sequence[WindowDimension]) -> bytes:
    dimensions = (
        _integer(1, w.size)
        + _integer(2, w.stride)
        + _integer(3, w.padding_low)
        + _integer(4, w.padding_high)
        + _integer(5, w.window_dilation)
        + _integer(6, w.base_dilation)
        + _integer(7, int(w.reversal))
        for w in window
    )
    return _message(_Field.WINDOW, b"".join(_message(1, d) for d in dimensions))


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
    return _message(_Field.PRECISION_CONFIG, _integers(1, values) + _integer(2, algorithm))


def _dot(i: Instruction) -> bytes:
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    body = (
        _integers(1, numbers.lhs_contracting)
        + _integers(2, numbers.rhs_contracting)
        + _integers(3, numbers.lhs_batch)
        + _integers(4, numbers.rhs_batch)
    )
    return _message(_Field.DOT_DIMENSION_NUMBERS, body) + _precision(i)


def _convolution(i: Instruction) -> bytes:
    n: ConvolutionDimensionNumbers = i.attributes["dimension_numbers"]
    body = (
        _integer(7, n.input_batch)
        + _integer(8, n.input_feature)
        + _integers(11, n.input_spatial)
        + _integer(3, n.kernel_input_feature)
        + _integer(4, n.kernel_output_feature)
        + _integers(6, n.kernel_spatial)
        + _integer(9, n.output_batch)
        + _integer(10, n.output_feature)
        + _integers(12, n.output_spatial)
    )
    return (
        _window(i)
        + _message(_Field.CONVOLUTION_DIMENSION_NUMBERS, body)
        + _integer(_Field.FEATURE_GROUP_COUNT, i.attributes["feature_group_count"])
        + _integer(_Field.BATCH_GROUP_COUNT, i.attributes["batch_group_count"])
        + _precision(i)
    )


def _gather(i: Instruction) -> bytes:
    n: GatherDimensionNumbers = i.attributes["dimension_numbers"]
    body = (
        _integers(1, n.offset_dims)
        + _integers(2, n.collapsed_slice_dims)
        + _integers(3, n.start_index_map)
        + _integer(4, n.index_vector_dim)
        + _integers(5, n.operand_batching_dims)
        + _integers(6, n.start_indices_batching_dims)
    )
    return (
        _message(_Field.GATHER_DIMENSION_NUMBERS, body)
        + _integers(_Field.GATHER_SLICE_SIZES, i.attributes["slice_sizes"])
        + _integer(_Field.INDICES_ARE_SORTED, int(i.attributes["indices_are_sorted"]))
    )


def _scatter(i: Instruction) -> bytes:
    n: ScatterDimensionNumbers = i.attributes["dimension_numbers"]
    body = (
        _integers(1, n.update_window_dims)
        + _integers(2, n.inserted_window_dims)
        + _integers(3, n.scatter_dims_to_operand_dims)
        + _integer(4, n.index_vector_dim)
        + _integers(5, n.input_batching_dims)
        + _integers(6, n.scatter_indices_batching_dims)
    )
    return (
        _message(_Field.SCATTER_DIMENSION_NUMBERS, body)
        + _integer(_Field.INDICES_ARE_SORTED, int(i.attributes["indices_are_sorted"]))
        + _integer(_Field.UNIQUE_INDICES, int(i.attributes["unique_indices"]))
    )


def _slice(i: Instruction) -> bytes:
    bounds = zip(
        i.attributes["starts"], i.attributes["limits"], i.attributes["strides"], strict=True
    )
    return b"".join(
        _message(
            _Field.SLICE_DIMENSIONS, _integer(1, start) + _integer(2, limit) + _integer(3, stride)
        )
        for start, limit, stride in bounds
    )


def _pad(i: Instruction) -> bytes:
    edges = zip(i.attributes["low"], i.attributes["high"], i.attributes["interior"], strict=True)
    body = b"".join(
        _message(1, _integer(1, a) + _integer(2, b) + _integer(3, c)) for a, b, c in edges
    )
    return _message(_Field.PADDING_CONFIG, body)


def _compare(i: Instruction) -> bytes:
    return _text(_Field.COMPARISON_DIRECTION, i.attributes["direction"]) + _text(
        _Field.COMPARISON_TYPE, i.attributes["comparison_type"]
    )


def _reduce_precision(i: Instruction) -> bytes:
    return _integer(_Field.EXPONENT_BITS, i.attributes["exponent_bits"]) + _integer(
        _Field.MANTISSA_BITS, i.attributes["mantissa_bits"]
    )


def _sort(i: Instruction) -> bytes:
    return _dimension("dimension")(i) + _integer(_Field.IS_STABLE, int(i.attributes["is_stable"]))


def _topk(i: Instruction) -> bytes:
    return _integer(_Field.K, i.attributes["k"]) + _integer(
        _Field.LARGEST, int(i.attributes["largest"])
    )


def _fft(i: Instruction) -> bytes:
    kind = ("FFT", "IFFT", "RFFT", "IRFFT").index(i.attributes["fft_type"])
    return _integer(_Field.FFT_TYPE, kind) + _integers(
        _Field.FFT_LENGTH, i.attributes["fft_length"]
    )


def _triangular_solve(i: Instruction) -> bytes:
    transpose = ("INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT").index(
        i.attributes["transpose_a"]
    )
    flags = (int(i.attributes[name]) for name in ("left_side", "lower", "unit_diagonal"))
    body = b"".join(_integer(n, flag) for n, flag in enumerate(flags, 1)) + _integer(4, transpose)
    return _message(_Field.TRIANGULAR_SOLVE_OPTIONS, body)


def _batch_norm(i: Instruction) -> bytes:
    return _float(_Field.EPSILON, i.attributes["epsilon"]) + _integer(
        _Field.FEATURE_INDEX, i.attributes["feature_index"]
    )


def _rng(i: Instruction) -> bytes:
    return _integer(_Field.DISTRIBUTION, {"uniform": 1, "normal": 2}[i.attributes["distribution"]])


def _rng_bit_generator(i: Instruction) -> bytes:
    return _integer(
        _Field.RNG_ALGORITHM, ("DEFAULT", "THREE_FRY", "PHILOX").index(i.attributes["algorithm"])
    )


def _custom_call(i: Instruction) -> bytes:
    attributes = i.attributes
    config = attributes["backend_config"]
    if isinstance(config, dict):
        config = _json(config)
    several = isinstance(i.shape, TupleShape)
    aliases = b"".join(
        _message(
            _Field.OUTPUT_OPERAND_ALIASING,
            (_message(1, _varint(output)) if several else b"") + _integer(2, operand),
        )
        for output, operand in attributes["output_operand_aliases"]
    )
    return (
        _text(_Field.CUSTOM_CALL_TARGET, attributes["custom_call_target"])
        + (_message(_Field.BACKEND_CONFIG, config) if config else b"")
        + _integer(_Field.CUSTOM_CALL_API_VERSION, attributes["api_version"])
        + _integer(_Field.CUSTOM_CALL_HAS_SIDE_EFFECT, int(attributes["has_side_effect"]))
        + aliases
    )


def _library_call(i: Instruction) -> bytes:
    config = i.attributes["config"]
    return (
        _text(_Field.CUSTOM_CALL_TARGET, f"tripont${i.attributes['name']}")
        + (_message(_Field.BACKEND_CONFIG, _json(config)) if config else b"")
        + _integer(_Field.CUSTOM_CALL_API_VERSION, 1)
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
    return _text(_Field.FUSION_KIND, _FUSION_KINDS.get(kind, "kLoop")) + _message(
        _Field.BACKEND_CONFIG, _json({"kind": kind})
    )


def _collective(dimension: str = "") -> Callable[[Instruction], bytes]:
    """Replica groups and channel of a collective, and its dimension if it has one."""

    def write(i: Instruction) -> bytes:
        attributes = i.attributes
        groups = b"".join(
            _message(_Field.REPLICA_GROUPS, _message(1, b"".join(map(_varint, group))))
            for group in attributes["replica_groups"]
        )
        where = (
            _message(_Field.DIMENSIONS, _varint(attributes[dimension]))
            if dimension in attributes
            else b""
        )
        return (
            groups
            + where
            + _integer(_Field.CHANNEL_ID, attributes["channel_id"])
            + _integer(
                _Field.USE_GLOBAL_DEVICE_IDS, int(attributes.get("use_global_device_ids", False))
            )
        )

    return write


def _collective_permute(i: Instruction) -> bytes:
    pairs = b"".join(
        _message(_Field.SOURCE_TARGET_PAIRS, _integer(1, source) + _integer(2, target))
        for source, target in i.attributes["source_target_pairs"]
    )
    return pairs + _integer(_Field.CHANNEL_ID, i.attributes["channel_id"])


_WRITERS: Final[dict[str, Callable[[Instruction], bytes]]] = {
    "parameter": lambda i: _integer(_Field.PARAMETER_NUMBER, i.attributes["index"]),
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
    "dynamic-slice": lambda i: _integers(_Field.DYNAMIC_SLICE_SIZES, i.attributes["slice_sizes"]),
    "gather": _gather,
    "scatter": _scatter,
    "reduce-window": _window,
    "select-and-scatter": _window,
    "dot": _dot,
    "convolution": _convolution,
    "sort": _sort,
    "topk": _topk,
    "get-tuple-element": lambda i: _integer(_Field.TUPLE_INDEX, i.attributes["index"]),
    "fft": _fft,
    "cholesky": lambda i: _message(
        _Field.CHOLESKY_OPTIONS, _integer(1, int(i.attributes["lower"]))
    ),
    "triangular-solve": _triangular_solve,
    "batch-norm-training": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-grad": _batch_norm,
    "rng": _rng,
    "rng-bit-generator": _rng_bit_generator,
    "custom-call": _custom_call,
    "library-call": _library_call,
    "fusion": _fusion,
    "all-reduce": _collective(),
    "all-gather": _collective("all_gather_dimension"),
    "all-to-all": _collective("split_dimension"),
    "reduce-scatter": _collective("scatter_dimension"),
    "collective-permute": _collective_permute,
    "collective-broadcast": _collective(),
}
