"""The executable artifact: everything that running a compiled program needs, as one byte string.

The compiler writes it, ``core/runtime/artifact.cc`` reads it; both sides are bounds-checked. All numbers are
little-endian.

File::

    magic           8 bytes  b"TRIPONT\\0"
    format_version  u32      FORMAT_VERSION; a reader refuses any other
    checksum        u32      CRC-32 (zlib) of all bytes from offset 24 to the end
    total_size      u64      of the whole file
    section_count   u32
    reserved        u32      0
    sections        section_count x (kind u32, reserved u32, offset u64, size u64)
    ...             the sections; CODE starts at a multiple of 4096, CONSTANTS at a multiple of 64

Sections: META (the fields of :class:`Executable` that name no other section), DEBUG and SIZES (those that name these;
SIZES in programs whose results have sizes that depend on values), CODE, CONSTANTS and PROGRAM (the fields of these
names, as they are).

What the records are, and what memory and kernels are at run time, is defined in ``core/schema/artifact.py``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tripont.core.schema import artifact as schema
from tripont.core.schema import codec
from tripont.core.schema.artifact import (
    FORMAT_VERSION,
    Allocation,
    AllocationKind,
    Attribute,
    Conditional,
    Copy,
    Costs,
    DebugInfo,
    Executable,
    FunctionOffset,
    Kernel,
    LibraryCall,
    Operand,
    SectionKind,
    Slice,
    Stride,
    Thunk,
    Value,
    View,
    While,
)
from tripont.core.schema.codec import FormatError

from ..ir import dtypes
from ..ir.hlo import Shape
from ..ir.recursion import deep_recursion

__all__ = [
    "FORMAT_VERSION",
    "Allocation",
    "Attribute",
    "Conditional",
    "Copy",
    "Costs",
    "DebugInfo",
    "Executable",
    "FunctionOffset",
    "Kernel",
    "LibraryCall",
    "Operand",
    "SectionKind",
    "Slice",
    "Stride",
    "Thunk",
    "Value",
    "View",
    "While",
    "deserialize",
    "serialize",
    "slices",
    "walk",
]

MAGIC: Final = b"TRIPONT\0"
ALIGNMENT: Final = 64
CODE_ALIGNMENT: Final = 4096

MOST_NESTED: Final = 2000  # loops and branches in each other; the runtime's limit too

ALLOCATION_PARAMETER: Final = AllocationKind.PARAMETER
ALLOCATION_RESULT: Final = AllocationKind.RESULT
ALLOCATION_CONSTANT: Final = AllocationKind.CONSTANT
ALLOCATION_TEMP: Final = AllocationKind.TEMP
ALLOCATION_VIEW: Final = AllocationKind.VIEW
# Their names in dumps and tables.
ALLOCATION_KINDS: Final = {
    ALLOCATION_PARAMETER: "parameter",
    ALLOCATION_RESULT: "result",
    ALLOCATION_CONSTANT: "constant",
    ALLOCATION_TEMP: "temporary",
    ALLOCATION_VIEW: "view",
}


class ArtifactError(ValueError):
    """The bytes are not an artifact that this version can read; the message says why."""


def walk(thunks: Sequence[Thunk]) -> Iterator[Thunk]:
    """All thunks in the order of the artifact: each before those of its condition, body or branches."""
    for thunk in thunks:
        yield thunk
        if isinstance(thunk, While):
            yield from walk(thunk.condition)
            yield from walk(thunk.body)
        elif isinstance(thunk, Conditional):
            for branch in thunk.branches:
                yield from walk(branch)


def slices(thunk: Thunk) -> list[Slice]:
    """The pieces of memory that a thunk names, without those of thunks in it: what is read, then what is written."""
    match thunk:
        case Kernel():
            return list(thunk.arguments)
        case Copy():
            return [thunk.source, thunk.destination]
        case LibraryCall():
            return [operand.slice for operand in (*thunk.operands, *thunk.results)]
        case View():
            return [thunk.source, *(stride.index for stride in thunk.strides), thunk.view]
        case While():
            return [thunk.predicate]
        case Conditional():
            return [thunk.selector]


def _chosen(value: Attribute) -> tuple[int, object]:
    """How a library attribute is written: the number of its alternative, and the value."""
    if isinstance(value, FunctionOffset):
        return 3, value
    if isinstance(value, str | bytes):
        return 2, value.encode() if isinstance(value, str) else value
    values = [value] if isinstance(value, int | float) else list(value)
    return (1, values) if any(isinstance(v, float) for v in values) else (0, values)


def _write_shape(out: list[bytes], shape: Shape) -> None:
    rank = len(shape.dims)
    out.append(struct.pack(f"<BI{rank}q", shape.dtype.code, rank, *shape.dims))


def _read_shape(source: codec.Bytes) -> Shape:
    code, rank = struct.unpack("<BI", source.take(5))
    try:
        dtype = dtypes.from_code(code)
    except KeyError as error:
        raise FormatError(f"unknown element type {code}") from error
    dims = struct.unpack(f"<{rank}q", source.take(8 * rank))
    if any(d < 0 for d in dims):
        raise FormatError(f"a shape with a dimension of {min(dims)}")
    return Shape(dtype, dims)


_CODEC: Final = codec.Codec(
    schema,
    (_write_shape, _read_shape),
    {"Attribute": _chosen},
    ("Thunk", MOST_NESTED, f"loops and branches nest more than {MOST_NESTED} deep"),
)

_HEADER: Final = struct.Struct("<8sIIQII")
_SECTION: Final = struct.Struct("<IIQQ")
_CHECKED_FROM: Final = 24  # the checksum covers everything from section_count on


def serialize(executable: Executable) -> bytes:
    """The artifact's bytes. The same executable gives the same bytes."""
    sections = [
        (SectionKind.META, 8, _CODEC.write(executable)),
        (SectionKind.DEBUG, 8, _CODEC.write(executable, "DEBUG")),
        (SectionKind.PROGRAM, 8, executable.program),
        (SectionKind.CONSTANTS, ALIGNMENT, executable.constants),
        (SectionKind.CODE, CODE_ALIGNMENT, executable.code),
    ]
    if executable.visible_results >= 0:
        sections.append((SectionKind.SIZES, 8, _CODEC.write(executable, "SIZES")))
    offset = _HEADER.size + _SECTION.size * len(sections)
    table: list[bytes] = []
    body: list[bytes] = []
    for kind, alignment, data in sections:
        padding = -offset % alignment
        body += [bytes(padding), data]
        table.append(_SECTION.pack(kind, 0, offset + padding, len(data)))
        offset += padding + len(data)
    checked = [struct.pack("<II", len(sections), 0), *table, *body]
    checksum = 0
    for part in checked:  # constants may be large: no copies of them
        checksum = zlib.crc32(part, checksum)
    return b"".join([struct.pack("<8sIIQ", MAGIC, FORMAT_VERSION, checksum, offset), *checked])


