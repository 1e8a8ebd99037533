"""Strided convolutions of bf16 that oneDNN computes wrong with AMX, and how they are right.

Where a forward convolution has no padding along its last dimension, oneDNN takes i neighbouring columns for one column
with i times the features: i divides the stride and the size of the window. Its copy of the kernel stays as it was,
though, in blocks of 32 features, the last one filled up with zeros. With features that are not whole blocks it
multiplies columns by other numbers of the kernel then: each result is wrong (oneDNN 3.2, ``w_koef`` in
src/cpu/x64/jit_brgemm_conv_utils.cpp). So the columns are joined before oneDNN sees them, which costs nothing where
features are the last dimension.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...ir import dtypes
from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, WindowDimension
from ...ir.moves import cut, transpose
from ...ir.patterns import reshape

#: Features of a block of oneDNN's kernels for bf16: those of a row of AMX's registers.
_BLOCK: Final = 32


def with_joined_columns(convolution: Instruction) -> Instruction:
    """``convolution``, a forward one, with as many columns joined as oneDNN would join; itself if that is right."""
    count = _joined(convolution)
    if count == 1:
        return convolution
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    lhs, rhs = convolution.operands
    last, kernel_last = numbers.input_spatial[-1], numbers.kernel_spatial[-1]
    if windows[-1].reversal:
        rhs = rhs.derive("reverse", (rhs,), {"dimensions": (kernel_last,)})
    lhs = cut(lhs, last, 0, _columns_read(convolution))
    window = replace(
        windows[-1],
        size=windows[-1].size // count,
        stride=windows[-1].stride // count,
        padding_high=0,
        reversal=False,
    )
    return convolution.replace(
        operands=(
            _joined_along(lhs, last, numbers.input_feature, count),
            _joined_along(rhs, kernel_last, numbers.kernel_input_feature, count),
        ),
        attributes={**convolution.attributes, "window": (*windows[:-1], window)},
    )


def _joined(convolution: Instruction) -> int:
    """How many columns oneDNN takes for one, if that is wrong; else 1."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    if not windows or any(o.dtype is not dtypes.BF16 for o in convolution.operands):
        return 1
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    lhs, rhs = (o.dims for o in convolution.operands)
    window, features = windows[-1], rhs[numbers.kernel_input_feature]
    columns = lhs[numbers.input_spatial[-1]]
    if window.padding_low > 0 or window.window_dilation != 1 or features % _BLOCK == 0:
        return 1
    if convolution.attributes["feature_group_count"] != 1 or columns < _columns_read(convolution):
        return 1
    is_row = all(lhs[d] == 1 for d in (numbers.input_batch, *numbers.input_spatial[:-1]))
    found = 1
    for count in range(2, min(window.size, window.stride, columns) + 1):
        joined = features * count
        fits = joined <= _BLOCK or joined % _BLOCK == 0
        divides = window.size % count == 0 and window.stride % count == 0
        if fits and divides and (is_row or columns % count == 0):
            found = count
    return found if features * found > _BLOCK else 1


def _columns_read(convolution: Instruction) -> int:
    """The columns from the first one on that the windows of ``convolution`` reach."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    window: WindowDimension = convolution.attributes["window"][-1]
    results = convolution.dims[numbers.output_spatial[-1]]
    return (results - 1) * window.stride + (window.size - 1) * window.window_dilation + 1


def _joined_along(operand: Instruction, columns: int, features: int, count: int) -> Instruction:
    """``operand`` with each ``count`` places of dimension ``columns`` as one with ``count`` times the features."""
    dims = list(operand.dims)
    parts = reshape(operand, (*dims[:columns], dims[columns] // count, count, *dims[columns + 1 :]))
    feature = features + (features > columns)
    order = [d for d in range(len(dims) + 1) if d != columns + 1]
    order.insert(order.index(feature), columns + 1)
    dims[columns] //= count
    dims[features] *= count
    return reshape(transpose(parts, order), dims)
