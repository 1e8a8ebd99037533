"""Lowering: a scheduled module with its buffer assignment becomes a thunk sequence.

Every instruction that is not an alias becomes one thunk: a kernel (a fusion, or an opcode that code
generation has an emitter for), a library call, a loop, a conditional; the moves that buffer
assignment asks for become copies around them. The functions that thunks call are not written here:
:attr:`Lowered.wanted` lists what each has to compute, and :mod:`.emission` writes them. Equal fusions
and equal instructions share one function.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tripont.core.schema.artifact import Costs

from ..formats import artifact, ffi_attributes
from ..formats.artifact import (
    Conditional,
    Copy,
    DebugInfo,
    Kernel,
    LibraryCall,
    Slice,
    Stride,
    Thunk,
    View,
    While,
)
from ..fusion.fused import attributes_key
from ..ir import cost
from ..ir.errors import internal, of_instruction
from ..ir.hlo import Computation, Instruction, Module, Shape
from ..ir.registry import OPS
from ..memory.buffers import Assignment, Move
from ..memory.views import is_view, piece_of

if TYPE_CHECKING:
    from ..targets.costs import Library


@dataclass(frozen=True, slots=True)
class Wanted:
    """A function that thunks call: it computes ``instruction``, and is called ``name`` or nearly so.

    For a library call, it is what ``instruction`` has in ``called``, for the library to call back.
    """

    instruction: Instruction
    name: str


@dataclass(slots=True)
class Lowered:
    """A thunk sequence. A kernel's ``function`` is an index into ``wanted`` and ``symbols`` until the code is linked.

    Emission fills ``symbols``, the ``work_count``, ``grain`` and ``cost_ns`` of the kernels, and the attributes that
    library calls need for their callbacks; it adds the functions of loops, which nobody wanted before their costs were
    known.
    """

    module: Module
    assignment: Assignment
    thunks: list[Thunk] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)
    # The call, and its function.
    callbacks: list[tuple[LibraryCall, int]] = field(default_factory=list)
    debug: list[DebugInfo] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)  # that of each DebugInfo
    functions: dict[Instruction, int] = field(default_factory=dict)  # what computes each
    symbols: list[str] = field(default_factory=list)
    # Which kernels a loop or a merged kernel calls.
    calls: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # how many functions have a name

    def unique(self, base: str) -> str:
        """A function name that begins with ``base``, used once."""
        count = self.names.get(base, 0)
        self.names[base] = count + 1
        return f"{base}.{count}" if count else base

    def name_for(self, instruction: Instruction) -> str:
        """A function name from the instruction's, used once."""
        return self.unique((instruction.name or instruction.opcode).replace("-", "_").split(".")[0])

    def symbol_of(self, instruction: Instruction) -> str:
        """The symbol of the kernel that computes ``instruction``; empty if no kernel does, or none is written yet."""
        number = self.functions.get(instruction, len(self.symbols))
        return self.symbols[number] if number < len(self.symbols) else ""


def lower(module: Module, assignment: Assignment, costs: Library) -> Lowered:
    """The thunks of ``module``, fused and scheduled, on the memory of ``assignment``.

    Raises CompileError INTERNAL for copies and operands that do not fit their memory, and UNIMPLEMENTED for kernels of
    other values than arrays.
    """
    return _Lowering(module, assignment, costs).run()


