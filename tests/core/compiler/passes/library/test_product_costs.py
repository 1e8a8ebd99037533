"""Which matrix products are generated although there is oneDNN, by type and size."""

from __future__ import annotations

import pytest
from tripont.core.compiler.codegen.kernels import product_forms
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.passes.library.product_costs import is_large_enough, prefers_generated
from tripont.core.compiler.targets.host import for_cpu

F32 = (dtypes.F32,) * 3
BF16 = (dtypes.BF16, dtypes.BF16, dtypes.F32)


@pytest.mark.parametrize(
    ("m", "n", "k", "generated"),
    [
        (112, 112, 112, True),
        (1000, 32, 40, True),
        (1000, 31, 40, False),  # less than two vectors of columns
        (64, 64, 224, True),
        (224, 224, 224, True),
        (63, 224, 224, False),
        (224, 63, 224, False),
        (225, 224, 224, False),
        (224, 225, 224, False),
        (224, 224, 225, False),
        (128, 1024, 4096, True),
        (129, 1024, 4096, False),
        (128, 1023, 4096, False),
        (512, 512, 512, False),
        (960, 1088, 960, True),  # operands of 7.5 MB
        (960, 1087, 960, False),
        (4096, 512, 512, True),
        (4096, 511, 512, False),
        (511, 4096, 512, False),
    ],
)
def test_f32(m: int, n: int, k: int, generated: bool) -> None:
    assert prefers_generated(F32, m, n, k, for_cpu("x86-64-v4")) is generated
    assert prefers_generated(F32, m, n, k, for_cpu("x86-64-v4", onednn=False))


def test_large_f32_is_the_library_s_where_generated_code_is_not_known_to_be_faster() -> None:
    assert not prefers_generated(F32, 2048, 2048, 2048, for_cpu("x86-64-v3"))
    zens = for_cpu("znver4"), for_cpu("znver5")
    for zen in zens:
        for m, n, k in ((2048, 2048, 2048), (300, 32, 700), (300, 300, 300)):
            assert prefers_generated(F32, m, n, k, zen)
            many = m >= zen.costs.products.turned_rows  # of a Zen 4, 1,024
            assert prefers_generated(F32, m, n, k, zen, turned=True) is many
        assert not prefers_generated(F32, 300, 31, 700, zen)
    assert prefers_generated(F32, 1024, 32, 700, zens[0], turned=True)
    assert not prefers_generated(F32, 1023, 32, 700, zens[0], turned=True)
    # A rhs of [n, k] is turned, which takes a library less: but for small products and those of few rows elsewhere.
    for target in (*zens, for_cpu("x86-64-v4")):
        assert prefers_generated(F32, 224, 224, 224, target, turned=True)
        few = prefers_generated(F32, 16, 2048, 2048, target, turned=True)
        assert few is (target not in zens)


@pytest.mark.parametrize(
    ("m", "n", "k", "generated"),
    [
        (300, 300, 300, True),
        (2048, 2048, 2048, True),
        (300, 16, 700, True),
        (300, 15, 700, False),  # less than two vectors of columns
        (128, 1000, 1000, False),  # few rows
        (129, 1000, 1000, True),
        (128, 512, 512, True),  # whose rhs lies in rows of 2 KB
        (64, 4096, 512, True),
        (64, 4000, 512, False),
        (63, 768, 768, False),
        (64, 768, 768, True),  # rows of 3 KB, which so many rows copy in long runs
        (128, 576, 1536, False),
        (29, 3000, 1000, True),
        (30, 3000, 1000, False),  # 400,000 bytes of rhs for each row
        (64, 500, 64, False),
        (64, 220, 64, True),  # a small one
    ],
)
def test_f32_on_a_zen_3(m: int, n: int, k: int, generated: bool) -> None:
    target = for_cpu("znver3")
    assert prefers_generated(F32, m, n, k, target) is generated
    assert prefers_generated(F32, m, n, k, target, turned=True) is (n >= 16)
    assert prefers_generated(F32, m, n, k, for_cpu("znver3", onednn=False))


