"""Products of groups of rows (``ragged-dot``) as a loop over groups, and over blocks of rows of each.

A step of the outer loop takes one group's matrix, and a step of the inner one a block of the group's rows: it writes
those rows of their product that are the group's. That is so much work as the rows need, where a product of all rows for
each group, as JAX writes it for platforms that it knows nothing of, takes as many times that as there are groups. Where
the ragged dimension is contracted, the inner loop adds up the products of a group's blocks, and the outer one writes
them. A group without rows takes no step, and its matrix is not read: the groups that have rows stand in a list, which
is made before the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..ir import scans
from ..ir.dtypes import F32, PRED, S32, DType
from ..ir.hlo import (
    Computation,
    DotDimensionNumbers,
    Instruction,
    Metadata,
    Shape,
    TupleShape,
    WindowDimension,
    broadcast,
    constant,
    get_tuple_element,
    parameter,
)
from ..ir.moves import addition, cut, sum_over
from ..ir.patterns import convert, reshape, splat
from ..ir.shape_rules import dot_dims

# Rows of a block: so few that a group's last block is seldom much longer than its rows, and so many that a product
# takes longer than reading its matrix.
_LEAST_ROWS = 8
_MOST_ROWS = 128
_BLOCKS_OF_A_GROUP = 4


def of_one_group(i: Instruction) -> DotDimensionNumbers:
    """The dimension numbers of the product of one group, whose rhs lacks the dimension of groups."""
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    group = i.attributes["group"]
    if group < 0:
        return numbers

    def without(dimensions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d - (d > group) for d in dimensions)

    return DotDimensionNumbers(
        numbers.lhs_contracting,
        without(numbers.rhs_contracting),
        numbers.lhs_batch,
        without(numbers.rhs_batch),
    )


def expand(i: Instruction) -> Instruction:
    """The loops that a ``ragged-dot`` is."""
    lhs, rhs, sizes = i.operands
    if 0 in (i.elements, lhs.elements, rhs.elements, sizes.elements):
        return splat(constant(0, i.dtype, i.metadata), i.dims)
    return _Loop(i).result()


class _Loop:
    """The loops of one ``ragged-dot``.

    The state of the outer one is (step, steps, group of each step, first row and end of each group, lhs, rhs, result),
    that of the inner one (row, end, lhs, the group's matrix or rhs, result or the group's sum).
    """

    def __init__(self, i: Instruction) -> None:
        self.i = i
        self.lhs, self.rhs, sizes = i.operands
        self.sizes = sizes
        self.ragged: int = i.attributes["ragged"]
        self.group: int = i.attributes["group"]
        self.rows: int = self.lhs.dims[self.ragged]
        self.groups = sizes.dims[0]
        self.block = _block(self.rows, self.groups)
        # What is added up over several steps is rounded once.
        summed_in_f32 = self.group < 0 and i.dtype.is_float and i.dtype.bits < 32
        self.dtype: DType = F32 if summed_in_f32 else i.dtype

    @property
    def metadata(self) -> Metadata | None:
        return self.i.metadata

    # -------------------------------------------------------------------------------------------- small instructions
    def new(
        self, opcode: str, shape: Shape, *operands: Instruction, **attributes: object
    ) -> Instruction:
        return Instruction(opcode, shape, operands, attributes, metadata=self.metadata)

    def number(self, value: int, dims: tuple[int, ...] = ()) -> Instruction:
        return splat(constant(value, S32, self.metadata), dims)

    def two(self, opcode: str, a: Instruction, b: Instruction) -> Instruction:
        return self.new(opcode, Shape(a.dtype, a.dims), a, b)

    def compare(self, direction: str, a: Instruction, b: Instruction) -> Instruction:
        kind = {"direction": direction, "comparison_type": "SIGNED"}
        return self.new("compare", Shape(PRED, a.dims), a, b, **kind)

    def element(self, vector: Instruction, place: Instruction) -> Instruction:
        one = self.new("dynamic-slice", Shape(vector.dtype, (1,)), vector, place, slice_sizes=(1,))
        return reshape(one, ())

    def part(
        self, array: Instruction, dimension: int, place: Instruction, size: int
    ) -> Instruction:
        dims = (*array.dims[:dimension], size, *array.dims[dimension + 1 :])
        starts = self.starts(array, dimension, place)
        return self.new("dynamic-slice", Shape(array.dtype, dims), array, *starts, slice_sizes=dims)

    def starts(self, array: Instruction, dimension: int, place: Instruction) -> list[Instruction]:
        return [place if d == dimension else self.number(0) for d in range(len(array.dims))]

    def running_sums(self, vector: Instruction) -> Instruction:
        window: tuple[WindowDimension, ...] = (scans.window_of(vector.dims[0], backward=False),)
        return Instruction(
            "reduce-window",
            Shape(S32, vector.dims),
            (vector, self.number(0)),
            {"window": window},
            (addition(S32),),
            metadata=self.metadata,
        )

    def loop(
        self, name: str, state: Sequence[Instruction], body: Callable[..., Sequence[Instruction]]
    ) -> Instruction:
        """The last of the state when its first number is no longer below the second. ``body`` gives the state that
        follows another one.
        """
        shape = TupleShape(tuple([Shape(s.dtype, s.dims) for s in state]))
        given, seen = ([parameter(n, s) for n, s in enumerate(shape.elements)] for _ in range(2))
        following = Instruction("tuple", shape, body(*given), metadata=self.metadata)
        computations = (
            Computation.from_root(f"{name}_condition", seen, self.compare("LT", seen[0], seen[1])),
            Computation.from_root(f"{name}_body", given, following),
        )
        done = Instruction("while", shape, state, {}, computations, metadata=self.metadata)
        return get_tuple_element(done, len(state) - 1)

    # -------------------------------------------------------------------------------------------------- over the groups
    def result(self) -> Instruction:
        groups = (self.groups,)
        # Sizes that are negative or reach behind the last row are none of a product's; nothing is read for them.
        low, high = (constant(n, self.sizes.dtype, self.metadata) for n in (0, self.largest_size()))
        sizes = self.new("clamp", Shape(self.sizes.dtype, groups), low, self.sizes, high)
        rows = self.number(self.rows, groups)
        ends = self.two("minimum", self.running_sums(convert(sizes, S32)), rows)
        zero = reshape(self.number(0), (1,))
        before = cut(ends, 0, 0, self.groups - 1)
        firsts = self.new("concatenate", Shape(S32, groups), zero, before, dimension=0)
        used = self.running_sums(convert(self.compare("LT", firsts, ends), S32))
        state = [
            *(self.number(0), self.element(used, self.number(self.groups - 1))),
            *(self.used_groups(used), firsts, ends, self.lhs, self.rhs, self.zeros(self.i.dims)),
        ]
        return convert(self.loop("ragged_groups", state, self.of_group), self.i.dtype)

    def largest_size(self) -> int:
        return min(self.rows, int(np.iinfo(self.sizes.dtype.numpy).max))

    def used_groups(self, used: Instruction) -> Instruction:
        """The groups that have rows, of which ``used`` says how many there are up to each group: that of a step is as
        many groups behind the first as have no more than the steps before.
        """
        dims = (self.groups, self.groups)
        step = self.new("iota", Shape(S32, dims), dimension=0)
        passed = self.compare("LE", broadcast(used, dims, (1,)), step)
        return sum_over(convert(passed, S32), (1,), self.metadata)

    def of_group(self, step: Instruction, *rest: Instruction) -> Sequence[Instruction]:
        """The state of the outer loop behind the step of one group."""
        _, group_of, firsts, ends, lhs, rhs, result = rest
        group = self.element(group_of, step)
        row, end = (self.element(places, group) for places in (firsts, ends))
        if self.group >= 0:
            matrix = self.part(rhs, self.group, group, 1)
            matrix = reshape(matrix, matrix.dims[: self.group] + matrix.dims[self.group + 1 :])
            result = self.loop("ragged_rows", (row, end, lhs, matrix, result), self.rows_of_block)
        else:
            state = (row, end, lhs, rhs, self.zeros(self.i.dims[1:]))
            total = self.loop("ragged_sums", state, self.sum_with_block)
            result = self.written(result, reshape(total, (1, *total.dims)), 0, group)
        return [self.two("add", step, self.number(1)), *rest[:-1], result]

    # -------------------------------------------------------------------------------------- over the rows of one group
    def rows_of_block(self, row: Instruction, *rest: Instruction) -> Sequence[Instruction]:
        """The state behind a block whose rows are those of the result."""
        end, lhs, matrix, result = rest
        begin, ours = self.block_at(row, end)
        left = self.part(lhs, self.ragged, begin, self.block)
        product = self.dot(left, matrix)
        numbers: DotDimensionNumbers = self.i.attributes["dimension_numbers"]
        used = {*numbers.lhs_contracting, *numbers.lhs_batch}
        free = [d for d in range(len(left.dims)) if d not in used]
        place = len(numbers.lhs_batch) + free.index(self.ragged)
        kept = broadcast(ours, product.dims, (place,))
        old = self.part(result, place, begin, self.block)
        new = self.new("select", Shape(self.dtype, product.dims), kept, product, old)
        return [self.behind(row), end, lhs, matrix, self.written(result, new, place, begin)]

    def sum_with_block(self, row: Instruction, *rest: Instruction) -> Sequence[Instruction]:
        """The state behind a block whose rows are contracted."""
        end, lhs, rhs, total = rest
        begin, ours = self.block_at(row, end)
        numbers: DotDimensionNumbers = self.i.attributes["dimension_numbers"]
        paired = numbers.rhs_contracting[numbers.lhs_contracting.index(self.ragged)]
        left, right = (
            self.only(self.part(array, dimension, begin, self.block), ours, dimension)
            for array, dimension in ((lhs, self.ragged), (rhs, paired))
        )
        return [self.behind(row), end, lhs, rhs, self.two("add", total, self.dot(left, right))]

    def block_at(self, row: Instruction, end: Instruction) -> tuple[Instruction, Instruction]:
        """Where the block of a row begins, and which of its rows are from ``row`` to ``end``: a block at the end of the
        array begins with rows of another group, or with rows that are done.
        """
        begin = self.two("minimum", row, self.number(self.rows - self.block))
        rows = self.new("iota", Shape(S32, (self.block,)), dimension=0)
        rows = self.two("add", rows, splat(begin, rows.dims))
        reached = self.compare("GE", rows, splat(row, rows.dims))
        return begin, self.two("and", reached, self.compare("LT", rows, splat(end, rows.dims)))

    def behind(self, row: Instruction) -> Instruction:
        return self.two("add", row, self.number(self.block))

    def dot(self, left: Instruction, right: Instruction) -> Instruction:
        numbers = of_one_group(self.i)
        shape = Shape(self.dtype, dot_dims(left.dims, right.dims, numbers))
        precision = self.i.attributes["precision"]
        return self.new("dot", shape, left, right, dimension_numbers=numbers, precision=precision)

    def only(self, array: Instruction, ours: Instruction, dimension: int) -> Instruction:
        """``array`` with 0 at the places of a block that are not the group's: what stands there may be infinite."""
        kept = broadcast(ours, array.dims, (dimension,))
        zero = splat(constant(0, array.dtype, self.metadata), array.dims)
        return self.new("select", Shape(array.dtype, array.dims), kept, array, zero)

    def zeros(self, dims: tuple[int, ...]) -> Instruction:
        return splat(constant(0, self.dtype, self.metadata), dims)

    def written(
        self, array: Instruction, part: Instruction, dimension: int, place: Instruction
    ) -> Instruction:
        starts = self.starts(array, dimension, place)
        shape = Shape(array.dtype, array.dims)
        return self.new("dynamic-update-slice", shape, array, part, *starts)


def _block(rows: int, groups: int) -> int:
    """How many rows a step takes: a power of two, or all rows."""
    wanted = max(_LEAST_ROWS, min(_MOST_ROWS, rows // (groups * _BLOCKS_OF_A_GROUP)))
    return min(rows, 1 << (wanted.bit_length() - 1))
