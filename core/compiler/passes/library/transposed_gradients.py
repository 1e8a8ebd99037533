"""Gradients of the weights of transposed convolutions, read as those of strided ones.

A transposed convolution dilates its input x by its stride s, and so does HLO's convolution for the gradient of its
weights, whose kernel is the gradient dy of the result (p: low padding, t: stride, K: elements of the window):

    dW[a] = sum over m of  dilated(x)[t a + m - p] dy[m]  =  sum over j of  x[j] dy[s j - t a + p]

With a = K - 1 - b that is the gradient of the weights of a convolution of dy with the stride s, whose result's gradient
is x: a convolution of dy by x, whose window is dilated, with a low padding of t (K - 1) - p, in the reverse order.
Nothing is multiplied by the zeros between the elements of x, and what is fast for gradients of strided ones is used.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, WindowDimension


def as_strided(convolution: Instruction) -> Instruction | None:
    """The convolution that computes ``convolution``, the gradient of the weights of a transposed one without groups, in
    the reverse order of its spatial dimensions; None if it is of another kind.
    """
    attributes = convolution.attributes
    numbers: ConvolutionDimensionNumbers = attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = attributes["window"]
    if attributes["feature_group_count"] != 1 or attributes["batch_group_count"] != 1:
        return None
    # Frameworks write the features outermost only when they have swapped batch and features.
    if numbers.input_feature != 0 or numbers.kernel_input_feature != 0:
        return None
    taps = [convolution.dims[d] for d in numbers.output_spatial]
    if all(w.base_dilation == 1 for w in windows):
        return None
    if math.prod(w.size for w in windows) <= math.prod(taps):
        return None
    if any(w.window_dilation != 1 or w.reversal for w in windows):
        return None
    lhs, rhs = convolution.operands
    if 0 in (*convolution.dims, *lhs.dims, *rhs.dims):
        return None
    found = []
    for w, d, count in zip(windows, numbers.input_spatial, taps, strict=True):
        reach = (count - 1) * w.stride
        extent = (lhs.dims[d] - 1) * w.base_dilation + 1
        low = reach - w.padding_low
        found.append(
            WindowDimension(
                lhs.dims[d], w.stride, low, extent + reach - w.size - low,
                window_dilation=w.base_dilation,
            )
        )  # fmt: skip
    swapped = replace(
        numbers,
        input_batch=numbers.kernel_output_feature,
        input_feature=numbers.kernel_input_feature,
        input_spatial=numbers.kernel_spatial,
        kernel_output_feature=numbers.input_batch,
        kernel_input_feature=numbers.input_feature,
        kernel_spatial=numbers.input_spatial,
        output_batch=numbers.output_feature,
        output_feature=numbers.output_batch,
    )
    return convolution.replace(
        operands=(rhs, lhs),
        attributes={**attributes, "window": tuple(found), "dimension_numbers": swapped},
    )


def reversed_again(gradient: Instruction, convolution: Instruction) -> Instruction:
    """``gradient``, which :func:`as_strided` of ``convolution`` gives, in its order."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    dimensions = tuple(sorted(d for d in numbers.output_spatial if gradient.dims[d] > 1))
    if not dimensions:
        return gradient
    return gradient.derive("reverse", (gradient,), {"dimensions": dimensions})
