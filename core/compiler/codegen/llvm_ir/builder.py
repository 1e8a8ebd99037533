"""Writes functions: a method an instruction, which appends it to the block that is being written and gives its result.

Integer arithmetic on two constants is folded, and so are the usual identities (x+0, x*1, x*0), because index arithmetic
is full of them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ...ir.errors import internal
from .instructions import Block, Function, Instruction
from .module import Module
from .signs import CONVERSIONS, hidden_conversions
from .stores import stored_choices
from .text import masked_name
from .values import (
    Value,
    aggregate_type,
    bytes_of,
    i64,
    integer,
    lane_numbers,
    lanes_constant,
    lanes_of,
    mangle,
    poison,
    scalar_of,
    vector,
    zero,
)


@functools.cache
def _split(opcode: str) -> tuple[str, str]:
    """``"add nsw"`` as code and flags."""
    code, _, flags = opcode.partition(" ")
    return code, flags


def _only_lane(mask: Value) -> int | None:
    """The lane of a constant mask that is true, if there is one only."""
    lanes = mask.constant
    return lanes.index(1) if isinstance(lanes, tuple) and sum(lanes) == 1 else None


# As Value(...) and Instruction(...), which take twice as long: most of the time of writing a function is spent here.
_make: Final = tuple.__new__
# Instructions on integers that are folded where all lanes are known.
_HOLDS: Final = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge
}  # fmt: skip
_OF_MASKS: Final = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
_FLOATS: Final = frozenset(("float", "double", "half"))
_NOTHING: Final = Value("void", "undef")


def _by_lane(combine: Callable[[int, int], int], a: Value, b: Value) -> Value | None:
    """``combine`` of each lane of two vectors of i64, if all lanes are known."""
    if a.number or b.number or scalar_of(a.type) != "i64":
        return None
    x, y = lane_numbers(a), lane_numbers(b)
    return None if x is None or y is None else lanes_constant("i64", [*map(combine, x, y)])


#: Bytes that the arrays of a function may have on the stack. Programs run on threads that have so much
#: (kStackOfFunction in core/runtime/thread.h), because a write behind the end of a stack ends the process.
MOST_STACK: Final = 1 << 20


class Builder:
    """Writes one function. Make it, write its blocks, then call :meth:`finish`.

    ``arrays``: for a kernel, how many arrays the table has that is its first argument.
    """

    def __init__(
        self,
        module: Module,
        name: str,
        parameters: Sequence[str],
        result: str = "void",
        *,
        attributes: str = "nounwind",
        linkage: str = "",
        parameter_attributes: Sequence[str] = (),
        arrays: int | None = None,
    ) -> None:
        self.module = module
        self.name = name
        self.arguments = [Value(t, f"%a{n}", -1 - n) for n, t in enumerate(parameters)]
        self.function = Function(
            name,
            result,
            self.arguments,
            list(parameter_attributes) or [""] * len(parameters),
            attributes,
            linkage,
            arrays,
        )
        self.block = ""
        self._instructions: list[Instruction] = []
        # They must stand in the entry block.
        self._allocas: list[Instruction] = []
        self.count = 0  # of values made so far: the number of the last one
        self._labels = 0
        self._converts_floats = False
        self.start_block(self.new_label("entry"))

    # -- blocks
    def new_label(self, hint: str = "b") -> str:
        self._labels += 1
        return f"{hint}.{self._labels}"

    def start_block(self, label: str) -> None:
        """Begin a block; the one before must have ended in a terminator."""
        block = Block(label)
        self._instructions = block.instructions
        self.function.blocks.append(block)
        self.block = label

    def branch(self, label: str) -> None:
        self._instructions.append(Instruction("br", None, (), "", (label,)))

    def branch_if(self, condition: Value, then: str, otherwise: str) -> None:
        self._instructions.append(Instruction("br", None, (condition,), "", (then, otherwise)))

    def switch(self, value: Value, default: str, cases: Sequence[tuple[int, str]]) -> None:
        self._instructions.append(Instruction("switch", None, (value,), "", (default, *cases)))

    def ret(self, value: Value | None = None) -> None:
        operands = () if value is None else (value,)
        self._instructions.append(Instruction("ret", None, operands))

    def phi(self, ways: Sequence[tuple[Value, str]]) -> Value:
        """The value of the block that was left for this one, of ``(value, label of the block)``."""
        return self._phi(self._fresh(ways[0][0].type), ways, self._instructions)

    def _phi(
        self, result: Value, ways: Sequence[tuple[Value, str]], place: list[Instruction]
    ) -> Value:
        type_ = result.type
        if type_[0] == "<" or type_ in _FLOATS:
            self.function.carries_values = True
        values, labels = zip(*ways, strict=True)
        place.append(Instruction("phi", result, values, "", labels))
        return result

    @contextmanager
    def only_if(self, condition: Value, then: str = "then", done: str = "done") -> Iterator[None]:
        """Code that runs where ``condition`` holds; ``then`` and ``done`` name the blocks."""
        then, done = self.new_label(then), self.new_label(done)
        self.branch_if(condition, then, done)
        self.start_block(then)
        yield
        self.branch(done)
        self.start_block(done)

    @contextmanager
    def loop(self, start: Value, stop: Value, step: int = 1, hint: str = "loop") -> Iterator[Value]:
        """``for (i = start; i < stop; i += step)``; the body may be empty. Gives i."""
        with self.loop_carrying(start, stop, step, (), hint) as (index, _, _):
            yield index

    @contextmanager
    def loop_carrying(
        self,
        start: Value,
        stop: Value,
        step: int,
        initial: Sequence[Value],
        hint: str = "loop",
        more: list[Value] | None = None,
    ) -> Iterator[tuple[Value, list[Value], list[Value]]]:
        """A loop with carried values, tested at its end. Gives (i, carried, results).

        In the body put the next values into ``carried[:]``; ``results`` may be used behind the loop only. With
        ``more``, append a truth value to it in the body: the loop ends too where it is false.
        """
        before, body, done = self.block, self.new_label(hint), self.new_label("done")
        first, last = start.constant, stop.constant
        entered = isinstance(first, int) and isinstance(last, int) and first < last
        if entered:
            self.branch(body)
        else:
            self.branch_if(self.icmp("slt", start, stop), body, done)
        self.start_block(body)
        instructions = self._instructions
        index = self._fresh(start.type)
        phis = [self._fresh(v.type) for v in initial]
        carried = list(phis)
        results = [self._fresh(v.type) for v in initial]
        yield index, carried, results
        following = self.binary("add nsw", index, integer(index.type, step))
        condition = self.icmp("slt", following, stop)
        for wanted in more or ():
            condition = self.binary("and", condition, wanted)
        latch = self.block
        self.branch_if(condition, body, done)
        head: list[Instruction] = []
        for phi, value, next_ in zip(
            (index, *phis), (start, *initial), (following, *carried), strict=True
        ):
            self._phi(phi, ((value, before), (next_, latch)), head)
        instructions[0:0] = head
        self.start_block(done)
        for result, value, next_ in zip(results, initial, carried, strict=True):
            ways = ((next_, latch),) if entered else ((value, before), (next_, latch))
            self._phi(result, ways, self._instructions)

    @property
    def lines(self) -> list[Instruction]:
        """The instructions of the block being written; see ``insert_before_terminator``."""
        return self._instructions

    @contextmanager
    def append_to(self, lines: list[Instruction]) -> Iterator[None]:
        """Write at the end of an unfinished block."""
        saved, self._instructions = self._instructions, lines
        try:
            yield
        finally:
            self._instructions = saved

    @contextmanager
    def insert_before_terminator(self, lines: list[Instruction]) -> Iterator[None]:
        """Write, without starting blocks, in front of the last instruction of a block that is finished already."""
        saved, self._instructions = self._instructions, []
        try:
            yield
        finally:
            lines[-1:-1] = self._instructions
            self._instructions = saved

    # -- instructions
    def _fresh(self, type_: str) -> Value:
        """The result of an instruction that is about to be made."""
        self.count = number = self.count + 1
        return Value(type_, f"%v{number}", number)

    def _emit(
        self,
        code: str,
        type_: str,
        operands: tuple[Value, ...],
        flags: str = "",
        detail: Any = None,
    ) -> Value:
        """Append an instruction (see :class:`Instruction`), and give its result."""
        self.count = number = self.count + 1
        result = _make(Value, (type_, f"%v{number}", number, None))
        self._instructions.append(_make(Instruction, (code, result, operands, flags, detail)))
        return result

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        """``opcode`` may carry flags: ``"fadd contract"``, ``"add nsw"``."""
        code, flags = _split(opcode)
        combine = _OF_MASKS.get(code)
        if combine is not None and a.number == b.number == 0 and scalar_of(a.type) == "i1":
            x, y = lane_numbers(a), lane_numbers(b)
            if x is not None and y is not None:
                return lanes_constant("i1", [*map(combine, x, y)])
        return self._emit(code, a.type, (a, b), flags)

    def add(self, a: Value, b: Value) -> Value:
        """Integer addition, folded where both are known or one is 0."""
        x, y = a.constant, b.constant
        if x == 0:
            return b
        if y == 0:
            return a
        if isinstance(x, int) and isinstance(y, int):
            return integer(a.type, x + y)
        if (lanes := _by_lane(operator.add, a, b)) is not None:
            return lanes
        return self._emit("add", a.type, (a, b), "nsw" if a.type == "i64" else "")

    def sub(self, a: Value, b: Value) -> Value:
        x, y = a.constant, b.constant
        if y == 0:
            return a
        if isinstance(x, int) and isinstance(y, int):
            return integer(a.type, x - y)
        if (lanes := _by_lane(operator.sub, a, b)) is not None:
            return lanes
        return self._emit("sub", a.type, (a, b), "nsw" if a.type == "i64" else "")

    def mul(self, a: Value, b: Value) -> Value:
        x, y = a.constant, b.constant
        if x == 1 or (y == 0 and x != 0):
            return b
        if y == 1 or x == 0:
            return a
        if isinstance(x, int) and isinstance(y, int):
            return integer(a.type, x * y)
        if (lanes := _by_lane(operator.mul, a, b)) is not None:
            return lanes
        return self._emit("mul", a.type, (a, b), "nsw" if a.type == "i64" else "")

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        if a.number == b.number == 0:
            x, y = lane_numbers(a), lane_numbers(b)
            if x is not None and y is not None:
                if predicate[0] == "u":  # numbers without a sign
                    x, y = (tuple([n & (1 << 64) - 1 for n in numbers]) for numbers in (x, y))
                return lanes_constant("i1", [*map(_HOLDS[predicate.lstrip("us")], x, y)])
        return self._emit("icmp", vector("i1", lanes_of(a.type)), (a, b), "", predicate)

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self._emit("fcmp", vector("i1", lanes_of(a.type)), (a, b), "", predicate)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self._emit("select", a.type, (condition, a, b))

    def fneg(self, a: Value) -> Value:
        return self._emit("fneg", a.type, (a,))

    def cast(self, opcode: str, a: Value, type_: str) -> Value:
        """``opcode``: zext, sext, trunc, fpext, fptrunc, sitofp, uitofp, fptosi, fptoui, bitcast, ptrtoint, ..."""
        if a.type == type_:
            return a
        if opcode in CONVERSIONS:
            self._converts_floats = True
        return self._emit(opcode, type_, (a,))

    def load(self, type_: str, pointer: Value, align: int) -> Value:
        return self._emit("load", type_, (pointer,), "", align)

    def store(self, value: Value, pointer: Value, align: int, nontemporal: bool = False) -> None:
        """``nontemporal``: past the caches."""
        flags = "nontemporal" if nontemporal else ""
        self._instructions.append(Instruction("store", None, (value, pointer), flags, align))

    def gather(self, type_: str, addresses: Value, align: int, mask: Value | None = None) -> Value:
        """A vector of what lies at ``addresses`` (a vector of pointers), and zeros in the lanes without ``mask``.
        None: all lanes.
        """
        return self._masked_load("gather", type_, addresses, align, mask)

    def masked_load(self, type_: str, pointer: Value, align: int, mask: Value) -> Value:
        """A vector from ``pointer`` on, of which only the lanes of ``mask`` are read; the others are zeros."""
        return self._masked_load("masked load", type_, pointer, align, mask)

    def scatter(
        self, value: Value, addresses: Value, align: int, mask: Value | None = None
    ) -> None:
        """Store the lanes of a vector, or those of ``mask``, at ``addresses`` (a vector of pointers)."""
        self._masked_store("scatter", value, addresses, align, mask)

    def masked_store(self, value: Value, pointer: Value, align: int, mask: Value) -> None:
        """Store a vector from ``pointer`` on, but of its lanes only those of ``mask``."""
        lane = _only_lane(mask)
        if lane is None:
            self._masked_store("masked store", value, pointer, align, mask)
            return
        # LLVM 22.1.0 may write as many bytes as it had before it was truncated: over its neighbours
        # (llvm/llvm-project#179489).
        element = self.extract(value, lane)
        self.store(element, self.gep(element.type, pointer, i64(lane)), align)

    def _masked_load(
        self, code: str, type_: str, place: Value, align: int, mask: Value | None
    ) -> Value:
        if mask is None:
            mask = integer(vector("i1", lanes_of(type_)), 1)
        arguments = [place.type, "i32", mask.type, type_]
        self._declare(masked_name(code, type_, place.type), type_, arguments)
        return self._emit(code, type_, (place, mask, zero(type_)), "", align)

    def _masked_store(
        self, code: str, value: Value, place: Value, align: int, mask: Value | None
    ) -> None:
        if mask is None:
            mask = integer(vector("i1", lanes_of(value.type)), 1)
        arguments = [value.type, place.type, "i32", mask.type]
        self._declare(masked_name(code, value.type, place.type), "void", arguments)
        self._instructions.append(Instruction(code, None, (value, place, mask), "", align))

    def prefetch(self, pointer: Value, *, write: bool = False, locality: int = 3) -> None:
        """Ask for a line of memory as data. ``locality``: from 0 (needed once) to 3 (into all caches)."""
        hints = (integer("i32", n) for n in (write, locality, 1))
        self.call("void", "llvm.prefetch.p0", [pointer, *hints])

    def gep(self, element: str, pointer: Value, index: Value, inbounds: bool = True) -> Value:
        """The address of element ``index`` (i64, or a vector of them for a vector of pointers).

        ``inbounds``: that the element is in the array of ``pointer``. LLVM may draw conclusions from it, so addresses
        that may lie behind the array, such as those to prefetch, must not say it.
        """
        if index.constant == 0 and index.type == "i64":
            return pointer
        type_ = vector("ptr", lanes_of(index.type))
        flags = "inbounds" if inbounds else ""
        return self._emit("getelementptr", type_, (pointer, index), flags, element)

    def alloca(self, type_: str, count: int = 1, align: int = 64) -> Value:
        """``count`` elements on the stack, made once at function entry."""
        place = self._fresh("ptr")
        self._allocas.append(Instruction("alloca", place, (), "", (type_, count, align)))
        return place

    def call(self, result: str, name: str, arguments: Sequence[Value], flags: str = "") -> Value:
        """Call a function or intrinsic by name, declaring it. ``flags``: fast-math flags, or ``"alwaysinline"``. A
        function of type void gives a value that nothing may use.
        """
        self._declare(name, result, [a.type for a in arguments])
        if result == "void":
            self._instructions.append(Instruction("call", None, tuple(arguments), flags, name))
            return _NOTHING
        return self._emit("call", result, tuple(arguments), flags, name)

    def _declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        """Note that this function calls another one or an intrinsic."""
        self.module.declare(name, result, arguments)
        self.function.references[name] = None

    def intrinsic(self, name: str, arguments: Sequence[Value], flags: str = "") -> Value:
        """An overloaded intrinsic whose result has its first argument's type: ``intrinsic("fma", [a, b, c])``."""
        type_ = arguments[0].type
        return self.call(type_, f"llvm.{name}.{mangle(type_)}", arguments, flags)

    def any_lane(self, condition: Value) -> Value:
        """Whether a truth value holds in a lane."""
        if condition.type == "i1":
            return condition
        name = f"llvm.vector.reduce.or.{mangle(condition.type)}"
        self._declare(name, "i1", [condition.type])
        return self._emit("any", "i1", (condition,))

    def fence(self, ordering: str) -> None:
        self._instructions.append(Instruction("fence", None, (), "", ordering))

    def splat(self, value: Value, lanes: int) -> Value:
        """A vector with ``value`` in each lane; the value itself for one lane."""
        if lanes == 1 or value.type[0] == "<":
            return value
        type_ = vector(value.type, lanes)
        if value.constant is not None:
            return Value(type_, f"splat ({value.type} {value.ref})", 0, value.constant)
        one = self._emit("insertelement", type_, (poison(type_), value, i64(0)))
        return self._emit("shufflevector", type_, (one, poison(type_)))

    def lane_offsets(self, lanes: int, stride: int = 1) -> Value:
        """The constant i64 vector <0, stride, 2*stride, ...>; the constant 0 for one lane."""
        if lanes == 1:
            return i64(0)
        return lanes_constant("i64", [n * stride for n in range(lanes)])

    def extract(self, value: Value, lane: int | Value) -> Value:
        """A lane of a vector; a scalar is its own. ``lane``: a number, or an i64."""
        if value.type[0] != "<":
            return value
        lane = i64(lane) if isinstance(lane, int) else lane
        return self._emit("extractelement", scalar_of(value.type), (value, lane))

    def insert(self, vector_: Value, value: Value, lane: int | Value) -> Value:
        lane = i64(lane) if isinstance(lane, int) else lane
        return self._emit("insertelement", vector_.type, (vector_, value, lane))

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        type_ = vector(scalar_of(a.type), len(mask))
        return self._emit("shufflevector", type_, (a, b), "", tuple(mask))

    def aggregate(self, values: Sequence[Value]) -> Value:
        """Values as one, of type :func:`aggregate_type`: what a function with several results gives."""
        result = poison(aggregate_type([v.type for v in values]))
        for n, value in enumerate(values):
            result = self._emit("insertvalue", result.type, (result, value), "", n)
        return result

    def elements(self, aggregate: Value, types: Sequence[str]) -> list[Value]:
        """What :meth:`aggregate` put together."""
        return [self._emit("extractvalue", t, (aggregate,), "", n) for n, t in enumerate(types)]

    def constant_array(self, element: str, values: Iterable[str]) -> Value:
        """A private read-only array of constants (each in LLVM syntax, without its type); equal arrays are shared."""
        table = self.module.table(element, values)
        self.function.references[table.ref] = None
        return table

    def local_memory(self, element: str, count: int, number: int) -> Value:
        """Address of an array that the work-items of a group share; see :meth:`Module.local_array`."""
        array = self.module.local_array(self.name, element, count, number)
        return self._emit("addrspacecast", "ptr", (array,))

    def finish(self) -> None:
        """Close the function (its last block must have a terminator) and add it to the module.

        Raises CompileError (INTERNAL) if its arrays on the stack have more than :data:`MOST_STACK` bytes.
        """
        stack = sum(
            bytes_of(type_) * count for type_, count, _ in (i.detail for i in self._allocas)
        )
        if stack > MOST_STACK:
            problem = f"{self.name} has arrays of {stack:,} bytes on the stack; the most are {MOST_STACK:,}"
            raise internal(problem)
        self.function.blocks[0].instructions[0:0] = self._allocas
        if self._converts_floats and self.module.hides_conversions:
            self._hide(hidden_conversions(self.function))
        if not self.module.masks_stores:
            self._hide(stored_choices(self.function))
        self.function.values = self.count
        self.module.add(self.function)

    def _hide(self, results: set[int]) -> None:
        """Give these results, of floats or vectors, through a fence of arithmetic, which costs no instruction: LLVM
        does not see what is behind it.
        """
        if not results:
            return
        for block in self.function.blocks:
            before = block.instructions[:]
            block.instructions.clear()
            for i in before:
                if i.result is None or i.result.number not in results:
                    block.instructions.append(i)
                else:
                    seen = self._fresh(i.result.type)
                    block.instructions += [i._replace(result=seen), *self._fence(seen, i.result)]

    def _fence(self, seen: Value, hidden: Value) -> list[Instruction]:
        """Instructions that give ``hidden``, the value ``seen``; fences are for floats."""
        scalar, floats = scalar_of(seen.type), ""
        if scalar[0] == "i":
            floats = vector("float" if scalar == "i32" else "double", lanes_of(seen.type))
        type_ = floats or seen.type
        name = f"llvm.arithmetic.fence.{mangle(type_)}"
        self._declare(name, type_, [type_])
        if not floats:
            return [Instruction("call", hidden, (seen,), "", name)]
        cast, fenced = self._fresh(floats), self._fresh(floats)
        return [
            Instruction("bitcast", cast, (seen,)),
            Instruction("call", fenced, (cast,), "", name),
            Instruction("bitcast", hidden, (fenced,)),
        ]
