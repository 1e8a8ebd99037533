"""When matrices are packed: once for a loop, when the program is compiled for constants, not at all if made inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import Computation, Instruction, TupleShape
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library import packed
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import compare, module, number, op, parameter
from tests.core.compiler.codegen.harness import runnable
from tests.core.compiler.codegen.kernels.test_packed_dot import kinds, product, random
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
S8, S32, BF16, F32 = dtypes.S8, dtypes.S32, dtypes.BF16, dtypes.F32
# A CPU with AMX.
MATRICES = "sapphirerapids+amx-tile+amx-int8+amx-bf16"


def compiled(root: Instruction, parameters: list[Instruction], cpu: str = "host") -> hlo.Module:
    return pipeline.run(module(parameters, root), for_cpu(cpu, False), Dump())


def loop(step: Instruction, state: Instruction, given: list[Instruction]) -> hlo.Module:
    """A program that runs ``step`` (of parameters: counter, ``state``, ``given``...) three times."""
    shapes = [hlo.Shape(S32), state.shape, *(g.shape for g in given)]
    counter = parameter(0, dtype=S32)
    inner = [hlo.parameter(n, s) for n, s in enumerate(shapes)]
    condition = Computation.from_root(
        "condition", inner, compare(inner[0], number(3, dtype=S32), "LT")
    )
    parameters = [counter, state, *given]
    results = [op("add", counter, number(1, dtype=S32)), step, *given]
    shape = TupleShape(tuple(shapes))
    body = Computation.from_root("body", parameters, Instruction("tuple", shape, results))
    outer = [hlo.parameter(n, s) for n, s in enumerate(shapes[1:])]
    start = [number(0, dtype=S32), *outer]
    made = Instruction("while", shape, start, called=[condition, body])
    return module(outer, hlo.get_tuple_element(made, 1))


def inside(after: hlo.Module) -> hlo.Module:
    """The body of the loop of a program, as a module."""
    (found,) = (i for i in after.entry.instructions if i.opcode == "while")
    return hlo.Module("body", found.called[1])


def repeated(type_: DType, rows: int) -> hlo.Module:
    """x = tanh(x @ w), three times."""
    x, w = parameter(1, rows, 640, dtype=type_), parameter(2, 640, 640, dtype=type_)
    made = product((type_, type_), type_, rows, 640, 640).replace(operands=[x, w])
    return loop(op("tanh", made), x, [w])


@pytest.mark.parametrize("cpu", ["x86-64-v3", "cascadelake", MATRICES])
@pytest.mark.parametrize("rows", [64, 200])
@pytest.mark.parametrize("type_", [BF16, F32], ids=str)
def test_few_rows_too_find_it_packed(type_: DType, rows: int, cpu: str) -> None:
    """Once for the loop, where one product alone would copy what it reads of the matrix."""
    after = pipeline.run(repeated(type_, rows), for_cpu(cpu, False), Dump())
    assert kinds(after).count("pack") == 1
    assert "pack" not in kinds(inside(after))
    assert "packed-dot" in kinds(inside(after))


@pytest.mark.parametrize("rows", [64, 200])
@pytest.mark.parametrize("type_", [BF16, F32], ids=str)
def test_a_matrix_that_is_packed_once_for_a_loop(type_: DType, rows: int) -> None:
    after = pipeline.run(repeated(type_, rows), for_cpu("host", False), Dump())
    values = [random(type_, (rows, 640), 0), random(type_, (640, 640), 1)]
    values[1] = (values[1].astype(np.float32) / 32).astype(type_.numpy)
    (got,) = NativeSimulation(after).run(values)
    exact = values[0].astype(np.float64)
    for _ in range(3):
        exact = np.tanh(exact @ values[1].astype(np.float64))
    # Each step rounds once to the type, and may make an earlier error |w| = 640 / 32 times larger at most, typically
    # sqrt(640) / 32 times; bf16 has 8 bits.
    assert np.abs(got.astype(np.float64) - exact).max() <= (2.0**-5 if type_ is BF16 else 1e-4)


def test_dequantised_weights_stay_in_the_loop() -> None:
    """A few rows read them as bytes; f32 in front of the loop would be four times as much to read."""
    x, w, s = parameter(1, 2, 640), parameter(2, 640, 640, dtype=S8), parameter(3, 640)
    matrix = op("convert", w, dtype=F32)
    matrix = op("multiply", matrix, op("broadcast", s, dims=(640, 640), dimensions=(1,)))
    made = product((F32, F32), F32, 2, 640, 640).replace(operands=[x, matrix])
    after = pipeline.run(loop(op("tanh", made), x, [w, s]), for_cpu("host", False), Dump())
    largest = max(s.bytes for i in after.entry.instructions for s in i.result_shapes)
    assert largest == 640 * 640
    assert "dot" in kinds(inside(after))


@pytest.mark.parametrize("cpu", ["x86-64-v3", "cascadelake"])
@pytest.mark.parametrize("types", [(BF16, BF16, BF16), (S8, S8, S32), (F32, F32, F32)], ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_constants_are_packed(
    types: tuple[DType, DType, DType], transposed: bool, cpu: str
) -> None:
    """When the program is compiled, as the kernel does it: for group sizes of 1, 2 and 4, columns that panels do not
    divide, and a last group that is not full.
    """
    runnable(cpu)
    made = product(types[:2], types[2], 100, 301, 901, (False, transposed))
    values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
    other = compiled(made, list(made.operands), cpu)
    weights = hlo.constant(values[1], types[1])
    after = compiled(made.replace(operands=[made.operands[0], weights]), [made.operands[0]], cpu)
    # Columns that are neighbours in memory may be copied while they are multiplied instead.
    assert "pack" in kinds(other) or not transposed
    assert "pack" not in kinds(after)
    constants = [i for i in after.entry.instructions if i.opcode == "constant"]
    assert constants
    assert all(i.shape.dims != weights.shape.dims for i in constants)
    (wanted,) = NativeSimulation(other, cpu).run(values)
    (got,) = NativeSimulation(after, cpu).run(values[:1])
    np.testing.assert_array_equal(got, wanted)


def test_large_constants_are_packed_when_the_program_runs(monkeypatch: Any) -> None:
    monkeypatch.setattr(packed, "_PACKED_LITERAL_BYTES", 1 << 20)
    made = product((F32, F32), F32, 200, 600, 901, (False, True))
    weights = hlo.constant(random(F32, (600, 901), 1), F32)
    after = compiled(made.replace(operands=[made.operands[0], weights]), [made.operands[0]])
    assert "pack" in kinds(after)
