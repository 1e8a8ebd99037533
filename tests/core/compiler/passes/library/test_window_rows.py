"""Convolutions whose windows become rows of a product: which ones, and their numbers on a CPU that emulates AMX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.context import Context
from tripont.core.compiler.passes.library.convolution_costs import prefers_generated
from tripont.core.compiler.passes.library.window_rows import match_bytes, match_few_positions
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, op, priced
from tests.core.compiler.codegen.emulated_matrices import Registers
from tests.core.compiler.codegen.kernels.test_convolution import (
    LAYOUTS,
    SAME,
    convolution,
    reference,
)
from tests.core.compiler.codegen.kernels.test_matrix_dot import cpu, registers
from tests.core.compiler.codegen.kernels.test_window_product import arrays_of
from tests.core.compiler.codegen.kernels.test_window_product import cpu as level
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu", "level", "registers"]

S8, BF16, S32 = dtypes.S8, dtypes.BF16, dtypes.S32
AMX = "emeraldrapids+amx-bf16"
# Odd numbers of rows and terms, parts of the input that no window reaches, padding of both signs, strides above the
# windows' sizes, dilations, one dimension and three.
POINTS = {"N": 2, "C": 130, "O": 140, "H": 9, "W": 7}
PATCHES = {"N": 3, "C": 3, "O": 49, "H": 38, "W": 43}
LARGE = {"N": 3, "C": 264, "O": 665, "H": 5, "W": 4}
ROWS: list[dict[str, Any]] = [
    {"sizes": POINTS, "window": [W(1), W(1)]},
    {"sizes": POINTS, "window": [W(1, 2), W(1, 3, 1, 1)]},
    {"sizes": PATCHES, "window": [W(6, 6), W(7, 7)]},
    {"sizes": PATCHES, "window": [W(6, 7, -1, 2), W(6, 6, 3, -2)]},
    {"sizes": {**PATCHES, "C": 40, "O": 130}, "window": [W(1, 2), W(4, 5, 1, 1)]},
    {"sizes": {"N": 30, "C": 20, "O": 150, "W": 31}, "window": [W(7, 8)], "layout": "NWC,WIO,NWC"},
    {"sizes": LARGE, "window": SAME},
    {"sizes": LARGE, "window": [W(3, 1, 2, 2, window_dilation=2), W(3, 2, 1, 3)]},
    {
        "sizes": {"N": 2, "C": 101, "O": 580, "D": 3, "H": 3, "W": 2},
        "window": [W(3, 1, 1, 1), W(3, 1, 1, 1), W(3, 1, 1, 1)],
        "layout": "NDHWC,DHWIO,NDHWC",
    },
]  # fmt: skip

# Those of two dimensions in each layout.
IN_LAYOUTS = [{"layout": layout, **o} for o in ROWS if "layout" not in o for layout in LAYOUTS[:3]]
IN_LAYOUTS += [o for o in ROWS if "layout" in o]


def kernels_of(after: hlo.Module) -> set[str]:
    """Opcodes, and kinds of fusions."""
    return {
        i.attributes["kind"] if i.opcode == "fusion" else i.opcode for i in after.entry.instructions
    }


def compiled(made: hlo.Instruction, cpu: str) -> hlo.Module:
    return pipeline.run(module(made.operands, made), for_cpu(cpu, False), Dump())


@pytest.mark.parametrize("options", IN_LAYOUTS, ids=lambda o: str(o)[:90])
@pytest.mark.parametrize(("dtype", "result"), [(BF16, BF16), (S8, S32)], ids=str)
def test_numbers(
    dtype: DType,
    result: DType,
    options: dict[str, Any],
    cpu: str,
    registers: Registers,
) -> None:
    made = convolution(**options, dtype=dtype, result=result)
    after = compiled(made, cpu)
    assert "packed-dot" in kernels_of(after)
    assert not kernels_of(after) & {"window-product", "convolution"}
    arrays = arrays_of(made, extreme=dtype is S8)
    (got,) = NativeSimulation(after, cpu).run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays))
    assert registers.multiplications


@pytest.mark.parametrize("options", ROWS, ids=lambda o: str(o)[:60])
def test_rows_are_chosen_where_there_are_registers_of_matrices(options: dict[str, Any]) -> None:
    made = convolution(**options, dtype=BF16)
    assert prefers_generated(made, for_cpu(AMX))
    assert not prefers_generated(
        made, for_cpu("znver4")
    )  # those of few positions are products before


WIDE = {"N": 2, "C": 256, "O": 384, "H": 7, "W": 7}


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (True, {}),
        (False, {"sizes": {**WIDE, "O": 320}}),  # a kernel of 1.4 MB
        (False, {"sizes": {**WIDE, "H": 20, "W": 32}}),  # more than 1,024 positions
        (False, {"window": SAME, "feature_groups": 2, "sizes": {**WIDE, "C": 512}}),
        (True, {"window": [W(1), W(1)]}),
        (False, {"window": [W(1), W(1)], "sizes": {**WIDE, "C": 127}}),
        (False, {"window": [W(1), W(1)], "sizes": {**WIDE, "O": 127}}),
        (True, {"window": [W(4, 4), W(4, 4)], "sizes": {**PATCHES, "N": 20}}),
        (False, {"window": [W(4, 3), W(4, 4)], "sizes": {**PATCHES, "N": 20}}),  # they overlap
        (False, {"window": [W(3, 3), W(3, 3)], "sizes": {**PATCHES, "N": 20}}),  # 27 terms
        (False, {"window": [W(7, 1, 3, 3), W(5, 1, 2, 2)]}),  # 35 parts of rows
    ],
    ids=str,
)
def test_choice(rows: bool, options: dict[str, Any]) -> None:
    """What is generated without oneDNN: rows of a product, or sums over windows."""
    made = convolution(**{"sizes": WIDE, "window": SAME, **options}, dtype=BF16)
    assert ("packed-dot" in kernels_of(compiled(made, AMX))) is rows
    assert "packed-dot" not in kernels_of(compiled(made, "x86-64-v4"))


def test_positions_that_fill_tiles_are_not_copied() -> None:
    """Rows of 14 positions by four registers take less time than copying windows of 9 elements."""
    sizes = {"N": 2, "C": 512, "O": 512, "H": 14, "W": 14}
    made = convolution(sizes, SAME, dtype=BF16)
    assert "window-product" in kernels_of(compiled(made, AMX))
    assert prefers_generated(made, for_cpu(AMX))


def test_what_follows_is_computed_from_the_sums() -> None:
    """Bias and activation are part of the product's kernel, as they are of any other product."""
    made = convolution(POINTS, [W(1), W(1)], dtype=BF16)
    other = hlo.parameter(2, made.shape)
    last = op("maximum", op("add", made, other), other)
    after = pipeline.run(module([*made.operands, other], last), for_cpu(AMX, False), Dump())
    fused = [i.attributes["kind"] for i in after.entry.instructions if i.opcode == "fusion"]
    assert fused == ["packed-dot"]


