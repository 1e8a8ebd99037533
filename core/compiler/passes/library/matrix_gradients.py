"""Gradients of convolutions' weights by instructions for bf16, of matrices (AMX) or of pairs: sums over positions.

    dW[j, i, o] = sum over positions y of  x[i, y + j d - p] dy[y, o]

(d: dilation, p: low padding; HLO has x as a convolution's input, dy as its kernel, d as its stride.) These instructions
sum over neighbours in the rows of their first operand. So x is laid out as [i, positions], flat: one dimension of
all images' positions, in which a step of the window is a constant distance. That needs zeros in front of and behind
the positions of each dimension, and those in front of a row are those behind the row before. dy has zeros at the same
places, and the sum is a single one, of whole steps, for each j.

A stride of the forward convolution is a dilation of HLO's kernel: the inputs that an element of the window meets are
those at positions of one residue modulo the stride. Each residue is a gradient without a stride.

Where x is infinite or not a number, those sums that meet dy's zeros there are not a number: who calls
:func:`weights_gradient` asks :func:`meets_zeros`, and looks for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...codegen.kernels import product_forms
from ...codegen.kernels.product_forms import ProductForm
from ...ir.hlo import (
    ConvolutionDimensionNumbers,
    Instruction,
    Shape,
    WindowDimension,
    strides_of,
)
from ...ir.moves import concatenate, transpose
from ...ir.patterns import reshape
from .convolution_kinds import is_any_weights_gradient
from .gemm import accumulator
from .operand_orders import pad_with_zeros, resized
from .window_plans import (
    PlannedTile,
    ProductDimension,
    ProductPlan,
    choose_tile,
    emit_product,
)

if TYPE_CHECKING:
    from ...targets.costs import Tiles
    from ...targets.target import Target

#: Gradients without a stride that one with a stride becomes, at most: each is a kernel.
MOST_RESIDUES: Final = 8
#: Elements of a line of memory: rows that are an odd number of lines apart are in different places of a cache.
_LINE: Final = 32


@dataclass(frozen=True, slots=True)
class PositionDimension:
    """A spatial dimension of the flat positions.

    ``size``: positions, those of zeros included. ``taps``: elements of the window, ``step`` positions apart, of which
    the first one meets the input ``start`` behind the output.
    """

    size: int
    taps: int
    step: int
    start: int


def position_dimension(window: WindowDimension, inputs: int, taps: int) -> PositionDimension:
    """That of a spatial dimension of HLO's convolution, of ``inputs`` positions in and ``taps`` out."""
    start = -window.padding_low
    last = start + (taps - 1) * window.stride
    size = max(window.size + max(last, 0), inputs + max(-start, 0))
    return PositionDimension(size, taps, window.stride, start)


def residues(convolution: Instruction) -> int:
    """How many gradients without a stride ``convolution``, one of weights, becomes."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    return math.prod(
        min(_apart(w), convolution.dims[d])
        for w, d in zip(windows, numbers.output_spatial, strict=True)
        if w.size > 1
    )


def zeros(convolution: Instruction) -> float:
    """The part of all positions that are zeros, of a gradient without a dilation of HLO's kernel."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    inputs = (convolution.operands[0].dims[d] for d in numbers.input_spatial)
    taps = (convolution.dims[d] for d in numbers.output_spatial)
    sizes = [position_dimension(*one).size for one in zip(windows, inputs, taps, strict=True)]
    return 1.0 - math.prod(w.size for w in windows) / math.prod(sizes)


def weights_gradient(convolution: Instruction, target: Target) -> Instruction | None:
    """``convolution`` in the registers of matrices, or in pairs; None if they are not good for it (:func:`form_of`)."""
    form = form_of(convolution, target)
    return None if form is None else _compute(convolution, form, target.costs.tiles)


