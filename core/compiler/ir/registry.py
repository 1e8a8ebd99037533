"""The registry of ops: all that the compiler knows of an op, in one value.

An :class:`Op` holds what an instruction of it looks like, its properties, and its rules: the shape of its result, its
value on NumPy arrays, its HLO. :mod:`..ops` has one :func:`register` call for each op, in files by family, and packages
that are installed beside this one register theirs in the same way. The verifier, the evaluator, the writers, the cost
models and the passes look here, and know no op by a list of names.

``OPS["add"]`` is the op of an opcode. The families are imported when somebody first looks for an op, so that no module
must look while it is imported itself: an op that is registered later would be unknown to it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from .errors import CompileError

if TYPE_CHECKING:
    from .hlo import AnyShape, Instruction

#: Any number of operands or of called computations.
ANY: Final = -1

#: The package with the families, and where packages that are installed beside this one name their modules with ops.
FAMILIES: Final = "tripont.core.compiler.ops"
ENTRY_POINTS: Final = "tripont.ops"

Array = np.ndarray[Any, Any]
ShapeRule = Callable[["Instruction"], "AnyShape"]
# Of an elementwise op the result, of another one a list of the results.
Evaluation = Callable[..., Any]
AttributePrinter = Callable[[str, Any], str]
# Of the reader of a block and an MLIR operation: the instruction, or the instructions, of its results. (Their types are
# those of importer/stablehlo.py, which knows MLIR.)
Reader = Callable[[Any, Any], Any]
# The same of a custom call or composite, whose configuration is the third argument. None: it stays a call.
CallReader = Callable[[Any, Any, dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Absent:
    """In the place of a part: that the op has none, and why."""

    reason: str


class HloReader(NamedTuple):
    """How an instruction of an HloModuleProto becomes instructions of ours (``importer/hlo_instructions.py``).

    ``read``: of the reader of a computation and the instruction, the value or values of the result, or None for an
    instruction that only jaxlib's conversion knows. ``fields``: the fields of HloInstructionProto that ``read`` looks
    at, beside those that all instructions have; an instruction with others is not for it. ``takes_tuples``: whether
    operands may be tuples.
    """

    read: Callable[[Any, Any], Any]
    fields: frozenset[int] = frozenset()
    takes_tuples: bool = False


#: In the place of a reader: the operation is the op on the same operands, without attributes.
AS_IT_STANDS: Final = "as it stands"

_MISSING: Final[Any] = Absent("it was not given")


# Of a rule's scope (sizes/resolve.py), the old instruction and its new operands: the new results.
SizeRule = Callable[[Any, "Instruction", Sequence["Instruction"]], "list[Instruction]"]
# Of an instruction and the context of library rules (passes/library/context.py): what replaces it, or None.
LibraryRule = Callable[["Instruction", Any], "Instruction | None"]
# Of a kernel's generator, an instruction, and the values of its operands, or its index: the value of an element.
ElementRule = Callable[[Any, "Instruction", Any], Any]
# Of an LLVM module, a target, an instruction and a name: the kernel (codegen/kernels/emit.py).
Emitter = Callable[[Any, Any, "Instruction", str], Any]


class OpError(Exception):
    """An op is registered without a part, or twice."""


# ---------------------------------------------------------------------------------------------------- properties

#: Whether an instruction on constants is computed when the program is compiled. SLOWLY: only a small one, since the
#: reference takes a millisecond an element and more. NEVER: its value is not a function of the operands' values, or
#: would only make the program larger.
FOLDED: Final = "folded"
SLOWLY: Final = "slowly"
NEVER: Final = "never"

#: Whether the result is a number of its dtype, where kernels hold floats of at most 16 bits in f32 registers.
#: COMPUTES: it must be rounded. EXACT: it is one if the operands are. CHOOSES: it is an operand, but for its sign.
#: IN_DTYPE: it is one whatever the operands are.
COMPUTES: Final = "computes"
EXACT: Final = "exact"
CHOOSES: Final = "chooses"
IN_DTYPE: Final = "in dtype"

#: How far the result may be off, for the reference evaluation with random rounding. ROUNDED: by one rounding. SUMMED:
#: by the rounding of a sum of many terms. A number: by so many units in the last place. None: not at all.
ROUNDED: Final = "rounded"
SUMMED: Final = "summed"

#: Whether an instruction that is the same in all iterations of a loop is computed before it. WORTH: for its own sake.
#: PACKING: likewise, once kernels have been chosen. ALONG: if such an instruction needs it, as with all elementwise
#: ops.
WORTH: Final = "worth"
PACKING: Final = "packing"
ALONG: Final = "along"


@dataclass(frozen=True, slots=True)
class Price:
    """What one element costs, roughly.

    ``instructions``: vector instructions, by which fusion decides what is computed twice. ``nanoseconds``: the time
    of a full vector, by which kernels are cut into work for threads. ``of_integers``: the price for integer operands,
    if it is another.
    """

    instructions: float = 1.0
    nanoseconds: float = 0.15
    of_integers: Price | None = None


FREE: Final = Price(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """What is known of an op. A part is required unless it has a default; :class:`Absent` says why there is none.

    What an instruction looks like:

    ``operands``: their number, or ANY. ``attributes``: names that must be present. ``elementwise``: the result's
    element at an index depends on the operands' elements at that index alone, and all operands have the result's
    dimensions (the first and last operand of ``clamp`` and the first of ``select`` may also be scalars). ``called``:
    the number of called computations, or ANY. ``side_effect``: never removed. ``kinds``: the kinds of dtype that an
    elementwise op takes; empty for all.

    Rules:

    ``shape``: the shape that operands, attributes and called computations imply. ``check``: what else must hold
    (both raise :class:`.shape_rules.InvalidInstruction`). ``evaluate``: the reference, a function of the instruction
    and its operands as NumPy arrays. ``flops``: floating-point operations of one execution, by default one for each
    element if the op is elementwise.

    Reading:

    ``from_hlo``: the reader of HLO's instruction; by default AS_IT_STANDS for elementwise ops without attributes that
    StableHLO has. Without one, a program that has the instruction is converted to StableHLO and read from there.
    ``read``: the reader of each MLIR operation that means the op, or AS_IT_STANDS. ``calls``, ``composites``: the
    readers of custom calls, by target, and of StableHLO's composites, by name. An op that is read has one of the three.

    Sizes that depend on values:

    ``sizes``: what becomes of an instruction whose operands have such sizes, for an op of another package that is not
    elementwise. Those of the ops here stand in ``sizes/table.py``.

    Code, of which one way is needed, or an Absent in ``code`` that says what replaces the op before:

    ``expand``: the decomposition into other ops. ``library``: the call of the runtime's library, if one is better.
    ``generate``: of an elementwise op, an element from its operands' elements (bool, integers, floats);
    ``generate_complex``: the same of complex numbers. ``elements``: an element by its index. ``kernel``: that of an
    instruction that is not fused. (Instructions that are aliases or thunks need none.)

    HLO:

    ``fields``: the fields of HloInstructionProto. ``hlo_name``: HLO's opcode, by default the name (or a function of the
    instruction). ``hlo_call``: the target of the custom call that stands for an op that HLO does not have. ``text``:
    how attributes are printed, by name. ``whole_text``: how all attributes are printed together. ``callees``: the names
    of the called computations, or a function that prints them.

    Properties, beside those that are constants of this module:

    ``price``: what an element costs. ``transcendental``: counted as such. ``counted``: whether cost analysis counts the
    instruction at all. ``counts_bodies``: whether the called computations are counted with it. ``reads_memory``: no
    kernel computes its operands together with it. ``runs_thunks``: the called computations are sequences of thunks, not
    bodies inside a kernel. ``is_alias``: the result is the memory of an operand, a parameter or a constant, or
    memory that is not written.
    ``is_thunk``: it becomes a thunk without a kernel. ``moves``: elements are moved, not computed with. ``jumps``: a
    small change of the operand may change the result by much. ``stays_in_registers``: a kernel has the value without
    reading memory. ``ulps``: the largest error of the generated function, in units in the last place, in f32 and f64
    over the whole domain, denormal numbers included (``benchmarks/accuracy.py`` measures it: docs/accuracy.md), rounded
    up; None if programs may not ask for it. ``is_bounded``: the function's results are at most 1.
    """

    name: str
    operands: int
    attributes: tuple[str, ...] = ()
    elementwise: bool = False
    called: int = 0
    side_effect: bool = False
    kinds: tuple[str, ...] = ()

    shape: ShapeRule | Absent = _MISSING
    check: Callable[[Instruction], None] | None = None
    evaluate: Evaluation | Absent = _MISSING
    flops: Callable[[Instruction], float] | None = None

    from_hlo: HloReader | str | None = None
    read: Mapping[str, Reader | str] | Absent = _MISSING
    calls: Mapping[str, CallReader] = field(default_factory=dict)
    composites: Mapping[str, CallReader] = field(default_factory=dict)

    sizes: SizeRule | Absent | None = None

    code: Absent | None = None
    expand: Callable[[Instruction], Instruction | None] | None = None
    library: LibraryRule | None = None
    generate: ElementRule | None = None
    generate_complex: ElementRule | None = None
    elements: ElementRule | None = None
    kernel: Emitter | None = None
    #: Whether an element can be computed by its index, and the instruction be part of a fusion.
    is_indexable: bool = field(init=False, default=False)

    fields: Callable[[Instruction], bytes] | Absent = _MISSING
    hlo_name: str | Callable[[Instruction], str] = ""
    hlo_call: str = ""
    text: Mapping[str, AttributePrinter] = field(default_factory=dict)
    whole_text: Callable[[Mapping[str, Any]], str] | None = None
    callees: Callable[[Instruction, Sequence[str]], list[str]] | tuple[str, ...] = ("to_apply",)

    price: Price = _MISSING
    transcendental: bool = False
    counted: bool = True
    counts_bodies: bool = False
    reads_memory: bool = False
    runs_thunks: bool = False
    is_alias: bool = False
    is_thunk: bool = False
    moves: bool = False
    jumps: bool = False
    stays_in_registers: bool = False
    folding: str = FOLDED
    rounding: str = COMPUTES
    error: str | float | None = None
    ulps: int | None = None
    is_bounded: bool = False
    hoisting: str = ""

    def __post_init__(self) -> None:
        indexable = bool(self.generate or self.generate_complex or self.elements)
        object.__setattr__(self, "is_indexable", indexable)


class _Ops(dict[str, Op]):
    """Ops by name, for ``OPS[name]`` alone: whoever wants all of them asks :func:`all_ops`."""

    def __missing__(self, name: str) -> Op:
        load()
        if not dict.__contains__(self, name):
            raise KeyError(name)
        return dict.__getitem__(self, name)


OPS: Final = _Ops()


def find(name: str) -> Op | None:
    """The op of that name, or None."""
    try:
        return OPS[name]
    except KeyError:
        return None


def all_ops() -> list[Op]:
    """All ops that are registered."""
    load()
    return list(OPS.values())


def load() -> None:
    """Import the families, and after them the ops of installed packages.

    Raises CompileError (UNAVAILABLE), which names the module, for ops of a package that cannot be registered.
    """
    importlib.import_module(FAMILIES)


def load_installed() -> None:
    """Import the modules that installed packages name in the group :data:`ENTRY_POINTS`. Raises as :func:`load`."""
    for entry in _installed():
        try:
            entry.load()
        except Exception as error:
            raise CompileError(
                "UNAVAILABLE", f"the ops of {entry.value} cannot be loaded: {error}"
            ) from error


def installed() -> list[str]:
    """The packages that have ops, with their versions: ``abacus-1.0``."""
    distributions = [entry.dist for entry in _installed()]
    return sorted({f"{d.name}-{d.version}" for d in distributions if d is not None})


def _installed() -> Sequence[importlib.metadata.EntryPoint]:
    return tuple(importlib.metadata.entry_points(group=ENTRY_POINTS))


def register(name: str, **parts: Any) -> Op:
    """Register the op ``name`` with the fields of :class:`Op` as its parts.

    Raises OpError, which names the op and the part, if a part is missing or unknown, or if there is such an op.
    """
    if dict.__contains__(OPS, name):
        raise OpError(f"the op {name!r} is registered twice")
    unknown = parts.keys() - {f.name for f in fields(Op) if f.init}
    if unknown:
        raise OpError(f"the op {name!r} is registered with an unknown part {min(unknown)!r}")
    if not parts.get("elementwise"):
        parts.setdefault("price", Price())
    op = Op(name=name, **parts)
    for part in _required(op):
        if getattr(op, part) is _MISSING:
            raise OpError(f"the op {name!r} is registered without its part {part!r}")
    ways = (op.code, op.expand, op.library, op.kernel, op.is_indexable, op.is_alias, op.is_thunk)
    if not any(ways):
        raise OpError(
            f"the op {name!r} is registered without its part 'code': nothing says how it becomes code"
        )
    read_as({} if isinstance(op.read, Absent) else op.read, op.calls, op.composites, name)
    _read_from_hlo(op)
    OPS[name] = op
    return op


#: The kernels of kinds of fusion that are not ops. ``ops/fusion.py`` fills it.
FUSION_KINDS: Final[dict[str, Emitter]] = {}


def kernel_of_kind(kind: str) -> Emitter | None:
    """The kernel of a fusion: that of its kind, or that of the op that its kind names."""
    if not FUSION_KINDS:
        load()
    if kind in FUSION_KINDS:
        return FUSION_KINDS[kind]
    op = find(kind)
    return op.kernel if op else None


#: How each MLIR operation, custom call and composite is read, by name. Filled by registrations: :func:`load` first.
OPCODES_AS_THEY_STAND: Final[dict[str, str]] = {}
READERS: Final[dict[str, Reader]] = {}
CALLS: Final[dict[str, CallReader]] = {}
COMPOSITES: Final[dict[str, CallReader]] = {}


#: The op of each opcode of HLO that is read as it stands, and the reader of the others. Filled by registrations.
HLO_AS_THEY_STAND: Final[dict[str, str]] = {}
HLO_READERS: Final[dict[str, HloReader]] = {}


def _read_from_hlo(op: Op) -> None:
    """Enter ``op`` into the tables of HLO's opcodes."""
    reader = op.from_hlo
    read = {} if isinstance(op.read, Absent) else op.read
    if reader is None and op.elementwise and not op.attributes:
        reader = AS_IT_STANDS if f"stablehlo.{op.name.replace('-', '_')}" in read else None
    name = op.hlo_name if isinstance(op.hlo_name, str) and op.hlo_name else op.name
    if isinstance(reader, HloReader):
        HLO_READERS[name] = reader
    elif reader is not None:
        HLO_AS_THEY_STAND[name] = op.name


