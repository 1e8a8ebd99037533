"""Arrays of the caller that are not row-major: the entry has them in the order of their memory."""

from __future__ import annotations

import numpy as np
import pytest
from jaxlib import _hlo
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.formats import artifact, hlo_proto
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import verifier
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import AUTO_LAYOUT, Module
from tripont.core.compiler.passes.entry_layouts import entry_layouts
from tripont.core.compiler.reference.evaluate import evaluate

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def read(program: str) -> Module:
    return read_program(program.encode(), "mlir")


def laid_out(program: str) -> Module:
    module = entry_layouts(read(program))
    module.assign_names()
    verifier.verify(module)
    return module


def in_memory(array: np.ndarray, layout: tuple[int, ...]) -> np.ndarray:
    """The array by its dimensions in the order of memory, slowest first."""
    return array.transpose(layout[::-1])


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_a_parameter_and_a_result(order: tuple[int, ...]) -> None:
    mode = "{" + ",".join(map(str, order)) + "}"
    module = laid_out(
        f"""func.func @main(%a: tensor<2x3x4xf32> {{mhlo.layout_mode = "{mode}"}})
            -> (tensor<2x3x4xf32> {{mhlo.layout_mode = "{mode}"}}) {{
          %0 = stablehlo.negate %a : tensor<2x3x4xf32>
          return %0 : tensor<2x3x4xf32> }}"""
    )
    (result,) = evaluate(module, [in_memory(A, order)])
    np.testing.assert_array_equal(result, in_memory(-A, order))
    expected = None if order == (2, 1, 0) else order
    assert module.parameter_layouts == module.result_layouts == (expected,)


TRANSPOSED = """func.func @main(%a: tensor<2x3x4xf32> {{mhlo.layout_mode = "auto"}}, %b: tensor<2x3x4xf32>)
    -> (tensor<4x2x3xf32> {{mhlo.layout_mode = "auto"}}, tensor<2x3x4xf32> {{mhlo.layout_mode = "{}"}}) {{
  %0 = stablehlo.add %a, %b : tensor<2x3x4xf32>
  %1 = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
  return %2, %0 : tensor<4x2x3xf32>, tensor<2x3x4xf32> }}"""


def test_a_layout_to_choose_is_that_of_what_is_transposed() -> None:
    module = laid_out(TRANSPOSED.format("{0,1,2}"))
    first, second = evaluate(module, [A, 2 * A])
    order, other = module.result_layouts
    assert other == (0, 1, 2)
    np.testing.assert_array_equal(second, in_memory(3 * A, other))
    assert order is not None
    assert order != AUTO_LAYOUT
    np.testing.assert_array_equal(first, in_memory((3 * A).transpose(2, 0, 1), order))
    np.testing.assert_array_equal(first, 3 * A)  # nothing was transposed
    assert module.parameter_layouts == (None, None)


def test_without_a_transpose_row_major_is_chosen() -> None:
    module = laid_out(TRANSPOSED.format("auto"))
    assert module.result_layouts[1] is None
    np.testing.assert_array_equal(evaluate(module, [A, A])[1], 2 * A)


def test_an_alias_needs_one_shape() -> None:
    """What lies otherwise may be overwritten, but not by that result as it stands."""
    program = """func.func @main(%a: tensor<2x3xf32> {{mhlo.layout_mode = "{0}", tf.aliasing_output = 0 : i32}})
        -> (tensor<2x3xf32> {{mhlo.layout_mode = "{1}"}}) {{
      %0 = stablehlo.negate %a : tensor<2x3xf32>
      return %0 : tensor<2x3xf32> }}"""
    same = laid_out(program.format("{0,1}", "{0,1}"))
    assert (same.input_output_aliases, same.buffer_donors) == (((0, 0, False),), ())
    other = laid_out(program.format("{0,1}", "{1,0}"))
    assert (other.input_output_aliases, other.buffer_donors) == ((), (0,))
    a = A[0, :, :2].T.copy()
    for module in (same, other):
        (order,) = module.result_layouts
        (result,) = evaluate(module, [in_memory(a, (0, 1))])
        np.testing.assert_array_equal(result, in_memory(-a, order or (1, 0)))


def test_the_program_that_is_shown_has_the_callers_arrays() -> None:
    module = laid_out(TRANSPOSED.format("{0,1,2}"))
    text = _hlo.HloModule.from_serialized_hlo_module_proto(
        hlo_proto.write_module(module)
    ).to_string()
    layout = "{(f32[2,3,4]{2,1,0}, f32[2,3,4]{2,1,0})->(f32[4,2,3]{0,2,1}, f32[2,3,4]{0,1,2})}"
    assert f"entry_computation_layout={layout}" in text
    assert "f32[4,2,3]{0,2,1} bitcast(" in text
    # Read again, it is a program on the arrays as the caller has them.
    again = read_program(hlo_proto.write_module(module), "hlo")
    first, second = evaluate(again, [A, 2 * A])
    np.testing.assert_array_equal(first, (3 * A).transpose(2, 0, 1))
    np.testing.assert_array_equal(second, 3 * A)


def test_the_artifact_has_arrays_in_the_order_of_memory() -> None:
    executable = compile_module(read(TRANSPOSED.format("{0,1,2}")))
    assert [str(r.shape) for r in executable.results] == ["f32[2,3,4]", "f32[4,3,2]"]
    assert artifact.deserialize(artifact.serialize(executable)).program == executable.program


def test_what_is_no_layout_of_the_array() -> None:
    program = """func.func @main(%a: tensor<2x3xf32> {{mhlo.layout_mode = "{}"}}) -> tensor<2x3xf32> {{
      return %a : tensor<2x3xf32> }}"""
    for mode in ("{0}", "{0,2}", "{1,1}"):
        with pytest.raises(CompileError, match="the layout"):
            entry_layouts(read(program.format(mode)))
    with pytest.raises(CompileError, match="layouts without tiles"):
        read(program.format("{1,0:T(8,128)}"))