def form_of(convolution: Instruction, target: Target) -> ProductForm | None:
    """How ``convolution`` is multiplied; None if it gives no weights, or it is not multiplied so on ``target``."""
    lhs, rhs = (o.dtype for o in convolution.operands)
    types = lhs, rhs, accumulator(convolution.dtype)
    form = product_forms.choose_matrix(target, *types)
    if form is None and target.costs.convolutions.pair_features > 0:
        form = product_forms.choose_pairs(target, *types)
    if form is None or not form.result.is_float or not is_any_weights_gradient(convolution):
        return None
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    if convolution.attributes["feature_group_count"] != 1:
        return None
    if any(w.base_dilation != 1 or w.reversal for w in windows):
        return None
    groups: int = convolution.attributes["batch_group_count"]
    outputs = convolution.dims[numbers.output_feature] // groups
    if min(outputs, convolution.dims[numbers.output_batch]) < form.lanes:
        return None
    if 0 in (*convolution.dims, *convolution.operands[0].dims, *convolution.operands[1].dims):
        return None
    inputs = [convolution.operands[0].dims[d] for d in numbers.input_spatial]
    if any(w.size > 1 and n < w.window_dilation for w, n in zip(windows, inputs, strict=True)):
        return None  # a residue may have no place
    return form if residues(convolution) <= MOST_RESIDUES else None


