"""The records of an executable artifact. ``core/compiler/formats/artifact.py`` says how they make a file.

Memory at run time. Values live in *allocations*; a :class:`Slice` names a piece of one. An allocation is a parameter's
buffer, a result's buffer, a constant, or the temporary arena of one execution. All allocations start at a multiple of
64 bytes and are readable and writable (constants and parameters: readable) up to the next multiple of 64. A result
allocation with ``aliased_parameter = j`` shares the memory of donated parameter j: the compiled code finds the
parameter's content there and leaves the result there. (When the caller did not donate it, the runtime makes a fresh
buffer and first copies the parameter into it.) Parameter j then has no allocation of its own. An allocation of the kind
VIEW is a piece of another allocation: a :class:`View` says which, and nobody writes it.

Kernels. ``void kernel(void* const* arguments, int64_t begin, int64_t end)``: ``arguments[i]`` is the address of the
thunk's i-th slice; the kernel does units of work [begin, end) out of [0, work_count). Any split of the range over
threads is right; a range of at most ``grain`` units is not worth another thread. Kernels call nothing outside the image
but the ``imports``: 8-byte slots in the image that the loader fills with the addresses of functions it knows by name
(``memcpy``, ``memset``, ``memmove``, ``fmod``, ``fmodf``), before the image becomes read-only and executable.

Library calls carry a name, operands, results and attributes; ``core/runtime/library`` has one entry a name and refuses
names and attributes it does not know when the artifact is loaded, not when it runs.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from .layouts import version
from .records import F64, FIRST, I32, I64, LAST, U32, U64, Section, in_section

if TYPE_CHECKING:
    from tripont.core.compiler.ir.hlo import Shape

FORMAT_VERSION: Final = version("artifact")


class SectionKind(enum.IntEnum):
    """What a section of the file holds (``core/compiler/formats/artifact.py``)."""

    META = 1
    CODE = 2
    CONSTANTS = 3
    DEBUG = 4
    PROGRAM = 5
    SIZES = 6


IN_DEBUG = in_section("DEBUG")
IN_SIZES = in_section("SIZES")


@dataclass(frozen=True, slots=True)
class Slice:
    """``size`` bytes at ``offset`` of allocation number ``allocation``."""

    allocation: U32
    offset: U64
    size: U64


class AllocationKind(enum.IntEnum):
    """What an allocation holds."""

    PARAMETER = 0
    RESULT = 1
    CONSTANT = 2
    TEMP = 3
    VIEW = 4


@dataclass(slots=True)
class Allocation:
    """``index``: parameter or result number (0 otherwise). ``offset``: of a constant in CONSTANTS."""

    kind: AllocationKind
    index: I64
    size: I64
    offset: I64 = 0
    aliased_parameter: I64 = -1


@dataclass(slots=True)
class Kernel:
    """Call the function at ``function`` in CODE over ``work_count`` units. ``cost_ns``: estimate on one core."""

    function: I64
    arguments: tuple[Slice, ...] = field(metadata=LAST)
    work_count: I64
    grain: I64
    cost_ns: F64
    debug: I32 = field(default=-1, metadata=FIRST)  # index into Executable.debug


@dataclass(slots=True)
class Copy:
    """Copy ``source`` over ``destination`` (equal sizes, no overlap unless they are the same slice)."""

    destination: Slice
    source: Slice
    debug: I32 = field(default=-1, metadata=FIRST)


@dataclass(slots=True)
class While:
    """Run ``condition``; while the pred byte in ``predicate`` is not 0, run ``body`` and ``condition`` again.

    ``trip_count``: the number of iterations if known when compiling, else -1 (then ``condition`` is still run).
    """

    condition: tuple[Thunk, ...] = field(metadata=LAST)
    body: tuple[Thunk, ...] = field(metadata=LAST)
    predicate: Slice
    trip_count: I64 = -1
    debug: I32 = field(default=-1, metadata=FIRST)


@dataclass(slots=True)
class Conditional:
    """Run one branch. A pred selector (1 byte) runs branch 0 if true, else 1; an s32 out of range runs the last.

    ``usual``: the branch that runs but for exceptions, which says how long the program takes; -1: the longest may.
    """

    selector: Slice
    selector_is_pred: bool
    branches: tuple[tuple[Thunk, ...], ...]
    usual: I32 = -1
    debug: I32 = field(default=-1, metadata=FIRST)


@dataclass(frozen=True, slots=True)
class Operand:
    """An array in memory: where, and what it is."""

    slice: Slice
    shape: Shape


@dataclass(frozen=True, slots=True)
class FunctionOffset:
    """A library attribute that is a function in CODE (a sort's comparator, a reduction's body)."""

    offset: I64


if TYPE_CHECKING:  # text is written as bytes, a number as a list of one
    Attribute = bool | int | float | str | bytes | Sequence[int] | Sequence[float] | FunctionOffset
else:
    Attribute = tuple[I64, ...] | tuple[F64, ...] | bytes | FunctionOffset


@dataclass(slots=True)
class LibraryCall:
    """Call the runtime's library function ``name``."""

    name: str
    operands: tuple[Operand, ...] = field(metadata=LAST)
    results: tuple[Operand, ...] = field(metadata=LAST)
    attributes: dict[str, Attribute] = field(metadata=LAST)
    cost_ns: F64
    debug: I32 = field(default=-1, metadata=FIRST)


