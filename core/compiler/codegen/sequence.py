"""Loops of small kernels as one function.

A ``while`` whose body takes a microsecond would spend its time in the runtime, thunk by thunk.
``emit_sequence`` writes a function that does what a sequence of thunks does, with the loop and the branches
inside and the kernels called directly (small ones inlined). It knows buffers only as slices: each distinct
slice is one argument, and the addresses that the kernels take are put together once before the loop.

On a GPU a work-group runs the function: its work-items share out the units of each kernel, and meet at a barrier after
it. Nothing lives on the stack then.

Small values (a counter, a scalar of the loop's state) live in slots on the stack while the function
runs, so that LLVM can keep them in registers once the kernels are inlined: a loop step then waits
for arithmetic, not for memory. An array that is read or written at places that the program computes
cannot be in registers. It has no slot: what was written row by row would be copied in larger pieces,
which a processor does not take from stores that are under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ..formats.artifact import Conditional, Copy, Kernel, LibraryCall, Slice, Thunk, While, walk
from ..ir.errors import internal
from . import llvm_ir
from .elements.memory import SLOT_BYTES
from .kernels.emit import EmittedKernel
from .llvm_ir import Builder, Module, Value, i64

if TYPE_CHECKING:
    from ..targets.costs import Thunks
    from ..targets.target import Target

INLINED_LINES: Final = 120  # kernels of at most this many lines of IR become part of the function,
# Lines of such kernels with all that is inlined into them: each level of nested loops is a function.
INLINED_IN_ALL: Final = 600
UNKNOWN_TRIPS: Final = 16  # the number of iterations to reckon with where it is not known


def cost_of(thunks: Sequence[Thunk], costs: Thunks) -> float:
    """The estimated nanoseconds of the kernels of one pass over ``thunks``."""
    total = 0.0
    for thunk in thunks:
        if isinstance(thunk, Kernel | LibraryCall):
            total += thunk.cost_ns
        elif isinstance(thunk, Copy):
            total += costs.inner_copy + costs.inner_byte * thunk.source.size
        elif isinstance(thunk, While):
            trips = thunk.trip_count if thunk.trip_count >= 0 else UNKNOWN_TRIPS
            total += trips * (cost_of(thunk.condition, costs) + cost_of(thunk.body, costs))
        elif isinstance(thunk, Conditional):
            total += max((cost_of(b, costs) for b in thunk.branches), default=0.0)
    return total


def emit_sequence(
    module: Module,
    target: Target,
    thunks: Sequence[Thunk],
    symbols: Sequence[str],
    name: str,
    read_only: Collection[int] = (),
    placed: Collection[Slice] = (),
) -> tuple[EmittedKernel, tuple[Slice, ...]]:
    """Write the function that runs ``thunks``, and give it with the slices to call it with.

    ``symbols[kernel.function]`` is the name of a kernel's function, which must be in ``module`` already. The function
    has one unit of work. ``read_only`` are the allocations that must not be written, not even with what they hold.
    ``placed`` are read or written at computed places. None of ``thunks``, nested ones too, is a library call or a view.
    """
    slices: dict[Slice, int] = {}
    for thunk in walk(thunks):
        for s in _slices(thunk):
            slices.setdefault(s, len(slices))
    builder = Builder(
        module,
        name,
        ["ptr", "i64", "i64"],
        attributes=target.function_attributes,
        parameter_attributes=["noalias readonly", "", ""],
        arrays=len(slices),
    )
    _Sequence(builder, target, slices, symbols, read_only, placed).run(thunks)
    builder.ret()
    builder.finish()
    return EmittedKernel(name, 1, 1, cost_of(thunks, target.costs.thunks)), tuple(slices)


def overlapping(slices: Iterable[Slice]) -> list[list[Slice]]:
    """The slices grouped so that those of different groups share no byte; in each, the lowest first."""
    groups: list[list[Slice]] = []
    end = 0
    for s in sorted(slices, key=lambda s: (s.allocation, s.offset, -s.size)):
        if groups and groups[-1][0].allocation == s.allocation and s.offset < end:
            groups[-1].append(s)
            end = max(end, s.offset + s.size)
        else:
            groups.append([s])
            end = s.offset + s.size
    return groups


def _slices(thunk: Thunk) -> tuple[Slice, ...]:
    if isinstance(thunk, Kernel):
        return thunk.arguments
    if isinstance(thunk, Copy):
        return (thunk.source, thunk.destination)
    if isinstance(thunk, While):
        return (thunk.predicate,)
    if isinstance(thunk, Conditional):
        return (thunk.selector,)
    return ()


class _Sequence:
    def __init__(
        self,
        builder: Builder,
        target: Target,
        slices: dict[Slice, int],
        symbols: Sequence[str],
        read_only: Collection[int],
        placed: Collection[Slice],
    ) -> None:
        self.b = builder
        self.target = target
        self.symbols = symbols
        self.me = target.local_id(builder) if target.work_group > 1 else None
        table = builder.arguments[0]
        self.addresses = {
            s: builder.load("ptr", builder.gep("ptr", table, i64(n)), 8) for s, n in slices.items()
        }
        self.slots: list[tuple[Value, Value, int]] = []  # (memory, slot, bytes)
        if self.me is None:
            for group in overlapping(s for s in slices if s.allocation not in read_only):
                if not any(s in placed for s in group):
                    self.make_slot(group)
        self.tables: dict[tuple[Slice, ...], Value] = {}
        self.setup = builder.lines  # the entry block: address tables are filled there

    def run(self, thunks: Sequence[Thunk]) -> None:
        """Write the thunks; the entry block jumps to the first, so that tables can be filled before it."""
        start = self.b.new_label("start")
        self.b.branch(start)
        self.b.start_block(start)
        self.write(thunks)
        for memory, slot, size in self.slots:
            self.move(memory, slot, size)

    def make_slot(self, group: Sequence[Slice]) -> None:
        """Let the slices, which are one piece of memory, live on the stack if it is small."""
        first = group[0]
        size = max(s.offset + s.size for s in group) - first.offset
        if not 0 < size <= SLOT_BYTES:
            return
        memory, slot = self.addresses[first], self.b.alloca(f"[{size} x i8]")
        self.move(slot, memory, size)
        self.slots.append((memory, slot, size))
        for s in group:
            self.addresses[s] = self.b.gep("i8", slot, i64(s.offset - first.offset))

    def write(self, thunks: Sequence[Thunk]) -> None:
        for thunk in thunks:
            if isinstance(thunk, Kernel):
                self.kernel(thunk)
            elif isinstance(thunk, Copy):
                self.copy(thunk)
            elif isinstance(thunk, While):
                self.loop(thunk)
            elif isinstance(thunk, Conditional):
                self.conditional(thunk)

    def kernel(self, thunk: Kernel) -> None:
        if not thunk.work_count:
            return
        name = self.symbols[thunk.function]
        called = self.b.module.functions[name]
        in_all = called.lines + called.inlined_lines
        flags = ""
        if called.lines <= INLINED_LINES and in_all <= INLINED_IN_ALL:
            flags = "alwaysinline"
            self.b.function.inlined_lines += in_all
        table = self.table(thunk.arguments)
        end = i64(thunk.work_count)
        if self.me is None or self.target.shares(self.b.module, name):
            self.b.call("void", name, [table, i64(0), end], flags)
        else:
            share = -(-thunk.work_count // self.target.work_group)
            begin = self.b.mul(self.me, i64(share))
            with self.b.only_if(self.b.icmp("slt", begin, end)):
                end = self.b.intrinsic("smin", [self.b.add(begin, i64(share)), end])
                self.b.call("void", name, [table, begin, end], flags)
        self.barrier()

    def barrier(self) -> None:
        """What one work-item of a group wrote can be read by all."""
        if self.me is not None:
            self.target.barrier(self.b)

    def table(self, arguments: tuple[Slice, ...]) -> Value:
        """An array of addresses on the stack, filled at the start of the function."""
        table = self.tables.get(arguments)
        if table is None:
            # One object of array type: LLVM takes apart no others.
            table = self.b.alloca(f"[{max(1, len(arguments))} x ptr]", 1, 8)
            with self.b.insert_before_terminator(self.setup):
                for n, argument in enumerate(arguments):
                    self.b.store(self.addresses[argument], self.b.gep("ptr", table, i64(n)), 8)
            self.tables[arguments] = table
        return table

    def copy(self, thunk: Copy) -> None:
        if thunk.source.size != thunk.destination.size:  # one may be a slot on the stack
            sizes = f"{thunk.source.size} bytes into {thunk.destination.size} bytes"
            raise internal(f"a copy of {sizes}")
        if thunk.source == thunk.destination or not thunk.source.size:
            return
        to, from_ = self.addresses[thunk.destination], self.addresses[thunk.source]
        if self.me is None:
            self.move(to, from_, thunk.source.size)
            return
        with self.b.only_if(self.b.icmp("eq", self.me, i64(0))):
            self.move(to, from_, thunk.source.size)
        self.barrier()

    def move(self, to: Value, from_: Value, size: int) -> None:
        """Copy ``size`` bytes between places that do not overlap."""
        if size in (1, 2, 4, 8, 16, 32, 64):
            type_ = f"i{size * 8}" if size <= 8 else f"<{size // 8} x i64>"
            self.b.store(self.b.load(type_, from_, 1), to, 1)
            return
        self.b.call("void", "llvm.memcpy.p0.p0.i64", [to, from_, i64(size), llvm_ir.FALSE])

    def loop(self, thunk: While) -> None:
        b = self.b
        if thunk.trip_count >= 0:  # nobody but the loop reads the predicate
            with b.loop(i64(0), i64(thunk.trip_count)):
                self.write(thunk.body)
            return
        head, body, done = b.new_label("condition"), b.new_label("body"), b.new_label("done")
        b.branch(head)
        b.start_block(head)
        self.write(thunk.condition)
        predicate = b.load("i8", self.addresses[thunk.predicate], 1)
        self.barrier()  # before it is written again
        b.branch_if(b.icmp("ne", predicate, llvm_ir.zero("i8")), body, done)
        b.start_block(body)
        self.write(thunk.body)
        b.branch(head)
        b.start_block(done)

    def conditional(self, thunk: Conditional) -> None:
        b = self.b
        if not thunk.branches:
            return
        count = len(thunk.branches)
        labels = [b.new_label("branch") for _ in range(count)]
        done = b.new_label("done")
        address = self.addresses[thunk.selector]
        if thunk.selector_is_pred:
            selector = b.load("i8", address, 1)
            self.barrier()
            b.switch(selector, labels[0], [(0, labels[1])])
        else:
            selector = b.load("i32", address, 4)
            self.barrier()
            b.switch(selector, labels[-1], [(n, labels[n]) for n in range(count - 1)])
        for label, branch in zip(labels, thunk.branches, strict=True):
            b.start_block(label)
            self.write(branch)
            b.branch(done)
        b.start_block(done)
