"""Floats of at most 16 bits, rounded after every operation where a program is compiled so."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.reference import evaluate

_TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
_CHAIN = """
func.func @main(%a: tensor<64xT>, %b: tensor<64xT>) -> (tensor<64xf32>, tensor<64xT>) {
  %0 = stablehlo.multiply %a, %b : tensor<64xT>
  %1 = stablehlo.add %0, %a : tensor<64xT>
  %2 = stablehlo.divide %1, %b : tensor<64xT>
  %3 = stablehlo.subtract %2, %0 : tensor<64xT>
  %4 = stablehlo.abs %3 : tensor<64xT>
  %5 = stablehlo.sqrt %4 : tensor<64xT>
  %6 = stablehlo.convert %5 : (tensor<64xT>) -> tensor<64xf32>
  return %6, %3 : tensor<64xf32>, tensor<64xT>
}"""
_LAYER = """
func.func @main(%a: tensor<8x64xT>, %w: tensor<64x32xT>, %b: tensor<32xT>) -> tensor<8x32xT> {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x64xT>, tensor<64x32xT>) -> tensor<8x32xT>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<32xT>) -> tensor<8x32xT>
  %2 = stablehlo.add %0, %1 : tensor<8x32xT>
  %3 = stablehlo.multiply %2, %2 : tensor<8x32xT>
  return %3 : tensor<8x32xT>
}"""


def _run(text: str, arguments: list[np.ndarray], allowed: str) -> list[np.ndarray]:
    module = read_program(text.encode(), "mlir")
    executable = compile_module(module, {"xla_allow_excess_precision": allowed} if allowed else {})
    device = _tripont.Client({"device": "host"}).devices[0]
    loaded = _tripont.Executable.load(artifact.serialize(executable))
    return [np.asarray(r) for r in loaded.run(device, arguments)]


@pytest.mark.parametrize("name", _TYPES)
def test_a_chain_of_operations(name: str) -> None:
    rng = np.random.default_rng(3)
    text = _CHAIN.replace("xT>", f"x{name}>")
    arguments = [rng.uniform(0.5, 3, 64).astype(_TYPES[name]) for _ in range(2)]
    expected = evaluate.evaluate(read_program(text.encode(), "mlir"), arguments)
    for got, wanted in zip(_run(text, arguments, "false"), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert (_run(text, arguments, "")[0] != expected[0]).any()  # more exact, and so XLA may be
    np.testing.assert_array_equal(_run(text, arguments, "true")[0], _run(text, arguments, "")[0])


@pytest.mark.parametrize(("name", "largest"), [("f16", 2), ("bf16", 6)])
def test_what_follows_a_product(name: str, largest: int) -> None:
    """Of whole numbers, so that sums are exact in any order; they and the squares are rounded."""
    rng = np.random.default_rng(4)
    dtype = _TYPES[name]
    a, w, b = (
        rng.integers(-largest, largest + 1, dims).astype(dtype)
        for dims in ((8, 64), (64, 32), (32,))
    )
    total = (a.astype(np.float64) @ w.astype(np.float64)).astype(dtype) + (b * 16 + 1).astype(dtype)
    (got,) = _run(_LAYER.replace("xT>", f"x{name}>"), [a, w, (b * 16 + 1).astype(dtype)], "0")
    np.testing.assert_array_equal(got, total * total)
