"""Gradients of the weights of windows of one element that are matrix products: [positions, i] by [positions, o].

As a convolution (:mod:`.window_products`) such a gradient reads its operands once more for each tile of its result. A
product (:mod:`.packed`) copies the parts that its tiles share, and cuts long sums. It reads its first operand where it
lies, for each tile a part of a line of each position: where positions are many, that is the operand of fewer features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    """The product that computes ``convolution``; None if it is not the gradient of f32, f16 or bf16 weights of
    windows of one element, has fewer features or more positions than a product is good for, or features are not minor.
    """
    lhs, rhs = convolution.operands
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    costs = context.target.costs.convolutions
    inputs, outputs = lhs.dims[numbers.input_batch], rhs.dims[numbers.kernel_output_feature]
    types = {lhs.dtype, rhs.dtype, convolution.dtype}
    if types not in ({dtypes.F32}, {dtypes.F16}, {dtypes.BF16}):
        return None
    if not is_weights_gradient(convolution) or not has_one_position(convolution):
        return None
    strides = [w.window_dilation if w.size > 1 else 1 for w in windows]
    least, most = costs.point_features, costs.point_terms
    positions = math.prod(rhs.dims) // outputs
    if any(stride > 1 for stride in strides):
        least, most = costs.strided_point_features, positions
    elif types == {dtypes.BF16}:
        least, most = costs.bf16_point_features, costs.bf16_point_terms
    if min(inputs, outputs) < least or positions > most:
        return None
    minor = len(lhs.dims) - 1
    if numbers.input_batch != minor or numbers.kernel_output_feature != minor:
        return None
    lhs = met(lhs, numbers, windows, strides)
    x = transpose(lhs, [numbers.input_feature, *numbers.input_spatial, minor])
    y = transpose(rhs, [numbers.kernel_input_feature, *numbers.kernel_spatial, minor])
    factors = [reshape(x, (positions, inputs)), reshape(y, (positions, outputs))]
    is_long = types == {dtypes.F32} and positions >= costs.turned_point_terms
    turns = is_long and inputs > outputs
    if turns:
        factors.reverse()
    dot = convolution.derive(
        "dot",
        factors,
        {
            "dimension_numbers": DotDimensionNumbers((0,), (0,)),
            "precision": convolution.attributes["precision"],
        },
        shape=Shape(convolution.dtype, tuple(f.dims[1] for f in factors)),
    )
    product = match_dot(dot, context)
    if product is None:
        return None
    if (numbers.output_batch > numbers.output_feature) is not turns:
        product = transpose(product, (1, 0))
    return reshape(product, convolution.dims)  # all other dimensions are of one element


def has_one_position(convolution: Instruction) -> bool:
    """Whether the window of ``convolution`` begins with its input and reaches to the last position that it meets,
    without groups, so that it has one position.
    """
    attributes, numbers = convolution.attributes, convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = attributes["window"]
    if attributes["feature_group_count"] != 1 or attributes["batch_group_count"] != 1:
        return False
    sizes = [convolution.operands[0].dims[d] for d in numbers.input_spatial]
    return all(
        w.padding_high == (w.size - 1) * w.window_dilation + 1 - size <= 0
        and (w.padding_low, w.base_dilation) == (0, 1)
        and not w.reversal
        for w, size in zip(windows, sizes, strict=True)
    ) and 0 not in (*convolution.operands[0].dims, *convolution.dims)


def met(
    lhs: Instruction,
    numbers: ConvolutionDimensionNumbers,
    windows: Sequence[WindowDimension],
    strides: Sequence[int],
) -> Instruction:
    """The positions of ``lhs`` that its windows meet."""
    limits, steps = list(lhs.dims), [1] * len(lhs.dims)
    for d, w, stride in zip(numbers.input_spatial, windows, strides, strict=True):
        limits[d], steps[d] = (w.size - 1) * stride + 1, stride
    dims = tuple(-(-limit // step) for limit, step in zip(limits, steps, strict=True))
    if dims == lhs.dims:
        return lhs
    attributes = {"starts": (0,) * len(dims), "limits": tuple(limits), "strides": tuple(steps)}
    return lhs.derive("slice", (lhs,), attributes, shape=Shape(lhs.dtype, dims))
