"""Convolutions become calls of "convolution" (core/runtime/library/convolution.cc).

HLO has one convolution, oneDNN three: forward, the gradient of the input and the gradient of the weights. HLO's
general form, in one spatial dimension (b: base dilation, d: window dilation, s: stride, p: low padding):

    out[n, o, y] = sum over i, k of  dilated(lhs)[n, i, y s + k d - p] rhs[o, i, k]

* Gradient of the input: the stride is 1, lhs is the gradient of the output, base-dilated by the forward stride, and
  the kernel is the reversed one of the forward convolution, with features swapped. The forward padding is
  (k - 1) d - p.
* Gradient of the weights: lhs is the forward input with batch and features swapped, rhs the gradient of the
  output, spread by the forward stride (the window dilation), and the stride is the forward dilation. (Any undilated
  convolution can be read so; it pays when the "kernel" is larger than the result.) With a batch group count it is the
  weights' gradient of a grouped convolution.

What is left over (negative padding, base dilation together with a stride, padding wider than the kernel) is made simple
by a ``pad`` or a ``slice`` before the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...ir import dtypes
from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, Shape, WindowDimension, constant
from ...ir.moves import pad
from ...ir.patterns import convert
from . import convolution_costs, guarded, matrix_gradients
from .blocks import as_integers
from .context import Context
from .convolution_kinds import (
    View,
    is_input_gradient,
    is_weights_gradient,
    multiply_adds,
    products_of_sum,
    view,
)
from .depthwise import match_depthwise
from .first_point_gradients import match_first_point_gradient
from .first_points import match_first_points
from .gemm import Dimension, row_major
from .joined_columns import with_joined_columns
from .point_gradients import match_point_gradient
from .transposed_gradients import as_strided, reversed_again
from .whole_pairs import with_whole_pairs
from .window_products import generate_convolution
from .window_rows import match_bytes, match_few_positions, match_windows

if TYPE_CHECKING:
    from ...targets.costs import Library

MAX_SPATIAL_DIMENSIONS: Final = 3


def match_convolution(convolution: Instruction, context: Context) -> Instruction | None:
    """The library call that computes ``convolution``, or None if it is left to generated code."""
    return _transposed_gradient(convolution, context) or _match_as_it_is(convolution, context)


def _transposed_gradient(convolution: Instruction, context: Context) -> Instruction | None:
    """The gradient of the weights of a transposed convolution as that of a strided one, right beside infinities too;
    None if ``convolution`` is of another kind.
    """
    strided = as_strided(convolution)
    if strided is None or convolution.dtype.is_complex:
        return None
    generates = convolution_costs.generates_transposed_gradient(strided, context.target)
    gradient = _generated(strided, context) if generates else None
    gradient = gradient or _match_as_it_is(strided, context)
    if gradient is None:
        return None
    found = reversed_again(gradient, convolution)
    # The zeros of its padding meet what no sum of the other one has: a NaN of an infinity.
    is_padded = any(max(w.padding_low, w.padding_high) > 0 for w in strided.attributes["window"])
    if not is_padded or not convolution.dtype.is_float:
        return found

    def exact(operands: Sequence[Instruction]) -> Instruction:
        again = convolution.replace(operands=operands)
        return _match_as_it_is(again, context) or again

    return guarded.unless_nan(found, convolution.operands, exact)


def _match_as_it_is(convolution: Instruction, context: Context) -> Instruction | None:
    found = (
        match_first_points(convolution, context)
        or match_few_positions(convolution, context)
        or match_bytes(convolution, context)
        or match_point_gradient(convolution, context)
        or match_first_point_gradient(convolution, context)
    )
    if found is not None:
        return found
    if convolution_costs.prefers_generated(convolution, context.target):
        generated = _generated(convolution, context)
        if generated is not None:
            return generated
    if not is_possible(convolution):
        return None
    lhs, rhs = convolution.operands
    types = (lhs.dtype, rhs.dtype, convolution.dtype)
    chosen = convolution_costs.way_of(convolution, context.target)
    library = context.target.costs.library
    if chosen is None or (chosen.depth and products_of_sum(convolution) > chosen.depth):
        return None
    if chosen.types == types:
        return make_call(with_whole_pairs(convolution), library)
    wide = convolution.replace(
        operands=[convert(lhs, chosen.types[0]), convert(rhs, chosen.types[1])],
        shape=convolution.shape.with_dtype(chosen.types[2]),  # type: ignore[union-attr]
    )
    call = make_call(wide, library)
    return as_integers(call, convolution.dtype) if chosen.depth else convert(call, types[2])


def _generated(convolution: Instruction, context: Context) -> Instruction | None:
    return (
        match_depthwise(convolution, context.target)
        or match_windows(convolution, context)
        or _gradient_in_matrices(convolution, context)
        or generate_convolution(convolution, context.target)
    )


def is_possible(convolution: Instruction) -> bool:
    """Whether oneDNN takes the convolution's dimensions."""
    empty = 0 in convolution.dims or any(0 in o.dims for o in convolution.operands)
    return not empty and len(convolution.attributes["window"]) <= MAX_SPATIAL_DIMENSIONS


