"""Convolutions as generated code against the NumPy evaluator and, for one of each kind, JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import ConvolutionDimensionNumbers, WindowDimension
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.harness import Kernel, op

Array = np.ndarray[Any, Any]
LAYOUTS = ["NHWC,HWIO,NHWC", "NCHW,OIHW,NCHW", "NHWC,OHWI,NCHW", "CHWN,IHWO,HWNC"]


def numbers(layout: str) -> ConvolutionDimensionNumbers:
    lhs, rhs, out = layout.split(",")
    spatial = [c for c in out if c not in "NC"]
    return ConvolutionDimensionNumbers(
        lhs.index("N"), lhs.index("C"), tuple(lhs.index(c) for c in spatial), rhs.index("I"), rhs.index("O"),
        tuple(rhs.index(c) for c in spatial), out.index("N"), out.index("C"), tuple(out.index(c) for c in spatial),
    )  # fmt: skip


def convolution(
    sizes: dict[str, int],
    window: Sequence[WindowDimension],
    layout: str = LAYOUTS[0],
    feature_groups: int = 1,
    batch_groups: int = 1,
    dtype: DType = dtypes.F32,
    result: DType | None = None,
) -> hlo.Instruction:
    """``sizes``: N, C, O and the spatial ones by letter; I follows."""
    lhs, rhs, out = layout.split(",")
    spatial = [c for c in out if c not in "NC"]
    kernel = {"I": sizes["C"] // feature_groups, "O": sizes["O"]}
    outputs = {"N": sizes["N"] // batch_groups, "C": sizes["O"]}
    for letter, w in zip(spatial, window, strict=True):
        kernel[letter] = w.size
        padded = (sizes[letter] - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high
        outputs[letter] = max(0, (padded - (w.size - 1) * w.window_dilation - 1) // w.stride + 1)
    shapes = [
        hlo.Shape(dtype, tuple(sizes[c] for c in lhs)),
        hlo.Shape(dtype, tuple(kernel[c] for c in rhs)),
    ]
    operands = [hlo.parameter(n, s) for n, s in enumerate(shapes)]
    return op(
        "convolution", hlo.Shape(result or dtype, tuple(outputs[c] for c in out)), *operands, window=tuple(window),
        dimension_numbers=numbers(layout), feature_group_count=feature_groups, batch_group_count=batch_groups,
        precision=("DEFAULT", "DEFAULT"),
    )  # fmt: skip


def run(i: hlo.Instruction, cpu: str = "host") -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(0)
    arrays = []
    for o in i.operands:
        low = 0 if o.dtype.kind == "uint" else -3
        values: Array = generator.integers(low, 4, o.dims)
        if o.dtype.is_complex:
            values = values + 1j * generator.integers(-3, 4, o.dims)
        arrays.append(values.astype(o.dtype.numpy))
    kernel = Kernel(i, for_cpu(cpu))
    (got,) = kernel.run(arrays, [kernel.emitted.work_count // 2])
    return got, arrays[0], arrays[1]


def reference(i: hlo.Instruction, x: Array, k: Array) -> Array:
    """By the definition: for each group and element of the window, a product of matrices."""
    n, window = i.attributes["dimension_numbers"], i.attributes["window"]
    # Doubles hold sums of products of 16 bits each, and NumPy multiplies matrices of them in a tenth of the time.
    exact = i.dtype.is_float or max(a.dtype.itemsize for a in (x, k)) <= 2
    wide: Any = np.complex128 if i.dtype.is_complex else np.float64 if exact else np.int64
    x = np.transpose(x, [n.input_batch, n.input_feature, *n.input_spatial]).astype(wide)
    k = np.transpose(
        k, [n.kernel_output_feature, n.kernel_input_feature, *n.kernel_spatial]
    ).astype(wide)
    feature_groups, batch_groups = (
        i.attributes["feature_group_count"],
        i.attributes["batch_group_count"],
    )
    groups = max(feature_groups, batch_groups)
    out = np.zeros([i.dims[d] for d in (n.output_batch, n.output_feature, *n.output_spatial)], wide)
    per_group = out.shape[1] // groups
    for p in np.ndindex(*[w.size for w in window]):
        # Where the element of the window lies on one of the input, and on which, in each dimension.
        reached, places = [], []
        for j, w, count, size in zip(p, window, out.shape[2:], x.shape[2:], strict=True):
            place = np.arange(count) * w.stride + j * w.window_dilation - w.padding_low
            fits = (place >= 0) & (place % w.base_dilation == 0) & (place < size * w.base_dilation)
            reached.append(np.flatnonzero(fits))
            places.append(place[fits] // w.base_dilation)
        tap = tuple(w.size - 1 - j if w.reversal else j for j, w in zip(p, window, strict=True))
        weights = k[(..., *tap)]
        source = x[np.ix_(*map(np.arange, x.shape[:2]), *places)]
        for g in range(groups):
            outputs = np.arange(g * per_group, (g + 1) * per_group)
            inputs = source
            if feature_groups > 1:
                inputs = source[:, g * k.shape[1] : (g + 1) * k.shape[1]]
            if batch_groups > 1:
                inputs = source[g * out.shape[0] : (g + 1) * out.shape[0]]
            sums = np.tensordot(inputs, weights[outputs], ((1,), (1,)))
            out[np.ix_(np.arange(out.shape[0]), outputs, *reached)] += np.moveaxis(sums, -1, 1)
    if exact and not i.dtype.is_float:
        out = out.astype(np.int64)
    order = np.argsort([n.output_batch, n.output_feature, *n.output_spatial])
    return np.transpose(out, order).astype(i.dtype.numpy)


def check(i: hlo.Instruction, cpu: str = "host") -> None:
    got, x, k = run(i, cpu)
    np.testing.assert_array_equal(got, reference(i, x, k))


W = WindowDimension
SAME = [W(3, 1, 1, 1), W(3, 1, 1, 1)]
SIZES = {"N": 2, "C": 6, "O": 20, "H": 5, "W": 7}
CASES: dict[str, dict[str, Any]] = {
    "same": {"window": SAME},
    "strides": {"window": [W(3, 2, 1, 1), W(2, 3)]},
    "window dilation": {
        "window": [W(2, 1, 1, 1, window_dilation=2), W(3, 1, 2, 2, window_dilation=2)]
    },
    "base dilation": {"window": [W(3, 1, 2, 2, base_dilation=2), W(2, 1, 1, 1, base_dilation=3)]},
    "reversal": {"window": [W(3, 1, 1, 1, reversal=True), W(2, 1, reversal=True)]},
    "one feature a group": {"window": SAME, "feature_groups": 6, "sizes": {**SIZES, "O": 6}},
    "several outputs a group": {"window": SAME, "feature_groups": 6, "sizes": {**SIZES, "O": 36}},
    "groups": {"window": SAME, "feature_groups": 2},
    "batch groups": {"window": SAME, "batch_groups": 2},
    "large window": {"window": [W(5, 1, 2, 2), W(7, 1, 3, 3)]},
    "negative padding": {"window": [W(2, 1, -1, -1), W(2, 1, -2, 1)]},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", list(CASES))
def test_all_options(name: str, layout: str) -> None:
    options = {"sizes": SIZES, **CASES[name]}
    check(convolution(layout=layout, **options))
    if layout in LAYOUTS[:2]:
        check(convolution(layout=layout, **options), "x86-64-v2")


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (d, d)
        for d in (
            dtypes.S32,
            dtypes.F64,
            dtypes.C64,
            dtypes.C128,
            dtypes.BF16,
            dtypes.F16,
            dtypes.U16,
            dtypes.S64,
        )
    ]
    + [(dtypes.S8, dtypes.S32), (dtypes.BF16, dtypes.F32)],
    ids=str,
)
def test_dtypes(dtype: DType, result: DType) -> None:
    sizes = {"N": 1, "C": 3, "O": 9, "H": 4, "W": 5}
    for layout in LAYOUTS[:2]:
        check(convolution(sizes, SAME, layout, dtype=dtype, result=result))


def test_numbers_of_spatial_dimensions() -> None:
    check(convolution({"N": 3, "C": 5, "O": 8}, [], "NC,IO,NC"))
    check(convolution({"N": 3, "C": 5, "O": 8, "W": 9}, [W(3, 1, 1, 1)], "NWC,WIO,NWC"))
    sizes = {"N": 1, "C": 2, "O": 3, "A": 3, "B": 2, "D": 3, "E": 4}
    check(convolution(sizes, [W(2, 1, 1, 0)] * 4, "NABDEC,ABDEIO,NABDEC"))


def test_empty_operands() -> None:
    check(convolution({"N": 0, "C": 2, "O": 3, "H": 4, "W": 4}, SAME))
    check(convolution({"N": 2, "C": 0, "O": 3, "H": 4, "W": 4}, SAME))
    check(convolution({"N": 2, "C": 2, "O": 3, "H": 2, "W": 2}, [W(5), W(5)]))


def test_against_jax() -> None:
    i = convolution(
        SIZES, [W(3, 2, 1, 1), W(2, 1, 1, 0, window_dilation=2)], LAYOUTS[1], feature_groups=2
    )
    got, x, k = run(i)
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.lax.conv_general_dilated(
            jax.numpy.asarray(x),
            jax.numpy.asarray(k),
            (2, 1),
            [(1, 1), (1, 0)],
            rhs_dilation=(1, 2),
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
            feature_group_count=2,
        )
    np.testing.assert_array_equal(got, np.asarray(expected))


def test_infinite_weights_do_not_meet_the_padding() -> None:
    for layout in LAYOUTS[:2]:
        i = convolution(SIZES, SAME, layout)
        x, k = (np.ones(o.dims, np.float32) for o in i.operands)
        (got,) = Kernel(i).run([x, np.full_like(k, np.inf)])
        assert np.all(got == np.inf)
