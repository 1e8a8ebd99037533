"""The "pack" kernel: the right-hand side of a matrix product in the order in which the product reads it.

The columns of a [K, N] matrix are cut into panels of ``width``; a panel holds, for each group of ``group`` neighbours
along K, the groups of its columns one after the other. So the kernel of the product (:mod:`.packed_dot`) reads a panel
from its beginning to its end, in whole vectors. The last panel is moved back to end with the matrix, and what is behind
the last row is 0. Elements are converted on the way.

Attributes (``config``): ``batch``, the sizes of the batch dimensions; ``strides`` of the operand's [batch..., K, N] in
elements; ``k``, ``n``, ``width``, ``group``; ``flip``, whether the highest bit of each byte changes. The result is
[product of batch, panels, groups, width, group]; it may have more groups than there are rows for, of zeros. With
``turns`` (no batch) the operand is [N, K], and is turned in registers: as words of 32 bits if groups have more than one
element.

A "pack" fusion holds such an instruction and what makes its operand, an array of [K, N] or [N, K]: the matrix is
computed while it is packed, and never in memory otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from .. import llvm_ir
from ..elements import conversion
from ..elements.elemental import element
from ..elements.memory import size_of
from ..generator import Coordinate, Index
from ..llvm_ir import Builder, Value, i64
from ..representation import memory_type, register_type
from .emit import EmittedKernel, Frame, emitter
from .loops import count
from .transposes import transpose_square

# Columns of bytes or pairs of bytes that are moved a row at a time.
_WHOLE_LINES: Final = (16, 32, 64)


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a ``pack`` instruction."""
    return _Pack(frame).emit()