def meets_zeros(convolution: Instruction) -> bool:
    """Whether :func:`weights_gradient` multiplies elements of x by zeros that are not elements of dy."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    inputs = [convolution.operands[0].dims[d] for d in numbers.input_spatial]
    taps = [convolution.dims[d] for d in numbers.output_spatial]
    return any(
        count > 1 or w.padding_low != 0 or w.size != size
        for w, size, count in zip(windows, inputs, taps, strict=True)
    )


def _apart(window: WindowDimension) -> int:
    """How many elements of the window further one meets inputs of the same residue."""
    return window.window_dilation // math.gcd(window.window_dilation, window.stride)


def _compute(convolution: Instruction, form: ProductForm, costs: Tiles) -> Instruction:
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    for d, w in enumerate(windows):
        if w.window_dilation > 1 and w.size > 1:
            return _by_residue(convolution, d, form, costs)
    return _product(convolution, form, costs)


def _by_residue(convolution: Instruction, d: int, form: ProductForm, costs: Tiles) -> Instruction:
    """``convolution`` without the dilation s of the kernel's spatial dimension ``d``.

    Element j of the window meets inputs s y + j d - p: those of the residue r of j d - p modulo s, from place
    q = (j d - p - r) / s on. Each s / gcd(s, d)-th element has the same residue.
    """
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    lhs, rhs = convolution.operands
    w = windows[d]
    s = w.window_dilation
    at, result = numbers.input_spatial[d], numbers.output_spatial[d]
    taps = convolution.dims[result]
    apart = _apart(w)
    most = -(-taps // apart)
    parts = []
    for first in range(min(apart, taps)):
        place, residue = divmod(first * w.stride - w.padding_low, s)
        count = -(-(taps - first) // apart)
        dims = list(convolution.dims)
        dims[result] = count
        stride = w.stride * apart // s
        source = _every(lhs, at, residue, s)
        high = w.size + (count - 1) * stride - source.dims[at] + place
        window = WindowDimension(w.size, stride, -place, high)
        part = convolution.replace(
            operands=(source, rhs),
            shape=Shape(convolution.dtype, tuple(dims)),
            attributes={
                **convolution.attributes,
                "window": (*windows[:d], window, *windows[d + 1 :]),
            },
        )
        found = resized(_compute(part, form, costs), result, most)
        parts.append(reshape(found, (*dims[:result], most, 1, *dims[result + 1 :])))
    joined = parts[0] if len(parts) == 1 else concatenate(parts, result + 1)
    dims = list(convolution.dims)
    dims[result] = most * len(parts)
    return resized(reshape(joined, dims), result, taps)


def _product(convolution: Instruction, form: ProductForm, costs: Tiles) -> Instruction:
    """``convolution`` without dilations."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    groups: int = convolution.attributes["batch_group_count"]
    lhs, rhs = convolution.operands
    batch, rows = numbers.input_feature, numbers.input_batch
    places = [
        position_dimension(w, lhs.dims[i], convolution.dims[o])
        for w, i, o in zip(windows, numbers.input_spatial, numbers.output_spatial, strict=True)
    ]
    strides = strides_of([p.size for p in places])
    first = sum(p.start * stride for p, stride in zip(places, strides, strict=True))
    last = sum((p.taps - 1) * p.step * stride for p, stride in zip(places, strides, strict=True))
    images = lhs.dims[batch] * math.prod(p.size for p in places)
    positions = -(-images // form.step) * form.step
    row = positions + last
    row = -(-row // _LINE) * _LINE
    row += _LINE * (row // _LINE % 2 == 0)

    feature = numbers.kernel_output_feature
    outputs = rhs.dims[feature]

    # x as [i, positions].
    behind = row - images + first
    x = _extended(lhs, {i: p.size for i, p in zip(numbers.input_spatial, places, strict=True)})
    order = [batch, *numbers.input_spatial]
    if rows == len(lhs.dims) - 1:
        flat = reshape(transpose(x, [*order, rows]), (images, lhs.dims[rows]))
        flat = transpose(pad_with_zeros(flat, [-first, 0], [behind, 0]), (1, 0))
    else:
        flat = reshape(transpose(x, [rows, *order]), (lhs.dims[rows], images))
        flat = pad_with_zeros(flat, [0, -first], [0, behind])

    # dy as [groups of positions, o, positions of a group].
    y = _extended(rhs, {i: p.size for i, p in zip(numbers.kernel_spatial, places, strict=True)})
    y = transpose(y, [numbers.kernel_input_feature, *numbers.kernel_spatial, feature])
    y = resized(reshape(y, (images, outputs)), 0, positions)
    y = transpose(reshape(y, (positions // form.group, form.group, outputs)), (0, 2, 1))

    height, width = lhs.dims[rows] // groups, outputs // groups
    vertical = ProductDimension("batch", height, row, 0, (numbers.output_batch, 0))
    across = ProductDimension("output", width, 0, form.group, (numbers.output_feature, 1))
    dimensions = [
        ProductDimension(
            "group", groups, height * row, width * form.group, (numbers.output_feature, 0)
        ),
        vertical,
        across,
        ProductDimension("position", positions // form.group, form.group, outputs * form.group),
        *(
            ProductDimension(f"at{n}", p.taps, p.step * stride, 0, (o, 0))
            for n, (p, stride, o) in enumerate(
                zip(places, strides, numbers.output_spatial, strict=True)
            )
        ),
    ]
    if form.is_matrix:
        chosen = product_forms.choose_matrix_tile(form, height, width)[1]
        tile = PlannedTile(chosen.rows, chosen.vectors, form.lanes, 0.0)
    else:
        planned = choose_tile(costs, form, vertical, across)
        assert planned is not None  # as many outputs as a vector has
        tile = planned
    plan = ProductPlan(
        None,
        None,
        vertical,
        across,
        [d for d in dimensions if d.size > 1 or d in (vertical, across)],
        tile,
        0.0,
    )
    return emit_product(convolution, flat, y, plan, form, dtype=convolution.dtype)


def _every(operand: Instruction, dimension: int, first: int, step: int) -> Instruction:
    """Each ``step``-th place of a dimension from ``first`` on."""
    starts, limits, steps = [0] * len(operand.dims), list(operand.dims), [1] * len(operand.dims)
    starts[dimension] = first
    steps[dimension] = step
    dims = list(operand.dims)
    dims[dimension] = -(-(dims[dimension] - first) // step)
    attributes = {"starts": tuple(starts), "limits": tuple(limits), "strides": tuple(steps)}
    return operand.derive("slice", (operand,), attributes, shape=Shape(operand.dtype, tuple(dims)))


def _extended(operand: Instruction, sizes: dict[int, int]) -> Instruction:
    """``operand`` with zeros behind it, up to these sizes."""
    high = [sizes.get(d, n) - n for d, n in enumerate(operand.dims)]
    return pad_with_zeros(operand, [0] * len(high), high)
