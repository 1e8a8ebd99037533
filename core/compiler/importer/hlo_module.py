"""What is done to the bytes of an HloModuleProto before jaxlib reads them, or because jaxlib leaves it out.

* :func:`buffer_donors`: parameters whose memory the program may keep (jaxlib's conversion to StableHLO drops them).
* :func:`modernize`: ``dynamic-slice`` and ``dynamic-update-slice`` with their start indices in one vector, the form of
  before 2019 that PyTorch/XLA still writes. StableHLO has a scalar operand for each index.
* :func:`convertible`: what jaxlib's conversion has no StableHLO for, in a form that it has one for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..formats.wire_format import (
    Field,
    fields,
    integer,
    integers,
    message,
    submessages,
    text,
    unpacked,
)
from . import mesh_groups

# Field numbers of xla/service/hlo.proto and xla/xla_data.proto.
_COMPUTATIONS: Final = 3
_BUFFER_DONOR: Final = 18
_DONOR_ENTRIES: Final = 1
_PARAMETER_NUMBER: Final = 1
_INSTRUCTIONS: Final = 2
_OPCODE: Final = 2
_SHAPE: Final = 3
_SLICE_DIMENSIONS: Final = 17
_ID: Final = 35
_OPERAND_IDS: Final = 36
_CUSTOM_CALL_TARGET: Final = 28
_IS_COMPOSITE: Final = 89
_ROOT_ID: Final = 6
_TUPLE_SHAPES: Final = 4
_ELEMENT_TYPE: Final = 2
_DIMENSIONS: Final = 3
_LAYOUT: Final = 5

# The operand that holds the first start index.
_FIRST_INDEX: Final = {"dynamic-slice": 1, "dynamic-update-slice": 2}


def buffer_donors(program: bytes) -> tuple[int, ...]:
    """Numbers of the parameters that ``buffer_donor`` names. Raises ValueError for bytes that are not a message."""
    donors = []
    for config in submessages(program, _BUFFER_DONOR):
        for entry in submessages(config, _DONOR_ENTRIES):
            numbers = [
                f.value
                for f in fields(entry)
                if f.number == _PARAMETER_NUMBER and isinstance(f.value, int)
            ]
            donors.append(numbers[-1] if numbers else 0)
    return tuple(sorted(set(donors)))


class _Instruction(NamedTuple):
    opcode: str
    id: int
    operands: list[int]
    element_type: int
    dimensions: list[int]
    whole: bytes


def modernize(program: bytes) -> bytes:
    """The program with a scalar operand for each start index; ``program`` itself if that is so already."""
    if not any(opcode.encode() in program for opcode in _FIRST_INDEX):
        return program
    computations = [
        [_read_instruction(i) for i in submessages(c, _INSTRUCTIONS)]
        for c in submessages(program, _COMPUTATIONS)
    ]
    next_id = max((i.id for c in computations for i in c), default=0) + 1
    out, number, changed = [], 0, False
    for field in fields(program):
        if field.number != _COMPUTATIONS or isinstance(field.value, int):
            out.append(bytes(field.whole))
            continue
        instructions = iter(computations[number])
        by_id = {i.id: i for i in computations[number]}
        number += 1
        computation = []
        for part in fields(field.value):
            if part.number != _INSTRUCTIONS or isinstance(part.value, int):
                computation.append(bytes(part.whole))
                continue
            instruction = next(instructions)
            vector = _index_vector(instruction, by_id)
            if vector is None:
                computation.append(bytes(part.whole))
                continue
            changed = True
            new = _with_scalars(instruction, vector, next_id)
            next_id += len(new)
            computation += [message(_INSTRUCTIONS, i) for i in new]
        out.append(message(_COMPUTATIONS, b"".join(computation)))
    return b"".join(out) if changed else program


# Opcodes that become custom calls, and custom calls that get another name: those that jaxlib would take for quantized
# types, which it then cannot read.
_CALLED: Final = {name: f"tripont.{name}" for name in ("mulhi", "exp2", "log2")}
_RENAMED: Final = {
    f"mhlo.uniform_{what}": f"tripont.uniform_{what}" for what in ("quantize", "dequantize")
}
_COMPOSITE: Final = "composite.name"  # an attribute of each
_STARTED: Final = {"all-reduce-start": "all-reduce"}
_DONE: Final = ("all-reduce-done",)
# What the bytes of an instruction have in them if :func:`convertible` changes it for its own sake.
_WORDS: Final = (
    *(word.encode() for word in (*_CALLED, *_RENAMED, *_STARTED, _COMPOSITE)),
    mesh_groups.KEY,
)


def convertible(program: bytes) -> bytes:
    """The program with other words for what jaxlib does not convert; ``program`` itself if it has nothing of it.

    * ``mulhi``, ``exp2`` and ``log2``, and PyTorch/XLA's ``mhlo.uniform_quantize`` and ``mhlo.uniform_dequantize``:
      custom calls that the reader knows.
    * ``all-reduce-start`` of several arrays: an ``all-reduce``, whose ``all-reduce-done`` is itself.
    * a composite of several results: a call of its decomposition.
    * replica groups that are given by axes of a mesh: a list of groups.
    """
    words = [word for word in _WORDS if word in program]
    if not words:
        return program
    out = []
    for field in fields(program):
        if field.number != _COMPUTATIONS or isinstance(field.value, int):
            out.append(bytes(field.whole))
        else:
            out.append(message(_COMPUTATIONS, _convertible_computation(field.value, words)))
    return b"".join(out)


def _convertible_computation(data: memoryview, words: Sequence[bytes]) -> bytes:
    whole = bytes(data)
    words = [word for word in words if word in whole]
    if not words:
        return whole
    if not any(word.encode() in whole for word in _STARTED):
        return b"".join([_convertible_part(field, words) for field in fields(data)])
    instructions = [_read_instruction(i) for i in submessages(data, _INSTRUCTIONS)]
    several = {i.id for i in instructions if i.opcode in _STARTED and _is_tuple(i)}
    same = {
        i.id: i.operands[0]
        for i in instructions
        if i.opcode in _DONE and len(i.operands) == 1 and i.operands[0] in several
    }
    given = iter(instructions)
    out = []
    for field in fields(data):
        if field.number == _ROOT_ID and isinstance(field.value, int):
            out.append(integer(_ROOT_ID, same.get(field.value, field.value)))
        elif field.number == _INSTRUCTIONS and not isinstance(field.value, int):
            instruction = next(given)
            if instruction.id not in same:
                out.append(message(_INSTRUCTIONS, _renamed(instruction, several, same)))
        else:
            out.append(bytes(field.whole))
    return b"".join(out)


def _convertible_part(field: Field, words: Sequence[bytes]) -> bytes:
    """A field of a computation in which no instruction takes the place of another."""
    whole = bytes(field.whole)
    if (
        field.number != _INSTRUCTIONS
        or isinstance(field.value, int)
        or not any(word in whole for word in words)
    ):
        return whole
    return message(_INSTRUCTIONS, _renamed(_read_instruction(field.value), set(), {}))


def _is_tuple(instruction: _Instruction) -> bool:
    shapes = submessages(instruction.whole, _SHAPE)
    return any(True for shape in shapes for _ in submessages(shape, _TUPLE_SHAPES))


def _renamed(instruction: _Instruction, several: set[int], same: dict[int, int]) -> bytes:
    opcode = instruction.opcode
    target = _CALLED.get(opcode)
    if target is not None:
        opcode = "custom-call"
    elif instruction.id in several:
        opcode = _STARTED[opcode]
    out = []
    for field in fields(instruction.whole):
        if field.number == _CUSTOM_CALL_TARGET and isinstance(field.value, memoryview):
            name = bytes(field.value).decode(errors="replace")
            target = _RENAMED.get(name, name)
        elif field.number == _IS_COMPOSITE and _is_tuple(instruction):
            continue
        elif field.number not in (_OPCODE, _OPERAND_IDS):
            out.append(mesh_groups.listed(field))
    operands = [same.get(n, n) for n in instruction.operands]
    out += [text(_OPCODE, opcode), integers(_OPERAND_IDS, operands)]
    if target:
        out.append(text(_CUSTOM_CALL_TARGET, target))
    return b"".join(out)


def _read_instruction(data: memoryview) -> _Instruction:
    opcode, identifier, operands, element_type = "", 0, [], 0
    dimensions: list[int] = []
    for field in fields(data):
        if isinstance(field.value, int):
            if field.number == _ID:
                identifier = field.value
            elif field.number == _OPERAND_IDS:
                operands.append(field.value)
        elif field.number == _OPCODE:
            opcode = bytes(field.value).decode(errors="replace")
        elif field.number == _OPERAND_IDS:
            operands += unpacked(field)
        elif field.number == _SHAPE:
            for part in fields(field.value):
                if part.number == _DIMENSIONS:
                    dimensions += unpacked(part)
                elif part.number == _ELEMENT_TYPE and isinstance(part.value, int):
                    element_type = part.value
    return _Instruction(opcode, identifier, operands, element_type, dimensions, bytes(data))


def _index_vector(instruction: _Instruction, by_id: dict[int, _Instruction]) -> _Instruction | None:
    """The instruction whose one result holds all start indices; None for any other form."""
    first = _FIRST_INDEX.get(instruction.opcode)
    if first is None or len(instruction.operands) != first + 1:
        return None
    operand, vector = by_id.get(instruction.operands[0]), by_id.get(instruction.operands[first])
    if operand is None or vector is None or vector.dimensions != [len(operand.dimensions)]:
        return None  # not as many indices as dimensions: jaxlib says so
    return vector


def _with_scalars(instruction: _Instruction, vector: _Instruction, next_id: int) -> list[bytes]:
    """Instructions that take ``vector`` apart, and ``instruction`` with its elements as operands."""
    new, scalars = [], []
    for k in range(vector.dimensions[0]):
        bounds = integer(1, k) + integer(2, k + 1) + integer(3, 1)
        new.append(
            _instruction("slice", next_id, vector.element_type, (1,), vector.id)
            + message(_SLICE_DIMENSIONS, bounds)
        )
        new.append(_instruction("reshape", next_id + 1, vector.element_type, (), next_id))
        scalars.append(next_id + 1)
        next_id += 2
    first = _FIRST_INDEX[instruction.opcode]
    rest = [bytes(f.whole) for f in fields(instruction.whole) if f.number != _OPERAND_IDS]
    operands = instruction.operands[:first] + scalars
    new.append(b"".join([*rest, integers(_OPERAND_IDS, operands)]))
    return new


def _instruction(
    opcode: str, identifier: int, element_type: int, dimensions: Sequence[int], operand: int
) -> bytes:
    layout = integers(1, reversed(range(len(dimensions))))
    shape = (
        integer(_ELEMENT_TYPE, element_type)
        + integers(_DIMENSIONS, dimensions)
        + message(_LAYOUT, layout)
    )
    return (
        text(1, f"start-index.{identifier}")
        + text(_OPCODE, opcode)
        + message(_SHAPE, shape)
        + integer(_ID, identifier)
        + integers(_OPERAND_IDS, [operand])
    )
