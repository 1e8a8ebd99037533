"""Scatters of all dimension numbers against a plain loop, and some against JAX."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.patterns import scatters_rows
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.harness import Kernel, aligned, fusion, op

Array = np.ndarray[Any, Any]
BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "set": lambda a, b: b,
}


def body(name: str, dtype: DType) -> hlo.Computation:
    shape = hlo.Shape(dtype)
    a, b = hlo.parameter(0, shape), hlo.parameter(1, shape)
    return hlo.Computation.from_root(name, [a, b], b if name == "set" else op(name, shape, a, b))


def scatter(
    dims: Sequence[int],
    indices: Sequence[int],
    updates: Sequence[int],
    numbers: hlo.ScatterDimensionNumbers,
    function: str = "add",
    dtype: DType = dtypes.F32,
    index_dtype: DType = dtypes.S32,
    unique: bool = False,
) -> hlo.Instruction:
    shapes = [
        hlo.Shape(dtype, tuple(dims)),
        hlo.Shape(index_dtype, tuple(indices)),
        hlo.Shape(dtype, tuple(updates)),
    ]
    operands = [hlo.parameter(n, s) for n, s in enumerate(shapes)]
    return op(
        "scatter", shapes[0], *operands, called=[body(function, dtype)], dimension_numbers=numbers,
        indices_are_sorted=False, unique_indices=unique,
    )  # fmt: skip


def reference(
    i: hlo.Instruction, operand: Array, indices: Array, updates: Array, function: str
) -> Array:
    n = i.attributes["dimension_numbers"]
    result = operand.copy()
    scattered = [d for d in range(updates.ndim) if d not in n.update_window_dims]
    kept = [
        d for d in range(operand.ndim) if d not in {*n.inserted_window_dims, *n.input_batching_dims}
    ]
    windows = sorted(n.update_window_dims)
    for at in np.ndindex(*[updates.shape[d] for d in scattered]):
        start = [0] * operand.ndim
        for k, d in enumerate(n.scatter_dims_to_operand_dims):
            place = list(at)
            if n.index_vector_dim < indices.ndim:
                place.insert(n.index_vector_dim, k)
            start[d] = int(indices[tuple(place)])
        for d, e in zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True):
            start[d] = at[e if e < n.index_vector_dim else e - 1]
        size = [1] * operand.ndim
        for ours, theirs in zip(windows, kept, strict=True):
            size[theirs] = updates.shape[ours]
        if any(s < 0 or s + w > dim for s, w, dim in zip(start, size, operand.shape, strict=True)):
            continue
        for offset in np.ndindex(*[updates.shape[d] for d in windows]):
            source = [0] * updates.ndim
            for d, c in zip(scattered, at, strict=True):
                source[d] = c
            target = list(start)
            for ours, theirs, c in zip(windows, kept, offset, strict=True):
                source[ours] = c
                target[theirs] += c
            t = tuple(target)
            result[t] = BODIES[function](result[t], updates[tuple(source)])
    return result


def check(
    i: hlo.Instruction, function: str = "add", cpu: str = "host", indices: Array | None = None
) -> None:
    generator = np.random.default_rng(5)
    arrays: list[Array] = []
    for n, o in enumerate(i.operands):
        low, high = (-1, 1 + max(i.operands[0].dims, default=1)) if n == 1 else (-3, 4)
        low = 0 if o.dtype.kind == "uint" else low
        data = generator.integers(low, high, o.dims)
        values = data if n != 1 or indices is None else indices
        array = aligned(o.dims, o.dtype.numpy)
        array[...] = values.astype(o.dtype.numpy)
        arrays.append(array)
    expected = reference(i, arrays[0], arrays[1], arrays[2], function)
    result = aligned(i.dims, i.dtype.numpy)
    result[...] = arrays[0]
    kernel = Kernel(i, for_cpu(cpu))
    kernel.call([*arrays, result], [kernel.emitted.work_count // 3])
    np.testing.assert_array_equal(result, expected)


Numbers = hlo.ScatterDimensionNumbers
CASES = {
    "rows": scatter((9, 256), (13, 1), (13, 256), Numbers((1,), (0,), (0,), 1)),
    "odd rows": scatter((9, 37), (13, 1), (13, 37), Numbers((1,), (0,), (0,), 1)),
    "short rows": scatter((9, 5), (13, 1), (13, 5), Numbers((1,), (0,), (0,), 1)),
    "elements": scatter((50,), (40, 1), (40,), Numbers((), (0,), (0,), 1)),
    "no index vector": scatter((50,), (40,), (40,), Numbers((), (0,), (0,), 1)),
    "points": scatter((4, 5), (30, 2), (30,), Numbers((), (0, 1), (0, 1), 1)),
    "points, swapped": scatter((4, 5), (30, 2), (30,), Numbers((), (0, 1), (1, 0), 1)),
    "columns": scatter((6, 9), (4, 1), (6, 4), Numbers((0,), (1,), (1,), 1)),
    "overlapping windows": scatter((40,), (7, 1), (7, 17), Numbers((1,), (), (0,), 1)),
    "windows of two": scatter((6, 7, 40), (5, 2), (5, 3, 40), Numbers((1, 2), (0,), (0, 1), 1)),
    "index vector first": scatter((8, 9), (2, 5), (5,), Numbers((), (0, 1), (0, 1), 0)),
    "batching": scatter((3, 8, 20), (3, 4, 1), (3, 4, 20), Numbers((2,), (1,), (1,), 2, (0,), (0,))),
    "batching, crossed": scatter((3, 8, 4), (4, 6, 3, 1), (4, 6, 3), Numbers((), (1,), (1,), 3, (0, 2), (2, 0))),
    "one window": scatter((5, 6), (2,), (2, 3), Numbers((0, 1), (), (0, 1), 0)),
    "no start": scatter((5, 6), (0,), (5, 6), Numbers((0, 1), (), (), 0)),
    "no updates": scatter((5, 6), (0, 1), (0, 6), Numbers((1,), (0,), (0,), 1)),
    "window first": scatter((5, 33), (4, 1), (33, 4), Numbers((0,), (0,), (0,), 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_dimension_numbers(name: str) -> None:
    for cpu in ("host", "x86-64-v2"):
        check(CASES[name], cpu=cpu)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [*itertools.product(["add", "multiply", "maximum", "set"], [dtypes.F32, dtypes.S32]), ("add", dtypes.BF16),
     ("add", dtypes.F64), ("add", dtypes.C64), ("add", dtypes.U8), ("set", dtypes.F16), ("maximum", dtypes.S64)],
    ids=str,
)  # fmt: skip
def test_bodies_and_dtypes(function: str, dtype: DType) -> None:
    for index_dtype in (dtypes.S32, dtypes.U8, dtypes.S64):
        i = scatter(
            (9, 37), (6, 1), (6, 37), Numbers((1,), (0,), (0,), 1), function, dtype, index_dtype
        )
        check(i, function)


# Tables that take turns, in blocks that the rest of a row does not fill.
TABLES = {
    "four tables": scatter((8, 50), (8, 700, 1), (8, 700), Numbers((), (1,), (1,), 2, (0,), (0,))),
    "two tables": scatter((6, 50), (6, 2050), (6, 2050), Numbers((), (1,), (1,), 2, (0,), (0,))),
    "three tables": scatter((3, 50), (3, 100), (3, 100), Numbers((), (1,), (1,), 2, (0,), (0,))),
    "points": scatter((4, 7, 9), (4, 2, 83), (4, 83), Numbers((), (1, 2), (2, 1), 1, (0,), (0,))),
    "several rows": scatter((4, 9), (4, 5, 7, 1), (4, 5, 7), Numbers((), (1,), (1,), 3, (0,), (0,))),
    "tables behind": scatter((9, 4), (37, 4), (37, 4), Numbers((), (0,), (0,), 2, (1,), (1,))),
    "one update each": scatter((36, 9), (36, 1), (36,), Numbers((), (1,), (1,), 1, (0,), (0,))),
}  # fmt: skip


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("name", list(TABLES))
def test_tables_in_turns(name: str, cpu: str) -> None:
    check(TABLES[name], cpu=cpu)
    inside = np.random.default_rng(1).integers(0, 4, TABLES[name].operands[1].dims)
    check(TABLES[name], cpu=cpu, indices=inside)  # no place is tested
    in_turns = "%some" in Kernel(TABLES[name], for_cpu(cpu)).ir
    assert in_turns == (name not in ("three tables", "one update each"))


# Rows: more places than the stack holds, a rest behind them, blocks of columns, and rows of several dimensions.
ROWS = {
    "many places": scatter((50, 5), (2500, 1), (2500, 5), Numbers((1,), (0,), (0,), 1)),
    "long rows": scatter((3, 1024), (21,), (21, 1024), Numbers((1,), (0,), (0,), 1)),
    "rows of two dimensions": scatter((7, 3, 20), (40, 1), (40, 3, 20), Numbers((1, 2), (0,), (0,), 1)),
    "scattered in two dimensions": scatter((7, 20), (5, 37), (5, 37, 20), Numbers((2,), (0,), (0,), 2)),
    "index vector before rows": scatter((7, 20), (1, 5, 9), (5, 9, 20), Numbers((2,), (0,), (0,), 0)),
    "one row each": scatter((7, 20), (30, 1, 1), (30, 1, 20), Numbers((2,), (0,), (0,), 2)),
    "one row": scatter((1, 33), (19, 1), (19, 33), Numbers((1,), (0,), (0,), 1)),
}  # fmt: skip


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("name", list(ROWS))
def test_rows(name: str, cpu: str) -> None:
    check(ROWS[name], cpu=cpu)
    nobody = np.full(ROWS[name].operands[1].dims, -1)
    check(ROWS[name], cpu=cpu, indices=nobody)


# (With 64 bits, places far outside of the result whose low 32 bits are those of a place in it.)
@pytest.mark.parametrize("dtype", [dtypes.S64, dtypes.U64, dtypes.U32], ids=str)
def test_rows_far_outside(dtype: DType) -> None:
    numbers = Numbers((1,), (0,), (0,), 1)
    i = scatter((9, 20), (40, 1), (40, 20), numbers, index_dtype=dtype)
    indices = np.random.default_rng(0).integers(0, 9, (40, 1)).astype(dtype.numpy)
    indices[::3] += np.array(1 << (dtype.bits - 1), np.uint64).astype(dtype.numpy)
    if dtype.bits == 64:
        indices[::5] += np.array(1 << 32).astype(dtype.numpy)
    check(i, indices=indices)


@pytest.mark.parametrize(("name", "shared"), [
    ("window first", False), ("columns", False), ("windows of two", False), ("rows", True), ("one row", True),
])  # fmt: skip
def test_units_are_rows_of_the_result(name: str, shared: bool) -> None:
    i = {**CASES, **ROWS}[name]
    rows = Kernel(i).emitted.work_count % i.dims[0] == 0 and scatters_rows(i)
    assert rows == shared


@pytest.mark.parametrize(("rows", "units"), [(3, 3 * 8), (63, 63 * 8), (64, 64)])
def test_long_rows_of_small_results_are_cut(rows: int, units: int) -> None:
    i = scatter((rows, 1024), (21, 1), (21, 1024), Numbers((1,), (0,), (0,), 1))
    assert Kernel(i, for_cpu("x86-64-v3")).emitted.work_count == units


def test_few_units_of_streamed_rows_are_worth_a_thread() -> None:
    """Each goes through all places, in some 0.25 ns each: together in a quarter of the time of the updates."""
    i = scatter((10_000, 64), (200_000, 1), (200_000, 64), Numbers((1,), (0,), (0,), 1))
    for cpu in ("x86-64-v4", "znver4"):
        emitted = Kernel(i, for_cpu(cpu)).emitted
        walks = emitted.work_count / emitted.grain
        assert walks > 2
        assert 0.25 * 200_000 * walks <= emitted.cost_ns / 4


@pytest.mark.parametrize(("threads", "walks"), [(1, 2), (2, 2), (3, 2), (4, 4), (16, 10)])
def test_streamed_rows_are_walked_through_once_a_thread(threads: int, walks: int) -> None:
    """A walk's own rows take as long to read as all of them: walks are as few as threads, or as are worth it, and none
    goes through a part of each half of the columns or, where rows have no halves of whole lines, of the result
    (``passes/split_scatters.py``).
    """
    numbers = Numbers((1,), (0,), (0,), 1)
    for columns, halves in ((64, 2), (60, 1)):
        i = scatter((20_000, columns), (400_000, 1), (400_000, columns), numbers)
        emitted = Kernel(i, for_cpu("znver4", threads=threads)).emitted
        assert emitted.work_count == 20_000 * halves
        assert emitted.grain == 20_000 * halves // walks


def test_long_rows_that_stream_by_are_in_halves() -> None:
    """More blocks of columns are for results of fewer rows than there are threads."""
    numbers = Numbers((1,), (0,), (0,), 1)
    for rows, threads, blocks in ((1, 2, 2), (1, 4, 8), (20, 2, 2), (20, 16, 2)):
        i = scatter((rows, 1024), (4_000, 1), (4_000, 1024), numbers)
        emitted = Kernel(i, for_cpu("x86-64-v3", threads=threads)).emitted
        assert emitted.work_count == rows * blocks


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("cuts", [[], [5], [3], [2, 6, 9]], ids=str)
def test_halves_of_rows_have_the_sums_of_whole_rows(cpu: str, cuts: list[int]) -> None:
    """Whoever adds the updates of an element adds them in their order."""
    random = np.random.default_rng(1)
    i = scatter((5, 64), (17_001, 1), (17_001, 64), Numbers((1,), (0,), (0,), 1))
    kernel = Kernel(i, for_cpu(cpu, threads=2))
    assert kernel.emitted.work_count == 10
    arrays = [aligned(o.dims, o.dtype.numpy) for o in i.operands]
    places = random.integers(-1, 6, (17_001, 1))
    arrays[0][...], arrays[1][...] = random.random((5, 64)), places
    arrays[2][...] = random.random((17_001, 64))
    expected = arrays[0].copy()
    for row in range(5):
        terms = arrays[2][places[:, 0] == row]
        expected[row] = np.cumsum(np.vstack([expected[row : row + 1], terms]), axis=0)[-1]
    result = arrays[0].copy()
    kernel.call([*arrays, result], cuts)
    np.testing.assert_array_equal(result, expected)


def test_rows_that_do_not_stream_by_are_cut_by_their_work() -> None:
    numbers = Numbers((1,), (0,), (0,), 1)
    target = for_cpu("znver4", threads=2)
    for updates in (4_000, 25_000):  # nearer than memory, and few for each row
        emitted = Kernel(
            scatter((10_000, 64), (updates, 1), (updates, 64), numbers), target
        ).emitted
        assert emitted.work_count > 2 * emitted.grain


def test_rows_written_out_one_by_one_and_in_a_loop() -> None:
    for width in (8 * 16, 8 * 16 + 3, 9 * 16, 9 * 16 + 5):
        for cpu in ("x86-64-v2", "x86-64-v3", "host"):
            check(scatter((80, width), (9,), (9, width), Numbers((1,), (0,), (0,), 1)), cpu=cpu)


def fetches(code: str) -> tuple[int, int]:
    """How many prefetches there are, and how many of them are of an address that is not the same in all steps."""
    pointers = re.findall(r"@llvm.prefetch.p0\(ptr (%\w+), i32 0,", code)
    places = dict(re.findall(r"(%\w+) = getelementptr inbounds \w+, ptr (%\w+), i64 %", code))
    shifted = dict(re.findall(r"(%\w+) = getelementptr inbounds \w+, ptr (%\w+), i64 \d", code))
    moving = [p for p in pointers if p in places or shifted.get(p) in places]
    return len(pointers), len(moving)


def gathered_rows(rows: int, width: int) -> hlo.Instruction:
    """Sums of rows that are gathered from a table and scaled, as in a product of a sparse matrix."""
    shapes = [(100, width), (2000,), (rows, width), (2000,), (2000,)]
    types = [dtypes.F32, dtypes.S32, dtypes.F32, dtypes.S32, dtypes.F32]
    x, places, table, columns, numbers = (
        hlo.parameter(n, hlo.Shape(dtype, dims))
        for n, (dtype, dims) in enumerate(zip(types, shapes, strict=True))
    )
    picked = op(
        "gather", hlo.Shape(dtypes.F32, (2000, width)), table, columns,
        dimension_numbers=hlo.GatherDimensionNumbers((1,), (0,), (0,), 1),
        slice_sizes=(1, width), indices_are_sorted=False,
    )  # fmt: skip
    updates = op("multiply", picked.shape, picked, hlo.broadcast(numbers, picked.dims, (0,)))
    i = scatter((100, width), (2000,), (2000, width), Numbers((1,), (0,), (0,), 1))
    return fusion(
        "scatter", [x, places, table, columns, numbers], i.replace(operands=(x, places, updates))
    )


def test_rows_of_large_arrays_are_asked_for_ahead() -> None:
    """The rows of a unit's updates, and those of the result, lie at distances that no CPU foresees."""
    numbers = Numbers((1,), (0,), (0,), 1)
    target = for_cpu("x86-64-v4")
    few = Kernel(scatter((100, 64), (64, 1), (64, 64), numbers), target).ir
    assert fetches(few) == (0, 0)
    large = scatter((100, 64), (2048, 1), (2048, 64), numbers)
    assert fetches(Kernel(large, target).ir) == (64 // 16, 64 // 16)
    both = scatter((2000, 64), (2048, 1), (2048, 64), numbers)
    assert fetches(Kernel(both, target).ir) == (2 * 64 // 16, 2 * 64 // 16)
    check(scatter((100, 64), (1100, 1), (1100, 64), numbers))
    narrow = scatter((100, 16), (9000, 1), (9000, 16), numbers)
    assert fetches(Kernel(narrow, target).ir) == (0, 0)
    # Where the rows of a table are would be computed twice.
    assert fetches(Kernel(gathered_rows(3000, 32), target).ir) == (0, 0)


def test_places_are_noted_without_branches_where_lanes_move_together() -> None:
    i = scatter((100, 20), (40, 1), (40, 20), Numbers((1,), (0,), (0,), 1))
    for cpu, branches in (("x86-64-v4", False), ("x86-64-v3", True)):
        code = Kernel(i, for_cpu(cpu)).ir
        assert ("some" in code) == branches
        assert "vector.compress" in code
    for name in ("many places", "scattered in two dimensions"):
        for cpu in ("host", "x86-64-v3"):
            few = np.random.default_rng(2).integers(-9, 9, ROWS[name].operands[1].dims)
            check(ROWS[name], cpu=cpu, indices=few)


def test_rows_that_are_gathered_on_the_way() -> None:
    i = gathered_rows(3000, 37)
    generator = np.random.default_rng(0)
    arrays = []
    for n, o in enumerate(i.operands):
        array = aligned(o.dims, o.dtype.numpy)
        array[...] = generator.integers(
            *((0, 100) if n == 1 else (-5, 3005) if n == 3 else (-9, 10)), o.dims
        )
        arrays.append(array)
    x, places, table, columns, numbers = arrays
    expected = x.copy()
    np.add.at(expected, places, table[np.clip(columns, 0, 2999)] * numbers[:, None])
    result = aligned(i.dims, np.dtype(np.float32))
    result[...] = x
    kernel = Kernel(i)
    kernel.call([*arrays, result], [kernel.emitted.work_count // 3])
    np.testing.assert_array_equal(result, expected)


def test_rows_of_unique_places_are_units_of_their_own() -> None:
    i = scatter((50, 40), (30, 1), (30, 40), Numbers((1,), (0,), (0,), 1), unique=True)
    assert not scatters_rows(i)
    assert Kernel(i).emitted.work_count == 30


def with_producers(i: hlo.Instruction) -> hlo.Instruction:
    """A fusion of a scatter with what makes its places and updates: places - 1, and updates of three times as much."""
    x, indices, updates = (hlo.parameter(n, o.shape) for n, o in enumerate(i.operands))

    def number(value: int, like: hlo.Instruction) -> hlo.Instruction:
        return hlo.broadcast(hlo.constant(value, like.dtype), like.dims)

    places = op("subtract", indices.shape, indices, number(1, indices))
    tripled = op("multiply", updates.shape, updates, number(3, updates))
    root = i.replace(operands=(x, places, tripled))
    return hlo.Instruction(
        "fusion",
        i.shape,
        i.operands,
        {"kind": "scatter"},
        [hlo.Computation.from_root("fused", [x, indices, updates], root)],
    )


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2"])
@pytest.mark.parametrize(
    "name",
    [
        "elements",
        "no index vector",
        "points",
        "points, swapped",
        "index vector first",
        *TABLES,
        *ROWS,
    ],
)
def test_places_and_updates_are_computed_on_the_way(name: str, cpu: str) -> None:
    i = {**CASES, **TABLES, **ROWS}[name]
    kernel = Kernel(with_producers(i), for_cpu(cpu))
    generator = np.random.default_rng(5)
    largest = max(i.dims)
    for low, high in ((0, largest + 3), (1, 5)):  # with places outside, and without
        operand, updates = (generator.integers(-3, 4, i.operands[n].dims) for n in (0, 2))
        indices = generator.integers(low, high, i.operands[1].dims)
        arrays = []
        for data, dtype in ((operand, np.float32), (indices, np.int32), (updates, np.float32)):
            array = aligned(data.shape, np.dtype(dtype))
            array[...] = data
            arrays.append(array)
        expected = reference(i, arrays[0], arrays[1] - 1, arrays[2] * 3, "add")
        result = aligned(i.dims, np.dtype(np.float32))
        result[...] = arrays[0]
        kernel.call([*arrays, result], [kernel.emitted.work_count // 2])
        np.testing.assert_array_equal(result, expected)


def repeated(count: int, run: int) -> Array:
    """Places in order, each some ``run`` times, and at the end places in no order, of which some repeat."""
    generator = np.random.default_rng(count + run)
    places = np.sort(generator.integers(0, max(2, count // run), count))
    last = count // 4
    places[count - last :] = generator.integers(0, 3, last)
    return places


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        ("add", dtypes.F32), ("add", dtypes.F64), ("multiply", dtypes.S32), ("maximum", dtypes.S64),
        ("add", dtypes.BF16), ("add", dtypes.C64), ("set", dtypes.F32),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("count", [60, 64, 1027, 5003])
def test_places_that_repeat(count: int, function: str, dtype: DType, cpu: str) -> None:
    """Sums in the order of the updates, of numbers that round: as exactly the same as one after the other."""
    i = scatter((count,), (count, 1), (count,), Numbers((), (0,), (0,), 1), function, dtype)
    kernel = Kernel(with_producers(i), for_cpu(cpu))
    generator = np.random.default_rng(2)
    for run in (1, 7, 60):
        indices = repeated(count, run)[:, None]
        floats = dtype.is_float and function == "add" and dtype is not dtypes.BF16
        updates = generator.normal(size=count) if floats else generator.integers(-3, 4, count)
        operand = generator.integers(-3, 4, count).astype(dtype.numpy)
        updates = updates.astype(dtype.numpy)
        arrays = []
        for data in (operand, (indices + 1).astype(np.int32), updates):
            arrays.append(aligned(data.shape, data.dtype))
            arrays[-1][...] = data
        expected = reference(i, operand, indices, updates * dtype.numpy.type(3), function)
        result = aligned(i.dims, i.dtype.numpy)
        result[...] = operand
        kernel.call([*arrays, result], [])
        np.testing.assert_array_equal(result, expected)


def test_what_repeats_is_carried() -> None:
    """Not where a register holds more than memory does, nor where nothing is combined."""
    numbers = Numbers((), (0,), (0,), 1)

    def carries(function: str, dtype: DType) -> bool:
        i = scatter((5000,), (5000, 1), (5000,), numbers, function, dtype)
        return "ctpop" in Kernel(with_producers(i), for_cpu("x86-64-v3")).ir

    assert carries("add", dtypes.F32)
    assert not carries("add", dtypes.BF16)
    assert not carries("set", dtypes.F32)


@pytest.mark.parametrize(
    "dtype", [dtypes.BF16, dtypes.F64, dtypes.C64, dtypes.U8, dtypes.S64], ids=str
)
@pytest.mark.parametrize("index_dtype", [dtypes.S8, dtypes.U8, dtypes.U32, dtypes.S64], ids=str)
def test_dtypes_of_tables_in_turns(dtype: DType, index_dtype: DType) -> None:
    numbers = Numbers((), (1,), (1,), 2, (0,), (0,))
    check(scatter((4, 50), (4, 300), (4, 300), numbers, "add", dtype, index_dtype))
    check(scatter((4, 50), (4, 300), (4, 300), numbers, "set", dtype, index_dtype), "set")


def test_unique_indices() -> None:
    numbers = Numbers((1,), (0,), (0,), 1)
    i = scatter((50, 40), (30, 1), (30, 40), numbers, unique=True)
    check(i, indices=np.random.default_rng(0).permutation(60)[:30, None])


@pytest.mark.parametrize("width", [41, 47, 65, 81, 95, 100, 130, 163])
def test_rows_with_an_index_each_that_are_no_whole_vectors(width: int) -> None:
    """What ``vmap`` of ``dynamic_update_slice`` becomes: one row of every matrix, at its own index.

    Widths past the unrolled rows of 4, 8 and 16 lanes, with a rest: the kernel has a loop and a tail.
    """
    numbers = Numbers((1, 2), (), (1, 2), 1, (0,), (0,))
    i = scatter((2, 9, width), (2, 2), (2, 1, width), numbers, "set", unique=True)
    for cpu in ("host", "x86-64-v2"):
        check(i, "set", cpu, indices=np.array([[3, 0], [8, 0]]))


def test_several_arrays() -> None:
    """Keeps the larger key and its payload, as a scatter-based argmax does."""
    key, payload = hlo.Shape(dtypes.F32), hlo.Shape(dtypes.S32)
    a, b, c, d = (hlo.parameter(n, s) for n, s in enumerate([key, payload, key, payload]))
    less = op("compare", hlo.Shape(dtypes.PRED), a, c, direction="LT", comparison_type="FLOAT")
    results = [op("select", key, less, c, a), op("select", payload, less, d, b)]
    root = hlo.Instruction("tuple", hlo.TupleShape((key, payload)), results)
    shapes = [key.with_dims((7,)), payload.with_dims((7,)), hlo.Shape(dtypes.S32, (50, 1)), key.with_dims((50,)),
              payload.with_dims((50,))]  # fmt: skip
    operands = [hlo.parameter(n, s) for n, s in enumerate(shapes)]
    i = hlo.Instruction(
        "scatter", hlo.TupleShape((shapes[0], shapes[1])), operands,
        {"dimension_numbers": Numbers((), (0,), (0,), 1), "indices_are_sorted": False, "unique_indices": False},
        [hlo.Computation.from_root("larger", [a, b, c, d], root)],
    )  # fmt: skip
    generator = np.random.default_rng(0)
    indices = generator.integers(0, 7, (50, 1)).astype(np.int32)
    keys, payloads = generator.random(50).astype(np.float32), np.arange(50, dtype=np.int32)
    best, where = np.zeros(7, np.float32), np.full(7, -1, np.int32)
    for k, v, p in zip(indices[:, 0], keys, payloads, strict=True):
        if best[k] < v:
            best[k], where[k] = v, p
    results_ = [np.zeros(7, np.float32), np.full(7, -1, np.int32)]
    Kernel(i).call(
        [np.zeros(7, np.float32), np.zeros(7, np.int32), indices, keys, payloads, *results_]
    )
    np.testing.assert_array_equal(results_[0], best)
    np.testing.assert_array_equal(results_[1], where)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F16, dtypes.U8, dtypes.C64], ids=str)
def test_two_updates_whose_places_are_one_register(dtype: DType, cpu: str) -> None:
    """LLVM took both 32-bit places, which lay on the stack, for the 64 bits of one address.

    It does so only if it knows that no place is outside, and that the first one is not negative.
    """
    x, first, updates = (
        hlo.parameter(n, s)
        for n, s in enumerate(
            [hlo.Shape(dtype, (2, 12)), hlo.Shape(dtypes.S32), hlo.Shape(dtype, (2,))]
        )
    )
    pair = hlo.Shape(dtypes.S32, (2,))

    def number(value: int) -> hlo.Instruction:
        return hlo.broadcast(hlo.constant(value, dtypes.S32), (2,))

    steps = op("multiply", pair, op("iota", pair, dimension=0), number(11))
    some = op("and", first.shape, first, hlo.constant(15, dtypes.S32))
    sums = op("add", pair, steps, hlo.broadcast(some, (2,)))
    places = op("remainder", pair, sums, number(4))
    tripled = op("add", updates.shape, updates, updates)
    i = scatter((2, 12), (2,), (2,), Numbers((), (1,), (1,), 1, (0,), (0,)), "add", dtype).replace(
        operands=(x, places, tripled)
    )
    fused = fusion("scatter", [x, first, updates], i)
    result = aligned((2, 12), dtype.numpy)
    result[...] = np.zeros((2, 12), dtype.numpy)
    given = np.array([2, 5], dtype.numpy)
    kernel = Kernel(fused, for_cpu(cpu))
    kernel.call([result.copy(), np.array(6, np.int32), given, result])
    expected = np.zeros((2, 12), dtype.numpy)
    expected[0, 2], expected[1, 1] = 4, 10  # 6 % 4, 17 % 4
    np.testing.assert_array_equal(result, expected)
