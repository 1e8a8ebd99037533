"""What a compilation leaves to the garbage collector, which does not run while it compiles."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from tripont.core.compiler.codegen.kernels import written
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.ir.hlo import Instruction

PROGRAMS = {
    "concatenation": """
  %1 = stablehlo.concatenate %x, %x, %x, dim = 0 : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<15xf32>
  %2 = stablehlo.tanh %1 : tensor<15xf32>
  return %2 : tensor<15xf32>""",
    "loop": """
  %one = stablehlo.constant dense<1.0> : tensor<5xf32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<1000> : tensor<i32>
  %step = stablehlo.constant dense<1> : tensor<i32>
  %1:2 = stablehlo.while(%a = %i, %b = %x) : tensor<i32>, tensor<5xf32>
    cond {
      %less = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %next = stablehlo.add %a, %step : tensor<i32>
      %sum = stablehlo.add %b, %one : tensor<5xf32>
      %sine = stablehlo.sine %sum : tensor<5xf32>
      stablehlo.return %next, %sine : tensor<i32>, tensor<5xf32>
    }
  return %1#1 : tensor<5xf32>""",
}


def garbage(program: bytes) -> list[Any]:
    """The instructions that only the garbage collector frees."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        compile_program(program, "mlir", b"", {"target": "host"})
        gc.collect()
        return [o for o in gc.garbage if isinstance(o, Instruction)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("name", PROGRAMS)
def test_instructions_are_freed_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPONT_VERIFY", "0")  # laws number the values once more
    text = PROGRAMS[name]
    result = text.rpartition(": ")[2].strip()
    program = f"func.func @main(%x: tensor<5xf32>) -> {result} {{{text}\n}}".encode()
    assert not garbage(program)
    written.clear()
    assert not garbage(program)
