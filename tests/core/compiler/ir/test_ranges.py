"""Ranges of integers hold all that the reference evaluates to, and say when a sum may be computed in floats."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.ranges import Range, never_wraps, of_dtype, range_of
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import module, number, op

S8, U8, S32 = dtypes.S8, dtypes.U8, dtypes.S32
N = 4096


def code(dtype: DType, mask: int, parameter: int = 0) -> hlo.Instruction:
    """Masked words of 32 bits, as ``dtype``."""
    words = hlo.parameter(parameter, hlo.Shape(S32, (N,)))
    return op("convert", op("and", words, number(mask, N, dtype=S32)), dtype=dtype)


def minus(a: hlo.Instruction, constant: int) -> hlo.Instruction:
    return op("subtract", a, number(constant, N, dtype=a.dtype))


def plus(a: hlo.Instruction, constant: int) -> hlo.Instruction:
    return op("add", a, number(constant, N, dtype=a.dtype))


@pytest.mark.parametrize(
    ("value", "expected", "wraps"),
    [
        (minus(code(S8, 15), 8), Range(-8, 7), False),
        (plus(code(S8, 15), 1), Range(1, 16), False),
        (op("subtract", code(S8, 15), plus(code(S8, 15, 1), 1)), Range(-16, 14), False),
        (op("add", code(S8, 127), code(S8, 127, 1)), of_dtype(S8), True),
        (op("subtract", code(U8, 15), code(U8, 15, 1)), of_dtype(U8), True),
        (minus(code(S8, 255), 8), of_dtype(S8), True),  # the conversion has wrapped
        (minus(plus(code(U8, 15), 8), 8), Range(0, 15), False),
        (op("subtract", code(S8, -1), code(S8, 15, 1)), of_dtype(S8), True),
    ],
)
def test_sums_of_codes(value: hlo.Instruction, expected: Range, wraps: bool) -> None:
    assert range_of(value) == expected
    assert never_wraps(value) is not wraps
    parameters = [i for i in hlo.topological_order([value]) if i.opcode == "parameter"]
    words = [
        np.random.default_rng(p).integers(-(1 << 31), 1 << 31, N).astype(np.int32)
        for p in range(len(parameters))
    ]
    (got,) = evaluate(module(parameters, value), words)
    assert expected.low <= got.min() <= got.max() <= expected.high


def test_moves_and_masks() -> None:
    words = hlo.parameter(0, hlo.Shape(S32, (8, 4)))
    few = op("broadcast", number(15, dtype=S32), dims=(8, 4), dimensions=())
    masked = op("reshape", op("and", few, words), dims=(32,))
    assert range_of(masked) == Range(0, 15)
    assert range_of(words) == of_dtype(S32)
    assert range_of(op("multiply", masked, masked)) == of_dtype(S32)
