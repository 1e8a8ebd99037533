"""Emission: the functions that a lowered program wants, and those of its loops.

The thunks are visited in the order in which they run. Each function is written when the first thunk that calls it is
met. A loop or conditional of small kernels becomes one function as soon as the costs of its kernels are known, and on
targets whose launches cost more than small kernels do, neighbours share a launch (:mod:`.merging`).

The target may compile a function as soon as it is known that the runtime will call it. Kernels in a loop that may still
become one function are held back until then: they would be compiled in it and for themselves, which nobody calls.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from ..codegen import callbacks, llvm_ir, sequence
from ..codegen.callbacks import Callback
from ..codegen.kernels import written
from ..codegen.kernels.emit import EmittedKernel
from ..formats import artifact
from ..formats.artifact import (
    Conditional,
    Copy,
    FunctionOffset,
    Kernel,
    LibraryCall,
    Slice,
    Thunk,
    View,
    While,
)
from ..ir.hlo import Instruction
from ..targets.target import Compilation, Target
from . import merging
from .computed_places import computed_places
from .lowering import Lowered

if TYPE_CHECKING:
    from ..targets.costs import Costs, Thunks


class Emitter(Protocol):
    """Who writes the functions: LLVM IR for a target (:class:`CodeEmitter`), or a test's stand-in.

    ``makes_sequences``: whether :meth:`sequence` can be asked. ``costs``: the target's.
    """

    makes_sequences: bool
    costs: Costs

    def kernel(self, instruction: Instruction, name: str) -> EmittedKernel:
        """The kernel of ``instruction``. Raises CompileError."""
        ...

    def callback(self, call: Instruction, name: str) -> Callback:
        """The function that the library call ``call`` calls back. Raises CompileError."""
        ...

    def sequence(
        self, thunks: Sequence[Thunk], symbols: Sequence[str], name: str, placed: Collection[Slice]
    ) -> tuple[EmittedKernel, tuple[Slice, ...]]:
        """A function that does what ``thunks`` do, and the slices that it takes; ``symbols`` as in :class:`Lowered`.
        ``placed`` are read or written at computed places.
        """
        ...

    def launched(self, functions: Sequence[str]) -> None:
        """Called when it is known that the runtime will call these functions."""
        ...


class CodeEmitter:
    """Writes LLVM IR for ``target`` into ``code``, and lets ``compilation`` begin with what is written.

    ``read_only`` are the allocations that no function may write.
    """

    makes_sequences = True

    def __init__(
        self,
        target: Target,
        code: llvm_ir.Module,
        compilation: Compilation,
        read_only: frozenset[int],
    ) -> None:
        self.target = target
        self.code = code
        self.compilation = compilation
        self.read_only = read_only
        self.costs = target.costs

    def kernel(self, instruction: Instruction, name: str) -> EmittedKernel:
        emitted = written.kernel(self.code, self.target, instruction, name)
        self.target.check(self.code, instruction)
        return emitted

    def callback(self, call: Instruction, name: str) -> Callback:
        return callbacks.emit(*self.target.callbacks(self.code), call, name)

    def sequence(
        self, thunks: Sequence[Thunk], symbols: Sequence[str], name: str, placed: Collection[Slice]
    ) -> tuple[EmittedKernel, tuple[Slice, ...]]:
        return sequence.emit_sequence(
            self.code, self.target, thunks, symbols, name, self.read_only, placed
        )

    def launched(self, functions: Sequence[str]) -> None:
        self.compilation.written(self.code, functions)


def emit(lowered: Lowered, emitter: Emitter) -> None:
    """Have ``emitter`` write every function of ``lowered``, and complete its thunks with what the functions take."""
    _Emission(lowered, emitter).run()


@dataclass
class _Loop:
    """A loop or conditional whose functions are being written.

    ``held``: those that nobody has told of, None if it cannot become one function. ``nanoseconds``: of an iteration.
    """

    held: list[str] | None = field(default_factory=list)
    nanoseconds: float = 0.0


class _Emission:
    def __init__(self, lowered: Lowered, emitter: Emitter) -> None:
        self.lowered = lowered
        self.emitter = emitter
        self.kernels: dict[int, EmittedKernel] = {}
        self.callbacks: dict[int, Callback] = {}
        # Of functions, which arguments are read or written at computed places.
        self.placed: dict[int, frozenset[int]] = {}
        self.callback_of = {id(call): number for call, number in lowered.callbacks}
        self.loops: list[_Loop] = []  # around what is being emitted
        lowered.symbols = [""] * len(lowered.wanted)

    def run(self) -> None:
        self.lowered.thunks = self.emit(self.lowered.thunks)
        longest = self.emitter.costs.thunks.merged
        if longest > 0:
            self.lowered.thunks = merging.merge(
                self.lowered.thunks, longest, self.merged, self.code_of
            )

    def emit(self, thunks: Sequence[Thunk]) -> list[Thunk]:
        """``thunks`` with their functions, loops as single kernels where that gains."""
        emitted: list[Thunk] = []
        for thunk in thunks:
            if isinstance(thunk, While | Conditional):
                thunk = self.emit_loop(thunk)
            match thunk:
                case Kernel():
                    self.complete_kernel(thunk)
                    self.written(thunk)
                case LibraryCall():
                    self.complete_call(thunk)
                    self.keep_loops()
                case Copy():
                    self.spend(thunk.source.size / self.emitter.costs.thunks.copied)
                case View():
                    self.keep_loops()
            emitted.append(thunk)
        return emitted

    def emit_loop(self, thunk: While | Conditional) -> Thunk:
        """The loop or conditional with its functions, or the kernel that it has become."""
        self.loops.append(_Loop())
        if not self.emitter.makes_sequences:
            self.keep_loops()
        if isinstance(thunk, While):
            thunk.condition = tuple(self.emit(thunk.condition))
            thunk.body = tuple(self.emit(thunk.body))
        else:
            thunk.branches = tuple(tuple(self.emit(b)) for b in thunk.branches)
        made = self.as_function(thunk)
        if made is thunk:
            self.keep_loops()
        self.loops.pop()
        return made

    # ---------------------------------------------------------------------- which functions the runtime will call
    def written(self, kernel: Kernel) -> None:
        """A kernel stands in the innermost loop."""
        function = self.lowered.symbols[kernel.function]
        loop = self.loops[-1] if self.loops else None
        if loop is None or loop.held is None:
            self.emitter.launched([function])
            return
        loop.held.append(function)
        if _is_long(kernel, self.emitter.costs.thunks):
            self.keep_loops()
        self.spend(kernel.cost_ns)

    def spend(self, nanoseconds: float) -> None:
        """An iteration of the innermost loop takes so much longer."""
        if self.loops:
            self.loops[-1].nanoseconds += nanoseconds
            if self.loops[-1].nanoseconds > self.emitter.costs.thunks.longest_iteration:
                self.keep_loops()

    def keep_loops(self) -> None:
        """The innermost loop does not become one function, and so none around it does: see :func:`_is_small`."""
        for loop in self.loops:
            if loop.held is not None:
                if loop.held:
                    self.emitter.launched(loop.held)
                loop.held = None

    def complete_kernel(self, thunk: Kernel) -> None:
        number = thunk.function
        if number >= len(self.lowered.wanted):  # a loop
            return
        kernel = self.kernels.get(number)
        if kernel is None:
            wanted = self.lowered.wanted[number]
            kernel = self.kernels[number] = self.emitter.kernel(wanted.instruction, wanted.name)
            self.lowered.symbols[number] = kernel.function
        thunk.work_count, thunk.grain, thunk.cost_ns = (
            kernel.work_count,
            kernel.grain,
            kernel.cost_ns,
        )

    def complete_call(self, thunk: LibraryCall) -> None:
        number = self.callback_of.get(id(thunk))
        if number is None:
            return
        callback = self.callbacks.get(number)
        if callback is None:
            wanted = self.lowered.wanted[number]
            callback = self.emitter.callback(wanted.instruction, wanted.name)
            self.callbacks[number] = callback
            self.lowered.symbols[number] = callback.symbol
        thunk.attributes |= callback.attributes
        thunk.attributes[callback.attribute] = FunctionOffset(number)

    # ---------------------------------------------------------------------------- several thunks in one function
    def as_function(self, thunk: Thunk) -> Thunk:
        """A loop or conditional as one kernel if it is small enough to gain from it; any other thunk as it is."""
        if not isinstance(thunk, While | Conditional) or not self.emitter.makes_sequences:
            return thunk
        if not _is_small(thunk, self.emitter.costs.thunks):
            return thunk
        name = self.lowered.name_for(self.lowered.instructions[thunk.debug])
        return self.sequence([thunk], name, thunk.debug)

    def merged(self, run: Sequence[Thunk]) -> Kernel:
        """Kernels and copies as one kernel."""
        lowered = self.lowered
        count = lowered.names.get("merged", 0)
        lowered.names["merged"] = count + 1
        name = f"merged.{count}"
        inner = [t for t in run if isinstance(t, Kernel)]
        first = next((k.debug for k in inner if k.debug >= 0), -1)
        kernel = self.sequence(run, name, first)
        if first >= 0:  # the place of the first stands for all
            names = [lowered.symbols[k.function] for k in inner]
            more = ", ..." if len(names) > 6 else ""
            infos = [lowered.debug[k.debug] for k in inner if k.debug >= 0]
            info = replace(
                lowered.debug[first],
                name=name,
                text=f"{len(run)} steps in one launch: {', '.join(names[:6])}{more}",
                category="merged",
                flops=sum(i.flops for i in infos),
                bytes_accessed=sum(i.bytes_accessed for i in infos),
            )
            kernel.debug = len(lowered.debug)
            lowered.debug.append(info)
            lowered.instructions.append(lowered.instructions[first])
        return kernel

    def sequence(self, thunks: Sequence[Thunk], name: str, debug: int) -> Kernel:
        placed = self.placed_slices(thunks)
        kernel, slices = self.emitter.sequence(thunks, self.lowered.symbols, name, placed)
        number = len(self.lowered.symbols)
        self.lowered.symbols.append(kernel.function)
        self.placed[number] = frozenset(n for n, s in enumerate(slices) if s in placed)
        called = [
            t.function for t in artifact.walk(thunks) if isinstance(t, Kernel) and t.work_count
        ]
        self.lowered.calls[kernel.function] = [
            self.lowered.symbols[n] for n in dict.fromkeys(called)
        ]
        return Kernel(number, slices, kernel.work_count, kernel.grain, kernel.cost_ns, debug)

    def placed_slices(self, thunks: Sequence[Thunk]) -> set[Slice]:
        """The slices that are read or written at computed places, but for loops that are known to be short: LLVM knows
        the places in steps that it writes out.
        """
        found: set[Slice] = set()
        for thunk in thunks:
            if isinstance(thunk, Kernel) and thunk.work_count:
                places = self.placed.get(thunk.function)
                if places is None:
                    places = computed_places(self.lowered.wanted[thunk.function].instruction)
                    self.placed[thunk.function] = places
                found.update(s for n, s in enumerate(thunk.arguments) if n in places)
            elif isinstance(thunk, Conditional):
                for branch in thunk.branches:
                    found |= self.placed_slices(branch)
            elif isinstance(thunk, While) and thunk.trip_count < 0:
                found |= self.placed_slices([*thunk.condition, *thunk.body])
        return found

    def code_of(self, kernel: Kernel) -> float:
        """Vector instructions of a kernel's function, roughly."""
        if kernel.debug < 0:
            return 0.0
        instruction = self.lowered.instructions[kernel.debug]
        called = [i for computation in instruction.called for i in computation.instructions]
        instructions = self.emitter.costs.instructions
        return sum(instructions(i) for i in called or [instruction] if i.operands)


def _is_small(thunk: While | Conditional, costs: Thunks) -> bool:
    """Whether a loop or conditional becomes one function: if no kernel in it is worth a second thread, an iteration is
    short enough for the cost of a thunk to matter, and no thunk inside is a library call or sets a view.
    """
    total = 0.0
    for inner in artifact.walk([thunk]):
        if isinstance(inner, LibraryCall | View):
            return False
        if isinstance(inner, Kernel):
            if _is_long(inner, costs):
                return False
            total += inner.cost_ns
        elif isinstance(inner, Copy):
            total += inner.source.size / costs.copied
    return total <= costs.longest_iteration


def _is_long(kernel: Kernel, costs: Thunks) -> bool:
    """Whether a kernel is worth a second thread."""
    return kernel.cost_ns > costs.longest_kernel and kernel.work_count > kernel.grain
