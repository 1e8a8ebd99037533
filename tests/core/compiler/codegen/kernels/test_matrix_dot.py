"""Products with AMX, on a CPU that emulates it (:mod:`...emulated_matrices`).

The tests of other generated products run here again, for a CPU with AMX.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels import packed_dot, product_forms
from tripont.core.compiler.codegen.kernels.emit import emit_kernel
from tripont.core.compiler.codegen.kernels.matrix_dot import LONGEST_SUM
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import cpu as cpus
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, op
from tests.core.compiler.codegen.emulated_matrices import Registers
from tests.core.compiler.codegen.kernels.test_contraction import reference
from tests.core.compiler.codegen.kernels.test_packed_dot import (
    kinds,
    near,
    product,
    random,
    stack_bytes,
    test_batches,
    test_conversions_are_part_of_the_packing,
    test_copied_panels,
    test_floats,
    test_integers,
    test_transposed_result,
    test_worst_integers,
)
from tests.core.compiler.codegen.kernels.test_packed_epilogue import (
    test_conversion_of_the_result,
    test_epilogues,
    test_products_are_rounded_where_they_are_stored,
    test_quantised,
    test_scalars,
)
from tests.core.compiler.codegen.kernels.test_packed_weights import test_dequantised
from tests.core.compiler.test_native import NativeSimulation

__all__ = [
    "test_batches",
    "test_conversion_of_the_result",
    "test_conversions_are_part_of_the_packing",
    "test_copied_panels",
    "test_dequantised",
    "test_epilogues",
    "test_floats",
    "test_integers",
    "test_products_are_rounded_where_they_are_stored",
    "test_quantised",
    "test_scalars",
    "test_transposed_result",
    "test_worst_integers",
]

S8, U8, S32 = dtypes.S8, dtypes.U8, dtypes.S32
BF16, F32 = dtypes.BF16, dtypes.F32
AMX = ("amx-tile", "amx-bf16", "amx-int8")


@pytest.fixture
def registers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registers]:
    made = Registers()
    made.install(monkeypatch)
    yield made
    assert not made.problems
    assert not made.values, "a kernel left registers in use"


@pytest.fixture
def cpu(registers: Registers) -> str:
    """The highest level of this CPU, with AMX besides."""
    present = set(cpus.detect()[1])
    for level in ("x86-64-v4", "x86-64-v3"):
        if present.issuperset(cpus.describe(level)[1]):
            return "+".join((level, *AMX))
    pytest.skip("this CPU lacks AVX2")


# Rows, columns and terms: one register and several, whole and not; few rows; several pieces of a sum, each from zero or
# not; and whether rhs is copied by units, packed as it lies, turned, or packed before.
SHAPES = [
    (544, 64, 128, "packed"),
    (520, 90, 83, "packed"),
    (513, 40, 4099, "packed"),
    (64, 64, 128, "copied"),
    (187, 90, 83, "copied"),
    (129, 48, 2051, "copied"),
    (5, 130, 520, "copied"),
    (16, 64, 330, "copied"),
    (20, 192, 100, "copied"),
    (16, 96, 4200, "copied"),
    (33, 40, LONGEST_SUM + 70, "copied"),
    (9, 257, 301, "turned"),
    (17, 16, 1000, "turned"),
    (100, 70, 2047, "turned"),
    (40, 70, 301, "literal"),
]


@pytest.mark.parametrize("types", [(S8, S8), (U8, S8), (BF16, BF16)], ids=str)
def test_shapes(types: tuple[DType, DType], cpu: str, registers: Registers) -> None:
    result = F32 if types[0] is BF16 else S32
    for m, n, k, way in SHAPES:
        made = product(types, result, m, n, k, (False, way == "turned"))
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
        operands = list(made.operands)
        if way == "literal":
            operands[1] = hlo.constant(values[1], types[1])
        parameters = [o for o in operands if o.opcode == "parameter"]
        instruction = made.replace(operands=operands)
        after = pipeline.run(module(parameters, instruction), for_cpu(cpu, False), Dump())
        packs = [i for i in after.entry.instructions if i.opcode == "pack"]
        assert [p.attributes["config"].get("turns", False) for p in packs] == {
            "packed": [False], "turned": [True], "copied": [], "literal": [],
        }[way]  # fmt: skip
        assert kinds(after)[-1] == "packed-dot"
        before = registers.multiplications
        (got,) = NativeSimulation(after, cpu).run(values[: len(parameters)])
        assert registers.multiplications > before
        if result is S32:
            np.testing.assert_array_equal(got, reference(made, *values), f"{m} {n} {k}")
        else:
            near(got, made, values)


def test_the_largest_bf16_lie_beside_zeros(cpu: str) -> None:
    """What is behind a row's last element is not multiplied by the zeros behind the matrix: it might be infinite."""
    made = product((BF16, BF16), F32, 64, 64, 100)
    both = hlo.parameter(0, hlo.Shape(BF16, (65, 100)))
    lhs = hlo.Instruction(
        "slice", made.operands[0].shape, (both,), {"starts": (0, 0), "limits": (64, 100), "strides": (1, 1)}
    )  # fmt: skip
    after = pipeline.run(
        module([both, made.operands[1]], made.replace(operands=(lhs, made.operands[1]))),
        for_cpu(cpu, False),
        Dump(),
    )
    values = [random(BF16, o.dims, i) for i, o in enumerate((both, made.operands[1]))]
    values[0][64] = np.inf
    (got,) = NativeSimulation(after, cpu).run(values)
    near(got, made, [values[0][:64], values[1]])


