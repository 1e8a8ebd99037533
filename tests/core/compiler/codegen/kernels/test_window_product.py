"""Generated convolutions ("window-product") of every kind, against the definition: exact for integers and for floats
that are small integers, within the bound of their pieces for long sums.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels import window_product
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import cpu as cpus
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module
from tests.core.compiler.codegen.kernels.test_convolution import (
    CASES,
    LAYOUTS,
    SAME,
    SIZES,
    convolution,
    reference,
)
from tests.core.compiler.test_native import NativeSimulation

CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v3+avxvnni", "x86-64-v4", "host")
GENERATED = {"window-product", "depthwise-product"}
WIDE = {"N": 2, "C": 12, "O": 40, "H": 9, "W": 21}


@pytest.fixture(params=CPUS)
def cpu(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    missing = set(cpus.describe(name)[1]) - set(cpus.detect()[1])
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")
    return name


def compiled(i: hlo.Instruction, cpu: str = "host") -> NativeSimulation:
    """The program that computes ``i`` where there is no oneDNN."""
    after = pipeline.run(module(i.operands, i), for_cpu(cpu, False), Dump())
    opcodes = {x.opcode for x in after.entry.instructions}
    # (On a Zen 5 few positions by a large kernel are products, few of which stay dots.)
    assert opcodes & (GENERATED | {"dot"}), opcodes
    assert "convolution" not in opcodes
    return NativeSimulation(after, cpu)


def arrays_of(i: hlo.Instruction, extreme: bool = False) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    arrays = []
    for o in i.operands:
        low, high = (0, 4) if o.dtype.kind == "uint" else (-3, 4)
        if extreme:
            limits = np.iinfo(o.dtype.numpy)
            low, high = limits.min, limits.max + 1
        arrays.append(generator.integers(low, high, o.dims).astype(o.dtype.numpy))
    return arrays


def check(i: hlo.Instruction, cpu: str = "host", extreme: bool = False) -> None:
    arrays = arrays_of(i, extreme)
    (got,) = compiled(i, cpu).run(arrays)
    np.testing.assert_array_equal(got, reference(i, *arrays))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", list(CASES))
def test_all_options(name: str, layout: str) -> None:
    options = {"sizes": SIZES, **CASES[name]}
    check(convolution(layout=layout, **options))
    if layout in LAYOUTS[:2]:
        check(convolution(layout=layout, **options), "x86-64-v2")


# Sizes past a vector, a tile and a block, which none of them divides.
@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize(
    "options",
    [
        {"window": SAME},
        {"window": [W(3, 2, 1, 1), W(2, 3)]},
        {"window": [W(4, 1, 2, 2, base_dilation=2), W(4, 1, 1, 3, base_dilation=2)]},
        {"window": [W(3, 1, 0, 2, base_dilation=2), W(7, 1, 5, 4, base_dilation=3)]},
        {"window": [W(1, 1, 0, 0, base_dilation=3), W(2, 1, -1, 1, base_dilation=3)]},
        {"window": [W(3, 2, 1, 1, base_dilation=2), W(2, 1, 1, 1, 2, window_dilation=2)]},
        {"window": [W(3, 1, 1, 1, reversal=True), W(3, 1, 1, 1, base_dilation=2, reversal=True)]},
        {"window": SAME, "feature_groups": 4},
        {"window": SAME, "feature_groups": 12, "sizes": {**WIDE, "C": 12, "O": 12}},
        {"window": SAME, "feature_groups": 40, "sizes": {**WIDE, "C": 40, "O": 80}},
        {"window": [W(4, 1, 2, 2, base_dilation=2), W(3, 1, 1, 1)], "feature_groups": 40,
         "sizes": {**WIDE, "C": 40, "O": 40}},
        {"window": SAME, "batch_groups": 2},
        {"window": [W(7), W(19)], "sizes": {**WIDE, "N": 40}},
        {"window": [W(7), W(19)], "sizes": {**WIDE, "N": 40, "O": 40, "C": 3}, "batch_groups": 40},
        {"window": SAME, "sizes": {**WIDE, "O": 3}},
        {"window": SAME, "sizes": {**WIDE, "C": 1, "O": 1}},
    ],
    ids=lambda o: str(o)[:60],
)  # fmt: skip
def test_wide(options: dict[str, Any], layout: str) -> None:
    """With 32 registers of 64 bytes, where the machine has them, and with 16 of 32 bytes."""
    made = convolution(layout=layout, **{"sizes": WIDE, **options})
    check(made)
    if layout == LAYOUTS[0]:
        check(made, "x86-64-v3")


@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64-v3"])
def test_vectors_across_lines_are_loaded_once_for_all_features(name: str) -> None:
    """The input's gradient of a 7x7 convolution with stride 2 of 3 features: vectors along the width begin anywhere in
    a line, and are two loads each, so that rows of a tile are the features that share them, not positions.
    """
    gradient = [W(7, 1, 3, 4, base_dilation=2, reversal=True)] * 2
    sizes = {"N": 2, "C": 64, "O": 3, "H": 14, "W": 56}
    made = convolution(layout=LAYOUTS[0], sizes=sizes, window=gradient)
    after = pipeline.run(module(made.operands, made), for_cpu(name, False), Dump())
    configs = [
        i.attributes["config"] for i in after.entry.instructions if i.opcode == "window-product"
    ]
    assert len(configs) == 4
    for config in configs:
        size, left, right, _ = config["row"]
        assert (size, right) == (3, 0)
        assert left > 0
    check(made)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        *((d, d) for d in (dtypes.S32, dtypes.F64, dtypes.BF16, dtypes.F16, dtypes.U16, dtypes.S64)),
        (dtypes.BF16, dtypes.F32),
        (dtypes.F8E4M3FN, dtypes.F32),
    ],
    ids=str,
)  # fmt: skip
def test_dtypes(dtype: DType, result: DType) -> None:
    for layout in LAYOUTS[:2]:
        check(convolution(WIDE, SAME, layout, dtype=dtype, result=result))


@pytest.mark.parametrize(
    "types",
    [*itertools.product((dtypes.S8, dtypes.U8), repeat=2), (dtypes.S16, dtypes.S16)],
    ids=str,
)
@pytest.mark.parametrize("features", [1, 3, 24])
def test_integers_are_exact(types: tuple[DType, DType], features: int, cpu: str) -> None:
    """All values, with padding, which is 0 whatever the kernel makes of the operands' signs."""
    for groups in (1, 4) if features == 24 else (1,):
        sizes = {**WIDE, "C": features * groups}
        i = convolution(sizes, SAME, feature_groups=groups, result=dtypes.S32)
        operands = [
            hlo.parameter(n, hlo.Shape(t, o.dims))
            for n, (t, o) in enumerate(zip(types, i.operands, strict=True))
        ]
        check(i.replace(operands=operands), cpu, extreme=True)


