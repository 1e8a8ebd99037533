"""Depthwise convolutions with features last ("depthwise-product"), against the definition: exact for small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.depthwise import match_depthwise
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module
from tests.core.compiler.codegen.kernels.test_convolution import (
    LAYOUTS,
    SAME,
    convolution,
    reference,
)
from tests.core.compiler.codegen.kernels.test_window_product import check
from tests.core.compiler.codegen.kernels.test_window_product import cpu as level
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["level"]

SIZES = {"N": 2, "C": 40, "O": 40, "H": 13, "W": 19}
WINDOWS = {
    "same": SAME,
    "5x5": [W(5, 1, 2, 2)] * 2,
    "strides": [W(3, 2, 1, 1), W(3, 3, 0, 1)],
    "window dilation": [W(3, 1, 2, 2, window_dilation=2), W(2, 2, 0, 3, window_dilation=3)],
    "reversal": [W(3, 1, 1, 1, reversal=True), W(2, 1, reversal=True)],
    "negative padding": [W(3, 1, -2, -1), W(2, 1, 3, -4)],
    "window beyond the input": [W(3, 1, 30, 30, window_dilation=15), W(3, 1, 30, 30)],
    "one row": [W(13, 1), W(1, 1)],
}


def compiled(i: Instruction, cpu: str = "host", onednn: bool = False) -> NativeSimulation:
    after = pipeline.run(module(i.operands, i), for_cpu(cpu, onednn), Dump())
    # Weights of small integers are extended before, and their sums may be written in a narrower type.
    others = (
        "parameter",
        "bitcast",
        "tuple",
        *(["fusion", "convert"] if i.dtype.is_integer else []),
    )
    (product,) = (x for x in after.entry.instructions if x.opcode not in others)
    assert product.opcode == "depthwise-product"
    assert product.dtype is i.dtype
    return NativeSimulation(after, cpu)


def made(**options: Any) -> Instruction:
    sizes = options.pop("sizes", SIZES)
    return convolution(sizes=sizes, feature_groups=sizes["C"], **{"window": SAME, **options})


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("name", list(WINDOWS))
def test_windows(name: str, cpu: str) -> None:
    i = made(window=WINDOWS[name])
    compiled(i, cpu)
    check(i, cpu)


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F64, dtypes.BF16, dtypes.F16], ids=str)
def test_element_types(dtype: DType, onednn: bool) -> None:
    """With oneDNN too, and without a kernel for the conversion of the operands or of the result."""
    i = made(dtype=dtype)
    compiled(i, onednn=onednn)
    check(i)


@pytest.mark.parametrize("window", ["same", "5x5", "strides", "window dilation"])
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (dtypes.S8, dtypes.S32),
        (dtypes.U8, dtypes.S32),
        (dtypes.S16, dtypes.S32),
        (dtypes.U16, dtypes.U32),
        (dtypes.S8, dtypes.S8),
    ],
    ids=str,
)
def test_small_integers(dtype: DType, result: DType, window: str, level: str) -> None:
    """Exact modulo 2^32 (or 2^8) for the worst values, with the instructions of each level."""
    i = made(dtype=dtype, result=result, window=WINDOWS[window])
    simulation = compiled(i, level)
    check(i, level, extreme=True)
    limits = np.iinfo(dtype.numpy)
    for value in (limits.min, limits.max):
        arrays = [np.full(o.dims, value, dtype.numpy) for o in i.operands]
        (got,) = simulation.run(arrays)
        np.testing.assert_array_equal(got, reference(i, *arrays))


@pytest.mark.parametrize("features", [4, 8, 17])
def test_small_integers_in_short_vectors(features: int, level: str) -> None:
    i = made(sizes={**SIZES, "C": features, "O": features}, dtype=dtypes.S8, result=dtypes.S32)
    compiled(i, level)
    check(i, level, extreme=True)


@pytest.mark.parametrize(
    ("cpu", "is_one"), [("znver5", True), ("x86-64-v3+avxvnni", True), ("x86-64-v4", False)]
)
def test_large_windows_of_bytes(cpu: str, is_one: bool) -> None:
    """With one instruction for a product and its sum; wide integers are never computed so."""
    sizes = {**SIZES, "H": 20}
    for size, dtype in ((7, dtypes.S8), (7, dtypes.S32), (5, dtypes.S8)):
        i = made(sizes=sizes, window=[W(size, 1, 3, 3)] * 2, dtype=dtype, result=dtypes.S32)
        found = match_depthwise(i, for_cpu(cpu)) is not None
        assert found is (dtype is dtypes.S8 and (is_one or size == 5))


@pytest.mark.parametrize("features", [4, 5, 16, 17, 33])
@pytest.mark.parametrize("each", [1, 2, 4, 16])  # 16: as many as a vector has, or more
def test_numbers_of_features(features: int, each: int) -> None:
    """Those that vectors do not divide, and several features of the result for each of the input."""
    i = made(sizes={**SIZES, "C": features, "O": features * each})
    compiled(i, "x86-64-v4")  # with shorter vectors 16 are computed as groups
    check(i)


@pytest.mark.parametrize("padding", [(3, 0), (0, 0), (2, 1)])
def test_one_dimension(padding: tuple[int, int]) -> None:
    """A causal one among them, whose units of work are parts of a row."""
    sizes = {"N": 2, "C": 40, "O": 40, "W": 301}
    i = made(sizes=sizes, window=[W(4, 1, *padding)], layout="NWC,WIO,NWC")
    compiled(i)
    check(i)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_other_layouts_are_other_kernels(layout: str) -> None:
    i = made(layout=layout)
    after = pipeline.run(module(i.operands, i), for_cpu("host", False), Dump())
    assert "depthwise-product" not in {x.opcode for x in after.entry.instructions}
    check(i)


def test_kernels_in_other_orders() -> None:
    i = made(layout="NHWC,OIHW,NHWC")
    check(i)


@pytest.mark.parametrize("window", ["same", "strides"])
def test_results_do_not_depend_on_how_units_are_shared_out(window: str) -> None:
    """Each position's sum is added up in one order: at the edge of a unit, of a tile and of the array too."""
    i = made(window=WINDOWS[window])
    arrays = [
        np.random.default_rng(n).standard_normal(o.dims).astype(np.float32)
        for n, o in enumerate(i.operands)
    ]
    x, k = arrays
    (whole,) = compiled(i).run(arrays)
    padded = np.pad(x, ((0, 0), (7, 0), (7, 0), (0, 0)))
    moved = made(
        sizes={**SIZES, "H": SIZES["H"] + 7, "W": SIZES["W"] + 7},
        window=[W(w.size, w.stride, w.padding_low - 7, w.padding_high) for w in WINDOWS[window]],
    )
    (shifted,) = compiled(moved).run([padded, k])
    np.testing.assert_array_equal(whole, shifted)
