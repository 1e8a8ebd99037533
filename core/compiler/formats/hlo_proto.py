"""Write a module as the bytes of an HloModuleProto, the form in which PJRT hands out an optimised program.

The field numbers are those of XLA's ``hlo.proto`` and ``xla_data.proto`` and stand next to their names in
:class:`Field`.

Where our IR is flatter than HLO, the proto gets HLO's form: ``while`` and ``conditional`` take tuples (so their
computations take one tuple parameter each), ``optimization-barrier`` takes one operand. A ``library-call`` becomes a
custom call with the target ``tripont$<name>``, and so do ``erfc`` and others (``Op.hlo_call``); one that is a
collective is that of HLO again. Large constants are left without their literal (XLA prints them as ``{...}``), so that
the bytes stay small whatever the program's weights.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..ir.dtypes import DType
from ..ir.hlo import (
    AnyShape,
    Computation,
    Instruction,
    LayoutOrder,
    Metadata,
    Module,
    Shape,
    TokenShape,
    TupleShape,
)
from ..ir.registry import OPS, Absent, Op
from . import hlo_records
from .wire_format import VARINT, integer, integers, message, text, varint

# Literals of more bytes are elided.
MAX_LITERAL_BYTES: Final = 1024


class Field:
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
    PARAMETER_REPLICATION = 61
    CHOLESKY_OPTIONS = 62
    COMPARISON_DIRECTION = 63
    CUSTOM_CALL_HAS_SIDE_EFFECT = 65
    INDICES_ARE_SORTED = 67
    FRONTEND_ATTRIBUTES = 68
    UNIQUE_INDICES = 69
    RNG_ALGORITHM = 70
    USE_GLOBAL_DEVICE_IDS = 71
    COMPARISON_TYPE = 72
    OUTPUT_OPERAND_ALIASING = 74
    CUSTOM_CALL_API_VERSION = 77
    K = 81
    STATISTICS = 82
    LARGEST = 85
    RAGGED_DOT_DIMENSION_NUMBERS = 90
    RESULT_ACCURACY = 91


_ID: Final = varint(Field.ID << 3 | VARINT)
_COMPUTATION_ID: Final = varint(5 << 3 | VARINT)
_ROOT_ID: Final = varint(6 << 3 | VARINT)
_ENTRY_ID: Final = varint(6 << 3 | VARINT)
TUPLE_TYPE: Final = 13
_TOKEN_TYPE: Final = 17


def write_module(module: Module) -> bytes:
    """The module as a serialized HloModuleProto."""
    return _ModuleWriter(module).write()


# ------------------------------------------------------------------------------------------- what modules share

# An id as it is written, which is never that of 0.
Id = bytes
# The ids of all modules, as far as one needed them.
_IDS: Final = [varint(0)]


def _array(shape: Shape, minor_to_major: Sequence[int]) -> bytes:
    """The ShapeProto of the array that has the dimensions of ``shape`` in the order of memory, slowest first."""
    rank = len(shape.dims)
    dims = [shape.dims[rank - 1 - minor_to_major.index(d)] for d in range(rank)]
    layout = integers(1, minor_to_major) + integer(16, 1)
    dynamic = message(6, bytes(rank)) if rank else b""
    return integer(2, shape.dtype.code) + integers(3, dims) + dynamic + message(5, layout)


@functools.lru_cache(1 << 12)
def _shape(shape: AnyShape) -> bytes:
    """A ShapeProto with a row-major layout."""
    if isinstance(shape, TokenShape):
        return integer(2, _TOKEN_TYPE)
    if isinstance(shape, TupleShape):
        return integer(2, TUPLE_TYPE) + b"".join(message(4, _shape(e)) for e in shape.elements)
    return _array(shape, range(len(shape.dims) - 1, -1, -1))


@functools.lru_cache(1 << 12)
def _head(opcode: str, shape: AnyShape) -> bytes:
    """The fields of an instruction's opcode and shape."""
    return text(Field.OPCODE, opcode) + message(Field.SHAPE, _shape(shape))


@functools.lru_cache(1 << 12)
def _metadata(metadata: Metadata | None) -> bytes:
    """The OpMetadata field of an instruction."""
    if metadata is None:
        return b""
    name, file, line = metadata
    return message(Field.METADATA, text(2, name) + text(3, file) + integer(4, line))


# ------------------------------------------------------------------------------------------------------- modules


class _ModuleWriter:
    """Numbers and names of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._names: dict[str, int] = {}
        self._last_id = 0
        # A computation is written once for each way it is called: (computation, takes a tuple, returns a tuple).
        self.computation_ids: dict[tuple[Computation, bool, bool], Id] = {}

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
        entry_name, entry_id = "", b""
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
        parts.append(_ENTRY_ID + entry_id)
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

    def new_id(self) -> Id:
        self._last_id += 1
        if self._last_id == len(_IDS):
            _IDS.append(varint(self._last_id))
        return _IDS[self._last_id]

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

    def laid_out(self, instruction: Instruction, layout: LayoutOrder | None) -> bytes:
        """The ShapeProto of the caller's array that a parameter or result of the entry is."""
        shape = instruction.shape
        if layout is None or not isinstance(shape, Shape):
            return _shape(shape)
        return _array(shape, layout)

    def parameter_shapes(self) -> list[bytes]:
        """ShapeProtos of the caller's arrays."""
        module = self.module
        pairs = itertools.zip_longest(module.entry.parameters, module.parameter_layouts)
        return [self.laid_out(*pair) for pair in pairs]

    def result_shape(self) -> bytes:
        """The ShapeProto of what the caller gets."""
        entry, layouts = self.module.entry, self.module.result_layouts
        if not any(layouts):
            return _shape(entry.root.shape)
        shapes = [self.laid_out(*pair) for pair in itertools.zip_longest(entry.results, layouts)]
        if entry.root.opcode != "tuple":
            return shapes[0]
        return integer(2, TUPLE_TYPE) + b"".join(message(4, shape) for shape in shapes)

    def program_shape(self) -> bytes:
        """The ProgramShapeProto of the entry."""
        parts = [message(1, shape) for shape in self.parameter_shapes()]
        parts.append(message(2, self.result_shape()))
        parts.extend(message(3, p.name.encode()) for p in self.module.entry.parameters)
        return b"".join(parts)


