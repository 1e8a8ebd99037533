"""Masks of comparisons with zero are moved to general registers without LLVM's wrong combination."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from tripont.core.compiler.targets.host import masks
from tripont.core.compiler.targets.host.target import for_cpu

ROOT = Path(__file__).parents[4]
# Four indices for each update, all of them negative but for one of the first: no update is in range. So many numbers
# are in registers that the mask's are behind the sixteenth. (A random program, shrunk.)
SCATTER = """
func.func @main(%x: tensor<2x1x2x1x3x1x2xf64>) -> tensor<2x1x2x1x3x3x2xf64> {
  %three = stablehlo.constant dense<3.0> : tensor<f64>
  %ones = stablehlo.constant dense<1.0> : tensor<2x1x2x1x3x3x2xf64>
  %n = stablehlo.iota dim = 0 : tensor<72xi32>
  %r = stablehlo.remainder %n, %n : tensor<72xi32>
  %s = stablehlo.subtract %r, %n : tensor<72xi32>
  %t = stablehlo.reshape %s : (tensor<72xi32>) -> tensor<4x2x1x3x3xi32>
  %indices = stablehlo.convert %t : (tensor<4x2x1x3x3xi32>) -> tensor<4x2x1x3x3xi8>
  %y = stablehlo.reshape %x : (tensor<2x1x2x1x3x1x2xf64>) -> tensor<24xf64>
  %z = stablehlo.pad %y, %three, low = [0], high = [-6], interior = [0]
    : (tensor<24xf64>, tensor<f64>) -> tensor<18xf64>
  %updates = stablehlo.reshape %z : (tensor<18xf64>) -> tensor<2x1x3x3xf64>
  %result = "stablehlo.scatter"(%ones, %indices, %updates) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0, 1, 4, 6], input_batching_dims = [2, 3, 5], scatter_indices_batching_dims = [1, 2, 3],
    scatter_dims_to_operand_dims = [1, 6, 4, 0]>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %c : tensor<f64>
  }) : (tensor<2x1x2x1x3x3x2xf64>, tensor<4x2x1x3x3xi8>, tensor<2x1x3x3xf64>) -> tensor<2x1x2x1x3x3x2xf64>
  return %result : tensor<2x1x2x1x3x3x2xf64>
}
"""


def test_updates_out_of_range_are_dropped(subprocess_environment: dict[str, str]) -> None:
    """In a process as a user's: which registers are taken depends on all that the kernel's function does."""
    program = f"""
import numpy as np
from tests.conformance import device
x = -np.arange(1.0, 25.0).reshape(2, 1, 2, 1, 3, 1, 2)
kept = x.copy()
(result,) = device.run(device.compile_program('''{SCATTER}'''), [x])
np.testing.assert_array_equal(result, np.ones(result.shape))
np.testing.assert_array_equal(x, kept)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=subprocess_environment, cwd=ROOT, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr


def module(producer: str, lanes: int, type_: str) -> str:
    return f"""
declare i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1>)
define void @f(ptr %p, ptr %q) {{
entry:
  %a = load <{lanes} x {type_}>, ptr %p, align 4
  %m = {producer.format(t=f"<{lanes} x {type_}>")}
  %any = call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> %m)
  store <{lanes} x {type_}> %a, ptr %q, align 4
  br i1 %any, label %some, label %none
some:
  store i8 1, ptr %p, align 1
  br label %none
none:
  ret void
}}
"""


NEGATIVE = "icmp slt {t} %a, zeroinitializer"


@pytest.mark.skipif(llvm.llvm_version_info[0] != 22, reason="only LLVM 22 moves masks wrongly")
@pytest.mark.parametrize(
    ("lanes", "type_"), [(2, "i64"), (4, "i32"), (8, "i32"), (16, "i8"), (32, "i8")]
)
def test_a_test_of_signs_is_not_combined(lanes: int, type_: str) -> None:
    some = ", ".join(["i1 true"] * (lanes - 1) + ["i1 false"])
    text = module(NEGATIVE, lanes, type_).replace("%m = icmp", "%l = icmp")
    text = text.replace("  %any", f"  %m = and <{lanes} x i1> %l, <{some}>\n  %any")
    assembly = for_cpu("skylake-avx512").compile_object(text, dump=True).assembly
    assert assembly
    assert "movmsk" not in assembly


