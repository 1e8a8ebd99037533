"""How much effort the code of a module gets."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.codegen import effort, llvm_ir
from tripont.core.compiler.codegen.kernels.emit import emit_kernel
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import F32
from tripont.core.compiler.targets import host

from .harness import Kernel, fusion, op

X = hlo.parameter(0, hlo.Shape(F32, (32, 64)))
SHORT_ROW = hlo.parameter(0, hlo.Shape(F32, (32, 3 * 16)))


def tanh():
    return fusion("loop", [X], op("tanh", X.shape, X))


def transpose():
    turned = op("transpose", hlo.Shape(F32, (64, 32)), X, dimensions=(1, 0))
    return fusion("transpose", [X], op("negate", turned.shape, turned))


def row_of_three_vectors():
    x = hlo.parameter(1, hlo.Shape(F32, (32,)))
    wide = op("broadcast", SHORT_ROW.shape, x, dimensions=(0,))
    total = op("add", SHORT_ROW.shape, SHORT_ROW, wide)
    return fusion("loop", [SHORT_ROW, x], total)


CASES = [tanh, transpose, row_of_three_vectors]


@pytest.mark.parametrize("make", CASES)
def test_behind_much_code_it_is_written_short(make, monkeypatch):
    """And computes the same numbers."""
    instruction, sizes, results = make(), [], []
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(o.dims, np.float32) for o in instruction.operands]
    for careful in (1 << 30, -1):
        monkeypatch.setattr(effort, "CAREFUL", careful)
        module = host.for_cpu("x86-64-v4").module()
        emit_kernel(module, host.for_cpu("x86-64-v4"), instruction, "k")
        sizes.append(module.functions["k"].size)
        results.append(Kernel(instruction).run(arrays))
    assert sizes[1] < 0.8 * sizes[0]
    np.testing.assert_array_equal(*results)


def test_effort_ends_behind_the_first_code(monkeypatch):
    module = llvm_ir.Module()
    assert effort.is_careful(module)
    monkeypatch.setattr(effort, "CAREFUL", 100)
    seen = []
    for n in range(4):
        seen.append(effort.is_careful(module))
        builder = llvm_ir.Builder(module, f"f{n}", ["ptr"])
        builder.ret()
        builder.finish()
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {True, False}
    assert module.size == sum(f.size for f in module.functions.values())
