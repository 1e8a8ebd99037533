"""Packed products with the instruction that multiplies pairs of bf16 (vdpbf16ps), and which products get it."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels import product_forms
from tripont.core.compiler.codegen.kernels.emit import emit_kernel
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.product_costs import prefers_pairs
from tripont.core.compiler.targets.host import cpu as cpus
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, op
from tests.core.compiler.codegen.kernels.test_packed_dot import kinds, near, product, random
from tests.core.compiler.test_native import NativeSimulation

BF16, F32, S8, S32 = dtypes.BF16, dtypes.F32, dtypes.S8, dtypes.S32
CPU = "znver4"
runs_here = pytest.mark.skipif(
    bool(set(cpus.describe(CPU)[1]) - set(cpus.detect()[1])), reason="this CPU lacks instructions"
)


def optimised(root: hlo.Instruction, onednn: bool = False, cpu: str = CPU) -> hlo.Module:
    operands = [i for i in hlo.topological_order([root]) if i.opcode == "parameter"]
    return pipeline.run(module(operands, root), for_cpu(cpu, onednn), Dump())


def code_of(after: hlo.Module, cpu: str = CPU) -> str:
    target = for_cpu(cpu, False)
    code = target.module()
    emit_kernel(code, target, after.entry.root, "product")
    return str(code)


def test_pairs_are_multiplied_where_that_is_faster() -> None:
    for cpu, name in ((CPU, product_forms.BF16_PAIRS), ("cooperlake", "fma"), ("x86-64-v4", "fma")):
        form = product_forms.choose_dot(for_cpu(cpu, False), BF16, BF16, F32)
        assert form is not None
        assert form.name == name
    mixed = product_forms.choose_dot(for_cpu(CPU, False), BF16, F32, F32)
    assert mixed is not None
    assert mixed.name == "fma"


@runs_here
@pytest.mark.parametrize("result", [BF16, F32], ids=str)
def test_products(result: dtypes.DType) -> None:
    """Read where they lie and copied, with and without a last half of a pair; packed; [n, k]; [k, m]; a batch."""
    for m, n, k, transposed, batch, packs in (
        (40, 90, 130, (False, False), 0, False),
        (40, 90, 131, (False, False), 0, True),
        (300, 257, 2050, (False, False), 0, False),
        (600, 100, 300, (False, False), 0, True),
        (80, 301, 517, (False, True), 0, True),
        (70, 90, 300, (True, False), 0, False),
        (50, 70, 69, (True, True), 3, True),
        (12, 300, 520, (False, False), 2, False),
    ):
        made = product((BF16, BF16), result, m, n, k, transposed, batch)
        after = optimised(made)
        assert ("pack" in kinds(after)) == packs, (m, n, k)
        assert kinds(after)[-1] == "packed-dot"
        assert "dpbf16ps" in code_of(after)
        values = [random(BF16, o.dims, i) for i, o in enumerate(made.operands)]
        (got,) = NativeSimulation(after, CPU).run(values)
        near(got, made, values)


@pytest.mark.parametrize(
    ("k", "scaled", "by_instruction"),
    [(128, False, True), (4096, False, False), (128, True, False)],
)
def test_sums_are_rounded_by_the_instruction_if_none_is_subnormal(
    k: int, scaled: bool, by_instruction: bool
) -> None:
    """The instruction that rounds takes subnormal numbers for zero: sums of pieces and scaled ones may be such."""
    root = product((BF16, BF16), F32 if scaled else BF16, 48, 48, k)
    if scaled:
        factor = op("broadcast", hlo.constant(0.5, F32), dims=root.dims, dimensions=())
        scaled_sums = op("multiply", root, factor, dims=root.dims)
        root = op("convert", scaled_sums, dims=root.dims, dtype=BF16)
    after = optimised(root)
    assert ("cvtneps2bf16" in code_of(after)) == by_instruction
    if set(cpus.describe(CPU)[1]) - set(cpus.detect()[1]):
        return
    a, b = (random(BF16, (48, k) if n == 0 else (k, 48), n) for n in range(2))
    sums = {}
    for to in (F32, BF16):
        made = product((BF16, BF16), to, 48, 48, k)
        (sums[to],) = NativeSimulation(optimised(made), CPU).run([a, b])
    (got,) = NativeSimulation(after, CPU).run([a, b])
    wanted = (sums[F32] * np.float32(0.5)).astype(BF16.numpy) if scaled else sums[BF16]
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(sums[BF16], sums[F32].astype(BF16.numpy))


def test_pairs_that_are_used_once_are_repeated_by_the_instruction() -> None:
    """A result of one vector of columns: an instruction of its own for each pair would take a third longer."""
    target = for_cpu(CPU, False)
    root = optimised(product((BF16, BF16), F32, 500, 16, 512)).entry.root
    code = target.module()
    emit_kernel(code, target, root, "product")
    assembly = target.compile(code, dump=True).assembly
    products = [line for line in assembly.splitlines() if "vdpbf16ps" in line]
    assert products
    assert all("{1to16}" in line for line in products)


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize(
    ("m", "n", "k", "transposed", "multiplied"),
    [
        (5, 512, 512, (False, False), True),
        (8, 4096, 2048, (False, False), True),
        (4, 512, 512, (False, False), False),
        (8, 4112, 2048, (False, False), False),  # 16 MB and more: memory decides
        (8, 512, 511, (False, False), False),  # half a pair
        (8, 520, 512, (False, False), True),  # 33 vectors for 32.5
        (8, 131, 1024, (False, False), False),  # 9 vectors for 8.2
        (8, 512, 512, (False, True), False),
    ],
)
def test_few_rows_are_multiplied_rather_than_streamed(
    m: int, n: int, k: int, transposed: tuple[bool, bool], multiplied: bool, onednn: bool
) -> None:
    made = product((BF16, BF16), BF16, m, n, k, transposed)
    assert ("packed-dot" in kinds(optimised(made, onednn))) is multiplied
    assert "packed-dot" not in kinds(optimised(made, onednn, "cooperlake"))
    bytes_ = hlo.parameter(1, hlo.Shape(S8, made.operands[1].dims))
    weights = op("convert", bytes_, dtype=BF16)
    dequantised = made.replace(operands=[made.operands[0], weights])
    assert "packed-dot" not in kinds(optimised(dequantised, onednn))


@runs_here
def test_few_rows() -> None:
    for m, n, k in ((5, 512, 512), (8, 300, 1002), (7, 4000, 258)):
        made = product((BF16, BF16), BF16, m, n, k)
        after = optimised(made)
        assert kinds(after) == ["packed-dot"], (m, n, k)
        values = [random(BF16, o.dims, i) for i, o in enumerate(made.operands)]
        (got,) = NativeSimulation(after, CPU).run(values)
        near(got, made, values)


@runs_here
def test_numbers_that_are_not_finite() -> None:
    made = product((BF16, BF16), F32, 64, 64, 66)
    a, b = (random(BF16, o.dims, i) for i, o in enumerate(made.operands))
    a[3, 65], a[4, 1], b[9, 5] = np.inf, np.nan, -np.inf
    (got,) = NativeSimulation(optimised(made), CPU).run([a, b])
    exact = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(exact))
    np.testing.assert_array_equal(np.sign(got[np.isinf(got)]), np.sign(exact[np.isinf(exact)]))


@pytest.mark.parametrize(
    ("m", "n", "k", "transposed", "generated"),
    [
        (64, 64, 64, (False, True), True),
        (128, 128, 128, (True, True), True),
        (128, 128, 130, (False, True), False),  # turned in the packing
        (128, 128, 130, (True, False), False),
        (128, 128, 130, (False, False), True),
        (128, 129, 130, (False, False), False),  # 9 vectors for 8.1
        (512, 512, 512, (False, False), True),
        (512, 512, 513, (False, False), False),  # half a pair
        (1024, 1024, 126, (False, False), False),  # few terms
    ],
)
def test_choice_beside_onednn(
    m: int, n: int, k: int, transposed: tuple[bool, bool], generated: bool
) -> None:
    after = optimised(product((BF16, BF16), BF16, m, n, k, transposed), onednn=True)
    assert ("packed-dot" in kinds(after)) is generated
    assert ("library-call" in kinds(after)) is not generated
    assert prefers_pairs(m, n, k, False, for_cpu(CPU, False))