@pytest.mark.parametrize("type_", [dtypes.S8, dtypes.U8], ids=str)
def test_groups_with_little_else(type_: DType, cpu: str) -> None:
    """Groups are the longest dimension besides the features, but a tile's rows are of one group: with VNNI the
    correction of flipped signs is a group's own.
    """
    for channels, outputs, groups, size, window in (
        (32, 64, 8, 1, 1),
        (256, 128, 32, 3, 1),
        (32, 64, 8, 2, 3),
    ):
        sizes = {"N": 1, "C": channels, "O": outputs, "H": size, "W": size}
        pad = window // 2
        made = convolution(
            sizes,
            [W(window, 1, pad, pad)] * 2,
            feature_groups=groups,
            dtype=type_,
            result=dtypes.S32,
        )
        check(made, cpu, extreme=True)


@pytest.mark.parametrize("result", [dtypes.S8, dtypes.S16, dtypes.U32, dtypes.S64], ids=str)
def test_integer_results_wrap(result: DType) -> None:
    check(convolution(WIDE, SAME, dtype=dtypes.S8, result=result), extreme=True)


def test_numbers_of_spatial_dimensions() -> None:
    check(convolution({"N": 3, "C": 5, "O": 8}, [], "NC,IO,NC"))
    check(convolution({"N": 3, "C": 5, "O": 8, "W": 9}, [W(3, 1, 1, 1)], "NWC,WIO,NWC"))
    sizes = {"N": 1, "C": 2, "O": 3, "A": 3, "B": 2, "D": 3, "E": 4}
    check(convolution(sizes, [W(2, 1, 1, 0)] * 4, "NABDEC,ABDEIO,NABDEC"))


