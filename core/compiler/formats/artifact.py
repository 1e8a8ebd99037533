"""The executable artifact: everything that running a compiled program needs, as one byte string.

The compiler writes it, ``core/runtime/artifact.cc`` reads it; both sides are bounds-checked and this file is the
format's definition. All numbers are little-endian.

File::

    magic           8 bytes  b"TRIPONT\\0"
    format_version  u32      FORMAT_VERSION; a reader refuses any other
    checksum        u32      CRC-32 (zlib) of all bytes from offset 24 to the end
    total_size      u64      of the whole file
    section_count   u32
    reserved        u32      0
    sections        section_count x (kind u32, reserved u32, offset u64, size u64)
    ...             the sections; CODE starts at a multiple of 4096, CONSTANTS at a multiple of 64

Sections: META (the fields of :class:`Executable`, in the order of ``_write_meta``), CODE (a flat
position-independent image), CONSTANTS (the literals, each at a multiple of 64), DEBUG (a DebugInfo a
thunk), PROGRAM (the optimised HLO as HloModuleProto bytes, may be empty), and SIZES in programs whose results have
sizes that depend on values.

Memory at run time. Values live in *allocations*; a :class:`Slice` names a piece of one. An
allocation is a parameter's buffer, a result's buffer, a constant, or the temporary arena of one
execution. All allocations start at a multiple of 64 bytes and are readable and writable (constants
and parameters: readable) up to the next multiple of 64. A result allocation with
``aliased_parameter = j`` shares the memory of donated parameter j: the compiled code finds the
parameter's content there and leaves the result there. (When the caller did not donate it, the
runtime makes a fresh buffer and first copies the parameter into it.) Parameter j then has no
allocation of its own.

Kernels. ``void kernel(void* const* arguments, int64_t begin, int64_t end)``: ``arguments[i]`` is the
address of the thunk's i-th slice; the kernel does units of work [begin, end) out of
[0, work_count). Any split of the range over threads is right; a range of at most ``grain`` units is
not worth another thread. Kernels call nothing outside the image but the ``imports``: 8-byte slots in
the image that the loader fills with the addresses of functions it knows by name (``memcpy``,
``memset``, ``memmove``, ``fmod``, ``fmodf``), before the image becomes read-only and executable.

Sizes that depend on values. Result i with ``(i, d, j)`` in ``dynamic_results`` has the shape of its bounds; result j,
an s32 scalar, says how many elements along dimension d are there, counted from 0. Result j with ``(j, message)`` in
``size_checks`` is a pred scalar; if it is false the other results are worth nothing, and the execution fails with the
message. Such results stand from number ``visible_results`` on; a caller does not see them.

Library calls carry a name, operands, results and attributes; ``core/runtime/library`` has one entry
a name and refuses names and attributes it does not know when the artifact is loaded, not when it
runs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..ir import dtypes
from ..ir.cost import Costs
from ..ir.hlo import Shape
from ..ir.recursion import deep_recursion

MAGIC: Final = b"TRIPONT\0"
FORMAT_VERSION: Final = 2
ALIGNMENT: Final = 64
CODE_ALIGNMENT: Final = 4096

MOST_NESTED: Final = 2000  # loops and branches in each other; the runtime's limit too
SECTION_META: Final = 1
SECTION_CODE: Final = 2
SECTION_CONSTANTS: Final = 3
SECTION_DEBUG: Final = 4
SECTION_PROGRAM: Final = 5
SECTION_SIZES: Final = 6

ALLOCATION_PARAMETER: Final = 0
ALLOCATION_RESULT: Final = 1
ALLOCATION_CONSTANT: Final = 2
ALLOCATION_TEMP: Final = 3
# Their names in dumps and tables.
ALLOCATION_KINDS: Final = {
    ALLOCATION_PARAMETER: "parameter",
    ALLOCATION_RESULT: "result",
    ALLOCATION_CONSTANT: "constant",
    ALLOCATION_TEMP: "temporary",
}


class ArtifactError(ValueError):
    """The bytes are not an artifact that this version can read; the message says why."""


@dataclass(frozen=True, slots=True)
class Slice:
    """``size`` bytes at ``offset`` of allocation number ``allocation``."""

    allocation: int
    offset: int
    size: int


@dataclass(slots=True)
class Allocation:
    """kind: ALLOCATION_*. index: parameter or result number (0 otherwise). offset: of a constant in CONSTANTS."""

    kind: int
    index: int
    size: int
    offset: int = 0
    aliased_parameter: int = -1


@dataclass(slots=True)
class Kernel:
    """Call the function at ``function`` in CODE over ``work_count`` units. cost_ns: estimate on one core."""

    function: int
    arguments: tuple[Slice, ...]
    work_count: int
    grain: int
    cost_ns: float
    debug: int = -1  # index into Executable.debug


@dataclass(slots=True)
class Copy:
    """Copy ``source`` over ``destination`` (equal sizes, no overlap unless they are the same slice)."""

    destination: Slice
    source: Slice
    debug: int = -1


@dataclass(slots=True)
class While:
    """Run ``condition``; while the pred byte in ``predicate`` is not 0, run ``body`` and ``condition`` again.

    trip_count: the number of iterations if known when compiling, else -1 (then ``condition`` is still run).
    """

    condition: tuple[Thunk, ...]
    body: tuple[Thunk, ...]
    predicate: Slice
    trip_count: int = -1
    debug: int = -1


@dataclass(slots=True)
class Conditional:
    """Run one branch. A pred selector (1 byte) runs branch 0 if true, else 1; an s32 out of range runs the last."""

    selector: Slice
    selector_is_pred: bool
    branches: tuple[tuple[Thunk, ...], ...]
    debug: int = -1


LibraryAttribute = int | float | bool | str | bytes | Sequence[int] | Sequence[float]


@dataclass(frozen=True, slots=True)
class FunctionOffset:
    """A library attribute that is a function in CODE (a sort's comparator, a reduction's body)."""

    offset: int


@dataclass(frozen=True, slots=True)
class Operand:
    """An array in memory: where, and what it is."""

    slice: Slice
    shape: Shape


@dataclass(slots=True)
class LibraryCall:
    """Call the runtime's library function ``name``. attributes are written as int64 lists, float lists or bytes."""

    name: str
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]
    attributes: dict[str, LibraryAttribute | FunctionOffset]
    cost_ns: float
    debug: int = -1


