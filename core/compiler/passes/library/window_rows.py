"""Convolutions that are products: the windows become rows of a matrix, the kernel is the other one.

Two kinds of convolutions gain by it where registers of matrices (AMX), whose tiles want 32 rows, multiply:

* Windows that do not overlap, as those of patches and of 1x1 kernels: the matrix of windows is the input in another
  order, or the input itself. The product sums over a window's positions and features together, however few features
  there are.
* Few positions by a large kernel: the positions of a dimension, which are the rows of a tile of
  :mod:`.window_products`, are too few, and the kernel, which is read in tiles' order there, is copied a part at a time
  by a product. Copying the windows is less than what that saves: :func:`are_rows` compares both.

Elsewhere those of few positions do (:func:`match_few_positions`), where generated products are as fast as a library: it
lays out the kernel anew each time, which takes longer than the few positions do. So do those of bytes in vectors, and
their windows of one element in any number of positions (:func:`match_bytes`): a product has tiles of all positions and
not of those of one dimension, lays out the kernel in parts, and takes in what scales and rounds its sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...codegen.kernels import product_forms
from ...codegen.kernels.product_forms import ProductForm
from ...ir import dtypes
from ...ir.hlo import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    Instruction,
    Shape,
    WindowDimension,
)
from ...ir.moves import concatenate, transpose
from ...ir.patterns import reshape
from . import product_costs
from .context import Context
from .convolution_kinds import is_input_gradient, is_weights_gradient, products_of_sum
from .gemm import accumulator, match_dot
from .operand_orders import pad_with_zeros

if TYPE_CHECKING:
    from ...targets.costs import Convolutions
    from ...targets.target import Target

# Parts of the rows that are joined, one for each element of the window, are a kernel's code each.
_MOST_ELEMENTS: Final = 32
_BYTES: Final = frozenset((dtypes.S8, dtypes.U8))


def match_windows(convolution: Instruction, context: Context) -> Instruction | None:
    """The product that computes ``convolution``; None if something else is faster."""
    lhs, rhs = convolution.operands
    target = context.target
    form = product_forms.choose_matrix(target, lhs.dtype, rhs.dtype, accumulator(convolution.dtype))
    if form is None or not is_plain(convolution) or not are_rows(convolution, form, target):
        return None
    return _product(convolution, context)


def match_few_positions(convolution: Instruction, context: Context) -> Instruction | None:
    """The product that computes a forward ``convolution`` of f32, bf16 or f16 that has few positions, or whose
    windows of one element a library takes longer for; None if something else is faster.
    """
    costs = context.target.costs.convolutions
    types = {convolution.dtype, *(o.dtype for o in convolution.operands)}
    halves = [dtypes.BF16, dtypes.F16] if costs.f16_rows else [dtypes.BF16]
    if types not in ({dtypes.F32}, *({t} for t in halves)) or not is_plain(convolution):
        return None
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    rows = math.prod(convolution.dims) // convolution.dims[numbers.output_feature]
    elements = math.prod(w.size for w in windows)
    is_half = convolution.dtype in halves
    last = len(convolution.dims) - 1
    is_last = numbers.input_feature == numbers.output_feature == last
    is_turned = numbers.kernel_output_feature < numbers.kernel_input_feature
    if elements == 1:
        if is_last and is_turned and not is_half and rows < costs.f32_turned_point_rows:
            return None
        if rows <= costs.point_rows:
            return _product(convolution, context, True)
        most = costs.bf16_point_rows if is_half else costs.f32_point_rows
        if is_half and is_turned:
            most = min(most, costs.bf16_turned_point_rows)
        if not is_last:
            strided = any(w.stride > 1 for w in windows)
            f32_rows = costs.first_strided_point_rows if strided else 0
            most = costs.first_bf16_point_rows if is_half else f32_rows
        return _product(convolution, context) if rows <= most else None
    most, least = (
        (costs.pair_rows, costs.pair_kernel)
        if is_half
        else (costs.window_rows, costs.window_kernel)
    )
    kernel = math.prod(convolution.operands[1].dims)
    if elements > _MOST_ELEMENTS or rows > most or kernel < least:
        return None
    if is_last and kernel > costs.window_kernel_last:
        return None
    return _product(convolution, context, True)


def match_bytes(convolution: Instruction, context: Context) -> Instruction | None:
    """The product that computes a forward ``convolution`` of bytes in s32 that has windows of one element, or few
    positions; None if something else is faster.
    """
    costs = context.target.costs.convolutions
    lhs, rhs = convolution.operands
    if convolution.dtype is not dtypes.S32 or not {lhs.dtype, rhs.dtype} <= _BYTES:
        return None
    if costs.byte_features == 0 or not is_plain(convolution):
        return None
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    outputs = rhs.dims[numbers.kernel_output_feature]
    if min(rhs.dims[numbers.kernel_input_feature], outputs) < costs.byte_features:
        return None
    elements = math.prod(w.size for w in windows)
    positions = math.prod(convolution.dims) // outputs
    is_small = positions <= costs.byte_rows and math.prod(rhs.dims) >= costs.byte_kernel
    if elements > 1 and not (is_small and elements <= _MOST_ELEMENTS):
        return None
    return _product(convolution, context)


def _product(
    convolution: Instruction, context: Context, any_way: bool = False
) -> Instruction | None:
    """The product that computes ``convolution``; None if no kernel packs it. ``any_way``: or one that stays a dot, such
    as a few rows by a large matrix.
    """
    dot = _dot(convolution)
    product = match_dot(dot, context)  # of [batch, positions..., features]
    if product is None:
        if not any_way:
            return None
        product = dot
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    places = [numbers.output_batch, *numbers.output_spatial, numbers.output_feature]
    return transpose(product, [places.index(d) for d in range(len(places))])


def lie_apart(convolution: Instruction) -> bool:
    """Whether no two windows have an element in common."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    return all(w.size == 1 or (w.window_dilation == 1 and w.stride >= w.size) for w in windows)