#: What becomes of a HloModuleProto before it is converted to StableHLO. Wings fill it, as registrations fill the tables
#: above. Each raises ValueError for bytes that are not a message.
PROTO_REWRITES: Final[list[Callable[[bytes], bytes]]] = []


def rewritten_proto(program: bytes) -> bytes:
    """``program``, a HloModuleProto, after :data:`PROTO_REWRITES`."""
    load()
    for rewrite in PROTO_REWRITES:
        program = rewrite(program)
    return program


def read_as(
    read: Mapping[str, Reader | str],
    calls: Mapping[str, CallReader] | None = None,
    composites: Mapping[str, CallReader] | None = None,
    opcode: str = "",
) -> None:
    """Register how operations are read: those of one op, or (without ``opcode``) of several ops together.

    Raises OpError for a name that is registered.
    """
    for name, reader in read.items():
        if name in READERS or name in OPCODES_AS_THEY_STAND:
            raise OpError(f"the operation {name!r} has two readers")
        if isinstance(reader, str):
            OPCODES_AS_THEY_STAND[name] = opcode
        else:
            READERS[name] = reader
    for table, given, kind in (
        (CALLS, calls, "custom call"),
        (COMPOSITES, composites, "composite"),
    ):
        for name, call_reader in (given or {}).items():
            if name in table:
                raise OpError(f"the {kind} {name!r} has two readers")
            table[name] = call_reader


def both(**readers: Reader | str) -> dict[str, Reader | str]:
    """The readers of operations that StableHLO and MHLO have."""
    dialects = ("stablehlo", "mhlo")
    return {f"{dialect}.{name}": reader for dialect in dialects for name, reader in readers.items()}


def _required(op: Op) -> Iterator[str]:
    yield from ("shape", "evaluate")
    if not (op.calls or op.composites):
        yield "read"
    if op.attributes:
        yield "fields"
    if op.elementwise:
        yield "price"
