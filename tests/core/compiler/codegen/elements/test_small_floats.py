"""Floats of less than 16 bits, which are computed in f32, show what their own type can hold."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op
from tests.core.compiler.test_native import NativeSimulation

F8E5M2 = dtypes.F8E5M2
FNUZ = [dtypes.F8E4M3FNUZ, dtypes.F8E4M3B11FNUZ, dtypes.F8E5M2FNUZ]


@pytest.mark.parametrize("dtype", [*FNUZ, F8E5M2], ids=str)
@pytest.mark.parametrize("opcode", ["negate", "multiply", "divide", "ceil"])
def test_only_types_that_have_a_negative_zero_compute_one(dtype: DType, opcode: str) -> None:
    x = np.array([0.0, 1.0, -0.5, np.nan, -2.0] * 5).astype(dtype.numpy)
    stored = hlo.parameter(0, hlo.Shape(dtype, (25,)))
    operands = [stored]
    if opcode in ("multiply", "divide"):
        operands.append(number(-2, 25, dtype=dtype))
    value = op("convert", op(opcode, *operands, dtype=dtype), dtype=dtypes.F32)
    program = module([stored], value)
    (expected,) = evaluate(program, [x])
    optimised = pipeline.run(program, for_cpu("x86-64-v3", False), Dump())
    (got,) = NativeSimulation(optimised, "x86-64-v3").run([x])
    np.testing.assert_array_equal(got, expected)
    is_zero = expected == 0
    assert is_zero.any()
    np.testing.assert_array_equal(np.signbit(got[is_zero]), np.signbit(expected[is_zero]))
    assert np.signbit(expected[is_zero]).any() == (dtype is F8E5M2)
