"""Dimensions whose size depends on values, in an HloModuleProto: what they are called until a pass resolves them.

TensorFlow's bridge gives such a dimension a bound (``f32[<=8]``) and computes its size with ``set-dimension-size``; in
StableHLO the type is ``tensor<?xf32, #stablehlo.bounds<8>>``. :func:`with_bounds` gives every array the shape of its
bounds, and keeps what is known of sizes in custom calls, which become instructions of ours
(:mod:`.resolve` says what they mean). So everything between sees static shapes alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

from ..formats.wire_format import Field, fields, message, replaced, submessages, text, unpacked
from ..ir.errors import unimplemented
from ..ir.hlo import Instruction

# Field numbers of xla/service/hlo.proto and xla/xla_data.proto.
_COMPUTATIONS: Final = 3
_HOST_PROGRAM_SHAPE: Final = 4
_INSTRUCTIONS: Final = 2
_PROGRAM_SHAPE: Final = 4
_PARAMETERS: Final = 1
_PROGRAM_SHAPES: Final = (_PARAMETERS, 2)  # and the result
_OPCODE: Final = 2
_SHAPE: Final = 3
_HLO_DIMENSIONS: Final = 14
_CUSTOM_CALL_TARGET: Final = 28
_BACKEND_CONFIG: Final = 43
_TUPLE_SHAPES: Final = 4
_IS_DYNAMIC: Final = 6
# Messages in each other that protocol buffers are read with, and so jaxlib.
_DEEPEST: Final = 100

# Targets of the custom calls that stand for instructions on sizes.
TARGETS: Final = {
    name: f"tripont.{name.replace('-', '_')}"
    for name in ("set-dimension-size", "get-dimension-size", "dynamic-reshape")
}


def is_bounded(program: bytes) -> bool:
    """Whether some dimension of an instruction's result has a size that depends on values.

    Raises ValueError for bytes that are not a message.
    """
    if not any(name.encode() in program for name in TARGETS):
        return False
    shapes = {  # of few different ones a program has many
        bytes(shape)
        for computation in submessages(program, _COMPUTATIONS)
        for instruction in submessages(computation, _INSTRUCTIONS)
        for shape in submessages(instruction, _SHAPE)
    }
    return any(True for shape in shapes for _ in _dynamic_dimensions(memoryview(shape)))


def without_computed_sizes(program: bytes) -> bytes:
    """:func:`with_bounds` of a program that needs it.

    Raises ValueError for bytes that are not a message, and CompileError for a program that takes an array of such a
    size.
    """
    for program_shape in submessages(program, _HOST_PROGRAM_SHAPE):
        _refuse_parameters(program_shape)
    return with_bounds(program) if is_bounded(program) else program


def with_bounds(program: bytes) -> bytes:
    """``program`` with the bounds for the sizes, and :data:`TARGETS` called for the instructions on sizes.

    A ``reshape`` to a dimension of such a size becomes a ``dynamic-reshape`` without sizes. Raises ValueError for
    bytes that are not a message.
    """
    return replaced(program, {_COMPUTATIONS: _computation, _HOST_PROGRAM_SHAPE: _program_shape})


def _refuse_parameters(program_shape: memoryview) -> None:
    for number, shape in enumerate(submessages(program_shape, _PARAMETERS)):
        for dimension in _dynamic_dimensions(shape):
            raise unimplemented(
                f"the size of dimension {dimension} of argument {number} is not known when the program is compiled;"
                " only results may have such sizes"
            )


def _value(field: Field) -> memoryview:
    if isinstance(field.value, int):
        raise ValueError(f"field {field.number} is a number and should be a message")
    return field.value


# Each is a field of the number that it had, changed.


def _computation(field: Field) -> bytes:
    changes = {_INSTRUCTIONS: _instruction, _PROGRAM_SHAPE: _program_shape}
    return message(field.number, replaced(_value(field), changes))


def _program_shape(field: Field) -> bytes:
    return message(field.number, replaced(_value(field), dict.fromkeys(_PROGRAM_SHAPES, _bounds)))


def _bounds(field: Field, depth: int = 0) -> bytes:
    """The shape with every dimension as large as it can be."""
    _check_depth(depth)
    element = functools.partial(_bounds, depth=depth + 1)
    changes: dict[int, Callable[[Field], bytes]] = {_IS_DYNAMIC: _static, _TUPLE_SHAPES: element}
    return message(field.number, replaced(_value(field), changes))


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"tuples are nested more than {_DEEPEST} deep")


def _static(field: Field) -> bytes:
    return message(field.number, bytes(len(unpacked(field))))


def _dynamic_dimensions(shape: memoryview, depth: int = 0) -> Iterator[int]:
    """The dimensions of an array's shape, or of some array of a tuple's, whose sizes depend on values."""
    _check_depth(depth)
    flags = [flag for f in fields(shape) if f.number == _IS_DYNAMIC for flag in unpacked(f)]
    yield from (n for n, flag in enumerate(flags) if flag)
    for element in submessages(shape, _TUPLE_SHAPES):
        yield from _dynamic_dimensions(element, depth + 1)


def _instruction(field: Field) -> bytes:
    parts = list(fields(_value(field)))
    opcode = next((bytes(_value(f)).decode() for f in parts if f.number == _OPCODE), "")
    shape = next((_value(f) for f in parts if f.number == _SHAPE), memoryview(b""))
    dynamic = list(_dynamic_dimensions(shape))
    dimensions = [n for f in parts if f.number == _HLO_DIMENSIONS for n in unpacked(f)]
    if opcode == "reshape" and dynamic:
        opcode = "dynamic-reshape"
    called = TARGETS.get(opcode)
    out = []
    for part in parts:
        if part.number == _SHAPE:
            out.append(_bounds(part))
        elif called is None or part.number not in (_OPCODE, _HLO_DIMENSIONS):
            out.append(bytes(part.whole))
    if called is not None:
        numbers = dimensions if opcode == "get-dimension-size" else [*dimensions, *dynamic]
        out += [text(_OPCODE, "custom-call"), text(_CUSTOM_CALL_TARGET, called)]
        out.append(message(_BACKEND_CONFIG, ",".join(map(str, numbers)).encode()))
    return message(field.number, b"".join(out))


def read_call(block: Any, operation: Any, config: dict[str, Any]) -> Instruction:
    """The instruction that a custom call of :data:`TARGETS` stands for.

    The call's configuration holds the instruction's dimension, if it has one, and then the result's dimensions whose
    sizes depend on values.
    """
    del config
    target = operation.attributes["call_target_name"].value
    opcode = next(name for name, known in TARGETS.items() if known == target)
    numbers = [int(n) for n in operation.attributes["backend_config"].value.split(",") if n]
    attributes: dict[str, Any] = {}
    if opcode != "dynamic-reshape":
        attributes["dimension"] = numbers.pop(0)
    if opcode != "get-dimension-size":
        attributes["dynamic_dimensions"] = tuple(numbers)
    instruction: Instruction = block.emit(
        opcode, block.shape(operation), block.operands(operation), attributes
    )
    return instruction
