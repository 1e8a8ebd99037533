"""The walk over a StableHLO module: functions, blocks, regions and the values they capture.

:class:`ProgramReader` holds what is known of the whole module (functions, caches of types, attributes and locations);
:class:`BlockReader` reads one block into one computation. The meaning of single operations is registered with the ops
(:mod:`..ops`): an operation is an op as it stands, or has a reader, a function ``(block, operation) -> the
instruction(s) of its results``. Readers stand in the ``ops_*`` modules.

Regions of ``while``, ``if`` and ``case`` may use values of the blocks around them. Those become extra operands and
parameters (and for ``while`` extra results that pass them through); scalar constants, and broadcasts of them, are
copied inside instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import wings
from ..ir import dtypes, hlo
from ..ir.errors import CompileError, invalid_argument, unimplemented
from ..ir.hlo import AnyShape, Computation, Instruction, Metadata, Shape, TupleShape
from ..ir.registry import OPCODES_AS_THEY_STAND, READERS, load
from ..targets import accuracy
from ..targets.accuracy import Ulps
from . import attributes as attribute_readers
from . import bindings, bodies, places, requests, signature
from .bindings import ir
from .emitting import Emitter, Names

Results = Instruction | Sequence[Instruction]
Reader = Callable[["BlockReader", Any], Results]

_ELEMENT_TYPES: dict[str, dtypes.DType] = {
    **{d.mlir: d for d in dtypes.ALL},
    **{f"si{d.bits}": d for d in dtypes.ALL if d.is_signed},
    "index": dtypes.S64,
}

# Names that HLO text allows; everything else in a location's name becomes an underscore.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.\-]")


class NeedsPasses(Exception):  # noqa: N818 - a request, not a failure
    """The module must go through a stage of :mod:`.legalize` first; ``error`` is what to say if that does not help."""

    def __init__(self, stage: str, error: CompileError) -> None:
        super().__init__(stage)
        self.stage = stage
        self.error = error


class _UnsupportedType(Exception):  # noqa: N818 - becomes an error that names the operation
    """No shape of ours stands for an MLIR type; ``stage`` names passes that may help, or is empty."""

    def __init__(self, message: str, stage: str = "") -> None:
        super().__init__(message)
        self.stage = stage

    def as_error(self, error: CompileError) -> Exception:
        """``error``, or the request for passes before it is raised."""
        return NeedsPasses(self.stage, error) if self.stage else error


class ProgramReader:
    """Reads one MLIR module; use :meth:`read` once. ``target_ulps``: :meth:`..targets.target.Target.ulps`."""

    def __init__(self, module: ir.Module, target_ulps: Ulps = accuracy.ulps) -> None:
        load()
        self.module = module
        self.target_ulps = target_ulps
        self.functions: dict[str, Any] = {}
        self.computations: dict[str, Computation] = {}
        self.shared_bodies: dict[Any, Computation] = {}
        self.captured: dict[Instruction, Instruction] = {}  # parameter of a region -> outer value
        self._reading: set[str] = set()
        self._shapes: dict[Any, AnyShape] = {}
        self._attributes: dict[tuple[Any, Any], Any] = {}
        self._metadata: dict[Any, Metadata | None] = {}
        self._places: dict[Any, tuple[str, int]] = {}
        self.unique_name = Names().unique

    def read(self) -> hlo.Module:
        """The whole module; its entry is the function ``main``, or the only public one."""
        operation = self.module.operation
        for view in self.module.body.operations:
            function = view.operation
            if function.name == "func.func":
                self.functions[function.attributes["sym_name"].value] = function
            elif function.name not in ("sdy.mesh", "mpmd.topology"):
                raise unimplemented("not allowed outside a function", op=function.name)
        main = self.functions.get("main")
        if main is None:
            public = [
                f
                for f in self.functions.values()
                if "sym_visibility" not in f.attributes
                or f.attributes["sym_visibility"].value == "public"
            ]
            if len(public) != 1:
                raise invalid_argument("the module has no function named main")
            main = public[0]
        entry = self._function(main, "main")
        attributes = operation.attributes
        name = attributes["sym_name"].value if "sym_name" in attributes else "main"
        read = hlo.Module(_NOT_IN_NAMES.sub("_", name), entry)
        for key in ("num_replicas", "num_partitions"):
            if f"mhlo.{key}" in attributes:
                setattr(read, key, attributes[f"mhlo.{key}"].value)
        if "mhlo.frontend_attributes" in attributes:
            frontend = attribute_readers.python_value(attributes["mhlo.frontend_attributes"])
            read.frontend_attributes = {k: str(v) for k, v in frontend.items()}
        signature.read_signature(self, main, read)
        return read

    def function(self, name: str) -> Computation:
        """The computation of the function called ``name``; read at its first use."""
        computation = self.computations.get(name)
        if computation is None:
            if name not in self.functions:
                raise invalid_argument(f"call of a function @{name} that the module does not have")
            if name in self._reading:
                raise unimplemented(f"the function @{name} calls itself")
            self._reading.add(name)
            computation = self._function(self.functions[name], name)
            self._reading.discard(name)
            self.computations[name] = computation
        return computation

    def _function(self, function: Any, name: str) -> Computation:
        if len(function.regions[0].blocks) != 1:
            what = "no body" if len(function.regions[0].blocks) == 0 else "several blocks"
            raise unimplemented(f"the function @{name} has {what}")
        block = BlockReader(self, None)
        block.read(function.regions[0].blocks[0])
        return block.computation(self.unique_name(_NOT_IN_NAMES.sub("_", name)))

    # ------------------------------------------------------------------------------------------------ caches

    def shape(self, mlir_type: Any) -> AnyShape:
        """The shape of an MLIR type; raises for dynamic, quantized and unknown types."""
        shape = self._shapes.get(mlir_type)
        if shape is None:
            shape = self._shapes[mlir_type] = self._convert_type(mlir_type)
        return shape

    def _convert_type(self, mlir_type: Any) -> AnyShape:
        if isinstance(mlir_type, ir.RankedTensorType):
            element = str(mlir_type.element_type)
            dtype = _ELEMENT_TYPES.get(element)
            if dtype is None:
                stage = requests.QUANTIZATION if element.startswith("!quant.") else ""
                raise _UnsupportedType(f"the element type {element} is not supported", stage)
            if not mlir_type.has_static_shape:
                message = f"the shape {mlir_type} is known only at run time, which is not supported"
                bounded = "stablehlo.bounds" in str(mlir_type.encoding)
                raise _UnsupportedType(message, requests.BOUNDS if bounded else requests.DYNAMISM)
            return Shape(dtype, tuple(mlir_type.shape))
        if isinstance(mlir_type, ir.TupleType):
            elements = [self.shape(mlir_type.get_type(i)) for i in range(mlir_type.num_types)]
            if any(isinstance(e, TupleShape) for e in elements):
                raise _UnsupportedType(f"the nested tuple type {mlir_type} is not supported")
            return TupleShape(tuple(elements))  # type: ignore[arg-type]
        if bindings.is_token(mlir_type):
            return hlo.TOKEN
        raise _UnsupportedType(f"the type {mlir_type} is not supported")

    def attribute(self, convert: Callable[[Any], Any], attribute: Any) -> Any:
        """``convert(attribute)``, computed once for each attribute (attributes are unique in a context)."""
        key = (convert, attribute)
        value = self._attributes.get(key)
        if value is None:
            value = self._attributes[key] = convert(attribute)
        return value

    def metadata(self, location: Any) -> Metadata | None:
        """What a location says: the operation's name and the innermost line of the user's program."""
        key = location.attr
        if key in self._metadata:
            return self._metadata[key]
        metadata = self._metadata[key] = self._read_location(location)
        return metadata

    def _read_location(self, location: Any) -> Metadata | None:
        kind = type(location)
        if kind is ir.NameLoc:  # all locations of a program that was HLO, mostly without a place
            name = location.name_str
            file, line = self._place(location.child_loc)
            return Metadata(name, file, line) if name or file else None
        if kind is ir.FusedLoc:  # of HLO: a name and a place side by side
            name = ""
            file, line = "", 0
            for part in location.locations:
                if not name and type(part) is ir.NameLoc:
                    name = part.name_str
                if not file:
                    file, line = self._place(part)
        elif kind is ir.FileLineColLoc:  # of a program's text: each its own
            name = ""
            file, line = _line(location)
        else:
            name = ""
            file, line = self._place(location)
        return Metadata(name, file, line) if name or file else None

    def _place(self, location: Any) -> tuple[str, int]:
        """File and line of the innermost call of a location, or ("", 0)."""
        places = self._places
        key = location.attr
        place = places.get(key)
        if place is not None:
            return place
        seen = []
        while place is None:
            seen.append(key)
            kind = type(location)
            if kind is ir.NameLoc:
                location = location.child_loc
            elif kind is ir.CallSiteLoc:
                location = location.callee
            elif kind is ir.FusedLoc and location.locations:
                location = location.locations[0]
            else:
                place = _line(location) if kind is ir.FileLineColLoc else ("", 0)
                break
            key = location.attr
            place = places.get(key)
        for key in seen:
            places[key] = place
        return place


def _line(location: ir.FileLineColLoc) -> tuple[str, int]:
    return places.of_line(location.filename, location.start_line)


@dataclass(slots=True, eq=False)
class BlockReader(Emitter):
    """Reads one MLIR block (with its nested regions) into the instructions of one computation."""

    program: ProgramReader
    parent: BlockReader | None
    may_capture: bool = False
    values: dict[Any, Instruction] = field(default_factory=dict)
    parameters: list[Instruction] = field(default_factory=list)
    captured: dict[Any, Instruction] = field(
        default_factory=dict
    )  # value of an outer block -> our parameter
    instructions: list[Instruction] = field(default_factory=list)
    results: list[Instruction] = field(default_factory=list)
    metadata: Metadata | None = None

    # -------------------------------------------------------------------------------- for readers of operations

    def operands(self, operation: Any) -> list[Instruction]:
        """The instructions of an operation's operands."""
        values = self.values
        return [values[v] if v in values else self.value(v) for v in operation.operands]

    def shape(self, operation: Any) -> Shape:
        """The shape of an operation's first result."""
        return self.program.shape(operation.results[0].type)  # type: ignore[return-value]

    def emit_results(
        self,
        operation: Any,
        opcode: str,
        operands: Sequence[Instruction],
        attributes: dict[str, Any] | None = None,
        called: Sequence[Computation] = (),
        extra: Sequence[AnyShape] = (),
    ) -> list[Instruction]:
        """An instruction with the results of ``operation`` (and ``extra`` ones after them): its results, one by one.

        One result is the instruction itself; several are ``get-tuple-element`` instructions of a tuple shape. The extra
        results get none.
        """
        shapes = [self.program.shape(r.type) for r in operation.results]
        if len(shapes) == 1 and not extra:
            return [self.emit(opcode, shapes[0], operands, attributes, called)]
        whole = self.emit(opcode, TupleShape((*shapes, *extra)), operands, attributes, called)  # type: ignore[arg-type]
        return [
            self.emit("get-tuple-element", shape, (whole,), {"index": i})
            for i, shape in enumerate(shapes)
        ]

    def promoted(self, operation: Any, operands: Sequence[Instruction]) -> list[Instruction]:
        """``operands``, of which each belongs to one result of ``operation``, in the element types of those results.

        StableHLO's reductions compute in the element type of their body and results, to which it may promote that of
        the operands (a sum of bf16 in f32); HLO's take operands of that type only.
        """
        dtypes_ = [self.program.shape(result.type).dtype for result in operation.results]  # type: ignore[union-attr]
        return [
            operand
            if operand.dtype is dtype
            else self.emit("convert", operand.shape.with_dtype(dtype), (operand,))  # type: ignore[union-attr]
            for operand, dtype in zip(operands, dtypes_, strict=True)
        ]

    def body(self, operation: Any, index: int, kind: str) -> Computation:
        """The computation of a region that captures nothing but constants (a reduce's body); equal ones are shared."""
        region = BlockReader(self.program, self, may_capture=False)
        region.read(self.single_block(operation, index))
        key = None
        if not region.captured:
            key = bodies.structure(region.parameters, region.instructions, region.results)
        if key is not None and key in self.program.shared_bodies:
            return self.program.shared_bodies[key]
        computation = region.computation(self.program.unique_name(kind))
        if key is not None:
            self.program.shared_bodies[key] = computation
        return computation

    def region(self, operation: Any, index: int) -> BlockReader:
        """A region that may capture, read but not yet made into a computation."""
        region = BlockReader(self.program, self, may_capture=True)
        region.read(self.single_block(operation, index))
        return region

    def single_block(self, operation: Any, index: int) -> Any:
        blocks = operation.regions[index].blocks
        if len(blocks) != 1:
            raise self.unimplemented(operation, f"region {index} has {len(blocks)} blocks, not one")
        return blocks[0]

    def unimplemented(self, operation: Any, message: str) -> CompileError:
        """An UNIMPLEMENTED error about ``operation``."""
        return unimplemented(message, **self._describe(operation))

    def invalid(self, operation: Any, message: str) -> CompileError:
        """An INVALID_ARGUMENT error about ``operation``."""
        return invalid_argument(message, **self._describe(operation))

    def _describe(self, operation: Any) -> dict[str, Any]:
        results = [_type_text(r.type) for r in operation.results]
        return {
            "op": operation.name,
            "shapes": [_type_text(v.type) for v in operation.operands],
            "result": results[0]
            if len(results) == 1
            else f"({', '.join(results)})"
            if results
            else None,
            "metadata": self.program.metadata(operation.location),
        }

    # ------------------------------------------------------------------------------------------------- reading

    def read(self, block: Any) -> None:
        """Read a block: its arguments become parameters, its terminator's operands ``results``."""
        for argument in block.arguments:
            metadata = self.program.metadata(argument.location)
            what = f"parameter {len(self.parameters)}: "
            try:
                parameter_shape = self.program.shape(argument.type)
            except _UnsupportedType as error:
                raise error.as_error(unimplemented(f"{what}{error}", metadata=metadata)) from None
            if isinstance(parameter_shape, TupleShape):
                message = f"{what}the tuple type {parameter_shape} is not supported"
                raise unimplemented(message, metadata=metadata)
            parameter = Instruction(
                "parameter",
                parameter_shape,
                (),
                {"index": len(self.parameters)},
                name=f"arg{len(self.parameters)}",
            )
            self.values[argument] = parameter
            self.parameters.append(parameter)
        self.read_operations(block)

    def read_operations(self, block: Any) -> None:
        """Read a block's operations; its arguments must be known."""
        operation = None
        try:
            for view in block.operations:
                operation = view.operation
                self.read_operation(operation)
        except _UnsupportedType as error:
            raise error.as_error(self.unimplemented(operation, str(error))) from None

    def read_operation(self, operation: Any) -> None:
        """Read one operation; its results become known, a terminator's operands ``results``."""
        program = self.program
        values = self.values
        name = operation.name
        self.metadata = program.metadata(operation.location)
        opcode = OPCODES_AS_THEY_STAND.get(name)
        if opcode is not None:
            result = operation.results[0]
            values[result] = self.emit(opcode, program.shape(result.type), self.operands(operation))
            return
        reader = READERS.get(name)
        if reader is None:
            if name not in TERMINATORS:
                raise self.unknown(operation)
            self.results = self.operands(operation)
            return
        produced = reader(self, operation)
        results = operation.results
        if isinstance(produced, Instruction):
            produced = (produced,)
        for result, instruction in zip(results, produced, strict=True):
            if name not in FUTURES and instruction.shape != program.shape(result.type):
                gives = f"the operation gives {instruction.shape}, and its result's type is another"
                raise self.invalid(operation, gives)
            values[result] = instruction

    def unknown(self, operation: Any, name: str = "") -> Exception:
        """The error for an operation without a reader, or the request for passes that may remove it.

        ``name`` is what a custom call stands for.
        """
        lacking = wings.lacking((name or operation.name).partition(".")[2])
        error = self.unimplemented(
            operation, f"{name or 'this operation'} is not supported{lacking}"
        )
        name = name or operation.name
        if name.startswith("chlo.") or name in requests.EXPANDED:
            return NeedsPasses(requests.CHLO, error)
        if "dynamic" in name:
            return NeedsPasses(requests.DYNAMISM, error)
        if "uniform_" in name:
            return NeedsPasses(requests.QUANTIZATION, error)
        return error

    def value(self, mlir_value: Any) -> Instruction:
        """The instruction of a value of this block, or of one around it (captured)."""
        found = self.values.get(mlir_value)
        if found is None:
            found = self.values[mlir_value] = self._capture(mlir_value)
        return found

    def _capture(self, mlir_value: Any) -> Instruction:
        if self.parent is None:
            raise invalid_argument(f"use of a value that is not defined before: {mlir_value}")
        outer = self.parent.value(mlir_value)
        if outer.opcode == "constant" and not outer.dims:
            return self._copy(outer, ())
        if (
            outer.opcode == "broadcast"
            and outer.operands[0].opcode == "constant"
            and not outer.operands[0].dims
        ):
            return self._copy(outer, (self._copy(outer.operands[0], ()),))
        if outer.opcode == "constant" and not self.may_capture:
            return self._copy(outer, ())
        if not self.may_capture:
            raise unimplemented(
                f"the body of this operation uses the value {_type_text(mlir_value.type)} from outside it, which only"
                " while, if and case may do",
                metadata=self.parent.metadata,
            )
        if isinstance(outer.shape, TupleShape):
            raise unimplemented(
                "a region that captures a tuple is not supported", metadata=self.parent.metadata
            )
        parameter = hlo.parameter(len(self.parameters) + len(self.captured), outer.shape)
        self.captured[mlir_value] = parameter
        self.program.captured[parameter] = outer
        return parameter

    def _copy(self, outer: Instruction, operands: Sequence[Instruction]) -> Instruction:
        copy = Instruction(
            outer.opcode, outer.shape, operands, outer.attributes, metadata=outer.metadata
        )
        self.instructions.append(copy)
        return copy

    # ------------------------------------------------------------------------------------------ making computations

    def computation(
        self, name: str, captures: Iterable[Any] = (), pass_through: bool = False
    ) -> Computation:
        """The computation of what was read.

        ``captures`` are the outer values that stand behind the block's own arguments as further parameters, in that
        order; a value that this block does not use gets a parameter all the same. With ``pass_through`` they are also
        further results.
        """
        parameters = list(self.parameters)
        results = list(self.results)
        for value in captures:
            parameter = self.captured.get(value)
            index = len(parameters)
            if parameter is None:
                assert self.parent is not None
                parameter = hlo.parameter(index, self.parent.value(value).shape)
            else:
                parameter.attributes["index"] = index  # type: ignore[index]  # not published yet
                parameter.name = f"param_{index}"
            parameters.append(parameter)
            if pass_through:
                results.append(parameter)
        instructions = [*parameters, *self.instructions]
        root = self._root(results, instructions)
        computation = Computation(name, parameters, instructions, root)
        computation.assign_names()
        return computation

    def _root(self, results: Sequence[Instruction], instructions: list[Instruction]) -> Instruction:
        if len(results) == 1:
            result = results[0]
            if not isinstance(result.shape, TupleShape):
                return result
            if result.opcode == "tuple":
                return result
            results = [
                Instruction("get-tuple-element", shape, (result,), {"index": i})
                for i, shape in enumerate(result.shape.elements)
            ]
            instructions.extend(results)
        flat: list[Instruction] = []
        for result in results:
            if isinstance(result.shape, TupleShape):
                raise unimplemented("a function with nested tuples as results is not supported")
            flat.append(result)
        shape = TupleShape(tuple(r.shape for r in flat))  # type: ignore[misc]
        root = Instruction("tuple", shape, flat)
        instructions.append(root)
        return root


def _type_text(mlir_type: Any) -> str:
    """A type as a user of the framework knows it: f32[2,3] where it is a static array, else MLIR's text."""
    if isinstance(mlir_type, ir.RankedTensorType) and mlir_type.has_static_shape:
        dtype = _ELEMENT_TYPES.get(str(mlir_type.element_type))
        if dtype is not None:
            return str(Shape(dtype, tuple(mlir_type.shape)))
    return str(mlir_type)


# Operations whose result is a future, which has no shape. The results of the operation that awaits it are compared.
FUTURES = frozenset(("stablehlo.async_start", "mhlo.async_start", "mhlo.async_update"))
TERMINATORS = frozenset(("func.return", "stablehlo.return", "mhlo.return", "sdy.return"))
