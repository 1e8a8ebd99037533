"""Passes checked on data: a pass that changes numbers is named, one that rounds at other places is not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.observe import pass_checks
from tripont.core.compiler.reference import stochastic

SUM = """func.func @main(%x: tensor<64xf32>, %n: tensor<5xi32>) -> (tensor<f32>, tensor<5xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %e = stablehlo.exponential %x : tensor<64xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
  %m = stablehlo.add %n, %n : tensor<5xi32>
  return %s, %m : tensor<f32>, tensor<5xi32>
}"""


def replaced(opcode, change):
    """A pass that makes ``change`` of the entry's instructions of this opcode."""

    def wrong_pass(module):
        new: dict[hlo.Instruction, hlo.Instruction] = {}
        for i in module.entry.instructions:
            copy = i.replace(operands=[new[o] for o in i.operands])
            new[i] = change(copy) if i.opcode == opcode else copy
        entry = hlo.Computation.from_root(
            "main", [new[p] for p in module.entry.parameters], new[module.entry.root]
        )
        return dataclasses.replace(module, entry=entry)

    return wrong_pass


def opcode(name):
    return lambda i: hlo.Instruction(name, i.shape, i.operands)


def check(*passes):
    module = read_program(SUM.encode(), "mlir")
    return pass_checks.check(module, [(f"pass {n}", p) for n, p in enumerate(passes)])


def test_pass_that_changes_an_integer_is_named():
    report = check(replaced("exponential", lambda i: i), replaced("add", opcode("multiply")))
    assert report.checked == 2
    assert report.wrong[0].startswith("pass 1,")
    assert "result 1: " in report.wrong[0]


def test_pass_that_changes_a_float_is_named():
    assert "result 0: 1 of 1" in check(replaced("exponential", opcode("cosine"))).wrong[0]


def halves(i):
    """The same sum in another order: 32 terms, then the others."""
    x, zero = i.operands
    parts = [
        hlo.Instruction(
            "slice",
            hlo.Shape(x.dtype, (32,)),
            (x,),
            {"starts": (n,), "limits": (n + 32,), "strides": (1,)},
        )
        for n in (0, 32)
    ]
    sums = [hlo.Instruction("reduce", i.shape, (p, zero), i.attributes, i.called) for p in parts]
    return hlo.Instruction("add", i.shape, sums)


def test_pass_that_rounds_at_other_places_is_right():
    report = check(replaced("reduce", halves))
    assert (report.wrong, report.checked) == ([], 1)


def test_compiling_names_the_pass(monkeypatch):
    def wrong_pass(module):
        return replaced("add", opcode("subtract"))(module)

    monkeypatch.setattr(
        pipeline, "PASSES", (*pipeline.PASSES[:3], wrong_pass, *pipeline.PASSES[3:])
    )
    compile_program(SUM.encode(), "mlir", b"", {})
    monkeypatch.setenv("TRIPONT_CHECK_PASSES", "1")
    with pytest.raises(CompileError, match="changed the program's numbers: wrong_pass,") as raised:
        compile_program(SUM.encode(), "mlir", b"", {})
    assert raised.value.code == "INTERNAL"


def expectation(text, *arguments):
    return stochastic.Expectation(read_program(text.encode(), "mlir"), list(arguments))


def test_whole_numbers_have_no_tolerance_but_the_last_places():
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xi32> {
      %y = stablehlo.multiply %x, %x : tensor<4xf32>
      %z = stablehlo.floor %y : tensor<4xf32>
      %i = stablehlo.convert %z : (tensor<4xf32>) -> tensor<4xi32>
      return %i : tensor<4xi32>
    }"""
    whole = expectation(text, np.array([1, 2, 3, 4], np.float32))
    np.testing.assert_array_equal(whole.tolerances()[0], np.zeros(4))
    # floor(x * x) hangs on the rounding where the exact square is nearly whole, and nowhere else.
    root = np.float32(np.sqrt(np.float32(3)))
    near = expectation(text, np.array([root, 1.3, 1.4, 1.6], np.float32))
    np.testing.assert_array_equal(near.tolerances()[0], [np.inf, 0, 0, 0])


def test_tolerance_follows_the_condition():
    text = """func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
      %e = stablehlo.exponential %x : tensor<2xf32>
      %d = stablehlo.subtract %e, %y : tensor<2xf32>
      return %d : tensor<2xf32>
    }"""
    near = np.float32(np.exp(np.float32(2)))
    tolerances = expectation(
        text, np.array([2, 2], np.float32), np.array([near * (1 + 1e-5), 100], np.float32)
    ).tolerances()[0]
    # The difference is 1e-5 of the terms, and its tolerance still that of exp(2).
    assert 1e-7 < tolerances[0] / near < 1e-5


def test_loop_without_an_end_is_given_up():
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %r = stablehlo.while(%s = %x) : tensor<i32> cond {
        %t = stablehlo.compare EQ, %s, %s : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      } do {
        stablehlo.return %s : tensor<i32>
      }
      return %r : tensor<i32>
    }"""
    with pytest.raises(stochastic.TooLongError):
        expectation(text, np.int32(1))
