"""Lowering: a scheduled module with its buffer assignment becomes a thunk sequence.

Every instruction that is not an alias becomes one thunk: a kernel (a fusion, or an opcode that code
generation has an emitter for), a library call, a loop, a conditional; the moves that buffer
assignment asks for become copies around them. Kernels are numbered by what they compute: equal
fusions and equal instructions share one function.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from . import artifact, cost, ffi_attributes, merging
from .artifact import Conditional, Copy, DebugInfo, Kernel, LibraryCall, Slice, Thunk, While
from .buffers import Assignment, Move
from .clusters import cost_of
from .codegen.callbacks import Callback
from .errors import internal, of_instruction
from .fused import attributes_key
from .hlo import Computation, Instruction, Module, Shape

ALIASES: Final = frozenset(
    [
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "optimization-barrier",
        "after-all",
    ]
)


@dataclass(slots=True)
class KernelInfo:
    """A function of the code image, as the emitter described it. ``function``: its symbol."""

    function: str
    work_count: int
    grain: int
    cost_ns: float


@dataclass(slots=True)
class Lowered:
    """Thunks whose kernels' ``function`` is an index into ``symbols``, until the code is linked."""

    thunks: list[Thunk] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    debug: list[DebugInfo] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)  # that of each DebugInfo
    functions: dict[Instruction, str] = field(default_factory=dict)  # symbol of what computes each


EmitKernel = Callable[[Instruction, str], KernelInfo]
EmitCallback = Callable[[Instruction, str], Callback]
EmitSequence = Callable[[Sequence[Thunk], Sequence[str], str], tuple[KernelInfo, tuple[Slice, ...]]]

# What the user's code takes is not known: as if it read and wrote its arrays once.
CUSTOM_CALL_NS: Final = 1_000.0
CUSTOM_CALL_BYTES_PER_NS: Final = 4.0

# A loop or conditional becomes one function if no kernel in it is worth a second thread, and if an
# iteration is short enough for the cost of a thunk to matter.
LONGEST_KERNEL_NS: Final = 10_000.0
LONGEST_ITERATION_NS: Final = 20_000.0