# Numbers of the columns of a product that are few for its rows, strides, dilations, padding and three dimensions.
FEW: list[dict[str, Any]] = [
    {"sizes": POINTS, "window": [W(1), W(1)]},
    {"sizes": POINTS, "window": [W(1, 2), W(1, 3, 1, 1)]},
    {"sizes": {**LARGE, "O": 90}, "window": SAME},
    {
        "sizes": {**LARGE, "O": 90},
        "window": [W(3, 1, 2, 2, window_dilation=2), W(3, 2, 1, 3)],
    },
    *(o for o in ROWS if o.get("layout") == "NDHWC,DHWIO,NDHWC"),
]  # fmt: skip


@pytest.mark.parametrize("options", FEW, ids=lambda o: str(o)[:90])
@pytest.mark.parametrize("layout", LAYOUTS[:3])
@pytest.mark.parametrize("dtype", [dtypes.F32, BF16], ids=str)
def test_numbers_of_few_positions(layout: str, dtype: DType, options: dict[str, Any]) -> None:
    rows = {"point_rows": 512, "window_rows": 512, "pair_rows": 512}
    target = priced("x86-64-v3", False, convolutions={**rows, "window_kernel": 1, "pair_kernel": 1})
    made = convolution(**{"layout": layout, **options}, dtype=dtype)
    after = pipeline.run(module(made.operands, made), target, Dump())
    assert "packed-dot" in kernels_of(after)
    assert not kernels_of(after) & {"window-product", "convolution"}
    arrays = arrays_of(made)
    (got,) = NativeSimulation(after, "x86-64-v3").run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays).astype(got.dtype))


def _is_rows(made: hlo.Instruction, cpu: str) -> bool:
    return match_few_positions(made, Context(for_cpu(cpu), {}, {})) is not None


SEVEN = {"N": 1, "C": 512, "O": 512, "H": 7, "W": 7}