class _Pack:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.g = frame.generator
        self.b = frame.builder
        (self.pack,) = (i for i in frame.computation.instructions if i.opcode == "pack")
        config = self.pack.attributes["config"]
        self.batch: tuple[int, ...] = config["batch"]
        *self.batch_strides, self.row_stride, self.column_stride = config["strides"]
        self.k, self.n = config["k"], config["n"]
        self.width, self.group = config["width"], config["group"]
        self.flip = config["flip"]
        (self.matrix,) = self.pack.operands
        self.is_made = self.matrix.opcode != "parameter"  # of what the fusion holds besides
        self.turns = config.get("turns", False)
        self.source = frame.operands[0]
        self.result = frame.results[0]
        self.from_dtype, self.to_dtype = self.matrix.dtype, self.result.shape.dtype
        self.from_type, self.to_type = memory_type(self.from_dtype), memory_type(self.to_dtype)
        widest = max(
            self.from_dtype.size, self.to_dtype.size, size_of(register_type(self.to_dtype))
        )
        self.lanes = min(frame.target.lane_count(4 if widest < 4 else widest), self.width)
        moves = not self.is_made and not self.turns and self.from_dtype is self.to_dtype
        if self.group > 1 and moves and self.width in _WHOLE_LINES:
            self.lanes = self.width

    def emit(self) -> EmittedKernel:
        groups = -(-self.k // self.group)
        panels = -(-self.n // self.width)
        padded = self.result.shape.dims[2]  # groups, those of zeros behind the last one too
        panel_size = padded * self.width * self.group  # elements
        chunk = max(
            1,
            self.frame.target.costs.memory.panel // (self.width * self.group * self.to_dtype.size),
        )
        chunks = -(-groups // chunk)
        chunk = -(-groups // chunks)
        b, g = self.b, self.g

        def unit(index: Index) -> None:
            *batch, panel, part = (c.base for c in index)
            left = b.mul(panel, i64(self.width))
            if self.n % self.width:
                left = b.intrinsic("smin", [left, i64(self.n - self.width)])
            source = b.mul(left, i64(self.column_stride))
            place: Value = i64(0)
            for value, size, stride in zip(batch, self.batch, self.batch_strides, strict=True):
                source = b.add(source, b.mul(value, i64(stride)))
                place = b.add(b.mul(place, i64(size)), value)
            place = b.add(b.mul(place, i64(panels)), panel)
            matrix = b.gep(self.from_type, self.source.pointer, source)
            packed = b.gep(self.to_type, self.result.pointer, b.mul(place, i64(panel_size)))
            start = b.mul(part, i64(chunk))
            stop = b.intrinsic("smin", [b.add(start, i64(chunk)), i64(self.k // self.group)])
            self.left = left
            if self.turns:
                whole = b.sub(stop, b.binary("urem", b.sub(stop, start), i64(self.lanes)))
                with b.loop(start, whole, self.lanes) as k:
                    self.turn(packed, k)
                start = whole
            with b.loop(start, stop) as k:
                self.pack_group(matrix, packed, k, self.group)
            if self.k % self.group:  # the last group is not full
                with b.only_if(b.icmp("eq", part, i64(chunks - 1)), "last", "packed"):
                    self.pack_group(matrix, packed, i64(groups - 1), self.k % self.group)
            if groups < padded:
                with b.only_if(b.icmp("eq", part, i64(chunks - 1)), "behind", "padded"):
                    self.pad(packed, groups, padded)

        dims = [*self.batch, panels, chunks]
        count(g, self.frame.begin, self.frame.end, dims, unit)
        units = math.prod(dims)
        moved = self.result.shape.bytes + self.result.shape.elements * self.from_dtype.size
        kernels = self.frame.target.costs.kernels
        cost = kernels.nest + moved * kernels.packed_byte
        return self.frame.finish(units, cost)

    def pad(self, packed: Value, start: int, stop: int) -> None:
        """Zeros in the groups [start, stop) of a panel."""
        b, group = self.b, self.width * self.group
        zeros = llvm_ir.zero(llvm_ir.vector(self.to_type, self.lanes))
        with b.loop(i64(start * group), i64(stop * group), self.lanes) as n:
            b.store(zeros, b.gep(self.to_type, packed, n), size_of(self.to_type))

    def pack_group(self, matrix: Value, packed: Value, k: Value, rows: int) -> None:
        """Pack the group of rows ``k``, of which only the first ``rows`` are there."""
        b = self.b
        to = b.gep(self.to_type, packed, b.mul(k, i64(self.width * self.group)))
        top = b.mul(k, i64(self.group * self.row_stride))
        base = b.gep(self.from_type, matrix, top)
        if self.is_made or self.turns:
            with self.anew():
                for column in range(0, self.width, self.lanes):
                    parts = [self.made(k, row, column) for row in range(rows)]
                    parts += [llvm_ir.zero(parts[0].type)] * (self.group - rows)
                    place = b.gep(self.to_type, to, i64(column * self.group))
                    value = self.flipped(interleave(b, parts, 8 * size_of(self.to_type)))
                    b.store(value, place, size_of(self.to_type))
            return
        zero = self.flipped(llvm_ir.zero(llvm_ir.vector(self.to_type, self.lanes)))
        for column in range(0, self.width, self.lanes):
            self.fetch(base, column)
            parts = [
                self.load(base, row * self.row_stride + column * self.column_stride)
                if row < rows
                else zero
                for row in range(self.group)
            ]
            value = interleave(b, parts, 8 * size_of(self.to_type))
            place = b.gep(self.to_type, to, i64(column * self.group))
            b.store(value, place, size_of(self.to_type))

    @contextmanager
    def anew(self) -> Iterator[None]:
        """A block of code that knows nothing of what others have computed, and leaves nothing."""
        with self.g.level():
            block = self.b.new_label("made")
            self.b.branch(block)
            self.b.start_block(block)
            yield

    def made(self, k: Value, row: int, column: int) -> Value:
        """``lanes`` columns of a row of group ``k``, computed."""
        top = self.b.add(self.b.mul(k, i64(self.group)), i64(row))
        at = Coordinate(top, high=self.k - 1)
        left = self.b.add(self.left, i64(column))
        columns = Coordinate(left, 1, self.lanes, None, 0, self.n - 1)
        return self.read((columns, at) if self.turns else (at, columns))

    def read(self, index: Index) -> Value:
        """A vector of the matrix as the product reads it."""
        value = element(self.g, self.matrix, index)
        assert isinstance(value, Value)
        value = self.g.splat(value, self.lanes)
        return conversion.to_memory_of(self.g, value, self.from_dtype, self.to_dtype)

    def turn(self, packed: Value, k: Value) -> None:
        """Pack ``lanes`` rows from ``k`` on of a [N, K] matrix: vectors along K, turned in registers."""
        b = self.b
        with b.loop(i64(0), i64(self.width), self.lanes) as column, self.anew():
            along = Coordinate(k, 1, self.lanes, None, 0, self.k - 1)
            left = b.add(self.left, column)
            vectors = []
            for n in range(self.lanes):
                at = Coordinate(b.add(left, i64(n)), high=self.n - 1)
                vectors.append(self.read((at, along)) if self.group == 1 else self.words(at, k))
            unit = self.to_type if self.group == 1 else "i32"
            for n, value in enumerate(transpose_square(b, vectors)):
                row = b.mul(b.add(k, i64(n)), i64(self.width))
                place = b.gep(unit, packed, b.add(row, column))
                b.store(self.flipped(value), place, size_of(self.to_type))

    def words(self, n: Coordinate, k: Value) -> Value:
        """``lanes`` groups of column ``n`` of a [N, K] matrix, from group ``k`` on."""
        b, type_ = self.b, llvm_ir.vector("i32", self.lanes)
        if not self.is_made:
            row = b.gep(self.from_type, self.source.pointer, b.mul(n.base, i64(self.k)))
            return b.load(type_, b.gep("i32", row, k), size_of(self.from_type))
        first = b.mul(k, i64(self.group))
        parts = []
        for part in range(self.group):
            start = b.add(first, i64(part * self.lanes))
            parts.append(self.read((n, Coordinate(start, 1, self.lanes, None, 0, self.k - 1))))
        while len(parts) > 1:
            lanes = range(2 * llvm_ir.lanes_of(parts[0].type))
            parts = [b.shuffle(*pair, lanes) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return b.cast("bitcast", parts[0], type_)

    def fetch(self, base: Value, column: int) -> None:
        """Ask for what is to be packed some rows later."""
        b = self.b
        for row in range(self.group):
            ahead = (row + self.frame.target.costs.memory.rows_ahead * self.group) * self.row_stride
            place = i64(ahead + column * self.column_stride)
            # Rows that are far apart have few places in the nearest cache.
            b.prefetch(
                b.gep(self.from_type, base, place, inbounds=False),
                locality=3 if self.group == 1 else 2,
            )

    def load(self, base: Value, offset: int) -> Value:
        """``lanes`` columns from ``offset`` on, as the product reads them."""
        b = self.b
        type_ = llvm_ir.vector(self.from_type, self.lanes)
        pointer = b.gep(self.from_type, base, i64(offset))
        raw = b.load(type_, pointer, size_of(self.from_type))
        return self.flipped(conversion.in_memory(self.g, raw, self.from_dtype, self.to_dtype))

    def flipped(self, value: Value) -> Value:
        """A vector of bytes, or of words of them, with the highest bit of each changed if the product wants that."""
        if not self.flip:
            return value
        bits = 0x80808080 if llvm_ir.scalar_of(value.type) == "i32" else 0x80
        return self.b.binary("xor", value, llvm_ir.integer(value.type, bits))


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
