"""The copies of operands that a unit of work of a packed product makes, and the sums of rows.

Rows of lhs are copied where they are of another type than the products', or where the last step of a sum is not full;
groups of a panel of rhs where the panel is not packed before.
"""

from __future__ import annotations

from typing import Final

from ...ir import dtypes
from ...ir.dtypes import DType
from .. import llvm_ir
from ..elements import conversion
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .made_panels import interleave
from .product_tiles import Panel, PlacedTile, ProductTiles

# The bytes of the shortest vector with which an instruction sums bytes.
_SHORTEST: Final = 16


class ProductCopies(ProductTiles):
    """What a unit of work copies and sums before its tiles, or while it computes them."""

    def converted(self, value: Value, given: DType, wanted: DType) -> Value:
        return conversion.in_memory(self.frame.generator, value, given, wanted)

    def stage(self, start: Value, stop: Value) -> None:
        """Copy the groups [start, stop) of the unit's rows, converted, zeros behind the last element."""
        b, form = self.b, self.form
        given = self.lhs_array.shape.dtype
        source, to = memory_type(given), memory_type(form.lhs)
        lanes = self.frame.target.lane_count(
            max(given.size, form.lhs.size, 4 if form.lhs.is_float else 1)
        )
        first = b.mul(start, i64(form.group))
        last = b.mul(stop, i64(form.group))
        if self.k % form.step:
            last = b.intrinsic("smin", [last, i64(self.k)])
        length = b.sub(last, first)
        main = b.sub(length, b.binary("urem", length, i64(lanes)))

        def copy(row: Value, place: Value, k: Value, count_: int) -> None:
            pointer = b.gep(source, row, b.mul(b.add(first, k), i64(self.lhs_depth)))
            value = b.load(llvm_ir.vector(source, count_), pointer, given.size)
            value = self.converted(value, given, form.lhs)
            b.store(value, b.gep(to, place, k), form.lhs.size)

        assert self.staged is not None
        with b.loop(self.near_tile, self.near_end) as tile:
            top = self.start(tile, self.rows, self.m)
            number = b.mul(b.sub(tile, self.near_tile), i64(self.rows))
            with b.loop(i64(0), i64(self.rows)) as r:
                row = b.gep(source, self.lhs, b.mul(b.add(top, r), i64(self.lhs_row)))
                at = b.mul(b.add(number, r), i64(self.staged_row))
                place = b.gep(to, self.staged, at)
                if self.lhs_depth == 1:
                    with b.loop(i64(0), main, lanes) as k:
                        copy(row, place, k, lanes)
                with b.loop(main if self.lhs_depth == 1 else i64(0), length) as k:
                    copy(row, place, k, 1)
                self.pad(b.gep(to, place, length))

    def pad(self, place: Value) -> None:
        """Zeros behind the last element of a staged row, where its last step is not full. Another piece than the last
        one overwrites them, or does not read them.
        """
        to = memory_type(self.form.lhs)
        for n in range(-self.k % self.form.step):
            self.b.store(llvm_ir.zero(to), self.b.gep(to, place, i64(n)), self.form.lhs.size)

    def copied_group(self, panel: PlacedTile | Panel, k: Value) -> list[Value]:
        """The vectors of group ``k`` of a panel, read where they lie, converted, and copied."""
        b, form = self.b, self.form
        given = self.rhs_array.shape.dtype
        source, to = memory_type(given), memory_type(form.rhs)
        row = b.gep(source, panel.lying, b.mul(k, i64(form.group * self.rhs_row)))
        place = b.gep(to, panel.packed, b.mul(k, i64(self.width * form.group)))
        ahead = self.frame.target.costs.memory.rows_ahead * form.group
        for n in range(ahead, ahead + form.group):
            below = b.gep(source, row, i64(n * self.rhs_row), inbounds=False)
            for line in range(self.lying_lines):
                at = i64(line * self.frame.target.costs.memory.line)
                self.prefetch(b.gep("i8", below, at, inbounds=False), 0, 3)
        right = []
        # Whole rows are turned into groups by fewer instructions than their vectors are.
        columns = form.lanes if form.group == 1 else self.tile_width
        for column in range(self.skipped * form.lanes, self.width, columns):
            parts = []
            for n in range(form.group):
                pointer = b.gep(source, row, i64(n * self.rhs_row + column))
                value = b.load(llvm_ir.vector(source, columns), pointer, given.size)
                parts.append(self.converted(value, given, form.rhs))
            value = interleave(b, parts, 8 * form.rhs.size)
            if form.flips:
                value = b.binary("xor", value, llvm_ir.integer(value.type, -128))
            each = form.lanes * form.group
            for first in range(0, columns * form.group, each):
                part = value
                if columns > form.lanes:
                    part = b.shuffle(value, value, range(first, first + each))
                right.append(part)
                to_place = b.gep(to, place, i64(column * form.group + first))
                b.store(part, to_place, each * form.rhs.size)
        return right

    def sum_rows(self, sums: Value) -> None:
        """``correction`` times the sum of each row of lhs that the unit reads."""
        b, form = self.b, self.form
        lanes = 4 * form.lanes
        while lanes > max(self.k, _SHORTEST):  # a shorter vector for rows that do not fill one
            lanes //= 2
        instruction = f"{form.instruction.rpartition('.')[0]}.{8 * lanes}"
        vector, sums_type = f"<{lanes} x i8>", f"<{lanes // 4} x i32>"
        rest = self.k % lanes
        main = self.k - rest
        extend = "zext" if form.lhs is dtypes.U8 else "sext"

        def added(row: Value, first: Value, ones: Value, total: Value) -> Value:
            """``total`` and the elements from ``first`` on whose lane is 1 in ``ones``."""
            value = b.load(vector, b.gep("i8", row, first), 1)
            pair = [value, ones] if form.lhs is dtypes.U8 else [ones, value]
            return b.call(sums_type, instruction, [total, *pair])

        with b.loop(self.first_tile, self.last_tile) as tile:
            top = self.start(tile, self.rows, self.m)
            first = b.mul(b.sub(tile, self.first_tile), i64(self.rows))
            with b.loop(i64(0), i64(self.rows)) as r:
                row = b.gep("i8", self.lhs, b.mul(b.add(top, r), i64(self.lhs_row)))
                total = llvm_ir.zero(sums_type)
                with b.loop_carrying(i64(0), i64(main), lanes, [total]) as (k, carried, results):
                    carried[:] = [added(row, k, llvm_ir.integer(vector, 1), carried[0])]
                total = results[0]
                if main and rest:  # the vector that ends with the row, without what is in the sum
                    ones = llvm_ir.lanes_constant("i8", [0] * (lanes - rest) + [1] * rest)
                    total = added(row, i64(self.k - lanes), ones, total)
                name = f"llvm.vector.reduce.add.{llvm_ir.mangle(sums_type)}"
                whole = b.call("i32", name, [total])
                if not main:
                    with b.loop_carrying(i64(0), i64(rest), 1, [whole]) as (k, carried, results):
                        value = b.cast(extend, b.load("i8", b.gep("i8", row, k), 1), "i32")
                        carried[:] = [b.add(carried[0], value)]
                    (whole,) = results
                value = b.mul(whole, llvm_ir.integer("i32", form.correction))
                b.store(value, b.gep("i32", sums, b.add(first, r)), 4)
