"""HloModuleProtos as modules, without a detour: the bytes that PyTorch/XLA and TensorFlow hand over are HLO already.

:func:`read_module` takes the programs that it understands fully: dense arrays of known sizes, opcodes with a reader
(:class:`..ir.registry.HloReader`), no fields that it does not know. All others, damaged ones included, are left to
jaxlib, which converts them to StableHLO or says what is wrong with them. The verifier has the last word on what is read
here, as on every program.

A tuple is never an instruction here, but the values in it: parameters, operands and results of computations are lists
of arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ..formats.hlo_proto import TUPLE_TYPE, Field
from ..formats.wire_format import BYTES, VARINT, each, read_varint, unpacked_numbers, values, varint
from ..ir import dtypes, hlo
from ..ir.hlo import AnyShape, Computation, Instruction, Metadata, Shape, TupleShape
from ..ir.registry import HLO_AS_THEY_STAND, HLO_READERS, load
from . import bodies, places
from .emitting import Emitter, Names
from .hlo_literals import Array, literal

#: What an id stands for: an array, or a tuple of arrays.
Value = Instruction | tuple[Instruction, ...]

# Fields of HloModuleProto. Not read: the id, and a stack frame index without a use (OpMetadata says so).
_NAME: Final = 1
_COMPUTATIONS: Final = 3
_HOST_PROGRAM_SHAPE: Final = 4
_ENTRY_ID: Final = 6
_ALIASES: Final = 8
_BUFFER_DONOR: Final = 18  # hlo_module.buffer_donors
_FRONTEND_ATTRIBUTES: Final = 19
_OF_MODULE: Final = frozenset(
    (
        *(_NAME, 2, _COMPUTATIONS, _HOST_PROGRAM_SHAPE, 5, _ENTRY_ID, _ALIASES, 17, _BUFFER_DONOR),
        _FRONTEND_ATTRIBUTES,
    )
)
# Of HloComputationProto.
_INSTRUCTIONS: Final = 2
_COMPUTATION_ID: Final = 5
_ROOT_ID: Final = 6
_OF_COMPUTATION: Final = frozenset((1, _INSTRUCTIONS, 4, _COMPUTATION_ID, _ROOT_ID))
# The bits of an instruction's number that name it in its computation; operands may lack the others.
_LOCAL: Final = (1 << 32) - 1
# Of HloInstructionProto, those of all instructions; those that must be empty.
_OF_INSTRUCTION: Final = frozenset(
    (
        *(Field.NAME, Field.OPCODE, Field.SHAPE, Field.METADATA, Field.ID, Field.OPERAND_IDS),
        *(Field.BACKEND_CONFIG, Field.FRONTEND_ATTRIBUTES, Field.STATISTICS),
    )
)
_REPEATED: Final = frozenset(
    (
        *(
            Field.OPERAND_IDS,
            Field.CALLED_COMPUTATION_IDS,
            Field.DIMENSIONS,
            Field.SLICE_DIMENSIONS,
        ),
        *(Field.DYNAMIC_SLICE_SIZES, Field.GATHER_SLICE_SIZES, Field.FFT_LENGTH),
    )
)
# Of ShapeProto and LayoutProto: the minor-to-major order, the bits of an element, and how the end is padded.
_OF_SHAPE: Final = frozenset((2, 3, 4, 5, 6))
_OF_LAYOUT: Final = frozenset((1, 7, 16))
# Of OpMetadata: type, name, file, line, and further numbers of the place.
_OF_METADATA: Final = frozenset((1, 2, 3, 4, 17, 18, 19))

# What reading something else than a program that is understood raises.
_REFUSED: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
# Numbers of element types from here on are ours (core/schema/element_types.py).
_OURS: Final = 200
# Bytes of a literal that is kept, for others like it.
_SMALL: Final = 64
# The most bytes of an array: far above every machine's memory.
_LARGEST: Final = 1 << 60
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.\-]")

Cached = TypeVar("Cached")


# The fields of an instruction that are its own. Writers put the name first, and operands behind the number.
_OWN: Final = frozenset((Field.NAME, Field.ID, Field.OPERAND_IDS))
_NAME_KEY: Final = Field.NAME << 3 | BYTES
_ID_KEY: Final = varint(Field.ID << 3 | VARINT)
_OPERAND_IDS_KEY: Final = varint(Field.OPERAND_IDS << 3 | BYTES)


class Given(NamedTuple):
    """An instruction of the program: its fields by number without those of :data:`_OWN`, the shape of its result, and
    its operands, which are tuples only for a reader that takes tuples.
    """

    fields: dict[int, Any]
    shape: Any
    operands: list[Any]


def read_module(program: bytes) -> hlo.Module | None:
    """The module that a HloModuleProto means, or None if this reader does not understand all of it."""
    load()
    try:
        return ModuleReader(program).read()
    except _REFUSED:
        return None


class ModuleReader:
    """Reads one HloModuleProto; use :meth:`read` once. Raises one of :data:`_REFUSED`."""

    def __init__(self, program: bytes) -> None:
        self._given = values(program, repeated=frozenset((_COMPUTATIONS,)))
        if not self._given.keys() <= _OF_MODULE:
            raise ValueError("a field of the module that is not known")
        self.computations: dict[int, _ReadComputation] = {}
        self.shared_bodies: dict[Any, Computation] = {}
        self.unique_name = Names().unique
        self._shapes: dict[bytes, AnyShape] = {}
        self._metadata: dict[bytes, Metadata] = {}
        self._forms: dict[tuple[bytes, bytes], _Form] = {}
        self._views: dict[Any, int] = {}
        self._literals: dict[tuple[bytes, AnyShape], Array] = {}
        self._cached: dict[tuple[Any, bytes], Any] = {}

    def read(self) -> hlo.Module:
        given = self._given
        for data in each(given.get(_COMPUTATIONS, [])):
            computation = ComputationReader(self).read(data)
            if computation.number in self.computations:
                raise ValueError("two computations of one number")
            self.computations[computation.number] = computation
        entry = self.computations[given[_ENTRY_ID]]
        for computation in self.computations.values():
            if computation is not entry:
                computation.forget_places()
        if entry.takes_tuples:
            raise ValueError("a parameter that is a tuple")
        self._check_signature(entry)
        named = self.named(entry, "main")
        module = hlo.Module(_module_name(given.get(_NAME, b"").decode()), named)
        module.input_output_aliases = _aliases(given.get(_ALIASES, b""))
        module.frontend_attributes = _frontend_attributes(given.get(_FRONTEND_ATTRIBUTES, b""))
        return module

    def _check_signature(self, entry: _ReadComputation) -> None:
        """The program's signature is that of the entry, and has types that PJRT has."""
        given = values(self._given[_HOST_PROGRAM_SHAPE], repeated=frozenset((1, 3)))
        parameters = [self.shape(s) for s in each(given.get(1, []))]
        result = self.shape(given[2])
        if parameters != [p.shape for p in entry.parameters] or result != entry.shape:
            raise ValueError("a signature that is not the entry's")
        results = result.elements if isinstance(result, TupleShape) else (result,)
        for shape in (*parameters, *results):
            if not isinstance(shape, Shape) or shape.dtype in dtypes.INSIDE:
                raise ValueError("a type that PJRT does not have")

    def named(self, read: _ReadComputation, base: str) -> Computation:
        """The computation, with a name, which is made at its first use."""
        if read.computation is None:
            read.computation = read.make(self.unique_name(base))
        return read.computation

    def shape(self, data: bytes) -> AnyShape:
        """The shape that a ShapeProto says, whose layout has no meaning for a program."""
        shape = self._shapes.get(data)
        if shape is None:
            shape = self._shapes[data] = self._read_shape(data)
        return shape

    def _read_shape(self, data: bytes, in_tuple: bool = False) -> AnyShape:
        given = values(data, repeated=frozenset((3, 4, 6)))
        if not given.keys() <= _OF_SHAPE or any(unpacked_numbers(given.get(6, b""))):
            raise ValueError("a shape that is not that of a static array")
        if given[2] == TUPLE_TYPE:
            if in_tuple:
                raise ValueError("a tuple in a tuple")
            elements = (self._read_shape(e, in_tuple=True) for e in each(given.get(4, [])))
            return TupleShape(tuple(elements))  # type: ignore[arg-type]
        dtype = dtypes.from_code(given[2])
        dims = tuple(unpacked_numbers(given.get(3, b"")))
        shape = Shape(dtype, dims)
        if any(d < 0 for d in dims) or shape.bytes > _LARGEST or given[2] >= _OURS:
            raise ValueError("a shape that HLO does not have")
        layout = given.get(5, b"")
        if layout and not values(layout, repeated=frozenset((1,))).keys() <= _OF_LAYOUT:
            raise ValueError("a layout with tiles or memory spaces")
        return shape

    def instruction(self, data: bytes) -> tuple[_Form, bytes, int, Any]:
        """An instruction's form, name, number and :func:`.values` of its operands' numbers.

        A program of thousands of instructions has a hundred forms, and reading fields is most of the work of reading
        a program. So the bytes around name, number and operands are looked up before anything is read.
        """
        if data[0] == _NAME_KEY and data[1] < 128:
            start = 2 + data[1]
            end = data.find(_ID_KEY, start)
            if end >= 0:
                number, rest = read_varint(data, end + len(_ID_KEY))
                operands = b""
                if data.startswith(_OPERAND_IDS_KEY, rest):
                    size, first = read_varint(data, rest + len(_OPERAND_IDS_KEY))
                    rest = first + size
                    operands = data[first:rest]
                key = (data[start:end], data[rest:])
                form = self._forms.get(key) or self._form_of(*key)
                if form is not None:
                    return form, data[2:start], number, operands
        fields = values(data, repeated=_REPEATED)
        name, number = fields.pop(Field.NAME), fields.pop(Field.ID, 0)
        operands = fields.pop(Field.OPERAND_IDS, b"")
        return _Form(self, fields), name, number, operands

    def _form_of(self, before: bytes, behind: bytes) -> _Form | None:
        """The form of an instruction with these bytes before its number and behind its operands; None if a field began
        before them or goes on behind them, or if fields stand in another order.
        """
        try:
            first, last = (values(part, repeated=_REPEATED) for part in (before, behind))
        except ValueError:
            return None
        fields = first | last
        if len(fields) < len(first) + len(last) or not _OWN.isdisjoint(fields):
            return None
        form = self._forms[(before, behind)] = _Form(self, fields)
        return form

    def view(self, opcode: bytes, shape: AnyShape, fields: dict[int, Any]) -> int:
        """A number that forms have in common whose instructions on one operand are equal."""
        key = (opcode, shape, fields.get(Field.DIMENSIONS), fields.get(Field.LITERAL))
        return self._views.setdefault(key, len(self._views))

    def metadata(self, data: bytes) -> Metadata:
        """What an OpMetadata says."""
        metadata = self._metadata.get(data)
        if metadata is None:
            metadata = self._metadata[data] = _read_metadata(data)
        return metadata

    def literal(self, data: bytes, shape: AnyShape) -> Array:
        """A constant of ``shape``: see :func:`.hlo_literals.literal`. Programs have few different small ones."""
        if len(data) > _SMALL:
            return literal(data, shape, self.shape)
        found = self._literals.get((data, shape))
        if found is None:
            found = self._literals[(data, shape)] = literal(data, shape, self.shape)
        return found

    def cached(self, read: Callable[[bytes], Cached], data: bytes) -> Cached:
        """``read(data)``, computed once."""
        key = (read, data)
        value = self._cached.get(key)
        if value is None:
            value = self._cached[key] = read(data)
        return value


