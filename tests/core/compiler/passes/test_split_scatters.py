"""Scatters of many elements or rows into few, in parts."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir.dtypes import BF16, C64, F8E4M3FN, F32, S8, S32, U8, U32, DType
from tripont.core.compiler.ir.hlo import GatherDimensionNumbers, Module, ScatterDimensionNumbers
from tripont.core.compiler.passes.split_scatters import split_scatters
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import body, module, op, opcodes, parameter, priced

TARGET = priced(threads={"scatter_elements": 64, "scatter_streamed": 1 << 10})
ELEMENTS = ScatterDimensionNumbers((), (0,), (0,), 1)
POINTS = ScatterDimensionNumbers((), (0, 1), (1, 0), 1)
ROWS = ScatterDimensionNumbers((1,), (0,), (0,), 1)


def scatter(
    dims: tuple[int, ...],
    updates: tuple[int, ...],
    opcode: str = "add",
    dtype: DType = S32,
    numbers: ScatterDimensionNumbers = ELEMENTS,
    index_dtype: DType = S32,
    indices: tuple[int, ...] | None = None,
    unique: bool = False,
    in_order: bool = False,
) -> Module:
    if indices is None:
        indices = (*updates, 1)
    x, y = parameter(0, *dims, dtype=dtype), parameter(2, *updates, dtype=dtype)
    places = parameter(1, *indices, dtype=index_dtype)
    result = op(
        "scatter", x, places, y, dimension_numbers=numbers, indices_are_sorted=in_order,
        unique_indices=unique, called=[body(opcode, dtype)],
    )  # fmt: skip
    return module([x, places, y], result)


def values_of(before: Module) -> list[np.ndarray]:
    """Whole numbers, whose sums are exact, and places some of which are outside."""
    random = np.random.default_rng(0)
    values = []
    for n, p in enumerate(before.entry.parameters):
        low = 0 if p.dtype.kind == "uint" else -2
        high = 1 + max(before.entry.parameters[0].dims) if n == 1 else 3
        values.append(random.integers(low, high, p.dims).astype(p.dtype.numpy))
    return values


def check(before: Module) -> Module:
    before.assign_names()
    after = split_scatters(before, TARGET)
    values = values_of(before)
    for a, b in zip(evaluate(before, values), evaluate(after, values), strict=True):
        np.testing.assert_array_equal(a, b)
    return after


CASES = {
    "sums": scatter((4,), (640,)),
    "a length that parts do not divide": scatter((4,), (641,)),
    "products": scatter((4,), (640,), "multiply", F32),
    "largest": scatter((4,), (643,), "maximum", F32),
    "complex": scatter((4,), (643,), dtype=C64),
    "bf16": scatter((4,), (160,), dtype=BF16),
    "points": scatter((2, 3), (650,), numbers=POINTS, indices=(650, 2)),
    "points, index vector first": scatter(
        (2, 3),
        (650,),
        numbers=ScatterDimensionNumbers((), (0, 1), (0, 1), 0),
        indices=(2, 650),
    ),
    "several dimensions": scatter((4,), (3, 219), numbers=ScatterDimensionNumbers((), (0,), (0,), 2)),
    "every value is a place": scatter((256,), (8197,), index_dtype=U8),
    "short indices": scatter((100,), (4097,), index_dtype=S8),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_parts(name: str) -> None:
    """The values stay; each part has a table of its own."""
    after = check(CASES[name])
    (scattered,) = (i for i in after.entry.instructions if i.opcode == "scatter")
    parts = scattered.dims[0]
    assert parts >= 8
    assert scattered.dims[1:] == CASES[name].entry.root.dims
    assert opcodes(after.entry).count("reduce") == 1


@pytest.mark.parametrize(
    "before",
    [
        scatter((4,), (63,)),
        scatter((40,), (64,)),
        scatter((4,), (640,), unique=True),
        scatter((4,), (640,), "subtract"),
        scatter((4,), (640,), "multiply", C64),
        scatter((4, 5), (48, 5), numbers=ROWS, indices=(48, 1)),
        scatter((99, 5), (640, 5), numbers=ROWS, indices=(640, 1)),
        scatter((4, 5), (640, 5), numbers=ROWS, indices=(640, 1), unique=True),
        scatter((4, 5), (640, 5), numbers=ROWS, indices=(640, 1), in_order=True),
        scatter((4, 5), (640, 5), "subtract", numbers=ROWS, indices=(640, 1)),
        scatter((4, 5), (640, 5), dtype=F8E4M3FN, numbers=ROWS, indices=(640, 1)),
        scatter((0, 5), (640, 5), numbers=ROWS, indices=(640, 1)),
    ],
    ids=[
        *("few", "large table", "unique", "another operation", "complex products"),
        *("few rows", "large table of rows", "unique rows", "rows in order"),
        *("another operation of rows", "small floats", "no rows"),
    ],
)
def test_left_alone(before: Module) -> None:
    assert split_scatters(before, TARGET) is before


OF_ROWS = {
    "sums": scatter((4, 5), (640, 5), numbers=ROWS, indices=(640, 1)),
    "an odd number": scatter((4, 5), (641, 5), numbers=ROWS, indices=(641, 1)),
    "largest": scatter((4, 5), (641, 5), "maximum", F32, ROWS, indices=(641, 1)),
    "bf16": scatter((4, 5), (160, 5), dtype=BF16, numbers=ROWS, indices=(160, 1)),
    "matrices": scatter(
        (4, 2, 3), (640, 2, 3), numbers=ScatterDimensionNumbers((1, 2), (0,), (0,), 1), indices=(640, 1)
    ),
    "several dimensions": scatter(
        (4, 5), (3, 219, 5), numbers=ScatterDimensionNumbers((2,), (0,), (0,), 2), indices=(3, 219, 1)
    ),
    "index vector first": scatter(
        (4, 5), (3, 219, 5), numbers=ScatterDimensionNumbers((2,), (0,), (0,), 0), indices=(1, 3, 219)
    ),
    "no index vector": scatter((4, 5), (640, 5), numbers=ROWS, indices=(640,)),
    "every value is a place": scatter((256, 2), (4099, 2), numbers=ROWS, index_dtype=U8, indices=(4099, 1)),
    "short indices": scatter((100, 2), (4099, 2), numbers=ROWS, index_dtype=S8, indices=(4099, 1)),
    "unsigned indices": scatter((4, 5), (640, 5), numbers=ROWS, index_dtype=U32, indices=(640, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(OF_ROWS))
def test_halves(name: str) -> None:
    """The values stay; the second half of the updates has a table of its own, behind that of the first."""
    before = OF_ROWS[name]
    after = check(before)
    (scattered,) = (i for i in after.entry.instructions if i.opcode == "scatter")
    rows, *row = before.entry.root.dims
    assert scattered.dims == (2 * rows, *row)
    assert scattered.operands[2].opcode == "parameter"
    assert opcodes(after.entry).count("reduce") == 1


def test_gathered_rows_are_left_alone() -> None:
    """They lie far apart for every reader; rows that are computed of what streams by do not."""
    before = scatter((4, 5), (640, 5), numbers=ROWS, indices=(640, 1))
    x, places, y = before.entry.parameters
    (scattered,) = (i for i in before.entry.instructions if i.opcode == "scatter")
    numbers = GatherDimensionNumbers((1,), (0,), (0,), 1)
    rows = op(
        "gather", y, places, dims=y.dims, dimension_numbers=numbers, slice_sizes=(1, 5),
        indices_are_sorted=False,
    )  # fmt: skip
    for updates, splits in ((op("negate", rows), False), (op("negate", y), True)):
        given = module([x, places, y], scattered.with_operands([x, places, updates]))
        assert (split_scatters(given, TARGET) is not given) == splits


def test_rows_of_whole_lines_have_one_table() -> None:
    """Threads share out their columns: a second table would take memory."""
    for columns, splits in ((64, False), (128, False), (60, True), (32, True)):
        before = scatter((4, columns), (640, columns), dtype=F32, numbers=ROWS, indices=(640, 1))
        assert (split_scatters(before, TARGET) is not before) == splits


def test_devices_whose_kernels_share_out_no_rows_have_one_table() -> None:
    before = OF_ROWS["sums"]
    target = priced(threads={"scatter_streamed": 1 << 10}, memory={"places": 0})
    assert split_scatters(before, target) is before


def test_a_negative_zero_stays() -> None:
    """An element that nothing is added to keeps its sign."""
    before = scatter((3,), (640,), dtype=F32)
    values = [np.float32([-0.0, 0.0, -0.0]), np.full((640, 1), 1, np.int32)]
    values.append(np.full(640, -0.0, np.float32))
    (result,) = evaluate(split_scatters(before, TARGET), values)
    np.testing.assert_array_equal(np.signbit(result), [True, False, True])


def test_sums_of_many_terms_are_more_exact() -> None:
    """Each part has fewer terms, and the parts are added once."""
    count = 1 << 14
    before = scatter((1,), (count,), dtype=F32)
    terms = np.random.default_rng(0).random(count).astype(np.float32)
    values = [np.zeros(1, np.float32), np.zeros((count, 1), np.int32), terms]
    exact = terms.astype(np.float64).sum()
    (parts,) = evaluate(split_scatters(before, TARGET), values)
    # 512 terms of at most their sum are rounded in each part, and 32 parts: half an ulp each.
    assert abs(parts[0] - exact) <= (512 + 32) * 2.0**-24 * exact
