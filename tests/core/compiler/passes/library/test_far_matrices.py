"""Products of a few rows by matrices that come from memory, because the program is given more than the caches hold."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.target import Target

from tests.core.compiler.builders import module, op, parameter, priced
from tests.core.compiler.codegen.kernels.test_contraction import dot
from tests.core.compiler.codegen.kernels.test_packed_dot import cpu, near, of_each_width, random
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu"]
BF16, F32, S8 = dtypes.BF16, dtypes.F32, dtypes.S8


def products(
    rows: int, sides: list[tuple[int, int]], stored: DType = F32, *, turned: bool = False
) -> tuple[list[hlo.Instruction], list[hlo.Instruction]]:
    """(parameters, products) of ``rows`` rows by a matrix of each of ``sides``, (terms, columns), one after another."""
    x = parameter(0, rows, sides[0][0])
    parameters, made = [x], []
    for terms, columns in sides:
        dims = (columns, terms) if turned else (terms, columns)
        stored_matrix = parameter(len(parameters), *dims, dtype=stored)
        matrix = stored_matrix if stored is F32 else op("convert", stored_matrix, dtype=F32)
        contracting = ((1,), (1 if turned else 0,))
        row = made[-1] if made else x
        product = dot((rows, terms), dims, contracting, dtype=F32, result=F32)
        made.append(product.replace(operands=[row, matrix]))
        parameters.append(stored_matrix)
    return parameters, made


def far(program: hlo.Module) -> set[bool]:
    """Whether matrices of the program's products, in fusions too, come from memory."""
    return {
        i.attributes.get("is_far", False)
        for computation in program.computations()
        for i in computation.instructions
        if i.opcode == "dot"
    }


def compiled(
    target: Target, parameters: list[hlo.Instruction], *roots: hlo.Instruction
) -> hlo.Module:
    return pipeline.run(module(parameters, *roots), target, Dump())


@pytest.mark.parametrize("stored", [F32, S8], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_matrices_that_are_more_than_the_caches_together(turned: bool, stored: DType) -> None:
    """Each of them would stay in a cache: on a Zen 4 they are fetched past the nearest one, elsewhere as any other."""
    size = 2048 if stored is S8 else 1024  # 4 MB of it
    for name, is_far in (
        ("znver4", True),
        ("znver5", False),
        ("x86-64-v4", False),
        ("x86-64-v3", False),
    ):
        target = for_cpu(name, False)
        for count in (1, 2):
            parameters, made = products(1, [(size, size)] * count, stored, turned=turned)
            assert far(compiled(target, parameters, made[-1])) == {is_far and count == 2}


def test_what_else_the_program_is_given() -> None:
    """Other arrays and constants fill the caches as well."""
    target = priced("host", False, memory={"streamed_far": 6 << 20})
    parameters, made = products(1, [(1024, 1024)])
    assert far(compiled(target, parameters, made[0])) == {False}
    table = parameter(2, 1 << 20)
    total = op("reduce-precision", table, exponent_bits=8, mantissa_bits=7)
    assert far(compiled(target, [*parameters, table], made[0], total)) == {True}
    constant = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    held = hlo.constant(constant)
    both = op("add", made[0], made[0].replace(operands=[parameters[0], held]))
    assert far(compiled(target, parameters, both)) == {True}


@of_each_width
@pytest.mark.parametrize("stored", [F32, BF16, S8], ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_numbers(rows: int, turned: bool, stored: DType, cpu: str) -> None:
    """Of columns and terms that nothing divides, and of widths of language models."""
    target = priced(cpu, False, memory={"streamed_far": 1, "streamed": 1 << 12})
    for terms, columns in ((517, 1031), (64, 576)):
        parameters, made = products(rows, [(terms, columns)], stored, turned=turned)
        program = compiled(target, parameters, made[0])
        assert far(program) == {True}
        values = [random(p.dtype, p.dims, n) for n, p in enumerate(parameters)]
        (got,) = NativeSimulation(program, cpu).run(values)
        near(got, made[0], [values[0], values[1].astype(np.float32)])
