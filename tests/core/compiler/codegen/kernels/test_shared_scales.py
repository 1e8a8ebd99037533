"""Few rows by weights whose neighbours share scales: sums are multiplied by them, where that gives the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType

from tests.core.compiler.builders import op
from tests.core.compiler.codegen.kernels.test_few_rows import dequantised, optimised, unpacked
from tests.core.compiler.codegen.kernels.test_packed_dot import cpu, of_each_width, product
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
__all__ = ["cpu"]
BF16, F32, S8, S32, U32 = dtypes.BF16, dtypes.F32, dtypes.S8, dtypes.S32, dtypes.U32
N, K = 1040, 1024


def divided(matrix: hlo.Instruction) -> hlo.Instruction:
    """``matrix`` with its integers divided by the scales."""
    if matrix.opcode == "multiply":
        return op("divide", *matrix.operands)
    return matrix.replace(operands=[divided(matrix.operands[0])])


def program(
    m: int, group: int, transposed: bool, *, divides: bool = False, given: DType = F32
) -> tuple[hlo.Instruction, list[hlo.Instruction]]:
    """A product of ``m`` rows by bytes times, or divided by, scales, and its parameters."""
    matrix, parameters = dequantised(S8, given, N, K, group, transposed, "scale")
    matrix = divided(matrix) if divides else matrix
    made = product((given, given), F32, m, N, K, (False, transposed))
    return made.replace(operands=[made.operands[0], matrix]), [made.operands[0], *parameters]


def run(
    root: hlo.Instruction, parameters: list[hlo.Instruction], values: list[Array], cpu: str
) -> Array:
    (result,) = NativeSimulation(optimised(root, parameters, cpu), cpu).run(values)
    return result


def laid_out(array: Array, transposed: bool) -> Array:
    """``array``, [k, n], in the order of a matrix."""
    return np.ascontiguousarray(array.T) if transposed else array


@of_each_width
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize("divides", [False, True], ids=["times", "divided"])
@pytest.mark.parametrize("group", [0, 32, 64, 128])
def test_a_group_is_rounded_by_its_scale_once(
    group: int, divides: bool, transposed: bool, cpu: str
) -> None:
    """Two terms of one group, which are neighbours in a vector's lane too: the sum of their integers is exact."""
    root, parameters = program(1, group, transposed, divides=divides)
    random = np.random.default_rng(group)
    rows = np.zeros((1, K), np.float32)
    rows[0, [0, 16]] = 1
    weights = random.integers(-128, 128, (K, N)).astype(np.int8)
    scales = random.standard_normal((K // group if group else 1, N)).astype(np.float32)
    given = laid_out(scales, transposed) if group else scales[0]
    got = run(root, parameters, [rows, laid_out(weights, transposed), given], cpu)
    exact = weights[0].astype(np.float32) + weights[16]
    np.testing.assert_array_equal(got[0], exact / scales[0] if divides else exact * scales[0])


@of_each_width
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize("group", [0, 64])
@pytest.mark.parametrize(("m", "divides"), [(1, False), (2, False), (2, True)])
def test_sums_that_overflow_without_their_scales(
    m: int, divides: bool, group: int, transposed: bool, cpu: str
) -> None:
    """Rows of 2^126 by integers up to 64 are infinite, and are not times a scale of 2^-10. All of it is exact."""
    root, parameters = program(m, group, transposed, divides=divides)
    random = np.random.default_rng(group)
    rows = np.where(np.arange(K) % 256 == 0, 2.0**126, 0).astype(np.float32)[None].repeat(m, 0)
    weights = random.integers(1, 65, (K, N)).astype(np.int8)
    scale = 2.0**10 if divides else 2.0**-10
    scales = np.full((K // group, N) if group else (N,), scale, np.float32)
    given = laid_out(scales, transposed) if group else scales
    got = run(root, parameters, [rows, laid_out(weights, transposed), given], cpu)
    exact = weights[::256].astype(np.float64).sum(axis=0) * 2.0**116
    np.testing.assert_array_equal(got, exact.astype(np.float32)[None].repeat(m, 0))


@of_each_width
@pytest.mark.parametrize("divides", [False, True], ids=["times", "divided"])
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_what_is_infinite_in_the_program_is_so_in_the_product(
    transposed: bool, divides: bool, cpu: str
) -> None:
    """An infinite scale, or a division by 0, makes an integer 0 NaN, which it is not in a sum of integers."""
    root, parameters = program(1, 64, transposed, divides=divides)
    rows = np.ones((1, K), np.float32)
    weights = np.ones((K, N), np.int8)
    scales = np.ones((K // 64, N), np.float32)
    scales[3, 5] = scales[4, 700] = 0 if divides else np.inf
    weights[200, 5] = 0
    values = [rows, laid_out(weights, transposed), laid_out(scales, transposed)]
    got = run(root, parameters, values, cpu)
    expected = np.full((1, N), K, np.float32)
    expected[0, 5], expected[0, 700] = np.nan, np.inf
    np.testing.assert_array_equal(got, expected)


@of_each_width
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize("group", [16, 48, 128, 384])
def test_words(group: int, transposed: bool, m: int, cpu: str) -> None:
    """Numbers of four bits, whose groups a vector of words divides or not. Scales are powers of two: it is exact."""
    k = 1152
    matrix, parameters = unpacked(U32, N, k, int(transposed), transposed, "shifts")
    dims = (N, k // group) if transposed else (k // group, N)
    scales = hlo.parameter(2, hlo.Shape(BF16, dims))
    split = (N, k // group, group) if transposed else (k // group, group, N)
    kept = (0, 1) if transposed else (0, 2)
    wide = op("broadcast", op("convert", scales, dtype=F32), dims=split, dimensions=kept)
    matrix = op("multiply", matrix, op("reshape", wide, dims=matrix.dims))
    made = product((F32, F32), F32, m, N, k, (False, transposed))
    root = made.replace(operands=[made.operands[0], matrix])
    random = np.random.default_rng(group)
    rows = random.integers(-4, 5, (m, k)).astype(np.float32)
    codes = random.integers(0, 16, (k, N)).astype(np.uint32)
    shifts = 4 * np.arange(8, dtype=np.uint32)[:, None]
    words = (codes.reshape(k // 8, 8, N) << shifts).sum(axis=1, dtype=np.uint32)
    powers = 2.0 ** random.integers(-2, 3, (k // group, N))
    values = [rows, laid_out(words, transposed), laid_out(powers, transposed).astype(BF16.numpy)]
    got = run(root, [made.operands[0], *parameters, scales], values, cpu)
    weights = (codes.astype(np.float64) - 8) * powers.repeat(group, axis=0)
    np.testing.assert_array_equal(got, rows @ weights)
