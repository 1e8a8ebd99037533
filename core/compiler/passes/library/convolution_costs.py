"""Which convolutions are generated, and which are oneDNN's: by element types, shape and instruction set.

The sizes are the target's (:class:`...targets.costs.Convolutions`). These are the host's.

The table was measured with ``python -m benchmarks.convolutions`` (docs/convolutions-measured.md has the figures) on a
Xeon of 2023 without AMX, with all its instructions and kept to those of x86-64-v3, on a Zen 3, a Zen 4 and a Zen 5,
and on a Xeon of that kind with AMX.

=================  ===================================================================  ============================
operands           generated                                                            otherwise
=================  ===================================================================  ============================
floats, depthwise  features last, in one or two dimensions, without base dilation       the rows below
                   (:mod:`.depthwise`); Zen 3 and 5: features first in two, with a
                   stride
8 and 16 bits,     the same; without VNNI windows of up to 36 elements                  the rows below
depthwise
bytes, x86-64      as products, 1x1 of 32 features and more, in and out, and larger     the row below
without AMX        windows of up to 128 positions (:func:`.window_rows.match_bytes`)
integers           all                                                                  the "convolution" kernel
f64, 8 bits        all                                                                  the "convolution" kernel
bf16               with AVX-512, not depthwise                                          oneDNN with AMX, and on Zen
f32, and through   up to 4 output features; one input feature; depthwise in one or      oneDNN
f32 bf16 and f16   three dimensions, features first, or the gradient of windows above
                   3x3; gradients of the weights of dilated (transposed) ones, as those of
                   strided ones (:mod:`.transposed_gradients`); gradients of inputs in
                   one dimension, features first; sums of more
                   than 4,096 terms (16,384 in gradients of inputs), which oneDNN adds up
                   one after the other; groups of up to 8 features, forward; without
                   AVX-512 some gradients of weights; on Zen 4 and 5 features first
                   in one dimension, and gradients of weights of grouped and strided ones
                   and of dilated ones in one dimension and in three; on Zen 5 (and on
                   Zen 4, but for gradients of inputs of groups, of depthwise windows and of windows of one
                   element with a stride, and for those of weights of groups, which it does
                   generate, of fewer than 512 features, and of windows above 3x3 of 2 to 4
                   input features) gradients of inputs of
                   groups of up to 8 features, not those of weights, of inputs of depthwise
                   windows above 3x3, and of weights of many features and terms (512 features:
                   of any terms), of windows that lie apart (of one element too, those of 64
                   features and more, features last, as products: :mod:`.point_gradients`) and
                   of 2 to 4 input features, features last; patches of up to 4 features (from
                   4x4 on); on Zen 5 features first, windows that lie apart and gradients of
                   their inputs, from 16 pixels of width on; features first in two
                   dimensions, windows of one element, and
                   without strides, up to 64 features (32 in gradients of inputs) where the
                   width is whole vectors, and up to 16 elsewhere, forward; gradients of weights
                   of 32 features and more in such widths; on Zen 3
                   gradients of weights of 8 features and more (but windows of one
                   element), of one feature, and of windows that lie apart; patches of up
                   to 4 features; groups of up to 16 features (forward, features last: up
                   to 384 features in all groups; features first in widths of whole
                   vectors: groups of up to 32); windows that lie apart, and gradients
                   of their inputs; features first in one dimension, of windows of two
                   strides (4x4 by 2, as inputs' gradients of transposed ones), of one
                   element, of up to 4 input features, and up to 16 features (64 in widths
                   of whole vectors; half of them in gradients of inputs), and gradients of
                   weights in groups; features last up to 8 features (16 in gradients of
                   inputs), and gradients of weights of 2 to 4 input features with windows
                   of up to 3x3
bf16 of oneDNN,    as f32, but for groups, for gradients of inputs in one dimension,     oneDNN
Zen                for what only Zen 4 and 5 generate, for sums of up to 16,384 terms
                   that are rounded to bf16, and on Zen 4 and 5 for gradients of the weights
                   of dilated ones, which are as those of strided ones; gradients of
                   weights of windows that do not overlap (Zen 4 and 5: of up to 64 positions), on Zen 4 and 5 those of
                   32 features and more, features last, in one or two dimensions, but for
                   windows of one element without a stride, and those with an even number of
                   pixels in a row, without strides and groups, in images below 40x40 (Zen 5:
                   3x3 below 62x62, but for up to 512 positions in all images and from 512
                   features on), on Zen 5 in three dimensions with strides or dilations too, in
                   one with features first and strides of up to 2, and those of groups of up to 8
                   features, features first; windows that lie apart, as f32, of up to 64 features
                   (Zen 5); on Zen 4 and 5,
                   features first in two dimensions, but for gradients of weights, up to 8
                   features, groups of as many (Zen 5), and up to 36 terms of up to 4 features
                   (Zen 4: without strides); on Zen 4, features first, gradients of weights of
                   windows of one element with a stride
bf16 of oneDNN,    as on Zen, but for few output features, which tiles compute fast;     oneDNN
AMX                groups of up to 8 features, but gradients of weights; depthwise
                   ones of windows above 3x3; from 16 features on, in
                   and out, gradients of weights, transposed ones, and, features first,
                   all but grouped ones
f32, bf16, Zen 5   forward ones of few positions, as products                           the rows above
                   (:func:`.window_rows.match_few_positions`)
f32, bf16, Zen 4   the same; 1x1 of any number of positions, features last, and in bf16    the rows above
                   features first
f32, bf16, f16,    as products, gradients of 1x1 weights (bf16: up to 4,096 positions),    the rows above
Zen 4              and 1x1 with features first (:mod:`.first_points`)
f32, Zen 3         as products, forward ones of up to 256 positions, 1x1 of any number   the rows above
                   with features last or a stride, most with features first, and
                   gradients of their weights, features last, and with features first
                   of large images (:mod:`.first_point_gradients`)
bf16, f16, Zen 3   as f32, and 1x1 with features first in any number of positions        oneDNN in f32
f16, Zen 4         features first, as f32                                               oneDNN in f32
f32, bf16, f16,    as products, gradients of 1x1 weights (f32 and f16: from 256        the rows above
Xeon with FP16     features on, up to 512 positions; strided ones of any number);
and without AMX    generated gradients of f32 weights of 512 features and more
                   as products, forward ones of few positions (f32: 1x1; bf16: 1x1 of
                   any number of positions, too)
                   as products, 1x1 with features first (:mod:`.first_points`)
f16, Zen 5         as f32, and but for gradients of weights up to 16 features, in or     oneDNN in f32
                   out (gradients of inputs: 32 in and out), and windows of one
                   element, features last too
any, no oneDNN     all but complex numbers and truth values                             the "convolution" kernel
=================  ===================================================================  ============================
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ...codegen.kernels import product_forms
from ...ir import dtypes
from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, WindowDimension
from . import window_rows
from .convolution_kinds import (
    is_any_weights_gradient,
    is_input_gradient,
    is_transposed,
    is_weights_gradient,
    products_of_sum,
)
from .depthwise import match_depthwise
from .gemm import accumulator
from .matrix_gradients import MOST_RESIDUES, form_of, residues, zeros
from .onednn import CONVOLUTION, Way, way
from .whole_pairs import needs_f32

if TYPE_CHECKING:
    from ...targets.costs import Convolutions
    from ...targets.target import Target

# Longer sums lose digits in oneDNN's kernels: docs/accuracy.md.
_LONGEST_SUM: Final = 4096
# In gradients of inputs, whose sums were generated a third slower at 4,608 terms; and where the sum is rounded to bf16:
# 16,384 roundings of f32, were all of them in one direction, are a quarter of a bf16's spacing at most.
_LONGEST_ROUGH_SUM: Final = 16384

# Of a sum, with more of which a library's pairs of bf16 make up for its copies: windows of 3x3 of four features.
_FEW_TERMS: Final = 36


def prefers_generated(convolution: Instruction, target: Target) -> bool:
    """Whether ``convolution`` is generated rather than oneDNN's on ``target``, if it can be both."""
    lhs, rhs = convolution.operands
    types = lhs.dtype, rhs.dtype, convolution.dtype
    if way_of(convolution, target) is None or convolution.dtype.is_integer:
        return True
    shape = _Class(convolution)
    costs = target.costs.convolutions
    is_fast = dtypes.BF16 in types and dtypes.BF16.name in target.costs.products.library_types
    if match_depthwise(convolution, target) is not None:
        return True
    if dtypes.BF16 in types:
        if costs.generates_bf16 and not shape.is_depthwise:
            return True
        if is_fast:
            good = _has_good_rows(convolution, target) or _has_good_pairs(convolution, target)
            return shape.is_slow_in_bf16(costs) or good
    if shape.is_slow_in_f32(costs):
        return True
    lanes = target.vector_bytes // dtypes.F32.size
    if set(types) == {dtypes.F16} and costs.f16_features > 0 and shape.is_slow_in_f16(costs):
        return True
    alike = {dtypes.F32}
    alike |= {dtypes.F16} if costs.generates_f16_first else set()
    alike |= {dtypes.BF16} if costs.generates_bf16_first else set()
    return len(set(types)) == 1 and lhs.dtype in alike and shape.is_slow_first(costs, lanes)


