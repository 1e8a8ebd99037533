"""Parts of panels of a rhs that is computed, or turned, while it is copied (:mod:`.pack`, :mod:`.packed_dot`).

The matrix is [K, N], or, if it ``turns``, [N, K]: then vectors along K are turned in registers, as words of 32 bits if
groups have more than one element. Where programs take several neighbours along K out of one word, a vector has one
number of each of as many words, in the lane of its word, and goes to rows that lie as far apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir import dtypes, hlo
from ...ir.dtypes import DType
from .. import llvm_ir
from ..elements import conversion
from ..elements.elemental import element
from ..elements.memory import size_of
from ..generator import Coordinate, Generator, Index
from ..llvm_ir import Builder, Value, i64
from ..representation import memory_type, register_type
from .transposes import transpose_square


class MadePanels:
    """Panels of ``width`` columns of ``matrix``, in groups of ``group`` rows, as elements of ``dtype``.

    ``k`` and ``n``: the rows and columns of the matrix as it is multiplied. ``flip``: whether the highest bit of each
    byte changes. ``in_word``: the neighbours along K that are taken out of one word. ``source``: where the matrix is in
    memory, if it is there as it is multiplied. Arrays of at least ``fetched`` bytes are fetched ahead; 0: none are.
    """

    def __init__(
        self,
        g: Generator,
        matrix: hlo.Instruction,
        dtype: DType,
        k: int,
        n: int,
        width: int,
        group: int,
        *,
        flip: bool,
        turns: bool,
        in_word: int = 1,
        source: Value | None = None,
        fetched: int = 0,
    ) -> None:
        self.g, self.b = g, g.builder
        self.matrix, self.dtype = matrix, dtype
        self.k, self.n, self.width, self.group = k, n, width, group
        self.flip, self.turns, self.source = flip, turns, source
        self.type = memory_type(dtype)
        widest = max(matrix.dtype.size, dtype.size, size_of(register_type(dtype)))
        self.lanes = min(g.target.lane_count(4 if widest < 4 else widest), width)
        self.fetched = fetched
        # Numbers of a word that are turned one after the other: those of whole groups.
        self.in_word = in_word if in_word % group == 0 and k % in_word == 0 else group

    @property
    def block(self) -> int:
        """The groups that are written at a time."""
        return self.lanes * self.in_word // self.group if self.turns else 1

    def write(self, packed: Value, left: Value, start: Value, stop: Value) -> None:
        """The whole groups [start, stop) of the panel whose first column is ``left``; ``packed``: where the panel's
        group 0 is, or would be. ``start`` is a multiple of :attr:`block`.
        """
        b = self.b
        if self.turns:
            whole = b.sub(stop, b.binary("urem", b.sub(stop, start), i64(self.block)))
            with (
                b.loop(i64(0), i64(self.width), self.lanes) as column,
                b.loop(start, whole, self.block) as k,
            ):
                self.turn(packed, left, column, k)
            start = whole
        with b.loop(start, stop) as k:
            self.write_group(packed, left, k, self.group)

    def write_group(self, packed: Value, left: Value, k: Value, rows: int) -> None:
        """Group ``k``, of which only the first ``rows`` are there."""
        b = self.b
        to = b.gep(self.type, packed, b.mul(k, i64(self.width * self.group)))
        with self.anew():
            self.fetch_rows(left, k, rows)
            for column in range(0, self.width, self.lanes):
                parts = [self.made(left, k, row, column) for row in range(rows)]
                parts += [llvm_ir.zero(parts[0].type)] * (self.group - rows)
                place = b.gep(self.type, to, i64(column * self.group))
                b.store(self.flipped(self.interleaved(parts)), place, size_of(self.type))

    @contextmanager
    def anew(self) -> Iterator[None]:
        """A block of code that knows nothing of what others have computed, and leaves nothing."""
        with self.g.level():
            block = self.b.new_label("made")
            self.b.branch(block)
            self.b.start_block(block)
            yield

    def made(self, left: Value, k: Value, row: int, column: int) -> Value:
        """``lanes`` columns of a row of group ``k``."""
        top = self.b.add(self.b.mul(k, i64(self.group)), i64(row))
        at = Coordinate(top, high=self.k - 1)
        first = self.b.add(left, i64(column))
        # The last panel is moved back to end with the matrix.
        multiple = math.gcd(self.lanes, self.width, self.n)
        columns = Coordinate(first, 1, self.lanes, None, 0, self.n - 1, multiple)
        return self.read((columns, at) if self.turns else (at, columns))

    def read(self, index: Index) -> Value:
        """A vector of the matrix as it is computed."""
        value = element(self.g, self.matrix, index)
        assert isinstance(value, Value)
        return self.g.splat(value, self.lanes)

    def stored(self, value: Value) -> Value:
        """A vector of the matrix as the product reads it."""
        return conversion.to_memory_of(self.g, value, self.matrix.dtype, self.dtype)

    @property
    def joins(self) -> bool:
        """Whether one instruction rounds two vectors to bf16. It takes subnormal numbers for 0, as the instructions do
        that multiply what it gives.
        """
        rounds = self.matrix.dtype is dtypes.F32 and self.dtype is dtypes.BF16 and self.group == 2
        return rounds and self.lanes == 16 and self.g.target.has("avx512bf16")

    def joined(self, first: Value, second: Value) -> Value:
        """Two vectors of f32 as one of bf16, one behind the other."""
        name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
        value = self.b.call("<32 x bfloat>", name, [second, first])
        return self.b.cast("bitcast", value, llvm_ir.vector(self.type, 32))

    def interleaved(self, parts: Sequence[Value]) -> Value:
        """Vectors of the neighbouring rows of a group, their elements beside each other."""
        if self.joins:
            value = self.joined(parts[0], parts[1])
            return self.b.shuffle(value, value, [n // 2 + n % 2 * 16 for n in range(32)])
        return interleave(self.b, [self.stored(p) for p in parts], 8 * size_of(self.type))

    def fetch_rows(self, left: Value, k: Value, rows: int) -> None:
        """Ask for what a group some rows below group ``k`` is made of."""
        if not self.fetched or self.turns:
            return
        memory = self.g.target.costs.memory
        for row in range(rows):
            ahead = row + memory.rows_ahead * self.group
            for column in range(0, self.width, self.lanes):
                with self.g.fetching(self.fetched, 3):
                    self.made(left, k, ahead, column)

    def fetch_columns(self, left: Value, column: Value, k: Value) -> None:
        """Ask for what the next columns are made of in the same place."""
        if not self.fetched:
            return
        b = self.b
        with self.anew(), self.g.fetching(self.fetched, 2):
            first = b.add(b.add(left, column), i64(self.lanes))
            for n in range(self.lanes):
                at = Coordinate(b.add(first, i64(n)), high=self.n - 1)
                along = Coordinate(b.mul(k, i64(self.group)), high=self.k - 1)
                element(self.g, self.matrix, (at, along))

    def turn(self, packed: Value, left: Value, column: Value, k: Value) -> None:
        """Write ``block`` groups from ``k`` on of ``lanes`` columns: vectors along K, turned in registers."""
        b = self.b
        self.fetch_columns(left, column, k)
        apart = self.in_word // self.group  # rows of a turned square
        for number in range(apart):
            with self.anew():
                first = b.add(left, column)
                vectors = []
                for n in range(self.lanes):
                    at = Coordinate(b.add(first, i64(n)), high=self.n - 1)
                    vectors.append(self.along(at, k, number))
                unit = self.type if self.group == 1 else "i32"
                for n, value in enumerate(transpose_square(b, vectors)):
                    row = b.mul(b.add(k, i64(n * apart + number)), i64(self.width))
                    place = b.gep(unit, packed, b.add(row, column))
                    b.store(self.flipped(value), place, size_of(self.type))

    def along(self, n: Coordinate, k: Value, number: int) -> Value:
        """``lanes`` groups of column ``n``, from group ``k`` on: of words, group ``number`` of each."""
        b, lanes, high = self.b, self.lanes, self.k - 1
        first = b.mul(k, i64(self.group))
        if self.in_word > self.group:
            parts = []
            for part in range(self.group):
                by = number * self.group + part
                start = self.g.behind(first, by, lanes * self.in_word)
                multiple = math.gcd(lanes * self.in_word, by)
                along = Coordinate(start, self.in_word, lanes, None, 0, high, multiple)
                parts.append(self.read((n, along)))
            value = self.interleaved(parts)
            return value if self.group == 1 else b.cast("bitcast", value, f"<{lanes} x i32>")
        if self.group == 1:
            return self.stored(self.read((n, Coordinate(k, 1, lanes, None, 0, high, lanes))))
        if self.source is not None:
            row = b.gep(self.type, self.source, b.mul(n.base, i64(self.k)))
            return b.load(f"<{lanes} x i32>", b.gep("i32", row, k), size_of(self.type))
        parts = []
        for part in range(self.group):
            start = b.add(first, i64(part * lanes))
            parts.append(self.read((n, Coordinate(start, 1, lanes, None, 0, high, lanes))))
        if self.joins:
            return b.cast("bitcast", self.joined(parts[0], parts[1]), f"<{lanes} x i32>")
        parts = [self.stored(p) for p in parts]
        while len(parts) > 1:
            both = range(2 * llvm_ir.lanes_of(parts[0].type))
            parts = [b.shuffle(*pair, both) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return b.cast("bitcast", parts[0], f"<{lanes} x i32>")

    def flipped(self, value: Value) -> Value:
        """A vector of bytes, or of words of them, with the highest bit of each changed if the product wants that."""
        return flipped(self.b, value) if self.flip else value


def largest_of(matrix: hlo.Instruction) -> int:
    """The bytes of the largest array that ``matrix`` is made of."""
    arrays = (i for i in hlo.topological_order([matrix]) if i.opcode == "parameter")
    return max(i.shape.bytes for i in arrays)  # type: ignore[union-attr]


def flipped(b: Builder, value: Value) -> Value:
    """A vector of bytes, or of words of them, with the highest bit of each changed."""
    bits = 0x80808080 if llvm_ir.scalar_of(value.type) == "i32" else 0x80
    return b.binary("xor", value, llvm_ir.integer(value.type, bits))


def interleave(b: Builder, parts: Sequence[Value], bits: int) -> Value:
    """a0 b0 c0 d0 a1 b1 ... of vectors of elements of ``bits``; one, two or four of them."""
    values = list(parts)
    lanes = llvm_ir.lanes_of(values[0].type)
    element = llvm_ir.scalar_of(values[0].type)
    while len(values) > 1:
        order = [n // 2 + (n % 2) * lanes for n in range(2 * lanes)]
        half = len(values) // 2
        # Neighbours first: from then on a pair is one element of twice the size.
        joined = [b.shuffle(values[2 * n], values[2 * n + 1], order) for n in range(half)]
        bits *= 2
        values = (
            joined if half == 1 else [b.cast("bitcast", v, f"<{lanes} x i{bits}>") for v in joined]
        )
    return b.cast("bitcast", values[0], llvm_ir.vector(element, lanes * len(parts)))