def _read_metadata(data: bytes) -> Metadata:
    given = values(data)
    if not given.keys() <= _OF_METADATA:
        raise ValueError("metadata that are elsewhere")
    file = given.get(3, b"").decode()
    return Metadata(given.get(2, b"").decode(), *places.of_line(file, given.get(4, 0)))


def _module_name(name: str) -> str:
    """The name as XLA would have it, in which TensorFlow's begin with ``a_inference``."""
    name = _NOT_IN_NAMES.sub("_", name)
    return f"a{name[1:]}" if name.startswith("__") else name


def _frontend_attributes(data: bytes) -> dict[str, str]:
    entries = [values(entry) for entry in each(values(data, repeated=frozenset((1,))).get(1, []))]
    return dict(sorted((e.get(1, b"").decode(), e.get(2, b"").decode()) for e in entries))


def _aliases(data: bytes) -> tuple[tuple[int, int, bool], ...]:
    """HloInputOutputAliasProto: (result, parameter, whether it must be so)."""
    found = []
    for entry in each(values(data, repeated=frozenset((1,))).get(1, [])):
        given = values(entry, repeated=frozenset((1, 3)))
        if not given.keys() <= {1, 2, 3, 4}:
            raise ValueError("a field that is not known")
        output = unpacked_numbers(given.get(1, b""))
        if len(output) > 1 or unpacked_numbers(given.get(3, b"")):
            continue  # inside a nested tuple: we have none
        found.append((output[0] if output else 0, given.get(2, 0), given.get(4, 0) == 2))
    return tuple(sorted(found))


