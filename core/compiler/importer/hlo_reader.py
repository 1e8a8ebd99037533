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
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..formats.hlo_proto import Field
from ..formats.wire_format import each, unpacked_numbers, values
from ..ir import hlo
from ..ir.hlo import AnyShape, Computation, Instruction, Metadata, Shape, TupleShape
from ..ir.registry import HLO_AS_THEY_STAND, load
from . import bodies, hlo_forms
from .emitting import Emitter, Names
from .hlo_forms import Form

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
# What reading something else than a program that is understood raises.
_REFUSED: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.\-]")


class Given(NamedTuple):
    """An instruction of the program: its fields by number without those of :data:`.hlo_forms.OWN`, the shape of its
    result, and its operands, which are tuples only for a reader that takes tuples.
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
        self.forms = hlo_forms.kept()
        self.shape = self.forms.shape

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
        """The program's signature is that of the entry: arrays."""
        given = values(self._given[_HOST_PROGRAM_SHAPE], repeated=frozenset((1, 3)))
        parameters = [self.shape(s) for s in each(given.get(1, []))]
        result = self.shape(given[2])
        if parameters != [p.shape for p in entry.parameters] or result != entry.shape:
            raise ValueError("a signature that is not the entry's")
        results = result.elements if isinstance(result, TupleShape) else (result,)
        for shape in (*parameters, *results):
            if not isinstance(shape, Shape):
                raise ValueError("a tuple in a tuple")

    def named(self, read: _ReadComputation, base: str) -> Computation:
        """The computation, with a name, which is made at its first use."""
        if read.computation is None:
            read.computation = read.make(self.unique_name(base))
        return read.computation


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
        self.literal = module.forms.literal
        self.cached = module.forms.cached
        self.instructions: list[Instruction] = []
        self._arrays: dict[int, Instruction] = {}
        # The same by the bytes that say their numbers, in which operands are found.
        self._by_id: dict[bytes, Instruction] = {}
        self._tuples: dict[int, tuple[Instruction, ...]] = {}
        # Constants, broadcasts and reshapes: equal ones are one, of which PyTorch/XLA writes another for each use.
        self._views: dict[Any, Instruction] = {}
        self.metadata: Metadata | None = None

    def read(self, data: bytes) -> _ReadComputation:
        given = values(data, repeated=frozenset((_INSTRUCTIONS,)))
        if not given.keys() <= _OF_COMPUTATION:
            raise ValueError("a field of a computation that is not known")
        parameters: dict[int, tuple[Instruction, ...]] = {}
        takes_tuples = False
        arrays, tuples, by_id, views = self._arrays, self._tuples, self._by_id, self._views
        read_form = self.module.forms.instruction
        for instruction in each(given[_INSTRUCTIONS]):
            form, name, number, own, ids = read_form(instruction)
            number &= _LOCAL
            if number in arrays or number in tuples:
                raise ValueError("two instructions of one number")
            operands = self._operands(ids) if ids else []
            if form.view >= 0:
                view = (form.view, *operands)
                known = views.get(view)
                if known is not None:
                    arrays[number] = by_id[own] = known
                    continue
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
            else:
                value = self._instruction(form, operands)
            if isinstance(value, tuple):
                tuples[number] = value
                continue
            arrays[number] = by_id[own] = value
            if form.view >= 0:
                views[view] = value
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

    def _instruction(self, form: Form, operands: list[Any]) -> Value:
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
        if isinstance(ids, bytes):
            by_id = self._by_id
            if (one := by_id.get(ids)) is not None:
                return [one]
            if len(ids) == 4:  # two numbers of two bytes, if those are numbers
                lhs, rhs = by_id.get(ids[:2]), by_id.get(ids[2:])
                if lhs is not None and rhs is not None:
                    return [lhs, rhs]
        arrays = self._arrays
        numbers = unpacked_numbers(ids)
        try:
            return list(map(arrays.__getitem__, numbers))
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
