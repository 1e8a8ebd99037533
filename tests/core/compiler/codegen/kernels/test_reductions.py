"""Reduce kernels against the reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, C64, F16, F32, F64, PRED, S8, S32, S64, U32
from tripont.core.compiler.targets import host

from tests.core.compiler.codegen.harness import Kernel, fusion, op, runnable

from .test_loops import check, parameters

S = hlo.Shape


def binary_body(opcode, dtype):
    a, b = hlo.parameter(0, S(dtype)), hlo.parameter(1, S(dtype))
    return hlo.Computation.from_root("body", [a, b], op(opcode, S(dtype), a, b))


def reduce(x, dimensions, opcode="add", init=None):
    dims = tuple(d for n, d in enumerate(x.dims) if n not in dimensions)
    dtype = x.dtype
    if init is None:
        init = hlo.constant({"add": 0, "multiply": 1}.get(opcode, 0), dtype)
    body = binary_body(opcode, dtype)
    return op("reduce", S(dtype, dims), x, init, called=[body], dimensions=tuple(dimensions))


def compare(direction, a, b):
    kind = "FLOAT" if a.dtype.is_float else "SIGNED"
    return op("compare", S(PRED), a, b, direction=direction, comparison_type=kind)


def argmax_body(dtype):
    """As jnp.argmax has it: NaN is the largest, the first of equals wins."""
    a, i, b, j = (hlo.parameter(n, S(d)) for n, d in enumerate([dtype, S32, dtype, S32]))
    greater = op("or", S(PRED), compare("GT", a, b), compare("NE", a, a))
    first = op("or", S(PRED), greater, op("and", S(PRED), compare("EQ", a, b), compare("LT", i, j)))
    value = op("select", S(dtype), greater, a, b)
    index = op("select", S(S32), first, i, j)
    root = op("tuple", hlo.TupleShape((S(dtype), S(S32))), value, index)
    return hlo.Computation.from_root("argmax", [a, i, b, j], root)


SPACES = [
    ((1000,), (0,)), ((7,), (0,)), ((1,), (0,)), ((16,), (0,)), ((5, 33), (1,)), ((5, 200), (1,)), ((40, 1), (1,)),
    ((33, 5), (0,)), ((300, 200), (0,)), ((9, 7), (0, 1)), ((64, 3), (1,)), ((3, 4, 50), (0, 2)), ((6, 7, 40), (1,)),
    ((4, 5, 6, 7), (0, 3)), ((4, 5, 6, 7), (1, 2)), ((4, 5, 6, 7), (0, 2)), ((2, 1, 3000), (2,)), ((1, 70), (0,)),
    ((130, 1000), (0,)), ((5, 129), (0,)), ((2, 3, 2100), (0, 1)), ((50, 12), (0,)),
]  # fmt: skip


@pytest.mark.parametrize(("dims", "dimensions"), SPACES, ids=str)
@pytest.mark.parametrize("dtype", [F32, S32], ids=str)
def test_sums(dims, dimensions, dtype):
    (x,) = parameters(S(dtype, dims))
    check(fusion("reduce", [x], reduce(x, dimensions)), rtol=1e-4)


@pytest.mark.parametrize("dtype", [F32, F64, BF16, F16, S8, S64, U32, PRED, C64], ids=str)
@pytest.mark.parametrize("dims", [(37, 50), (8, 3)], ids=str)
@pytest.mark.parametrize("dimension", [0, 1])
def test_bodies_and_dtypes(dtype, dims, dimension):
    (x,) = parameters(S(dtype, dims))
    if dtype is PRED:
        opcodes = ["and", "or", "xor"]
    elif dtype is C64:
        opcodes = ["add", "multiply"]
    else:
        opcodes = ["add", "multiply", "maximum", "minimum"] + (
            ["or", "xor"] if dtype.is_integer else []
        )
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2, dims) if not dtype.is_float else rng.normal(size=dims) * 0.2 + 1
    for opcode in opcodes:
        init = hlo.constant(1 if opcode in ("multiply", "and") else 0, dtype)
        check(fusion("reduce", [x], reduce(x, [dimension], opcode, init)), [data.astype(dtype.numpy)],
              rtol=0.1 if dtype.bits == 16 else 1e-4)  # fmt: skip


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [F32, F64, BF16, S32, S64, C64, S8], ids=str)
@pytest.mark.parametrize("length", [9, 16, 17, 24, 33, 64, 129])
@pytest.mark.parametrize("outer", [(4,), (16,), (19,), (32,), (3, 45)], ids=str)
def test_neighbouring_rows_are_reduced_together(outer, length, dtype, cpu):
    """Each row's number goes to its own place, also where rows are left over, and no other row's are in it."""
    (x,) = parameters(S(dtype, (*outer, length)))
    data = np.random.default_rng(0).integers(-4, 5, x.dims).astype(dtype.numpy)  # exact sums
    data += (np.arange(outer[-1])[:, None] % 3).astype(dtype.numpy)
    roots = [reduce(x, [len(outer)], "add")]
    if dtype is not C64:
        lowest = np.float32(-np.inf) if dtype.is_float else np.int32(-128)
        roots.append(reduce(x, [len(outer)], "maximum", hlo.constant(lowest, dtype)))
    kernel = Kernel(fusion("reduce", [x], *roots), target=runnable(cpu))
    results = kernel.run([data])
    wide = data.astype(np.complex128 if dtype is C64 else np.float64)
    total = wide.sum(-1)
    if dtype is S8:
        total = total.astype(np.int64)  # whose low bits they are
    np.testing.assert_array_equal(results[0], total.astype(dtype.numpy))
    if dtype is not C64:
        np.testing.assert_array_equal(results[1].astype(np.float64), wide.max(-1))


def test_rows_together_are_reduced_as_one_alone_is():
    """The same terms are added in the same order."""
    x, alone = hlo.parameter(0, S(F32, (37, 50))), hlo.parameter(0, S(F32, (1, 50)))
    data = np.random.default_rng(0).normal(size=x.dims).astype(np.float32)
    data[5, 7], data[20, 49] = np.nan, np.inf
    (together,) = Kernel(fusion("reduce", [x], reduce(x, [1]))).run([data])
    one = Kernel(fusion("reduce", [alone], reduce(alone, [1])))
    each = [one.run([data[n : n + 1]])[0] for n in range(37)]
    np.testing.assert_array_equal(together, np.concatenate(each))


def test_initial_value_counts_once():
    x, init = parameters(S(F32, (3, 100)), S(F32))
    ones = np.ones((3, 100), np.float32)
    (result,) = Kernel(fusion("reduce", [x, init], reduce(x, [1], "add", init))).run(
        [ones, np.float32(5)]
    )
    np.testing.assert_array_equal(result, 105)
    (result,) = Kernel(fusion("reduce", [x, init], reduce(x, [0], "maximum", init))).run(
        [ones, np.float32(5)]
    )
    np.testing.assert_array_equal(result, 5)


def test_nan_reaches_a_maximum():
    for dims, dimension in [((3, 100), 1), ((100, 40), 0)]:
        (x,) = parameters(S(F32, dims))
        data = np.zeros(dims, np.float32)
        data[1, 17] = np.nan
        root = reduce(x, [dimension], "maximum", hlo.constant(-np.inf, F32))
        (result,) = Kernel(fusion("reduce", [x], root)).run([data])
        np.testing.assert_array_equal(result, data.max(dimension))


@pytest.mark.parametrize(
    ("dims", "dimension"),
    [
        ((6, 50), 1),
        ((50, 6), 0),
        ((40, 70), 0),
        ((1000,), 0),
        ((3, 1), 1),
        ((70, 10), 1),
        ((33, 31), 1),
    ],
)
def test_argmax(dims, dimension):
    (x,) = parameters(S(F32, dims))
    rest = tuple(d for n, d in enumerate(dims) if n != dimension)
    iota = op("iota", S(S32, dims), dimension=dimension)
    shape = hlo.TupleShape((S(F32, rest), S(S32, rest)))
    inits = [hlo.constant(-np.inf, F32), hlo.constant(0, S32)]
    both = op("reduce", shape, x, iota, *inits, called=[argmax_body(F32)], dimensions=(dimension,))
    value, index = hlo.get_tuple_element(both, 0), hlo.get_tuple_element(both, 1)
    data = np.random.default_rng(1).integers(0, 20, dims).astype(np.float32)
    kernel = Kernel(fusion("reduce", [x], value, index))
    got = kernel.run([data])
    np.testing.assert_array_equal(got[0], data.max(dimension))
    np.testing.assert_array_equal(got[1], data.argmax(dimension))
    (alone,) = Kernel(fusion("reduce", [x], index)).run([data])
    np.testing.assert_array_equal(alone, data.argmax(dimension))


@pytest.mark.parametrize(
    ("opcode", "dtype", "longest"),
    [
        ("add", F32, 7),
        ("maximum", S32, 7),
        ("maximum", F32, 7),
        ("minimum", F64, 7),
        ("maximum", BF16, 7),
    ],
    ids=str,
)
def test_short_rows_are_reduced_in_vectors_across_rows(opcode, dtype, longest):
    """A unit of work is a block of rows then. Longer rows are read as they lie, and not element by element."""
    rows = 1000
    for size in (longest, longest + 1, 12, 24):
        (x,) = parameters(S(dtype, (rows, size)))
        kernel = Kernel(fusion("reduce", [x], reduce(x, [1], opcode)))
        # Of numbers of 2 bytes, vectors of 32 bytes have too many rows for this.
        has_lanes = dtype is not BF16 or kernel.target.lanes(F32) >= 16
        if has_lanes and (size <= longest or (size >= 12 and dtype is not F64)):
            assert kernel.emitted.work_count < rows
        assert size < 12 or "gather" not in kernel.ir
        check(kernel.instruction, rtol=0.1 if dtype is BF16 else 1e-4)


@pytest.mark.parametrize(
    ("dims", "dimensions"),
    [((6, 50), (1,)), ((50, 60), (0,)), ((4, 5, 40), (0, 1)), ((9, 1), (1,))],
)
def test_producers_epilogues_and_whole_results(dims, dimensions):
    """sum((x * y)) / n and max(x), with x * y written as well."""
    x, y = parameters(S(F32, dims), S(F32, dims[-1:]))
    wide = hlo.broadcast(y, dims, (len(dims) - 1,))
    product = op("multiply", x.shape, x, wide)
    total = reduce(product, dimensions)
    scale = hlo.broadcast(hlo.constant(0.25, F32), total.dims)
    mean = op("multiply", total.shape, total, scale)
    largest = reduce(x, dimensions, "maximum", hlo.constant(-np.inf, F32))
    both = op("add", total.shape, mean, largest)
    check(fusion("reduce", [x, y], mean, product, both), rtol=1e-4)


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("dims", [(9, 70), (3, 5, 600), (40, 1030), (2, 64)], ids=str)
def test_wide_rows_of_an_expensive_operand(dims, dtype):
    """Column sums of tanh(x) * erf(x), with the products written too, and whether any is large."""
    (x,) = parameters(S(dtype, dims))
    dimensions = tuple(range(len(dims) - 1))
    product = op("multiply", x.shape, op("tanh", x.shape, x), op("erf", x.shape, x))
    one = hlo.broadcast(hlo.constant(0.9, dtype), dims)
    large = op("compare", S(PRED, dims), product, one, direction="GT", comparison_type="FLOAT")
    found = reduce(large, dimensions, "or", hlo.constant(False, PRED))
    tolerance = 1e-4 if dtype is F32 else 5e-2
    check(fusion("reduce", [x], product, reduce(product, dimensions)), rtol=tolerance)
    if dtype is F32:
        check(fusion("reduce", [x], found))


@pytest.mark.parametrize("dtype", [BF16, F16, S8, F32], ids=str)
@pytest.mark.parametrize("dims", [(2, 17), (3, 33), (5, 9)], ids=str)
def test_rows_of_vectors_and_one_element(dims, dtype):
    """The largest of x + y, which is written too: the row's last element alone, and nothing behind it."""
    x, y = parameters(S(dtype, dims), S(dtype, dims[:1]))
    more = op("add", x.shape, x, hlo.broadcast(y, dims, (0,)))
    largest = reduce(more, (0, 1), "maximum", hlo.constant(-100, dtype))
    check(fusion("reduce", [x, y], more, largest), rtol=0)


