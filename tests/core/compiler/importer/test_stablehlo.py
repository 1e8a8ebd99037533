"""How operations of StableHLO, CHLO, MHLO and Shardy look as HLO, and constants of every dtype."""

from __future__ import annotations

import textwrap

import ml_dtypes
import numpy as np
import pytest
from tripont.core.compiler.importer import bindings, legalize, read_program
from tripont.core.compiler.ir import dtypes, printer
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Module

from tests.core.compiler.importer.test_program import opcodes, read_text


def main(body: str, *, parameters: str, results: str) -> Module:
    types = results if results.startswith("(") else f"({results})"
    return read_text(f"func.func @main({parameters}) -> {types} {{\n{textwrap.dedent(body)}\n}}")


def entry(module: Module) -> str:
    """The entry's instructions as HLO text, without header and metadata."""
    text = printer.print_computation(module.entry, metadata=False, large_constants=True)
    return "\n".join(line.strip() for line in text.splitlines()[1:-1])


def all_of(module: Module, opcode: str) -> list:
    return [i for c in module.computations() for i in c.instructions if i.opcode == opcode]


# ------------------------------------------------------------------------------------------------------- constants


def test_splat_is_a_broadcast_scalar() -> None:
    module = main(
        "%0 = stablehlo.constant dense<1.5> : tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>",
        parameters="",
        results="tensor<2x3xf32>",
    )
    assert entry(module) == (
        "%constant = f32[] constant(1.5)\nROOT %broadcast = f32[2,3] broadcast(%constant), dimensions={}"
    )


_MLIR_NAMES = {
    **{d.name: d.name for d in dtypes.ALL if d.is_float and d.bits > 8},
    **{d.name: f"f{d.name[1:].upper()}" for d in dtypes.ALL if d.is_float and d.bits <= 8},
    **{d.name: d.name.replace("s", "i") for d in dtypes.ALL if d.kind == "int"},
    **{d.name: d.name.replace("u", "ui") for d in dtypes.ALL if d.kind == "uint"},
    "pred": "i1",
    "c64": "complex<f32>",
    "c128": "complex<f64>",
}


def _literal_text(values: np.ndarray, dtype: dtypes.DType) -> str:
    if dtype.kind == "pred":
        return ", ".join("true" if v else "false" for v in values)
    if dtype.is_complex:
        return ", ".join(f"({v.real:e}, {v.imag:e})" for v in values)
    return ", ".join(f"{float(v):e}" if dtype.is_float else str(int(v)) for v in values)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("count", [2, 300])
