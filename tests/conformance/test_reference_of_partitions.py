"""The judge of programs on several devices: a program that ends its process is told, and the next one judged."""

from __future__ import annotations

import os

import jaxlib.version
import numpy as np
import pytest
from jaxlib.mlir import ir
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.conformance import reference_of_partitions as judge

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2,
    reason="on one CPU StableHLO's interpreter runs one partition at a time, which waits for the other in vain",
)
_TYPE = "tensor<4xcomplex<f32>>"
_RESULTS = [Shape(dtypes.C64, (4,))] * 2
_ARGUMENTS = [[np.full(4, n, np.complex64)] for n in (1, 2)]


def _program(operation: str) -> str:
    return f"func.func @main(%p0: {_TYPE}) -> ({_TYPE}) {{\n%r = {operation}\nreturn %r : {_TYPE}\n}}\n"


@pytest.mark.skipif(
    jaxlib.version.__version_info__ >= (0, 11),
    reason="the interpreter of this jaxlib knows stablehlo.fft",
)
def test_a_program_that_ends_the_interpreter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_CHILDREN", 2)
    unknown = f"stablehlo.fft %p0, type = FFT, length = [4] : ({_TYPE}) -> {_TYPE}"
    with pytest.raises(
        RuntimeError, match=r"(?s)ends its process \(\[-6, -6\]\) at.*stablehlo.fft"
    ):
        judge.interpret(_program(unknown), _ARGUMENTS, _RESULTS)
    moved = (
        '"stablehlo.collective_permute"(%p0) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>,'
        f" channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}> : ({_TYPE}) -> {_TYPE}"
    )
    results = judge.interpret(_program(moved), _ARGUMENTS, _RESULTS)
    np.testing.assert_array_equal(np.array(results), np.array([[2] * 4, [1] * 4], np.complex64))


def test_a_program_that_is_refused() -> None:
    with pytest.raises(ir.MLIRError, match="Number of results"):
        judge.interpret(_program(f"stablehlo.sine %p0 : {_TYPE}"), _ARGUMENTS, _RESULTS[:1])