def test_unsorted_results_of_a_reshaped_epilogue():
    (x,) = parameters(S(F32, (4, 6, 30)))
    total = reduce(x, (2,))
    check(
        fusion("reduce", [x], op("reshape", S(F32, (24,)), op("negate", total.shape, total))),
        rtol=1e-4,
    )


def test_transposed_operand():
    (x,) = parameters(S(F32, (40, 30)))
    moved = op("transpose", S(F32, (30, 40)), x, dimensions=(1, 0))
    check(fusion("reduce", [x], reduce(moved, (1,))), rtol=1e-4)
    check(fusion("reduce", [x], reduce(moved, (0,))), rtol=1e-4)


def test_empty():
    x, y = parameters(S(F32, (3, 0)), S(F32, (0, 3)))
    (result,) = Kernel(fusion("reduce", [x], reduce(x, (1,), "add", hlo.constant(2.0, F32)))).run(
        [np.ones((3, 0))]
    )
    np.testing.assert_array_equal(result, [2, 2, 2])
    assert (
        Kernel(fusion("reduce", [hlo.parameter(0, y.shape)], reduce(y, (1,)))).emitted.work_count
        == 0
    )


@pytest.mark.parametrize("opcode", ["slice", "dynamic-slice", "concatenate"])
def test_empty_piece_of_one_element(opcode):
    """Dimensions of size one go, but not where their element is not taken."""
    (x,) = parameters(S(F32, (1,)))
    shape, start = S(F32, (0,)), hlo.constant(0, S32)
    cut = op("slice", shape, x, starts=(1,), limits=(1,), strides=(1,))
    if opcode == "dynamic-slice":
        cut = op("dynamic-slice", shape, x, start, slice_sizes=(0,))
    elif opcode == "concatenate":
        cut = op("concatenate", x.shape, cut, op("negate", x.shape, x), dimension=0)
    index = op("iota", S(S32, cut.dims), dimension=0)
    none, last = hlo.constant(-7.0, F32), hlo.constant(9, S32)
    both = hlo.TupleShape((S(F32), S(S32)))
    body = argmax_body(F32)
    found = op("reduce", both, cut, index, none, last, called=[body], dimensions=(0,))
    kernel = Kernel(fusion("reduce", [x], op("get-tuple-element", S(F32), found, index=0)))
    (result,) = kernel.run([np.array([5], np.float32)])
    assert result == (-5 if opcode == "concatenate" else -7)