def test_constant_values(dtype: dtypes.DType, count: int) -> None:
    """Few elements are text in MLIR, many are raw bytes; both for each dtype, exactly."""
    values = (np.arange(count) % 2 + (0.5 if dtype.is_complex else 0)).astype(dtype.numpy)
    if dtype.name == "f8e8m0fnu":
        values = np.array([1.0, 2.0] * (count // 2)).astype(dtype.numpy)
    text = _literal_text(values, dtype)
    module = main(
        f"%0 = stablehlo.constant dense<[{text}]> : tensor<{count}x{_MLIR_NAMES[dtype.name]}>\n"
        f"return %0 : tensor<{count}x{_MLIR_NAMES[dtype.name]}>",
        parameters="",
        results=f"tensor<{count}x{_MLIR_NAMES[dtype.name]}>",
    )
    literal = module.entry.root.attributes["literal"]
    assert literal.dtype == dtype.numpy
    assert not literal.flags.writeable
    assert literal.tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_constant_without_elements(dtype: dtypes.DType) -> None:
    kind = f"tensor<1x0x3x{_MLIR_NAMES[dtype.name]}>"
    module = main(
        f"%0 = stablehlo.constant dense<> : {kind}\nreturn %0 : {kind}",
        parameters="",
        results=kind,
    )
    literal = module.entry.root.attributes["literal"]
    assert literal.shape == (1, 0, 3)
    assert literal.dtype == dtype.numpy


def test_constant_bit_patterns() -> None:
    module = main(
        """
        %0 = stablehlo.constant dense<[1.5, 0x7F80, 0xFFC1, -0.0]> : tensor<4xbf16>
        %1 = stablehlo.constant dense<[-8, 7, -1]> : tensor<3xi4>
        %2 = stablehlo.constant dense<[(0x7FC00001, 1.0), (2.0, -0.0)]> : tensor<2xcomplex<f32>>
        %3 = stablehlo.constant dense<> : tensor<0xbf16>
        return %0, %1, %2, %3 : tensor<4xbf16>, tensor<3xi4>, tensor<2xcomplex<f32>>, tensor<0xbf16>
        """,
        parameters="",
        results="(tensor<4xbf16>, tensor<3xi4>, tensor<2xcomplex<f32>>, tensor<0xbf16>)",
    )
    bf16, s4, c64, empty = (r.attributes["literal"] for r in module.entry.results)
    assert bf16.view(np.uint16).tolist() == [0x3FC0, 0x7F80, 0xFFC1, 0x8000]
    assert s4.astype(int).tolist() == [-8, 7, -1]
    assert s4.dtype == ml_dtypes.int4
    assert c64.view(np.uint32).tolist() == [0x7FC00001, 0x3F800000, 0x40000000, 0x80000000]
    assert empty.shape == (0,)


def test_dense_resource() -> None:
    module = read_text(
        """func.func @main() -> tensor<2xf32> {
        %0 = stablehlo.constant dense_resource<blob> : tensor<2xf32>
        return %0 : tensor<2xf32> }
        {-# dialect_resources: { builtin: { blob: "0x040000000000803F00000040" } } #-}"""
    )
    assert module.entry.root.attributes["literal"].tolist() == [1.0, 2.0]


# ---------------------------------------------------------------------------------------------------- control flow

_LOOP = """
%0 = stablehlo.constant dense<0> : tensor<i32>
%n = stablehlo.constant dense<10> : tensor<i32>
%one = stablehlo.constant dense<1> : tensor<i32>
%1:2 = stablehlo.while(%i = %0, %x = %a) : tensor<i32>, tensor<4xf32>
  cond {
    %2 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %3 = stablehlo.add %x, %b : tensor<4xf32>
    %4 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %4, %3 : tensor<i32>, tensor<4xf32>
  }
return %1#1 : tensor<4xf32>
"""


def test_while_captures_become_state_and_constants_are_copied() -> None:
    module = main(_LOOP, parameters="%a: tensor<4xf32>, %b: tensor<4xf32>", results="tensor<4xf32>")
    (loop,) = all_of(module, "while")
    assert [str(o.shape) for o in loop.operands] == ["s32[]", "f32[4]", "f32[4]"]
    assert loop.operands[2] is module.entry.parameters[1]
    condition, body = loop.called
    assert len(condition.parameters) == len(body.parameters) == 3
    assert body.results[2] is body.parameters[2]
    assert "constant" in [i.opcode for i in condition.instructions]


def test_case_operands_lie_one_branch_after_the_other() -> None:
    module = main(
        """
        %0 = "stablehlo.case"(%i) ({
            stablehlo.return %a : tensor<f32>
        }, {
            %1 = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %1 : tensor<f32>
        }, {
            %c = stablehlo.constant dense<1.0> : tensor<f32>
            stablehlo.return %c : tensor<f32>
        }) : (tensor<i32>) -> tensor<f32>
        return %0 : tensor<f32>
        """,
        parameters="%i: tensor<i32>, %a: tensor<f32>, %b: tensor<f32>",
        results="tensor<f32>",
    )
    (conditional,) = all_of(module, "conditional")
    assert conditional.attributes["operand_counts"] == (1, 2, 0)
    assert [o.name for o in conditional.operands] == ["arg0", "arg1", "arg1", "arg2"]


def test_equal_bodies_are_shared() -> None:
    reduction = """
        %{0} = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [{0}]
            : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>"""
    module = main(
        "%z = stablehlo.constant dense<0.0> : tensor<f32>"
        + reduction.format(0)
        + reduction.format(1)
        + "\nreturn %0, %1 : tensor<4xf32>, tensor<4xf32>",
        parameters="%a: tensor<4x4xf32>",
        results="(tensor<4xf32>, tensor<4xf32>)",
    )
    first, second = all_of(module, "reduce")
    assert first.called[0] is second.called[0]


def test_names_of_bodies_are_not_those_of_functions() -> None:
    """Two bodies are numbered, and so may be the user's own functions: those that are read before, and after."""
    reductions = "\n".join(
        f"""%{n} = "stablehlo.reduce"(%{x}, %i) ({{
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.{op} %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }}) {{dimensions = array<i64: 0>}} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"""
        for n, (x, op) in enumerate((("first", "add"), ("a", "maximum"), ("a", "minimum")))
    )
    sizes = {'"reduce_body.1"': 4, "reduce_body": 5, '"reduce_body.3"': 6}
    functions = "\n".join(
        f"func.func private @{name}(%a: tensor<{n}xf32>) -> tensor<{n}xf32> {{ return %a : tensor<{n}xf32> }}"
        for name, n in sizes.items()
    )
    call = "func.call @{0}(%{1}) : (tensor<{2}xf32>) -> tensor<{2}xf32>"
    module = read_text(f"""{functions}
        func.func @main(%a: tensor<4xf32>, %b: tensor<5xf32>, %c: tensor<6xf32>, %i: tensor<f32>)
            -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<5xf32>, tensor<6xf32>) {{
          %first = {call.format('"reduce_body.1"', "a", 4)}
          {reductions}
          %body = {call.format("reduce_body", "b", 5)}
          %third = {call.format('"reduce_body.3"', "c", 6)}
          return %0, %1, %2, %body, %third
              : tensor<f32>, tensor<f32>, tensor<f32>, tensor<5xf32>, tensor<6xf32>
        }}""")
    names = [c.name for c in module.computations()]
    assert len(set(names)) == len(names) == 7


# ------------------------------------------------------------------------------------------- calls and custom calls


def test_composite_known_and_unknown() -> None:
    module = read_text(
        """
        func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %0 = stablehlo.composite "chlo.erf" %a {decomposition = @d} : (tensor<4xf32>) -> tensor<4xf32>
          %1 = stablehlo.composite "my.op" %a {decomposition = @d} : (tensor<4xf32>) -> tensor<4xf32>
          return %0, %1 : tensor<4xf32>, tensor<4xf32>
        }
        func.func private @d(%a: tensor<4xf32>) -> tensor<4xf32> {
          %0 = stablehlo.sine %a : tensor<4xf32>
          return %0 : tensor<4xf32>
        }"""
    )
    assert [r.opcode for r in module.entry.results] == ["erf", "call"]


def test_custom_calls() -> None:
    module = main(
        """
        %0 = stablehlo.custom_call @Sharding(%a) : (tensor<8xf32>) -> tensor<8xf32>
        %1 = stablehlo.custom_call @mhlo.erf(%0) : (tensor<8xf32>) -> tensor<8xf32>
        %2 = stablehlo.custom_call @annotate_device_placement(%1) {has_side_effect = true}
            : (tensor<8xf32>) -> tensor<8xf32>
        %3 = stablehlo.custom_call @mine(%2) {api_version = 4 : i32, has_side_effect = true,
            backend_config = {a = 1 : i32, b = "x", c = array<i64: 1, 2>, d = 1.5 : f32, e = true},
            operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>],
            output_operand_aliases = [#stablehlo.output_operand_alias<
                output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}
            : (tensor<8xf32>) -> tensor<8xf32>
        return %3 : tensor<8xf32>
        """,
        parameters="%a: tensor<8xf32>",
        results="tensor<8xf32>",
    )
    assert opcodes(module) == {"parameter": 1, "erf": 1, "custom-call": 1}
    config = dict(module.entry.root.attributes["backend_config"])
    # Of the types that the program gives them: handlers tell those apart.
    types = {name: np.asarray(value).dtype.name for name, value in config.items() if name != "b"}
    assert types == {"a": "int32", "c": "int64", "d": "float32", "e": "bool"}
    config["c"] = tuple(config["c"])
    assert {**module.entry.root.attributes, "backend_config": config} == {
        "custom_call_target": "mine",
        "backend_config": {"a": 1, "b": "x", "c": (1, 2), "d": 1.5, "e": True},
        "api_version": 4,
        "has_side_effect": True,
        "output_operand_aliases": ((0, 0),),
    }


def test_custom_call_keeps_layouts_that_are_not_row_major() -> None:
    module = main(
        """
        %0 = stablehlo.custom_call @f(%a) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
            result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
        return %0 : tensor<2x3xf32>
        """,
        parameters="%a: tensor<2x3xf32>",
        results="tensor<2x3xf32>",
    )
    assert module.entry.root.attributes["operand_layouts"] == ((0, 1),)
    assert "result_layouts" not in module.entry.root.attributes


# --------------------------------------------------------------------------------------------- chlo, mhlo and shardy


def test_chlo_keeps_what_is_an_opcode_and_expands_the_rest() -> None:
    module = main(
        """
        %s = chlo.sinh %a : tensor<8xf32> -> tensor<8xf32>
        %0 = chlo.acosh %s : tensor<8xf32> -> tensor<8xf32>
        %1 = chlo.erf %0 : tensor<8xf32> -> tensor<8xf32>
        %2, %3 = chlo.top_k(%1, k = 2) : tensor<8xf32> -> (tensor<2xf32>, tensor<2xi32>)
        return %2, %3 : tensor<2xf32>, tensor<2xi32>
        """,
        parameters="%a: tensor<8xf32>",
        results="(tensor<2xf32>, tensor<2xi32>)",
    )
    found = opcodes(module)
    assert found["erf"] == found["sinh"] == found["topk"] == 1
    assert found["log"] >= 1
    (topk,) = all_of(module, "topk")
    assert topk.attributes == {"k": 2, "largest": True}


def test_mhlo_functions_are_expanded_through_chlo() -> None:
    module = main(
        """
        %0 = stablehlo.custom_call @mhlo.asin(%a) : (tensor<4xf32>) -> tensor<4xf32>
        %1 = mhlo.asinh %0 : tensor<4xf32>
        %2:2 = mhlo.topk(%1, k=2, largest=false) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
        return %2#0 : tensor<2xf32>
        """,
        parameters="%a: tensor<4xf32>",
        results="tensor<2xf32>",
    )
    assert opcodes(module)["asin"] == opcodes(module)["log-plus-one"] == 1
    assert all_of(module, "topk")[0].attributes["largest"] is False


def test_implicit_broadcasting() -> None:
    module = main(
        """
        %0 = chlo.broadcast_add %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
        return %0 : tensor<2x4xf32>
        """,
        parameters="%a: tensor<2x4xf32>, %b: tensor<4xf32>",
        results="tensor<2x4xf32>",
    )
    assert "%broadcast = f32[2,4] broadcast(%arg1), dimensions={1}" in entry(module)


def test_stretched_dimension_is_dropped_before_broadcast() -> None:
    module = main(
        """
        %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x4xf32>
        return %0 : tensor<2x4xf32>
        """,
        parameters="%a: tensor<2x1xf32>",
        results="tensor<2x4xf32>",
    )
    assert entry(module).splitlines()[1:] == [
        "%reshape = f32[2] reshape(%arg0)",
        "ROOT %broadcast = f32[2,4] broadcast(%reshape), dimensions={0}",
    ]


def test_shardy_on_one_device() -> None:
    module = read_text(
        """sdy.mesh @mesh = <["x"=1]>
        func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
          %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>]
              manual_axes={"x"} (%b: tensor<8xf32>) {
            %1 = stablehlo.add %b, %b : tensor<8xf32>
            sdy.return %1 : tensor<8xf32>
          } : (tensor<8xf32>) -> tensor<8xf32>
          %2 = sdy.sharding_constraint %0 <@mesh, [{"x"}]> : tensor<8xf32>
          return %2 : tensor<8xf32> }"""
    )
    assert opcodes(module) == {"parameter": 1, "add": 1}


def test_dynamic_operations_of_constant_shape() -> None:
    module = main(
        """
        %s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
        %0 = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1]
            : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
        %1 = stablehlo.dynamic_reshape %0, %s : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<2x3xf32>
        %one = stablehlo.constant dense<[1]> : tensor<1xi32>
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %2 = stablehlo.dynamic_pad %a, %z, %one, %one, %one
            : (tensor<3xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<7xf32>
        return %1, %2 : tensor<2x3xf32>, tensor<7xf32>
        """,
        parameters="%a: tensor<3xf32>",
        results="(tensor<2x3xf32>, tensor<7xf32>)",
    )
    assert all_of(module, "broadcast")[0].dims == (2, 3)
    assert all_of(module, "pad")[0].attributes == {"low": (1,), "high": (1,), "interior": (1,)}


def test_dynamic_operations_of_shapes_that_are_computed_from_constants() -> None:
    module = main(
        """
        %one = stablehlo.constant dense<1> : tensor<i64>
        %1 = stablehlo.reshape %one : (tensor<i64>) -> tensor<1xi64>
        %2 = stablehlo.add %1, %1 : tensor<1xi64>
        %low = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
        %high = stablehlo.iota dim = 0 : tensor<2xi64>
        %inner = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<i64>) -> tensor<2xi64>
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %3 = stablehlo.dynamic_pad %a, %z, %low, %high, %inner : (tensor<3x4xf32>, tensor<f32>, tensor<2xi64>,
            tensor<2xi64>, tensor<2xi64>) -> tensor<6x10xf32>
        %4 = stablehlo.real_dynamic_slice %a, %high, %low, %inner : (tensor<3x4xf32>, tensor<2xi64>,
            tensor<2xi64>, tensor<2xi64>) -> tensor<1x1xf32>
        return %3, %4 : tensor<6x10xf32>, tensor<1x1xf32>
        """,
        parameters="%a: tensor<3x4xf32>",
        results="(tensor<6x10xf32>, tensor<1x1xf32>)",
    )
    padding = {"low": (1, 2), "high": (0, 1), "interior": (1, 1)}
    assert all_of(module, "pad")[0].attributes == padding
    bounds = {"starts": (0, 1), "limits": (1, 2), "strides": (1, 1)}
    assert all_of(module, "slice")[0].attributes == bounds


@pytest.mark.parametrize("depth", [1, 2])
def test_bounds_that_stand_outside_of_a_loop(depth: int) -> None:
    """MLIR's passes move constants out of loops' bodies; so do programs."""
    loop = """
        %r{n} = stablehlo.while(%s{n} = %r{before}) : tensor<3x4xf32> cond {{
          stablehlo.return %yes : tensor<i1>
        }} do {{
          {inside}
          stablehlo.return %r{after} : tensor<3x4xf32>
        }}"""
    inside = """%4 = stablehlo.real_dynamic_slice %a, %low, %high, %steps : (tensor<3x4xf32>, tensor<2xi64>,
            tensor<2xi64>, tensor<2xi64>) -> tensor<2x1xf32>
          %5 = stablehlo.dynamic_pad %4, %z, %low, %low, %high : (tensor<2x1xf32>, tensor<f32>, tensor<2xi64>,
            tensor<2xi64>, tensor<2xi64>) -> tensor<5x3xf32>
          %r9 = stablehlo.slice %a [0:3, 0:4] : (tensor<3x4xf32>) -> tensor<3x4xf32>"""
    for n in range(depth):
        inside = loop.format(n=n, inside=inside, before=99, after=9 if n == 0 else n - 1)
        inside = inside.replace("%r99", "%a")
    module = main(
        f"""
        %yes = stablehlo.constant dense<true> : tensor<i1>
        %low = stablehlo.constant dense<[0, 1]> : tensor<2xi64>
        %high = stablehlo.constant dense<[3, 2]> : tensor<2xi64>
        %steps = stablehlo.constant dense<[2, 1]> : tensor<2xi64>
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        {inside}
        return %r{depth - 1} : tensor<3x4xf32>
        """,
        parameters="%a: tensor<3x4xf32>",
        results="tensor<3x4xf32>",
    )
    bounds = {"starts": (0, 1), "limits": (3, 2), "strides": (2, 1)}
    assert bounds in [i.attributes for i in all_of(module, "slice")]
    padding = {"low": (0, 1), "high": (0, 1), "interior": (3, 2)}
    assert [i.attributes for i in all_of(module, "pad")] == [padding]


def test_a_shape_that_doubles_itself_many_times_is_found_quickly() -> None:
    doubled = "\n".join(
        f"%{n + 1} = stablehlo.multiply %{n}, %{n} : tensor<1xi64>" for n in range(200)
    )
    module = main(
        f"""
        %0 = stablehlo.constant dense<1> : tensor<1xi64>
        {doubled}
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %r = stablehlo.dynamic_pad %a, %z, %200, %0, %0 : (tensor<3xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>,
            tensor<1xi64>) -> tensor<7xf32>
        return %r : tensor<7xf32>
        """,
        parameters="%a: tensor<3xf32>",
        results="tensor<7xf32>",
    )
    assert all_of(module, "pad")[0].attributes == {"low": (1,), "high": (1,), "interior": (1,)}


def test_tokens() -> None:
    module = main(
        """
        %0 = stablehlo.create_token : !stablehlo.token
        %1 = stablehlo.after_all %0, %t : !stablehlo.token
        return %1 : !stablehlo.token
        """,
        parameters="%t: !stablehlo.token",
        results="!stablehlo.token",
    )
    assert opcodes(module) == {"parameter": 1, "after-all": 2}


def test_dot_algorithm_is_kept() -> None:
    module = main(
        """
        %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT],
            algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32,
            lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 6,
            allow_imprecise_accumulation = false> : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x4xf32>
        return %0 : tensor<4x4xf32>
        """,
        parameters="%a: tensor<4x5xf32>",
        results="tensor<4x4xf32>",
    )
    assert module.entry.root.attributes["algorithm"] == "bf16_bf16_f32_x6"


# ------------------------------------------------------------------------------------------------------- structure


def test_a_stage_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def useless(module: bindings.ir.Module) -> bindings.ir.Module:
        calls.append(module)
        return module

    monkeypatch.setitem(legalize.STAGES, legalize.CHLO, useless)
    with pytest.raises(CompileError, match=r"chlo\.asinh\(f32\[8\]\) -> f32\[8\]"):
        read_program(
            b"""func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
            %0 = chlo.asinh %a : tensor<8xf32> -> tensor<8xf32>
            return %0 : tensor<8xf32> }""",
            "mlir",
        )
    assert len(calls) == 1


def test_contexts_are_replaced() -> None:
    first = bindings.context()
    assert any(bindings.context() is not first for _ in range(bindings.PROGRAMS_PER_CONTEXT + 1))


def test_the_bits_of_a_complex_number_as_one() -> None:
    module = main(
        "%0 = stablehlo.bitcast_convert %a : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>\n"
        "return %0 : tensor<3xcomplex<f32>>",
        parameters="%a: tensor<3xcomplex<f32>>",
        results="tensor<3xcomplex<f32>>",
    )
    assert module.entry.root is module.entry.parameters[0]