def deserialize(data: bytes) -> Executable:
    """The executable that ``data`` holds.

    Raises ArtifactError, and nothing else, for bytes that are not an artifact of this format version or are damaged. It
    checks what its callers need to describe the thunks: that allocations, debug information and branches that a thunk
    names are there. Whether slices and functions are inside their allocations and code is checked by the runtime
    (core/runtime/artifact.cc).
    """
    if len(data) < _HEADER.size or data[:8] != MAGIC:
        raise ArtifactError("not a tripont artifact (the magic number is missing)")
    _, version, checksum, size, count, _ = _HEADER.unpack_from(data)
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"artifact format {version}, but this version of tripont reads format {FORMAT_VERSION}"
        )
    if size != len(data):
        raise ArtifactError(
            f"artifact of {size} bytes is truncated or padded: {len(data)} bytes given"
        )
    if zlib.crc32(data[_CHECKED_FROM:]) != checksum:
        raise ArtifactError("artifact is corrupt: its checksum does not match")
    sections = _read_sections(data, count)
    fields: dict[str, Any] = {}
    with deep_recursion():
        for kind in (SectionKind.META, SectionKind.DEBUG, SectionKind.SIZES):
            name = "" if kind == SectionKind.META else kind.name
            if not sections[kind] and name:
                continue  # left out
            try:
                fields |= _CODEC.read(Executable, sections[kind], name)
            except FormatError as error:
                raise ArtifactError(f"artifact: section {kind.name}: {error}") from error
        executable = Executable(
            **fields,
            code=sections[SectionKind.CODE],
            constants=sections[SectionKind.CONSTANTS],
            program=sections[SectionKind.PROGRAM],
        )
        _check_references(executable)
    return executable


def _check_references(executable: Executable) -> None:
    """Raise ArtifactError, in the words of the runtime's reader, for a thunk that names an allocation, a branch or
    debug information that does not exist.
    """
    allocations, debug = len(executable.allocations), executable.debug
    for thunk in walk(executable.thunks):
        wrong = ""
        if not -1 <= thunk.debug < len(debug):
            wrong = f"debug information {thunk.debug} does not exist"
        elif (largest := max((s.allocation for s in slices(thunk)), default=-1)) >= allocations:
            wrong = f"slice of allocation {largest}, which does not exist"
        elif isinstance(thunk, Conditional) and not -1 <= thunk.usual < len(thunk.branches):
            wrong = f"the usual branch {thunk.usual} of {len(thunk.branches)}"
        if wrong:
            name = debug[thunk.debug].name if 0 <= thunk.debug < len(debug) else "?"
            raise ArtifactError(f"artifact: thunk {name}: {wrong}")


def _read_sections(data: bytes, count: int) -> dict[int, bytes]:
    """The bytes of each section; empty for one that may be left out."""
    if _HEADER.size + count * _SECTION.size > len(data):
        raise ArtifactError(f"artifact: {count} sections do not fit in {len(data)} bytes")
    sections: dict[int, bytes] = {}
    for i in range(count):
        kind, _, offset, length = _SECTION.unpack_from(data, _HEADER.size + i * _SECTION.size)
        if offset + length > len(data):
            raise ArtifactError(f"artifact: section {kind} is outside the {len(data)} bytes")
        if kind in sections or kind not in list(SectionKind):
            raise ArtifactError(f"artifact: section {kind} is unknown or there twice")
        sections[kind] = data[offset : offset + length]
    if SectionKind.META not in sections:
        raise ArtifactError("artifact: section META is missing")
    return {kind: sections.get(kind, b"") for kind in SectionKind}