def test_sum_of_many_is_exact_enough():
    (x,) = parameters(S(F32, (1 << 20,)))
    data = np.random.default_rng(2).random(1 << 20).astype(np.float32)
    (result,) = Kernel(fusion("reduce", [x], reduce(x, (0,)))).run([data])
    assert abs(float(result) - data.sum(dtype=np.float64)) < 1e-6 * data.sum(dtype=np.float64)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_narrower_cpus(cpu):
    target = runnable(cpu)
    for dims, dimensions in SPACES:
        for dtype in (F32, S8):
            (x,) = parameters(S(dtype, dims))
            check(fusion("reduce", [x], reduce(x, dimensions)), rtol=1e-4, target=target)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2"])
@pytest.mark.parametrize("dims", [(1,), (2,), (7,), (8,), (9,), (2, 4), (3, 3)], ids=str)
def test_few_elements(dims, cpu):
    """All of a cheap operand and of an expensive one, with an initial value: below, at and above the number that
    are summed up as scalars. The cheap ones are read element by element: a step of a loop waits for no vector.
    """
    for dtype in (F32, F64, BF16, S32, C64):
        (x,) = parameters(hlo.Shape(dtype, dims))
        for operand in (x, op("multiply", x.shape, x, x)):
            for opcode in ("add", "multiply"):
                y = reduce(operand, tuple(range(len(dims))), opcode, hlo.constant(2, dtype))
                kernel = check(fusion("reduce", [x], y), target=host.for_cpu(cpu))
                if dtype is F32 and np.prod(dims) <= 8:
                    assert "load <" not in kernel.ir
    (x,) = parameters(hlo.Shape(F32, dims))
    y = reduce(op("exponential", x.shape, op("tanh", x.shape, x)), tuple(range(len(dims))))
    check(fusion("reduce", [x], y), target=host.for_cpu(cpu))
