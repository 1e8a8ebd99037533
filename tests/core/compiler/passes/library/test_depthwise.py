"""Depthwise convolutions with features first: which are computed with features last, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.depthwise import match_depthwise
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, priced
from tests.core.compiler.codegen.kernels.test_convolution import LAYOUTS, convolution, reference
from tests.core.compiler.passes.library.test_point_gradients import kinds
from tests.core.compiler.test_native import NativeSimulation

FIRST = LAYOUTS[1]
SIZES = {"N": 2, "C": 24, "O": 24, "H": 11, "W": 13}
HALVED = [W(3, 2, 1, 1)] * 2


@pytest.mark.parametrize(
    ("turned", "options"),
    [
        (True, {}),
        (True, {"window": [W(3, 1, 1, 1), W(3, 2, 1, 1)]}),
        (True, {"dtype": dtypes.BF16, "result": dtypes.BF16}),
        (False, {"window": [W(3, 1, 1, 1)] * 2}),
        (False, {"window": [W(3, 2, 1, 1, base_dilation=2)] * 2}),
        (False, {"layout": LAYOUTS[2]}),
        (False, {"feature_groups": 12}),
    ],
    ids=str,
)
def test_which_are_turned(turned: bool, options: dict[str, Any]) -> None:
    given = {"sizes": SIZES, "window": HALVED, "layout": FIRST, "feature_groups": 24, **options}
    made = convolution(**given)
    for cpu in ("znver3", "znver5"):
        assert (match_depthwise(made, for_cpu(cpu)) is not None) is turned
    for other in ("znver4", "x86-64-v3"):
        assert match_depthwise(made, for_cpu(other)) is None


@pytest.mark.parametrize("outputs", [24, 48])
@pytest.mark.parametrize("window", [HALVED, [W(5, 1, 2, 2), W(2, 3, 0, 1)]], ids=str)
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16, dtypes.S8], ids=str)
def test_numbers(dtype: dtypes.DType, window: list[W], outputs: int) -> None:
    """On whatever CPU this is."""
    sizes = {**SIZES, "O": outputs}
    result = dtypes.S32 if dtype is dtypes.S8 else dtype
    made = convolution(sizes, window, FIRST, feature_groups=24, dtype=dtype, result=result)
    target = priced("host", True, convolutions={"turns_strided_depthwise": True})
    after = pipeline.run(module(made.operands, made), target, Dump())
    assert "depthwise-product" in kinds(after)
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, o.dims).astype(dtype.numpy) for o in made.operands]
    (got,) = NativeSimulation(after, "host").run(values)
    np.testing.assert_array_equal(got, reference(made, *values).astype(got.dtype))
