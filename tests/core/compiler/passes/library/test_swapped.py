"""Products of few rows by a matrix of [n, k], which are computed as the transpose of [n, k] by [m, k]."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels import product_forms
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.gemm import accumulator
from tripont.core.compiler.passes.library.product_costs import is_swapped
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.target import Target

from tests.core.compiler.builders import module, number, op, priced
from tests.core.compiler.codegen.kernels.test_contraction import dot, reference
from tests.core.compiler.codegen.kernels.test_packed_dot import (
    BF16,
    F16,
    F32,
    F64,
    S8,
    S32,
    U8,
    cpu,
    kinds,
    near,
    of_each_width,
    of_products,
    product,
    random,
)
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu"]
TURNED = (False, True)
# Rows that fill vectors and that do not, with fewer than a vector has; odd terms; several pieces of the sums.
SHAPES = [(16, 256, 130), (13, 257, 301), (5, 90, 700), (33, 150, 2051)]


def target_of(cpu: str, onednn: bool = False) -> Target:
    """A CPU on which each product of these tests is swapped."""
    return priced(cpu, onednn, products={"swapped_rows": 64, "swapped_vectors": 4.0})


def optimised(root: hlo.Instruction, target: Target) -> hlo.Module:
    operands = [i for i in hlo.topological_order([root]) if i.opcode == "parameter"]
    operands.sort(key=lambda p: p.attributes["index"])
    return pipeline.run(module(operands, root), target, Dump())


def tiles_of(after: hlo.Module) -> tuple[int, int]:
    """(rows, columns) of the product that is generated."""
    found = []
    for i in after.entry.instructions:
        inside = i.called[0].instructions if i.opcode == "fusion" else [i]
        found += [x.attributes["config"] for x in inside if x.opcode == "packed-dot"]
    (config,) = found
    return config["m"], config["n"]


def swaps(after: hlo.Module, n: int) -> bool:
    return tiles_of(after)[0] == n


@of_products(
    (F32, F32, F32),
    (F64, F64, F64),
    (F16, F16, F16),
    (BF16, BF16, BF16),
    (BF16, F32, F32),
    (S8, S8, S32),
    (U8, S8, S32),
    (S8, U8, S32),
)
def test_products(types: tuple[DType, DType, DType], cpu: str) -> None:
    """All are swapped but those of a matrix unit (AMX)."""
    target = target_of(cpu)
    form = product_forms.choose_dot(target, *types[:2], accumulator(types[2]))
    assert form is not None
    for m, n, k in SHAPES:
        if m < 9 and types[2].is_float:
            continue  # it streams
        made = product(types[:2], types[2], m, n, k, TURNED)
        after = optimised(made, target)
        swapped = (n, max(m, form.lanes))
        assert tiles_of(after) == ((m, n) if form.is_matrix else swapped), (m, n, k)
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
        (got,) = NativeSimulation(after, cpu).run(values)
        if types[2] is S32:
            np.testing.assert_array_equal(got, reference(made, *values))
        else:
            near(got, made, values)


def test_integers_that_are_converted() -> None:
    """They are lhs where that reads them as fast: f32, and rows that fill vectors. Others are turned in registers."""
    for dtype, m, is_lhs in ((F32, 16, True), (F32, 20, False), (BF16, 16, False)):
        target = target_of("znver4")
        x = hlo.parameter(0, hlo.Shape(dtype, (m, 1024)))
        stored = hlo.parameter(1, hlo.Shape(S8, (512, 1024)))
        made = product((dtype, dtype), dtype, m, 512, 1024, TURNED)
        made = made.replace(operands=[x, op("convert", stored, dtype=dtype)])
        after = optimised(made, target)
        assert swaps(after, 512) is is_lhs
        assert "pack" in kinds(after) if is_lhs else kinds(after)[-1] == "packed-dot"
        values = [random(o.dtype, o.dims, i) for i, o in enumerate((x, stored))]
        (got,) = NativeSimulation(after, "znver4").run(values)
        exact = values[0].astype(np.float64) @ values[1].astype(np.float64).T
        sizes = np.abs(values[0]).astype(np.float64) @ np.abs(values[1].astype(np.float64)).T
        rounding = 2.0**-8 if dtype is BF16 else 0.0
        bound = 1024 * 2.0**-24 * sizes + rounding * np.abs(exact)
        assert (np.abs(got.astype(np.float64) - exact) <= bound).all()


@of_products((S8, S8, S32), (U8, S8, S32), (S8, U8, S32), (U8, U8, S32))
def test_worst_integers(types: tuple[DType, DType, DType], cpu: str) -> None:
    limits = [(np.iinfo(t.numpy).min, np.iinfo(t.numpy).max) for t in types[:2]]
    made = product(types[:2], S32, 6, 70, 1999, TURNED)
    simulation = NativeSimulation(optimised(made, target_of(cpu)), cpu)
    for a in limits[0]:
        for b in limits[1]:
            operands = zip(made.operands, (a, b), strict=True)
            values = [np.full(o.dims, v, o.dtype.numpy) for o, v in operands]
            (got,) = simulation.run(values)
            np.testing.assert_array_equal(got, np.full((6, 70), 1999 * int(a) * int(b), np.int32))


def with_epilogue(name: str, product: hlo.Instruction) -> tuple[hlo.Instruction, Any]:
    """What is computed of a product, and the same in NumPy from the product and the third operand."""
    dims = product.dims
    if name == "bias":
        bias = hlo.parameter(2, hlo.Shape(F32, dims[-1:]))
        across = op("broadcast", bias, dims=dims, dimensions=(len(dims) - 1,))
        return op("add", product, across), lambda p, c: p + c
    other = hlo.parameter(2, hlo.Shape(F32, dims))
    if name == "scaled":
        scaled = op("multiply", product, number(0.5, *dims))
        return op("add", scaled, other), lambda p, c: p * 0.5 + c
    return op("subtract", other, product), lambda p, c: c - p


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("name", ["bias", "scaled", "subtracted"])
@of_each_width
def test_what_is_added(name: str, onednn: bool, cpu: str) -> None:
    made = dot((2, 8, 260), (200, 260), ((2,), (1,)))
    root, expected = with_epilogue(name, made)
    after = optimised(root, target_of(cpu, onednn))
    assert swaps(after, 200)
    shapes = [made.operands[0].dims, made.operands[1].dims, (200,) if name == "bias" else made.dims]
    values = [random(F32, dims, i) for i, dims in enumerate(shapes)]
    (got,) = NativeSimulation(after, cpu).run(values)
    wide = made.replace(shape=made.shape.with_dtype(F64))
    exact = expected(reference(wide, *values[:2]), values[2].astype(np.float64))
    sizes = reference(wide, *(np.abs(v) for v in values[:2])) + np.abs(values[2])
    assert got.shape == made.dims
    assert (np.abs(got - exact) <= 262 * 2.0**-24 * sizes).all()


def test_matrices_that_are_turned_anyway_or_computed() -> None:
    """A constant is packed when the program is compiled, a matrix that is computed while it is packed."""
    target = target_of("host")
    made = product((F32, F32), F32, 32, 256, 256, TURNED)
    assert swaps(optimised(made, target), 256)
    constant = hlo.constant(random(F32, (256, 256), 1), F32)
    assert not swaps(optimised(made.replace(operands=[made.operands[0], constant]), target), 256)
    scaled = op("multiply", made.operands[1], number(0.3, 256, 256))
    assert not swaps(optimised(made.replace(operands=[made.operands[0], scaled]), target), 256)
    for transposed in ((False, False), (True, True)):
        other = product((F32, F32), F32, 32, 256, 256, transposed)
        assert not swaps(optimised(other, target), 256)


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype", "wanted"),
    [
        (16, 64, 64, F32, True),
        (16, 64, 63, F32, False),  # few terms
        (16, 63, 64, F32, False),  # few columns
        (12, 63, 64, F32, False),  # a vector has 16
        (256, 1024, 1024, F32, True),
        (256, 1024, 1023, F32, False),
        (257, 2048, 2048, F32, False),  # many rows
        (12, 512, 512, F32, True),
        (11, 512, 512, F32, False),  # most of a vector would be empty
        (11, 1024, 1024, F32, True),  # but the matrix is far away
        (12, 512, 512, F64, True),
        (9, 300, 300, F64, False),
        (24, 512, 512, F64, True),
    ],
)
def test_which_are_swapped_on_a_zen_4(m: int, n: int, k: int, dtype: DType, wanted: bool) -> None:
    for name in ("znver4", "sapphirerapids", "x86-64-v3"):
        target = for_cpu(name)
        form = product_forms.choose(target, dtype, dtype, dtype)
        assert form is not None
        assert is_swapped(form, m, n, k, target) is (wanted and name == "znver4")


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_choice_beside_onednn_on_a_zen_4(dtype: DType) -> None:
    """oneDNN turns a matrix faster: the vectors of those that are not turned are nearly full."""
    target = for_cpu("znver4", True)
    for m, generated in ((14, True), (16, True), (32, True), (64, True), (13, False), (20, False)):
        after = optimised(product((dtype, dtype), dtype, m, 1024, 1024, TURNED), target)
        assert ("packed-dot" in kinds(after)) is generated, m
        assert ("library-call" in kinds(after)) is not generated, m


def test_rows_that_fill_two_vectors_are_not_streamed_on_a_zen_3() -> None:
    for dtype, m, swapped in ((F64, 8, True), (F64, 7, False), (F64, 4, False), (F32, 8, False)):
        after = optimised(product((dtype, dtype), dtype, m, 512, 512, TURNED), for_cpu("znver3"))
        assert ("packed-dot" in kinds(after)) is swapped, (dtype, m)


def test_few_rows_are_swapped_on_a_zen_3() -> None:
    for m, swapped in ((9, False), (16, True), (64, True), (256, True), (257, False)):
        form = product_forms.choose(for_cpu("znver3"), F32, F32, F32)
        assert form is not None
        assert is_swapped(form, m, 1024, 128 + 4 * m, for_cpu("znver3")) is swapped, m


def test_rows_that_fill_a_vector_of_f64_are_not_streamed_on_a_zen_4() -> None:
    for name in ("znver4", "x86-64-v4"):
        for m, swapped in ((6, False), (7, True), (8, True)):
            after = optimised(product((F64, F64), F64, m, 512, 512, TURNED), for_cpu(name))
            assert ("packed-dot" in kinds(after)) is (swapped and name == "znver4")
        after = optimised(product((F64, F64), F64, 8, 512, 512), for_cpu(name))
        assert "packed-dot" not in kinds(after)