Thunk = Kernel | Copy | While | Conditional | LibraryCall


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


@dataclass(slots=True)
class Value:
    """A parameter or result of the program."""

    shape: Shape
    memory_kind: str = "device"


@dataclass(slots=True)
class DebugInfo:
    """What a thunk is, for errors, dumps and profiles."""

    name: str
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    text: str = ""
    category: str = ""  # "loop fusion", the name of a library call, or an opcode
    flops: float = 0.0  # of one run; 0: none, or not known
    bytes_accessed: float = 0.0  # operands and results, once each


@dataclass(slots=True)
class Executable:
    """A compiled program. ``cpu_features``: all the host CPU must have, LLVM names (empty for other targets)."""

    name: str
    target: str  # its name (targets/__init__.py)
    triple: str
    cpu: str
    cpu_features: tuple[str, ...]
    compiler_version: str
    fingerprint: str
    parameters: tuple[Value, ...]
    results: tuple[Value, ...]
    allocations: tuple[Allocation, ...]
    thunks: tuple[Thunk, ...]
    code: bytes
    constants: bytes
    imports: tuple[tuple[str, int], ...] = ()  # (function name, offset of its 8-byte slot in CODE)
    # Parameters that the program may overwrite when donated: those aliased by a result and the buffer donors.
    donatable_parameters: tuple[int, ...] = ()
    num_replicas: int = 1
    num_partitions: int = 1
    # Of sizes that depend on values, as hlo.Module has them: results from visible_results on (-1: none) are sizes and
    # truth values, which are for the runtime alone.
    visible_results: int = -1
    dynamic_results: tuple[
        tuple[int, int, int], ...
    ] = ()  # (result, dimension, result that is its size)
    size_checks: tuple[tuple[int, str], ...] = ()  # (result, what is wrong if it is false)
    costs: Costs = field(default_factory=Costs)
    debug: tuple[DebugInfo, ...] = ()
    program: bytes = b""


