"""Floats become the nearest integers, all lanes of a vector at a time."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.elements import conversion
from tripont.core.compiler.codegen.generator import Generator
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.pipeline import run
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, op
from tests.core.compiler.test_native import NativeSimulation

CPUS = ["x86-64-v2", "x86-64-v3", "host"]
INTEGERS = [d for d in dtypes.ALL if d.is_integer]


def edges(source: DType, target: DType) -> np.ndarray:
    """Floats around the ends of an integer's range, and those that have no place in any."""
    signed = target.is_signed
    low = -(2.0 ** (target.bits - 1)) if signed else 0.0
    high = 2.0 ** (target.bits - signed)
    around = [
        end + step
        for end in (low, high)
        for step in (-1.5, -1.0, -0.75, -0.25, 0.0, 0.25, 0.5, 1.0)
    ]
    numbers = np.array(
        [0.0, -0.0, 0.99, -0.99, 2.5, -2.5, np.nan, -np.nan, np.inf, -np.inf, 1e30, -1e30, *around]
    ).astype(source.numpy)
    next_to = [
        np.nextafter(source.numpy.type(end), source.numpy.type(towards))
        for end in (low, high)
        for towards in (-np.inf, np.inf)
    ]
    return np.concatenate([numbers, np.array(next_to, source.numpy)])


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", [dtypes.F32, dtypes.F64], ids=str)
def test_floats_out_of_range_become_the_ends(source: DType, target: DType, cpu: str) -> None:
    x = np.tile(edges(source, target), 3)
    stored = hlo.parameter(0, hlo.Shape(source, x.shape))
    program = module([stored], op("convert", stored, dtype=target))
    (expected,) = evaluate(program, [x])
    (got,) = NativeSimulation(run(program, for_cpu(cpu, False), Dump()), cpu).run([x])
    np.testing.assert_array_equal(got, expected)
    ends = ml_dtypes.iinfo(target.numpy)
    assert (int(expected.min()), int(expected.max())) == (int(ends.min), int(ends.max))


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("target", [dtypes.S8, dtypes.U8, dtypes.S16, dtypes.S32], ids=str)
def test_lanes_are_not_converted_one_by_one(target: DType, cpu: str) -> None:
    machine = for_cpu(cpu)
    lanes = machine.lanes(dtypes.F32)
    code = machine.module()
    b = llvm_ir.Builder(code, "f", ["ptr", "ptr"], attributes=machine.function_attributes)
    value = b.load(llvm_ir.vector("float", lanes), b.arguments[0], 4)
    result = conversion.convert(Generator(b, machine), value, dtypes.F32, target)
    assert isinstance(result, llvm_ir.Value)
    b.store(result, b.arguments[1], 1)
    b.ret()
    b.finish()
    assembly = machine.compile(code, dump=True).assembly
    assert "cvttps2dq" in assembly
    assert "cvttss2si" not in assembly
