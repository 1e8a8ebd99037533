"""Gradients of the weights of transposed convolutions as those of strided ones: which are, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels.product_forms import BF16_PAIRS
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.transposed_gradients import as_strided, reversed_again
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module
from tests.core.compiler.codegen.kernels.test_convolution import convolution, reference
from tests.core.compiler.codegen.kernels.test_window_product import arrays_of
from tests.core.compiler.codegen.kernels.test_window_product import cpu as level
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["level"]

LAST, FIRST = "CHWN,IHWO,HWNC", "CNHW,IOHW,NCHW"
# As HLO has it: of 33 features to 18, of three images of 5x6 that become 10x13 with the window's paddings below.
SIZES = {"N": 33, "C": 3, "O": 18, "H": 5, "W": 6}
FOUR = [W(10, 1, 2, 2, base_dilation=2), W(12, 1, 2, 2, base_dilation=2)]
OPTIONS: list[dict[str, Any]] = [
    {"window": FOUR},
    {"window": FOUR, "layout": FIRST},
    # Positions that are left out or past the end, a dimension without a stride, one of a single element.
    {"window": [W(9, 1, 1, 3, base_dilation=2), W(18, 1, 3, 2, base_dilation=3)]},
    {"window": [W(10, 1, 3, 1, base_dilation=2), W(6, 1, 1, 1)]},
    {"window": [W(7, 1, -1, 2, base_dilation=2), W(12, 1, 4, -3, base_dilation=2)]},
    {"window": [W(12, 1, 0, 0, base_dilation=3), W(10, 1, 0, 0, base_dilation=2)]},
    # The window's elements lie two apart: the forward convolution is dilated too.
    {"window": [W(11, 2, 3, 4, base_dilation=3), W(9, 2, 1, 2, base_dilation=2)]},
    {
        "window": [W(40, 1, 5, 4, base_dilation=4)],
        "layout": "CWN,IWO,WNC",
        "sizes": {"N": 33, "C": 2, "O": 40, "W": 10},
    },
    {
        "window": [W(4, 1, 1, 1, base_dilation=2), W(5, 1, 2, 1, base_dilation=2), W(4, 1, 1, 1)],
        "layout": "CDHWN,IDHWO,DHWNC",
        "sizes": {"N": 34, "C": 2, "O": 17, "D": 2, "H": 3, "W": 4},
    },
]


def made_of(options: dict[str, Any], dtype: DType = dtypes.F32) -> hlo.Instruction:
    return convolution(**{"sizes": SIZES, "layout": LAST, **options}, dtype=dtype)


def after(made: hlo.Instruction, cpu: str, onednn: bool = True) -> hlo.Module:
    return pipeline.run(module(made.operands, made), for_cpu(cpu, onednn), Dump())


def products(compiled: hlo.Module) -> list[dict[str, Any]]:
    return [
        i.attributes["config"]
        for i in compiled.entry.instructions
        if i.opcode in ("window-product", "packed-dot")
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: str(o)[:90])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16, dtypes.F16], ids=str)
def test_numbers(dtype: DType, options: dict[str, Any], level: str) -> None:
    made = made_of(options, dtype)
    assert as_strided(made) is not None
    compiled = after(made, level, onednn=False)
    assert products(compiled)
    arrays = arrays_of(made)
    (got,) = NativeSimulation(compiled, level).run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: str(o)[:90])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16], ids=str)
def test_an_infinity_of_the_input_stays_in_its_sums(
    dtype: DType, options: dict[str, Any], level: str
) -> None:
    """Elements of the input that lie outside of a window meet the zeros of the strided one's padding."""
    made = made_of(options, dtype)
    simulation = NativeSimulation(after(made, level, onednn=False), level)
    x, y = arrays_of(made)
    for corner in (0, -1):
        wrong = x.copy()
        wrong[(corner,) * x.ndim] = np.inf
        (got,) = simulation.run([wrong, y])
        want = reference(made, wrong, y)
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: str(o)[:90])
def test_the_strided_one_is_the_same_by_the_definition(options: dict[str, Any]) -> None:
    made = made_of(options, dtypes.S32)
    strided = as_strided(made)
    assert strided is not None
    assert all(w.base_dilation == 1 for w in strided.attributes["window"])
    x, y = arrays_of(made)
    backwards = reversed_again(strided, made).attributes["dimensions"]
    np.testing.assert_array_equal(
        np.flip(reference(strided, y, x), backwards), reference(made, x, y)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"window": [W(9, 1, 1, 1), W(11, 1, 1, 1)], "sizes": {**SIZES, "H": 9, "W": 11}},  # of a plain one
        {"window": [W(3, 1, 2, 2, base_dilation=2)] * 2},  # a transposed convolution itself
        {"window": FOUR, "layout": "NHWC,HWIO,NHWC", "sizes": {**SIZES, "C": 33}},  # the features are not outermost
        {"window": FOUR, "batch_groups": 3},
        {"window": [W(5, 1, 2, 2, base_dilation=2, window_dilation=2), W(12, 1, 2, 2, base_dilation=2)]},
        {"window": [W(10, 1, 2, 2, base_dilation=2, reversal=True), W(12, 1, 2, 2, base_dilation=2)]},
        {"window": FOUR, "sizes": {**SIZES, "C": 0}},
    ],
    ids=lambda o: str(o)[:90],
)  # fmt: skip
def test_others_are_left(options: dict[str, Any]) -> None:
    assert as_strided(made_of(options)) is None


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "znver5"])
def test_one_product_computes_it(cpu: str) -> None:
    """In f32 it is generated, and not taken apart for the residues of the stride."""
    assert len(products(after(made_of({"window": FOUR}), cpu))) == 1


def test_it_is_in_pairs_where_a_strided_one_is() -> None:
    sizes = {**SIZES, "N": 32, "O": 40}
    compiled = after(made_of({"window": FOUR, "sizes": sizes}, dtypes.BF16), "znver5")
    assert {c["form"].name for c in products(compiled)} == {BF16_PAIRS}
