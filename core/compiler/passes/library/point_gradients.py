"""Gradients of the weights of windows of one element that are matrix products: [positions, i] by [positions, o].

As a convolution (:mod:`.window_products`) such a gradient reads its operands once more for each tile of its result. A
product (:mod:`.packed`) copies the parts that its tiles share, and cuts long sums.
"""

from __future__ import annotations

import math

from ...ir import dtypes
from ...ir.hlo import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    Instruction,
    Shape,
    WindowDimension,
)
from ...ir.moves import transpose
from ...ir.patterns import reshape
from .context import Context
from .convolution_kinds import is_weights_gradient
from .gemm import match_dot


def match_point_gradient(convolution: Instruction, context: Context) -> Instruction | None:
    """The product that computes ``convolution``; None if it is not the gradient of f32 or f16 weights of windows of one
    element without a stride, has fewer features than a product is good for, or they are not the minor dimensions.
    """
    lhs, rhs = convolution.operands
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    least = context.target.costs.convolutions.point_features
    inputs, outputs = lhs.dims[numbers.input_batch], rhs.dims[numbers.kernel_output_feature]
    if {lhs.dtype, rhs.dtype, convolution.dtype} not in ({dtypes.F32}, {dtypes.F16}):
        return None
    if min(inputs, outputs) < least:
        return None
    if not is_weights_gradient(convolution) or not _meets_all_once(convolution):
        return None
    minor = len(lhs.dims) - 1
    if numbers.input_batch != minor or numbers.kernel_output_feature != minor:
        return None
    positions = math.prod(rhs.dims) // outputs
    x = transpose(lhs, [numbers.input_feature, *numbers.input_spatial, minor])
    y = transpose(rhs, [numbers.kernel_input_feature, *numbers.kernel_spatial, minor])
    dot = convolution.derive(
        "dot",
        (reshape(x, (positions, inputs)), reshape(y, (positions, outputs))),
        {
            "dimension_numbers": DotDimensionNumbers((0,), (0,)),
            "precision": convolution.attributes["precision"],
        },
        shape=Shape(convolution.dtype, (inputs, outputs)),
    )
    product = match_dot(dot, context)
    if product is None:
        return None
    product = reshape(product, (inputs, outputs, *(1 for _ in numbers.output_spatial)))
    places = [numbers.output_batch, numbers.output_feature, *numbers.output_spatial]
    return transpose(product, [places.index(d) for d in range(len(places))])


def _meets_all_once(convolution: Instruction) -> bool:
    """Whether the window of ``convolution`` is its whole input, without groups, so that it has one position."""
    attributes, numbers = convolution.attributes, convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = attributes["window"]
    if attributes["feature_group_count"] != 1 or attributes["batch_group_count"] != 1:
        return False
    sizes = [convolution.operands[0].dims[d] for d in numbers.input_spatial]
    return all(
        w.size == size
        and (w.padding_low, w.padding_high, w.base_dilation, w.window_dilation) == (0, 0, 1, 1)
        and not w.reversal
        for w, size in zip(windows, sizes, strict=True)
    ) and 0 not in (*convolution.operands[0].dims, *convolution.dims)
