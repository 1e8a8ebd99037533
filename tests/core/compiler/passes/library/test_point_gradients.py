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
    assert "packed-dot" not in kinds(compiled(made, for_cpu("cascadelake")))


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
            for cpu in ("emeraldrapids", "emeraldrapids+amx-bf16", "cascadelake")
        }
        assert found.pop("emeraldrapids") is is_product
        assert not any(found.values())


MANY = {**SIZES, "C": 42}  # images of 99 positions: 4,158


@pytest.mark.parametrize(
    ("f32", "bf16", "options"),
    [
        (True, True, {}),
        (True, False, {"sizes": MANY}),
        (True, True, {"sizes": {**MANY, "C": 41}}),
        (True, False, {"sizes": {**SIZES, "N": 16, "O": 31}}),
        (False, False, {"sizes": {**SIZES, "N": 15}}),
        (True, True, STRIDED),
        (True, True, {**STRIDED, "sizes": {**STRIDED["sizes"], "C": 250}}),
        (False, False, {**STRIDED, "sizes": {**STRIDED["sizes"], "N": 63}}),
        (False, False, {"layout": "CNHW,IOHW,NCHW"}),
    ],
    ids=str,
)
def test_which_are_products_on_a_zen_4(f32: bool, bf16: bool, options: dict[str, Any]) -> None:
    for dtype, is_product in ((dtypes.F32, f32), (dtypes.BF16, bf16)):
        made = convolution(**{**GIVEN, **options}, dtype=dtype, result=dtype)
        found = match_point_gradient(made, Context(for_cpu("znver4"), {}, {}))
        assert (found is not None) is is_product


@pytest.mark.parametrize(
    ("is_product", "options"),
    [
        (True, {"sizes": MANY}),
        (True, {"sizes": {**SIZES, "N": 64, "O": 32}}),
        (False, {"sizes": {**SIZES, "N": 7}}),
        (True, STRIDED),
        (False, {"layout": "CNHW,IOHW,NCHW"}),
    ],
    ids=str,
)
def test_which_are_products_on_a_zen_3(is_product: bool, options: dict[str, Any]) -> None:
    for dtype in (dtypes.F32, dtypes.BF16, dtypes.F16):
        made = convolution(**{**GIVEN, **options}, dtype=dtype, result=dtype)
        found = match_point_gradient(made, Context(for_cpu("znver3"), {}, {}))
        assert (found is not None) is is_product
        assert match_point_gradient(made, Context(for_cpu("x86-64-v3"), {}, {})) is None


@pytest.mark.parametrize(
    ("rows", "features", "channels"),
    [(33, (64, 33), 6), (64, (64, 33), 5), (33, (33, 64), 6), (64, (64, 64), 6)],
    ids=str,
)
@pytest.mark.parametrize("layout", [LAST, "CHWN,IHWO,NCHW"])
def test_many_positions_have_fewer_features_first(
    layout: str, rows: int, features: tuple[int, int], channels: int
) -> None:
    """From 512 positions on, at a Zen 4's costs; the numbers are the gradient's either way."""
    sizes = {"N": features[0], "C": channels, "O": features[1], "H": 9, "W": 11}
    made = convolution(**{**GIVEN, "sizes": sizes, "layout": layout})
    zen_4 = for_cpu("znver4").costs.convolutions
    target = priced("x86-64-v3", True, convolutions={
        "point_features": zen_4.point_features,
        "point_terms": zen_4.point_terms,
        "turned_point_terms": zen_4.turned_point_terms,
    }, products={"packed_wide": 1, "most_f32": 1 << 62})  # fmt: skip
    after = compiled(made, target)
    (product,) = [i for i in after.entry.instructions if i.opcode == "packed-dot"]
    assert product.attributes["config"]["m"] == rows
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, o.dims).astype(np.float32) for o in made.operands]
    (got,) = NativeSimulation(after, "x86-64-v3").run(values)
    np.testing.assert_array_equal(got, reference(made, *values))


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
