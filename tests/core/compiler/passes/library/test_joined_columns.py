"""Strided convolutions of bf16 reach oneDNN with the columns joined that oneDNN would join wrong with AMX."""

from __future__ import annotations

from typing import Any

import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.passes.library.convolution import make_call
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.kernels.test_convolution import LAYOUTS, convolution

BF16 = dtypes.BF16
SIZES = {"N": 2, "C": 48, "O": 40, "H": 9, "W": 24}


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({"window": [W(3), W(2, 2)]}, (96, 12, 1, 1)),
        ({"window": [W(3), W(4, 2)]}, (96, 12, 2, 1)),
        ({"window": [W(3), W(4, 4)], "sizes": {**SIZES, "C": 16}}, (64, 6, 1, 1)),
        ({"window": [W(3), W(6, 4)], "sizes": {**SIZES, "W": 26}}, (96, 13, 3, 2)),
        ({"window": [W(1), W(2, 2)], "sizes": {**SIZES, "N": 1, "H": 1, "W": 25}}, (96, 12, 1, 1)),
        ({"window": [W(3), W(2, 2, 0, 1)], "sizes": {**SIZES, "W": 24}}, (96, 12, 1, 1)),
        # Those that oneDNN does not join, or joins right.
        ({"window": [W(3), W(2, 2)], "sizes": {**SIZES, "W": 25}}, (48, 25, 2, 2)),
        ({"window": [W(3), W(2, 2)], "sizes": {**SIZES, "C": 64}}, (64, 24, 2, 2)),
        ({"window": [W(3), W(2, 2)], "sizes": {**SIZES, "C": 16}}, (16, 24, 2, 2)),
        ({"window": [W(3), W(2, 2)], "sizes": {**SIZES, "C": 40}}, (40, 24, 2, 2)),
        ({"window": [W(3), W(4, 2, 1, 1)]}, (48, 24, 4, 2)),
        ({"window": [W(3), W(2, 2, window_dilation=2)]}, (48, 24, 2, 2)),
        ({"window": [W(3), W(2, 2)], "dtype": dtypes.F32}, (48, 24, 2, 2)),
    ],
    ids=str,
)  # fmt: skip
def test_what_onednn_is_called_for(
    options: dict[str, Any], columns: tuple[int, int, int, int], layout: str
) -> None:
    """``columns``: features, columns, and the window's columns and stride."""
    dtype = options.get("dtype", BF16)
    made = convolution(
        **{"sizes": SIZES, "layout": layout, "dtype": dtype, "result": dtype, **options}
    )
    config = make_call(made, for_cpu("sapphirerapids").costs.library).attributes["config"]
    source, kernel = config["src_dimensions"], config["weights_dimensions"]
    assert config["kind"] == "forward"
    assert (source[1], source[3], kernel[3], config["strides"][1]) == columns
    assert kernel[1] == source[1]