@pytest.mark.parametrize(
    ("f32", "bf16", "options"),
    [
        (True, True, {"window": [W(1), W(1)]}),
        (True, True, {"window": [W(1), W(1)], "sizes": {**SEVEN, "N": 8}}),
        (False, False, {"window": [W(1), W(1)], "sizes": {**SEVEN, "N": 16}}),  # 784 positions
        (True, True, {"window": SAME}),
        (False, True, {"window": SAME, "sizes": {**SEVEN, "N": 8}}),  # 392
        (False, False, {"window": SAME, "sizes": {**SEVEN, "N": 9}}),
        (False, True, {"window": SAME, "sizes": {**SEVEN, "C": 128, "O": 128}}),  # a small kernel
        (False, False, {"window": SAME, "feature_groups": 2}),
        (False, False, {"window": [W(7, 1, 3, 3), W(5, 1, 2, 2)]}),  # 35 parts of rows
    ],
    ids=str,
)
def test_few_positions_are_rows_on_a_zen_5(f32: bool, bf16: bool, options: dict[str, Any]) -> None:
    for dtype, rows in ((dtypes.F32, f32), (BF16, bf16)):
        made = convolution(**{"sizes": SEVEN, **options}, dtype=dtype)
        assert _is_rows(made, "znver5") is rows
        assert not _is_rows(made, "cascadelake")


@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_numbers_of_bf16_points(layout: str) -> None:
    """In any number of positions."""
    target = priced("x86-64-v3", False, convolutions={"bf16_point_rows": 1 << 62})
    sizes = {"N": 3, "C": 66, "O": 72, "H": 15, "W": 17}
    made = convolution(sizes, [W(1, 2), W(1)], layout, dtype=BF16, result=BF16)
    after = pipeline.run(module(made.operands, made), target, Dump())
    if layout == LAYOUTS[0]:
        assert "window-product" not in kernels_of(after)
    arrays = arrays_of(made)
    (got,) = NativeSimulation(after, "x86-64-v3").run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays).astype(got.dtype))


@pytest.mark.parametrize(
    ("f32", "bf16", "options"),
    [
        (True, True, {"window": [W(1), W(1)], "sizes": {**SEVEN, "N": 8}}),
        (False, True, {"window": [W(1), W(1)], "sizes": {**SEVEN, "N": 16}}),  # 784 positions
        (False, True, {"window": [W(1, 2), W(1)], "sizes": {**SEVEN, "N": 90}}),
        (False, False, {"window": [W(1), W(1)], "sizes": {**SEVEN, "N": 16}, "layout": LAYOUTS[1]}),
        (False, False, {"window": [W(1), W(1)], "sizes": {**SEVEN, "N": 99, "O": 8}}),  # no panel
        (False, True, {"window": SAME}),
        (False, True, {"window": SAME, "sizes": {**SEVEN, "N": 8}}),  # 392
        (False, False, {"window": SAME, "sizes": {**SEVEN, "N": 9}}),
        (False, False, {"window": SAME, "sizes": {**SEVEN, "C": 256, "O": 256}}),  # a small kernel
    ],
    ids=str,
)
def test_few_positions_are_rows_on_an_emerald_rapids(
    f32: bool, bf16: bool, options: dict[str, Any]
) -> None:
    for dtype, rows in ((dtypes.F32, f32), (BF16, bf16)):
        made = convolution(**{"sizes": SEVEN, **options}, dtype=dtype)
        assert _is_rows(made, "sapphirerapids") is rows
        assert not _is_rows(made, "sapphirerapids+amx-bf16")


@pytest.mark.parametrize(
    ("f32", "bf16", "options"),
    [
        (True, True, {"sizes": {**SEVEN, "N": 8}}),
        (True, True, {"sizes": {**SEVEN, "N": 16}}),
        (True, True, {"sizes": {**SEVEN, "N": 90}, "window": [W(1, 2), W(1)]}),
        (True, True, {"sizes": {**SEVEN, "N": 8}, "layout": LAYOUTS[1]}),  # 392 positions
        (False, True, {"sizes": {**SEVEN, "N": 16}, "layout": LAYOUTS[1]}),
        (False, False, {"sizes": {**SEVEN, "N": 99, "O": 8}}),  # no panel
        # The kernel of an input's gradient, of 2,009 positions and of 2,058.
        (True, True, {"sizes": {**SEVEN, "N": 41}, "layout": "NHWC,HWOI,NHWC"}),
        (True, False, {"sizes": {**SEVEN, "N": 42}, "layout": "NHWC,HWOI,NHWC"}),
        # Larger windows, of 196 positions and of 245.
        (True, True, {"sizes": {**SEVEN, "N": 4}, "window": SAME}),
        (False, False, {"sizes": {**SEVEN, "N": 5}, "window": SAME}),
        (False, True, {"sizes": {**SEVEN, "C": 128, "O": 128}, "window": SAME}),
    ],
    ids=str,
)
def test_points_are_rows_on_a_zen_4(f32: bool, bf16: bool, options: dict[str, Any]) -> None:
    """Windows of one element of any number of positions, and larger ones of few."""
    for dtype, rows in ((dtypes.F32, f32), (BF16, bf16)):
        made = convolution(**{"window": [W(1), W(1)], **options}, dtype=dtype)
        assert _is_rows(made, "znver4") is rows


