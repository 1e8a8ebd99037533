"""The micro kernel of matrix products: a tile of sums in registers, and the products that are added to it.

A tile is some rows by some vectors. A step adds the products of a column of lhs, whose elements are read a scalar at a
time and repeated in all lanes, and of a row of rhs, which is read in whole vectors. Kernels differ in where the two
lie (:mod:`.packed_dot`, :mod:`.attention`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import llvm_ir
from ..llvm_ir import Builder, Value, i64
from ..representation import memory_type
from .product_forms import ProductForm


def step(
    b: Builder, form: ProductForm, rows: int, left: Value, left_row: int, right: list[Value], totals: list[Value]
) -> list[Value]:  # fmt: skip
    """``totals``, row by row, with the products of one group more: the groups at ``left``, ``left_row`` elements apart,
    by the vectors ``right``.
    """
    lhs = memory_type(form.lhs)
    vectors = len(right)
    totals = list(totals)
    for r in range(rows):
        scalar = b.load(form.scalar, b.gep(lhs, left, i64(r * left_row)), form.lhs.size)
        repeated = form.repeated(b, scalar)
        for v in range(vectors):
            n = r * vectors + v
            totals[n] = form.multiply_add(b, repeated, right[v], totals[n])
    return totals


class Places:
    """Where arrays, blocks and tiles begin and end, for a kernel with the builder ``b``."""

    b: Builder

    def offset(self, index: Sequence[Value], strides: Sequence[int]) -> Value:
        """Where ``index`` is in an array."""
        total: Value = i64(0)
        for value, stride in zip(index, strides, strict=True):
            total = self.b.add(total, self.b.mul(value, i64(stride)))
        return total

    def end(self, start: Value, size: int, of: int) -> Value:
        """Where the part of ``size`` that begins at ``start`` ends."""
        following = self.b.add(start, i64(size))
        return self.b.intrinsic("smin", [following, i64(of)]) if of % size else following

    def start(self, number: Value, size: int, of: int) -> Value:
        """The first row (or column) of tile ``number``: the last tile ends with the result."""
        first = self.b.mul(number, i64(size))
        return self.b.intrinsic("smin", [first, i64(of - size)]) if of % size else first


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of ``rows`` by ``vectors``; strides are in elements. ``aligned``: whether rows of rhs lie at whole
    vectors.
    """

    rows: int
    vectors: int
    left_row: int
    left_depth: int
    right_row: int
    aligned: bool

    def zeros(self, form: ProductForm) -> list[Value]:
        return [llvm_ir.zero(form.accumulator)] * (self.rows * self.vectors)

    def accumulate(
        self, b: Builder, form: ProductForm, left: Value, right: Value, count: Value, totals: list[Value]
    ) -> list[Value]:  # fmt: skip
        """``totals`` with ``count`` groups more of the matrices at ``left`` and ``right``; a group is one element."""
        lhs, rhs = memory_type(form.lhs), memory_type(form.rhs)
        align = form.lanes * form.rhs.size if self.aligned else form.rhs.size

        def one(k: Value, sums: list[Value]) -> list[Value]:
            row = b.gep(rhs, right, b.mul(k, i64(self.right_row)))
            vectors = [
                b.load(form.vector, b.gep(rhs, row, i64(v * form.lanes)), align)
                for v in range(self.vectors)
            ]
            column = b.gep(lhs, left, b.mul(k, i64(self.left_depth)))
            return step(b, form, self.rows, column, self.left_row, vectors, sums)

        start: Value = i64(0)
        unroll = 1 if self.rows * self.vectors > 12 else 2
        if unroll > 1:
            main = b.sub(count, b.binary("urem", count, i64(unroll)))
            with b.loop_carrying(start, main, unroll, totals, "product") as (k, carried, results):
                for n in range(unroll):
                    carried[:] = one(b.add(k, i64(n)), carried)
            totals, start = results, main
        with b.loop_carrying(start, count, 1, totals, "product") as (k, carried, results):
            carried[:] = one(k, carried)
        return results