@dataclass(frozen=True, slots=True)
class Stride:
    """``index``, s32 or s64, moves a view by ``stride`` bytes, and is taken as 0 below 0 and as ``limit`` above it."""

    index: Slice
    limit: I64
    stride: I64


@dataclass(slots=True)
class View:
    """From here on ``view``, the whole of a VIEW, is the piece of ``source`` that the ``strides`` lead to.

    No index leads out of ``source``, which may be a piece of a VIEW that an earlier thunk has set. Each VIEW is set by
    one thunk, which no other thunk that names the VIEW precedes.
    """

    view: Slice
    source: Slice
    strides: tuple[Stride, ...] = field(metadata=LAST)
    debug: I32 = field(default=-1, metadata=FIRST)


Thunk = Kernel | Copy | While | Conditional | LibraryCall | View


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
    source_line: I64 = 0
    text: str = ""
    category: str = ""  # "loop fusion", the name of a library call, or an opcode
    flops: F64 = 0.0  # of one run; 0: none, or not known
    bytes_accessed: F64 = 0.0  # operands and results, once each


@dataclass(slots=True)
class Costs:
    """Estimates of one execution, as PJRT's cost analysis reports them; time on one core."""

    flops: F64 = 0.0
    transcendentals: F64 = 0.0
    bytes_accessed: F64 = 0.0
    optimal_nanoseconds: F64 = 0.0


class Import(NamedTuple):
    """An 8-byte slot of CODE that the loader fills with a function's address."""

    symbol: str
    offset: I64


class DynamicDimension(NamedTuple):
    """Dimension ``dimension`` of result ``result`` is a bound; result ``size_result``, s32[], is its size."""

    result: I64
    dimension: I64
    size_result: I64


class SizeCheck(NamedTuple):
    """Unless result ``result``, pred[], is true, the execution has failed, and ``message`` says why."""

    result: I64
    message: str


@dataclass(slots=True, kw_only=True)
class Executable:
    """A compiled program."""

    name: str
    target: str  # its name (core/compiler/targets)
    triple: str
    cpu: str
    compiler_version: str
    fingerprint: str
    # All that the host CPU must have, LLVM's names (empty for other targets).
    cpu_features: tuple[str, ...]
    num_replicas: I64 = 1
    num_partitions: I64 = 1
    num_threads: I64 = 0  # that one execution may use on the host; 0: as many as the process has
    costs: Costs = field(default_factory=Costs)
    parameters: tuple[Value, ...]
    results: tuple[Value, ...]
    # Parameters that the program may overwrite when donated: those aliased by a result and the buffer donors.
    donatable_parameters: tuple[I64, ...] = ()
    imports: tuple[Import, ...] = ()
    allocations: tuple[Allocation, ...]
    thunks: tuple[Thunk, ...]
    debug: tuple[DebugInfo, ...] = field(default=(), metadata=IN_DEBUG)
    # For sizes that depend on values: results from visible_results on (-1: none) are sizes and truth values, which are
    # for the runtime alone. Result i of ``DynamicDimension(i, d, j)`` has the shape of its bounds; result j says how
    # many elements along dimension d are there, counted from 0.
    visible_results: U64 = field(default=-1, metadata=IN_SIZES)
    dynamic_results: tuple[DynamicDimension, ...] = field(default=(), metadata=IN_SIZES)
    size_checks: tuple[SizeCheck, ...] = field(default=(), metadata=IN_SIZES)
    code: Section  # a flat position-independent image
    constants: Section  # the literals, each at a multiple of 64
    program: Section = b""  # the optimised HLO as HloModuleProto bytes; may be empty
