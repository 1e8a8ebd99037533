"""Gradients of bf16 weights in pairs, with vector instructions: which they are, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels.product_forms import BF16_PAIRS
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module
from tests.core.compiler.codegen.kernels.test_bf16_pairs import runs_here
from tests.core.compiler.codegen.kernels.test_convolution import convolution
from tests.core.compiler.codegen.kernels.test_matrix_window import GRADIENTS, IMAGES
from tests.core.compiler.codegen.kernels.test_window_product import check
from tests.core.compiler.test_native import NativeSimulation

BF16, F32 = dtypes.BF16, dtypes.F32
LAST = "CHWN,IHWO,HWNC"  # of a gradient of weights, features last
# As HLO has it: of 32 features to 40, of three images. The window of the gradient is the size of the result.
SIZES = {"N": 32, "C": 3, "O": 40, "H": 9, "W": 11}
PLAIN = [W(9, 1, 1, 1), W(11, 1, 1, 1)]


def forms(made: hlo.Instruction, cpu: str, onednn: bool = True) -> list[str]:
    """The names of the forms of the products that ``made`` becomes; calls of a library are "library"."""
    after = pipeline.run(module(made.operands, made), for_cpu(cpu, onednn), Dump())
    found = []
    for i in after.entry.instructions:
        if i.opcode == "library-call":
            found.append("library")
        elif i.opcode == "window-product":
            found.append(i.attributes["config"]["form"].name)
    return found


@pytest.mark.parametrize(
    ("in_pairs", "options"),
    [
        (True, {}),
        (True, {"sizes": {**SIZES, "O": 32}}),
        (False, {"sizes": {**SIZES, "O": 31}}),
        (False, {"sizes": {**SIZES, "N": 31}}),
        (False, {"layout": "CNHW,IOHW,NCHW"}),
        # Whose rows have an even number of pixels: with many zeros behind them, and with few.
        (False, {"window": [W(38, 1, 1, 1)] * 2, "sizes": {**SIZES, "H": 38, "W": 38}}),
        (True, {"window": [W(40, 1, 1, 1)] * 2, "sizes": {**SIZES, "H": 40, "W": 40}}),
        (True, {"window": [W(5, 1, 1, 1, window_dilation=2), W(6, 1, 1, 1, window_dilation=2)]}),
        (False, {"window": [W(9), W(11)]}),  # of a window of one element
        (True, {"window": [W(5, 1, window_dilation=2), W(6, 1, window_dilation=2)]}),  # and a stride
        (True, {"sizes": {**SIZES, "N": 64, "O": 64}, "batch_groups": 2}),
        (False, {"sizes": {**SIZES, "N": 64, "O": 64}, "batch_groups": 4}),
        (True, {"window": [W(50, 1, 2, 2)], "layout": "CWN,IWO,WNC", "sizes": {"N": 32, "C": 3, "O": 40, "W": 50}}),
        (False, {
            "window": [W(4, 1, 1, 1), W(5, 1, 1, 1), W(6, 1, 1, 1)],
            "layout": "CDHWN,IDHWO,DHWNC",
            "sizes": {"N": 32, "C": 2, "O": 40, "D": 4, "H": 5, "W": 6},
        }),
        (False, {"dtype": F32, "result": F32}),
    ],
    ids=str,
)  # fmt: skip
def test_which_are_computed_in_pairs(in_pairs: bool, options: dict[str, Any]) -> None:
    given = {"sizes": SIZES, "window": PLAIN, "layout": LAST, "dtype": BF16, "result": BF16}
    made = convolution(**{**given, **options})
    assert (BF16_PAIRS in forms(made, "znver4")) is in_pairs
    assert BF16_PAIRS not in forms(made, "cooperlake")


@pytest.mark.parametrize(
    ("in_pairs", "batch", "size"),
    [
        (True, 3, 9),  # oneDNN has no pairs for an odd number of pixels in a row
        (True, 2, 16),  # 512 positions
        (False, 3, 16),
        (False, 3, 60),
        (True, 3, 62),  # of which less than 0.032 are zeros
    ],
)
def test_which_are_on_a_zen_5(in_pairs: bool, batch: int, size: int) -> None:
    sizes = {"N": 32, "C": batch, "O": 40, "H": size, "W": size}
    window = [W(size, 1, 1, 1)] * 2
    made = convolution(sizes=sizes, window=window, layout=LAST, dtype=BF16, result=BF16)
    assert (BF16_PAIRS in forms(made, "znver5")) is in_pairs


FIRST_1D = "CNW,IOW,NCW"
ONE = {"N": 32, "C": 3, "O": 40}
STRIDED_3D = [W(n, 1, 1, 0, window_dilation=2) for n in (2, 3, 3)]
THREE = {"layout": "CDHWN,IDHWO,DHWNC", "sizes": {"N": 32, "C": 2, "O": 40, "D": 4, "H": 6, "W": 6}}
LONG = {"layout": FIRST_1D, "sizes": {**ONE, "W": 48}}
HALVES = {**LONG, "sizes": {"N": 64, "C": 3, "O": 64, "W": 48}, "batch_groups": 2}


@pytest.mark.parametrize(
    ("in_pairs", "options"),
    [
        # In one dimension with features first: of a stride of 2, of one of 4, in two groups.
        (True, {"window": [W(24, 1, 1, 0, window_dilation=2)], **LONG}),
        (False, {"window": [W(12, 1, 1, 0, window_dilation=4)], **LONG}),
        (True, {"window": [W(48, 1, 4, 4)], **HALVES}),
        (False, {"window": [W(24, 1, 1, 1)] * 2, "layout": "CNHW,IOHW,NCHW", "sizes": {**ONE, "H": 24, "W": 24}}),
        # In three dimensions with a stride, dilated, and plain.
        (True, {"window": STRIDED_3D, **THREE}),
        (True, {"window": [W(4, 2, 2, 2), W(6, 2, 2, 2), W(6, 2, 2, 2)], **THREE}),
        (False, {"window": [W(4, 1, 1, 1), W(6, 1, 1, 1), W(6, 1, 1, 1)], **THREE}),
        # Plain ones with many zeros, of many features and of fewer.
        (True, {"window": [W(14, 1, 1, 1)] * 2, "sizes": {"N": 512, "C": 4, "O": 512, "H": 14, "W": 14}}),
        (False, {"window": [W(14, 1, 1, 1)] * 2, "sizes": {"N": 512, "C": 4, "O": 511, "H": 14, "W": 14}}),
    ],
    ids=str,
)  # fmt: skip
def test_more_are_on_a_zen_5(in_pairs: bool, options: dict[str, Any]) -> None:
    made = convolution(**{"layout": LAST, "dtype": BF16, "result": BF16, **options})
    assert (BF16_PAIRS in forms(made, "znver5")) is in_pairs
    assert BF16_PAIRS not in forms(made, "znver4")


@runs_here
@pytest.mark.parametrize("options", GRADIENTS, ids=lambda o: str(o)[:60])
@pytest.mark.parametrize("result", [BF16, F32], ids=str)
@pytest.mark.parametrize("cpu", ["znver4", "znver5"])
def test_numbers(cpu: str, result: dtypes.DType, options: dict[str, Any]) -> None:
    """Whole pairs and none, in one piece and in several, tiles that the features fill and that they do not."""
    given = {"sizes": IMAGES, "layout": LAST, "dtype": BF16, "result": result}
    made = convolution(**{**given, **options})
    assert BF16_PAIRS in forms(made, cpu, onednn=False)
    check(made, cpu)


@runs_here
@pytest.mark.parametrize("spoilt", [np.inf, np.nan], ids=str)
def test_an_infinity_stays_in_its_sums(spoilt: float) -> None:
    """In those that have it, although all others of its feature meet it at a zero behind a row of the result."""
    made = convolution(sizes=SIZES, window=PLAIN, layout=LAST, dtype=BF16, result=BF16)
    after = pipeline.run(module(made.operands, made), for_cpu("znver4", False), Dump())
    random = np.random.default_rng(0)
    x, y = (random.choice([-1.0, 1.0], o.dims).astype(BF16.numpy) for o in made.operands)
    simulation = NativeSimulation(after, "znver4")
    (usual,) = simulation.run([x, y])
    x[1, 0, 4, 7] = (
        spoilt  # in the first row of an image: windows that begin in the second one do not have it
    )
    (got,) = simulation.run([x, y])
    reached = np.zeros(made.dims, bool)
    reached[:2, :, 7] = True
    assert not np.isfinite(got[reached].astype(np.float32)).any()
    np.testing.assert_array_equal(got[~reached], usual[~reached])