@pytest.mark.parametrize(
    ("f32", "halves", "options"),
    [
        (True, True, {"sizes": {**SEVEN, "N": 90}}),
        (True, True, {"sizes": {**SEVEN, "N": 8}, "layout": LAYOUTS[1]}),  # 392 positions
        (False, True, {"sizes": {**SEVEN, "N": 16}, "layout": LAYOUTS[1]}),
        (
            True,
            True,
            {"sizes": {**SEVEN, "N": 90}, "window": [W(1, 2), W(1)], "layout": LAYOUTS[1]},
        ),
        # The kernel of an input's gradient, of 245 positions and of 294.
        (False, True, {"sizes": {**SEVEN, "N": 5}, "layout": "NHWC,HWOI,NHWC"}),
        (True, True, {"sizes": {**SEVEN, "N": 6}, "layout": "NHWC,HWOI,NHWC"}),
        # Larger windows, of 245 positions and of 294, and of the largest kernel and a larger one.
        (True, True, {"sizes": {**SEVEN, "N": 5}, "window": SAME}),
        (False, False, {"sizes": {**SEVEN, "N": 6}, "window": SAME}),
        (False, False, {"sizes": {**SEVEN, "C": 128, "O": 128}, "window": SAME}),
        (True, True, {"sizes": {**SEVEN, "C": 960, "O": 960}, "window": SAME}),
        (False, False, {"sizes": {**SEVEN, "C": 970, "O": 970}, "window": SAME}),
        (
            True,
            True,
            {"sizes": {**SEVEN, "C": 970, "O": 970}, "window": SAME, "layout": LAYOUTS[1]},
        ),
    ],
    ids=str,
)
def test_points_are_rows_on_a_zen_3(f32: bool, halves: bool, options: dict[str, Any]) -> None:
    for dtype, rows in ((dtypes.F32, f32), (BF16, halves), (dtypes.F16, halves)):
        made = convolution(**{"window": [W(1), W(1)], **options}, dtype=dtype)
        assert _is_rows(made, "znver3") is rows
        assert not _is_rows(made, "x86-64-v3")
        assert dtype is not dtypes.F16 or not _is_rows(made, "znver4")


@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("window", [[W(1, 2), W(1)], [W(3, 1, 1, 1), W(3, 2, 1, 1)]], ids=str)
@pytest.mark.parametrize("dtype", [dtypes.F32, BF16, dtypes.F16], ids=str)
def test_numbers_with_the_costs_of_a_zen_3(dtype: DType, layout: str, window: list[W]) -> None:
    sizes = {"N": 3, "C": 66, "O": 72, "H": 9, "W": 11}
    made = convolution(sizes, window, layout, dtype=dtype, result=dtype)
    zen_3 = for_cpu("znver3").costs.convolutions
    names = [
        "point_rows",
        "f32_point_rows",
        "bf16_point_rows",
        "first_strided_point_rows",
        "first_bf16_point_rows",
        "f16_rows",
        "window_rows",
        "pair_rows",
    ]
    rows = {name: getattr(zen_3, name) for name in names}
    rows |= {"window_kernel": 0, "pair_kernel": 0}
    target = priced("x86-64-v3", False, convolutions=rows)
    after = pipeline.run(module(made.operands, made), target, Dump())
    assert "window-product" not in kernels_of(after)
    arrays = arrays_of(made)
    (got,) = NativeSimulation(after, "x86-64-v3").run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays).astype(got.dtype))


@pytest.mark.parametrize(
    "sizes",
    [
        {"N": 13, "C": 66, "O": 72, "H": 9, "W": 11},  # 1,287 positions
        {"N": 3, "C": 17, "O": 33, "H": 1, "W": 401},
        {"N": 1, "C": 1, "O": 96, "H": 23, "W": 29},
        {"N": 0, "C": 66, "O": 72, "H": 9, "W": 11},
        {"N": 3, "C": 0, "O": 72, "H": 9, "W": 11},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [dtypes.F32, BF16], ids=str)
def test_numbers_of_points_with_the_costs_of_a_zen_4(dtype: DType, sizes: dict[str, int]) -> None:
    made = convolution(sizes, [W(1, 2), W(1)], LAYOUTS[0], dtype=dtype, result=dtype)
    zen_4 = for_cpu("znver4").costs.convolutions
    names = ("point_rows", "f32_point_rows", "bf16_point_rows")
    rows = {name: getattr(zen_4, name) for name in names}
    target = priced("x86-64-v3", False, convolutions=rows)
    after = pipeline.run(module(made.operands, made), target, Dump())
    if min(sizes["N"], sizes["C"]) > 0:
        assert "window-product" not in kernels_of(after)
    arrays = arrays_of(made)
    (got,) = NativeSimulation(after, "x86-64-v3").run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays).astype(got.dtype))