def generates_transposed_gradient(gradient: Instruction, target: Target) -> bool:
    """Whether the gradient of the weights of a transposed convolution, read as that of a strided one, is generated
    whatever that would be: in f32, of which oneDNN has slow ones, and where bf16 is as f32.
    """
    types = {gradient.dtype, *(o.dtype for o in gradient.operands)}
    has_bf16 = dtypes.BF16.name in target.costs.products.library_types
    return not (has_bf16 and dtypes.BF16 in types)


def way_of(convolution: Instruction, target: Target) -> Way | None:
    """How oneDNN computes ``convolution`` on ``target`` without a wrong number; None if it cannot."""
    lhs, rhs = convolution.operands
    types = lhs.dtype, rhs.dtype, convolution.dtype
    if needs_f32(convolution):
        types = (dtypes.F32, dtypes.F32, dtypes.F32)
    return way(CONVOLUTION, types, target)


def _has_good_rows(convolution: Instruction, target: Target) -> bool:
    """Whether the windows of a convolution of bf16 fill registers of matrices better than a library does."""
    lhs, rhs = (o.dtype for o in convolution.operands)
    form = product_forms.choose_matrix(target, lhs, rhs, accumulator(convolution.dtype))
    if form is None or not window_rows.is_plain(convolution):
        return False
    if window_rows.lie_apart(convolution):
        return window_rows.are_rows(convolution, form, target)
    return window_rows.has_large_kernel(convolution, target.costs.convolutions)