def is_plain(convolution: Instruction) -> bool:
    """Whether ``convolution`` is a forward one, without groups and base dilation."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    attributes = convolution.attributes
    if attributes["feature_group_count"] != 1 or attributes["batch_group_count"] != 1:
        return False
    if any(w.base_dilation != 1 or (w.reversal and w.size > 1) for w in windows):
        return False
    if 0 in convolution.dims or any(0 in o.dims for o in convolution.operands):
        return False
    return not is_weights_gradient(convolution) and not is_input_gradient(convolution)


def are_rows(convolution: Instruction, form: ProductForm, target: Target) -> bool:
    """Whether the windows of ``convolution``, a plain one, are copied to rows if it is generated with ``form``."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    terms = products_of_sum(convolution)
    outputs = convolution.dims[numbers.output_feature]
    rows = math.prod(convolution.dims) // outputs
    types = form.lhs, form.rhs
    if not product_costs.is_large_enough(form, types, 1, rows, outputs, terms, target):
        return False
    costs = target.costs
    if lie_apart(convolution):
        inputs = convolution.operands[1].dims[numbers.kernel_input_feature]
        if inputs * 2 < form.step <= terms:  # sums over windows do not fill registers
            return True
        return min(terms, outputs) >= costs.convolutions.product_features
    if math.prod(w.size for w in windows) > _MOST_ELEMENTS or not has_large_kernel(
        convolution, costs.convolutions
    ):
        return False

    def cycles(side: int) -> float:
        half, _ = product_forms.choose_matrix_tile(form, side, outputs)
        return half / 2 * -(-terms // form.step)

    sides = [convolution.dims[d] for d in (numbers.output_batch, *numbers.output_spatial)]
    summed = min(cycles(side) * (rows // side) for side in sides)
    return cycles(rows) + rows * terms * form.lhs.size * costs.matrices.gathered < summed


def has_large_kernel(convolution: Instruction, costs: Convolutions) -> bool:
    """Whether laying out the kernel takes long beside the products of few positions with it."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    kernel = convolution.operands[1].shape
    assert isinstance(kernel, Shape)
    positions = math.prod(convolution.dims) // convolution.dims[numbers.output_feature]
    return positions <= costs.product_rows and kernel.bytes >= costs.large_kernel


def _dot(convolution: Instruction) -> Instruction:
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    rhs = convolution.operands[1]
    points = all(w.size == 1 for w in windows)
    rows = (_apart if lie_apart(convolution) and not points else _joined)(convolution)
    # The kernel has its output features first or last, as they lie.
    o, i = numbers.kernel_output_feature, numbers.kernel_input_feature
    summed = (*numbers.kernel_spatial, i)
    kernel = transpose(rhs, (o, *summed) if o < i else (*summed, o))
    outputs, terms = rhs.dims[o], rows.dims[-1]
    kernel = reshape(kernel, (outputs, terms) if o < i else (terms, outputs))
    contracted = DotDimensionNumbers((len(rows.dims) - 1,), (1 if o < i else 0,))
    shape = Shape(convolution.dtype, (*rows.dims[:-1], outputs))
    attributes = {
        "dimension_numbers": contracted,
        "precision": convolution.attributes["precision"],
    }
    return convolution.derive("dot", (rows, kernel), attributes, shape=shape)


def _input(convolution: Instruction, lengths: Sequence[int]) -> Instruction:
    """The input as [batch, positions..., features] of ``lengths`` positions: the padding, and what windows reach."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    lhs = convolution.operands[0]
    low, high = [0] * len(lhs.dims), [0] * len(lhs.dims)
    for d, w, length in zip(numbers.input_spatial, windows, lengths, strict=True):
        low[d], high[d] = w.padding_low, length - lhs.dims[d] - w.padding_low
    order = (numbers.input_batch, *numbers.input_spatial, numbers.input_feature)
    return transpose(pad_with_zeros(lhs, low, high), order)


def _apart(convolution: Instruction) -> Instruction:
    """[batch, positions..., elements and features of a window]: the input, taken apart where windows begin."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    counts = [convolution.dims[d] for d in numbers.output_spatial]
    x = _input(convolution, [n * w.stride for n, w in zip(counts, windows, strict=True)])
    batch, *_, features = x.dims
    parts = [n for count, w in zip(counts, windows, strict=True) for n in (count, w.stride)]
    between = [n for w in windows for n in (0, w.size - w.stride)]
    x = reshape(x, (batch, *parts, features))
    x = pad_with_zeros(x, [0] * len(x.dims), [0, *between, 0])
    elements = range(2, len(x.dims) - 1, 2)
    x = transpose(x, (0, *(d - 1 for d in elements), *elements, len(x.dims) - 1))
    return reshape(x, (batch, *counts, math.prod(w.size for w in windows) * features))


def _joined(convolution: Instruction) -> Instruction:
    """The same of any windows: the positions that each of their elements meets, side by side."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    counts = [convolution.dims[d] for d in numbers.output_spatial]
    reach = [(n - 1) * w.stride + 1 for n, w in zip(counts, windows, strict=True)]
    lengths = [n + (w.size - 1) * w.window_dilation for n, w in zip(reach, windows, strict=True)]
    x = _input(convolution, lengths)
    batch, *_, features = x.dims
    strides = (1, *(w.stride for w in windows), 1)
    parts = []
    for element in itertools.product(*(range(w.size) for w in windows)):
        starts = [k * w.window_dilation for k, w in zip(element, windows, strict=True)]
        attributes = {
            "starts": (0, *starts, 0),
            "limits": (batch, *(s + n for s, n in zip(starts, reach, strict=True)), features),
            "strides": strides,
        }
        shape = Shape(x.dtype, (batch, *counts, features))
        parts.append(
            x if x.dims == shape.dims else x.derive("slice", (x,), attributes, shape=shape)
        )
    return parts[0] if len(parts) == 1 else concatenate(parts, len(x.dims) - 1)