# ------------------------------------------------------------------------------------------------------ writing


class _Writer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def u8(self, value: int) -> None:
        self.parts.append(struct.pack("<B", value))

    def u32(self, value: int) -> None:
        self.parts.append(struct.pack("<I", value))

    def i32(self, value: int) -> None:
        self.parts.append(struct.pack("<i", value))

    def i64(self, value: int) -> None:
        self.parts.append(struct.pack("<q", value))

    def f64(self, value: float) -> None:
        self.parts.append(struct.pack("<d", value))

    def string(self, value: str | bytes) -> None:
        data = value.encode() if isinstance(value, str) else value
        self.u32(len(data))
        self.parts.append(data)

    def shape(self, shape: Shape) -> None:
        self.parts.append(
            struct.pack(f"<BI{len(shape.dims)}q", shape.dtype.code, len(shape.dims), *shape.dims)
        )

    def slice(self, slice_: Slice) -> None:
        self.parts.append(struct.pack("<IQQ", slice_.allocation, slice_.offset, slice_.size))


THUNK_KERNEL: Final = 0
THUNK_COPY: Final = 1
THUNK_WHILE: Final = 2
THUNK_CONDITIONAL: Final = 3
THUNK_LIBRARY_CALL: Final = 4

ATTRIBUTE_INTEGERS: Final = 0
ATTRIBUTE_FLOATS: Final = 1
ATTRIBUTE_BYTES: Final = 2
ATTRIBUTE_FUNCTION: Final = 3


def _write_attribute(w: _Writer, value: LibraryAttribute | FunctionOffset) -> None:
    if isinstance(value, FunctionOffset):
        w.u8(ATTRIBUTE_FUNCTION)
        w.i64(value.offset)
    elif isinstance(value, str | bytes):
        w.u8(ATTRIBUTE_BYTES)
        w.string(value)
    else:
        values = [value] if isinstance(value, int | float) else list(value)
        if any(isinstance(v, float) for v in values):
            w.u8(ATTRIBUTE_FLOATS)
            w.u32(len(values))
            for v in values:
                w.f64(float(v))
        else:
            w.u8(ATTRIBUTE_INTEGERS)
            w.u32(len(values))
            for v in values:
                w.i64(int(v))


def _write_thunks(w: _Writer, thunks: Sequence[Thunk]) -> None:
    w.u32(len(thunks))
    for thunk in thunks:
        match thunk:
            case Kernel():
                w.u8(THUNK_KERNEL)
                w.i32(thunk.debug)
                w.i64(thunk.function)
                w.i64(thunk.work_count)
                w.i64(thunk.grain)
                w.f64(thunk.cost_ns)
                w.u32(len(thunk.arguments))
                for argument in thunk.arguments:
                    w.slice(argument)
            case Copy():
                w.u8(THUNK_COPY)
                w.i32(thunk.debug)
                w.slice(thunk.destination)
                w.slice(thunk.source)
            case While():
                w.u8(THUNK_WHILE)
                w.i32(thunk.debug)
                w.slice(thunk.predicate)
                w.i64(thunk.trip_count)
                _write_thunks(w, thunk.condition)
                _write_thunks(w, thunk.body)
            case Conditional():
                w.u8(THUNK_CONDITIONAL)
                w.i32(thunk.debug)
                w.slice(thunk.selector)
                w.u8(int(thunk.selector_is_pred))
                w.u32(len(thunk.branches))
                for branch in thunk.branches:
                    _write_thunks(w, branch)
            case LibraryCall():
                w.u8(THUNK_LIBRARY_CALL)
                w.i32(thunk.debug)
                w.string(thunk.name)
                w.f64(thunk.cost_ns)
                for arrays in (thunk.operands, thunk.results):
                    w.u32(len(arrays))
                    for array in arrays:
                        w.slice(array.slice)
                        w.shape(array.shape)
                w.u32(len(thunk.attributes))
                for key, value in thunk.attributes.items():
                    w.string(key)
                    _write_attribute(w, value)