class _Form:
    """What instructions have in common that differ in name, number and operands at most.

    ``name`` is the opcode's, of which ``reader`` reads instructions that do not stand in HLO as they stand here;
    ``view``: see :meth:`ModuleReader.view`. Raises ValueError for a field with a meaning that is not known.
    """

    __slots__ = ("fields", "metadata", "name", "opcode", "reader", "shape", "view")

    def __init__(self, module: ModuleReader, fields: dict[int, Any]) -> None:
        self.fields = fields
        self.opcode: bytes = fields[Field.OPCODE]
        self.name = self.opcode.decode()
        self.shape = module.shape(fields[Field.SHAPE])
        self.metadata = module.metadata(fields.get(Field.METADATA, b""))
        self.reader = HLO_READERS.get(self.name)
        self.view = -1
        known: frozenset[int] = frozenset()
        if self.opcode == b"parameter":
            known = _PARAMETER_FIELDS
        elif self.reader is not None:
            known = self.reader.fields
        _check_fields(fields, known)
        if self.opcode in _VIEWS:
            self.view = module.view(self.opcode, self.shape, fields)


class _ReadComputation:
    """What was read of a computation: a :class:`Computation` once somebody uses it."""

    def __init__(
        self,
        number: int,
        parameters: list[Instruction],
        instructions: list[Instruction],
        result: Value,
        takes_tuples: bool,
    ) -> None:
        self.number = number
        self.parameters = parameters
        self.instructions = instructions
        self.results = result if isinstance(result, tuple) else (result,)
        self.shape = _shape_of(result)
        self.takes_tuples = takes_tuples
        self.computation: Computation | None = None

    def forget_places(self) -> None:
        """Let parameters be of no place in the user's program, which those of the entry alone are."""
        for parameter in self.parameters:
            parameter.metadata = None

    def make(self, name: str) -> Computation:
        instructions = [*self.parameters, *self.instructions]
        if len(self.results) == 1:
            (root,) = self.results
        else:
            shape = TupleShape(tuple(r.shape for r in self.results))  # type: ignore[misc]
            root = Instruction("tuple", shape, self.results)
            instructions.append(root)
        computation = Computation(name, self.parameters, instructions, root)
        computation.assign_names()
        return computation


