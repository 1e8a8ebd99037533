"""What the kernels of attention have in common: blocks of matrices on the stack, and values at positions of scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ...ir import dtypes, errors, hlo
from ...ir.dtypes import DType
from .. import llvm_ir
from ..elements import conversion, elementwise
from ..elements.elemental import element
from ..generator import Coordinate, Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from . import product_forms
from .emit import Frame
from .product_forms import ProductForm
from .transposes import transpose_square

# exp(x) is 0 for what is less than minus this: the smallest number is 1e-45 (f32), 5e-324 (f64).
VANISHES: Final = {dtypes.F32: 110.0, dtypes.F64: 750.0}


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: where it begins, and the strides of its rows and columns in elements."""

    base: Value
    dtype: DType
    row: int
    column: int
    columns: int


class Blocks:
    """Methods for a kernel over blocks of scores. ``dims``: of all scores, the keys' last; ``main``: the dimension of
    the queries that tiles run along, or -1; ``m`` and ``n``: how many queries and keys; ``width``: keys of a panel.
    """

    frame: Frame
    form: ProductForm
    dtype: DType
    dims: tuple[int, ...]
    main: int
    m: int
    n: int
    batch: int
    width: int
    at: dict[int, Coordinate]  # where in the other dimensions the code is

    def __init__(self, frame: Frame, dtype: DType) -> None:
        self.frame = frame
        self.b, self.g = frame.builder, frame.generator
        self.dtype = dtype
        self.type = memory_type(dtype)
        self.size = dtype.size

    def read_scores(self, scores: hlo.Instruction) -> ProductForm:
        """Take the dimensions of the scores. The largest one of the queries is that of the tiles; the others are as
        batch dimensions. Gives the form of the products.
        """
        self.dims, self.n = scores.dims, scores.dims[-1]
        self.batch = len(scores.attributes["dimension_numbers"].lhs_batch)
        own = range(self.batch, len(self.dims) - 1)
        self.main = max(own, key=lambda d: self.dims[d], default=-1)
        self.m = self.dims[self.main] if self.main >= 0 else 1
        form = product_forms.choose(self.frame.target, self.dtype, self.dtype, self.dtype)
        if form is None:
            message = "no form for these products"
            raise errors.of_instruction("INTERNAL", message, self.frame.instruction)
        return form

    @property
    def lanes(self) -> int:
        return self.form.lanes

    @property
    def panels(self) -> int:
        """How many panels all keys are."""
        return -(-self.n // self.width)

    def place(self, array: Any, strides: list[int]) -> Value:
        """Where the matrix of the current batch element begins in ``array``."""
        offset: Value = i64(0)
        for d in self.at:
            offset = self.b.add(offset, self.b.mul(self.at[d].base, i64(strides[d])))
        return self.b.gep(memory_type(array.shape.dtype), array.pointer, offset)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        with self.g.loop(i64(0), self.b.cast("zext", condition, "i64")):
            yield

    def vector(self, value: Value) -> Value:
        return self.b.splat(value, self.lanes)

    def load(self, pointer: Value, aligned: bool = True) -> Value:
        align = self.lanes * self.size if aligned else self.size
        return self.b.load(self.form.accumulator, pointer, align)

    def store(self, value: Value, pointer: Value, aligned: bool = True) -> None:
        self.b.store(value, pointer, self.lanes * self.size if aligned else self.size)

    def item(self, pointer: Value, place: Value) -> Value:
        return self.b.gep(self.type, pointer, place)

    def floating(self, value: float) -> Value:
        return llvm_ir.floating(self.form.accumulator, value)

    def array(self, count: int) -> Value:
        """Memory on the stack."""
        pointer = self.b.alloca(self.type, count)
        self.g.note(pointer)
        return pointer

    def copy_row(self, matrix: Matrix, number: Value, to: Value) -> None:
        """Copy a row, converted."""
        b, dtype, length = self.b, matrix.dtype, matrix.columns
        type_ = memory_type(dtype)
        source = b.gep(type_, matrix.base, b.mul(number, i64(matrix.row)))

        def copy(k: Value, lanes: int) -> None:
            pointer = b.gep(type_, source, b.mul(k, i64(matrix.column)))
            value = b.load(llvm_ir.vector(type_, lanes), pointer, dtype.size)
            b.store(self.widened(value, dtype), self.item(to, k), self.size)

        main = length - length % self.lanes if matrix.column == 1 else 0
        with b.loop(i64(0), i64(main), self.lanes) as k:
            copy(k, self.lanes)
        with b.loop(i64(main), i64(length)) as k:
            copy(k, 1)

    def widened(self, value: Value, dtype: DType) -> Value:
        """What was loaded, as the kernel computes with it."""
        if dtype is self.dtype:
            return value
        register = conversion.from_memory(self.g, value, dtype)
        return conversion.number(self.g, register, dtype, self.dtype)

    def recomputed(
        self,
        i: hlo.Instruction,
        known: hlo.Instruction,
        value: Value,
        index: Index,
        mask: Value | None,
    ) -> Value:
        """A vector of ``i`` at ``index``, in the lanes of ``mask``, where that of ``known`` is ``value``."""
        with self.g.masked(mask):
            self.g.know(known, index, value)
            made = element(self.g, i, index)
        assert isinstance(made, Value)
        return self.vector(made)

    def turn(self, matrix: Matrix, packed: Value, start: Value, stop: Value) -> None:
        """Turn the panels [start, stop) of the rows of ``matrix``, a row for each key: the keys of a panel next to each
        other, for each column.
        """
        b, lanes = self.b, self.lanes
        dtype, depth = matrix.dtype, matrix.columns
        type_ = memory_type(dtype)
        whole = depth - depth % lanes if matrix.column == 1 else 0

        def row(first: Value, n: int) -> Value:
            """Where key ``first + n`` is, or some key for those behind the last one."""
            key = b.add(first, i64(n))
            if self.n % self.width:
                key = b.intrinsic("smin", [key, i64(self.n - 1)])
            return b.gep(type_, matrix.base, b.mul(key, i64(matrix.row)))

        with b.loop(start, stop) as panel, b.loop(i64(0), i64(self.width), lanes) as column:
            first = b.add(b.mul(panel, i64(self.width)), column)
            local = b.mul(b.sub(panel, start), i64(self.width * depth))
            to = self.item(packed, b.add(local, column))
            rows = [row(first, n) for n in range(lanes)]
            if whole:
                with b.loop(i64(0), i64(whole), lanes) as k:
                    vectors = [
                        self.widened(
                            b.load(llvm_ir.vector(type_, lanes), b.gep(type_, r, k), dtype.size),
                            dtype,
                        )
                        for r in rows
                    ]
                    for n, value in enumerate(transpose_square(b, vectors)):
                        place = b.mul(b.add(k, i64(n)), i64(self.width))
                        self.store(value, self.item(to, place))
            with b.loop(i64(whole), i64(depth)) as k:
                place = self.item(to, b.mul(k, i64(self.width)))
                if matrix.row == 1 and not self.n % self.width:
                    pointer = b.gep(type_, rows[0], b.mul(k, i64(matrix.column)))
                    raw = b.load(llvm_ir.vector(type_, lanes), pointer, dtype.size)
                else:
                    raw = llvm_ir.poison(llvm_ir.vector(type_, lanes))
                    for n, r in enumerate(rows):
                        pointer = b.gep(type_, r, b.mul(k, i64(matrix.column)))
                        raw = b.insert(raw, b.load(type_, pointer, dtype.size), n)
                self.store(self.widened(raw, dtype), place)

    def keys_until(self, stop: Value) -> Value:
        """Where the panels before ``stop`` end: the last one may have fewer keys."""
        last = self.b.mul(stop, i64(self.width))
        return self.b.intrinsic("smin", [last, i64(self.n)]) if self.n % self.width else last

    def index(self, row: Value, column: Value) -> Index:
        """The index of a vector of scores."""
        at = dict(self.at)
        if self.main >= 0:
            at[self.main] = Coordinate(row, high=self.m - 1)
        at[len(self.dims) - 1] = Coordinate(column, 1, self.lanes, None, 0, self.n - 1)
        return tuple(at[d] for d in range(len(self.dims)))

    def each_panel(
        self,
        first: Value,
        last: Value,
        carried: list[Value],
        body: Callable[[Value, list[Value], bool], list[Value]],
    ) -> list[Value]:
        """``body`` for each panel in [first, last); the one with keys that are not there for itself, it is told."""
        b, g = self.b, self.g
        stop = last
        if self.n % self.width:
            stop = b.intrinsic("smin", [last, i64(self.panels - 1)])
        with g.loop(first, stop, 1, carried) as (panel, state, results):
            state[:] = body(panel, list(state), False)
        if self.n % self.width:
            first = b.intrinsic("smax", [first, i64(self.panels - 1)])
            with g.loop(first, last, 1, results) as (panel, state, rest):
                state[:] = body(panel, list(state), True)
            return rest
        return results

    def there(self, column: Value) -> Value:
        """Which of the keys from ``column`` on there are."""
        offsets = self.b.lane_offsets(self.lanes)
        keys = self.b.add(self.b.splat(column, self.lanes), offsets)
        return self.b.icmp("slt", keys, self.b.splat(i64(self.n), self.lanes))

    def elementwise(self, instruction: hlo.Instruction, x: Value) -> Value:
        """``instruction`` of a vector."""
        value = elementwise.emit(self.g, instruction, [x])
        assert isinstance(value, Value)
        return value


def narrowed(form: ProductForm, columns: int) -> ProductForm:
    """``form`` with vectors of at most ``columns`` elements."""
    lanes = form.lanes
    while lanes > columns:
        lanes //= 2
    return replace(form, lanes=lanes)