def _write_meta(executable: Executable) -> bytes:
    w = _Writer()
    for text in (
        executable.name,
        executable.target,
        executable.triple,
        executable.cpu,
        executable.compiler_version,
        executable.fingerprint,
    ):
        w.string(text)
    w.u32(len(executable.cpu_features))
    for feature in executable.cpu_features:
        w.string(feature)
    w.i64(executable.num_replicas)
    w.i64(executable.num_partitions)
    costs = executable.costs
    for number in (
        costs.flops,
        costs.transcendentals,
        costs.bytes_accessed,
        costs.optimal_nanoseconds,
    ):
        w.f64(number)
    for values in (executable.parameters, executable.results):
        w.u32(len(values))
        for value in values:
            w.shape(value.shape)
            w.string(value.memory_kind)
    w.u32(len(executable.donatable_parameters))
    for index in executable.donatable_parameters:
        w.i64(index)
    w.u32(len(executable.imports))
    for symbol, offset in executable.imports:
        w.string(symbol)
        w.i64(offset)
    w.u32(len(executable.allocations))
    for allocation in executable.allocations:
        w.u8(allocation.kind)
        w.i64(allocation.index)
        w.i64(allocation.size)
        w.i64(allocation.offset)
        w.i64(allocation.aliased_parameter)
    _write_thunks(w, executable.thunks)
    return b"".join(w.parts)


def _write_debug(executable: Executable) -> bytes:
    w = _Writer()
    w.u32(len(executable.debug))
    for info in executable.debug:
        w.string(info.name)
        w.string(info.op_name)
        w.string(info.source_file)
        w.i64(info.source_line)
        w.string(info.text)
        w.string(info.category)
        w.f64(info.flops)
        w.f64(info.bytes_accessed)
    return b"".join(w.parts)


def _write_sizes(executable: Executable) -> bytes:
    w = _Writer()
    w.i64(executable.visible_results)
    w.u32(len(executable.dynamic_results))
    for numbers in executable.dynamic_results:
        for number in numbers:
            w.i64(number)
    w.u32(len(executable.size_checks))
    for result, problem in executable.size_checks:
        w.i64(result)
        w.string(problem)
    return b"".join(w.parts)


_HEADER: Final = struct.Struct("<8sIIQII")
_SECTION: Final = struct.Struct("<IIQQ")
_CHECKED_FROM: Final = 24  # the checksum covers everything from section_count on


def serialize(executable: Executable) -> bytes:
    """The artifact's bytes. The same executable gives the same bytes."""
    sections = [
        (SECTION_META, 8, _write_meta(executable)),
        (SECTION_DEBUG, 8, _write_debug(executable)),
        (SECTION_PROGRAM, 8, executable.program),
        (SECTION_CONSTANTS, ALIGNMENT, executable.constants),
        (SECTION_CODE, CODE_ALIGNMENT, executable.code),
    ]
    if executable.visible_results >= 0:
        sections.append((SECTION_SIZES, 8, _write_sizes(executable)))
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


