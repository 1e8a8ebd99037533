"""AMX: the registers of a CPU that multiplies matrices, and the loop over the sums of a tile of products.

There are eight registers of up to 16 rows of 64 bytes. A row of lhs is 16 *groups* (:mod:`.product_forms`: two bf16 or
four bytes that are neighbours along the contracted dimension), a row of rhs one group of each of 16 columns, a row of
sums 16 columns of f32 or s32. Four registers hold sums, two each hold lhs and rhs. A tile of up to 32 rows is two
registers high, of which the second one ends with the tile; one of up to 16 rows is one register high and up to four
wide.

How many rows registers have is told to each thread before it uses them, and their memory is given back behind it
(:meth:`MatrixTile.configured`). Nothing that is called in between may use them: LLVM's own code does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from .. import llvm_ir
from ..llvm_ir import Builder, Value, i64
from ..representation import memory_type
from .product_forms import ProductForm

#: Rows of a register, and bytes of a row.
ROWS: Final = 16
ROW_BYTES: Final = 64
# The first register for each kind of matrix; sums have four.
_SUMS, _LHS, _RHS = 0, 4, 6


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of bytes: where the first one is, and how many bytes apart they are.

    ``passes``: they are read once while others stay in the nearest cache.
    """

    first: Value
    apart: int
    passes: bool = False

    @property
    def load(self) -> str:
        """The instruction that loads a register from them."""
        return "tileloaddt164" if self.passes else "tileloadd64"


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """A tile of ``rows`` by ``vectors`` times 16 columns; ``rows`` by more than two vectors are at most 16."""

    form: ProductForm
    rows: int
    vectors: int

    @property
    def heights(self) -> tuple[int, ...]:
        """The first row of each register of lhs."""
        return (0,) if self.rows <= ROWS else (0, self.rows - self.height)

    @property
    def height(self) -> int:
        """The rows of a register of lhs."""
        return self.rows if self.rows <= ROWS else -(-self.rows // 2)

    @contextmanager
    def configured(self, b: Builder) -> Iterator[None]:
        """Code that uses the registers. Source: Intel's Software Developer's Manual, volume 1, 18.3 (palette 1)."""
        rows = [self.height] * _RHS + [ROWS, ROWS]
        widths = [part for _ in rows for part in (ROW_BYTES, 0)]
        content = [1, *[0] * 15, *widths, *[0] * (32 - len(widths)), *rows, *[0] * (16 - len(rows))]
        instruction(b, "ldtilecfg", b.constant_array("i8", [str(n) for n in content]))
        yield
        instruction(b, "tilerelease")

    def clear(self, b: Builder) -> None:
        """Make the sums zero."""
        for n in range(len(self.heights) * self.vectors):
            instruction(b, "tilezero", _register(_SUMS + n))

    def add_products(
        self,
        b: Builder,
        left: Rows,
        right: Rows,
        start: Value,
        stop: Value,
        also: Callable[[Value], None] | None = None,
    ) -> None:
        """Add the products of the groups [start, stop), whole steps, to the sums.

        ``left`` are the rows of lhs from group 0 on, ``right`` the groups of rhs. ``also`` writes what each step does
        besides, given the number of its first group.
        """
        form = self.form
        group = form.group * form.lhs.size
        with b.loop(start, stop, form.depth, "product") as k:
            rows = b.gep("i8", left.first, b.mul(k, i64(group)))
            columns = b.gep("i8", right.first, b.mul(k, i64(right.apart)))
            if also is not None:
                also(k)
            for h, top in enumerate(self.heights):
                place = b.gep("i8", rows, i64(top * left.apart))
                instruction(b, left.load, _register(_LHS + h), place, i64(left.apart))
                for v in range(self.vectors):
                    register = _register(_RHS + v % 2)
                    if h == 0:
                        place = b.gep("i8", columns, i64(v * ROWS * group))
                        instruction(b, "tileloadd64", register, place, i64(right.apart))
                    sums = _register(_SUMS + h * self.vectors + v)
                    instruction(b, form.instruction, sums, _register(_LHS + h), register)

    def add(self, b: Builder, to: Value, more: Value) -> None:
        """Add the sums at ``more`` in memory to those at ``to``: rows that follow one another."""
        form = self.form
        type_, align = memory_type(form.result), form.lanes * form.result.size
        with b.loop(i64(0), i64(self.rows * self.vectors * form.lanes), form.lanes) as n:
            total = b.gep(type_, to, n)
            before = b.load(form.accumulator, total, align)
            after = b.load(form.accumulator, b.gep(type_, more, n), align)
            b.store(b.binary("fadd", before, after), total, align)

    def load(self, b: Builder, rows: Rows) -> None:
        """Load the sums from ``rows``."""
        self._move_sums(b, "tileloadd64", rows)

    def store(self, b: Builder, rows: Rows) -> None:
        """Store the sums to ``rows``."""
        self._move_sums(b, "tilestored64", rows)

    def _move_sums(self, b: Builder, name: str, rows: Rows) -> None:
        for h, top in enumerate(self.heights):
            for v in range(self.vectors):
                at = b.gep("i8", rows.first, i64(top * rows.apart + v * ROW_BYTES))
                sums = _register(_SUMS + h * self.vectors + v)
                instruction(b, name, sums, at, i64(rows.apart))


def instruction(b: Builder, name: str, *operands: Value) -> None:
    """Append an instruction of AMX, which LLVM takes to read and to write any memory."""
    b.call("void", f"llvm.x86.{name}", operands)


def _register(number: int) -> Value:
    return llvm_ir.integer("i8", number)
