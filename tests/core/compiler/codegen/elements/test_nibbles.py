"""Integers that four bits of a word decide become the floats that StableHLO says, whatever the program does to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op
from tests.core.compiler.codegen.kernels.test_packed_dot import cpu
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu"]
F32, BF16 = dtypes.F32, dtypes.BF16
S4, U4, S8, U8, S32, U32 = dtypes.S4, dtypes.U4, dtypes.S8, dtypes.U8, dtypes.S32, dtypes.U32
# What a program does to words, as opcodes and constants. The last four are no four bits, or more.
FORMS: dict[str, list[tuple[str, int]]] = {
    "low": [("and", 15)],
    "low, zero point": [("and", 15), ("subtract", 8)],
    "low, sign": [("and", 15), ("xor", 8), ("subtract", 8)],
    "low, of the left": [("shift-left", 4), ("shift-right-arithmetic", 4)],
    "high": [("shift-right-logical", 4), ("and", 15)],
    "high, sign": [("shift-right-arithmetic", 4), ("subtract", 3)],
    "high, alone": [("shift-right-logical", 4)],
    "three bits": [("and", 7), ("multiply", 37), ("add", 100)],
    "one bit": [("and", 8), ("or", 1)],
    "five bits": [("and", 31), ("subtract", 16)],
    "bits of the middle": [("and", 30)],
    "no mask": [("shift-right-logical", 3)],
    "after a sum": [("add", 3), ("and", 15)],
}


def check(value: hlo.Instruction, stored: hlo.Instruction, words: Any, cpu: str) -> None:
    program = module([stored], value)
    (expected,) = evaluate(program, [words])
    optimised = pipeline.run(program, for_cpu(cpu, False), Dump())
    (got,) = NativeSimulation(optimised, cpu).run([words])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [U8, S8, U32, S32], ids=str)
def test_words(dtype: DType, cpu: str) -> None:
    words = np.arange(256, dtype=np.uint32)
    if dtype.bits == 32:
        words = words * np.uint32(0x91A2B3C5) + words
    words = words.astype(dtype.numpy.newbyteorder("=").str.replace("i", "u")).view(dtype.numpy)
    stored = hlo.parameter(0, hlo.Shape(dtype, (256,)))
    for form in FORMS.values():
        value = stored
        for opcode, constant in form:
            value = op(opcode, value, number(constant, 256, dtype=dtype))
        check(op("convert", value, dtype=F32), stored, words, cpu)


@pytest.mark.parametrize("dtype", [S4, U4], ids=str)
@pytest.mark.parametrize("to", [F32, BF16, S32], ids=str)
def test_arrays_of_four_bits(dtype: DType, to: DType, cpu: str) -> None:
    """Also where the other four bits of a byte are not what they should be, and after arithmetic that wraps."""
    words = np.arange(256, dtype=np.uint8)
    stored = hlo.parameter(0, hlo.Shape(dtype, (256,)))
    for extra in (None, "add", "multiply"):
        value = stored if extra is None else op(extra, stored, number(3, 256, dtype=dtype))
        program = module([stored], op("convert", value, dtype=to))
        clean = (words & 15).astype(np.int8)
        clean = np.where(clean > 7, clean - 16, clean) if dtype.is_signed else clean
        (expected,) = evaluate(program, [clean.astype(dtype.numpy)])
        optimised = pipeline.run(program, for_cpu(cpu, False), Dump())
        (got,) = NativeSimulation(optimised, cpu).run([words.view(dtype.numpy)])
        np.testing.assert_array_equal(got, expected)


def test_converted_to_four_bits(cpu: str) -> None:
    for dtype, narrow in ((S8, S4), (U8, S4), (S32, U4)):
        words = np.arange(256).astype(np.uint8).astype(dtype.numpy)
        stored = hlo.parameter(0, hlo.Shape(dtype, (256,)))
        masked = op("and", stored, number(15, 256, dtype=dtype))
        check(op("convert", op("convert", masked, dtype=narrow), dtype=F32), stored, words, cpu)
