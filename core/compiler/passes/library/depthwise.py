"""Depthwise convolutions of floats and small integers with features last: :mod:`...codegen.kernels.depthwise`.

Their windows are multiplied where the input lies: nothing is padded, and nothing is laid out in another order but
weights. In one or two dimensions, without base dilation, with any stride, window dilation and padding, and with several
features of the result for each of the input (a channel multiplier). On some CPUs strided ones with features first are
computed so between two transposes. The gradient of the input of one without stride is
such a convolution with a reversed kernel.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...codegen.kernels import product_forms
from ...codegen.kernels.depthwise import Axis
from ...ir import dtypes
from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, Shape, WindowDimension
from ...ir.moves import transpose
from ...ir.patterns import convert, reshape, splat_value
from .gemm import accumulator
from .window_groups import narrowed

if TYPE_CHECKING:
    from ...codegen.kernels.product_forms import ProductForm
    from ...ir.dtypes import DType
    from ...targets.target import Target

_MOST_WINDOW: Final = (
    64  # elements of a window, whose products are written out for all sums of a tile
)
# The same where products of integers are added by an instruction of their own: 7x7 took up to 1.2 times as long as the
# kernel of other convolutions (a Zen 5 kept to AVX2 and to SSE).
_MOST_ADDED: Final = 36
_LEAST_LANES: Final = 4


def match_depthwise(convolution: Instruction, target: Target) -> Instruction | None:
    """The product that computes ``convolution``; None if it is of another kind, or has too few features."""
    if not target.packs_products:
        return None
    if target.costs.convolutions.turns_strided_depthwise and _is_strided_first(convolution):
        return _turned(convolution, target)
    axes = _axes(convolution)
    if axes is None:
        return None
    lhs, rhs = convolution.operands
    sums = accumulator(convolution.dtype)
    if not _are_summed(lhs.dtype, rhs.dtype, sums):
        return None
    multiplies_and_adds = target.has("avx512vnni") or target.has("avxvnni")
    most = _MOST_WINDOW if sums.is_float or multiplies_and_adds else _MOST_ADDED
    if axes[0].window * axes[1].window > most:
        return None
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    features = convolution.dims[-1]
    each = features // lhs.dims[-1]
    lanes = target.vector_bytes // sums.size
    while lanes > features:
        lanes //= 2
    if lanes < _LEAST_LANES or lanes % each:
        return None
    form = _pairs(lhs.dtype, rhs.dtype, lanes, target) if sums.is_integer else None
    if form is not None:
        wide = convert(rhs, dtypes.S32)
        rhs = wide.derive("and", (wide, splat_value(0xFFFF, wide)))
    order = [*numbers.kernel_spatial, numbers.kernel_input_feature, numbers.kernel_output_feature]
    dims = (axes[0].window, axes[1].window, features)
    config: dict[str, Any] = {
        "axes": tuple(tuple(a) for a in axes),
        "batch": convolution.dims[0],
        "features": features,
        "each": each,
        "sums": sums,
        "lanes": lanes,
        "form": form,
        "tile": _tile(axes, 32 if target.vector_bytes >= 64 or not target.is_x86 else 16),
    }
    return convolution.derive(
        "depthwise-product", (lhs, reshape(transpose(rhs, order), dims)), {"config": config}
    )


def _pairs(lhs: DType, rhs: DType, lanes: int, target: Target) -> ProductForm | None:
    """The instruction that multiplies a number of 16 bits by another one in each of ``lanes``: one for pairs of them,
    of which the second weight is 0. None if there is none, or the numbers are not of 16 bits with their sign.
    """
    if dtypes.U16 in (lhs, rhs):
        return None
    form = product_forms.choose(target, dtypes.S16, dtypes.S16, dtypes.S32)
    return narrowed(form, lanes) if form is not None and form.instruction else None


def _is_strided_first(convolution: Instruction) -> bool:
    """Whether ``convolution`` has features first, in two dimensions, and a stride."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    read = (numbers.input_batch, numbers.input_feature, *numbers.input_spatial)
    written = (numbers.output_batch, numbers.output_feature, *numbers.output_spatial)
    return read == written == (0, 1, 2, 3) and any(w.stride > 1 for w in windows)


