"""Convolutions of small numbers, whose products are summed in groups of neighbouring input features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...codegen.kernels import product_forms
from ...codegen.kernels.product_forms import ProductForm
from ...ir import dtypes
from ...ir.dtypes import DType
from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, Shape, strides_of
from ...ir.moves import sum_over, transpose
from ...ir.patterns import convert, reshape, splat_value
from .operand_orders import in_order, resized, with_minor
from .window_plans import (
    ONE,
    PlannedTile,
    ProductDimension,
    ProductPlan,
    choose_tile,
    dimensions_of,
    emit_product,
    groups_of,
    written_type,
)

if TYPE_CHECKING:
    from ...targets.costs import Tiles


@dataclass(slots=True)
class InGroups:
    """A convolution of small numbers whose products are summed in groups of input features."""

    convolution: Instruction
    form: ProductForm
    lhs: Instruction
    rhs: Instruction
    inputs: int  # input features of a group of the convolution, a multiple of those that one instruction sums

    @staticmethod
    def of(convolution: Instruction, form: ProductForm) -> InGroups | None:
        """None if too few features are summed to fill groups, or too few computed to fill a vector."""
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        lhs, rhs = convolution.operands
        groups = groups_of(convolution)
        inputs = rhs.dims[numbers.kernel_input_feature]
        outputs = convolution.dims[numbers.output_feature] // groups
        padded = -(-inputs // form.step) * form.step
        fewest = form.lanes if form.is_matrix else 4
        if inputs * 2 < form.step or outputs < fewest or (groups > 1 and padded != inputs):
            return None
        lhs = resized(
            lhs, numbers.input_feature, padded * (lhs.dims[numbers.input_feature] // inputs)
        )
        rhs = resized(rhs, numbers.kernel_input_feature, padded)
        return InGroups(convolution, form, lhs, rhs, padded)

    def compute(self, costs: Tiles) -> Instruction:
        form, convolution = self.form, self.convolution
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        lhs, rhs = self.lhs, self.rhs
        bias = None
        if form.correction:
            flipped = dtypes.U8 if lhs.dtype is dtypes.S8 else dtypes.S8
            factor = -128 if lhs.dtype is dtypes.S8 else 128
            bias = _feature_sums(rhs, numbers.kernel_output_feature, factor)
            lhs = _flipped(lhs, flipped)
            form = replace(form, lhs=flipped, correction=0)
        lhs, rhs = convert(lhs, form.lhs), convert(rhs, form.rhs)
        left = with_minor(len(lhs.dims), numbers.input_feature)
        lhs = in_order(lhs, left)
        left_strides = strides_of(self.lhs.dims, left)
        # The kernel as [spatial..., inputs / group, outputs, group].
        o, i = numbers.kernel_output_feature, numbers.kernel_input_feature
        order = [d for d in range(len(rhs.dims)) if d not in (o, i)]
        rest = [rhs.dims[d] for d in order]
        rhs = transpose(rhs, [*order, i, o])
        blocks = self.inputs // form.group
        rhs = reshape(rhs, (*rest, blocks, form.group, rhs.dims[-1]))
        n = len(rest)
        rhs = transpose(rhs, [*range(n), n, n + 2, n + 1])
        strides = strides_of(rhs.dims)
        right_strides = [0] * len(convolution.operands[1].dims)
        for place, dimension in enumerate(order):
            right_strides[dimension] = strides[place]
        right_strides[o], right_strides[i] = strides[n + 1], strides[n]
        given = convolution.replace(operands=(self.lhs, self.rhs))
        dimensions = []
        outputs = convolution.dims[numbers.output_feature] // groups_of(convolution)
        group = right_strides[o] * outputs
        for d in dimensions_of(given, left_strides, right_strides, group):
            if d.name == "input":
                d = replace(d, size=blocks, lhs=form.group)
            if d.size > 1:
                dimensions.append(d)
        vector = next(d for d in dimensions if d.name == "output")
        best = None
        rows = [d for d in dimensions if d.result is not None and d is not vector]
        if bias is not None:  # all rows of a tile are given one bias, which depends on the group
            rows = [d for d in rows if d.name != "group"]
        if form.is_matrix:  # whose rows are multiplied by one matrix
            rows = [d for d in rows if not d.rhs]
        for row in rows or [ONE]:
            tile = self.tile(costs, form, row, vector)
            cycles = tile.cycles / row.size if tile is not None else math.inf
            if tile is not None and (best is None or cycles < best.cycles):
                best = ProductPlan(None, None, row, vector, dimensions, tile, cycles)
        assert best is not None
        if not form.is_matrix:
            form = narrowed(form, best.tile.lanes)
        dtype = written_type(convolution, form)
        return emit_product(convolution, lhs, rhs, best, form, bias, dtype)

    @staticmethod
    def tile(
        costs: Tiles, form: ProductForm, row: ProductDimension, vector: ProductDimension
    ) -> PlannedTile | None:
        """The tile that takes the least time; None if there are too few vectors for one."""
        if not form.is_matrix:
            return choose_tile(costs, form, row, vector)
        cost, tile = product_forms.choose_matrix_tile(form, row.size, vector.size)
        return PlannedTile(tile.rows, tile.vectors, form.lanes, cost / 2)


def narrowed(form: ProductForm, lanes: int) -> ProductForm:
    """``form`` with vectors of ``lanes`` results, of which 4 fill the narrowest registers."""
    bits = 32 * lanes
    if "pmadd" in form.instruction:
        names = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}
        return replace(form, lanes=lanes, instruction=f"llvm.x86.{names[bits]}")
    name = form.instruction.rpartition(".")[0]
    return replace(form, lanes=lanes, instruction=f"{name}.{bits}" if name else "")


def _feature_sums(rhs: Instruction, feature: int, factor: int) -> Instruction:
    """``factor`` times the sum of the kernel of each output feature, in s32."""
    wide = convert(rhs, dtypes.S32)
    sums = sum_over(wide, [d for d in range(len(rhs.dims)) if d != feature], rhs.metadata)
    return Instruction("multiply", sums.shape, (sums, splat_value(factor, sums)))


def _flipped(operand: Instruction, dtype: DType) -> Instruction:
    """Bytes with their highest bit flipped, as ``dtype``: s8 + 128 in u8, or u8 - 128 in s8."""
    bit = splat_value(128 if operand.dtype is dtypes.U8 else -128, operand)
    changed = operand.derive("xor", (operand, bit))
    shape = Shape(dtype, operand.dims)
    return operand.derive("bitcast-convert", (changed,), shape=shape)
