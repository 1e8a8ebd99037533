"""Which convolutions are generated, and which are oneDNN's: by element types, shape and instruction set.

The sizes are the target's (:class:`...targets.costs.Convolutions`). These are the host's.

The table was measured with ``python -m benchmarks.convolutions`` (docs/cpus.md has the figures) on a Xeon of 2023
without AMX, with all its instructions and kept to those of x86-64-v3. Its rows about AMX and Zen are not measured.

=================  ===================================================================  ============================
operands           generated                                                            otherwise
=================  ===================================================================  ============================
integers           all                                                                  the "convolution" kernel
f64, 8 bits        all                                                                  the "convolution" kernel
bf16               with AVX-512, not depthwise                                          oneDNN with AMX, and on Zen
f32, and through   up to 4 output features; one input feature; depthwise in one or      oneDNN
f32 bf16 and f16   three dimensions, features first, or the gradient of windows above
                   3x3; gradients of the weights of dilated (transposed) ones;
                   gradients of inputs in one dimension, features first; sums of more
                   than 4,096 terms (16,384 in gradients of inputs), which oneDNN adds up
                   one after the other; without
                   AVX-512 some gradients of weights
any, no oneDNN     all but complex numbers and truth values                             the "convolution" kernel
=================  ===================================================================  ============================
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ...ir import dtypes
from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, WindowDimension
from .convolution_kinds import is_input_gradient, is_weights_gradient, products_of_sum
from .onednn import CONVOLUTION, way

if TYPE_CHECKING:
    from ...targets.costs import Convolutions
    from ...targets.target import Target

# Longer sums lose digits in oneDNN's kernels: docs/accuracy.md.
_LONGEST_SUM: Final = 4096
# In gradients of inputs, of which generated ones take a third longer at 4,608 terms.
_LONGEST_GRADIENT: Final = 16384


def prefers_generated(convolution: Instruction, target: Target) -> bool:
    """Whether ``convolution`` is generated rather than oneDNN's on ``target``, if it can be both."""
    lhs, rhs = convolution.operands
    types = lhs.dtype, rhs.dtype, convolution.dtype
    if way(CONVOLUTION, types, target) is None or convolution.dtype.is_integer:
        return True
    shape = _Class(convolution)
    costs = target.costs.convolutions
    if dtypes.BF16 in types and costs.generates_bf16 and not shape.is_depthwise:
        return True
    return shape.is_slow_in_onednn(costs)


class _Class:
    """What decides about a convolution of f32."""

    def __init__(self, convolution: Instruction) -> None:
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
        rhs = convolution.operands[1].dims
        attributes = convolution.attributes
        self.groups = max(attributes["feature_group_count"], attributes["batch_group_count"])
        self.outputs = rhs[numbers.kernel_output_feature] // self.groups
        self.rank = len(windows)
        self.terms = products_of_sum(convolution)
        self.is_weights = is_weights_gradient(convolution)
        self.is_input = not self.is_weights and is_input_gradient(convolution)
        # Of a gradient of weights the input features are the batch of the convolution that HLO writes for it.
        self.inputs = (
            convolution.dims[numbers.output_batch]
            if self.is_weights
            else rhs[numbers.kernel_input_feature]
        )
        self.is_dilated = any(w.base_dilation > 1 for w in windows)
        self.window = math.prod(w.size for w in windows)
        self.positions = math.prod(convolution.dims[d] for d in numbers.output_spatial)
        self.is_spatial_minor = self.rank > 0 and (
            numbers.input_spatial[-1] == len(convolution.operands[0].dims) - 1
        )

    @property
    def is_depthwise(self) -> bool:
        """Whether each group has one feature: that of the output, for the gradient of weights."""
        one = self.outputs == 1 if self.is_weights else self.inputs == 1
        return self.groups > 1 and one

    def is_slow_in_onednn(self, costs: Convolutions) -> bool:
        """Whether oneDNN has a slower kernel for it, or none but its reference, or adds up too long sums."""
        if self.is_depthwise:
            if self.rank != 2:
                return True
            if self.is_weights:
                return self.positions > costs.depthwise
            return self.is_spatial_minor
        if self.is_dilated and self.window > self.positions:
            return True
        if self.groups == 1 and self.outputs <= costs.few_outputs < self.inputs:
            return True
        if self.groups == 1 and self.inputs == 1 and not self.is_weights:
            return True
        if self.is_input and self.rank == 1 and self.is_spatial_minor:
            return True
        if self.is_weights:
            if not costs.generates_gradients or self.groups > 1 or self.is_spatial_minor:
                return False
            wide = min(self.outputs, self.inputs) >= costs.gradient_features
            large = wide and self.positions > 1 and self.terms >= costs.gradient_terms
            return self.rank != 2 or large
        return self.terms > (_LONGEST_GRADIENT if self.is_input else _LONGEST_SUM)