class _Lowering:
    def __init__(self, module: Module, assignment: Assignment, costs: Library) -> None:
        self.module = module
        self.costs = costs
        self.assignment = assignment
        self.numbers: dict[Hashable, int] = {}  # of wanted functions
        self.estimates: dict[Hashable, Costs | None] = {}  # of fusions
        self.result = Lowered(module, assignment)

    def run(self) -> Lowered:
        self.result.thunks = self.lower(self.module.entry)
        self.result.thunks += self.copies(None, "results")
        return self.result

    def lower(self, computation: Computation) -> list[Thunk]:
        thunks: list[Thunk] = []
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if OPS[opcode].is_alias:
                continue
            if opcode == "while":
                thunks += self.lower_while(instruction)
            elif opcode == "conditional":
                thunks.append(self.lower_conditional(instruction))
            else:
                thunks += self.copies(instruction, "copy")
                if opcode == "library-call":
                    thunks.append(self.lower_library_call(instruction))
                elif opcode == "collective-done":
                    meeting = {"meeting": instruction.attributes["meeting"]}
                    debug = self.debug(instruction)
                    thunks.append(LibraryCall(opcode, (), (), meeting, 0.0, debug))
                elif opcode == "custom-call":
                    thunks.append(self.lower_custom_call(instruction))
                elif opcode == "copy":
                    (source,), (destination,) = (
                        self.operand_slices(instruction),
                        self.assignment.slices(instruction),
                    )
                    thunks.append(self.copy_thunk(destination, source, instruction))
                elif is_view(instruction):
                    thunks.append(self.lower_view(instruction))
                elif any(isinstance(s, Shape) and s.elements for s in instruction.result_shapes):
                    thunks.append(self.lower_kernel(instruction))
        return thunks

    # ------------------------------------------------------------------------------- kinds of thunk
    def lower_kernel(self, instruction: Instruction) -> Kernel:
        for o in instruction.operands:
            if not isinstance(o.shape, Shape):
                raise of_instruction("UNIMPLEMENTED", "no kernel takes this operand", instruction)
        if instruction.opcode == "fusion":
            key: Hashable = instruction.called[0]  # fusion makes equal computations one object
        else:
            shapes = tuple(o.shape for o in instruction.operands)
            same = tuple(instruction.operands.index(o) for o in instruction.operands)
            key = (instruction.opcode, instruction.shape, shapes, same, attributes_key(instruction))
        number = self.result.functions[instruction] = self.wanted(key, instruction)
        arguments = self.operand_slices(instruction) + self.assignment.slices(instruction)
        return Kernel(number, tuple(arguments), 0, 1, 0.0, self.debug(instruction))

    def wanted(self, key: Hashable, instruction: Instruction) -> int:
        """The number of the function for ``instruction``, shared with all instructions of the same ``key``."""
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.result.wanted)
            name = self.result.name_for(instruction)
            self.result.wanted.append(Wanted(instruction, name))
        return number

    def lower_library_call(self, instruction: Instruction) -> LibraryCall:
        a = self.assignment
        operands = [  # of the operand's own shape: a value seen through a bitcast has another one
            artifact.Operand(a.slice_of(value), operand.shape)  # type: ignore[arg-type]
            for operand in instruction.operands
            if (value := a.values[operand][0]) is not None
        ]
        results = [
            artifact.Operand(a.slice_of(v), v.shape) for v in a.values[instruction] if v is not None
        ]
        config = dict(instruction.attributes["config"])
        cost = float(config.pop("cost_ns", 0.0))
        name = instruction.attributes["name"]
        debug = self.debug(instruction)
        call = LibraryCall(name, tuple(operands), tuple(results), config, cost, debug)
        if instruction.called:  # calls of equal bodies and dtypes share a function
            key = (name == "sort", instruction.called[0], instruction.operands[0].dtype)
            self.result.callbacks.append((call, self.wanted(key, instruction)))
        return call

    def lower_custom_call(self, instruction: Instruction) -> LibraryCall:
        """A call of the user's code, which the runtime finds by its name when it loads the program."""
        given = instruction.attributes
        config = given["backend_config"]
        if isinstance(config, Mapping):
            config = ffi_attributes.encode(config, instruction)
        elif given["api_version"] >= ffi_attributes.API_VERSION and not config:
            config = ffi_attributes.encode({}, instruction)
        a = self.assignment
        operands = [a.values[o][0] for o in instruction.operands]
        results = a.values[instruction]
        arrays = [artifact.Operand(a.slice_of(v), v.shape) for v in results if v is not None]
        # An aliased operand is its result's memory, into which its value has been copied.
        shared = {m: results[n] for n, m in given["output_operand_aliases"]}
        moved = [
            artifact.Operand(a.slice_of(shared.get(m) or v), o.shape)  # type: ignore[arg-type]
            for m, (v, o) in enumerate(zip(operands, instruction.operands, strict=True))
            if v is not None
        ]
        attributes: dict[str, artifact.Attribute] = {
            "target": given["custom_call_target"],
            "api_version": given["api_version"],
            "backend_config": config,
            "token_operands": [n for n, v in enumerate(operands) if v is None],
            "token_results": [n for n, v in enumerate(results) if v is None],
        }
        size = sum(o.shape.bytes for o in (*arrays, *moved))
        return LibraryCall(
            "custom-call",
            tuple(moved),
            tuple(arrays),
            attributes,
            self.costs.custom_call + size / self.costs.custom_byte_rate,
            self.debug(instruction),
        )

    def lower_view(self, instruction: Instruction) -> View:
        """A view: nothing is computed or copied."""
        piece = piece_of(instruction.called[0].root)
        base, *_ = places = self.operand_slices(instruction)
        strides = [
            Stride(places[index.attributes["index"]], limit, stride)
            for index, limit, stride in piece.strides
        ]
        (view,) = self.assignment.slices(instruction)
        source = Slice(base.allocation, base.offset + piece.offset, base.size - piece.offset)
        return View(view, source, tuple(strides), self.debug(instruction))

    def lower_while(self, instruction: Instruction) -> list[Thunk]:
        condition, body = instruction.called
        thunks = self.copies(instruction, "init")
        predicate = self.assignment.values[condition.results[0]][0]
        assert predicate is not None
        loop = While(
            tuple(self.lower(condition)),
            (*self.lower(body), *self.copies(instruction, "body")),
            self.assignment.slice_of(predicate),
            instruction.attributes.get("trip_count", -1),
            self.debug(instruction),
        )
        thunks.append(loop)
        return thunks

    def lower_conditional(self, instruction: Instruction) -> Thunk:
        selector = self.assignment.values[instruction.operands[0]][0]
        assert selector is not None
        branches = [
            (*self.lower(branch), *self.copies(instruction, str(n)))
            for n, branch in enumerate(instruction.called)
        ]
        return Conditional(
            self.assignment.slice_of(selector),
            selector.shape.dtype.kind == "pred",
            tuple(branches),
            instruction.attributes.get("usual", -1),
            self.debug(instruction),
        )

    def copies(self, instruction: Instruction | None, place: str) -> list[Thunk]:
        moves = self.assignment.moves.get((instruction, place))
        if not moves:  # most
            return []
        return [c for c in (self.copy(m, instruction) for m in moves) if c is not None]

    def copy(self, move: Move, instruction: Instruction | None) -> Copy | None:
        if not move.source.size:
            return None
        a = self.assignment
        return self.copy_thunk(a.slice_of(move.destination), a.slice_of(move.source), instruction)

    def copy_thunk(
        self, destination: Slice, source: Slice, instruction: Instruction | None
    ) -> Copy:
        """A copy between slices of one size. Another one would be a mistake of the passes, which must not reach
        memory: INTERNAL.
        """
        if source.size != destination.size:
            problem = f"a copy of {source.size} bytes into {destination.size} bytes"
            if instruction is None:
                raise internal(problem)
            raise of_instruction("INTERNAL", problem, instruction)
        return Copy(destination, source, self.debug(instruction) if instruction is not None else -1)

    def operand_slices(self, instruction: Instruction) -> list[Slice]:
        """The slices of an instruction's operands that are arrays, each as large as the instruction takes it to be:
        its kernel knows them by their shapes alone. INTERNAL otherwise.
        """
        slices = []
        for operand in instruction.operands:
            value = self.assignment.values[operand][0]
            if value is None:
                continue
            shape = operand.shape
            if isinstance(shape, Shape) and shape.bytes != value.size:
                problem = f"an operand of {shape.bytes} bytes lies in {value.size} bytes"
                raise of_instruction("INTERNAL", problem, instruction)
            slices.append(self.assignment.slice_of(value))
        return slices

    # -------------------------------------------------------------------------------------- helpers
    def debug(self, instruction: Instruction) -> int:
        m = instruction.metadata
        estimate = self.estimate(instruction)
        arrays = [*(o.shape for o in instruction.operands), *instruction.result_shapes]
        self.result.instructions.append(instruction)
        self.result.debug.append(
            DebugInfo(
                instruction.name or instruction.opcode,
                m.op_name if m else "",
                m.source_file if m else "",
                m.source_line if m else 0,
                describe(instruction),
                category(instruction),
                estimate.flops if estimate else 0.0,
                float(sum(s.bytes for s in arrays if isinstance(s, Shape))),
            )
        )
        return len(self.result.debug) - 1

    def estimate(self, instruction: Instruction) -> Costs | None:
        """Arithmetic of one run; equal fusions have one computation."""
        if instruction.opcode != "fusion":
            return cost.of_operation(instruction)
        key = instruction.called[0], instruction.attributes["kind"]
        if key not in self.estimates:
            self.estimates[key] = cost.of_operation(instruction)
        return self.estimates[key]


