"""Dots of all dimension numbers, layouts, sizes and dtypes, against NumPy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.target import Target

from tests.core.compiler.codegen.harness import Kernel, fusion, op

Array = np.ndarray[Any, Any]


def values(shape: Sequence[int], dtype: DType, seed: int) -> Array:
    """Small numbers, so that sums of products are exact or nearly so in every dtype."""
    generator = np.random.default_rng(seed)
    if dtype.kind == "pred":
        return generator.random(shape) < 0.3
    whole = generator.integers(0 if dtype.kind == "uint" else -3, 4, shape)
    if dtype.is_complex:
        return (whole + 1j * generator.integers(-3, 4, shape)).astype(dtype.numpy)
    return whole.astype(dtype.numpy)


def dot(
    lhs: Sequence[int],
    rhs: Sequence[int],
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    dtype: DType = dtypes.F32,
    result: DType | None = None,
) -> hlo.Instruction:
    a, b = (
        hlo.parameter(0, hlo.Shape(dtype, tuple(lhs))),
        hlo.parameter(1, hlo.Shape(dtype, tuple(rhs))),
    )
    dims = [lhs[d] for d in batch[0]]
    dims += [n for d, n in enumerate(lhs) if d not in {*batch[0], *contracting[0]}]
    dims += [n for d, n in enumerate(rhs) if d not in {*batch[1], *contracting[1]}]
    numbers = hlo.DotDimensionNumbers(*(tuple(x) for x in (*contracting, *batch)))
    shape = hlo.Shape(result or dtype, tuple(dims))
    return op("dot", shape, a, b, dimension_numbers=numbers, precision=("DEFAULT", "DEFAULT"))


def reference(instruction: hlo.Instruction, a: Array, b: Array) -> Array:
    n = instruction.attributes["dimension_numbers"]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in a.shape]
    right = [next(letters) for _ in b.shape]
    for i, j in zip(
        (*n.lhs_batch, *n.lhs_contracting), (*n.rhs_batch, *n.rhs_contracting), strict=True
    ):
        right[j] = left[i]
    out = [left[d] for d in n.lhs_batch]
    out += [x for d, x in enumerate(left) if d not in {*n.lhs_batch, *n.lhs_contracting}]
    out += [x for d, x in enumerate(right) if d not in {*n.rhs_batch, *n.rhs_contracting}]
    dtype = instruction.dtype
    exact = dtype.is_integer or dtype.kind == "pred"
    # BLAS multiplies what is exact in f64: sums of at most 2^23 products of 16-bit integers.
    blas = not exact or max(a.itemsize, b.itemsize) <= 2
    wide: Any = np.complex128 if dtype.is_complex else np.float64 if blas else np.int64
    equation = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    result = np.einsum(equation, a.astype(wide), b.astype(wide), optimize=blas)
    if dtype.kind == "pred":
        return np.asarray(result != 0)
    return np.asarray((result.astype(np.int64) if exact else result).astype(dtype.numpy))


def check(instruction: hlo.Instruction, cpu: str = "host") -> None:
    check_on(instruction, for_cpu(cpu))


def check_on(instruction: hlo.Instruction, target: Target) -> None:
    a, b = (values(o.dims, o.dtype, n) for n, o in enumerate(instruction.operands))
    kernel = Kernel(instruction, target)
    count = kernel.emitted.work_count
    (got,) = kernel.run([a, b], [count // 3, count // 2])
    np.testing.assert_array_equal(got.astype(instruction.dtype.numpy), reference(instruction, a, b))


SIZES = [
    (1, 1, 1),
    (2, 3, 4),
    (32, 32, 32),
    (7, 17, 33),
    (33, 40, 5),
    (13, 100, 19),
    (1, 65, 70),
    (65, 1, 70),
    (5, 9, 0),
]
LAYOUTS = {"nn": (1, 0), "nt": (1, 1), "tn": (0, 0), "tt": (0, 1)}


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_matrix_products(layout: str, cpu: str) -> None:
    i, j = LAYOUTS[layout]
    for m, n, k in SIZES:
        lhs, rhs = ((m, k), (k, m))[1 - i], ((k, n), (n, k))[j]
        check(dot(lhs, rhs, ((i,), (j,))), cpu)


ALL = [d for d in dtypes.ALL if d.bits >= 8 and d not in (dtypes.F8E8M0FNU,)]


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("layout", ["nn", "nt", "tt"])
def test_dtypes(dtype: DType, layout: str) -> None:
    i, j = LAYOUTS[layout]
    small = dtype.is_float and dtype.bits == 8
    for m, n, k in [(3, 21, 2), (1, 9, 3)] if small else [(9, 21, 18), (1, 40, 11)]:
        lhs, rhs = ((m, k), (k, m))[1 - i], ((k, n), (n, k))[j]
        result = dtypes.F32 if small else dtype
        check(dot(lhs, rhs, ((i,), (j,)), dtype=dtype, result=result))


@pytest.mark.parametrize(
    ("dtype", "result"),
    [(dtypes.S8, dtypes.S32), (dtypes.U8, dtypes.S32), (dtypes.BF16, dtypes.F32), (dtypes.F32, dtypes.F64),
     (dtypes.S4, dtypes.S8), (dtypes.F16, dtypes.F32)],
)  # fmt: skip
def test_wider_results(dtype: DType, result: DType) -> None:
    check(dot((9, 33), (33, 20), ((1,), (0,)), dtype=dtype, result=result))
    check(dot((9, 33), (20, 33), ((1,), (1,)), dtype=dtype, result=result))


def test_all_dimension_numbers_of_rank_three() -> None:
    lhs = (2, 3, 5)
    for batch, contracting in itertools.permutations(range(3), 2):
        for b, c in itertools.permutations(range(3), 2):
            rhs = [4, 4, 4]
            rhs[b], rhs[c] = lhs[batch], lhs[contracting]
            check(dot(lhs, rhs, ((contracting,), (c,)), ((batch,), (b,))))


@pytest.mark.parametrize(
    "instruction",
    [
        dot(
            (2, 3, 4, 5), (4, 3, 6, 2), ((1, 2), (1, 0)), ((0,), (3,))
        ),  # two contracted dimensions, crossed
        dot((3, 4, 5), (3, 4, 5), ((0, 1, 2), (0, 1, 2))),  # everything contracted
        dot((3, 4), (5, 6), ((), ())),  # an outer product
        dot((2, 3, 4), (2, 3, 5), ((), ()), ((0, 1), (0, 1))),
        dot((), (3, 4), ((), ())),
        dot((7, 1, 8), (1, 8, 9), ((1, 2), (0, 1))),
        dot((2, 17, 3, 8), (3, 8, 19), ((2, 3), (0, 1))),
        dot((4, 6), (4, 6), ((1,), (1,)), ((0,), (0,))),
        dot((4, 16, 33), (4, 33), ((2,), (1,)), ((0,), (0,))),
        # A large matrix whose last dimension of columns is shorter than a vector.
        dot((64, 96), (96, 3, 4, 64), ((0,), (3,)), ((1,), (0,))),
    ],
    ids=str,
)
def test_groups_of_dimensions(instruction: hlo.Instruction) -> None:
    check(instruction)
    check(instruction, "x86-64-v2")


@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.BF16, dtypes.S32], ids=str)
def test_large_matrix_vector_products(dtype: DType) -> None:
    check(
        dot(
            (1, 67),
            (67, 3000),
            ((1,), (0,)),
            dtype=dtype,
            result=dtypes.S32 if dtype is dtypes.S32 else dtypes.F32,
        )
    )
    check(
        dot(
            (259, 1031),
            (259,),
            ((0,), (0,)),
            dtype=dtype,
            result=dtypes.S32 if dtype is dtypes.S32 else dtypes.F32,
        )
    )
    check(
        dot(
            (259, 1031),
            (1031,),
            ((1,), (0,)),
            dtype=dtype,
            result=dtypes.S32 if dtype is dtypes.S32 else dtypes.F32,
        )
    )


# A row by a matrix of 8 MB, as it lies in memory, and by one of less.
FAR = {
    "nn": [
        ((1, 1024), (1024, 4096), ((1,), (0,)), dtypes.BF16),
        ((1, 512), (512, 4096), ((1,), (0,)), dtypes.F32),
    ],
    "nt": [
        ((1, 1024), (4099, 1024), ((1,), (1,)), dtypes.BF16),
        ((1, 512), (4097, 512), ((1,), (1,)), dtypes.F32),
    ],
}


def fetched_into(instruction: hlo.Instruction, cpu: str) -> set[str]:
    """Into which caches the kernel of ``instruction`` fetches (the third operand of ``llvm.prefetch``)."""
    kernel = Kernel(instruction, for_cpu(cpu))
    return set(re.findall(r"call void @llvm.prefetch.p0\(ptr %[\w.]+, i32 0, i32 (\d)", kernel.ir))


@pytest.mark.parametrize("cpu", ["znver4", "znver5", "x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("layout", list(FAR))
def test_far_matrices_are_fetched_past_the_nearest_cache(layout: str, rows: int, cpu: str) -> None:
    """On a Zen 4: there the few rows stay in it."""
    for (_, depth), right, contracting, dtype in FAR[layout]:
        made = dot((rows, depth), right, contracting, dtype=dtype, result=dtypes.F32)
        assert fetched_into(made, cpu) == ({"2"} if cpu == "znver4" else {"3"})
        less = tuple(n // 2 if n > 4000 else n for n in right)
        made = dot((rows, depth), less, contracting, dtype=dtype, result=dtypes.F32)
        assert fetched_into(made, cpu) == {"3"}


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("layout", list(FAR))
def test_products_of_far_matrices(layout: str, rows: int) -> None:
    """With the tiles that a Zen 4 has for them, on any CPU: columns that fill the tiles, and one or three more."""
    host = for_cpu("host")
    near = host.costs.memory
    target = replace(host, costs=replace(host.costs, memory=replace(near, streamed_far=1 << 18)))
    for (_, depth), right, contracting, dtype in FAR[layout]:
        short = tuple(n - 4096 + 512 if n > 4000 else n for n in right)
        made = dot((rows, depth), short, contracting, dtype=dtype, result=dtypes.F32)
        check_on(made, target)


@pytest.mark.parametrize("depth", [500, 512, 576, 9000])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F64, dtypes.BF16, dtypes.S8], ids=str)
def test_columns_one_after_the_other(dtype: dtypes.DType, depth: int) -> None:
    """As a Zen 5 reads a matrix of rows of memory by a single short row, on any CPU."""
    host = for_cpu("host")
    memory = replace(host.costs.memory, streamed=1 << 12, streamed_row=1 << 14)
    target = replace(host, costs=replace(host.costs, memory=memory))
    result = dtypes.F64 if dtype is dtypes.F64 else dtypes.F32
    made = dot((1, depth), (35, depth), ((1,), (1,)), dtype=dtype, result=result)
    check_on(made, target)


def test_which_columns_are_read_one_after_the_other() -> None:
    """Those by rows that stay in the nearest cache of a Zen 5: their kernel stores one element at a time."""

    def stores_vectors(rows: int, depth: int, dtype: dtypes.DType, cpu: str) -> bool:
        made = dot((rows, depth), (512, depth), ((1,), (1,)), dtype=dtype, result=dtypes.F32)
        return "store <" in Kernel(made, for_cpu(cpu)).ir

    for dtype, most in ((dtypes.F32, 4096), (dtypes.BF16, 4096), (dtypes.S8, 8192)):
        assert not stores_vectors(1, most, dtype, "znver5")
        assert stores_vectors(1, most + 32, dtype, "znver5")
        assert stores_vectors(4, most, dtype, "znver5")
        assert stores_vectors(1, most, dtype, "znver4")


@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F64, dtypes.BF16, dtypes.S8], ids=str)
@pytest.mark.parametrize("columns", [192, 500, 576, 1600])
def test_one_row_by_short_rows(dtype: dtypes.DType, columns: int) -> None:
    """Eight short rows at once, as a Zen 5 takes them, and blocks of columns that are whole numbers of a row or not."""
    host = for_cpu("host")
    costs = replace(
        host.costs,
        memory=replace(host.costs.memory, streamed=1 << 12),
        blocks=replace(host.costs.blocks, streamed_narrow=1536),
    )
    target = replace(host, costs=costs)
    result = dtypes.F64 if dtype is dtypes.F64 else dtypes.F32
    for depth in (67, 320):
        made = dot((1, depth), (depth, columns), ((1,), (0,)), dtype=dtype, result=result)
        check_on(made, target)


def test_how_many_short_rows_are_read_at_once() -> None:
    """Eight by one row on a Zen 5, four on other CPUs; each fetches a row that comes later."""

    def fetches(columns: int, cpu: str) -> int:
        made = dot((1, 512), (512, columns), ((1,), (0,)), dtype=dtypes.S8, result=dtypes.F32)
        return Kernel(made, for_cpu(cpu)).ir.count("call void @llvm.prefetch")

    assert fetches(1536, "znver5") == 2 * fetches(1536, "x86-64-v4")
    assert fetches(1600, "znver5") == fetches(1600, "x86-64-v4")


@pytest.mark.parametrize("columns", [512, 576, 1600, 4096])
@pytest.mark.parametrize("depth", [64, 323, 2500])
def test_one_run_through_a_matrix(columns: int, depth: int) -> None:
    """All columns of one row after the other, or several rows beside each other where threads share the columns: the
    sums are the same to the last bit, whoever computes them.
    """
    host = for_cpu("host")
    types = {"dtype": dtypes.BF16, "result": dtypes.F32}
    made = dot((1, depth), (depth, columns), ((1,), (0,)), **types)
    x, w = made.operands
    residual = hlo.parameter(2, made.shape)
    made = fusion("dot", [x, w, residual], op("add", made.shape, made, residual))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(o.dims).astype(o.dtype.numpy) for o in made.operands]
    found = []
    for most in (0, 1 << 14):
        memory = replace(host.costs.memory, streamed=1 << 12, streamed_run=most)
        kernel = Kernel(made, replace(host, costs=replace(host.costs, memory=memory)))
        assert ("one.run" in kernel.ir) == (most > 0)
        count = kernel.emitted.work_count
        for splits in ((), (count // 2,), (count // 3, count * 2 // 3)):
            found += kernel.run(arrays, splits)
    left, right, more = (a.astype(np.float64) for a in arrays)
    bound = 2.0**-24 * (depth / 8 * (np.abs(left) @ np.abs(right)) + np.abs(more))
    assert (np.abs(found[0] - (left @ right + more)) <= bound).all()
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_which_matrices_are_read_in_one_run() -> None:
    """Those of 16 bits by a single row on a Zen 4 and a Zen 5, whose sums stay in the nearest cache."""

    def in_one_run(rows: int, columns: int, dtype: dtypes.DType, cpu: str) -> bool:
        made = dot((rows, 512), (512, columns), ((1,), (0,)), dtype=dtype, result=dtypes.F32)
        return "one.run" in Kernel(made, for_cpu(cpu)).ir

    for cpu in ("znver4", "znver5"):
        assert in_one_run(1, 4096, dtypes.BF16, cpu)
        assert in_one_run(1, 576, dtypes.F16, cpu)
        assert not in_one_run(1, 4608, dtypes.BF16, cpu)
        assert not in_one_run(2, 4096, dtypes.BF16, cpu)
        assert not in_one_run(1, 4096, dtypes.F32, cpu)
        assert not in_one_run(1, 4096, dtypes.S8, cpu)
    assert not in_one_run(1, 4096, dtypes.BF16, "x86-64-v4")


@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("columns", [32, 19])
def test_fusion_of_prologue_and_epilogue(layout: str, columns: int) -> None:
    """relu(convert(a) @ b + bias), with a in bf16."""
    a = hlo.parameter(0, hlo.Shape(dtypes.BF16, (6, 24)))
    right = (24, columns) if layout == "nn" else (columns, 24)
    b = hlo.parameter(1, hlo.Shape(dtypes.F32, right))
    bias = hlo.parameter(2, hlo.Shape(dtypes.F32, (columns,)))
    shape = hlo.Shape(dtypes.F32, (6, columns))
    numbers = hlo.DotDimensionNumbers((1,), (0 if layout == "nn" else 1,))
    product = op("dot", shape, op("convert", hlo.Shape(dtypes.F32, (6, 24)), a), b,
                 dimension_numbers=numbers, precision=("DEFAULT",) * 2)  # fmt: skip
    total = op("add", shape, product, hlo.broadcast(bias, shape.dims, (1,)))
    root = op("maximum", shape, total, hlo.broadcast(hlo.constant(0.0, dtypes.F32), shape.dims))
    x, y, z = (
        values((6, 24), dtypes.BF16, 1),
        values(right, dtypes.F32, 2),
        values((columns,), dtypes.F32, 3),
    )
    (got,) = Kernel(fusion("dot", [a, b, bias], root)).run([x, y, z])
    matrix = y if layout == "nn" else y.T
    np.testing.assert_array_equal(got, np.maximum(x.astype(np.float32) @ matrix + z, 0))


# Right-hand sides from the size on from which panels are copied: sums of one piece, of even and of uneven pieces, rows
# and columns that fill their tiles and that do not, and more rows than a block's sums take.
COMPLEX_SIZES = [(32, 32, 128), (61, 75, 100), (64, 64, 256), (37, 99, 301), (1100, 40, 131)]


def copies_panels(kernel: Kernel) -> bool:
    """Whether the kernel has a copy of a part of the right-hand side on its stack."""
    return "alloca" in kernel.ir


@pytest.mark.parametrize("cpu", ["host", "x86-64-v4", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", [dtypes.C64, dtypes.C128], ids=str)
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_large_products_of_complex_numbers(layout: str, dtype: DType, cpu: str) -> None:
    i, j = LAYOUTS[layout]
    for m, n, k in COMPLEX_SIZES:
        lhs, rhs = ((m, k), (k, m))[1 - i], ((k, n), (n, k))[j]
        instruction = dot(lhs, rhs, ((i,), (j,)), dtype=dtype)
        assert copies_panels(Kernel(instruction, for_cpu(cpu)))
        check(instruction, cpu)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3"])
def test_batches_of_large_products_of_complex_numbers(cpu: str) -> None:
    c64 = dtypes.C64
    check(dot((3, 40, 140), (3, 140, 70), ((2,), (1,)), ((0,), (0,)), c64), cpu)
    check(dot((40, 3, 140), (140, 70, 3), ((2,), (0,)), ((1,), (2,)), c64), cpu)
    check(dot((2, 26, 140), (140, 3, 50), ((2,), (0,)), dtype=c64), cpu)
    check(dot((3, 40, 140), (3, 70, 140), ((2,), (2,)), ((0,), (0,)), c64), cpu)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
def test_conjugates_and_an_epilogue_of_a_large_product_of_complex_numbers(cpu: str) -> None:
    """conj(a)^T @ conj(b) + bias, whose conjugates are parts of the kernel."""

    def conjugate(operand: hlo.Instruction) -> hlo.Instruction:
        part = hlo.Shape(dtypes.F32, operand.dims)
        imaginary = op("negate", part, op("imag", part, operand))
        return op("complex", operand.shape, op("real", part, operand), imaginary)

    m, n, k = 45, 71, 150
    a = hlo.parameter(0, hlo.Shape(dtypes.C64, (k, m)))
    b = hlo.parameter(1, hlo.Shape(dtypes.C64, (k, n)))
    bias = hlo.parameter(2, hlo.Shape(dtypes.C64, (n,)))
    shape = hlo.Shape(dtypes.C64, (m, n))
    numbers = hlo.DotDimensionNumbers((0,), (0,))
    product = op("dot", shape, conjugate(a), conjugate(b), dimension_numbers=numbers,
                 precision=("DEFAULT",) * 2)  # fmt: skip
    root = op("add", shape, product, hlo.broadcast(bias, shape.dims, (1,)))
    x, y, z = (values(p.dims, dtypes.C64, number) for number, p in enumerate((a, b, bias)))
    kernel = Kernel(fusion("dot", [a, b, bias], root), for_cpu(cpu))
    assert copies_panels(kernel)
    (got,) = kernel.run([x, y, z])
    np.testing.assert_array_equal(got, x.conj().T @ y.conj() + z)


def test_infinities_of_a_large_product_of_complex_numbers_stay_in_their_rows() -> None:
    instruction = dot((50, 140), (140, 70), ((1,), (0,)), dtype=dtypes.C64)
    a, b = (values(o.dims, o.dtype, n) for n, o in enumerate(instruction.operands))
    a[49, 139] = np.inf
    (got,) = Kernel(instruction).run([a, b])
    np.testing.assert_array_equal(got[:49], a[:49] @ b)
    assert not np.isfinite(got[49]).any()