BYTES = {"N": 3, "C": 66, "O": 72, "H": 9, "W": 11}


@pytest.mark.parametrize("options", FEW, ids=lambda o: str(o)[:90])
@pytest.mark.parametrize("layout", LAYOUTS[:3])
@pytest.mark.parametrize("dtype", [S8, dtypes.U8], ids=str)
def test_numbers_of_bytes(dtype: DType, layout: str, options: dict[str, Any], level: str) -> None:
    """Exact for the worst values at every level."""
    target = priced(level, False, convolutions={"byte_features": 1, "byte_rows": 512})
    made = convolution(**{"layout": layout, **options}, dtype=dtype, result=S32)
    after = pipeline.run(module(made.operands, made), target, Dump())
    assert not kernels_of(after) & {"window-product", "convolution"}
    arrays = arrays_of(made, extreme=True)
    (got,) = NativeSimulation(after, level).run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays))


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (True, {}),
        (True, {"window": [W(1, 2), W(1)], "layout": LAYOUTS[1]}),
        (False, {"sizes": {**BYTES, "C": 31}}),
        (False, {"sizes": {**BYTES, "O": 31}}),
        (False, {"feature_groups": 2}),
        (True, {"window": SAME, "sizes": {**BYTES, "N": 1}}),  # 99 positions
        (False, {"window": SAME, "sizes": {**BYTES, "N": 2}}),
        (False, {"window": SAME, "sizes": {**BYTES, "N": 1, "C": 50}}),  # a small kernel
    ],
    ids=str,
)
def test_bytes_are_rows(rows: bool, options: dict[str, Any]) -> None:
    """Where vectors multiply them, from 32 features on: windows of one element, and few positions."""
    made = convolution(**{"sizes": BYTES, "window": [W(1), W(1)], **options}, dtype=S8, result=S32)
    for name in ("x86-64-v2", "x86-64-v3", "cascadelake", "znver5"):
        assert (match_bytes(made, Context(for_cpu(name), {}, {})) is not None) is rows
    for name in ("emeraldrapids+amx-int8", "cortex-a72"):
        assert match_bytes(made, Context(for_cpu(name), {}, {})) is None


def test_what_scales_bytes_is_computed_from_the_sums() -> None:
    """A scale and the conversions around it are part of the product's kernel: no sums in s32 are written."""
    made = convolution(BYTES, [W(1), W(1)], dtype=S8, result=S32)
    scale = hlo.parameter(2, hlo.Shape(dtypes.F32, made.dims))
    wide = op("convert", made, dtype=dtypes.F32)
    last = op("convert", op("multiply", wide, scale), dtype=S8)
    after = pipeline.run(module([*made.operands, scale], last), for_cpu("znver5", False), Dump())
    fused = [i.attributes["kind"] for i in after.entry.instructions if i.opcode == "fusion"]
    assert fused == ["packed-dot"]


def test_gradients_and_integers_are_not_rows_of_few_positions() -> None:
    reversed_ = [W(3, 1, 1, 1, reversal=True)] * 2
    for made in (
        convolution(SEVEN, reversed_),
        convolution(SEVEN, [W(2, base_dilation=2)] * 2),
        convolution(SEVEN, [W(1), W(1)], dtype=S8, result=S32),
    ):
        assert not _is_rows(made, "znver5")


def test_bf16_of_few_positions_compiles_for_a_zen_5() -> None:
    """With all passes: windows of bf16 are numbers that are only moved, in pairs, and loops that follow one another."""
    text = """
      func.func @main(%x: tensor<1x7x7x512xbf16>, %k: tensor<3x3x512x512xbf16>) -> tensor<1x7x7x512xbf16> {
        %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
          window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x7x7x512xbf16>, tensor<3x3x512x512xbf16>) -> tensor<1x7x7x512xbf16>
        return %y : tensor<1x7x7x512xbf16>
      }"""
    assert compile_program(text.encode(), "mlir", b"", {"cpu": "znver5"})
