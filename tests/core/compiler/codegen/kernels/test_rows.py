"""Row and dynamic-update-slice kernels."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, C64, F16, F32, F64, PRED, S32, U8
from tripont.core.compiler.targets import host

from tests.core.compiler.codegen.harness import Kernel, aligned, fusion, op, runnable

from .test_loops import check, gather, parameters, values
from .test_reductions import reduce

S = hlo.Shape


def over_rows(value, dims):
    return hlo.broadcast(value, dims, tuple(range(len(value.dims))))


def softmax(x, rank):
    """exp(x - max) / sum over the dimensions from ``rank`` on."""
    minor = tuple(range(rank, len(x.dims)))
    largest = reduce(x, minor, "maximum", hlo.constant(-np.inf, x.dtype))
    shifted = op("subtract", x.shape, x, over_rows(largest, x.dims))
    e = op("exponential", x.shape, shifted)
    total = reduce(e, minor)
    return op("divide", x.shape, e, over_rows(total, x.dims)), largest, total


def layer_norm(x, gamma, rank):
    minor = tuple(range(rank, len(x.dims)))
    n = int(np.prod(x.dims[rank:]))
    scale = lambda v: op(
        "multiply", v.shape, v, hlo.broadcast(hlo.constant(1 / n, v.dtype), v.dims)
    )
    mean = scale(reduce(x, minor))
    centred = op("subtract", x.shape, x, over_rows(mean, x.dims))
    variance = scale(reduce(op("multiply", x.shape, centred, centred), minor))
    eps = hlo.broadcast(hlo.constant(1e-5, x.dtype), variance.dims)
    inverse = op("rsqrt", variance.shape, op("add", variance.shape, variance, eps))
    normal = op("multiply", x.shape, centred, over_rows(inverse, x.dims))
    wide = hlo.broadcast(gamma, x.dims, tuple(range(rank, len(x.dims))))
    return op("multiply", x.shape, normal, wide), mean, inverse


SPACES = [((7, 50), 1), ((3, 5, 64), 2), ((4, 10), 1), ((2, 3), 1), ((5, 1000), 1), ((6, 4, 9), 1), ((200,), 0),
((3, 8, 1), 2),
          ((1, 4, 33), 2), ((2, 16385), 1)]  # fmt: skip


@pytest.mark.parametrize(("dims", "rank"), SPACES, ids=str)
def test_softmax(dims, rank):
    (x,) = parameters(S(F32, dims))
    probabilities, largest, total = softmax(x, rank)
    check(fusion("row", [x], probabilities), rtol=2e-5)
    log = op("log", total.shape, total)
    (y,) = parameters(S(F32, dims))
    probabilities, largest, total = softmax(y, rank)
    log = op("add", total.shape, op("log", total.shape, total), largest)
    check(fusion("row", [y], log, probabilities), rtol=2e-5)


@pytest.mark.parametrize("dtype", [F32, F64, BF16, F16], ids=str)
@pytest.mark.parametrize(("dims", "rank"), [((5, 70), 1), ((2, 3, 40), 2), ((4, 6, 7), 1)], ids=str)
def test_layer_norm(dims, rank, dtype):
    x, gamma = parameters(S(dtype, dims), S(dtype, dims[rank:]))
    results = layer_norm(x, gamma, rank)
    check(fusion("row", [x, gamma], *results), rtol=0.1 if dtype.bits == 16 else 1e-4)


def test_gradient_of_softmax_with_an_expensive_producer():
    """p = softmax(tanh(x) + y); dx = p * (g - sum(p * g)): values needed in several passes."""
    x, y, gradient = parameters(S(F32, (6, 100)), S(F32, (6, 100)), S(F32, (6, 100)))
    z = op("add", x.shape, op("tanh", x.shape, x), y)
    p, _, _ = softmax(z, 1)
    inner = reduce(op("multiply", x.shape, p, gradient), (1,))
    dx = op("multiply", x.shape, p, op("subtract", x.shape, gradient, over_rows(inner, x.dims)))
    check(fusion("row", [x, y, gradient], dx, z), rtol=1e-4)


def test_cross_entropy():
    """-log_softmax(x)[label], by a comparison with iota."""
    x, label = parameters(S(F32, (9, 33)), S(S32, (9,)))
    _, largest, total = softmax(x, 1)
    shifted = op("subtract", x.shape, x, over_rows(largest, x.dims))
    log = op("subtract", x.shape, shifted, over_rows(op("log", total.shape, total), x.dims))
    iota = op("iota", S(S32, x.dims), dimension=1)
    hit = op(
        "compare",
        S(PRED, x.dims),
        iota,
        over_rows(label, x.dims),
        direction="EQ",
        comparison_type="SIGNED",
    )
    zero = hlo.broadcast(hlo.constant(0.0, F32), x.dims)
    loss = op("negate", S(F32, (9,)), reduce(op("select", x.shape, hit, log, zero), (1,)))
    rng = np.random.default_rng(0)
    data = [values(rng, x.shape), rng.integers(0, 33, 9).astype(np.int32)]
    check(fusion("row", [x, label], loss), data, rtol=1e-4)


def test_kept_values_of_a_row_that_is_a_vector_stay_in_a_register():
    (x,) = parameters(S(F32, (3, 10)))
    ir = Kernel(fusion("row", [x], softmax(x, 1)[0]), host.for_cpu("x86-64-v4")).ir
    assert "alloca" not in ir


def test_kept_values_of_longer_rows_are_written_as_whole_vectors():
    """Only the result's last vector is written under a mask."""
    (x,) = parameters(S(F32, (3, 53)))
    ir = Kernel(fusion("row", [x], softmax(x, 1)[0]), host.for_cpu("x86-64-v4")).ir
    assert "alloca" in ir
    calls = [
        line for line in ir.splitlines() if "@llvm.masked.store" in line and "declare" not in line
    ]
    assert len(calls) == 1


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("size", range(1, 10))
def test_the_only_row_keeps_few_elements_in_a_register(size, cpu):
    """How many numbers are the largest: that the row is a vector holds for the reductions too, which would take so few
    elements one at a time.
    """
    (x,) = parameters(S(F64, (size,)))
    low, high = (hlo.broadcast(hlo.constant(v, F64), x.dims) for v in (-8.0, 8.0))
    clipped = op("minimum", x.shape, high, op("maximum", x.shape, low, x))
    y = op("convert", S(F32, x.dims), clipped)
    largest = reduce(y, (0,), "maximum", hlo.constant(-np.inf, F32))
    wide = hlo.broadcast(largest, x.dims)
    equal = op("compare", S(PRED, x.dims), y, wide, direction="EQ", comparison_type="FLOAT")
    count = reduce(op("convert", y.shape, equal), (0,))
    check(fusion("row", [x], largest, equal, count), rtol=0, target=runnable(cpu))


