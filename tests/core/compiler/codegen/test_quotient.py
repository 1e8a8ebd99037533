"""Quotients by a constant, computed without a division: bit for bit those of a division."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.vector_math import quotient
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import number, op, parameter
from tests.core.compiler.codegen.harness import Kernel, fusion
from tests.core.compiler.codegen.native import elementwise

DTYPES = {"float": np.float32, "double": np.float64}
# Everyday divisors, and one with all bits.
DIVISORS = [3.0, 5.0, 7.0, 10.0, 255.0, 1000.0, 0.1, 0.229, 1.3, -2.5066283, 16777215.0, 4e-9]


def check(scalar: str, c: float, x: np.ndarray, **options: Any) -> None:
    divide = lambda b, t, v: quotient.divide_by(b, t, v, llvm_ir.floating(v.type, c), **options)
    with np.errstate(all="ignore"):
        want = x / x.dtype.type(c)
    got = elementwise(divide, scalar, 1)(x)
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    wrong = np.flatnonzero(~same)
    assert not wrong.size, (c, x[wrong[0]], got[wrong[0]], want[wrong[0]], wrong.size)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_every_significand(divisor: float) -> None:
    c = float(np.float32(divisor))
    assert quotient.reciprocal(c, "float") is not None
    x = np.arange(0x3F800000, 0x40000000, dtype=np.uint32).view(np.float32)
    check("float", c, x)
    check("float", c, x[::97], whole=True)


@pytest.mark.parametrize("scalar", DTYPES)
@pytest.mark.parametrize("divisor", DIVISORS)
def test_numbers_of_every_size(divisor: float, scalar: str) -> None:
    """Those from ``least`` on are multiplied; smaller ones in the same or another vector, and 0, are exact too."""
    dtype = DTYPES[scalar]
    c = float(dtype(divisor))
    words = quotient.reciprocal(c, scalar)
    assert words is not None
    assert words.least < 1
    assert words.high * words.low > 0
    generator = np.random.default_rng(3)
    info = np.finfo(dtype)
    sizes = 2.0 ** generator.integers(info.minexp - info.nmant, info.maxexp, 4096)
    x = (generator.uniform(1, 2, 4096) * sizes).astype(dtype)
    around = np.abs(generator.standard_normal(512)) * words.least
    edges = [0.0, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, words.least, c]
    x = np.concatenate([x, around, np.repeat(edges, 16), np.zeros(16)], dtype=dtype)
    sign = np.where(generator.integers(0, 2, x.size), dtype(1), dtype(-1))
    check(scalar, c, x * sign)
    check(scalar, c, generator.permutation(x * sign))
    check(scalar, c, np.append(x[np.abs(x) >= words.least], dtype(0)))


@pytest.mark.parametrize("scalar", DTYPES)
def test_near_middles(scalar: str) -> None:
    """Where a quotient could be rounded otherwise it is tried, so that it is exact or the divisor stays."""
    generator = np.random.default_rng(4)
    tried, divided = 0, 0
    for c in generator.uniform(1, 2, 60).astype(DTYPES[scalar]):
        precision = np.finfo(c).nmant + 1
        near = list(quotient._near_middles(int(np.ldexp(c, precision - 1)), precision))
        tried += len(near)
        divided += quotient.reciprocal(float(c), scalar) is None
        check(scalar, float(c), np.array(near, DTYPES[scalar]))
    assert tried > 60
    assert divided < 15


def test_divisors_that_stay() -> None:
    """For 0.7 some x would be rounded otherwise; powers of two, zeros and the like are left alone."""
    assert quotient.reciprocal(float(np.float32(0.7)), "float") is None
    for c in (0.0, -0.0, 1.0, 0.25, float("inf"), float("nan"), 3e30, 3e-30):
        assert quotient.reciprocal(c, "float") is None
    x = np.arange(0x3F800000, 0x3F900000, dtype=np.uint32).view(np.float32)
    for c in (float(np.float32(0.7)), 0.25, float("inf"), 0.0):
        check("float", c, x)


def kernel(cpu: str, dtype: dtypes.DType, divisor: float = 3.0) -> Kernel:
    """x / divisor for f32[1000], x converted from another type or not."""
    x = parameter(0, 1000, dtype=dtype)
    dividend = x if dtype is dtypes.F32 else op("convert", x, dtype=dtypes.F32)
    return Kernel(fusion("loop", [x], op("divide", dividend, number(divisor, 1000))), for_cpu(cpu))


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_kernels_multiply(cpu: str) -> None:
    """Vectors of whole numbers without a branch; divisions are left for numbers near 0 and for the elements that do not
    fill a vector.
    """
    floats, bytes_ = kernel(cpu, dtypes.F32).ir, kernel(cpu, dtypes.U8).ir
    assert "llvm.fma" in floats
    assert "tripont.divide" in floats
    assert "llvm.fma" in bytes_
    assert "tripont.divide" not in bytes_


@pytest.mark.parametrize(("cpu", "divisor"), [("x86-64-v2", 3.0), ("x86-64-v4", 0.7)])
def test_kernels_divide(cpu: str, divisor: float) -> None:
    """Without fused multiply-add, or by a number whose quotients would differ."""
    ir = kernel(cpu, dtypes.F32, divisor).ir
    assert "llvm.fma" not in ir
    assert "fdiv" in ir


@pytest.mark.parametrize("divisor", [3.0, 0.7])
@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.U8, dtypes.S32], ids=lambda d: d.name)
def test_kernels_have_the_bits_of_divisions(dtype: dtypes.DType, divisor: float) -> None:
    generator = np.random.default_rng(5)
    x = generator.standard_normal(1000) * 2.0 ** generator.integers(-140, 120, 1000)
    if dtype is not dtypes.F32:
        x = generator.integers(0 if dtype is dtypes.U8 else -(2**31), 256, 1000)
    x = x.astype(dtype.numpy)
    (got,) = kernel("host", dtype, divisor).run([x])
    np.testing.assert_array_equal(got, x.astype(np.float32) / np.float32(divisor))