# ------------------------------------------------------------------------------------------------------ reading


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def _unpack(self, layout: str) -> tuple[int, ...]:
        try:
            values = struct.unpack_from(layout, self.data, self.position)
        except struct.error as error:
            raise ArtifactError("artifact: a section ends early") from error
        self.position += struct.calcsize(layout)
        return values

    def u8(self) -> int:
        return self._unpack("<B")[0]

    def u32(self) -> int:
        return self._unpack("<I")[0]

    def i32(self) -> int:
        return self._unpack("<i")[0]

    def i64(self) -> int:
        return self._unpack("<q")[0]

    def f64(self) -> float:
        return float(self._unpack("<d")[0])

    def bytes(self) -> bytes:
        size = self.u32()
        if self.position + size > len(self.data):
            raise ArtifactError("artifact: a string ends after its section")
        data = self.data[self.position : self.position + size]
        self.position += size
        return data

    def string(self) -> str:
        try:
            return self.bytes().decode()
        except UnicodeDecodeError as error:
            raise ArtifactError("artifact: a string is not UTF-8") from error

    def shape(self) -> Shape:
        code, rank = self._unpack("<BI")
        try:
            dtype = dtypes.from_code(code)
        except KeyError as error:
            raise ArtifactError(f"artifact: unknown element type {code}") from error
        dims = self._unpack(f"<{rank}q")
        if any(d < 0 for d in dims):
            raise ArtifactError(f"artifact: a shape with a dimension of {min(dims)}")
        return Shape(dtype, dims)

    def slice(self) -> Slice:
        return Slice(*self._unpack("<IQQ"))


def _read_attribute(r: _Reader) -> LibraryAttribute | FunctionOffset:
    kind = r.u8()
    if kind == ATTRIBUTE_FUNCTION:
        return FunctionOffset(r.i64())
    if kind == ATTRIBUTE_BYTES:
        return r.bytes()
    if kind == ATTRIBUTE_FLOATS:
        return [r.f64() for _ in range(r.u32())]
    if kind == ATTRIBUTE_INTEGERS:
        return [r.i64() for _ in range(r.u32())]
    raise ArtifactError(f"artifact: unknown attribute kind {kind}")


def _read_thunks(r: _Reader, depth: int = 0) -> tuple[Thunk, ...]:
    if depth > MOST_NESTED:
        raise ArtifactError(f"artifact: loops and branches nest more than {MOST_NESTED} deep")
    thunks: list[Thunk] = []
    for _ in range(r.u32()):
        kind, debug = r.u8(), r.i32()
        if kind == THUNK_KERNEL:
            function, work_count, grain, cost = r.i64(), r.i64(), r.i64(), r.f64()
            arguments = tuple(r.slice() for _ in range(r.u32()))
            thunks.append(Kernel(function, arguments, work_count, grain, cost, debug))
        elif kind == THUNK_COPY:
            thunks.append(Copy(r.slice(), r.slice(), debug))
        elif kind == THUNK_WHILE:
            predicate, trip_count = r.slice(), r.i64()
            condition, body = _read_thunks(r, depth + 1), _read_thunks(r, depth + 1)
            thunks.append(While(condition, body, predicate, trip_count, debug))
        elif kind == THUNK_CONDITIONAL:
            selector, is_pred = r.slice(), bool(r.u8())
            branches = []
            for _ in range(r.u32()):  # no generator: each level of it would take from the C stack
                branches.append(_read_thunks(r, depth + 1))
            thunks.append(Conditional(selector, is_pred, tuple(branches), debug))
        elif kind == THUNK_LIBRARY_CALL:
            name, cost = r.string(), r.f64()
            operands = tuple(Operand(r.slice(), r.shape()) for _ in range(r.u32()))
            results = tuple(Operand(r.slice(), r.shape()) for _ in range(r.u32()))
            attributes = {r.string(): _read_attribute(r) for _ in range(r.u32())}
            thunks.append(LibraryCall(name, operands, results, attributes, cost, debug))
        else:
            raise ArtifactError(f"artifact: unknown thunk kind {kind}")
    return tuple(thunks)


