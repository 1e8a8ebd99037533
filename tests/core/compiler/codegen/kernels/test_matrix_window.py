"""Convolutions of bytes and of bf16 with AMX, on a CPU that emulates it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tripont.core.compiler.codegen.kernels import matrix_window
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import WindowDimension as W

from tests.core.compiler.codegen.emulated_matrices import Registers
from tests.core.compiler.codegen.kernels.test_convolution import LAYOUTS, SAME, convolution
from tests.core.compiler.codegen.kernels.test_matrix_dot import cpu, registers
from tests.core.compiler.codegen.kernels.test_window_product import check

__all__ = ["cpu", "registers"]

S8, U8, S32 = dtypes.S8, dtypes.U8, dtypes.S32
BF16, F32 = dtypes.BF16, dtypes.F32
SIZES = {"N": 2, "C": 64, "O": 40, "H": 9, "W": 21}
# Whole steps of input features and padded ones, one register of output features and several, tiles of one register's
# rows and of two, groups, strides and dilations, a kernel of one element, sums of several pieces.
OPTIONS: list[dict[str, Any]] = [
    {"window": SAME},
    {"window": SAME, "sizes": {**SIZES, "C": 40, "O": 16}},
    {"window": SAME, "sizes": {**SIZES, "C": 130, "W": 37}},
    {"window": [W(3, 2, 1, 1), W(2, 3)]},
    {"window": [W(1, 1), W(1, 1)], "sizes": {**SIZES, "O": 100}},
    {"window": [W(3, 1, 2, 2, window_dilation=2), W(3, 1, 1, 1, reversal=True)]},
    {"window": [W(4, 1, 2, 2, base_dilation=2), W(3, 1, 1, 3)]},
    {"window": SAME, "sizes": {**SIZES, "C": 128}, "feature_groups": 2},
    {"window": SAME, "sizes": {**SIZES, "N": 4}, "batch_groups": 2},
    {"window": [W(9), W(21)], "sizes": {**SIZES, "N": 20}},
    {"window": SAME, "sizes": {**SIZES, "O": 3}},
    {"window": [W(3, 2, 1, 1), W(2, 3)], "sizes": {**SIZES, "O": 1}},
    {"window": [W(9), W(21)], "sizes": {**SIZES, "N": 1, "C": 128, "O": 32}, "feature_groups": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: str(o)[:60])
@pytest.mark.parametrize("types", list(itertools.product((S8, U8), repeat=2)), ids=str)
def test_bytes(
    types: tuple[dtypes.DType, dtypes.DType],
    options: dict[str, Any],
    cpu: str,
    registers: Registers,
) -> None:
    made = convolution(layout=LAYOUTS[0], **{"sizes": SIZES, **options})
    operands = [
        o.replace(shape=o.shape.with_dtype(t)) for o, t in zip(made.operands, types, strict=True)
    ]
    instruction = made.replace(operands=operands, shape=made.shape.with_dtype(S32))
    check(instruction, cpu, extreme=True)
    assert registers.multiplications


@pytest.mark.parametrize("options", OPTIONS[:8], ids=lambda o: str(o)[:60])
def test_bf16(options: dict[str, Any], cpu: str, registers: Registers) -> None:
    check(
        convolution(layout=LAYOUTS[0], dtype=BF16, result=BF16, **{"sizes": SIZES, **options}), cpu
    )
    assert registers.multiplications


# As HLO has them: N are the input features, C the images. One register of rows and several, sums of one piece and of
# several, a window of one element, strides, whose residues have different numbers of elements, dilations, padding of
# both signs, groups, one dimension and three.
IMAGES = {"N": 20, "C": 2, "O": 40, "H": 9, "W": 11}
GRADIENTS: list[dict[str, Any]] = [
    {"window": [W(9, 1, 1, 1), W(11, 1, 1, 1)]},
    {"window": [W(9, 1, 1, 1), W(11, 1, 1, 1)], "layout": "CNHW,IOHW,NCHW"},
    {
        "window": [W(28, 1, 1, 1), W(29, 1, 2, 0)],
        "sizes": {**IMAGES, "N": 33, "O": 33, "H": 28, "W": 29},
    },
    {"window": [W(9), W(11)]},
    {"window": [W(30), W(41)], "sizes": {**IMAGES, "H": 30, "W": 41}},
    {"window": [W(5, 1, 1, 1, window_dilation=2), W(6, 1, 1, 1, window_dilation=2)]},
    {"window": [W(3, 2, 2, 2, window_dilation=3), W(4, 2, 1, 4, window_dilation=2)]},
    {"window": [W(7, 2, 2, 2), W(8, 3, 3, 3)]},
    {"window": [W(7, 1, -1, 0), W(9, 1, 0, -1)]},
    {
        "window": [W(9, 1, 1, 1), W(11, 1, 1, 1)],
        "sizes": {**IMAGES, "N": 40, "O": 64},
        "batch_groups": 2,
    },
    {
        "window": [W(50, 1, 2, 2)],
        "layout": "CWN,IWO,WNC",
        "sizes": {"N": 17, "C": 3, "O": 16, "W": 50},
    },
    {  # more sums than a unit keeps
        "window": [W(800, 1, 35, 35)],
        "layout": "CWN,IWO,WNC",
        "sizes": {"N": 32, "C": 1, "O": 32, "W": 800},
    },
    {
        "window": [W(4, 1, 1, 1), W(5, 1, 1, 1), W(6, 1, 1, 1)],
        "layout": "CDHWN,IDHWO,DHWNC",
        "sizes": {"N": 16, "C": 2, "O": 33, "D": 4, "H": 5, "W": 6},
    },
]


@pytest.mark.parametrize("options", GRADIENTS, ids=lambda o: str(o)[:60])
@pytest.mark.parametrize("result", [BF16, F32], ids=str)
def test_gradients_of_weights(
    result: dtypes.DType, options: dict[str, Any], cpu: str, registers: Registers
) -> None:
    made = convolution(
        dtype=BF16, result=result, **{"sizes": IMAGES, "layout": "CHWN,IHWO,HWNC", **options}
    )
    check(made, cpu)
    assert registers.multiplications


@pytest.mark.parametrize("result", [BF16, F32], ids=str)
def test_a_long_sum_of_floats_is_added_up_from_its_pieces(
    result: dtypes.DType, cpu: str, registers: Registers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_window, "LONGEST_SUM", 4)
    cleared = []
    clear = matrix_window.MatrixTile.clear
    monkeypatch.setattr(
        matrix_window.MatrixTile, "clear", lambda self, b: (cleared.append(1), clear(self, b))
    )
    check(convolution(layout="CHWN,IHWO,HWNC", dtype=BF16, result=result, **GRADIENTS[2]), cpu)
    assert cleared
    assert registers.multiplications
