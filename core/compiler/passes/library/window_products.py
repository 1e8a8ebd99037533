"""Convolutions that are generated: a "convolution" becomes a ``window-product``, and what its arrays need before.

A convolution without padding and base dilation is a sum of products over strided arrays
(:mod:`...codegen.kernels.window_product`), whose dimensions are those of its result (batch, groups, features,
positions) and those that it sums over (input features, the window). One of the first becomes the dimension of vectors,
another one that of the rows of tiles: the pair that takes the least time, rearranging arrays included. What is done
before:

* Padding becomes a ``pad`` of the input, which is fused with what makes the input, and with its conversion.
* A base dilation (the gradient of a strided convolution, a transposed one) becomes more output features: the results at
  positions that differ by a multiple of the dilation meet the same elements of the kernel, so a convolution without
  dilation computes all residues at each position, and the result is put in order behind it.
* An array whose elements are not neighbours along the vectors is transposed.

Integers of 8 and 16 bits, and bf16 where the CPU multiplies matrices of it, are multiplied in groups of neighbours
along the input features (:mod:`...codegen.kernels.product_forms`), integers exactly. Where both operands have a sign or
neither has one, the bytes of the input are flipped, and the sum of each feature's kernel makes up for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...codegen.kernels import product_forms
from ...codegen.kernels.product_forms import ProductForm
from ...ir.dtypes import DType
from ...ir.hlo import (
    ConvolutionDimensionNumbers,
    Instruction,
    Shape,
    WindowDimension,
    strides_of,
)
from ...ir.moves import concatenate, cut, transpose
from ...ir.patterns import convert, reshape, splat_value
from .blocks import as_integers
from .gemm import accumulator
from .operand_orders import (
    in_order,
    pad_with_zeros,
    resized,
    with_features,
    with_minor,
    without_reversal,
)
from .window_groups import InGroups
from .window_plans import (
    ONE,
    PlannedTile,
    ProductDimension,
    ProductPlan,
    choose_tile,
    dimensions_of,
    emit_product,
    groups_of,
    joined_positions,
    shared_terms,
    written_type,
)

if TYPE_CHECKING:
    from ...targets.costs import Costs, Tiles
    from ...targets.target import Target


def generate_convolution(convolution: Instruction, target: Target) -> Instruction | None:
    """What computes ``convolution`` without a library; None where a kernel of its own does (complex numbers, pred)."""
    if not target.packs_products or 0 in convolution.dims:
        return None
    if any(0 in o.dims for o in convolution.operands):
        return None
    lhs, rhs = (o.dtype for o in convolution.operands)
    form = product_forms.choose(target, lhs, rhs, accumulator(convolution.dtype))
    if form is None or lhs.is_float != convolution.dtype.is_float:
        return None
    return _Generated(target, form).compute(convolution)


@dataclass(slots=True)
class _Generated:
    """``made``: the inputs that were padded and rearranged, which all residues of a dilated one share."""

    target: Target
    form: ProductForm
    made: dict[tuple[Any, ...], Instruction] = field(default_factory=dict)

    def once(
        self, rewritten: Callable[..., Instruction], operand: Instruction, *how: Any
    ) -> Instruction:
        """``rewritten(operand, *how)``, made once."""
        key = (rewritten.__name__, operand, *(tuple(h) if isinstance(h, list) else h for h in how))
        if key not in self.made:
            self.made[key] = rewritten(operand, *how)
        return self.made[key]

    def compute(self, convolution: Instruction) -> Instruction:
        convolution = without_reversal(convolution)
        windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
        for d, w in enumerate(windows):
            if w.base_dilation == 1:
                continue
            simple = w.stride == 1 and w.window_dilation == 1
            if simple and convolution.attributes["batch_group_count"] == 1:
                return self.by_residue(convolution, d)
        return self.product(self.padded(convolution))

    def by_residue(self, convolution: Instruction, d: int) -> Instruction:
        """``convolution`` without the base dilation s of spatial dimension ``d``.

        Position y of the result sums over the kernel's k with y + k - p = s i for some i. With y = p + s q - r and
        k = s j + r, for 0 <= r < s, that is i = q + j: a convolution without dilation, whose kernel has each s-th
        element, for each residue r. Kernels of residues below size % s have an element more than the others.
        """
        windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        w = windows[d]
        s, low = w.base_dilation, w.padding_low
        lhs, rhs = convolution.operands
        size = convolution.dims[numbers.output_spatial[d]]
        first = -(low // s)  # the smallest and the largest q
        last = -((low - (size - 1)) // s)
        length = last - first + 1
        groups = convolution.attributes["feature_group_count"]
        features = convolution.dims[numbers.output_feature] // groups
        at = numbers.kernel_spatial[d]
        parts = []
        for begin, end, elements in (
            (0, w.size % s, w.size // s + 1),
            (w.size % s, s, w.size // s),
        ):
            residues = end - begin
            if residues == 0:
                continue
            dims = list(convolution.dims)
            dims[numbers.output_spatial[d]] = length
            dims[numbers.output_feature] *= residues
            shape = Shape(convolution.dtype, tuple(dims))
            if elements == 0:
                parts.append(splat_value(0, Instruction("parameter", shape, (), {"index": 0})))
            else:
                kernel = resized(rhs, at, elements * s)
                # [..., elements, s, ...], of which the residues become output features.
                kernel = reshape(kernel, (*rhs.dims[:at], elements, s, *rhs.dims[at + 1 :]))
                kernel = cut(kernel, at + 1, begin, end)
                kernel = with_features(kernel, at + 1, numbers.kernel_output_feature, groups)
                # Padded for the longest kernel, and so once for all of them.
                most = -(-w.size // s)
                high = length + most - 1 + first - lhs.dims[numbers.input_spatial[d]]
                window = WindowDimension(elements, 1, -first, high)
                parts.append(
                    self.compute(
                        convolution.replace(
                            operands=(lhs, kernel),
                            shape=shape,
                            attributes={
                                **convolution.attributes,
                                "window": (*windows[:d], window, *windows[d + 1 :]),
                            },
                        )
                    )
                )
        # Features as [groups, residues, features], residues to behind their dimension, backwards.
        f, y = numbers.output_feature, numbers.output_spatial[d]
        split = []
        for part in parts:
            dims = list(part.dims)
            dims[f : f + 1] = [groups, part.dims[f] // (groups * features), features]
            split.append(reshape(part, dims))
        joined = split[0] if len(split) == 1 else concatenate(split, f + 1)
        order = [n for n in range(len(joined.dims)) if n != f + 1]
        order.insert(order.index(y if y < f else y + 2) + 1, f + 1)
        joined = convolution.derive(
            "reverse", (joined,), {"dimensions": (f + 1,)}, shape=joined.shape
        )
        ordered = transpose(joined, order)
        dims = list(convolution.dims)
        dims[y] = length * s
        start = s - 1 - low % s
        return cut(reshape(ordered, dims), y, start, start + size)

    def padded(self, convolution: Instruction) -> Instruction:
        """``convolution`` with its padding and base dilation in its input."""
        windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        lhs, rhs = convolution.operands
        low, high, interior = ([0] * len(lhs.dims) for _ in range(3))
        for d, w in zip(numbers.input_spatial, windows, strict=True):
            low[d], high[d], interior[d] = w.padding_low, w.padding_high, w.base_dilation - 1
        plain = tuple(replace(w, padding_low=0, padding_high=0, base_dilation=1) for w in windows)
        return convolution.replace(
            operands=(self.once(pad_with_zeros, lhs, low, high, interior), rhs),
            attributes={**convolution.attributes, "window": plain},
        )

    def product(self, convolution: Instruction) -> Instruction:
        """``convolution``, which has no padding and no base dilation."""
        lhs, rhs = convolution.operands
        form = self.form
        matrix = product_forms.choose_matrix(self.target, lhs.dtype, rhs.dtype, form.result)
        if matrix is not None:
            found = _with_matrices(convolution, matrix, self.target.costs.tiles)
            if found is not None:
                return _finish(found, convolution)
        if form.group > 1:
            grouped = InGroups.of(convolution, form)
            if grouped is not None:
                return _finish(grouped.compute(self.target.costs.tiles), convolution)
            form = _ungrouped(form, self.target)
        call = _Arrangement(
            convolution, self.once(convert, lhs, form.lhs), convert(rhs, form.rhs), form
        ).compute(self)
        return _finish(call, convolution)


def _with_matrices(convolution: Instruction, form: ProductForm, costs: Tiles) -> Instruction | None:
    """``convolution`` in the registers of matrices; few output features are padded to the columns of one."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    feature = numbers.output_feature
    outputs = convolution.dims[feature]
    if outputs >= form.lanes or groups_of(convolution) > 1:
        grouped = InGroups.of(convolution, form)
        return None if grouped is None else grouped.compute(costs)
    dims = list(convolution.dims)
    dims[feature] = form.lanes
    lhs, rhs = convolution.operands
    wide = convolution.replace(
        operands=(lhs, resized(rhs, numbers.kernel_output_feature, form.lanes)),
        shape=Shape(convolution.dtype, tuple(dims)),
    )
    grouped = InGroups.of(wide, form)
    return None if grouped is None else cut(grouped.compute(costs), feature, 0, outputs)


