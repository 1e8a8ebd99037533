"""Which convolutions are generated although there is oneDNN, by type, shape and instructions."""

from __future__ import annotations

from typing import Any

import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.passes.library.convolution_costs import prefers_generated
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.kernels.test_convolution import LAYOUTS, SAME, convolution

LARGE = {"N": 2, "C": 64, "O": 64, "H": 20, "W": 20}
CPUS = ("x86-64-v3", "x86-64-v4")


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("generated", "options"),
    [
        (False, {}),
        (False, {"layout": LAYOUTS[1]}),
        (True, {"sizes": {**LARGE, "C": 512}}),  # more terms than oneDNN adds up well
        (True, {"sizes": {**LARGE, "O": 3}}),
        (True, {"sizes": {**LARGE, "C": 1}}),
        (False, {"feature_groups": 64}),
        (True, {"feature_groups": 64, "layout": LAYOUTS[1]}),
        (False, {"feature_groups": 4}),
        (False, {"window": [W(4, 1, 2, 2, base_dilation=2)] * 2}),
        (True, {"window": [W(40, 1, 1, 1, base_dilation=2)] * 2}),
    ],
    ids=str,
)
def test_f32(generated: bool, options: dict[str, Any], cpu: str) -> None:
    made = convolution(**{"sizes": LARGE, "window": SAME, **options})
    assert prefers_generated(made, for_cpu(cpu)) is generated
    assert prefers_generated(made, for_cpu(cpu, onednn=False))


@pytest.mark.parametrize(
    ("dtype", "result", "cpu", "generated"),
    [
        (dtypes.S8, dtypes.S32, "x86-64-v2", True),
        (dtypes.F64, dtypes.F64, "x86-64-v3", True),
        (dtypes.BF16, dtypes.BF16, "x86-64-v3", False),  # oneDNN in f32
        (dtypes.BF16, dtypes.BF16, "x86-64-v4", True),
        (dtypes.BF16, dtypes.F32, "cooperlake", True),
        (dtypes.BF16, dtypes.BF16, "sapphirerapids+amx-bf16", False),
        (dtypes.BF16, dtypes.BF16, "znver4", False),
        (dtypes.F16, dtypes.F16, "x86-64-v4", False),
    ],
    ids=str,
)
def test_types(dtype: DType, result: DType, cpu: str, generated: bool) -> None:
    made = convolution(LARGE, SAME, dtype=dtype, result=result)
    assert prefers_generated(made, for_cpu(cpu)) is generated
