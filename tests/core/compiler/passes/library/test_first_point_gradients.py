"""Gradients of the weights of windows of one element, features first: which are products, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.context import Context
from tripont.core.compiler.passes.library.first_point_gradients import match_first_point_gradient
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, priced
from tests.core.compiler.codegen.kernels.test_convolution import convolution, reference
from tests.core.compiler.passes.library.test_point_gradients import kinds
from tests.core.compiler.test_native import NativeSimulation

FIRST = "CNHW,IOHW,NCHW"  # of a gradient of weights, features first: the batch is the contracted features
SIZES = {"N": 72, "C": 3, "O": 96, "H": 35, "W": 35}  # images and gradients of 205,800 elements
GIVEN: dict[str, Any] = {"sizes": SIZES, "window": [W(35), W(35)], "layout": FIRST}
STRIDED: dict[str, Any] = {
    "sizes": {**SIZES, "H": 70, "W": 70},
    "window": [W(35, 1, 0, -1, window_dilation=2), W(35, 1, 0, -1, window_dilation=2)],
    "layout": FIRST,
}


@pytest.mark.parametrize(
    ("is_product", "options"),
    [
        (True, {}),
        (True, {"sizes": {**SIZES, "C": 1}}),
        (True, {"layout": "CNHW,IOHW,CNHW"}),
        (True, STRIDED),
        (False, {"sizes": {**SIZES, "N": 47}}),
        (False, {"sizes": {**SIZES, "H": 34}, "window": [W(34), W(35)]}),  # small images
        (False, {"layout": "CHWN,IHWO,HWNC"}),
        (False, {"window": [W(35, 1, 1, 1), W(35)]}),
        (False, {"dtype": dtypes.BF16, "result": dtypes.BF16}),
        (False, {"dtype": dtypes.F64, "result": dtypes.F64}),
        (False, {"sizes": {**SIZES, "N": 144, "O": 96}, "batch_groups": 2}),
    ],
    ids=str,
)
def test_which_are_products_on_a_zen_3(is_product: bool, options: dict[str, Any]) -> None:
    made = convolution(**{**GIVEN, **options})
    found = match_first_point_gradient(made, Context(for_cpu("znver3"), {}, {}))
    assert (found is not None) is is_product
    for other in ("znver4", "znver5", "emeraldrapids", "x86-64-v3"):
        assert match_first_point_gradient(made, Context(for_cpu(other), {}, {})) is None


@pytest.mark.parametrize("layout", [FIRST, "CNHW,IOHW,CNHW"])
@pytest.mark.parametrize("features", [(72, 96), (96, 72)], ids=str)
@pytest.mark.parametrize("given", [GIVEN, STRIDED], ids=["plain", "strided"])
@pytest.mark.parametrize("images", [1, 3])
def test_numbers(
    images: int, given: dict[str, Any], features: tuple[int, int], layout: str
) -> None:
    """On whatever CPU this is, with either side the rows."""
    sizes = {**given["sizes"], "N": features[0], "O": features[1], "C": images}
    made = convolution(**{**given, "sizes": sizes, "layout": layout})
    changed = {"first_point_gradients": 48, "first_gradient_image": 200_000}
    after = pipeline.run(
        module(made.operands, made), priced("host", True, convolutions=changed), Dump()
    )
    assert "packed-dot" in kinds(after)
    assert "window-product" not in kinds(after)
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, o.dims).astype(np.float32) for o in made.operands]
    (got,) = NativeSimulation(after, "host").run(values)
    np.testing.assert_array_equal(got, reference(made, *values))