def make_call(convolution: Instruction, library: Library) -> Instruction:
    """The call for a convolution whose element types oneDNN takes."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    if is_input_gradient(convolution):
        call = input_gradient(convolution, library)
        if call is not None:
            return call
    if any(w.base_dilation != 1 for w in windows):
        return make_call(dilate_explicitly(convolution), library)
    if any(needs_explicit_padding(w) for w in windows):
        return make_call(pad_explicitly(convolution), library)
    if is_weights_gradient(convolution):
        cut = without_leftovers(convolution)
        if cut is convolution:
            return weights_gradient(convolution, library)
        return make_call(cut, library)
    convolution = with_joined_columns(convolution)
    call = forward(convolution, library)
    if not guarded.reads_behind_windows(convolution):
        return call
    return guarded.if_finite(
        call.operands[0],
        call.operands,
        call.on,
        lambda given: convert(_in_f32(call, given), call.dtype),
    )


def _in_f32(i: Instruction, operands: Sequence[Instruction]) -> Instruction:
    """``i`` of ``operands`` in f32, with a result of f32."""
    return i.replace(
        operands=[convert(o, dtypes.F32) for o in operands],
        shape=i.shape.with_dtype(dtypes.F32),  # type: ignore[union-attr]
    )


def _gradient_in_matrices(convolution: Instruction, context: Context) -> Instruction | None:
    """``convolution`` as :mod:`.matrix_gradients` computes it, right beside infinities too; None if it does not."""
    found = matrix_gradients.weights_gradient(convolution, context.target)
    if found is None or not matrix_gradients.meets_zeros(convolution):
        return found

    def exact(operands: Sequence[Instruction]) -> Instruction:
        wide = _in_f32(convolution, operands)
        return convert(match_convolution(wide, context) or wide, convolution.dtype)

    return guarded.unless_nan(found, convolution.operands, exact)


def needs_explicit_padding(window: WindowDimension) -> bool:
    """Whether the padding is negative, or such that a whole window can lie in it (which oneDNN takes, but slowly)."""
    extent = (window.size - 1) * window.window_dilation + 1
    high = window.padding_high
    return not (0 <= window.padding_low < extent) or not (0 <= high < extent + window.stride)


# ------------------------------------------------------------------------------------------- the three kinds


class _Arrays:
    """The arrays of a convolution: features and batch, or those of the kernel's two sides, then spatial dimensions."""

    def __init__(self, convolution: Instruction, backwards: bool = False) -> None:
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        lhs = view(convolution.operands[0], through_reverse=False)
        rhs = oriented_kernel(convolution, backwards)
        result = View(convolution, row_major(convolution.dims))
        self.operands = (lhs.instruction, rhs.instruction)
        self.input = lhs.pick(numbers.input_batch, numbers.input_feature, *numbers.input_spatial)
        self.kernel = rhs.pick(
            numbers.kernel_output_feature, numbers.kernel_input_feature, *numbers.kernel_spatial
        )
        self.output = result.pick(
            numbers.output_batch, numbers.output_feature, *numbers.output_spatial
        )


