"""Maximum and minimum of floats: NaN if either is, +0 above -0, whatever instructions the CPU has for them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import F32, F64, DType
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.harness import Kernel, fusion, op
from tests.core.compiler.codegen.kernels.test_packed_dot import cpu, of_each_width

__all__ = ["cpu"]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40]
OPCODES = ["maximum", "minimum"]


def kernel(opcode: str, dtype: DType, count: int, cpu: str) -> Kernel:
    shape = hlo.Shape(dtype, (count,))
    x, y = hlo.parameter(0, shape), hlo.parameter(1, shape)
    return Kernel(fusion("loop", [x, y], op(opcode, shape, x, y)), for_cpu(cpu, False))


def expected(opcode: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NumPy's result; where both are zeros, their sum (+0 unless both are -0) or the negated sum of their negations."""
    maximum = opcode == "maximum"
    zeros = x + y if maximum else -(-x + -y)
    return np.where((x == 0) & (y == 0), zeros, (np.maximum if maximum else np.minimum)(x, y))


@of_each_width
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_all_pairs(opcode: str, dtype: DType, cpu: str) -> None:
    pairs = np.array(list(itertools.product(NUMBERS, repeat=2)), dtype.numpy)
    for count in (
        1,
        3,
        4,
        8,
        len(pairs),
    ):  # single numbers, vectors of each size, and what is left of them
        compiled = kernel(opcode, dtype, count, cpu)
        for start in range(0, len(pairs) - count + 1, count):
            x, y = np.ascontiguousarray(pairs[start : start + count].T)
            (got,) = compiled.run([x, y])
            want = expected(opcode, x, y)
            np.testing.assert_array_equal(got, want)
            numbers = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


def test_a_maximum_is_three_instructions_of_avx512() -> None:
    """Two maxima of the machine and the majority of their bits; LLVM needs two more for the same bits without."""
    ir = kernel("maximum", F32, 4096, "x86-64-v4").ir
    assert "llvm.x86.avx512.pternlog.d.512" in ir
    assert "llvm.x86.avx512.max.ps.512" in ir
    assert "llvm.x86.avx512" not in kernel("maximum", F32, 4096, "x86-64-v3").ir
