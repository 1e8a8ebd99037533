"""Gradients of the weights of windows of one element, features first, that are matrix products: of each image
[o, positions] by [i, positions], and their sum.

A convolution that is generated (:mod:`.window_products`) reads an image once more for each tile of its result. A
product copies the parts that its tiles share; the operand that it copies to panels is transposed first.
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
from ...ir.moves import sum_over, transpose
from ...ir.patterns import reshape
from .context import Context
from .convolution_kinds import is_weights_gradient
from .gemm import match_packed_dot
from .point_gradients import has_one_position, met


def match_first_point_gradient(convolution: Instruction, context: Context) -> Instruction | None:
    """The products that compute ``convolution``; None if it is not the gradient of f32 weights of windows of one
    element, features are not first, or the images are so small that a generated convolution is faster.
    """
    lhs, rhs = convolution.operands
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    costs = context.target.costs.convolutions
    if {lhs.dtype, rhs.dtype, convolution.dtype} != {dtypes.F32} or len(lhs.dims) < 3:
        return None
    if not is_weights_gradient(convolution) or not has_one_position(convolution):
        return None
    spatial = tuple(range(2, len(lhs.dims)))
    if (numbers.input_feature, numbers.input_batch, numbers.input_spatial) != (0, 1, spatial):
        return None
    if (numbers.kernel_input_feature, numbers.kernel_output_feature) != (0, 1):
        return None
    if numbers.kernel_spatial != spatial:
        return None
    images, inputs, outputs = lhs.dims[0], lhs.dims[1], rhs.dims[1]
    strides = [w.window_dilation if w.size > 1 else 1 for w in windows]
    positions = math.prod(rhs.dims[2:])
    if not 0 < costs.first_point_gradients <= min(inputs, outputs):
        return None
    if (inputs + outputs) * positions < costs.first_gradient_image:
        return None
    lhs = met(lhs, numbers, windows, strides)
    x = reshape(lhs, (images, inputs, positions))
    y = reshape(rhs, (images, outputs, positions))
    turns = inputs > outputs
    factors = [x, y] if turns else [y, x]
    dims = (images, *(f.dims[1] for f in factors))
    dot = convolution.derive(
        "dot",
        factors,
        {
            "dimension_numbers": DotDimensionNumbers((2,), (2,), (0,), (0,)),
            "precision": convolution.attributes["precision"],
        },
        shape=Shape(dtypes.F32, dims),
    )
    product = match_packed_dot(dot, context)
    if product is None:
        return None
    total = sum_over(product, (0,), convolution.metadata)
    if (numbers.output_batch > numbers.output_feature) is turns:
        total = transpose(total, (1, 0))
    return reshape(total, convolution.dims)
