"""Windows of one element, features first, that are matrix products: the kernel [o, i] by each image [i, positions].

Both operands and the result lie as a product has them. A library copies the image to blocks of features and the result
back, and a kernel of windows (:mod:`.window_products`) reads the image once more for each tile of features.
"""

from __future__ import annotations

import math
from typing import Final

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
from .gemm import match_packed_dot

_TYPES: Final = ({dtypes.F32}, {dtypes.F16}, {dtypes.BF16})


def match_first_points(convolution: Instruction, context: Context) -> Instruction | None:
    """The product that computes ``convolution``; None if its windows are larger or have strides or padding, features
    are not first, or its images have so few positions that reading the kernel once for each image, or its transpose,
    takes long.
    """
    lhs, rhs = convolution.operands
    costs = context.target.costs.convolutions
    least = costs.first_points
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    if least == 0 or {lhs.dtype, rhs.dtype, convolution.dtype} not in _TYPES:
        return None
    rank = len(lhs.dims)
    first = 0, 1, tuple(range(2, rank))
    places = numbers.input_batch, numbers.input_feature, numbers.input_spatial
    results = numbers.output_batch, numbers.output_feature, numbers.output_spatial
    if places != first or results != first or not _meets_points(convolution):
        return None
    images, inputs, *sizes = lhs.dims
    outputs, positions = convolution.dims[1], math.prod(sizes)
    if rank == 2 or 0 in convolution.dims or inputs == 0:
        return None
    order = (numbers.kernel_output_feature, numbers.kernel_input_feature, *numbers.kernel_spatial)
    if images == 1:
        least = costs.first_points_turned if order[0] > order[1] else 0.0
    few = images > 1 and positions < costs.first_positions
    if few or positions * (inputs + outputs) < least * inputs * outputs:
        return None
    kernel = reshape(transpose(rhs, order), (outputs, inputs))
    image = reshape(lhs, (images, inputs, positions) if images > 1 else (inputs, positions))
    batch: tuple[int, ...] = ()
    if images > 1:
        batch = (0,)
        shape = Shape(rhs.dtype, (images, outputs, inputs))
        kernel = rhs.derive("broadcast", (kernel,), {"dimensions": (1, 2)}, shape=shape)
    contracted = len(batch)
    dot = convolution.derive(
        "dot",
        (kernel, image),
        {
            "dimension_numbers": DotDimensionNumbers(
                (contracted + 1,), (contracted,), batch, batch
            ),
            "precision": convolution.attributes["precision"],
        },
        shape=Shape(convolution.dtype, (*(images for _ in batch), outputs, positions)),
    )
    product = match_packed_dot(dot, context)
    return None if product is None else reshape(product, convolution.dims)


def _meets_points(convolution: Instruction) -> bool:
    """Whether each position of a result is computed of one position, the same, of all features."""
    attributes = convolution.attributes
    windows: tuple[WindowDimension, ...] = attributes["window"]
    if attributes["feature_group_count"] != 1 or attributes["batch_group_count"] != 1:
        return False
    return all(
        (w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation) == (1, 1, 0, 0, 1)
        for w in windows
    )