def _finish(call: Instruction, convolution: Instruction) -> Instruction:
    if convolution.dtype.is_integer:
        return as_integers(call, convolution.dtype) if call.dtype is not convolution.dtype else call
    return convert(call, convolution.dtype)


def _ungrouped(form: ProductForm, target: Target) -> ProductForm:
    """A form for the same result whose operands are multiplied one by one."""
    found = product_forms.choose(target, form.result, form.result, form.result)
    assert found is not None
    assert found.group == 1
    return found


class _Arrangement:
    """The best choice of vectors and rows for a convolution without padding, for a form without groups."""

    def __init__(
        self, convolution: Instruction, lhs: Instruction, rhs: Instruction, form: ProductForm
    ) -> None:
        self.convolution, self.lhs, self.form = convolution, lhs, form
        self.numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        # The kernel, with [groups, features] for the output features.
        self.feature = self.numbers.kernel_output_feature
        groups = groups_of(convolution)
        split = (groups, rhs.dims[self.feature] // groups)
        dims = (*rhs.dims[: self.feature], *split, *rhs.dims[self.feature + 1 :])
        self.rhs = reshape(rhs, dims)

    def compute(self, maker: _Generated) -> Instruction:
        plan = min(self.plans(maker.target.costs), key=lambda p: p.cycles)
        lhs = maker.once(in_order, self.lhs, plan.lhs)
        rhs = in_order(self.rhs, plan.rhs)
        form = replace(self.form, lanes=plan.tile.lanes)
        return emit_product(
            self.convolution, lhs, rhs, plan, form, dtype=written_type(self.convolution, form)
        )

    def orders(self) -> Iterator[tuple[Sequence[int] | None, Sequence[int] | None]]:
        """Orders of the operands' dimensions to try: as they are, and with one of them as the minor one."""
        n = self.numbers
        minor = [None, n.input_feature, n.input_batch]
        minor += n.input_spatial[-1:]
        kernels = [None, self.feature, self.feature + 1]
        for left in dict.fromkeys(minor):
            for right in dict.fromkeys(kernels):
                yield (
                    with_minor(len(self.lhs.dims), left),
                    with_minor(len(self.rhs.dims), right),
                )

    def plans(self, costs: Costs) -> Iterator[ProductPlan]:
        result_minor = len(self.convolution.dims) - 1
        elements = [math.prod(x.dims) for x in (self.lhs, self.rhs, self.convolution)]
        found = False
        for left, right in self.orders():
            dimensions = self.dimensions(left, right)
            terms = math.prod(d.size for d in dimensions if d.result is None)
            moved = (elements[0] if left else 0) + (elements[1] if right else 0)
            free = [d for d in dimensions if d.result is not None]
            for vector in free:
                if vector.lhs > 1 or vector.rhs > 1:
                    continue
                assert vector.result is not None
                rest = [d for d in free if d is not vector]
                beside = [
                    d for d in rest if d.result is not None and d.result[0] == vector.result[0]
                ]
                behind = vector.result[0] != result_minor or any(d.name == "output" for d in beside)
                lines = self.lines(vector, dimensions, costs.memory.line)
                for row in rest or [ONE]:
                    shared = shared_terms(row, vector, dimensions)
                    tile = choose_tile(costs.tiles, self.form, row, vector, lines, shared)
                    if tile is None:
                        continue
                    outside = math.prod(d.size for d in rest if d is not row)
                    cycles = tile.cycles * outside * terms + outside * costs.tiles.window_start
                    # Neighbouring rows of a tile better are neighbours in memory.
                    cycles *= 1 + 1e-3 * math.log2(1 + abs(row.lhs) + abs(row.rhs))
                    cycles += costs.tiles.moved * (moved + (elements[2] if behind else 0))
                    found = True
                    yield ProductPlan(left, right, row, vector, dimensions, tile, cycles)
        if not found:  # a scalar, or nothing with neighbours: one number at a time
            dimensions = self.dimensions(None, None)
            yield ProductPlan(None, None, ONE, ONE, dimensions, PlannedTile(1, 1, 1, 1.0), 0.0)

    def lines(
        self, vector: ProductDimension, dimensions: Sequence[ProductDimension], line: int
    ) -> tuple[float, float]:
        """How many lines of memory a vector of each operand lies in: it begins where any of the other dimensions is."""

        def of(own: int, strides: list[int], dtype: DType) -> float:
            aligned = not own or all(s % self.form.lanes == 0 for s in strides)
            return 1.0 if aligned else 1.0 + self.form.lanes * dtype.size / line

        others = [d for d in dimensions if d is not vector]
        return (
            of(vector.lhs, [d.lhs for d in others], self.form.lhs),
            of(vector.rhs, [d.rhs for d in others], self.form.rhs),
        )

    def dimensions(
        self, left: Sequence[int] | None, right: Sequence[int] | None
    ) -> list[ProductDimension]:
        """Those of the convolution of the operands in these orders, without those of size 1."""
        strides = strides_of(self.rhs.dims, right)
        group = strides.pop(self.feature)
        lhs = strides_of(self.lhs.dims, left)
        found = [d for d in dimensions_of(self.convolution, lhs, strides, group) if d.size > 1]
        return joined_positions(found)
