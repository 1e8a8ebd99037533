"""The "rng-bit-generator" kernel: Threefry-2x32 and Philox-4x32-10, the bits and states that XLA's
CPU backend gives.

Both are counter-based (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011):
block h of the result is a keyed bijection of counter + h, so blocks are computed in vectors and in
any order. ``state[0]`` is the key.

* THREE_FRY: a 64-bit counter in ``state[1]``. A block is two words. 64-bit results take one block
  each. Narrower results (of less than 32 bits: the low bits of a word) number the blocks over the
  shape with one dimension halved, rounding up: the first even dimension, or else the longest; the
  two words of a block are neighbours in that dimension.
* PHILOX (also DEFAULT): a 128-bit counter in ``state[1], state[2]``, or ``state[1], state[0]`` if
  the state has two elements. A block is four words, next to each other in the result.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Final

from ...ir import errors, hlo
from ...ir.dtypes import DType
from .. import llvm_ir
from ..generator import ZERO, Array, Coordinate, Generator, Index, fixed
from ..llvm_ir import Value, i64
from ..representation import register_type
from . import loops
from .emit import EmittedKernel, Frame, emitter

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_PARITY: Final = 0x1BD11BDA
_PHILOX_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS: Final = 10


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of an rng-bit-generator. Operand: state u64[2 or 3]; results: new state, bits.

    Raises CompileError UNIMPLEMENTED for bits that are not integers of 8 to 64 bits.
    """
    bits = frame.results[1]
    dtype = bits.shape.dtype
    if not dtype.is_integer or dtype.bits < 8:
        raise errors.of_instruction(
            "UNIMPLEMENTED", f"random bits of type {dtype}", frame.instruction
        )
    algorithm = frame.instruction.attributes["algorithm"]
    words = frame.operands[0].shape.elements
    if frame.operands[0].shape.dtype.bits != 64 or words < 2 or words > 3:
        raise errors.of_instruction(
            "INVALID_ARGUMENT", "the state is not u64[2] or u64[3]", frame.instruction
        )
    if algorithm == "THREE_FRY" and words != 2:
        raise errors.of_instruction(
            "INVALID_ARGUMENT", "the state of THREE_FRY is u64[2]", frame.instruction
        )
    kernel = (_ThreeFry if algorithm == "THREE_FRY" else _Philox)(frame, dtype)
    units = max(1, kernel.emit())
    kernels = frame.target.costs.kernels
    random_words = bits.shape.elements * kernel.words_per_element
    cost = kernels.nest + random_words * kernels.random / (frame.target.vector_bytes / 4)
    return frame.finish(units, cost)


