"""Transposes of small dimensions, in blocks that are turned about in registers, against NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tripont.core.compiler.codegen.kernels.block_transpose import blocks_for
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.lane_blocks import Digit, digits, lane_blocks
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.harness import Kernel, op

CPUS = ("host", "x86-64-v2", "x86-64-v3")


def transpose(
    dims: tuple[int, ...], order: tuple[int, ...], dtype: DType = dtypes.F32
) -> hlo.Instruction:
    x = hlo.parameter(0, hlo.Shape(dtype, dims))
    shape = hlo.Shape(dtype, tuple(dims[d] for d in order))
    return op("block-transpose", shape, x, dimensions=order)


def check(i: hlo.Instruction, cpu: str = "host") -> None:
    dims = i.operands[0].dims
    bits = np.random.default_rng(0).integers(0, 256, (*dims, i.dtype.size), np.uint8)
    x = (bits & 1 if i.dtype is dtypes.PRED else bits).view(i.dtype.numpy)[..., 0]
    kernel = Kernel(i, for_cpu(cpu))
    units = kernel.emitted.work_count
    (result,) = kernel.run([x], [units // 3, units // 2])
    expected = np.ascontiguousarray(x.transpose(i.attributes["dimensions"]))
    np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("cpu", CPUS)
def test_every_order_of_few_dimensions(cpu: str) -> None:
    target = for_cpu(cpu)
    found = set()
    for dims in ((2, 2, 2, 2, 2), (4, 2, 3, 8), (2, 16, 6, 4)):
        for order in itertools.permutations(range(len(dims))):
            i = transpose(dims, order)
            blocks = blocks_for(target, i)
            if blocks is not None and len(digits(i)) > 1:
                found.add(len(blocks.leaving))
                check(i, cpu)
    assert found >= {0, 1, 2}  # how many bits change places between lanes and registers


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("seed", range(4))
def test_many_bits(seed: int, cpu: str) -> None:
    order = tuple(int(n) for n in np.random.default_rng(seed).permutation(14))
    check(transpose((2,) * 14, order), cpu)


@pytest.mark.parametrize(
    "dtype", [dtypes.PRED, dtypes.S8, dtypes.BF16, dtypes.F64, dtypes.C64, dtypes.U32], ids=str
)
def test_dtypes(dtype: DType) -> None:
    check(transpose((2,) * 10, (4, 9, 0, 7, 2, 5, 8, 1, 3, 6), dtype))
    check(transpose((6, 5, 32, 2), (2, 1, 0, 3), dtype))


@pytest.mark.parametrize(
    ("dims", "order"),
    [
        ((64, 48, 2), (1, 0, 2)),
        ((12, 7, 4, 8), (2, 1, 0, 3)),  # digits that are no bits, in and between units
        ((4096, 2, 2, 4), (0, 3, 2, 1)),  # a digit that is longer than the table
        ((700, 2, 8, 4), (0, 3, 2, 1)),
        ((521, 4, 8), (0, 2, 1)),  # the same, and a prime
        ((1, 16, 1, 16, 4), (3, 0, 1, 4, 2)),
    ],
)
def test_rest(dims: tuple[int, ...], order: tuple[int, ...]) -> None:
    for cpu in CPUS:
        check(transpose(dims, order), cpu)


def test_blocks() -> None:
    i = transpose((8, 3, 4), (2, 1, 0))
    assert digits(i) == [Digit(4, 1, 24), Digit(3, 4, 8), Digit(8, 12, 1)]
    blocks = lane_blocks(i, 16)
    assert blocks is not None
    assert blocks.lanes == 4  # a vector of eight of the operand would lie in two rows
    assert [bit.source for bit in blocks.read] == [2, 1]
    assert [bit.target for bit in blocks.written] == [2, 1]
    assert [d.size for d in blocks.outer] == [3, 2]
    assert lane_blocks(transpose((8, 4, 3), (2, 1, 0)), 16) is None


@pytest.mark.parametrize("dtype", [dtypes.C128, dtypes.S4], ids=str)
def test_elements_of_other_sizes_have_no_blocks(dtype: DType) -> None:
    x = hlo.parameter(0, hlo.Shape(dtype, (64, 64, 2)))
    i = op("transpose", x.shape, x, dimensions=(1, 0, 2))
    assert blocks_for(for_cpu(), i) is None


def test_every_vector_is_one_run() -> None:
    """Nothing is gathered or scattered, or moved element by element."""
    ir = Kernel(transpose((2,) * 14, tuple(reversed(range(14)))), for_cpu("x86-64-v3")).ir
    vectors = math.prod((2,) * 3)
    assert ir.count("load <8 x i32>") == ir.count("store <8 x i32>") == vectors
    assert ir.count("shufflevector") == 3 * vectors
    assert "gather" not in ir
