"""The "window-product" kernel of integers where the CPU multiplies matrices (AMX).

The innermost contracted dimension is that of groups of neighbours: whole steps of AMX's instructions. The registers of
sums go on from what is at a tile's place in scratch memory where sums are cut into pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ..generator import Index
from ..llvm_ir import Value, i64
from .emit import Frame
from .matrix_tiles import MatrixTile, Rows
from .window_product import Summed, WindowProduct


class MatrixWindow(WindowProduct):
    """The kernel with tiles in registers of matrices."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.matrix = MatrixTile(self.form, self.rows, self.vectors)

    def rate(self) -> float:
        return self.frame.target.costs.matrices.multiply_adds

    def do_units(self, dims: list[int], unit: Callable[[Index], None]) -> None:
        with self.matrix.configured(self.b):
            super().do_units(dims, unit)

    def write_sums(
        self, sums: list[Summed], lhs: Value, rhs: Value, to: Value, left: Value
    ) -> None:
        self.matrix.clear(self.b)
        self.multiply(sums, lhs, rhs)
        self.matrix.store(self.b, Rows(to, self.row[3] * self.form.result.size))

    def add_sums(self, sums: list[Summed], lhs: Value, rhs: Value, place: Value) -> None:
        kept = Rows(place, self.width * self.form.result.size)
        self.matrix.load(self.b, kept)
        self.multiply(sums, lhs, rhs)
        self.matrix.store(self.b, kept)

    def write_kept(self, place: Value, to: Value, left: Value) -> None:
        self.matrix.load(self.b, Rows(place, self.width * self.form.result.size))
        self.matrix.store(self.b, Rows(to, self.row[3] * self.form.result.size))

    def multiply(self, sums: list[Summed], lhs: Value, rhs: Value) -> None:
        """Add the products of ``sums`` to the registers."""
        b, form = self.b, self.form
        *outer, groups = sums
        with ExitStack() as loops:
            for s in outer:
                n = loops.enter_context(b.loop(i64(0), i64(s.size)))
                lhs, rhs = self.moved(s, n, lhs, rhs)
            left = Rows(lhs, self.row[1] * form.lhs.size)
            right = Rows(rhs, groups.rhs * form.rhs.size)
            self.matrix.add_products(b, left, right, i64(0), i64(groups.size))
