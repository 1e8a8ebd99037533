"""Convolutions by a Zen 4's costs: numbers of the forms that are chosen there, with the instructions of each level."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, priced
from tests.core.compiler.codegen.kernels.test_convolution import convolution, reference
from tests.core.compiler.test_native import NativeSimulation

LAST, FIRST = "NHWC,HWIO,NHWC", "NCHW,OIHW,NCHW"
POINT, SAME = [W(1)] * 2, [W(3, 1, 1, 1)] * 2
SMALL = {"N": 3, "C": 35, "O": 37, "H": 7, "W": 9}
MANY = {"N": 2, "C": 33, "O": 65, "H": 17, "W": 16}  # 544 positions
OF_WEIGHTS = {"N": 65, "C": 3, "O": 34, "H": 15, "W": 13}  # of 65 features to 34, of three images

CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        (f"1x1 of {sizes['N']} images, {layout}", {"sizes": sizes, "window": POINT, "layout": layout})
        for sizes in (SMALL, MANY, {**MANY, "N": 1}, {**SMALL, "N": 1, "H": 1}, {**SMALL, "C": 1})
        for layout in (LAST, FIRST)
    ),
    *(
        (f"1x1 input, {layout}", {"sizes": MANY, "window": POINT, "layout": layout})
        for layout in ("NHWC,HWOI,NHWC", "NCHW,IOHW,NCHW")
    ),
    *(
        (f"1x1 stride 2, {layout}", {"sizes": MANY, "window": [W(1, 2)] * 2, "layout": layout})
        for layout in (LAST, FIRST)
    ),
    *(
        (f"1x1 weights, {layout}", {"sizes": OF_WEIGHTS, "window": [W(15), W(13)], "layout": layout})
        for layout in ("CHWN,IHWO,HWNC", "CNHW,IOHW,NCHW")
    ),
    *(
        (
            f"1x1 stride 2 weights, {layout}",
            {
                "sizes": OF_WEIGHTS,
                "window": [W(8, window_dilation=2), W(7, window_dilation=2)],
                "layout": layout,
            },
        )
        for layout in ("CHWN,IHWO,HWNC", "CNHW,IOHW,NCHW")
    ),
    *(
        (f"3x3, {layout}", {"sizes": {**SMALL, "N": 2, "C": 40, "O": 96}, "window": SAME, "layout": layout})
        for layout in (LAST, FIRST)
    ),
    ("3x3 of 8, first", {"sizes": {**MANY, "C": 8, "O": 8}, "window": SAME, "layout": FIRST}),
    ("3x3 of 3, first", {"sizes": {**MANY, "C": 3}, "window": SAME, "layout": FIRST}),
    ("4x4 patches, first", {"sizes": {**MANY, "C": 3}, "window": [W(4, 4)] * 2, "layout": FIRST}),
    (
        "3x3 weights of 3",
        {"sizes": {**OF_WEIGHTS, "N": 3}, "window": [W(13), W(11)], "layout": "CHWN,IHWO,HWNC"},
    ),
    (
        "3x3 weights of 32, first",
        {
            "sizes": {"N": 32, "C": 2, "O": 33, "H": 10, "W": 18},
            "window": [W(8), W(16)],
            "layout": "CNHW,IOHW,NCHW",
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "host"])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16, dtypes.F16], ids=str)
@pytest.mark.parametrize("options", [o for _, o in CASES], ids=[name for name, _ in CASES])
def test_numbers(options: dict[str, Any], dtype: DType, cpu: str) -> None:
    made = convolution(**options, dtype=dtype, result=dtype)
    zen_4 = asdict(for_cpu("znver4").costs.convolutions)
    after = pipeline.run(
        module(made.operands, made), priced(cpu, False, convolutions=zen_4), Dump()
    )
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, o.dims).astype(dtype.numpy) for o in made.operands]
    (got,) = NativeSimulation(after, cpu).run(values)
    np.testing.assert_array_equal(got, reference(made, *values).astype(got.dtype))
