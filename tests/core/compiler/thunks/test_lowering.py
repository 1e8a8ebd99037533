"""From scheduled instructions to thunks."""

from __future__ import annotations

import pytest
from tripont.core.compiler import compile
from tripont.core.compiler.thunks import lowering

# The same function of two arrays, the second of which is sorted in between.
PROGRAM = b"""func.func @main(%x: tensor<640xf32>, %y: tensor<640xf32>) -> tensor<640xf32> {
  %0 = stablehlo.add %x, %y : tensor<640xf32>
  %1 = stablehlo.tanh %0 : tensor<640xf32>
  %2 = "stablehlo.sort"(%1) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<640xf32>) -> tensor<640xf32>
  %3 = stablehlo.add %2, %y : tensor<640xf32>
  %4 = stablehlo.tanh %3 : tensor<640xf32>
  return %4 : tensor<640xf32>
}"""


def test_the_arithmetic_of_equal_fusions_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    count = lowering.cost.of_operation

    def of_operation(instruction):
        counted.append(instruction.opcode)
        return count(instruction)

    monkeypatch.setattr(lowering.cost, "of_operation", of_operation)
    results = []
    lower = lowering.lower
    monkeypatch.setattr(
        "tripont.core.compiler.stages.lowering.lower",
        lambda *arguments: results.append(lower(*arguments)) or results[-1],
    )
    compile.compile_program(PROGRAM, "mlir", b"", {"target": "host"})
    debug = [d for d in results[0].debug if d.category.endswith("fusion")]
    assert len(debug) == 2
    assert debug[0].flops == debug[1].flops > 0
    assert counted.count("fusion") == 1
