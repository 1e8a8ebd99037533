"""Sizes that depend on values, as programs say them: HLO's bounds and StableHLO's."""

from __future__ import annotations

import pytest
from jaxlib import _hlo
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir import dtypes, hlo, verifier
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.sizes import bounded_shapes

_BOUNDED = "tensor<?xf32, #stablehlo.bounds<4>>"


def _program(body: str) -> bytes:
    text = f"HloModule m\nENTRY main {{\n{body}\n}}"
    return bytes(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def _opcodes(module: hlo.Module) -> list[str]:
    return [i.opcode for i in module.entry.instructions]


def _sized() -> bytes:
    return _program("""
      x = f32[4] parameter(0)
      n = s32[] parameter(1)
      y = f32[<=4] set-dimension-size(x, n), dimensions={0},
        metadata={op_name="model/cut" source_file="model.py" source_line=7}
      z = f32[<=4] negate(y)
      k = s32[] get-dimension-size(z), dimensions={0}
      c = f32[<=4,1] reshape(z)
      ROOT r = (f32[<=4], s32[], f32[<=4,1]) tuple(z, k, c)
    """)


def test_arrays_get_the_shapes_of_their_bounds() -> None:
    assert bounded_shapes.is_bounded(_sized())
    module = read_program(_sized(), "hlo")
    verifier.verify(module)
    assert [r.shape for r in module.entry.results] == [
        Shape(dtypes.F32, (4,)),
        Shape(dtypes.S32),
        Shape(dtypes.F32, (4, 1)),
    ]
    found = {i.opcode: i for i in module.entry.instructions}
    assert found["set-dimension-size"].attributes["dimension"] == 0
    assert found["set-dimension-size"].attributes["dynamic_dimensions"] == (0,)
    assert str(found["set-dimension-size"].metadata) == "model/cut at model.py:7"
    assert found["get-dimension-size"].attributes["dimension"] == 0
    assert found["dynamic-reshape"].attributes["dynamic_dimensions"] == (0,)


def test_a_program_of_known_sizes_stays_as_it_is() -> None:
    program = _program(
        "x = f32[4] parameter(0)\nROOT r = s32[] get-dimension-size(x), dimensions={0}"
    )
    assert not bounded_shapes.is_bounded(program)
    assert bounded_shapes.without_computed_sizes(program) is program


def test_stablehlo_with_bounds() -> None:
    text = f"""
    func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> {_BOUNDED} {{
      %y = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> {_BOUNDED}
      %z = stablehlo.negate %y : {_BOUNDED}
      return %z : {_BOUNDED}
    }}"""
    module = read_program(text.encode(), "mlir")
    verifier.verify(module)
    assert "set-dimension-size" in _opcodes(module)
    assert module.entry.root.shape == Shape(dtypes.F32, (4,))


@pytest.mark.parametrize("format", ["hlo", "mlir"])
def test_arguments_of_such_sizes_are_refused(format: str) -> None:
    program = _program(
        "n = s32[] parameter(0)\nx = f32[<=4] parameter(1)\nROOT r = f32[<=4] negate(x)"
    )
    if format == "mlir":
        program = f"""
        func.func @main(%n: tensor<i32>, %x: {_BOUNDED}) -> {_BOUNDED} {{
          %z = stablehlo.negate %x : {_BOUNDED}
          return %z : {_BOUNDED}
        }}""".encode()
    with pytest.raises(
        CompileError, match="the size of dimension 0 of argument 1 is not known"
    ) as caught:
        read_program(program, format)
    assert caught.value.code == "UNIMPLEMENTED"


def test_sizes_without_bounds_are_refused() -> None:
    text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
    with pytest.raises(CompileError, match="known only at run time"):
        read_program(text.encode(), "mlir")


def test_damaged_programs() -> None:
    program = _sized()
    for size in range(1, len(program), 7):
        with pytest.raises(CompileError) as caught:
            read_program(program[:size], "hlo")
        assert caught.value.code == "INVALID_ARGUMENT"
