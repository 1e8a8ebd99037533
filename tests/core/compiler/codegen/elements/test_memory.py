"""Loads and stores of elements: how vectors that an array does not fill are read and written."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.codegen.elements.memory import PIECES_BYTES
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType

from tests.core.compiler.codegen.harness import Kernel, fusion, op, runnable

F32, F64, S32, S8 = dtypes.F32, dtypes.F64, dtypes.S32, dtypes.S8
C64, C128 = dtypes.C64, dtypes.C128
S = hlo.Shape
CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def sum_of(dtype: DType, *dims: int) -> hlo.Instruction:
    x, y = hlo.parameter(0, S(dtype, dims)), hlo.parameter(1, S(dtype, dims))
    return fusion("loop", [x, y], op("add", x.shape, x, y))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", [F32, F64, S32, S8], ids=str)
def test_small_arrays_of_every_size(dtype: DType, cpu: str):
    """The harness looks whether anything beside the result is written."""
    target = runnable(cpu)
    for size in (*range(3, 20), 31, 33, 41, PIECES_BYTES // dtype.size - 1, PIECES_BYTES + 1):
        x, y = np.arange(size, dtype=dtype.numpy), np.full(size, 2, dtype.numpy)
        (result,) = Kernel(sum_of(dtype, size), target).run([x, y])
        np.testing.assert_array_equal(result, x + y)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", [F32, F64, S32, S8, C64, C128], ids=str)
def test_ends_of_rows(dtype: DType, cpu: str):
    """A vector that a row does not fill leaves the next row alone, which is written before or behind it."""
    target = runnable(cpu)
    rng = np.random.default_rng(0)
    for size in (*range(2, 18), 31, 33):
        dims = (23, size)
        x, y = (rng.integers(-50, 50, dims).astype(dtype.numpy) for _ in range(2))
        head, row = hlo.parameter(0, S(dtype, dims)), hlo.parameter(1, S(dtype, (size,)))
        rows = op("broadcast", head.shape, row, dimensions=(1,))
        made = fusion("loop", [head, row], op("add", head.shape, head, rows))
        (result,) = Kernel(made, target).run([x, y[0]])
        np.testing.assert_array_equal(result, x + y[:1])


@pytest.mark.parametrize("cpu", CPUS)
def test_small_arrays_are_read_and_written_without_masks(cpu: str):
    target = runnable(cpu)
    for dtype, size in ((F32, 3), (F32, 7), (F32, 15), (F64, 3), (F64, 7), (F64, 31)):
        assert ".masked." not in Kernel(sum_of(dtype, size), target).ir
    longer = Kernel(sum_of(F32, PIECES_BYTES // 4 + 7), target).ir
    assert (".masked.load." in longer) == (cpu != "x86-64-v2")
    assert (".masked.store." in longer) == (
        cpu == "x86-64-v4"
    )  # with AVX alone masked stores are slow
