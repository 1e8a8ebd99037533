"""The state of generating one function: where code goes, what is computed already, and how elements are read.

:class:`Generator` wraps a :class:`~.llvm_ir.Builder` and knows the *level* (loop depth) of each value it makes.
Work goes to the outermost level its operands allow, and a value that was made once is found again, so element
generators (:mod:`.elements.elemental`) need not think of loop-invariant code or common subexpressions.

An index is a tuple of :class:`Coordinate`, one a dimension. A coordinate is affine in the vector lane (``base +
lane * stride``) or a general vector, and carries what is known statically about it. Generators are thus written
once for any number of lanes: a load looks at the coordinates and becomes a vector load, a scalar load or a
gather.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ..ir import hlo
from . import llvm_ir
from .elements import memory, nibbles
from .llvm_ir import Builder, Instruction, Value, i64
from .representation import Complex, Element, components

if TYPE_CHECKING:
    from ..targets.target import Target

UNKNOWN: Final = 1 << 62
AnyElement = TypeVar("AnyElement", Value, Complex, Element)


class Coordinate(NamedTuple):
    """An index in one dimension: ``base + lane * stride``, or ``vector`` (i64 lanes) if that is not None.

    All values lie in [low, high]; ``base`` is a multiple of ``multiple``; ``lanes`` is 1 for a coordinate that is the
    same in all lanes.
    """

    base: Value
    stride: int = 0
    lanes: int = 1
    vector: Value | None = None
    low: int = 0
    high: int = UNKNOWN
    multiple: int = 1

    @property
    def is_uniform(self) -> bool:
        return self.lanes == 1


Index = tuple[Coordinate, ...]


def fixed(value: int) -> Coordinate:
    """A coordinate known when compiling."""
    return Coordinate(i64(value), low=value, high=value, multiple=value or 1 << 30)


ZERO = fixed(0)


class Array(NamedTuple):
    """A dense row-major array in memory."""

    pointer: Value
    shape: hlo.Shape


class _Level:
    __slots__ = ("guard", "keys", "preheader")

    def __init__(self, preheader: list[Instruction], guard: bool) -> None:
        # The lines of the block that enters the level; its last line is the jump.
        self.preheader = preheader
        self.guard = guard  # entered under a condition: nothing that could fault may move out
        self.keys: list[Hashable] = []  # what was remembered at this level


class Generator:
    """Generates code into ``builder``. ``arrays`` says where parameters lie in memory."""

    def __init__(self, builder: Builder, target: Target) -> None:
        self.builder = builder
        self.target = target
        self.arrays: dict[hlo.Instruction, Array] = {}
        # Values known whatever the index (reduced values).
        self.bound: dict[hlo.Instruction, Element] = {}
        # Values that lie in scratch memory, with the first dimension of the index that the scratch has.
        self.scratch: dict[hlo.Instruction, tuple[Array, int]] = {}
        # Instructions whose elements somebody else knows, by index: numbers in registers, such as a loop's states.
        self.readers: dict[hlo.Instruction, Callable[[Index], Element]] = {}
        # Whether a store past the caches was written: it needs a fence at the end.
        self.streamed = False
        self.math_functions: Counter[str] = Counter()  # how often each was written or called
        self.mask: Value | None = None  # i1 lanes that may touch memory; None: all
        # Loads from arrays of at least so many bytes ask for the memory and give 0 (see :meth:`fetching`).
        self.fetched_bytes: int | None = None
        self.fetched_into = 3  # caches (Builder.prefetch)
        # Integers that four bits of a word decide, by the number of the value.
        self.nibbles: dict[int, nibbles.Nibble] = {}
        # Values of f32 that were rounded to bf16, by number: a store need not round them again.
        self.bfloat16: set[int] = set()
        # Values of f32 that are not subnormal, by number: an instruction that takes such a value for zero rounds them.
        self.normal: set[int] = set()
        # Sums of a value and a constant, where the value is a multiple of a number: all three by the number of the sum.
        self._parts: dict[int, tuple[Value, int, int]] = {}
        # Sums of a value that is the same in all lanes and a constant for each lane: both by the number of the sum.
        self._spread: dict[int, tuple[Value, tuple[int, ...]]] = {}
        self._levels = [_Level([], False)]
        self._level_of: dict[int, int] = {}  # by the number of the value
        self._memo: dict[Hashable, Any] = {}
        # Indices by number: an element's key has the number, for an index takes long to hash.
        self._places: dict[Index, int] = {}
        self._position = 0  # the level that is being written to; below the top while hoisting

    # ------------------------------------------------------------------------------------------ levels
    @property
    def depth(self) -> int:
        return len(self._levels) - 1

    def level_of(self, value: Value) -> int:
        """The loop depth a value lives at. Values not made through the generator count as of the current depth."""
        if value.number <= 0:  # arguments, globals and constants are there everywhere
            return 0
        return self._level_of.get(value.number, len(self._levels) - 1)

    @contextmanager
    def level(
        self, *, guard: bool = False, preheader: list[Instruction] | None = None
    ) -> Iterator[None]:
        """A loop body or a conditional block, entered from the block that is current (or from ``preheader``'s)."""
        self._levels.append(_Level(self.builder.lines if preheader is None else preheader, guard))
        self._position = self.depth
        try:
            yield
        finally:
            for key in self._levels.pop().keys:
                self._memo.pop(key, None)
            self._position = self.depth

    @contextmanager
    def loop(
        self,
        start: Value,
        stop: Value,
        step: int = 1,
        carried: Sequence[Value] = (),
        more: list[Value] | None = None,
    ) -> Iterator[tuple[Value, list[Value], list[Value]]]:
        """``builder.loop_carrying`` as a level: gives (i, carried, results)."""
        with (
            self.level(),
            self.builder.loop_carrying(start, stop, step, carried, more=more) as state,
        ):
            self.note(state[0], *state[1])
            yield state
        self.note(*state[2])

    def nest(self, sizes: Sequence[int], body: Callable[[Index], None], at: Index = ()) -> None:
        """Loops in loops over ``sizes``, with ``body`` inside; a size of one needs no loop."""
        if len(at) == len(sizes):
            body(at)
            return
        size = sizes[len(at)]
        if size == 1:
            self.nest(sizes, body, (*at, ZERO))
            return
        with self.loop(i64(0), i64(size)) as (i, _, _):
            self.nest(sizes, body, (*at, Coordinate(i, high=size - 1)))

    @contextmanager
    def only_if(self, condition: Value, then: str = "then", done: str = "done") -> Iterator[None]:
        """``builder.only_if`` as a level."""
        with self.level(guard=True), self.builder.only_if(condition, then, done):
            yield

    def either(
        self,
        condition: Value,
        then: Callable[[], Any],
        otherwise: Callable[[], Any],
        names: tuple[str, str, str] = ("then", "else", "join"),
    ) -> list[tuple[Any, str]]:
        """The code of ``then`` where ``condition`` holds and that of ``otherwise`` where not. Gives what each returned,
        with the block in which its code ends.
        """
        b = self.builder
        *labels, join = [b.new_label(name) for name in names]
        entry, ends = b.lines, []
        b.branch_if(condition, *labels)
        for label, function in zip(labels, (then, otherwise), strict=True):
            with self.level(guard=True, preheader=entry):
                b.start_block(label)
                ends.append((function(), b.block))
                b.branch(join)
        b.start_block(join)
        return ends

    def note(self, *values: Value) -> None:
        """Say that ``values`` live at the current depth, unless they are known to live further out."""
        depth = self.depth
        for value in values:
            self._level_of[value.number] = min(depth, self._level_of.get(value.number, depth))

    @contextmanager
    def at(self, level: int) -> Iterator[None]:
        """Write straight-line code at ``level`` (at most the current depth)."""
        if level >= self._position:
            yield
            return
        saved, self._position = self._position, level
        with self.builder.insert_before_terminator(self._levels[level + 1].preheader):
            yield
        self._position = saved

    def guard_level(self) -> int:
        """The outermost level that code which may fault (a load) can move to."""
        for number in range(self.depth, 0, -1):
            if self._levels[number].guard:
                return number
        return 0

    # ------------------------------------------------------------------------------- remembering values
    def recall(self, key: Hashable) -> Any:
        return self._memo.get(key)

    def place(self, index: Index) -> int:
        """The number of an index, for keys of what is remembered about it."""
        return self._places.setdefault(index, len(self._places))

    def know(self, instruction: hlo.Instruction, index: Index, value: Element) -> None:
        """Say that ``value`` is the element of ``instruction`` at ``index`` until the code leaves this depth."""
        self.remember((instruction, self.place(index)), value, self.depth)

    def remember(self, key: Hashable, value: Any, level: int) -> None:
        """``recall(key)`` gives ``value`` until the code leaves ``level``."""
        self._memo[key] = value
        self._levels[level].keys.append(key)

    @contextmanager
    def masked(self, mask: Value | None) -> Iterator[None]:
        """Loads touch the lanes of ``mask`` only; what is loaded is forgotten afterwards. None: no mask."""
        if mask is None:
            yield
            return
        saved, saved_memo = self.mask, self._memo
        self.mask = mask if saved is None else self.apply("and", saved, mask)
        self._memo = dict(self._memo)
        try:
            yield
        finally:
            self.mask, self._memo = saved, saved_memo

    @contextmanager
    def unmasked(self) -> Iterator[None]:
        """Loads touch all lanes, which are not those that a mask around this is for."""
        saved, saved_memo = self.mask, self._memo
        self.mask, self._memo = None, dict(self._memo)
        try:
            yield
        finally:
            self.mask, self._memo = saved, saved_memo

    @contextmanager
    def fetching(self, size: int, caches: int = 3) -> Iterator[None]:
        """What is read from arrays of at least ``size`` bytes is only asked for: it will be read soon. The values that
        are made meanwhile mean nothing, and nobody may use them. ``caches``: into which (``Builder.prefetch``).
        """
        saved, saved_into, saved_memo = self.fetched_bytes, self.fetched_into, self._memo
        self.fetched_bytes, self.fetched_into = size, caches
        self._memo = dict(self._memo)
        try:
            yield
        finally:
            self.fetched_bytes, self.fetched_into, self._memo = saved, saved_into, saved_memo

    def pure(
        self,
        key: Hashable,
        operands: Sequence[Element],
        emit: Callable[[], AnyElement],
        floor: int = 0,
    ) -> AnyElement:
        """The value of ``emit()``, made at the outermost level the operands allow and remembered under ``key``."""
        hit: AnyElement | None = self._memo.get(key)
        if hit is not None:
            return hit
        # (Most of the time of writing a module is spent here.)
        level, top, known = floor, len(self._levels) - 1, self._level_of
        for operand in operands:
            for value in (operand,) if type(operand) is Value else components(operand):
                number = value.number
                if number > 0:  # see level_of
                    at = known.get(number, top)
                    if at > level:
                        level = at
        made_before = self.builder.count
        if level >= self._position:
            result = emit()
        else:
            with self.at(level):
                result = emit()
        for value in (result,) if type(result) is Value else components(result):
            # What was there before (x + 0 is x) stays where it was made, which may be further out than ``level``.
            if value.number > made_before:
                known.setdefault(value.number, level)
        self._memo[key] = result
        self._levels[level].keys.append(key)
        return result

    def apply(self, opcode: str, a: Value, b: Value) -> Value:
        """A binary LLVM instruction; scalars are splat to meet vectors."""
        a, b = self.match(a, b)
        return self.pure((opcode, a, b), (a, b), lambda: self.builder.binary(opcode, a, b))

    def match(self, a: Value, b: Value) -> tuple[Value, Value]:
        """The two values with equal numbers of lanes."""
        n, m = llvm_ir.lanes_of(a.type), llvm_ir.lanes_of(b.type)
        if n != m:
            return self.splat(a, max(n, m)), self.splat(b, max(n, m))
        return a, b

    def splat(self, value: Value, lanes: int) -> Value:
        if lanes == 1 or value.type[0] == "<":
            return value
        return self.pure(
            ("splat", value, lanes), (value,), lambda: self.builder.splat(value, lanes)
        )

    def add(self, a: Value, b: Value) -> Value:
        a, b = self.match(a, b)
        return self.pure(("add", a, b), (a, b), lambda: self.builder.add(a, b))

    def sub(self, a: Value, b: Value) -> Value:
        a, b = self.match(a, b)
        return self.pure(("sub", a, b), (a, b), lambda: self.builder.sub(a, b))

    def mul(self, a: Value, b: Value) -> Value:
        a, b = self.match(a, b)
        return self.pure(("mul", a, b), (a, b), lambda: self.builder.mul(a, b))

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """An integer comparison."""
        a, b = self.match(a, b)
        return self.pure((predicate, a, b), (a, b), lambda: self.builder.icmp(predicate, a, b))

    # -------------------------------------------------------------------------------------- coordinates
    def vector(self, c: Coordinate, lanes: int) -> Value:
        """The coordinate as ``lanes`` i64 values (an i64 for one lane)."""
        if c.vector is not None:
            return c.vector
        if c.is_uniform:
            return self.splat(c.base, lanes)
        return self.add(self.splat(c.base, lanes), self.builder.lane_offsets(lanes, c.stride))

    def _general(self, vector: Value, low: int, high: int) -> Coordinate:
        return Coordinate(i64(0), 0, llvm_ir.lanes_of(vector.type), vector, low, high)

    def spread(self, start: Coordinate, offsets: Sequence[int], size: int) -> Coordinate:
        """``start``, which is the same in all lanes, and for each lane what it is behind it; places of a dimension of
        ``size`` elements.
        """
        low = max(start.low + min(offsets), 0)
        high = min(start.high + max(offsets), size - 1)
        if len({*offsets}) == 1:
            return self.shift(start, offsets[0])._replace(low=low, high=high)
        step = offsets[1] - offsets[0]
        if all(b - a == step for a, b in itertools.pairwise(offsets)):
            moved = self.shift(start, offsets[0])
            return moved._replace(stride=step, lanes=len(offsets), low=low, high=high)
        return self._spread_from(start.base, offsets, low, high)

    def _spread_from(self, base: Value, offsets: Sequence[int], low: int, high: int) -> Coordinate:
        """base + offsets[lane]"""
        vector = self.add(base, llvm_ir.lanes_constant("i64", offsets))
        if vector.number > 0:
            self._spread[vector.number] = (base, tuple(offsets))
        return self._general(vector, low, high)

    def behind(self, start: Value, by: int, multiple: int) -> Value:
        """start + by, where ``start`` is a multiple of ``multiple``: to divide the sum is easy then."""
        value = self.add(start, i64(by))
        if value.number > 0 and by and multiple > 1:
            self._parts.setdefault(value.number, (start, by, multiple))
        return value

    def shift(self, c: Coordinate, offset: int) -> Coordinate:
        """c + offset"""
        if offset == 0:
            return c
        low, high = c.low + offset, c.high + offset
        if c.vector is not None:
            if c.vector.number in self._spread:
                base, offsets = self._spread[c.vector.number]
                return self._spread_from(self.add(base, i64(offset)), offsets, low, high)
            return self._general(self.add(c.vector, i64(offset)), low, high)
        start, by, multiple = self._parts.get(c.base.number, (c.base, 0, c.multiple))
        by += offset
        base = self.behind(start, by, multiple)
        return c._replace(base=base, low=low, high=high, multiple=math.gcd(multiple, by))

    def scale(self, c: Coordinate, factor: int) -> Coordinate:
        """c * factor, for a factor that may be negative"""
        if factor == 1:
            return c
        low, high = sorted((c.low * factor, c.high * factor))
        if c.vector is not None:
            if c.vector.number in self._spread:
                base, offsets = self._spread[c.vector.number]
                offsets = tuple(n * factor for n in offsets)
                return self._spread_from(self.mul(base, i64(factor)), offsets, low, high)
            return self._general(self.mul(c.vector, i64(factor)), low, high)
        return c._replace(
            base=self.mul(c.base, i64(factor)), stride=c.stride * factor, low=low, high=high,
            multiple=c.multiple * abs(factor),
        )  # fmt: skip

    def sum(self, a: Coordinate, b: Coordinate) -> Coordinate:
        """a + b"""
        low, high, lanes = a.low + b.low, a.high + b.high, max(a.lanes, b.lanes)
        if a.vector is not None or b.vector is not None:
            return self._general(self.add(self.vector(a, lanes), self.vector(b, lanes)), low, high)
        base, stride = self.add(a.base, b.base), a.stride + b.stride
        multiple = math.gcd(a.multiple, b.multiple)
        return Coordinate(base, stride, lanes if stride else 1, None, low, high, multiple)

    def divide(self, c: Coordinate, divisor: int) -> tuple[Coordinate, Coordinate]:
        """Quotient and remainder of a coordinate that is not negative."""
        if divisor == 1:
            return c, ZERO
        if c.high < divisor:
            return ZERO, c
        low, high = max(c.low, 0) // divisor, c.high // divisor
        if c.vector is None:
            if c.is_uniform and isinstance(c.base.constant, int):
                whole, left = divmod(c.base.constant, divisor)
                return fixed(whole), fixed(left)
            span = c.stride * (c.lanes - 1)
            start, by, multiple = self._parts.get(c.base.number, (c.base, 0, c.multiple))
            common = math.gcd(multiple, divisor)
            # The first lanes of a vector may lie before an array, masked off, while the last ones are in it.
            below = max(span, 0)
            if c.stride % divisor == 0:  # all lanes have the same remainder
                quotient, rest = self._divide(c.base, divisor, below=below)
                stride, exact = c.stride // divisor, 1
                if common == divisor:
                    exact = multiple // divisor
                    rest = i64(by % divisor)
                    if by:
                        before = self._divide(start, divisor, below=below)[0]
                        quotient = self.behind(before, by // divisor, exact)
                        exact = math.gcd(exact, by // divisor)
                if isinstance(rest.constant, int):
                    part = fixed(rest.constant)
                else:
                    part = Coordinate(
                        rest, 0, 1, None, 0, divisor - 1, math.gcd(c.multiple, divisor)
                    )
                return Coordinate(quotient, stride, c.lanes, None, low, high, exact), part
            if span > 0 and by % common + span < common:  # no carry between the lanes
                quotient, rest = self._divide(c.base, divisor, below=below)
                return (
                    Coordinate(quotient, high=high),
                    Coordinate(
                        rest, c.stride, c.lanes, None, 0, divisor - 1, math.gcd(c.multiple, divisor)
                    ),
                )
            if multiple % divisor == 0 and c.stride > 0:  # the lanes carry as they are known to
                base = self._divide(c.base, divisor, below=below)[0]
                places = [by % divisor + c.stride * n for n in range(c.lanes)]
                quotients = [p // divisor for p in places]
                rests = llvm_ir.lanes_constant("i64", [p % divisor for p in places])
                return (
                    self._spread_from(base, quotients, 0, high),
                    self._general(rests, 0, divisor - 1),
                )
        value = self.vector(c, c.lanes)
        numbers = llvm_ir.lane_numbers(value)
        if numbers is not None:
            quotient = llvm_ir.lanes_constant("i64", [n // divisor for n in numbers])
            rest = llvm_ir.lanes_constant("i64", [n % divisor for n in numbers])
        else:
            quotient, rest = self._divide(value, divisor, c.high)
        return self._general(quotient, 0, high), self._general(rest, 0, divisor - 1)

    def _divide(
        self, value: Value, divisor: int, high: int = UNKNOWN, below: int = 0
    ) -> tuple[Value, Value]:
        """Quotient, rounded down, and remainder of a value from ``-below`` to ``high``."""
        if isinstance(value.constant, int) and value.type == "i64":
            return i64(value.constant // divisor), i64(value.constant % divisor)
        parts = self._parts.get(value.number)
        if parts is not None and 0 <= parts[1] % divisor < math.gcd(parts[2], divisor):  # no carry
            start, by, _ = parts
            quotient, rest = self._divide(start, divisor, below=below + max(by, 0) if below else 0)
            if parts[2] % divisor == 0:
                rest = i64(0)
            return self.add(quotient, i64(by // divisor)), self.add(rest, i64(by % divisor))
        narrow = value.type[0] == "<" and high < 1 << 31  # vectors of i32 have a fast multiply-high

        def emit() -> Value:
            if below and divisor.bit_count() == 1:
                return self.builder.binary("ashr", value, i64(divisor.bit_length() - 1))
            if below:
                more = -(-below // divisor)
                moved = self.builder.binary("add", value, i64(more * divisor))
                return self.builder.binary(
                    "sub", self.builder.binary("udiv", moved, i64(divisor)), i64(more)
                )
            if not narrow:
                return self.builder.binary("udiv", value, llvm_ir.integer(value.type, divisor))
            type_ = llvm_ir.vector("i32", llvm_ir.lanes_of(value.type))
            short = self.builder.cast("trunc", value, type_)
            short = self.builder.binary("udiv", short, llvm_ir.integer(type_, divisor))
            return self.builder.cast("zext", short, value.type)

        quotient = self.pure(("udiv", value, divisor, below), (value,), emit)
        return quotient, self.sub(value, self.mul(quotient, llvm_ir.integer(value.type, divisor)))

    def linear(self, index: Sequence[Coordinate], dims: Sequence[int]) -> Coordinate:
        """The element number in a row-major array of ``dims``."""
        total, stride = ZERO, math.prod(dims)
        for c, dim in zip(index, dims, strict=True):
            stride = stride // dim if dim else 0
            if dim != 1:
                total = self.sum(total, self.scale(c, stride))
        return total

    def delinear(self, c: Coordinate, dims: Sequence[int]) -> Index:
        """The index of element number ``c`` of a row-major array of ``dims``."""
        result: list[Coordinate] = []
        for dim in reversed(dims):
            if dim <= 1:  # an array without elements has code that never runs
                result.append(ZERO)
                continue
            c, rest = self.divide(c, dim)
            result.append(rest)
        return tuple(reversed(result))

    # ------------------------------------------------------------------------------------------- memory
    def address(self, array: Array, index: Index) -> tuple[Value, Coordinate]:
        """Where element ``index`` is: a pointer plus a coordinate (in elements) that varies with the lane only.

        The parts of the index that belong to outer loops are added to the pointer at their own level.
        """
        element, factor = memory.unit(array.shape.dtype)
        pointer = array.pointer
        offsets, lane_part = self._offsets(array.shape.dims, factor, index)
        for offset in offsets:
            pointer = self.offset_pointer(element, pointer, offset)
        return pointer, lane_part

    def _offsets(
        self, dims: tuple[int, ...], factor: int, index: Index
    ) -> tuple[list[Value], Coordinate]:
        """What to add to the pointer for an element of an array of ``dims``, outer loops first, and the part of the
        lane. ``factor``: elements of memory of each.
        """
        key = ("offsets", dims, factor, index)
        found: tuple[list[Value], Coordinate] | None = self._memo.get(key)
        if found is not None:
            return found
        stride = math.prod(dims) * factor
        lane_part = ZERO
        uniform: list[Value] = []
        for c, dim in zip(index, dims, strict=True):
            stride = stride // dim if dim else 0
            if dim == 1:
                continue
            scaled = self.scale(c, stride)
            if scaled.vector is not None and scaled.vector.number in self._spread:
                base, places = self._spread[scaled.vector.number]
                uniform.append(base)
                constant = self._general(llvm_ir.lanes_constant("i64", places), 0, UNKNOWN)
                lane_part = self.sum(lane_part, constant)
            elif scaled.vector is None:
                uniform.append(scaled.base)
                lane_part = self.sum(lane_part, scaled._replace(base=i64(0), low=0, high=UNKNOWN))
            else:
                lane_part = self.sum(lane_part, scaled)
        by_level: dict[int, list[Value]] = {}
        for value in uniform:
            by_level.setdefault(self.level_of(value), []).append(value)
        offsets = []
        for level in sorted(by_level):
            offset = by_level[level][0]
            for value in by_level[level][1:]:
                offset = self.add(offset, value)
            offsets.append(offset)
        self.remember(key, (offsets, lane_part), self.depth)
        return offsets, lane_part

    def offset_pointer(self, element: str, pointer: Value, offset: Value) -> Value:
        if offset.constant == 0:
            return pointer
        return self.pure(
            ("gep", element, pointer, offset), (pointer, offset),
            lambda: self.builder.gep(element, pointer, offset),
        )  # fmt: skip

    def load(self, array: Array, index: Index, floor: int | None = None) -> Element:
        """The element of ``array`` at ``index``, in registers; it moves out to level ``floor`` at most."""
        return memory.load(self, array, index, floor)

    def store(
        self,
        array: Array,
        index: Index,
        element: Element,
        mask: Value | None = None,
        streaming: bool = False,
    ) -> None:
        """Write an element (or a vector of them, in the lanes of ``mask``).

        ``streaming``: past the caches, where whole aligned vectors are written.
        """
        memory.store(self, array, index, element, mask, streaming)