class Lowering:
    """``emit_kernel(instruction, name)`` writes a kernel; ``emit_callback(call, name)`` the
    function that a library call calls back.
    """

    def __init__(
        self,
        module: Module,
        assignment: Assignment,
        emit_kernel: EmitKernel,
        emit_callback: EmitCallback,
        describe: Callable[[Instruction], str],
        emit_sequence: EmitSequence | None = None,
        merged_ns: float = 0.0,
    ) -> None:
        self.module = module
        self.assignment = assignment
        self.emit_kernel = emit_kernel
        self.emit_callback = emit_callback
        self.callbacks: dict[Hashable, Callback] = {}
        self.describe = describe
        self.emit_sequence = emit_sequence
        self.merged_ns = merged_ns
        self.kernels: dict[Hashable, KernelInfo] = {}
        self.symbol_numbers: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.result = Lowered()

    def run(self) -> Lowered:
        self.result.thunks = self.lower(self.module.entry)
        self.result.thunks += self.copies(None, "results")
        if self.merged_ns > 0:
            self.result.thunks = merging.merge(
                self.result.thunks, self.merged_ns, self.as_kernel, self.code_of
            )
        return self.result

    def code_of(self, kernel: Kernel) -> float:
        """Vector instructions of a kernel's function, roughly."""
        if kernel.debug < 0:
            return 0.0
        instruction = self.result.instructions[kernel.debug]
        called = [i for computation in instruction.called for i in computation.instructions]
        return sum(cost_of(i) for i in called or [instruction] if i.operands)

    def as_kernel(self, run: Sequence[Thunk]) -> Kernel:
        """Kernels and copies as one kernel."""
        assert self.emit_sequence is not None
        kernels = [t for t in run if isinstance(t, Kernel)]
        names = [self.result.symbols[k.function] for k in kernels]
        count = self.names.get("merged", 0)
        self.names["merged"] = count + 1
        kernel, slices = self.emit_sequence(run, self.result.symbols, f"merged.{count}")
        first = next((k.debug for k in kernels if k.debug >= 0), -1)
        if first >= 0:  # the place of the first stands for all
            more = ", ..." if len(names) > 6 else ""
            about = f"{len(run)} steps in one launch: {', '.join(names[:6])}{more}"
            infos = [self.result.debug[k.debug] for k in kernels if k.debug >= 0]
            info = replace(
                self.result.debug[first],
                name=f"merged.{count}",
                text=about,
                category="merged",
                flops=sum(i.flops for i in infos),
                bytes_accessed=sum(i.bytes_accessed for i in infos),
            )
            self.result.debug.append(info)
            self.result.instructions.append(self.result.instructions[first])
            first = len(self.result.debug) - 1
        return Kernel(
            self.symbol(kernel.function),
            slices,
            kernel.work_count,
            kernel.grain,
            kernel.cost_ns,
            first,
        )

    def lower(self, computation: Computation) -> list[Thunk]:
        thunks: list[Thunk] = []
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if opcode in ALIASES:
                continue
            if opcode == "while":
                thunks += self.lower_while(instruction)
            elif opcode == "conditional":
                thunks.append(self.lower_conditional(instruction))
            else:
                thunks += self.copies(instruction, "copy")
                if opcode == "library-call":
                    thunks.append(self.lower_library_call(instruction))
                elif opcode == "custom-call":
                    thunks.append(self.lower_custom_call(instruction))
                elif opcode == "copy":
                    (source,), (destination,) = (
                        self.operand_slices(instruction),
                        self.assignment.slices(instruction),
                    )
                    thunks.append(self.copy_thunk(destination, source, instruction))
                elif any(isinstance(s, Shape) and s.elements for s in instruction.result_shapes):
                    thunks.append(self.lower_kernel(instruction))
        return thunks

    # ------------------------------------------------------------------------------- kinds of thunk
    def lower_kernel(self, instruction: Instruction) -> Kernel:
        for o in instruction.operands:
            if not isinstance(o.shape, Shape):
                raise of_instruction("UNIMPLEMENTED", "no kernel takes this operand", instruction)
        kernel = self.kernel_for(instruction)
        arguments = self.operand_slices(instruction) + self.assignment.slices(instruction)
        return Kernel(
            self.symbol(kernel.function),
            tuple(arguments),
            kernel.work_count,
            kernel.grain,
            kernel.cost_ns,
            self.debug(instruction),
        )

    def kernel_for(self, instruction: Instruction) -> KernelInfo:
        """The kernel that computes ``instruction``, shared with all instructions that compute the
        same.
        """
        if instruction.opcode == "fusion":
            key: Hashable = instruction.called[0]  # fusion makes equal computations one object
        else:
            shapes = tuple(o.shape for o in instruction.operands)
            same = tuple(instruction.operands.index(o) for o in instruction.operands)
            key = (instruction.opcode, instruction.shape, shapes, same, attributes_key(instruction))
        kernel = self.kernels.get(key)
        if kernel is None:
            kernel = self.emit_kernel(instruction, self.unique(instruction))
            self.kernels[key] = kernel
        self.result.functions[instruction] = kernel.function
        return kernel

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
        if instruction.called:
            callback = self.callback_for(instruction)
            config |= callback.attributes
            config[callback.attribute] = artifact.FunctionOffset(self.symbol(callback.symbol))
        return LibraryCall(
            instruction.attributes["name"],
            tuple(operands),
            tuple(results),
            config,
            cost,
            self.debug(instruction),
        )

    def callback_for(self, call: Instruction) -> Callback:
        """The function that the library call calls back, shared with calls of equal bodies and dtypes."""
        key = (call.attributes["name"] == "sort", call.called[0], call.operands[0].dtype)
        found = self.callbacks.get(key)
        if found is None:
            found = self.emit_callback(call, self.unique(call))
            self.callbacks[key] = found
        return found

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
        attributes: dict[str, artifact.LibraryAttribute | artifact.FunctionOffset] = {
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
            CUSTOM_CALL_NS + size / CUSTOM_CALL_BYTES_PER_NS,
            self.debug(instruction),
        )

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
        thunks.append(self.as_function(loop, instruction))
        return thunks

    def as_function(self, thunk: While | Conditional, instruction: Instruction) -> Thunk:
        """The loop or conditional as one kernel if it is small enough to gain from it."""
        if self.emit_sequence is None or not _is_small(thunk):
            return thunk
        kernel, slices = self.emit_sequence([thunk], self.result.symbols, self.unique(instruction))
        return Kernel(
            self.symbol(kernel.function),
            slices,
            kernel.work_count,
            kernel.grain,
            kernel.cost_ns,
            thunk.debug,
        )

    def lower_conditional(self, instruction: Instruction) -> Thunk:
        selector = self.assignment.values[instruction.operands[0]][0]
        assert selector is not None
        branches = [
            (*self.lower(branch), *self.copies(instruction, str(n)))
            for n, branch in enumerate(instruction.called)
        ]
        thunk = Conditional(
            self.assignment.slice_of(selector),
            selector.shape.dtype.kind == "pred",
            tuple(branches),
            self.debug(instruction),
        )
        return self.as_function(thunk, instruction)

    def copies(self, instruction: Instruction | None, place: str) -> list[Thunk]:
        moves = self.assignment.moves.get((instruction, place), [])
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
    def symbol(self, name: str) -> int:
        number = self.symbol_numbers.get(name)
        if number is None:
            number = len(self.result.symbols)
            self.symbol_numbers[name] = number
            self.result.symbols.append(name)
        return number

    def unique(self, instruction: Instruction) -> str:
        """A function name from the instruction's, used once."""
        base = (instruction.name or instruction.opcode).replace("-", "_").split(".")[0]
        count = self.names.get(base, 0)
        self.names[base] = count + 1
        return f"{base}.{count}" if count else base

    def debug(self, instruction: Instruction) -> int:
        m = instruction.metadata
        estimate = cost.of_operation(instruction)
        arrays = [*(o.shape for o in instruction.operands), *instruction.result_shapes]
        self.result.instructions.append(instruction)
        self.result.debug.append(
            DebugInfo(
                instruction.name or instruction.opcode,
                m.op_name if m else "",
                m.source_file if m else "",
                m.source_line if m else 0,
                self.describe(instruction),
                category(instruction),
                estimate.flops if estimate else 0.0,
                float(sum(s.bytes for s in arrays if isinstance(s, Shape))),
            )
        )
        return len(self.result.debug) - 1


def category(instruction: Instruction) -> str:
    """What kind of operation it is, for profiles."""
    if instruction.opcode == "fusion":
        return f"{instruction.attributes['kind']} fusion"
    if instruction.opcode == "library-call":
        return str(instruction.attributes["name"])
    return instruction.opcode


def _is_small(thunk: While | Conditional) -> bool:
    """Whether one pass over the thunks inside is short, and none of them a library call."""
    total = 0.0
    for inner in artifact.walk([thunk]):
        if isinstance(inner, LibraryCall):
            return False
        if isinstance(inner, Kernel):
            if inner.cost_ns > LONGEST_KERNEL_NS and inner.work_count > inner.grain:
                return False
            total += inner.cost_ns
        elif isinstance(inner, Copy):
            total += inner.source.size / 20
    return total <= LONGEST_ITERATION_NS


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