def test_rows_beside_infinite_ones_are_finite(cpu: str) -> None:
    """The copy of a row ends with the row: the next one's elements are not multiplied by the zeros behind the sums."""
    made = product((BF16, BF16), F32, 64, 64, 100)
    after = pipeline.run(module(made.operands, made), for_cpu(cpu, False), Dump())
    values = [random(BF16, o.dims, i) for i, o in enumerate(made.operands)]
    (plain,) = NativeSimulation(after, cpu).run(values)
    values[0][7] = np.inf
    (got,) = NativeSimulation(after, cpu).run(values)
    others = np.arange(64) != 7
    np.testing.assert_array_equal(got[others], plain[others])


@pytest.mark.parametrize(
    ("m", "n"), list(itertools.product((1, 5, 16, 17, 31, 32, 33, 100), (16, 40, 64, 500)))
)
def test_tiles_fit_the_registers(m: int, n: int) -> None:
    target = for_cpu("+".join(("x86-64-v4", *AMX)), False)
    form = product_forms.choose_matrix(target, S8, S8, S32)
    assert form is not None
    tile = product_forms.choose_tile(target.costs.tiles, form, m, n)
    assert tile is not None
    assert 1 <= tile.rows <= min(m, 32)
    assert tile.vectors * form.lanes <= n
    assert -(-tile.rows // 16) * tile.vectors <= 4


@pytest.mark.parametrize(
    ("m", "n", "k", "units"),
    [
        (2048, 2048, 2048, 64),  # of 256 rows, which stay in the second cache
        (256, 256, 4096, 4),
        (128, 128, 8192, 4),
        (256, 4096, 1024, 32),  # what is copied of 128 columns fits the stack
        (256, 256, 256, 4),  # operands in the second cache: units are short
    ],
)
def test_units_read_little_from_afar(m: int, n: int, k: int, units: int) -> None:
    """Smaller units of long operands would read them more often, which takes longer than their products."""
    made = product((BF16, BF16), F32, m, n, k)
    found = []
    for threads in (4, 64):
        target = for_cpu("+".join(("graniterapids", *AMX)), False, threads=threads)
        after = pipeline.run(module(made.operands, made), target, Dump())
        (dot,) = (i for i in after.entry.instructions if i.opcode == "packed-dot")
        found.append(packed_dot.emit(target.module(), target, dot, "product").work_count)
    assert found[0] == units
    assert found[1] > units or k == 256


@pytest.mark.parametrize(
    ("m", "n", "k", "units"),
    [
        (128, 128, 8192, [1, 2, 4]),
        (256, 256, 4096, [2, 2, 4]),  # a unit keeps the sums of half of the result
        (256, 256, 256, [4, 4, 4]),
    ],
)
def test_units_that_read_are_as_many_as_threads(m: int, n: int, k: int, units: list[int]) -> None:
    made = product((BF16, BF16), F32, m, n, k)
    found = []
    for threads in (1, 2, 4):
        target = for_cpu("+".join(("graniterapids", *AMX)), False, threads=threads)
        after = pipeline.run(module(made.operands, made), target, Dump())
        (dot,) = (i for i in after.entry.instructions if i.opcode == "packed-dot")
        found.append(packed_dot.emit(target.module(), target, dot, "product").work_count)
    assert found == units


def rounded(k: int, scaled: bool) -> hlo.Instruction:
    """A product of [48, k] by [k, 48] in bf16, or in f32, multiplied by a number and converted to bf16."""
    made = product((BF16, BF16), F32 if scaled else BF16, 48, 48, k)
    if not scaled:
        return made
    factor = op("broadcast", hlo.constant(0.5, F32), dims=made.dims, dimensions=())
    return op("convert", op("multiply", made, factor, dims=made.dims), dims=made.dims, dtype=BF16)


@pytest.mark.parametrize(
    ("k", "scaled", "by_instruction"),
    [(128, False, True), (LONGEST_SUM + 64, False, False), (128, True, False)],
)
def test_sums_are_rounded_by_the_instruction_if_none_is_subnormal(
    k: int, scaled: bool, by_instruction: bool, cpu: str
) -> None:
    found = []
    for name in (cpu, f"{cpu}+avx512bf16"):
        root = rounded(k, scaled)
        operands = [i for i in hlo.topological_order([root]) if i.opcode == "parameter"]
        target = for_cpu(name, False)
        after = pipeline.run(module(operands, root), target, Dump())
        last = after.entry.root
        code = target.module()
        emit_kernel(code, target, last, "product")
        has_instruction = "avx512bf16" in name and target.vector_bytes == 64
        assert ("cvtneps2bf16" in str(code)) == (by_instruction and has_instruction)
        if "avx512bf16" in name and "avx512bf16" not in cpus.detect()[1]:
            continue
        values = [random(BF16, o.dims, n) for n, o in enumerate(operands)]
        found.append(NativeSimulation(after, name).run(values)[0])
    np.testing.assert_array_equal(found[0], found[-1])


@pytest.mark.parametrize(("m", "n", "in_memory"), [(544, 64, False), (1000, 1000, True)])
def test_sums_of_far_results_are_written_in_vectors(m: int, n: int, in_memory: bool) -> None:
    """Registers store each of their rows by itself: that is slow far away, most of all where rows share lines."""
    made = product((S8, S8), S32, m, n, 256)
    target = for_cpu("+".join(("graniterapids", *AMX)), False)
    after = pipeline.run(module(made.operands, made), target, Dump())
    code = target.module()
    emit_kernel(code, target, after.entry.root, "product")
    assert (stack_bytes(str(code)) > 0) == in_memory
