"""The "dot" kernel: contractions of any dimension numbers and dtypes, written for small and odd
ones.

Large matrix products go to a library; what is left is products whose matrices fit in the caches,
matrix-vector products (bound by memory), and dtypes no library knows. Operands may be computed on
the fly (a "dot" fusion reads its operands through element generators) and elementwise instructions
may follow.

Dimensions fall into four groups: batch, rows (free in lhs), columns (free in rhs) and contracted.
Neighbours of a group that are neighbours in every array are merged (:mod:`.contraction_loops`).
Four ways to compute a tile of the result:

* columns: a vector holds neighbouring columns; elements of lhs are broadcast. For rhs with columns
  minor (``[K,N]``), and, with the operands exchanged, for lhs with rows minor.
* dots (:mod:`.contraction_dots`): a vector holds neighbouring contracted elements of both operands; the accumulators
  of a tile are summed across lanes at the end, all at once. For operands with the contracted dimension minor
  (``[M,K] x [N,K]``).
* panels (:mod:`.contraction_panels`): few rows times a large matrix with columns minor: a block of columns is
  accumulated in memory while eight rows of the matrix at a time stream by.
* copied panels (:mod:`.contraction_copies`): complex numbers, in any order of dimensions, with enough rows to pay for
  the copies: a part of a panel of columns is copied, real parts apart from imaginary ones, and multiplied by a block of
  rows before the next part is read.

Few rows times a large matrix with the contracted dimension minor are dots. Either way the matrix is
read once, and fetched ahead: memory decides how long such a product takes.
"""

from __future__ import annotations

import math

from ...ir import errors, hlo
from ..elements.elemental import element
from ..generator import Array, Index
from ..llvm_ir import Value
from ..representation import Element, components
from .contraction_copies import copied_panels
from .contraction_dots import Dots
from .contraction_loops import Coordinates, Loops, Reader, analyse
from .contraction_panels import Panels
from .emit import EmittedKernel, Frame, emitter
from .loops import count, mask_of