@pytest.mark.parametrize("dims", [(4, 100), (100, 6)], ids=["row by row", "blocks of rows"])
def test_in_place(dims):
    """A result may lie over the operand it is computed from: each row or block is read before it is written."""
    (x,) = parameters(S(F32, dims))
    kernel = Kernel(fusion("row", [x], softmax(x, 1)[0]))
    data = aligned(dims, np.float32)
    data[...] = np.random.default_rng(1).normal(size=dims)
    e = np.exp(data - data.max(1, keepdims=True))
    kernel.call([data, data])
    np.testing.assert_allclose(data, e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_narrower_cpus(cpu):
    target = runnable(cpu)
    for dims, rank in SPACES[:6]:
        (x,) = parameters(S(F32, dims))
        check(fusion("row", [x], softmax(x, rank)[0]), rtol=2e-5, target=target)


UPDATES = [
    ((10,), (3,)), ((10, 40), (1, 40)), ((10, 40), (10, 3)), ((10, 40), (2, 33)), ((5, 6, 7), (1, 6, 7)), ((5,
    6, 7), (5, 1, 7)), ((1, 8), (1, 1)), ((6, 1, 20), (1, 1, 20)), ((4, 4), (4, 4)), ((), ()), ((3, 1000), (1,
    1000)),
]  # fmt: skip


@pytest.mark.parametrize(("dims", "size"), UPDATES, ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16, PRED, C64, U8], ids=str)
def test_dynamic_update_slice(dims, size, dtype):
    rng = np.random.default_rng(2)
    for start in (0, 2, -3, 100):
        x, y = parameters(S(dtype, dims), S(dtype, size))
        starts = [hlo.parameter(2 + n, S(S32)) for n in range(len(dims))]
        update = op("negate", y.shape, y) if dtype in (F32, C64) else y
        root = op("dynamic-update-slice", x.shape, x, update, *starts)
        kernel = Kernel(fusion("dynamic-update-slice", [x, y, *starts], root))
        expected, new = np.array(values(rng, x.shape)), values(rng, y.shape)
        place = [min(max(start, 0), d - n) for d, n in zip(dims, size, strict=True)]
        arrays = []
        for data in (expected, new, *[np.int32(start)] * len(dims)):
            array = aligned(np.shape(data), np.asarray(data).dtype)
            array[...] = data
            arrays.append(array)
        expected[tuple(slice(p, p + n) for p, n in zip(place, size, strict=True))] = (
            -new if dtype in (F32, C64) else new
        )
        kernel.call([*arrays, arrays[0]], [kernel.emitted.work_count // 2])
        np.testing.assert_array_equal(arrays[0], expected)


@pytest.mark.parametrize("size", [8, 16, 50, 200])
def test_a_row_that_is_kept_is_read_at_places_that_depend_on_it(size):
    """Exponentials of a row, gathered at places that begin with their maximum."""
    dims = (size,)
    (x,) = parameters(S(F32, dims))
    e = op("exponential", x.shape, op("sine", x.shape, x))
    places = S(S32, dims)
    largest = reduce(e, (0,), "maximum", hlo.constant(-np.inf, F32))
    first = hlo.broadcast(op("convert", S(S32, ()), largest), dims)
    steps = op("multiply", places, op("iota", places, dimension=0), splat(3, places))
    index = op("remainder", places, op("add", places, steps, first), splat(size, places))
    picked = gather(e, index, dims, (), (0,), (0,), 1, (1,))
    total = op("add", x.shape, picked, over_rows(largest, dims))
    check(fusion("row", [x], total), rtol=2e-5)


def splat(number, shape):
    return hlo.broadcast(hlo.constant(number, shape.dtype), shape.dims)
