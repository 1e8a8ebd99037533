"""Which matrices of weights are integers times scales that neighbours along the contracted dimension share."""

from __future__ import annotations

import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.passes.library.shared_scales import SharedScales, shared_scales

from tests.core.compiler.builders import number, op

F32, S8, S32, U32 = dtypes.F32, dtypes.S8, dtypes.S32, dtypes.U32
N, K = 96, 512


def array(dtype: dtypes.DType, *dims: int) -> hlo.Instruction:
    return hlo.parameter(0, hlo.Shape(dtype, dims))


def floats(dtype: dtypes.DType) -> hlo.Instruction:
    """A matrix [k, n] of f32 that is made of another type."""
    return op("convert", array(dtype, K, N), dtype=F32)


def scales(group: int) -> hlo.Instruction:
    """Scales [k / group, n], spread to [k, n]."""
    split = (K // group, group, N)
    spread = op("broadcast", array(F32, K // group, N), dims=split, dimensions=(0, 2))
    return op("reshape", spread, dims=(K, N))


@pytest.mark.parametrize("group", [32, 64, 512])
def test_groups(group: int) -> None:
    for number_, operands in enumerate(((scales(group), floats(S8)), (floats(S8), scales(group)))):
        assert shared_scales(op("multiply", *operands), 0) == SharedScales(number_, group)


def test_divisions() -> None:
    assert shared_scales(op("divide", floats(S8), scales(64)), 0) == SharedScales(1, 64)
    assert shared_scales(op("divide", scales(64), floats(S8)), 0) is None


def test_channels() -> None:
    channels = op("broadcast", array(F32, N), dims=(K, N), dimensions=(1,))
    matrix = op("multiply", floats(S8), channels)
    assert shared_scales(matrix, 0) == SharedScales(1, K)
    assert shared_scales(matrix, 1) is None  # each column has its own


def test_integers_less_zero_points() -> None:
    codes = op("and", array(U32, K, N), number(15, K, N, dtype=U32))
    zeros = op("and", array(U32, K, N), number(15, K, N, dtype=U32))
    codes, zeros = (op("convert", i, dtype=F32) for i in (codes, zeros))
    for offset in (zeros, number(8.0, K, N)):
        matrix = op("multiply", op("subtract", codes, offset), scales(64))
        assert shared_scales(matrix, 0) == SharedScales(1, 64)


def test_other_matrices() -> None:
    scaled = op("multiply", floats(S8), scales(64))
    for matrix in (
        floats(S8),
        op("add", scaled, scales(64)),  # an offset behind the scale
        op("multiply", array(F32, K, N), scales(64)),  # products of floats may be subnormal numbers
        op("multiply", floats(S32), scales(64)),  # f32 does not hold all of them
        op("multiply", op("subtract", floats(S8), number(0.5, K, N)), scales(64)),
        op("multiply", floats(S8), array(F32, K, N)),
    ):
        assert shared_scales(matrix, 0) is None