@pytest.mark.parametrize(
    ("m", "n", "k", "generated"),
    [(256, 128, 256, True), (256, 127, 256, False), (255, 127, 256, True)],
)
def test_f32_by_a_lhs_of_k_m_on_a_zen_3(m: int, n: int, k: int, generated: bool) -> None:
    """A library's if lhs is large and the columns are so few that transposing it takes as long as multiplying it."""
    assert prefers_generated(F32, m, n, k, for_cpu("znver3"), turned_lhs=True) is generated
    assert prefers_generated(F32, m, n, k, for_cpu("znver3"))
    assert prefers_generated(F32, m, n, k, for_cpu("znver4"), turned_lhs=True)
    assert prefers_generated(F32, m, n, k, for_cpu("znver3", onednn=False), turned_lhs=True)


def test_bf16_by_bf16_is_generated_without_pairs_of_them() -> None:
    """Pairs, and registers of matrices, are asked first (tests/core/compiler/codegen/kernels/test_bf16_pairs.py)."""
    assert prefers_generated(BF16, 512, 512, 512, for_cpu("x86-64-v4"))
    integers = (dtypes.S8, dtypes.S8, dtypes.S32)
    assert prefers_generated(integers, 96, 96, 96, for_cpu("znver4"))


@pytest.mark.parametrize(
    ("dtype", "m", "n", "k", "zen", "others"),
    [
        (dtypes.F64, 50, 50, 50, True, False),
        (dtypes.F64, 50, 50, 49, False, False),
        (dtypes.F64, 50, 50, 100, True, False),
        (dtypes.F64, 50, 50, 101, False, False),  # two threads share the "dot" kernel
        (dtypes.F64, 80, 80, 79, False, False),
        (dtypes.F64, 80, 80, 80, True, True),
        (dtypes.F64, 50, 127, 20, True, False),
        (dtypes.F64, 60, 127, 19, False, False),  # few terms
        (dtypes.F64, 49, 128, 20, False, False),  # rows of 1 KB
        (dtypes.F64, 32, 128, 125, True, True),
        (dtypes.F32, 25, 255, 20, True, False),
        (dtypes.F32, 25, 256, 20, False, False),
        (dtypes.F32, 65, 65, 65, True, False),
        (dtypes.F32, 79, 79, 79, True, False),
        (dtypes.F32, 50, 100, 100, True, False),
        (dtypes.F32, 50, 100, 101, False, False),
        (dtypes.F32, 25, 40, 500, True, False),
        (dtypes.F32, 24, 40, 501, False, False),  # many terms
        (dtypes.F32, 4, 200, 200, False, False),
    ],
)
def test_small_products_are_packed_sooner_on_zen(
    dtype: DType, m: int, n: int, k: int, zen: bool, others: bool
) -> None:
    chosen = dict.fromkeys(("znver3", "znver4", "znver5"), zen)
    chosen |= dict.fromkeys(("sapphirerapids", "x86-64-v3"), others)
    for cpu, wanted in chosen.items():
        target = for_cpu(cpu)
        form = product_forms.choose(target, dtype, dtype, dtype)
        assert form is not None
        assert is_large_enough(form, (dtype, dtype), 1, m, n, k, target) is wanted, cpu


@pytest.mark.parametrize(
    ("n", "on_zen_5", "on_zen_4"), [(39, False, False), (40, True, False), (64, True, True)]
)
def test_small_products_of_bf16_are_packed_sooner_on_zen_5_and_zen_3(
    n: int, on_zen_5: bool, on_zen_4: bool
) -> None:
    for cpu, wanted in (("znver5", on_zen_5), ("znver3", on_zen_5), ("znver4", on_zen_4)):
        target = for_cpu(cpu)
        form = product_forms.choose_dot(target, *BF16)
        assert form is not None
        assert is_large_enough(form, BF16[:2], 1, n, n, n, target) is wanted, cpu