def forward(convolution: Instruction, library: Library) -> Instruction:
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    arrays = _Arrays(convolution)
    return make_instruction(
        convolution,
        library,
        "forward",
        arrays.operands,
        src=arrays.input,
        weights=group_features(arrays.kernel, convolution.attributes["feature_group_count"], 0),
        dst=arrays.output,
        strides=[w.stride for w in windows],
        dilations=[w.window_dilation for w in windows],
        padding_low=[w.padding_low for w in windows],
    )


def input_gradient(convolution: Instruction, library: Library) -> Instruction | None:
    """The convolution as the gradient of the input, or None if oneDNN has no such padding."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    groups = convolution.attributes["feature_group_count"]
    low = [(w.size - 1) * w.window_dilation - w.padding_low for w in windows]
    lhs_dims = convolution.operands[0].dims
    for i, w in enumerate(windows):
        extent = (w.size - 1) * w.window_dilation + 1
        reach = (lhs_dims[numbers.input_spatial[i]] - 1) * w.base_dilation + extent
        high = reach - convolution.dims[numbers.output_spatial[i]] - low[i]
        if not (0 <= low[i] < extent and -w.base_dilation < high < extent):
            return None
    arrays = _Arrays(convolution, backwards=True)
    return make_instruction(
        convolution,
        library,
        "backward_data",
        arrays.operands,
        src=arrays.output,
        weights=group_features(_exchanged(arrays.kernel), groups, split=1),
        dst=arrays.input,
        strides=[w.base_dilation for w in windows],
        dilations=[w.window_dilation for w in windows],
        padding_low=low,
    )


def weights_gradient(convolution: Instruction, library: Library) -> Instruction:
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    groups = convolution.attributes["batch_group_count"]
    arrays = _Arrays(convolution)
    return make_instruction(
        convolution,
        library,
        "backward_weights",
        arrays.operands,
        src=_exchanged(arrays.input),
        weights=group_features(_exchanged(arrays.output), groups, split=0),
        dst=_exchanged(arrays.kernel),
        strides=[w.window_dilation for w in windows],
        dilations=[w.stride for w in windows],
        padding_low=[w.padding_low for w in windows],
    )


def _exchanged(dimensions: list[Dimension]) -> list[Dimension]:
    """The first two in each other's place."""
    first, second, *spatial = dimensions
    return [second, first, *spatial]


def group_features(weights: list[Dimension], groups: int, split: int) -> list[Dimension]:
    """[o, c, spatial...] as [g, o / g, c / g, spatial...]; dimension ``split`` is the one that runs over all groups."""
    if groups == 1:
        return weights
    whole = weights[split]
    size = whole.size // groups
    weights = list(weights)
    weights[split] = Dimension(size, whole.stride)
    return [Dimension(groups, size * whole.stride), *weights]