@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("features", [3, 1024 + 3, 1 << 17])
def test_long_sums(features: int, layout: str) -> None:
    """Equal terms are the worst case: the roundings of a running sum have one sign."""
    sizes = {"N": 2, "C": features, "O": 20, "H": 3, "W": 4}
    i = convolution(sizes, [W(3), W(3)], layout)
    x, k = (np.full(o.dims, v, np.float32) for o, v in zip(i.operands, (0.1, 1), strict=True))
    (got,) = compiled(i).run([x, k])
    terms = 9 * features
    want = terms * np.float64(np.float32(0.1))
    # PIECE additions of terms, and at each level above of what is left: at most as many.
    levels = math.ceil(math.log(terms, window_product.PIECE))
    additions = min(terms, levels * (window_product.PIECE + 1))
    assert np.abs(got - want).max() <= additions * 2.0**-24 * want


@pytest.mark.parametrize("result", [dtypes.BF16, dtypes.F16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize(
    "options",
    [{}, {"feature_groups": 12}, {"sizes": {**WIDE, "C": 120}}, {"window": [W(1), W(1)]}],
    ids=str,
)
def test_sums_are_rounded_where_they_are_written(
    options: dict[str, Any], layout: str, result: DType
) -> None:
    """A sum is rounded once, in the kernel, of one piece or of several: nothing else writes or reads it in f32."""
    made = convolution(
        **{"sizes": {**WIDE, "O": 48}, "window": SAME, "layout": layout, **options}, dtype=result
    )
    after = pipeline.run(module(made.operands, made), for_cpu("x86-64-v3", False), Dump())
    products = [i for i in after.entry.instructions if i.opcode in GENERATED]
    assert [p.dtype for p in products] == [result]
    arrays = [(5 * a.astype(np.float32)).astype(result.numpy) for a in arrays_of(made)]
    (got,) = NativeSimulation(after, "x86-64-v3").run(arrays)
    np.testing.assert_array_equal(got, reference(made, *arrays))


def test_results_do_not_depend_on_how_the_work_is_shared_out() -> None:
    i = convolution({**WIDE, "C": 300}, SAME)
    generator = np.random.default_rng(1)
    values = [generator.standard_normal(o.dims).astype(np.float32) for o in i.operands]
    simulation = compiled(i)
    (got,) = simulation.run(values)
    simulation.pieces = 1
    (again,) = simulation.run(values)
    np.testing.assert_array_equal(got, again)


def test_all_tiles_of_a_panel_share_its_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large weights, few positions: a copy of a panel for each row of positions would cost a quarter of the time."""
    blocks = []
    split = window_product.WindowProduct.split

    def observed(self: Any) -> None:
        split(self)
        read_by = self.tall * math.prod(d.size for d in self.inside)
        blocks.append((self.copies(self.sums, self.piece, read_by), read_by))
        assert read_by == self.tiles * math.prod(size for size, *_ in self.outer)

    monkeypatch.setattr(window_product.WindowProduct, "split", observed)
    compiled(convolution({"N": 8, "C": 512, "O": 512, "H": 7, "W": 7}, SAME))
    ((copied, read_by),) = blocks
    assert copied
    assert read_by >= 49