class ComputationReader(Emitter):
    """Reads one HloComputationProto; use :meth:`read` once."""

    def __init__(self, module: ModuleReader) -> None:
        self.module = module
        self.cached = module.cached
        self.instructions: list[Instruction] = []
        self._arrays: dict[int, Instruction] = {}
        self._tuples: dict[int, tuple[Instruction, ...]] = {}
        self._views: dict[Any, Value] = {}
        self.metadata: Metadata | None = None

    def read(self, data: bytes) -> _ReadComputation:
        given = values(data, repeated=frozenset((_INSTRUCTIONS,)))
        if not given.keys() <= _OF_COMPUTATION:
            raise ValueError("a field of a computation that is not known")
        parameters: dict[int, tuple[Instruction, ...]] = {}
        takes_tuples = False
        arrays, tuples = self._arrays, self._tuples
        for instruction in each(given[_INSTRUCTIONS]):
            form, name, number, ids = self.module.instruction(instruction)
            number &= _LOCAL
            if number in arrays or number in tuples:
                raise ValueError("two instructions of one number")
            metadata = form.metadata
            if not metadata.op_name:  # that of the instruction, as jaxlib has it
                metadata = Metadata(name.decode(), metadata.source_file, metadata.source_line)
            self.metadata = metadata
            if form.opcode == b"parameter":
                index = form.fields.get(Field.PARAMETER_NUMBER, 0)
                if index in parameters:
                    raise ValueError("two parameters of one number")
                shape = form.shape
                parameters[index] = leaves = self._parameter(shape)
                takes_tuples |= isinstance(shape, TupleShape)
                value: Value = leaves if isinstance(shape, TupleShape) else leaves[0]
            elif form.view >= 0:
                value = self._view(form, self._operands(ids))
            else:
                value = self._instruction(form, self._operands(ids))
            if isinstance(value, tuple):
                tuples[number] = value
            else:
                arrays[number] = value
        if sorted(parameters) != list(range(len(parameters))):
            raise ValueError("a parameter is missing")
        root = given.get(_ROOT_ID, 0) & _LOCAL
        result: Value = tuples[root] if root in tuples else arrays[root]
        flat = [leaf for n in range(len(parameters)) for leaf in parameters[n]]
        for index, leaf in enumerate(flat):
            leaf.attributes["index"] = index  # type: ignore[index]  # not published yet
            leaf.name = f"arg{index}"
        return _ReadComputation(
            given[_COMPUTATION_ID], flat, self.instructions, result, takes_tuples
        )

    def _view(self, form: _Form, operands: list[Any]) -> Value:
        """A constant, broadcast or reshape: equal ones are one, of which PyTorch/XLA writes another for each use."""
        key = (form.view, *operands)
        value = self._views.get(key)
        if value is None:
            value = self._views[key] = self._instruction(form, operands)
        return value

    def _instruction(self, form: _Form, operands: list[Any]) -> Value:
        reader, shape = form.reader, form.shape
        if (reader is None or not reader.takes_tuples) and tuple in map(type, operands):
            raise ValueError(f"{form.name} of tuples")
        if reader is None:
            return self.emit(HLO_AS_THEY_STAND[form.name], shape, operands)
        value: Value = reader.read(self, Given(form.fields, shape, operands))
        found = _shape_of(value)
        if found is not shape and found != shape:
            raise ValueError("a result of another shape")
        return value

    def _parameter(self, shape: AnyShape) -> tuple[Instruction, ...]:
        shapes = shape.elements if isinstance(shape, TupleShape) else (shape,)
        return tuple(
            Instruction("parameter", s, (), {"index": 0}, metadata=self.metadata) for s in shapes
        )

    def _operands(self, ids: Any) -> list[Any]:
        arrays = self._arrays
        numbers = unpacked_numbers(ids)
        try:
            return [arrays[n] for n in numbers]
        except KeyError:
            numbers = [n & _LOCAL for n in numbers]
            return [arrays[n] if n in arrays else self._tuples[n] for n in numbers]

    # --------------------------------------------------------------------------- for readers of instructions

    def emit_results(
        self,
        opcode: str,
        shape: AnyShape,
        operands: Sequence[Instruction],
        attributes: dict[str, Any] | None = None,
        called: Sequence[Computation] = (),
    ) -> Value:
        """An instruction with results of ``shape``: itself, or of a tuple the ``get-tuple-element`` of each."""
        if not isinstance(shape, TupleShape):
            return self.emit(opcode, shape, operands, attributes, called)
        if len(shape.elements) == 1:
            return (self.emit(opcode, shape.elements[0], operands, attributes, called),)
        whole = self.emit(opcode, shape, operands, attributes, called)
        return tuple(
            self.emit("get-tuple-element", element, (whole,), {"index": n})
            for n, element in enumerate(shape.elements)
        )

    def leaves(self, operands: Sequence[Value]) -> list[Instruction]:
        """The arrays of operands, of which some may be tuples."""
        return [leaf for o in operands for leaf in (o if isinstance(o, tuple) else (o,))]

    def called(self, given: Given, names: Sequence[str]) -> list[Computation]:
        """The computations that the instruction calls, which get these names if they have none yet."""
        module = self.module
        return [module.named(read, name) for read, name in self._called(given, names)]

    def bodies(self, given: Given, names: Sequence[str]) -> list[Computation]:
        """The same of bodies on scalars; equal ones are shared."""
        module = self.module
        found = []
        for read, name in self._called(given, names):
            if read.computation is None:
                key = bodies.structure(read.parameters, read.instructions, read.results)
                shared = module.shared_bodies.get(key)
                if shared is None:
                    shared = module.named(read, name)
                    if key is not None:
                        module.shared_bodies[key] = shared
                read.computation = shared
            found.append(read.computation)
        return found

    def _called(self, given: Given, names: Sequence[str]) -> list[tuple[_ReadComputation, str]]:
        numbers = unpacked_numbers(given.fields.get(Field.CALLED_COMPUTATION_IDS, b""))
        return [(self.module.computations[n], name) for n, name in zip(numbers, names, strict=True)]


def _shape_of(value: Value) -> AnyShape:
    if isinstance(value, tuple):
        return TupleShape(tuple(v.shape for v in value))  # type: ignore[misc]
    return value.shape


_VIEWS: Final = frozenset((b"constant", b"broadcast", b"reshape"))
_PARAMETER_FIELDS: Final = frozenset((Field.PARAMETER_NUMBER, Field.PARAMETER_REPLICATION))


def _check_fields(fields: dict[int, Any], known: frozenset[int]) -> None:
    """Raise ValueError for a field with a meaning that is not known. An empty message means nothing."""
    if not _OF_INSTRUCTION.issuperset(fields):
        for number in fields.keys() - _OF_INSTRUCTION - known:
            if fields[number] != b"":
                raise ValueError(f"the field {number} of {fields[Field.OPCODE]!r}")
    get = fields.get
    if get(Field.BACKEND_CONFIG) or get(Field.FRONTEND_ATTRIBUTES) or get(Field.STATISTICS):
        raise ValueError(f"attributes of {fields[Field.OPCODE]!r}")