def _read_values(r: _Reader) -> tuple[Value, ...]:
    return tuple(Value(r.shape(), r.string()) for _ in range(r.u32()))


def deserialize(data: bytes) -> Executable:
    """The executable that ``data`` holds.

    Raises ArtifactError, and nothing else, for bytes that are not an artifact of this format version or are damaged. It
    checks what it needs to read them; whether slices and functions are inside their allocations and code is checked by
    the runtime (core/runtime/artifact.cc).
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
    with deep_recursion():
        return _read_executable(_read_sections(data, count))


def _read_sections(data: bytes, count: int) -> dict[int, bytes]:
    """The bytes of each section; empty for one that may be left out."""
    if _HEADER.size + count * _SECTION.size > len(data):
        raise ArtifactError(f"artifact: {count} sections do not fit in {len(data)} bytes")
    sections: dict[int, bytes] = {}
    for i in range(count):
        kind, _, offset, length = _SECTION.unpack_from(data, _HEADER.size + i * _SECTION.size)
        if offset + length > len(data):
            raise ArtifactError(f"artifact: section {kind} is outside the {len(data)} bytes")
        if kind in sections or not SECTION_META <= kind <= SECTION_SIZES:
            raise ArtifactError(f"artifact: section {kind} is unknown or there twice")
        sections[kind] = data[offset : offset + length]
    if SECTION_META not in sections:
        raise ArtifactError("artifact: section META is missing")
    for kind in (SECTION_CODE, SECTION_CONSTANTS, SECTION_DEBUG, SECTION_PROGRAM):
        sections.setdefault(kind, b"")
    return sections


def _read_executable(sections: dict[int, bytes]) -> Executable:
    r = _Reader(sections[SECTION_META])
    name, target, triple, cpu, compiler_version, fingerprint = (r.string() for _ in range(6))
    cpu_features = tuple(r.string() for _ in range(r.u32()))
    num_replicas, num_partitions = r.i64(), r.i64()
    costs = Costs(r.f64(), r.f64(), r.f64(), r.f64())
    parameters, results = _read_values(r), _read_values(r)
    donatable = tuple(r.i64() for _ in range(r.u32()))
    imports = tuple((r.string(), r.i64()) for _ in range(r.u32()))
    allocations = tuple(
        Allocation(r.u8(), r.i64(), r.i64(), r.i64(), r.i64()) for _ in range(r.u32())
    )
    thunks = _read_thunks(r)
    d = _Reader(sections[SECTION_DEBUG])
    debug = tuple(
        DebugInfo(
            d.string(),
            d.string(),
            d.string(),
            d.i64(),
            d.string(),
            d.string(),
            d.f64(),
            d.f64(),
        )
        for _ in range(d.u32() if d.data else 0)
    )
    visible_results = -1
    dynamic_results: tuple[tuple[int, int, int], ...] = ()
    size_checks: tuple[tuple[int, str], ...] = ()
    if SECTION_SIZES in sections:
        s = _Reader(sections[SECTION_SIZES])
        visible_results = s.i64()
        dynamic_results = tuple((s.i64(), s.i64(), s.i64()) for _ in range(s.u32()))
        size_checks = tuple((s.i64(), s.string()) for _ in range(s.u32()))
    return Executable(
        name=name,
        target=target,
        triple=triple,
        cpu=cpu,
        cpu_features=cpu_features,
        compiler_version=compiler_version,
        fingerprint=fingerprint,
        parameters=parameters,
        results=results,
        allocations=allocations,
        thunks=thunks,
        code=sections[SECTION_CODE],
        constants=sections[SECTION_CONSTANTS],
        imports=imports,
        donatable_parameters=donatable,
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        visible_results=visible_results,
        dynamic_results=dynamic_results,
        size_checks=size_checks,
        costs=costs,
        debug=debug,
        program=sections[SECTION_PROGRAM],
    )
