"""Epilogues of products with AMX, computed while the next tile is multiplied, on a CPU that emulates AMX.

The numbers are small integers, so every result is exact.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels.matrix_dot import MatrixDot
from tripont.core.compiler.codegen.kernels.product_tiles import PlacedTile
from tripont.core.compiler.codegen.kernels.product_writes import Epilogue
from tripont.core.compiler.codegen.llvm_ir import Value
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu, linker

from tests.core.compiler.builders import module, number, op
from tests.core.compiler.codegen import native
from tests.core.compiler.codegen.emulated_matrices import Registers
from tests.core.compiler.codegen.kernels.test_matrix_dot import cpu, registers
from tests.core.compiler.codegen.kernels.test_packed_dot import kinds, product
from tests.core.compiler.codegen.kernels.test_position_ranges import band, lower
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu", "registers"]

Array = np.ndarray[Any, Any]
S8, S32, BF16, F32 = dtypes.S8, dtypes.S32, dtypes.BF16, dtypes.F32

# Rows, columns, terms and matrices, and whether epilogues lie between products.
CASES = [
    (96, 96, 192, 0, True),
    (87, 90, 203, 0, True),  # the last tiles lie upon others, and steps are not full
    (50, 70, 300, 3, True),
    (544, 64, 256, 0, True),  # several blocks of rows
    (70, 700, 200, 0, True),  # and of columns
    (129, 48, 2100, 0, True),  # more steps than rows
    (16, 700, 520, 0, True),  # one row of registers
    (32, 32, 256, 2, False),  # one tile of each matrix
    (87, 90, 64, 0, False),  # two steps of bf16, one of bytes
]


class Rows:
    """The rows of tiles whose epilogues ran, and how many multiplications had been done before each of them."""

    def __init__(self, registers: Registers, monkeypatch: pytest.MonkeyPatch) -> None:
        self.registers = registers
        self.kernels: list[MatrixDot] = []
        self.seen: Counter[tuple[int, int, int]] = Counter()
        self.moments: list[int] = []
        self.function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(self.note)
        address = ctypes.cast(self.function, ctypes.c_void_p).value
        monkeypatch.setitem(native.FUNCTIONS, "note_row", address)
        monkeypatch.setattr(linker, "IMPORTABLE", linker.IMPORTABLE | {"note_row"})
        write = MatrixDot.write_row_of_roots

        def noted(
            kernel: MatrixDot, tile: PlacedTile, sums: Value, r: Value, epilogue: Epilogue | None
        ) -> None:
            self.kernels.append(kernel)
            kernel.b.call("void", "note_row", [tile.top, tile.left, r])
            write(kernel, tile, sums, r, epilogue)

        monkeypatch.setattr(MatrixDot, "write_row_of_roots", noted)

    def note(self, top: int, left: int, row: int) -> None:
        self.seen[top, left, row] += 1
        self.moments.append(self.registers.multiplications)


def program(
    types: tuple[DType, DType], m: int, n: int, k: int, batch: int
) -> tuple[list[hlo.Instruction], hlo.Instruction]:
    """A product with a bias for each column and each row, relu and a residual."""
    made = product(types, F32 if types[0] is BF16 else S32, m, n, k, batch=batch)
    columns, rows = (hlo.parameter(2 + i, hlo.Shape(F32, (size,))) for i, size in enumerate((n, m)))
    residual = hlo.parameter(4, made.shape.with_dtype(F32))
    value = made if made.dtype is F32 else op("convert", made, dtype=F32)
    for bias, dim in ((columns, -1), (rows, -2)):
        dim += len(made.dims)
        value = op("add", value, op("broadcast", bias, dims=made.dims, dimensions=(dim,)))
    value = op("maximum", value, number(0.0, *made.dims, dtype=F32))
    return [*made.operands, columns, rows, residual], op("add", residual, value)


@pytest.mark.parametrize("types", [(BF16, BF16), (S8, S8)], ids=str)
@pytest.mark.parametrize(("m", "n", "k", "batch", "between"), CASES)
def test_every_row_is_computed_once(
    types: tuple[DType, DType],
    m: int,
    n: int,
    k: int,
    batch: int,
    between: bool,
    cpu: str,
    registers: Registers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parameters, root = program(types, m, n, k, batch)
    after = pipeline.run(module(parameters, root), for_cpu(cpu, False), Dump())
    assert kinds(after)[-1] == "packed-dot"
    rows = Rows(registers, monkeypatch)
    random = np.random.default_rng(0)
    values = [random.integers(-4, 5, p.dims).astype(p.dtype.numpy) for p in parameters]
    (got,) = NativeSimulation(after, cpu).run(values)
    lhs, rhs, by_column, by_row, residual = (v.astype(np.float64) for v in values)
    wanted = np.maximum(lhs @ rhs + by_column + by_row[:, None], 0) + residual
    np.testing.assert_array_equal(got, wanted)
    (kernel,) = set(rows.kernels)
    tops, lefts = (
        {min(first, size - tile) for first in range(0, size, tile)}
        for size, tile in ((m, kernel.rows), (n, kernel.width))
    )
    times = max(1, batch)
    places = {(top, left, r) for top in tops for left in lefts for r in range(kernel.rows)}
    assert rows.seen == Counter(dict.fromkeys(places, times))
    steps = kernel.groups // kernel.form.depth
    products = steps * len(kernel.matrix.heights) * kernel.vectors  # of a tile
    assert any(moment % products for moment in rows.moments) == between


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of NumPy, which emulates AMX
@pytest.mark.parametrize("sizes", [(256, 256, 192), (250, 300, 32), (131, 190, 4500)], ids=str)
@pytest.mark.parametrize(("mask", "part"), [(lower, 0.75), (band, 0.7)])
def test_tiles_that_a_mask_hides_are_not_multiplied(
    mask: Callable[[hlo.Instruction], hlo.Instruction],
    part: float,
    sizes: tuple[int, int, int],
    cpu: str,
    registers: Registers,
) -> None:
    """``part``: of all multiplications, at most. Numbers that are none reach what is selected alone."""
    m, n, k = sizes
    made = product((BF16, BF16), F32, m, n, k)
    random = np.random.default_rng(7)
    values = [random.integers(-4, 5, p.dims).astype(BF16.numpy) for p in made.operands]
    values[0][m // 2, 3], values[1][5, n // 2] = np.nan, np.inf
    counts = []
    for root in (op("negate", made), mask(made)):
        before = module([*made.operands], root)
        (want,) = evaluate(before, values)
        after = pipeline.run(before, for_cpu(cpu, False), Dump())
        registers.multiplications = 0
        (got,) = NativeSimulation(after, cpu).run(values)
        np.testing.assert_array_equal(got, want)
        counts.append(registers.multiplications)
    assert 0 < counts[1] <= part * counts[0]
