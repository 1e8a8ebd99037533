"""Quotients of tiny numbers: the bits of a division, without an operation that takes or gives a denormal number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.vector_math.arithmetic import Arithmetic
from tripont.core.compiler.codegen.vector_math.gradual import divide_powers
from tripont.core.compiler.targets.target import Target

from tests.core.compiler.builders import op, parameter
from tests.core.compiler.codegen.harness import Kernel, fusion
from tests.core.compiler.codegen.native import elementwise, flushing_denormals

SCALARS = [("float", np.float32, -149), ("double", np.float64, -1074)]


def divide(
    builder: llvm_ir.Builder, target: Target, x: llvm_ir.Value, y: llvm_ir.Value
) -> llvm_ir.Value:
    return divide_powers(Arithmetic(builder, target, x.type), x, y)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize(("scalar", "dtype", "least"), SCALARS)
def test_bits_are_those_of_a_division(scalar: str, dtype: Any, least: int, cpu: str) -> None:
    """Of numbers of few bits too, whose quotients are in the middle between two numbers or next to it."""
    generator = np.random.default_rng(1)
    count = 1 << 18
    few = np.ldexp(generator.integers(1, 64, count), generator.integers(least, least + 30, count))
    any_ = np.ldexp(
        generator.uniform(1, 2, count), generator.integers(least - 1, least + 70, count)
    )
    x = np.concatenate([few, any_]).astype(dtype)
    few = np.ldexp(generator.integers(1, 64, count), generator.integers(-12, 6, count))
    any_ = np.ldexp(generator.uniform(1, 2, count), generator.integers(-80, 80, count))
    y = np.concatenate([few, any_]).astype(dtype) * generator.choice(
        np.array([1, -1], dtype), 2 * count
    )
    y[:64] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1] * 8
    x[64:128] = [0, 1, np.inf, np.nan] * 16
    with np.errstate(all="ignore"):
        exact = x / y
    np.testing.assert_array_equal(elementwise(divide, scalar, 2, cpu)(x, y), exact)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3"])
@pytest.mark.parametrize(("scalar", "dtype", "least"), SCALARS)
def test_nothing_is_denormal_on_the_way(scalar: str, dtype: Any, least: int, cpu: str) -> None:
    """The results are the same where the CPU takes denormal operands and results of its operations for 0."""
    x = np.ldexp(np.linspace(1, 2, 64), np.arange(64) % 32 + least).astype(dtype)
    y = np.tile(np.array([1.5, 3, 0.75, 70], dtype), 16)
    function = elementwise(divide, scalar, 2, cpu)
    with flushing_denormals():
        got = function(x, y)
    np.testing.assert_array_equal(got, x / y)
    assert np.count_nonzero(got) > 32


def test_shares_of_a_power_of_e() -> None:
    """A quotient in a kernel, as softmax has it, is such a one."""
    x, total = parameter(0, 64), parameter(1, 64)
    kernel = Kernel(fusion("loop", [x, total], op("divide", op("exponential", x), total)))
    arguments = [np.full(64, -95, np.float32), np.full(64, 1.5, np.float32)]
    expected = np.float32(np.exp(np.float64(-95))) / np.float32(1.5)
    with flushing_denormals():
        (got,) = kernel.run(arguments)
    np.testing.assert_array_equal(got, np.full(64, expected))