def hidden(text: str) -> list[str]:
    return re.findall(r'asm "", "=v,0"\((<[^>]*>) %mask', masks.hidden(text))


def test_only_masks_that_may_be_tests_of_signs_are_hidden() -> None:
    assert hidden(module(NEGATIVE, 4, "i32")) == ["<4 x i32>"]
    assert hidden(module(NEGATIVE, 2, "i64")) == ["<2 x i64>"]
    assert hidden(module("icmp sge {t} %a, splat (i8 3)", 32, "i8")) == ["<32 x i16>"]
    assert hidden(module("icmp ugt {t} %a, splat (i32 2147483647)", 16, "i32")) == ["<16 x i32>"]
    assert hidden(module("icmp ne {t} %a, zeroinitializer", 8, "i32")) == ["<8 x i32>"]
    assert hidden(module("icmp ult {t} %a, splat (i32 7)", 4, "i32")) == []
    assert hidden(module("fcmp olt {t} %a, zeroinitializer", 4, "float")) == []
    assert hidden(module("icmp slt {t} %a, zeroinitializer", 128, "i8")) == []
    text = module(NEGATIVE, 4, "i32")
    assert masks.hidden(text.replace("reduce.or", "other.or")) == text.replace(
        "reduce.or", "other.or"
    )


def test_masks_of_masks() -> None:
    both = """fcmp olt {t} %a, zeroinitializer
  %n = icmp OTHER <4 x i32> %b, splat (i32 9)
  %m = or <4 x i1> %l, %n"""
    text = module(both, 4, "float").replace(
        "%m = fcmp", "%b = bitcast <4 x float> %a to <4 x i32>\n  %l = fcmp"
    )
    assert hidden(text.replace("OTHER", "ult")) == []
    assert hidden(text.replace("OTHER", "slt")) == ["<4 x i32>"]
    some = """fcmp olt {t} %a, zeroinitializer
  %m = and <4 x i1> %l, <i1 true, i1 true, i1 true, i1 false>"""
    assert hidden(module(some, 4, "float").replace("%m = fcmp", "%l = fcmp")) == []


@pytest.mark.parametrize(("comparison", "count"), [("fcmp olt", 0), ("icmp slt", 1)])
def test_a_parameter_is_what_its_callers_give(comparison: str, count: int) -> None:
    kind = "float" if comparison == "fcmp olt" else "i32"
    text = f"""
declare i1 @llvm.vector.reduce.or.v4i1(<4 x i1>)
define internal i1 @tripont.where(<4 x i1> %a0, i32 %a1) {{
entry:
  %any = call i1 @llvm.vector.reduce.or.v4i1(<4 x i1> %a0)
  ret i1 %any
}}
define i1 @f(<4 x {kind}> %a) {{
entry:
  %m = {comparison} <4 x {kind}> %a, zeroinitializer
  %n = fcmp oeq <4 x float> zeroinitializer, zeroinitializer
  %r = call i1 @tripont.where(<4 x i1> %n, i32 0)
  %s = call i1 @tripont.where(<4 x i1> %m, i32 0)
  ret i1 %s
}}
"""
    assert len(hidden(text)) == count
    llvm.parse_assembly(masks.hidden(text), llvm.context.create_context()).verify()


def test_lanes_and_masked_accesses() -> None:
    text = """
  %m = icmp slt <8 x i32> %a, zeroinitializer
  %l = extractelement <8 x i1> %m, i64 %n
  %g = call <8 x i8> @llvm.masked.gather.v8i8.v8p0(<8 x ptr> %p, i32 1, <8 x i1> %m, <8 x i8> zeroinitializer)
  %h = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> %p, i32 4, <8 x i1> %m, <8 x float> zeroinitializer)
  call void @llvm.masked.scatter.v8bf16.v8p0(<8 x bfloat> %v, <8 x ptr> %p, i32 2, <8 x i1> %m)
"""
    assert len(hidden(text)) == 3