def category(instruction: Instruction) -> str:
    """What kind of operation it is, for profiles."""
    if instruction.opcode == "fusion":
        return f"{instruction.attributes['kind']} fusion"
    if instruction.opcode == "library-call":
        return str(instruction.attributes["name"])
    return instruction.opcode


def describe(instruction: Instruction) -> str:
    """One short line about an instruction, for profiles and errors."""
    operands = ", ".join([str(o.shape) for o in instruction.operands[:8]])
    more = ", ..." if len(instruction.operands) > 8 else ""
    return f"{instruction.shape} {instruction.opcode}({operands}{more})"


def launched(lowered: Lowered) -> set[str]:
    """The functions that the runtime calls: not those that only other functions call."""
    used: set[str] = set()
    for thunk in artifact.walk(lowered.thunks):
        if isinstance(thunk, Kernel):
            used.add(lowered.symbols[thunk.function])
        elif isinstance(thunk, LibraryCall):
            for value in thunk.attributes.values():
                if isinstance(value, artifact.FunctionOffset):
                    used.add(lowered.symbols[value.offset])
    return used


def link(lowered: Lowered, offsets: dict[str, int]) -> tuple[Thunk, ...]:
    """Replace symbol numbers by offsets in the code image."""
    table = [offsets.get(s, -1) for s in lowered.symbols]  # -1: see `launched`
    for thunk in artifact.walk(lowered.thunks):
        if isinstance(thunk, Kernel):
            thunk.function = table[thunk.function]
        elif isinstance(thunk, LibraryCall):
            for name, value in thunk.attributes.items():
                if isinstance(value, artifact.FunctionOffset):
                    thunk.attributes[name] = artifact.FunctionOffset(table[value.offset])
    return tuple(lowered.thunks)