def _turned(convolution: Instruction, target: Target) -> Instruction | None:
    """The product, with features last, that computes ``convolution``, which has them first, between two transposes."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    lhs, rhs = convolution.operands
    last = replace(
        numbers,
        input_feature=3,
        input_spatial=(1, 2),
        output_feature=3,
        output_spatial=(1, 2),
    )
    images, features, *sizes = convolution.dims
    turned = convolution.replace(
        operands=(transpose(lhs, (0, 2, 3, 1)), rhs),
        shape=Shape(convolution.dtype, (images, *sizes, features)),
        attributes={**convolution.attributes, "dimension_numbers": last},
    )
    product = match_depthwise(turned, target)
    return None if product is None else transpose(product, (0, 3, 1, 2))


def _are_summed(lhs: DType, rhs: DType, sums: DType) -> bool:
    """Whether products of these types are added up in numbers of type ``sums``, which hold all values of theirs:
    floats that LLVM has (sums for results of 8 bits and less are not), or integers of 8 and 16 bits, whose products
    are exact modulo 2^32.
    """
    types = (lhs, rhs)
    if sums.is_float:
        return sums.bits >= 32 and all(t.is_float and t.bits <= sums.bits for t in types)
    return sums.bits == 32 and all(t.is_integer and 8 <= t.bits <= 16 for t in types)


def _axes(convolution: Instruction) -> tuple[Axis, Axis] | None:
    """The rows and the columns of a depthwise convolution with features last; None if it is another one."""
    attributes = convolution.attributes
    numbers: ConvolutionDimensionNumbers = attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = attributes["window"]
    lhs, rhs = convolution.operands
    rank = len(windows)
    in_order = (0, *range(1, rank + 1), rank + 1)
    read = (numbers.input_batch, *numbers.input_spatial, numbers.input_feature)
    written = (numbers.output_batch, *numbers.output_spatial, numbers.output_feature)
    groups = attributes["feature_group_count"]
    if (
        rank not in (1, 2)
        or groups == 1
        or attributes["batch_group_count"] != 1
        or rhs.dims[numbers.kernel_input_feature] != 1
        or read != in_order
        or written != in_order
        or 0 in (*lhs.dims, *rhs.dims, *convolution.dims)
        or any(w.base_dilation > 1 for w in windows)
        or math.prod(w.size for w in windows) > _MOST_WINDOW
    ):
        return None
    axes = [
        Axis(
            inputs=lhs.dims[d],
            results=convolution.dims[d],
            window=w.size,
            stride=w.stride,
            dilation=w.window_dilation,
            low=w.padding_low,
            reversal=w.reversal,
        )
        for d, w in enumerate(windows, 1)
    ]
    rows, columns = [Axis(1, 1, 1, 1, 1, 0, False), *axes][-2:]
    return rows, columns


def _tile(axes: tuple[Axis, Axis], registers: int) -> tuple[int, int]:
    """The rows and columns of a tile: those that load and multiply the fewest vectors, of tiles that leave registers
    for a row of the input.
    """
    rows, columns = axes
    best, found = math.inf, (1, 1)
    for tall in range(1, min(4, rows.results) + 1):
        for wide in range(1, min(14, columns.results) + 1):
            if tall * wide + min(columns.reach(wide), 9) + 1 > registers and tall * wide > 1:
                continue
            tiles = -(-rows.results // tall) * -(-columns.results // wide)
            products = tall * wide * rows.window * columns.window
            loads = rows.reach(tall) * columns.reach(wide)
            # Four cycles until a sum can be added to, two products a cycle.
            cycles = max(products / 2, loads / 2, rows.window * columns.window * 4.0) + loads / 4
            if tiles * cycles < best:
                best, found = tiles * cycles, (tall, wide)
    return found
