"""The "block-transpose" kernel: a transpose of many small dimensions, in blocks that are turned about in registers.

The blocks are those of :mod:`...ir.lane_blocks`. Where a block lies in the operand and in the result follows from the
other digits: the last of them, some hundred blocks, are a table, and a unit of work is one walk through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...ir import hlo
from ...ir.lane_blocks import Digit, LaneBlocks, lane_blocks, places
from .. import llvm_ir
from ..elements.elemental import constant_table
from ..llvm_ir import Value, i64
from .emit import EmittedKernel, Frame, emitter
from .loops import count

if TYPE_CHECKING:
    from ...targets.target import Target

# Lanes of the longest vectors: a block of 16 vectors of 16 elements stays in registers.
_MOST_LANES: Final = 16
# Blocks of a table, at most.
_TABLE: Final = 256


def blocks_for(target: Target, transpose: hlo.Instruction) -> LaneBlocks | None:
    """The blocks in which a transpose runs on a target; None if it has none."""
    size = transpose.dtype.size
    if (transpose.dtype.bits < 8 and transpose.dtype.kind != "pred") or size > 8:
        return None
    return lane_blocks(transpose, min(target.vector_bytes // size, _MOST_LANES))


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a ``block-transpose`` instruction."""
    return _Blocks(frame).emit()


class _Blocks:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.g, self.b = frame.generator, frame.builder
        blocks = blocks_for(frame.target, frame.computation.root)
        assert blocks is not None
        self.blocks = blocks
        (self.source,), (self.result,) = frame.operands, frame.results
        self.size = self.result.shape.dtype.size
        self.type = f"i{8 * self.size}"
        self.vector = llvm_ir.vector(self.type, blocks.lanes)

    def emit(self) -> EmittedKernel:
        g, b, frame = self.g, self.b, self.frame
        outer, inner = _cut(self.blocks.outer)
        length = math.prod(d.size for d in inner)
        sources = constant_table(g, places(inner, "source"))
        targets = constant_table(g, places(inner, "target"))

        def unit(index: tuple[llvm_ir.Value, ...]) -> None:
            starts = [i64(0), i64(0)]
            for c, digit in zip(index, outer, strict=True):
                for side, stride in enumerate((digit.source, digit.target)):
                    starts[side] = g.add(starts[side], g.mul(c, i64(stride)))
            places = [
                g.offset_pointer(self.type, array.pointer, start)
                for array, start in zip((self.source, self.result), starts, strict=True)
            ]
            with g.loop(i64(0), i64(length)) as (n, _, _):
                pointers = []
                for place, table in zip(places, (sources, targets), strict=True):
                    distance = b.load("i64", b.gep("i64", table, n), 8)
                    pointers.append(b.gep(self.type, place, distance))
                self.block(*pointers)

        dims = [d.size for d in outer]
        count(g, frame.begin, frame.end, dims, lambda index: unit(tuple(c.base for c in index)))
        units = math.prod(dims)
        vectors = self.result.shape.elements / self.blocks.lanes
        kernels = frame.target.costs.kernels
        steps = 2 + len(self.blocks.leaving)
        bytes_moved = 2 * self.result.shape.bytes * kernels.byte
        cost = kernels.call + max(vectors * steps * kernels.cheap, bytes_moved)
        return frame.finish(units, cost)

    def block(self, source: Value, target: Value) -> None:
        """Read the vectors of a block, turn them about, and write them."""
        b, blocks, lanes = self.b, self.blocks, self.blocks.lanes
        entering, leaving = blocks.between_registers, list(blocks.leaving)
        registers = []
        for number in range(1 << len(entering)):
            place = _place(number, [bit.source for bit in entering])
            pointer = b.gep(self.type, source, i64(place))
            registers.append(b.load(self.vector, pointer, self.size))
        at = list(reversed(blocks.read))  # the bit of each bit of a lane's number
        wanted = list(reversed(blocks.written))
        swapped: list[Digit] = []
        for n, bit in enumerate(entering):
            # If possible, to where it is wanted.
            place = wanted.index(bit)
            if at[place] not in leaving:
                place = at.index(leaving[0])
            leaving.remove(at[place])
            swapped.append(at[place])
            at[place] = bit
            order = list(range(lanes))
            if n == len(entering) - 1:
                order = _order(at, wanted)
            low = [_from_pair(lane, place, lanes, 0) for lane in order]
            high = [_from_pair(lane, place, lanes, 1) for lane in order]
            for first in range(len(registers)):
                if first >> n & 1 == 0:
                    second = first | 1 << n
                    pair = registers[first], registers[second]
                    registers[first] = b.shuffle(*pair, low)
                    registers[second] = b.shuffle(*pair, high)
        if not entering:
            order = _order(at, wanted)
            registers = [b.shuffle(r, r, order) for r in registers]
        for number, register in enumerate(registers):
            place = _place(number, [bit.target for bit in swapped])
            b.store(register, b.gep(self.type, target, i64(place)), self.size)


def _cut(digits: Sequence[Digit]) -> tuple[list[Digit], list[Digit]]:
    """The digits of the units of work, and those of their table."""
    outer, inner = list(digits), list[Digit]()
    while outer:
        last = outer[-1]
        room = _TABLE // math.prod(d.size for d in inner)
        part = last.size if last.size <= room else math.gcd(last.size, 1 << room.bit_length() - 1)
        inner.insert(0, last._replace(size=part))
        if part < last.size:
            outer[-1] = Digit(last.size // part, last.source * part, last.target * part)
            break
        outer.pop()
    return outer, inner


def _from_pair(lane: int, place: int, lanes: int, bit: int) -> int:
    """Where lane ``lane`` comes from when a bit of the number of the register changes places with bit ``place`` of the
    lane's number: lanes of the first register, then those of the second. ``bit``: of the register that is made.
    """
    from_second = lane >> place & 1
    return (lane & ~(1 << place) | bit << place) + from_second * lanes


def _order(at: Sequence[Digit], wanted: Sequence[Digit]) -> list[int]:
    """The lanes that lanes whose numbers have the bits ``wanted`` come from, where they have the bits ``at``."""
    return [
        sum(((lane >> wanted.index(bit)) & 1) << place for place, bit in enumerate(at))
        for lane in range(1 << len(at))
    ]


def _place(number: int, strides: Sequence[int]) -> int:
    """The sum of the strides whose bits are set in ``number``."""
    return sum(stride for bit, stride in enumerate(strides) if number >> bit & 1)


__all__ = ["blocks_for", "emit"]
