"""Convolutions of bf16 that oneDNN computes wrong, most of them beside an infinity or a NaN, and how they are right.

oneDNN's kernels multiply bf16 in pairs. Where a sum has an odd number of neighbours, its last pair has the number that
follows in memory, multiplied by zero: an infinity or a NaN of another pixel or another group is a NaN in the sum then.
So an odd number of features becomes an even one by a feature of zeros, which takes no longer. Gradients of weights,
whose neighbours are pixels, are computed in f32 instead, and so are depthwise convolutions: a zero beside each of their
features would be twice the input, and no depthwise one for oneDNN.

Gradients of the weights of grouped convolutions with dilated windows are wrong for any numbers, where a dimension but
the last is dilated and rows are long (some 30 pixels and more; docs/verification.md). They are computed in f32, too.
"""

from __future__ import annotations

from ...ir import dtypes
from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, WindowDimension, constant
from ...ir.moves import pad_dimension
from ...ir.patterns import reshape
from .convolution_kinds import is_input_gradient, is_weights_gradient


def needs_f32(convolution: Instruction) -> bool:
    """Whether it is depthwise, or the gradient of weights in rows of an odd number of pixels, or that of the weights of
    groups with dilated windows.
    """
    if not _is_bf16(convolution):
        return False
    if is_weights_gradient(convolution):
        return _has_odd_rows(convolution) or _has_dilated_groups(convolution)
    kernel = convolution.operands[1].dims
    is_single = kernel[_numbers(convolution).kernel_input_feature] == 1
    return is_single and convolution.attributes["feature_group_count"] > 1


def _has_odd_rows(gradient: Instruction) -> bool:
    """Whether the sums of a gradient of weights are over rows of an odd number of pixels; a window of one pixel has no
    rows.
    """
    windows: tuple[WindowDimension, ...] = gradient.attributes["window"]
    if not windows:
        return False
    is_wide = gradient.dims[_numbers(gradient).output_spatial[-1]] > 1
    return is_wide and windows[-1].size % 2 == 1  # the window is the gradient of the results


def _has_dilated_groups(gradient: Instruction) -> bool:
    """Whether a gradient of weights is that of a grouped convolution whose windows are dilated."""
    windows: tuple[WindowDimension, ...] = gradient.attributes["window"]
    return gradient.attributes["batch_group_count"] > 1 and any(w.stride > 1 for w in windows)


def with_whole_pairs(convolution: Instruction) -> Instruction:
    """``convolution`` with an even number of features in its sums; itself if it has one, or sums pixels."""
    numbers = _numbers(convolution)
    lhs, rhs = convolution.operands
    is_of_pixels = is_weights_gradient(convolution) and not is_input_gradient(convolution)
    if not _is_bf16(convolution) or is_of_pixels or rhs.dims[numbers.kernel_input_feature] % 2 == 0:
        return convolution
    groups = convolution.attributes["feature_group_count"]
    operands = [
        _with_zeros(lhs, numbers.input_feature, groups),
        _with_zeros(rhs, numbers.kernel_input_feature, 1),
    ]
    return convolution.replace(operands=operands)


def _is_bf16(convolution: Instruction) -> bool:
    return all(operand.dtype is dtypes.BF16 for operand in convolution.operands)


def _numbers(convolution: Instruction) -> ConvolutionDimensionNumbers:
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    return numbers


def _with_zeros(operand: Instruction, dimension: int, groups: int) -> Instruction:
    """``operand`` with a zero behind each group of the numbers along ``dimension``."""
    before, size, behind = (
        operand.dims[:dimension],
        operand.dims[dimension] // groups,
        operand.dims[dimension + 1 :],
    )
    grouped = reshape(operand, (*before, groups, size, *behind))
    padded = pad_dimension(grouped, constant(0.0, operand.dtype), dimension + 1, 0, 1)
    return reshape(padded, (*before, groups * (size + 1), *behind))