class _Kernel(Loops):
    """A dot kernel being written: the way, and tiles of columns."""

    def emit(self) -> tuple[int, float]:
        """Write the kernel; (units of work, cost)."""
        c = self.c
        rows, columns = (math.prod(d.size for d in g) for g in (c.rows, c.columns))
        depth, batches = (math.prod(d.size for d in g) for g in (c.contracted, c.batch))
        kernels = self.target.costs.kernels
        multiply_adds = batches * rows * columns * depth * self.parts**2
        flops_ns = multiply_adds / (self.lanes * kernels.multiply_adds)
        moved = sum(a.shape.bytes for a in (*self.frame.operands, *self.frame.results))
        cost = kernels.nest + max(flops_ns, moved * kernels.product_byte)
        lhs_minor, rhs_minor = c.minor("lhs"), c.minor("rhs")
        if rhs_minor not in c.columns and lhs_minor in c.rows:
            self.exchange()
        elif rhs_minor in c.contracted and lhs_minor == rhs_minor:
            few = self.target.costs.products.few_rows
            if columns <= few < rows and self.frame.moves_at_least(
                self.target.costs.memory.streamed
            ):
                self.exchange()  # the matrix is rhs
            elif self.copies_panels():
                return copied_panels(self), cost
            return Dots(self).emit(), cost
        if self.streams() and not self.dtype.is_complex:
            return Panels(self).emit(), cost
        if self.copies_panels():
            return copied_panels(self), cost
        return self.columns_tiles(), cost

    def copies_panels(self) -> bool:
        """Whether parts of rhs are copied before they are multiplied: complex numbers, enough rows to pay for the
        copies, and an rhs that is large enough.
        """
        c, costs = self.c, self.target.costs
        if not (self.dtype.is_complex and self.fetches and c.rows and c.columns):
            return False
        _, _, width = self.vectors_of_tiles(c.rows[-1].size, c.columns[-1].size)
        return (
            len(c.contracted) == 1
            and c.rows[-1].size >= costs.products.copied_complex_rows
            and c.columns[-1].size >= width * self.lanes
            and c.contracted[0].size * c.columns[-1].size * self.dtype.size
            >= costs.products.copied_complex
        )

    def columns_tiles(self) -> int:
        c, g = self.c, self.g
        row, column, outer = self.row, self.column, self.outer
        height, lanes, width = self.vectors_of_tiles(row.size, column.size)
        blocks = -(-column.size // (width * lanes))
        unroll = max(1, min(4, 48 // (height * width * self.parts)))
        tail = column.size - (width - 1) * lanes  # lanes of the last vector, if there is one block
        mask = None
        if column.size < width * lanes:
            mask = mask_of(tail, lanes)

        def tile(index: Index) -> None:
            fixed_at = dict(zip(outer, index, strict=False))
            top = self.start(index[-2], height, row.size)
            left = self.start(index[-1], width * lanes, column.size)
            row_at = [self.offset(top, r, 1, row.size) for r in range(height)]
            column_at = [self.offset(left, v * lanes, lanes, column.size) for v in range(width)]

            def step(at: Coordinates, accumulators: list[Element]) -> None:
                right = []
                for v in range(width):
                    if mask is not None and v == width - 1:
                        with g.masked(mask):
                            right.append(self.read(1, {**fixed_at, **at, column: column_at[v]}))
                    else:
                        right.append(self.read(1, {**fixed_at, **at, column: column_at[v]}))
                self.add_products({**fixed_at, **at}, row_at, right, accumulators)

            start = [self.zeros(lanes) for _ in range(height * width)]
            values = self.contract(c.contracted, unroll, start, step)
            for n, value in enumerate(values):
                v = n % width
                at = {**fixed_at, row: row_at[n // width], column: column_at[v]}
                self.store(at, value, mask if v == width - 1 else None)

        dims = [*(d.size for d in outer), -(-row.size // height), blocks]
        count(g, self.frame.begin, self.frame.end, dims, tile)
        return math.prod(dims)


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of a dot, or of a "dot" fusion: one dot, with indexable instructions before and after it."""
    g = frame.generator
    computation = frame.computation
    found = [i for i in computation.instructions if i.opcode == "dot"]
    if len(found) != 1:
        raise errors.of_instruction("INTERNAL", "a dot fusion holds one dot", frame.instruction)
    dot = found[0]
    roots = computation.results
    plain = all(o.opcode == "parameter" for o in dot.operands) and roots == (dot,)
    if any(r.dims != dot.dims for r in roots):
        raise errors.of_instruction(
            "INTERNAL", "results of a dot fusion have the dot's dimensions", frame.instruction
        )
    if math.prod(dot.dims) == 0:
        return frame.finish(0, 0.0)
    contraction = analyse(dot, merge=plain)
    if plain:
        merged = (contraction.lhs, contraction.rhs)
        arrays = [
            Array(g.arrays[o].pointer, hlo.Shape(o.dtype, dims))
            for o, dims in zip(dot.operands, merged, strict=True)
        ]
        result = Array(frame.results[0].pointer, hlo.Shape(dot.dtype, contraction.result))
        readers: list[Reader] = [lambda index, a=a: g.load(a, index) for a in arrays]  # type: ignore[misc]

        def write(index: Index, value: Element, mask: Value | None) -> None:
            g.store(result, index, value, mask)

    else:
        readers = [lambda index, o=o: element(g, o, index) for o in dot.operands]  # type: ignore[misc]

        def write(index: Index, value: Element, mask: Value | None) -> None:
            g.note(*components(value))
            g.know(dot, index, value)
            if mask is None:
                values = [element(g, root, index) for root in roots]
            else:
                with g.masked(mask):
                    values = [element(g, root, index) for root in roots]
            for array, root_value in zip(frame.results, values, strict=True):
                g.store(array, index, root_value, mask)

    units, cost = _Kernel(frame, dot, contraction, readers, write).emit()
    return frame.finish(units, cost)
