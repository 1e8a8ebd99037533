"""Scatters of many elements into few, in parts."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir.dtypes import BF16, C64, F32, S8, S32, U8, DType
from tripont.core.compiler.ir.hlo import Module, ScatterDimensionNumbers
from tripont.core.compiler.passes.split_scatters import split_scatters
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import body, module, op, opcodes, parameter, priced

TARGET = priced(threads={"scatter_elements": 64})
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
) -> Module:
    if indices is None:
        indices = (*updates, 1)
    x, y = parameter(0, *dims, dtype=dtype), parameter(2, *updates, dtype=dtype)
    places = parameter(1, *indices, dtype=index_dtype)
    result = op(
        "scatter", x, places, y, dimension_numbers=numbers, indices_are_sorted=False,
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
        scatter((4, 5), (640, 5), numbers=ROWS, indices=(640, 1)),
        scatter((4,), (640,), "subtract"),
        scatter((4,), (640,), "multiply", C64),
    ],
    ids=["few", "large table", "unique", "rows", "another operation", "complex products"],
)
def test_left_alone(before: Module) -> None:
    assert split_scatters(before, TARGET) is before


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