class _Kernel:
    words_per_element = 1.0

    def __init__(self, frame: Frame, dtype: DType) -> None:
        self.frame = frame
        self.g: Generator = frame.generator
        self.b = frame.builder
        self.dtype = dtype
        self.type = register_type(dtype)
        # Blocks to do at a time: their words become one vector of two (or four) times as many lanes.
        size = 4 if dtype.bits <= 32 else 8
        self.lanes = min(frame.target.lane_count(size), max(1, frame.target.max_lanes // 4))
        self.masked = frame.target.can_mask(dtype.size)
        self.bits = frame.results[1]
        state = frame.operands[0]
        self.words = state.shape.elements
        self.state = [
            self.b.load("i64", self.b.gep("i64", state.pointer, i64(n)), 8)
            for n in range(self.words)
        ]
        self.g.note(*self.state)

    def emit(self) -> int:
        """Write the kernel and give its units of work."""
        raise NotImplementedError

    def first_unit(self) -> AbstractContextManager[None]:
        """Code that runs in the call that does unit 0 alone."""
        return self.g.only_if(self.b.icmp("eq", self.frame.begin, i64(0)), "first")

    def store_state(self, values: list[Value]) -> None:
        for n, value in enumerate(values[: self.words]):
            self.b.store(value, self.b.gep("i64", self.frame.results[0].pointer, i64(n)), 8)

    def low_and_high(self, wide: Value) -> tuple[Value, Value]:
        """The two words of 64-bit values."""
        type_ = llvm_ir.vector("i32", llvm_ir.lanes_of(wide.type))
        shifted = self.b.binary("lshr", wide, llvm_ir.integer(wide.type, 32))
        return self.b.cast("trunc", wide, type_), self.b.cast("trunc", shifted, type_)

    def joined(self, low: Value, high: Value) -> Value:
        """64-bit values of two words, in the result's type."""
        b = self.b
        type_ = llvm_ir.vector("i64", llvm_ir.lanes_of(low.type))
        upper = b.binary("shl", b.cast("zext", high, type_), llvm_ir.integer(type_, 32))
        return b.binary("or", upper, b.cast("zext", low, type_))

    def narrowed(self, word: Value) -> Value:
        """A word in the result's type, which has at most 32 bits."""
        return self.b.cast("trunc", word, llvm_ir.vector(self.type, llvm_ir.lanes_of(word.type)))

    def numbers(self, c: Coordinate) -> Value:
        """A coordinate as 64-bit values, one a lane."""
        return self.g.vector(c, c.lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        return self.g.splat(value, lanes)


class _ThreeFry(_Kernel):
    def emit(self) -> int:
        dims = self.bits.shape.dims
        if self.dtype.bits == 64:
            self.words_per_element = 2.0
            count = self.bits.shape.elements
            units = self.iterate((count,), self.whole)
        else:
            split = _split_dimension(dims)
            outer = math.prod(dims[:split])
            size = dims[split] if dims else 1
            half, inner = -(-size // 2), math.prod(dims[split + 1 :])
            if inner == 1 and size % 2 == 0:  # both words of all blocks are neighbours in memory
                outer, size, half = 1, outer * size, outer * half
            count = outer * half * inner
            self.half = half
            self.array = Array(self.bits.pointer, hlo.Shape(self.dtype, (outer, size, inner)))
            if inner == 1:
                units = self.iterate((outer, half), self.pairs)
            else:
                units = self.iterate((outer, half, inner), self.rows)
        key, counter = self.state
        with self.first_unit():
            self.store_state([key, self.b.binary("add", counter, i64(count))])
        return units

    def iterate(self, dims: tuple[int, ...], body: loops.Body) -> int:
        if math.prod(dims) == 0:
            return 0
        return loops.iterate(self.frame, dims, self.lanes, self.masked, body)

    def block(self, number: Coordinate) -> tuple[Value, Value]:
        """The words of the blocks with these numbers."""
        b = self.b
        lanes = number.lanes
        counter = b.binary("add", self.splat(self.state[1], lanes), self.numbers(number))
        x, y = self.low_and_high(counter)
        keys = [self.splat(k, lanes) for k in self.low_and_high(self.state[0])]
        parity = b.binary(
            "xor", b.binary("xor", keys[0], keys[1]), llvm_ir.integer(x.type, _THREEFRY_PARITY)
        )
        keys.append(parity)
        x, y = b.binary("add", x, keys[0]), b.binary("add", y, keys[1])
        for group in range(5):
            for rotation in _ROTATIONS[group % 2]:
                x = b.binary("add", x, y)
                y = b.intrinsic("fshl", [y, y, llvm_ir.integer(y.type, rotation)])
                y = b.binary("xor", x, y)
            x = b.binary("add", x, keys[(group + 1) % 3])
            y = b.binary("add", y, keys[(group + 2) % 3])
            y = b.binary("add", y, llvm_ir.integer(y.type, group + 1))
        return x, y

    def whole(self, g: Generator, index: Index, mask: Value | None) -> None:
        """Elements of 64 bits, one a block."""
        flat = Array(self.bits.pointer, hlo.Shape(self.dtype, (self.bits.shape.elements,)))
        g.store(flat, index, self.joined(*self.block(index[0])), mask)

    def pairs(self, g: Generator, index: Index, mask: Value | None) -> None:
        """The halved dimension is minor: the words of a block are neighbours in memory."""
        outer, size, _ = self.array.shape.dims
        number = g.linear(index, (outer, self.half))
        x, y = (self.narrowed(w) for w in self.block(number))
        i = index[1]
        place = g.scale(i, 2)
        if size % 2 == 0 and i.lanes > 1:
            both = interleave(g, [x, y])
            base = place._replace(stride=1, lanes=2 * i.lanes)
            g.store(
                self.array,
                (index[0], base, ZERO),
                both,
                interleave(g, [mask, mask]) if mask is not None else None,
            )
            return
        g.store(self.array, (index[0], place, ZERO), x, mask)
        second = g.shift(place, 1)
        if size % 2 == 0:
            g.store(self.array, (index[0], second, ZERO), y, mask)
            return
        inside = g.compare("slt", g.vector(second, second.lanes), i64(size))
        if i.lanes > 1:
            inside = inside if mask is None else self.b.binary("and", inside, mask)
            g.store(self.array, (index[0], second, ZERO), y, inside)
        else:
            with g.only_if(inside):
                g.store(self.array, (index[0], second, ZERO), y)

    def rows(self, g: Generator, index: Index, mask: Value | None) -> None:
        outer, size, inner = self.array.shape.dims
        number = g.linear(index, (outer, self.half, inner))
        x, y = (self.narrowed(w) for w in self.block(number))
        o, i, r = index
        place = g.scale(i, 2)
        g.store(self.array, (o, place, r), x, mask)
        second = g.shift(place, 1)
        if size % 2 == 0:
            g.store(self.array, (o, second, r), y, mask)
        else:
            inside = g.compare("slt", second.base, i64(size))
            with g.only_if(inside):
                g.store(self.array, (o, second, r), y, mask)


class _Philox(_Kernel):
    def emit(self) -> int:
        elements = self.bits.shape.elements
        wide = self.dtype.bits == 64
        self.words_per_element = 2.0 if wide else 1.0
        per_block = 2 if wide else 4
        whole, rest = divmod(elements, per_block)
        self.flat = Array(self.bits.pointer, hlo.Shape(self.dtype, (elements,)))
        self.low = self.state[1]
        self.high = self.state[2] if self.words == 3 else self.state[0]

        def body(g: Generator, index: Index, mask: Value | None) -> None:
            values = self.values(index[0])
            place = g.scale(index[0], per_block)
            if index[0].lanes == 1:
                for n, value in enumerate(values):
                    g.store(self.flat, (g.shift(place, n),), value, None)
                return
            base = place._replace(stride=1, lanes=per_block * index[0].lanes)
            wide_mask = interleave(g, [mask] * per_block) if mask is not None else None
            g.store(self.flat, (base,), interleave(g, values), wide_mask)

        units = loops.iterate(self.frame, (whole,), self.lanes, self.masked, body) if whole else 0
        with self.first_unit():
            if rest:
                for n, value in enumerate(self.values(fixed(whole))[:rest]):
                    self.g.store(self.flat, (fixed(whole * per_block + n),), value)
            low, high = self.counter(i64(whole + bool(rest)))
            self.store_state([self.state[0], low, high])
        return units

    def counter(self, number: Value) -> tuple[Value, Value]:
        """The 128-bit counter plus 64-bit numbers."""
        b = self.b
        lanes = llvm_ir.lanes_of(number.type)
        before = self.splat(self.low, lanes)
        low = b.binary("add", before, number)
        carry = b.cast("zext", b.icmp("ult", low, before), low.type)
        return low, b.binary("add", self.splat(self.high, lanes), carry)

    def values(self, number: Coordinate) -> list[Value]:
        """The elements of the blocks with these numbers, in order: 4, or 2 of 64 bits."""
        b = self.b
        low, high = self.counter(self.numbers(number))
        x = [*self.low_and_high(low), *self.low_and_high(high)]
        key = [self.splat(k, number.lanes) for k in self.low_and_high(self.state[0])]
        for step in range(_PHILOX_ROUNDS):
            if step:
                key = [
                    b.binary("add", k, llvm_ir.integer(k.type, w))
                    for k, w in zip(key, _PHILOX_WEYL, strict=True)
                ]
            low0, high0 = self.multiply(x[0], _PHILOX_MULTIPLIERS[0])
            low1, high1 = self.multiply(x[2], _PHILOX_MULTIPLIERS[1])
            x = [
                b.binary("xor", b.binary("xor", high1, x[1]), key[0]),
                low1,
                b.binary("xor", b.binary("xor", high0, x[3]), key[1]),
                low0,
            ]
        if self.dtype.bits == 64:
            return [self.joined(x[0], x[1]), self.joined(x[2], x[3])]
        return [self.narrowed(w) for w in x]

    def multiply(self, word: Value, factor: int) -> tuple[Value, Value]:
        """Low and high word of the product."""
        wide = self.b.cast("zext", word, llvm_ir.vector("i64", llvm_ir.lanes_of(word.type)))
        product = self.b.binary("mul", wide, llvm_ir.integer(wide.type, factor))
        return self.low_and_high(product)


def interleave(g: Generator, values: list[Value]) -> Value:
    """Lane 0 of each value, then lane 1 of each, ...; for 2 or 4 values."""
    b = g.builder
    while len(values) > 1:
        half = len(values) // 2
        values = [
            _interleave_two(b, a, c) for a, c in zip(values[:half], values[half:], strict=True)
        ]
    return values[0]


def _interleave_two(b: llvm_ir.Builder, x: Value, y: Value) -> Value:
    lanes = llvm_ir.lanes_of(x.type)
    return b.shuffle(x, y, [n // 2 + (n % 2) * lanes for n in range(2 * lanes)])


def _split_dimension(dims: tuple[int, ...]) -> int:
    """The dimension that Threefry halves: the first even one, else the first of the longest."""
    if not dims:
        return 0
    even = [d for d, dim in enumerate(dims) if dim % 2 == 0]
    return even[0] if even else max(range(len(dims)), key=lambda d: (dims[d], -d))