def _form(instruction: Instruction, index: int) -> tuple[bool, bool]:
    """Whether an instruction's called computation takes one tuple and gives a tuple in HLO."""
    if instruction.opcode == "while":
        return True, index == 1
    return instruction.opcode == "conditional", False


@dataclass(eq=False)
class _ComputationWriter:
    """Writes one computation in one form."""

    module: _ModuleWriter
    computation: Computation
    takes_tuple: bool
    gives_tuple: bool
    ids: dict[Instruction, Id] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)

    def write(self, name: str, number: Id, is_fusion: bool) -> bytes:
        computation = self.computation
        parameter_shapes: list[AnyShape] = [p.shape for p in computation.parameters]
        parameter_names = [p.name for p in computation.parameters]
        if self.takes_tuple:
            whole = TupleShape(tuple(parameter_shapes))  # type: ignore[arg-type]
            parameter = self.emit("parameter", "parameter", whole, ())
            for index, p in enumerate(computation.parameters):
                element = integer(Field.TUPLE_INDEX, index)
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
            program_shape = b"".join(
                [
                    *(message(1, _shape(s)) for s in parameter_shapes),
                    message(2, _shape(root_shape)),
                    *(message(3, n.encode()) for n in parameter_names),
                ]
            )
        return b"".join(
            [
                text(1, name),
                *self.parts,
                message(4, program_shape),
                _COMPUTATION_ID + number,
                _ROOT_ID + root_id,
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
                index = integer(Field.PARAMETER_NUMBER, p.attributes["index"])
                number = self.emit("parameter", p.name, shape, (), index)
                self.ids[p] = self.emit("bitcast", p.name, p.shape, (number,))

    def laid_out_root(self, root_id: Id) -> Id:
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
        operands: Sequence[Id],
        fields: bytes = b"",
        metadata: Metadata | None = None,
    ) -> Id:
        """Append an instruction, whose shape may be encoded already; returns its id."""
        module = self.module
        number = module.new_id()
        if isinstance(shape, bytes):
            head = text(Field.OPCODE, opcode) + message(Field.SHAPE, shape)
        else:
            head = _head(opcode, shape)
        name = module.unique_name(name or opcode)
        body = [text(Field.NAME, name), head, _metadata(metadata), fields, _ID, number]
        if operands:
            body.append(message(Field.OPERAND_IDS, b"".join(operands)))
        self.parts.append(message(2, b"".join(body)))
        return number

    def tuple_of(self, operands: Sequence[Instruction]) -> Id:
        """A tuple instruction over operands; returns its id."""
        shape = TupleShape(tuple(o.shape for o in operands))  # type: ignore[misc]
        return self.emit("tuple", "tuple", shape, [self.ids[o] for o in operands])

    def instruction(self, instruction: Instruction) -> Id:
        """Write an instruction in HLO's form; returns the id of its value."""
        opcode, shape = instruction.opcode, instruction.shape
        operands = list(map(self.ids.__getitem__, instruction.operands))
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
        op = OPS[opcode]
        write = op.fields
        fields = b"" if isinstance(write, Absent) else write(instruction)
        if instruction.called:
            fields += self.called(instruction)
        opcode = _written_opcode(op, instruction)
        number = self.emit(opcode, instruction.name, shape, operands, fields, instruction.metadata)
        if unwrap:
            number = self.emit(
                "get-tuple-element", "get-tuple-element", instruction.shape, (number,)
            )
        return number

    def called(self, instruction: Instruction) -> bytes:
        """The field of the computations that the instruction calls."""
        ids = [
            self.module.computation_ids[(called, *_form(instruction, index))]
            for index, called in enumerate(instruction.called)
        ]
        if instruction.opcode == "while":
            ids.reverse()  # HLO lists the body first
        return message(Field.CALLED_COMPUTATION_IDS, b"".join(ids))


# ---------------------------------------------------------------------------------------------------- attributes


def _written_opcode(op: Op, i: Instruction) -> str:
    if op.hlo_call:
        return "custom-call"
    name = op.hlo_name
    return name(i) if callable(name) else name or i.opcode


def call_fields(target: str) -> Callable[[Instruction], bytes]:
    """The fields of an op that is a custom call of ``target`` in HLO (:attr:`..ir.registry.Op.hlo_call`)."""
    return lambda i: text(Field.CUSTOM_CALL_TARGET, target)


def dimensions_field(i: Instruction) -> bytes:
    return integers(Field.DIMENSIONS, i.attributes["dimensions"])


def dimension_field(i: Instruction) -> bytes:
    """One dimension, which HLO keeps in the list of dimensions."""
    return message(Field.DIMENSIONS, varint(i.attributes["dimension"]))


def window_field(i: Instruction) -> bytes:
    dimensions = (message(1, hlo_records.WINDOW.write(d)) for d in i.attributes["window"])
    return message(Field.WINDOW, b"".join(dimensions))


def json_text(config: dict[str, Any]) -> bytes:
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
