"""Reading HLO text, LLVM IR, assembly and SPIR-V as far as the page needs it."""

from __future__ import annotations

import itertools

from tripont.core.compiler.compile import compile_program

from tripont.explain import code_text, graphs
from tripont.explain.hlo_text import read_hlo

OURS = """HloModule f, entry_computation_layout={(f32[4])->f32[4]}

%fused_tanh (param_0: f32[4]) -> f32[4] {
  %param_0 = f32[4] parameter(0)
  %constant = f32[] constant(2)
  %broadcast = f32[4] broadcast(%constant), dimensions={}
  %multiply = f32[4] multiply(%param_0, %broadcast)
  ROOT %tanh = f32[4] tanh(%multiply), metadata={op_name="jit(f)/tanh" source_file="/a/b \\"c\\".py" source_line=12}
}

ENTRY %main (x: f32[4]) -> (f32[4], s32[]) {
  %x = f32[4] parameter(0), metadata={op_name="x"}
  %fusion.1 = f32[4] fusion(%x), kind=loop, calls=%fused_tanh
  %call = (f32[4], u32[4]) library-call(%fusion.1), name="sort", config={dimension=0}
  %get_tuple_element = f32[4] get-tuple-element(%call), index=0
  %while = s32[] while(%get_tuple_element), condition=%cond, body=%body
  ROOT %tuple = (f32[4], s32[]) tuple(%get_tuple_element, %while)
}
"""
XLAS = """HloModule jit_f, entry_computation_layout={(f32[4,2]{1,0})->f32[4]{0}}

region_0.1 {
  %a = f32[] parameter(0)
  ROOT %b = f32[] add(f32[] %a, f32[] %a)
}

ENTRY %main.2 (p0.1: f32[4,2]) -> f32[4] {
  %p0.1 = f32[4,2]{1,0} parameter(0)
  %c.1 = f32[] constant(0)
  ROOT %r-e.1 = f32[4]{0} reduce(%p0.1, %c.1), dimensions={1}, to_apply=%region_0.1
}
"""


def test_our_text() -> None:
    computations = read_hlo(OURS)
    assert list(computations) == ["fused_tanh", "main"]
    main = computations["main"]
    assert (main.entry, main.root) == (True, "tuple")
    by_name = main.by_name()
    assert by_name["fusion.1"].called == ["fused_tanh"]
    assert by_name["fusion.1"].kind == "loop"
    assert by_name["call"].shape == "(f32[4], u32[4])"
    assert by_name["call"].library == "sort"
    assert by_name["while"].called == ["cond", "body"]
    assert by_name["tuple"].operands == ["get_tuple_element", "while"]
    tanh = computations["fused_tanh"].by_name()["tanh"]
    assert (tanh.op_name, tanh.source_line) == ("jit(f)/tanh", 12)
    lines = OURS.split("\n")
    assert "%tanh = " in lines[tanh.line]
    assert lines[main.first].startswith("ENTRY")
    assert lines[main.last] == "}"


def test_xlas_text() -> None:
    computations = read_hlo(XLAS)
    assert list(computations) == ["region_0.1", "main.2"]
    reduce = computations["main.2"].by_name()["r-e.1"]
    assert reduce.shape == "f32[4]"
    assert reduce.operands == ["p0.1", "c.1"]
    assert reduce.called == ["region_0.1"]


def test_what_is_not_hlo() -> None:
    assert read_hlo("") == {}
    assert read_hlo("module @f { }\nsome text {\n") == {}


def test_graph_of_a_computation() -> None:
    computations = read_hlo(OURS)
    drawn = graphs.draw_computation(computations["main"], {"main/fusion.1": 7}, fused=False)
    nodes = {n["name"]: n for n in drawn["nodes"]}
    assert list(nodes) == ["x", "fusion.1", "call", "while", "tuple"]  # an element is no node
    names = list(nodes)
    edges = {(names[a], names[b]) for a, b, _ in drawn["edges"]}
    assert edges == {
        ("x", "fusion.1"),
        ("fusion.1", "call"),
        ("call", "while"),
        ("call", "tuple"),
        ("while", "tuple"),
    }
    assert nodes["fusion.1"]["operation"] == 7
    assert nodes["fusion.1"]["inside"] == ["fused_tanh"]
    assert nodes["tuple"]["label"] == "results"
    assert nodes["call"]["kind"] == "library"


def test_constants_are_not_drawn_inside_a_fusion() -> None:
    drawn = graphs.draw_computation(read_hlo(OURS)["fused_tanh"], {}, fused=True)
    assert [n["name"] for n in drawn["nodes"]] == ["param_0", "multiply", "tanh"]


def test_functions_of_generated_code(tmp_path) -> None:
    program = b"""func.func @main(%x: tensor<262144xf32>, %y: tensor<700x900xf64>)
        -> (tensor<262144xf32>, tensor<900x700xf64>) {
      %0 = stablehlo.tanh %x : tensor<262144xf32>
      %1 = stablehlo.transpose %y, dims = [1, 0] : (tensor<700x900xf64>) -> tensor<900x700xf64>
      return %0, %1 : tensor<262144xf32>, tensor<900x700xf64> }"""
    readers = {
        "host": {"ir-no-opt.ll": code_text.llvm_functions, "s": code_text.assembly_functions},
        "sycl": {"ir-with-opt.ll": code_text.llvm_functions, "spvasm": code_text.spirv_functions},
    }
    for target, stages in readers.items():
        folder = tmp_path / target
        compile_program(program, "mlir", b"", {"dump_to": str(folder), "target": target})
        for stage, reader in stages.items():
            (path,) = folder.glob(f"*.{stage}")
            text = path.read_text()
            lines = text.split("\n")
            ranges = reader(text)
            found = [name for name in ranges if name in ("tanh_fusion", "transpose_fusion")]
            assert len(found) == 2, (stage, list(ranges))
            for name in found:
                first, last = ranges[name]
                assert last - first > 5
                assert "Function" in lines[first] or name in lines[first]
            spans = sorted(ranges.values())
            assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))
