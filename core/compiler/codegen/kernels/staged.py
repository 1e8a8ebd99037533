"""Small arrays of a matrix's rows, such as scales of groups of weights: converted once for a tile of a product.

A product of a few rows by a matrix ``[n, k]`` reads a tile of columns (rows of the matrix) from one end to the other.
Scales are floats of 16 bits in memory, and each is read by itself and goes to all lanes: to convert it there costs as
much as its group's share of the product, and to convert all of them before writes and reads twice their memory. Here a
tile converts those of its columns, which lie next to each other, into a buffer on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...ir import dtypes, hlo
from ..generator import UNKNOWN, Array, Coordinate, Generator, Index, fixed
from ..llvm_ir import i64
from ..representation import memory_type

if TYPE_CHECKING:
    from ..representation import Element

_CONVERTED: Final = frozenset((dtypes.BF16, dtypes.F16))


def arrays_by_column(
    dot: hlo.Instruction, matrix: hlo.Instruction, results: Sequence[hlo.Instruction]
) -> list[hlo.Instruction]:
    """The parameters ``[n, groups]`` of 16-bit floats that row i of ``matrix``, ``[n, k]``, reads in row i alone.

    Those that the other operand of ``dot`` reads too, or what computes ``results`` of the product, are left out.
    """
    found: dict[hlo.Instruction, None] = {}
    others: set[hlo.Instruction] = set()
    seen = {(dot, False)}
    stack = [(i, False) for i in (*results, *dot.operands) if i is not matrix]
    stack.append((matrix, True))
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        i, same_row = place
        if i.opcode == "parameter":
            if (
                same_row
                and i.dtype in _CONVERTED
                and len(i.dims) == 2
                and i.elements < matrix.elements
            ):
                found[i] = None
            else:
                others.add(i)
        for n, operand in enumerate(i.operands):
            stack.append((operand, same_row and _keeps_row(i, n)))
    return [i for i in found if i not in others]


def _keeps_row(i: hlo.Instruction, number: int) -> bool:
    """Whether an element of ``i`` is made of operand ``number``'s elements with the same first index."""
    operand = i.operands[number]
    if not i.dims or operand.dims[:1] != i.dims[:1]:
        return False
    if i.opcode == "broadcast":
        return bool(i.attributes["dimensions"][:1] == (0,))
    return i.opcode in ("bitcast", "reshape") or (i.is_elementwise and operand.dims == i.dims)


class Staged:
    """Buffers for the rows of ``arrays`` that tiles of ``rows`` rows read; too long ones are read where they lie."""

    def __init__(
        self, g: Generator, arrays: list[hlo.Instruction], rows: int, lanes: int, most_bytes: int
    ) -> None:
        self.g = g
        self.rows = rows
        self.lanes = lanes
        self.buffers: dict[hlo.Instruction, Array] = {}
        left = most_bytes
        for i in arrays:
            shape = hlo.Shape(dtypes.F32, (rows, i.dims[1]))
            if lanes <= shape.elements and shape.bytes <= left:
                left -= shape.bytes
                pointer = g.builder.alloca("float", shape.elements)
                g.note(pointer)
                self.buffers[i] = Array(pointer, shape)

    def fill(self, first: Coordinate) -> None:
        """Convert the rows from ``first`` on, and ask for those of the next tile; the matrix reads the buffers then."""
        for i, buffer in self.buffers.items():
            self._convert(self.g.arrays[i], buffer, first)
            self.g.readers[i] = self._reader(buffer, first)

    def _convert(self, source: Array, buffer: Array, first: Coordinate) -> None:
        g, lanes = self.g, self.lanes
        count = buffer.shape.elements
        flat = Array(source.pointer, hlo.Shape(source.shape.dtype, (source.shape.elements,)))
        into = Array(buffer.pointer, hlo.Shape(dtypes.F32, (count,)))
        begin = g.scale(first, source.shape.dims[1]).base
        vectors = max(1, g.target.costs.memory.line // (lanes * source.shape.dtype.size))
        step = lanes * vectors  # of a line
        memory = memory_type(source.shape.dtype)

        def vector(at: Coordinate) -> None:
            to = at._replace(stride=1, lanes=lanes)
            from_ = to._replace(base=g.add(begin, at.base), high=UNKNOWN, multiple=1)
            g.store(into, (to,), g.load(flat, (from_,), g.depth))

        whole = count // step * step
        if whole:
            with g.loop(i64(0), i64(whole), step) as (i, _, _):
                following = g.add(g.add(begin, i), i64(count))
                g.builder.prefetch(g.builder.gep(memory, source.pointer, following, inbounds=False))
                for n in range(0, step, lanes):
                    vector(Coordinate(g.add(i, i64(n)), 0, 1, None, 0, count - 1, lanes))
        for start in range(whole, count, lanes):
            vector(fixed(min(start, count - lanes)))

    def _reader(self, buffer: Array, first: Coordinate) -> Callable[[Index], Element]:
        g, depth = self.g, self.g.depth

        def read(index: Index) -> Element:
            base = g.sub(index[0].base, first.base)
            row = index[0]._replace(base=base, low=0, high=self.rows - 1, multiple=1)
            return g.load(buffer, (row, *index[1:]), depth)

        return read