def make_instruction(
    convolution: Instruction,
    library: Library,
    kind: str,
    operands: tuple[Instruction, Instruction],
    *,
    src: list[Dimension],
    weights: list[Dimension],
    dst: list[Dimension],
    strides: list[int],
    dilations: list[int],
    padding_low: list[int],
) -> Instruction:
    """The library call; without spatial dimensions it gets one of size 1. The high padding is what fits the sizes."""
    if not strides:
        src, weights, dst = ([*d, Dimension(1, 1)] for d in (src, weights, dst))
        strides, dilations, padding_low = [1], [1], [0]
    rank = len(strides)
    extents = [(w.size - 1) * d + 1 for w, d in zip(weights[-rank:], dilations, strict=True)]
    padding_high = [
        (y.size - 1) * stride + extent - x.size - low
        for x, y, extent, stride, low in zip(
            src[2:], dst[2:], extents, strides, padding_low, strict=True
        )
    ]
    shapes = [o.shape for o in (*operands, convolution)]
    moved = sum(s.bytes for s in shapes if isinstance(s, Shape))
    config: dict[str, Any] = {
        "kind": kind,
        "src_dimensions": tuple(d.size for d in src),
        "src_strides": tuple(d.stride for d in src),
        "weights_dimensions": tuple(d.size for d in weights),
        "weights_strides": tuple(d.stride for d in weights),
        "dst_dimensions": tuple(d.size for d in dst),
        "dst_strides": tuple(d.stride for d in dst),
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "padding_low": tuple(padding_low),
        "padding_high": tuple(padding_high),
        "cost_ns": library.contraction_ns(multiply_adds(convolution), operands[0].dtype, moved),
    }
    return convolution.derive("library-call", operands, {"name": "convolution", "config": config})


# --------------------------------------------------------------------------------------- making it simple first


def oriented_kernel(convolution: Instruction, backwards: bool) -> View:
    """The kernel, read backwards in all its spatial dimensions or in none; reversed by an instruction if it must be."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    spatial = convolution.attributes["dimension_numbers"].kernel_spatial
    rhs = convolution.operands[1]
    kernel = view(rhs, through_reverse=True)
    if all(
        ((d in kernel.reversed) != w.reversal) == backwards or w.size == 1
        for d, w in zip(spatial, windows, strict=True)
    ) and kernel.reversed <= set(spatial):
        return kernel
    flip = tuple(
        d for d, w in zip(spatial, windows, strict=True) if w.reversal != backwards and w.size > 1
    )
    if flip:
        rhs = rhs.derive("reverse", (rhs,), {"dimensions": flip})
    return View(rhs, row_major(rhs.dims))


def dilate_explicitly(convolution: Instruction) -> Instruction:
    """The convolution with its base dilation and padding done by a pad."""
    return _padded(convolution, dilate=True)


def pad_explicitly(convolution: Instruction) -> Instruction:
    """The convolution with its padding done by a pad (a negative one cuts)."""
    return _padded(convolution, dilate=False)


def without_leftovers(convolution: Instruction) -> Instruction:
    """The convolution with what no window reaches because of the stride cut off, if oneDNN does not take it.

    Read as the gradient of weights, the window's dilation is the stride: less than that may be left over.
    """
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    new_windows: list[WindowDimension] = []
    for d, e, w in zip(numbers.input_spatial, numbers.output_spatial, windows, strict=True):
        extent = (w.size - 1) * w.window_dilation + 1
        reached = (convolution.dims[e] - 1) * w.stride + extent
        high = reached - convolution.operands[0].dims[d] - w.padding_low
        new_windows.append(w if high > -w.window_dilation else replace(w, padding_high=high))
    if new_windows == list(windows):
        return convolution
    return convolution.replace(attributes={**convolution.attributes, "window": tuple(new_windows)})


def _padded(convolution: Instruction, dilate: bool) -> Instruction:
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    lhs = convolution.operands[0]
    low, high, interior = ([0] * len(lhs.dims) for _ in range(3))
    new_windows: list[WindowDimension] = []
    for d, w in zip(numbers.input_spatial, windows, strict=True):
        if dilate or needs_explicit_padding(w):
            low[d], high[d], interior[d] = w.padding_low, w.padding_high, w.base_dilation - 1
            w = replace(w, padding_low=0, padding_high=0, base_dilation=1)
        new_windows.append(w)
    zero = constant(0, lhs.dtype)
    padded = pad(lhs, zero, low, high, interior, convolution.metadata)
    return convolution.replace(
        operands=(padded, convolution.operands[1]),
        attributes={**convolution.attributes, "window": tuple(new_windows)},
    )
