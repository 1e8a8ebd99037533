"""Convolutions of bytes with AMX, on a CPU that emulates it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import WindowDimension as W

from tests.core.compiler.codegen.emulated_matrices import Registers
from tests.core.compiler.codegen.kernels.test_convolution import LAYOUTS, SAME, convolution
from tests.core.compiler.codegen.kernels.test_matrix_dot import cpu, registers
from tests.core.compiler.codegen.kernels.test_window_product import check

__all__ = ["cpu", "registers"]

S8, U8, S32 = dtypes.S8, dtypes.U8, dtypes.S32
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