def print_thunks(lowered: Lowered) -> str:
    """The thunk sequence as text, one line a thunk."""
    lines: list[str] = []

    def place(s: artifact.Slice) -> str:
        return f"{s.allocation}[{s.offset}:{s.offset + s.size}]"

    def visit(thunks: list[Thunk] | tuple[Thunk, ...], indent: str) -> None:
        for thunk in thunks:
            name = lowered.debug[thunk.debug].name if thunk.debug >= 0 else ""
            if isinstance(thunk, Kernel):
                arguments = ", ".join(map(place, thunk.arguments))
                lines.append(
                    f"{indent}kernel {lowered.symbols[thunk.function]}({arguments}) work={thunk.work_count}"
                    f" grain={thunk.grain} cost={thunk.cost_ns:.0f}ns  # {name}"
                )
            elif isinstance(thunk, Copy):
                lines.append(
                    f"{indent}copy {place(thunk.destination)} <- {place(thunk.source)}  # {name}"
                )
            elif isinstance(thunk, LibraryCall):
                operands = ", ".join(f"{o.shape} {place(o.slice)}" for o in thunk.operands)
                results = ", ".join(f"{o.shape} {place(o.slice)}" for o in thunk.results)
                attributes = ", ".join(f"{k}={v!r}" for k, v in thunk.attributes.items())
                lines.append(
                    f"{indent}call {thunk.name}({operands}) -> ({results}) {attributes}  # {name}"
                )
            elif isinstance(thunk, View):
                strides = "".join(
                    f" + min({place(s.index)}, {s.limit}) * {s.stride}" for s in thunk.strides
                )
                lines.append(
                    f"{indent}view {place(thunk.view)} = {place(thunk.source)}{strides}  # {name}"
                )
            elif isinstance(thunk, While):
                lines.append(
                    f"{indent}while {place(thunk.predicate)} trip_count={thunk.trip_count}  # {name}"
                )
                visit(thunk.condition, indent + "  | ")
                lines.append(f"{indent}do")
                visit(thunk.body, indent + "  ")
            else:
                lines.append(f"{indent}conditional {place(thunk.selector)}  # {name}")
                for n, branch in enumerate(thunk.branches):
                    lines.append(f"{indent}branch {n}")
                    visit(branch, indent + "  ")

    visit(lowered.thunks, "")
    return "\n".join(lines) + "\n"
