"""Few rows by a large matrix: the matrix is read where it lies, whichever way round that is."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import DotDimensionNumbers
from tripont.core.compiler.observe.dump import Dump

from tests.core.compiler.builders import module, op, parameter, priced
from tests.core.compiler.test_native import NativeSimulation

# At least 256 KB of each type, and no multiples of a vector.
MANY, TERMS = 407, 333


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "host"])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F64, dtypes.BF16, dtypes.F16], ids=str)
@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("first", [False, True], ids=["rows first", "matrix first"])
def test_a_transposed_matrix_is_read_where_it_lies(
    first: bool, rows: int, dtype: DType, cpu: str
) -> None:
    """``x @ w.T`` and ``w.T @ x`` transpose no matrix, which would take longer than the product."""
    few = (TERMS, rows) if first else (rows, TERMS)
    lies = (TERMS, MANY) if first else (MANY, TERMS)
    x, w = parameter(0, *few, dtype=dtype), parameter(1, *lies, dtype=dtype)
    turned = op("transpose", w, dims=lies[::-1], dimensions=(1, 0))
    sides = (turned, x) if first else (x, turned)
    result = (MANY, rows) if first else (rows, MANY)
    numbers = DotDimensionNumbers((1,), (0,))
    precision = ("DEFAULT", "DEFAULT")
    dot = op("dot", *sides, dims=result, dimension_numbers=numbers, precision=precision)
    target = priced(cpu, products={"pairs_matrix": 0, "swapped_rows": 0})
    after = pipeline.run(module([x, w], dot), target, Dump())
    moved = [i for i in after.entry.instructions if i.elements == MANY * TERMS]
    assert [i.opcode for i in moved] == ["parameter"]
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, p.dims).astype(dtype.numpy) for p in (x, w)]
    (got,) = NativeSimulation(after, cpu).run(values)
    a, b = (v.astype(np.float64) for v in values)
    wanted = b.T @ a if first else a @ b.T
    np.testing.assert_array_equal(got, wanted.astype(got.dtype))


def test_a_matrix_of_short_sums_is_transposed() -> None:
    """Eight rows by a matrix of 16 terms: adding up each sum across a vector takes longer than the transpose."""
    x, w = parameter(0, 8, 16), parameter(1, 12_500, 16)
    turned = op("transpose", w, dims=(16, 12_500), dimensions=(1, 0))
    numbers = DotDimensionNumbers((1,), (0,))
    precision = ("DEFAULT", "DEFAULT")
    dot = op("dot", x, turned, dims=(8, 12_500), dimension_numbers=numbers, precision=precision)
    after = pipeline.run(module([x, w], dot), priced("x86-64-v4"), Dump())
    assert (16, 12_500) in [i.dims for i in after.entry.instructions]
    random = np.random.default_rng(0)
    values = [random.integers(-2, 3, p.dims).astype(np.float32) for p in (x, w)]
    (got,) = NativeSimulation(after, "x86-64-v4").run(values)
    np.testing.assert_array_equal(got, values[0] @ values[1].T)
