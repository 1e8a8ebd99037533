"""Gradients of the weights of windows of one element: which are products, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.context import Context
from tripont.core.compiler.passes.library.point_gradients import match_point_gradient
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, priced
from tests.core.compiler.codegen.kernels.test_convolution import convolution, reference
from tests.core.compiler.test_native import NativeSimulation

LAST = "CHWN,IHWO,HWNC"  # of a gradient of weights, features last
# As HLO has it: of 64 features to 72, of three images. The window is the whole input.
SIZES = {"N": 64, "C": 3, "O": 72, "H": 9, "W": 11}
WHOLE = [W(9), W(11)]
GIVEN: dict[str, Any] = {"sizes": SIZES, "window": WHOLE, "layout": LAST}


def kinds(after: hlo.Module) -> set[str]:
    """The opcodes of a program, those in fusions too: a result of f16 is rounded in one."""
    found = {i.opcode for i in after.entry.instructions}
    inner = (c for i in after.entry.instructions for c in i.called)
    return found.union(i.opcode for c in inner for i in c.instructions)


def compiled(made: hlo.Instruction, target: Any) -> hlo.Module:
    return pipeline.run(module(made.operands, made), target, Dump())


@pytest.mark.parametrize(
    ("is_product", "options"),
    [
        (True, {}),
        (True, {"layout": "CHWN,IHWO,NCHW"}),
        (False, {"layout": "CNHW,IOHW,NCHW"}),
        (False, {"sizes": {**SIZES, "N": 63}}),
        (False, {"sizes": {**SIZES, "O": 63}}),
        (False, {"window": [W(9, 1, 1, 1), W(11)]}),
        (False, {"window": [W(5, window_dilation=2), W(6, window_dilation=2)]}),
        (True, {"dtype": dtypes.F16, "result": dtypes.F16}),
        (False, {"dtype": dtypes.F16, "result": dtypes.F32}),
        (False, {"dtype": dtypes.BF16, "result": dtypes.BF16}),
        (False, {"sizes": {**SIZES, "N": 128, "O": 128}, "batch_groups": 2}),
    ],
    ids=str,
)  # fmt: skip
def test_which_are_products(is_product: bool, options: dict[str, Any]) -> None:
    made = convolution(**{**GIVEN, **options})
    assert ("packed-dot" in kinds(compiled(made, for_cpu("znver5")))) is is_product
    assert "packed-dot" not in kinds(compiled(made, for_cpu("znver4")))


@pytest.mark.parametrize("layout", [LAST, "CHWN,IHWO,NCHW"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F16], ids=str)
def test_numbers(dtype: dtypes.DType, channels: int, layout: str) -> None:
    """On whatever CPU this is."""
    given = {**GIVEN, "layout": layout, "dtype": dtype, "result": dtype}
    made = convolution(**{**given, "sizes": {**SIZES, "C": channels}})
    changed = {"point_features": 64, "generates_apart_gradients": True}
    target = priced("host", True, convolutions=changed, products={"packed_wide": 1})
    after = compiled(made, target)
    assert "packed-dot" in kinds(after)
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, o.dims).astype(dtype.numpy) for o in made.operands]
    (got,) = NativeSimulation(after, "host").run(values)
    np.testing.assert_array_equal(got, reference(made, *values))


# Of 64 features to 72, with strides 2 and 3: the windows meet the first of 9 or 10 rows and of 10 columns.
STRIDED: dict[str, Any] = {
    "sizes": {**SIZES, "C": 8, "H": 10, "W": 10},
    "window": [W(5, 1, 0, -1, window_dilation=2), W(4, window_dilation=3)],
    "layout": LAST,
}


@pytest.mark.parametrize(
    ("f32", "bf16", "options"),
    [
        (False, True, {}),  # 64 features
        (True, True, {"sizes": {**SIZES, "N": 256, "O": 256}}),
        (False, True, {"sizes": {**SIZES, "N": 256, "O": 256, "C": 6}}),  # 594 positions
        (True, True, STRIDED),
        (False, False, {**STRIDED, "sizes": {**STRIDED["sizes"], "N": 63}}),
        (False, False, {**STRIDED, "window": [W(4, window_dilation=2), W(4, window_dilation=3)]}),
    ],
    ids=str,
)
def test_which_are_products_on_an_emerald_rapids(
    f32: bool, bf16: bool, options: dict[str, Any]
) -> None:
    for dtype, is_product in ((dtypes.F32, f32), (dtypes.BF16, bf16)):
        made = convolution(**{**GIVEN, **options}, dtype=dtype, result=dtype)
        found = {
            cpu: match_point_gradient(made, Context(for_cpu(cpu), {}, {})) is not None
            for cpu in ("emeraldrapids", "emeraldrapids+amx-bf16", "cascadelake", "znver4")
        }
        assert found.pop("emeraldrapids") is is_product
        assert not any(found.values())


@pytest.mark.parametrize("layout", [LAST, "CHWN,IHWO,NCHW"])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F16, dtypes.BF16], ids=str)
def test_numbers_with_strides(dtype: dtypes.DType, layout: str) -> None:
    made = convolution(**{**STRIDED, "layout": layout}, dtype=dtype, result=dtype)
    target = priced("host", True, convolutions={"strided_point_features": 64})
    after = compiled(made, target)
    assert "window-product" not in kinds(after)
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, o.dims).astype(dtype.numpy) for o in made.operands]
    (got,) = NativeSimulation(after, "host").run(values)
    np.testing.assert_array_equal(got, reference(made, *values).astype(got.dtype))
