"""The "pack" kernel: the right-hand side of a matrix product in the order in which the product reads it.

The columns of a [K, N] matrix are cut into panels of ``width``; a panel holds, for each group of ``group`` neighbours
along K, the groups of its columns one after the other. So the kernel of the product (:mod:`.packed_dot`) reads a panel
from its beginning to its end, in whole vectors. The last panel is moved back to end with the matrix, and what is behind
the last row is 0. Elements are converted on the way.

Attributes (``config``): ``batch``, the sizes of the batch dimensions; ``strides`` of the operand's [batch..., K, N] in
elements; ``k``, ``n``, ``width``, ``group``; ``flip``, whether the highest bit of each byte changes. The result is
[product of batch, panels, groups, width, group]; it may have more groups than there are rows for, of zeros. With
``turns`` (no batch) the operand is [N, K], and is turned in registers (:mod:`.made_panels`); ``in_word`` is how many
neighbours along K are taken out of one word then.

A "pack" fusion holds such an instruction and what makes its operand, an array of [K, N] or [N, K]: the matrix is
computed while it is packed, and never in memory otherwise.
"""

from __future__ import annotations

import math
from typing import Final

from .. import llvm_ir
from ..elements import conversion
from ..elements.memory import size_of
from ..generator import Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .emit import EmittedKernel, Frame, emitter
from .loops import count
from .made_panels import MadePanels, interleave

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
        same = self.from_dtype is self.to_dtype
        self.made = MadePanels(
            self.g,
            self.matrix,
            self.to_dtype,
            self.k,
            self.n,
            self.width,
            self.group,
            flip=self.flip,
            turns=self.turns,
            in_word=config.get("in_word", 1),
            source=self.source.pointer if same and not self.is_made else None,
        )
        self.lanes = self.made.lanes
        moves = not self.is_made and not self.turns and same
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
        chunk = -(-groups // (chunks * self.made.block)) * self.made.block
        chunks = -(-groups // chunk)
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
            if self.is_made or self.turns:
                self.made.write(packed, left, start, stop)
            else:
                with b.loop(start, stop) as k:
                    self.pack_group(matrix, packed, k, self.group)
            if self.k % self.group:  # the last group is not full
                last = i64(groups - 1), self.k % self.group
                with b.only_if(b.icmp("eq", part, i64(chunks - 1)), "last", "packed"):
                    if self.is_made or self.turns:
                        self.made.write_group(packed, left, *last)
                    else:
                        self.pack_group(matrix, packed, *last)
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
        zero = self.made.flipped(llvm_ir.zero(llvm_ir.vector(self.to_type, self.lanes)))
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
        return self.made.flipped(conversion.in_memory(self.g, raw, self.from_dtype, self.to_dtype))