def _has_good_pairs(convolution: Instruction, target: Target) -> bool:
    """Whether a gradient of weights of bf16 is multiplied in pairs faster than a library's: one that has whole vectors
    as they lie, but for windows of one element without a stride, which are a product as they are, and for plain ones
    in images so small that the zeros behind their rows take what is gained, unless the images are few too.
    """
    costs = target.costs.convolutions
    least = costs.pair_features
    shape = _Class(convolution)
    if not 0 < least <= min(shape.inputs, shape.outputs):
        return False
    points = shape.positions == 1
    if shape.rank > (costs.pair_dimensions if shape.skips else 2) or (points and not shape.skips):
        return False
    minor = shape.rank == 1 and shape.residues <= costs.minor_pairs
    if shape.is_spatial_minor and not (minor or (points and costs.strided_pairs_first)):
        return False
    form = form_of(convolution, target)
    if form is None or form.is_matrix:
        return False
    plain = shape.groups == 1 and shape.rank == 2 and not shape.skips
    if not plain or needs_f32(convolution) or shape.terms <= costs.pair_terms:
        return True
    if min(shape.inputs, shape.outputs) >= costs.vast_pairs:
        return True
    return zeros(convolution) <= costs.pair_zeros


class _Class:
    """What decides about a convolution of floats."""

    def __init__(self, convolution: Instruction) -> None:
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
        rhs = convolution.operands[1].dims
        attributes = convolution.attributes
        self.groups = max(attributes["feature_group_count"], attributes["batch_group_count"])
        self.outputs: int = rhs[numbers.kernel_output_feature] // self.groups
        self.rank = len(windows)
        self.terms = products_of_sum(convolution)
        self.is_bf16 = dtypes.BF16 in (o.dtype for o in convolution.operands)
        # oneDNN's f32 is faster where it takes the others for forward ones.
        is_gradient = is_any_weights_gradient if self.is_bf16 else is_weights_gradient
        self.is_weights = is_gradient(convolution)
        self.is_any_weights = is_any_weights_gradient(convolution)
        self.residues = residues(convolution)
        self.is_transposed = is_transposed(convolution)
        self.is_input = not self.is_weights and is_input_gradient(convolution)
        # Of a gradient of weights the input features are the batch of the convolution that HLO writes for it.
        self.inputs: int = (
            convolution.dims[numbers.output_batch]
            if self.is_weights
            else rhs[numbers.kernel_input_feature]
        )
        self.is_dilated = any(w.base_dilation > 1 for w in windows)
        # A forward convolution's strides are the window's dilations in the gradient of its weights, and the reverse.
        self.skips = any(
            w.window_dilation > 1 or (w.stride > 1 and self.rank != 2) for w in windows
        )
        self.window = math.prod(w.size for w in windows)
        sizes = [convolution.dims[d] for d in numbers.output_spatial]
        self.positions = math.prod(sizes)
        # Whether the forward convolution's windows, whose size a gradient of weights has, do not overlap.
        self.is_apart = all(w.window_dilation >= n for w, n in zip(windows, sizes, strict=True))
        self.is_patches = self.window > 1 and all(w.stride >= w.size for w in windows)
        # Whether no two windows have an element in common in the convolution whose input's gradient this may be.
        self.is_apart_input = self.window > 1 and all(w.base_dilation >= w.size for w in windows)
        # The width of the images whose pixels are the windows of either, and which of both there is.
        self.is_any_apart = self.groups == 1 and (self.is_patches or self.is_apart_input)
        images = convolution.operands[0].dims if self.is_apart_input else convolution.dims
        places = numbers.input_spatial if self.is_apart_input else numbers.output_spatial
        self.apart_width: int = images[places[-1]] if places else 1
        # Whether all windows are two of their strides long, as those of 4x4 that go on by 2.
        self.is_two_strides = all(
            w.size == 2 * w.stride > 2 and (w.base_dilation, w.window_dilation) == (1, 1)
            for w in windows
        )
        self.is_strided = any(w.stride > 1 for w in windows)
        self.is_plain = self.groups == 1 and not self.is_strided and not self.is_dilated
        self.last_window = windows[-1].size if windows else 1
        self.width = sizes[-1] if sizes else 1
        self.is_rounded = convolution.dtype is dtypes.BF16
        self.is_spatial_minor = self.rank > 0 and (
            numbers.input_spatial[-1] == len(convolution.operands[0].dims) - 1
        )

    @property
    def is_depthwise(self) -> bool:
        """Whether each group has one feature: that of the output, for the gradient of weights."""
        one = self.outputs == 1 if self.is_weights else self.inputs == 1
        return self.groups > 1 and one

    def is_narrow(self, costs: Convolutions) -> bool:
        """Whether each group has a few features in and out, less than fill the library's tiles."""
        few = max(self.inputs, self.outputs) <= costs.narrow_group
        return self.groups > 1 and not self.is_depthwise and few

    def is_slow_in_f32(self, costs: Convolutions) -> bool:
        """Whether oneDNN is slower than generated code in f32, or adds up too long sums."""
        if self.is_slow(costs):
            return True
        if self.is_depthwise:
            # A base dilation makes several features of one, which fill no vectors.
            large = self.window > costs.depthwise and not self.is_dilated
            return costs.generates_group_inputs and self.is_input and large
        if self.is_weights:
            return self.is_slow_gradient(costs)
        if self.groups == 1 and self.is_slow_for_patches(costs):
            return True
        if self.is_plain and not self.is_spatial_minor:
            most = costs.last_features * (2 if self.is_input else 1)
            if self.rank == 2 and self.window > 1 and max(self.inputs, self.outputs) <= most:
                return True
        if self.is_input:
            grouped = costs.generates_group_inputs and self.is_narrow(costs)
            minor = self.rank == 1 and self.is_spatial_minor
            return grouped or minor or self.terms > _LONGEST_ROUGH_SUM
        minor = self.rank == 1 and self.is_spatial_minor and costs.generates_minor
        near = self.is_spatial_minor or self.groups * self.outputs <= costs.all_groups
        return minor or (near and self.is_narrow(costs)) or self.terms > _LONGEST_SUM

    def is_slow_first(self, costs: Convolutions, lanes: int) -> bool:
        """Whether a library's copies of the input and of the result, features first, take longer than what it gains.

        It computes in blocks of features, generated code in vectors of ``lanes`` positions along the width.
        """
        if self.is_slow_apart_first(costs):
            return True
        if self.rank != 2 or not self.is_spatial_minor:
            return False
        strided = costs.generates_strided_points
        strided &= not self.is_input or costs.generates_strided_point_inputs
        if self.window == 1 and self.groups == 1 and strided:
            return True
        if self.is_two_strides and self.groups == 1 and not self.is_any_weights:
            return costs.generates_two_strides_first
        if self.groups > 1 and not (self.is_strided or self.is_dilated or self.is_input):
            whole = not self.is_weights and self.width % lanes == 0
            return whole and max(self.inputs, self.outputs) <= costs.first_group
        if not self.is_plain:
            return False
        fewest, most = sorted((self.inputs, self.outputs))
        if self.is_weights:
            fills: bool = self.last_window % lanes == 0
            return fills and fewest >= costs.first_gradient_features > 0
        if self.window == 1 and costs.generates_first_points:
            return True
        if costs.generates_first_few_inputs and self.inputs <= costs.few_outputs:
            return True
        if self.width % lanes == 0:
            return most <= costs.first_features // (2 if self.is_input else 1)
        return most <= (
            costs.first_input_features_ragged if self.is_input else costs.first_features_ragged
        )

    def is_slow_apart_first(self, costs: Convolutions) -> bool:
        """The same of windows that lie apart, and of gradients of their inputs, in two dimensions or three."""
        if self.rank < 2 or not self.is_spatial_minor or self.is_any_weights:
            return False
        return self.is_any_apart and self.apart_width >= costs.first_apart_width

    def is_slow_in_f16(self, costs: Convolutions) -> bool:
        """The same of what moves so much for what it computes that converting f16 for oneDNN decides."""
        if self.groups > 1 or self.is_any_weights:
            return False
        if self.window == 1:
            return True
        most = costs.f16_features
        if self.is_input:
            return max(self.inputs, self.outputs) <= 2 * most
        return min(self.inputs, self.outputs) <= most

    def is_slow_first_in_bf16(self, costs: Convolutions) -> bool:
        """The same in bf16, which generated code converts to f32: of so few features that most of a library's block of
        them are zeros, or of few terms.
        """
        if self.is_slow_apart_first(costs):
            return max(self.inputs, self.outputs) <= costs.first_apart_bf16
        if self.rank != 2 or not self.is_spatial_minor or self.is_depthwise:
            return False
        if max(self.inputs, self.outputs) <= costs.first_bf16_features:
            return self.is_plain or (self.groups > 1 and costs.first_bf16_any)
        few = self.groups == 1 and self.inputs <= costs.few_outputs and self.terms <= _FEW_TERMS
        plain = self.is_plain or costs.first_bf16_any
        return few and plain and costs.first_bf16_features > 0

    def is_slow_for_patches(self, costs: Convolutions) -> bool:
        """The same of patches, and of the gradient of the weights of patches that have more elements than there are
        results, which is read as a forward convolution.
        """
        if self.is_any_weights and self.is_apart:
            return costs.generates_most_gradients or costs.generates_apart_gradients
        lies_apart = self.is_patches or self.is_apart_input
        if costs.generates_apart and lies_apart and not self.is_any_weights:
            return True
        few = self.inputs <= costs.few_outputs
        return self.is_patches and few and self.window >= costs.patches > 0

    def is_slow_gradient(self, costs: Convolutions) -> bool:
        """The same of a gradient of weights."""
        if costs.generates_most_gradients and self.groups == 1:
            apart = self.is_apart and self.skips
            wide = min(self.outputs, self.inputs) >= costs.gradient_features
            if apart or self.inputs == 1 or (wide and self.positions > 1):
                return True
        if costs.generates_apart_gradients and self.groups == 1:
            few = 1 < self.inputs <= costs.few_outputs and self.positions <= costs.few_window
            if self.is_apart or (few and not self.is_spatial_minor):
                return True
        several = self.skips and self.inputs > costs.few_outputs
        grouped = self.groups > 1 and not (costs.generates_group_inputs and self.is_narrow(costs))
        if costs.generates_special_gradients and (grouped or several):
            return True
        if self.groups > 1 and self.is_spatial_minor and costs.generates_first_few_inputs:
            return self.rank == 2
        if self.groups > 1 or self.is_spatial_minor:
            return False
        wide = min(self.outputs, self.inputs) >= costs.gradient_features
        vast = self.positions > 1 and min(self.outputs, self.inputs) >= costs.vast_features
        large = vast or (wide and self.terms >= costs.gradient_terms)
        if costs.generates_wide_gradients and large:
            return True
        return costs.generates_gradients and (self.rank != 2 or (large and self.positions > 1))

    def is_slow_in_bf16(self, costs: Convolutions) -> bool:
        """The same where oneDNN multiplies with instructions for bf16."""
        if self.is_slow(costs):
            return True
        if self.is_weights:
            apart = self.is_apart and self.positions <= costs.patch
            few = self.inputs <= costs.few_outputs and apart
            first = self.rank == 2 and self.is_spatial_minor and costs.first_bf16_any
            if first and self.is_narrow(costs):
                return True
            return not self.is_depthwise and (few or self.fills_matrices(costs))
        if costs.tiles_bf16 and self.is_narrow(costs):
            return True
        if self.is_slow_first_in_bf16(costs):
            return True
        strewn = self.groups == 1 and (self.is_transposed or self.is_spatial_minor)
        if strewn and self.fills_matrices(costs):
            return True
        return self.terms > (
            _LONGEST_ROUGH_SUM if self.is_rounded or self.is_input else _LONGEST_SUM
        )

    def fills_matrices(self, costs: Convolutions) -> bool:
        """Whether generated tiles of matrices have enough features, and gradients of weights few enough residues."""
        enough = costs.tiles_bf16 and min(self.inputs, self.outputs) >= costs.matrix_features
        return enough and (not self.is_weights or self.residues <= MOST_RESIDUES)

    def is_slow(self, costs: Convolutions) -> bool:
        """Whether oneDNN has a slow kernel for it in each type, or none but its reference."""
        tiles = costs.tiles_bf16 and self.is_bf16
        if self.is_depthwise:
            if self.rank != 2:
                return True
            if self.is_weights:
                return self.positions > costs.depthwise
            return self.is_spatial_minor or (tiles and self.window > costs.depthwise)
        if self.is_dilated and self.window > self.positions:
            return not (costs.library_dilated and self.is_bf16 and self.rank == 2)
        if self.groups > 1:
            return False
        few = self.outputs <= costs.few_outputs < self.inputs and not tiles
        return few or (self.inputs == 1 and not self.is_weights)
