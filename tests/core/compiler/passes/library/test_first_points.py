"""Windows of one element, features first: which are products of the kernel by each image, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.context import Context
from tripont.core.compiler.passes.library.first_points import match_first_points
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, priced
from tests.core.compiler.codegen.kernels.test_convolution import (
    LAYOUTS,
    convolution,
    reference,
)
from tests.core.compiler.passes.library.test_window_rows import kernels_of
from tests.core.compiler.test_native import NativeSimulation

FIRST = LAYOUTS[1]
POINT = [W(1), W(1)]
SIZES = {"N": 3, "C": 67, "O": 72, "H": 9, "W": 29}
EMERALD = "emeraldrapids"


def match(made: hlo.Instruction, cpu: str) -> hlo.Instruction | None:
    return match_first_points(made, Context(for_cpu(cpu), {}, {}))


@pytest.mark.parametrize(
    ("is_product", "options"),
    [
        (True, {"sizes": {**SIZES, "H": 9, "W": 16}}),
        (False, {"sizes": {**SIZES, "H": 9, "W": 15}}),  # copies of the kernel for each image
        (True, {"sizes": {**SIZES, "N": 1}}),
        (False, {"sizes": {**SIZES, "N": 1, "C": 8, "O": 8}}),  # too small for packing
        (False, {"sizes": {**SIZES, "N": 1}, "layout": LAYOUTS[0]}),
        (False, {"sizes": {**SIZES, "N": 1}, "window": [W(1, 2), W(1)]}),
        (False, {"sizes": {**SIZES, "N": 1}, "window": [W(1, 1, 1, 0), W(1)]}),
        (False, {"sizes": {**SIZES, "N": 1}, "window": [W(1), W(1, base_dilation=2)]}),
        (False, {"sizes": {**SIZES, "N": 1}, "window": [W(1), W(3, 1, 1, 1)]}),
        (False, {"sizes": {**SIZES, "N": 1, "C": 64}, "feature_groups": 2}),
        (False, {"sizes": {**SIZES, "N": 1}, "dtype": dtypes.BF16, "result": dtypes.F32}),
        (False, {"sizes": {**SIZES, "N": 1}, "dtype": dtypes.F64, "result": dtypes.F64}),
    ],
    ids=str,
)
def test_which_are_products(is_product: bool, options: dict[str, Any]) -> None:
    made = convolution(**{"window": POINT, "layout": FIRST, **options})
    assert (match(made, EMERALD) is not None) is is_product
    assert (match(made, "znver4") is not None) is is_product
    for other in ("znver5", "cascadelake", "x86-64-v3", f"{EMERALD}+amx-bf16"):
        assert match(made, other) is None


@pytest.mark.parametrize(
    ("is_product", "images", "layout", "width"),
    [
        # Each of several images has 128 positions, and half as many elements with its result as the kernel.
        (True, 3, FIRST, 128),
        (False, 3, FIRST, 127),
        # The elements of one image and of the result beside 0.9 times those of the kernel, 42,000.
        (True, 1, FIRST, 40),
        (True, 1, "NCHW,IOHW,NCHW", 93),
        (False, 1, "NCHW,IOHW,NCHW", 92),
    ],
)
def test_which_are_products_on_a_zen_3(
    is_product: bool, images: int, layout: str, width: int
) -> None:
    sizes = {"N": images, "C": 200, "O": 210, "H": 1, "W": width}
    made = convolution(sizes, POINT, layout)
    assert (match(made, "znver3") is not None) is is_product
    large = convolution({**sizes, "C": 600, "O": 700, "N": 3, "W": 128}, POINT, layout)
    assert match(large, "znver3") is None


@pytest.mark.parametrize(
    ("is_product", "layout", "width"),
    [(True, "NCHW,IOHW,NCHW", 103), (False, "NCHW,IOHW,NCHW", 102), (True, FIRST, 102)],
)
def test_kernels_that_are_transposed(is_product: bool, layout: str, width: int) -> None:
    """One image that has fewer elements with its result than the kernel, as inputs' gradients have it: on a Zen 4 the
    image and the result are transposed.
    """
    sizes = {"N": 1, "C": 200, "O": 210, "H": 1, "W": width}  # a kernel of 42,000 elements
    made = convolution(sizes, POINT, layout)
    assert (match(made, "znver4") is not None) is is_product
    assert match(made, EMERALD) is not None


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16, dtypes.F16], ids=str)
def test_numbers(dtype: dtypes.DType, images: int, cpu: str) -> None:
    made = convolution({**SIZES, "N": images}, POINT, FIRST, dtype=dtype, result=dtype)
    target = priced(cpu, True, convolutions={"first_points": 1.0})
    after = pipeline.run(module(made.operands, made), target, Dump())
    assert not kernels_of(after) & {"window-product", "convolution"}
    inner = [c for i in after.entry.instructions for c in i.called]
    (product,) = [
        i for c in (after.entry, *inner) for i in c.instructions if i.opcode == "packed-dot"
    ]
    if images > 1:  # which all read the kernel where it lies
        assert product.attributes["config"]["lhs_strides"][0] == 0
        assert product.operands[0].elements == SIZES["O"] * SIZES["C"]
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, o.dims).astype(dtype.numpy) for o in made.operands]
    (got,) = NativeSimulation(after, cpu).run(values)
    np.testing.assert_array_equal(got, reference(made, *values).astype(got.dtype))


def test_infinities_stay_where_they_are() -> None:
    """One of an image is in the results of its position, of all features, and in no other's."""
    made = convolution(SIZES, POINT, FIRST)
    target = priced("host", True, convolutions={"first_points": 1.0})
    after = pipeline.run(module(made.operands, made), target, Dump())
    x, kernel = (np.ones(o.dims, np.float32) for o in made.operands)
    x[1, 5, 3, 7], x[2, 66, 8, 28] = np.inf, np.nan
    (got,) = NativeSimulation(after, "host").run([x, kernel])
    wanted = np.full(got.shape, 67.0, np.float32)
    wanted[1, :, 3, 7], wanted[2, :, 8, 28] = np.inf, np.nan
    np.testing.assert_array_equal(got, wanted)
