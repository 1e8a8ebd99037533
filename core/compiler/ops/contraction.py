"""Products and convolutions.

``precision``: tuple of "DEFAULT" | "HIGH" | "HIGHEST"; the result's dtype is the accumulator's; ``algorithm`` (only if
the program asks for one): XLA's name without "dot_", such as "bf16_bf16_f32_x3".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..formats import hlo_records
from ..formats.hlo_proto import Field, json_text, window_field
from ..formats.wire_format import integer, integers, message, text
from ..importer import einsum, hlo_instructions, ops_contraction
from ..ir.cost import array_shapes, result_elements
from ..ir.dtypes import DType
from ..ir.hlo import (
    DotDimensionNumbers,
    Instruction,
    Shape,
    WindowDimension,
)
from ..ir.registry import ANY, PACKING, SUMMED, WORTH, Absent, Array, both, register
from ..ir.shape_rules import arrays_of, check_permutation, dot_dims, require, window_size
from ..passes.library.convolution import match_convolution
from ..passes.library.gemm import match_dot
from ..passes.library.streamed import match_streamed
from ..reference.evaluate import pad_array
from .kernels import kernel


def _dot_shape(instruction: Instruction) -> Shape:
    lhs, rhs = arrays_of(instruction)
    dims = dot_dims(lhs.dims, rhs.dims, instruction.attributes["dimension_numbers"])
    return Shape(instruction.dtype, dims)


def _convolution_shape(instruction: Instruction) -> Shape:
    lhs, rhs = arrays_of(instruction)
    attributes = instruction.attributes
    numbers, window = attributes["dimension_numbers"], attributes["window"]
    groups, batch_groups = attributes["feature_group_count"], attributes["batch_group_count"]
    rank = len(window) + 2
    require(lhs.rank == rank and rhs.rank == rank, f"operands do not have rank {rank}")
    check_permutation(
        (numbers.input_batch, numbers.input_feature, *numbers.input_spatial),
        rank,
        "input dimensions",
    )
    kernel = (numbers.kernel_input_feature, numbers.kernel_output_feature, *numbers.kernel_spatial)
    check_permutation(kernel, rank, "kernel dimensions")
    output = (numbers.output_batch, numbers.output_feature, *numbers.output_spatial)
    check_permutation(output, rank, "output dimensions")
    features, out_features = (
        lhs.dims[numbers.input_feature],
        rhs.dims[numbers.kernel_output_feature],
    )
    require(groups > 0 and batch_groups > 0, "group counts must be positive")
    require(
        features == rhs.dims[numbers.kernel_input_feature] * groups,
        "input features do not match the kernel's",
    )
    divides = out_features % groups == 0 and out_features % batch_groups == 0
    require(divides, "output features do not divide into groups")
    require(
        lhs.dims[numbers.input_batch] % batch_groups == 0, "the batch does not divide into groups"
    )
    dims = [0] * rank
    dims[numbers.output_batch] = lhs.dims[numbers.input_batch] // batch_groups
    dims[numbers.output_feature] = out_features
    for i, w in enumerate(window):
        require(
            rhs.dims[numbers.kernel_spatial[i]] == w.size, "the window's size is not the kernel's"
        )
        dims[numbers.output_spatial[i]] = window_size(lhs.dims[numbers.input_spatial[i]], w)
    return Shape(instruction.dtype, tuple(dims))


def accumulator(dtype: DType) -> Any:
    """The NumPy type that sums of products are taken in, for results of ``dtype``."""
    if dtype.is_complex:
        return np.complex128
    return np.float64 if dtype.is_float else np.int64


def product(numbers: DotDimensionNumbers, lhs: Array, rhs: Array) -> Array:
    """What ``dot`` is, of arrays whose sums need no wider type."""
    letters = iter(range(52))
    left, right = [-1] * lhs.ndim, [-1] * rhs.ndim
    batch = []
    for a, b in zip(numbers.lhs_batch, numbers.rhs_batch, strict=True):
        left[a] = right[b] = next(letters)
        batch.append(left[a])
    for a, b in zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True):
        left[a] = right[b] = next(letters)
    free = []
    for labels in (left, right):
        for n, label in enumerate(labels):
            if label < 0:
                labels[n] = next(letters)
                free.append(labels[n])
    return np.asarray(np.einsum(lhs, left, rhs, right, [*batch, *free]))


def _dot_value(i: Instruction, lhs: Array, rhs: Array) -> list[Array]:
    wide = accumulator(i.dtype)
    result = product(i.attributes["dimension_numbers"], lhs.astype(wide), rhs.astype(wide))
    return [result.astype(i.dtype.numpy)]


def _convolution_value(i: Instruction, lhs: Array, rhs: Array) -> list[Array]:
    d = i.attributes["dimension_numbers"]
    window: Sequence[WindowDimension] = i.attributes["window"]
    groups, batch_groups = i.attributes["feature_group_count"], i.attributes["batch_group_count"]
    wide = accumulator(i.dtype)
    x = np.transpose(lhs, [d.input_batch, d.input_feature, *d.input_spatial]).astype(wide)
    k = np.transpose(
        rhs, [d.kernel_output_feature, d.kernel_input_feature, *d.kernel_spatial]
    ).astype(wide)
    for n, w in enumerate(window):
        if w.reversal:
            k = np.flip(k, n + 2)
    out_spatial = [i.dims[n] for n in d.output_spatial]
    batch = x.shape[0] // batch_groups
    outputs = k.shape[0]
    result = np.zeros([batch, outputs, *out_spatial], wide)
    padded = pad_array(
        x,
        np.zeros((), wide),
        [0, 0, *[w.padding_low for w in window]],
        [0, 0, *[w.padding_high for w in window]],
        [0, 0, *[w.base_dilation - 1 for w in window]],
    )
    parts = max(groups, batch_groups)
    for group in range(parts):
        some_outputs = slice(group * outputs // parts, (group + 1) * outputs // parts)
        if batch_groups > 1:
            source = padded[group * batch : (group + 1) * batch]
        else:
            width = x.shape[1] // groups
            source = padded[:, group * width : (group + 1) * width]
        for offset in itertools.product(*[range(w.size) for w in window]):
            place: tuple[Any, ...] = tuple(
                slice(
                    o * w.window_dilation, o * w.window_dilation + (n - 1) * w.stride + 1, w.stride
                )
                for o, w, n in zip(offset, window, out_spatial, strict=True)
            )
            if 0 in out_spatial:
                continue
            at: Any = (some_outputs, slice(None), *offset)
            weights = k[at]
            result[:, some_outputs] += np.einsum("bi...,oi->bo...", source[(..., *place)], weights)
    order = [0] * len(i.dims)
    order[d.output_batch], order[d.output_feature] = 0, 1
    for n, dimension in enumerate(d.output_spatial):
        order[dimension] = n + 2
    return [np.transpose(result, order).astype(i.dtype.numpy)]


def precision_fields(i: Instruction) -> bytes:
    """The field of attributes ``precision`` and, where there is one, ``algorithm``."""
    values = [hlo_records.number(hlo_records.PRECISIONS, p) for p in i.attributes["precision"]]
    algorithm = hlo_records.ALGORITHMS.get(i.attributes.get("algorithm", ""), 0)
    return message(Field.PRECISION_CONFIG, integers(1, values) + integer(2, algorithm))


def _dot_fields(i: Instruction) -> bytes:
    body = hlo_records.DOT.write(i.attributes["dimension_numbers"])
    return message(Field.DOT_DIMENSION_NUMBERS, body) + precision_fields(i)


def _convolution_fields(i: Instruction) -> bytes:
    body = hlo_records.CONVOLUTION.write(i.attributes["dimension_numbers"])
    return (
        window_field(i)
        + message(Field.CONVOLUTION_DIMENSION_NUMBERS, body)
        + integer(Field.FEATURE_GROUP_COUNT, i.attributes["feature_group_count"])
        + integer(Field.BATCH_GROUP_COUNT, i.attributes["batch_group_count"])
        + precision_fields(i)
    )


def _packed_fields(i: Instruction) -> bytes:
    """A generated product, or the packing before it: as a call, with its configuration for readers."""
    return (
        text(Field.CUSTOM_CALL_TARGET, f"tripont${i.opcode}")
        + message(Field.BACKEND_CONFIG, json_text(i.attributes["config"]))
        + integer(Field.CUSTOM_CALL_API_VERSION, 1)
    )


def _dot_library(dot: Instruction, context: Any) -> Instruction | None:
    return match_streamed(dot, context) or match_dot(dot, context)


def _dot_flops(i: Instruction) -> float:
    lhs = i.operands[0]
    contracted = math.prod(lhs.dims[d] for d in i.attributes["dimension_numbers"].lhs_contracting)
    return 2.0 * i.elements * float(contracted)


def _convolution_flops(i: Instruction) -> float:
    numbers, kernel = i.attributes["dimension_numbers"], i.operands[1]
    outputs = kernel.dims[numbers.kernel_output_feature]
    return float(2.0 * i.elements * kernel.elements / max(1, outputs))


def _packed_dot_flops(i: Instruction) -> float:
    result = array_shapes([i])[0]
    each = 8.0 if result.dtype.is_complex else 2.0
    return each * result_elements(i) * float(i.attributes["config"]["k"])


def _window_product_flops(i: Instruction) -> float:
    config = i.attributes["config"]
    terms = math.prod(size for size, _, _ in config["sums"]) * config["form"].group
    return 2.0 * result_elements(i) * float(terms)


def _depthwise_flops(i: Instruction) -> float:
    window = math.prod(axis[2] for axis in i.attributes["config"]["axes"])
    return 2.0 * result_elements(i) * float(window)


def _fft_flops(i: Instruction) -> float:
    """5 n log2 n for n complex numbers, as FFTW counts; half of that for real ones."""
    config = i.attributes["config"]
    each = 2.5 * config["n"] * math.log2(config["n"])
    return float(math.prod(config["sizes"]) * each * (2 if config["form"] == "complex" else 1))


register(
    "dot",
    operands=2,
    attributes=("dimension_numbers", "precision"),
    shape=_dot_shape,
    evaluate=_dot_value,
    library=_dot_library,
    kernel=kernel("contraction"),
    from_hlo=hlo_instructions.dot,
    read=both(
        dot=ops_contraction.read_dot,
        dot_general=ops_contraction.read_dot_general,
        einsum=einsum.read_einsum,
        unary_einsum=einsum.read_unary_einsum,
    ),
    fields=_dot_fields,
    text={"algorithm": lambda name, value: f"algorithm=dot_{value}"},
    flops=_dot_flops,
    reads_memory=True,
    error=SUMMED,
    hoisting=WORTH,
)
register(  # window: spatial dimensions, in the order of dimension_numbers.*_spatial
    "convolution",
    operands=2,
    attributes=(
        *("window", "dimension_numbers", "feature_group_count", "batch_group_count", "precision"),
    ),
    shape=_convolution_shape,
    evaluate=_convolution_value,
    library=match_convolution,
    kernel=kernel("convolution"),
    from_hlo=hlo_instructions.convolution,
    read=both(
        convolution=ops_contraction.read_convolution, dynamic_conv=ops_contraction.read_dynamic_conv
    ),
    fields=_convolution_fields,
    flops=_convolution_flops,
    reads_memory=True,
    error=SUMMED,
    hoisting=WORTH,
)

# Made by passes: a generated matrix product and the packing of its right-hand side before it, generated convolutions,
# and Fourier transforms. config: see pack.py, packed_dot.py, window_product.py, depthwise.py and fft.py of
# codegen/kernels.
_OF_CONFIG: Final = Absent("the pass that makes it says it")


def _register_generated(name: str, operands: int, **parts: Any) -> None:
    register(
        name,
        operands=operands,
        attributes=("config",),
        shape=_OF_CONFIG,
        evaluate=Absent("made by a pass behind all that evaluate"),
        read=Absent("made by a pass"),
        fields=_packed_fields,
        hlo_name="custom-call",
        **parts,
    )


_register_generated("pack", 1, kernel=kernel("pack"), hoisting=PACKING)
_register_generated("packed-dot", ANY, kernel=kernel("packed_dot"), flops=_packed_dot_flops)
_register_generated(
    "window-product", ANY, kernel=kernel("window_product"), flops=_window_product_flops
)
_register_generated("depthwise-product", 2, kernel=kernel("depthwise"), flops=_depthwise_flops)
_register_generated("fft-pass", 2, kernel=kernel("fft"), flops=_fft_flops, reads_memory=True)
