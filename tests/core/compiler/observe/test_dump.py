"""Dumps: which files there are, what they are called, what ties them together, and what goes wrong."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.observe import dump

from tests.core.compiler import programs

STAGES = [
    "received.mlir",
    "stablehlo.mlir",
    "before_optimizations.txt",
    "after_optimizations.txt",
    "after_optimizations.hlo.pb",
    "buffer_assignment.txt",
    "ir-no-opt.ll",
    "ir-with-opt.ll",
    "thunk_sequence.txt",
    "module.json",
    "tripont",
]
CODE = {"host": ["s"], "sycl": ["spv", "spvasm"]}


def compiled(name: str, **options: str) -> bytes:
    return compile_program(programs.stablehlo(name), "mlir", b"", options)


def description(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*.module.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("target", CODE)
def test_stages(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "new" / "dumps"
    for _ in range(2):
        data = compiled("lstm", dump_to=str(folder), target=target)
    names = sorted(p.name for p in folder.iterdir())
    prefixes = sorted({".".join(n.split(".")[:2]) for n in names})
    assert [p.split(".")[0] for p in prefixes] == ["module_0001", "module_0002"]
    for prefix in prefixes:
        for stage in [*STAGES, *CODE[target]]:
            assert (folder / f"{prefix}.{stage}").stat().st_size > 0, stage
    assert not any("after_fuse" in n for n in names)
    assert (folder / f"{prefixes[1]}.tripont").read_bytes() == data
    thunks = (folder / f"{prefixes[0]}.thunk_sequence.txt").read_text()
    assert "while" in thunks or target == "sycl"  # there the loop is part of a larger kernel
    assert "kernel" in thunks


@pytest.mark.parametrize("target", CODE)
def test_a_program_that_was_compiled_before_tells_what_it_holds(
    tmp_path: Path, target: str
) -> None:
    data = compiled("lstm", target=target)
    compiled("elementwise", dump_to=str(tmp_path))
    assert compile_program(data, "artifact", b"", {"dump_to": str(tmp_path)}) == b""
    name = artifact.deserialize(data).name
    files = {p.name.removeprefix(f"module_0002.{name}."): p for p in tmp_path.glob("module_0002*")}
    assert set(files) == {"tripont", "after_optimizations.hlo.pb", "after_optimizations.txt"}
    assert files["tripont"].read_bytes() == data
    assert "dot(" in files["after_optimizations.txt"].read_text()
    assert compile_program(data, "artifact", b"", {}) == b""
    with pytest.raises(CompileError, match="the artifact: "):
        compile_program(data[:100], "artifact", b"", {"dump_to": str(tmp_path)})


@pytest.mark.parametrize("target", CODE)
def test_description_ties_fusions_to_the_rest(tmp_path: Path, target: str) -> None:
    compiled("lstm", dump_to=str(tmp_path), target=target)
    module = description(tmp_path)
    prefix = module["files"]["tripont"].removesuffix(".tripont")
    text = {
        stage: (tmp_path / f"{prefix}.{stage}").read_text()
        for stage in ("after_optimizations.txt", "ir-no-opt.ll", CODE[target][-1])
    }
    assert (module["schema"], module["version"]) == (dump.SCHEMA, dump.SCHEMA_VERSION)
    assert module["complete"]
    assert module["target"] == target
    operations = {o["id"]: o for o in module["operations"]}
    fusions = [o for o in operations.values() if o["opcode"] == "fusion"]
    assert len(fusions) > 3
    kernels = {k["name"]: k for k in module["kernels"]}
    for fusion in fusions:
        assert f"%{fusion['fused_computation']} (" in text["after_optimizations.txt"]
        assert fusion["kernels"], fusion["id"]
        assert fusion["id"] in kernels[fusion["kernels"][0]]["operations"]
        for kernel in fusion["kernels"]:
            assert re.search(rf"^define void @{re.escape(kernel)}\(", text["ir-no-opt.ll"], re.M)
        assert sum(r["size"] for r in fusion["results"]) == fusion["bytes_written"] > 0
        assert sum(o["size"] for o in fusion["operands"]) == fusion["bytes_read"]
        for array in (*fusion["operands"], *fusion["results"]):
            allocation = module["allocations"][array["allocation"]]
            assert array["offset"] + array["size"] <= allocation["size"]
    # A program that was given as text is its own source.
    received = (tmp_path / f"{prefix}.received.mlir").read_text().splitlines()
    lines = {s["line"] for f in fusions for s in f["sources"] if s["file"] == "<program>"}
    assert lines
    assert all("stablehlo." in received[line - 1] for line in lines)
    # Every kernel that is launched is in the code.
    launched = {t["kernel"] for t in every_thunk(module["thunks"]) if t["kind"] == "kernel"}
    assert launched
    assert all(kernel in text[CODE[target][-1]] for kernel in launched)
    # Every fusion is launched by itself or by a kernel that it is part of, but for the condition of
    # a loop whose trip count is known.
    run = [f for f in fusions if f["computation"] != "while_condition"]
    assert all(launched & set(fusion["kernels"]) for fusion in run)


def every_thunk(thunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for thunk in thunks:
        inner = [thunk.get("condition", []), thunk.get("body", []), *thunk.get("branches", [])]
        found += [thunk, *(t for part in inner for t in every_thunk(part))]
    return found


def test_thunks_are_numbered_as_the_runtime_numbers_them(tmp_path: Path) -> None:
    data = compiled("lstm", dump_to=str(tmp_path))
    module = description(tmp_path)
    described = every_thunk(module["thunks"])
    assert [t["number"] for t in described] == list(range(len(described)))
    executable = artifact.deserialize(data)

    def kinds(thunks: Any) -> list[str]:
        found = []
        for thunk in thunks:
            match thunk:
                case artifact.While():
                    found += ["while", *kinds(thunk.condition), *kinds(thunk.body)]
                case artifact.Conditional():
                    found += ["conditional", *(k for b in thunk.branches for k in kinds(b))]
                case artifact.LibraryCall():
                    found.append("library-call")
                case _:
                    found.append(type(thunk).__name__.lower())
        return found

    assert [t["kind"] for t in described] == kinds(executable.thunks)


def test_kernels_of_a_loop_that_became_one_function(tmp_path: Path) -> None:
    """The fusions in the loop name their own function and the loop's, which calls it."""
    program = """
    func.func @main(%n: tensor<i32>, %x: tensor<16xf32>) -> tensor<16xf32> {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = stablehlo.while(%i = %n, %a = %x) : tensor<i32>, tensor<16xf32>
        cond {
          %limit = stablehlo.constant dense<10> : tensor<i32>
          %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %j = stablehlo.add %i, %one : tensor<i32>
          %t = stablehlo.tanh %a : tensor<16xf32>
          %b = stablehlo.reverse %t, dims = [0] : tensor<16xf32>
          stablehlo.return %j, %b : tensor<i32>, tensor<16xf32>
        }
      return %r#1 : tensor<16xf32>
    }"""
    compile_program(program.encode(), "mlir", b"", {"dump_to": str(tmp_path)})
    module = description(tmp_path)
    (tanh,) = [o for o in module["operations"] if o["transcendentals"] == 16]
    (launched,) = {t["kernel"] for t in module["thunks"] if t["kind"] == "kernel"}
    assert tanh["kernels"][-1] == launched
    assert len(tanh["kernels"]) == 2
    assert tanh["kernels"][0] in {
        c for k in module["kernels"] if k["name"] == launched for c in k["calls"]
    }


def test_estimates_of_a_matrix_product(tmp_path: Path) -> None:
    program = """
    func.func @main(%a: tensor<256x128xf32>, %b: tensor<128x512xf32>) -> tensor<256x512xf32> {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<256x128xf32>, tensor<128x512xf32>) -> tensor<256x512xf32>
      return %0 : tensor<256x512xf32>
    }"""
    options = {"dump_to": str(tmp_path), "cpu": "x86-64-v3"}
    compile_program(program.encode(), "mlir", b"", options)
    (operation,) = description(tmp_path)["operations"]
    assert operation["library_call"] == "gemm"
    assert operation["flops"] == 2 * 256 * 512 * 128
    assert operation["bytes_read"] == 4 * (256 * 128 + 128 * 512)
    assert operation["bytes_written"] == 4 * 256 * 512


@pytest.mark.parametrize(
    ("library_call", "flops", "text"),
    [
        pytest.param(
            "convolution",
            2 * (8 * 16 * 16 * 32) * (3 * 3 * 4),
            """func.func @main(%a: tensor<8x18x18x8xf32>, %b: tensor<3x3x4x32xf32>) -> tensor<8x16x16x32xf32> {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1]} {feature_group_count = 2 : i64, batch_group_count = 1 : i64}
    : (tensor<8x18x18x8xf32>, tensor<3x3x4x32xf32>) -> tensor<8x16x16x32xf32>
  return %0 : tensor<8x16x16x32xf32>
}""",
            id="convolution in two groups",
        ),
        pytest.param(
            "convolution",
            2 * (8 * 16 * 16 * 32) * (3 * 3 * 4),
            """func.func @main(%a: tensor<8x18x18x4xf32>, %b: tensor<8x16x16x32xf32>) -> tensor<3x3x4x32xf32> {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f],
    window = {stride = [1, 1]} {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<8x18x18x4xf32>, tensor<8x16x16x32xf32>) -> tensor<3x3x4x32xf32>
  return %0 : tensor<3x3x4x32xf32>
}""",
            id="gradient of weights",
        ),
        pytest.param(
            "",
            5 * 3 * 64 * 6 // 2,
            """func.func @main(%a: tensor<3x64xf32>) -> tensor<3x33xcomplex<f32>> {
  %0 = stablehlo.fft %a, type = RFFT, length = [64] : (tensor<3x64xf32>) -> tensor<3x33xcomplex<f32>>
  return %0 : tensor<3x33xcomplex<f32>>
}""",
            id="real Fourier transform, a kernel",
        ),
        pytest.param(
            "cholesky",
            5 * 12**3 / 3,
            """func.func @main(%a: tensor<5x12x12xf32>) -> tensor<5x12x12xf32> {
  %0 = stablehlo.cholesky %a, lower = true : tensor<5x12x12xf32>
  return %0 : tensor<5x12x12xf32>
}""",
            id="cholesky",
        ),
        pytest.param(
            "triangular-solve",
            4 * 12 * 12 * 7,
            """func.func @main(%a: tensor<12x12xcomplex<f32>>, %b: tensor<12x7xcomplex<f32>>)
  -> tensor<12x7xcomplex<f32>> {
  %0 = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false,
    transpose_a = #stablehlo<transpose NO_TRANSPOSE>}
    : (tensor<12x12xcomplex<f32>>, tensor<12x7xcomplex<f32>>) -> tensor<12x7xcomplex<f32>>
  return %0 : tensor<12x7xcomplex<f32>>
}""",
            id="complex triangular solve",
        ),
        pytest.param(
            "topk",
            None,
            """func.func @main(%a: tensor<4x500xf32>) -> tensor<4x9xf32> {
  %0:2 = chlo.top_k(%a, k = 9) : tensor<4x500xf32> -> (tensor<4x9xf32>, tensor<4x9xi32>)
  return %0#0 : tensor<4x9xf32>
}""",
            id="top-k has none",
        ),
    ],
)
def test_estimates_of_library_calls(
    tmp_path: Path, library_call: str, flops: float | None, text: str
) -> None:
    options = {"dump_to": str(tmp_path), "cpu": "x86-64-v3"}  # other CPUs may generate them
    compile_program(text.encode(), "mlir", b"", options)
    operations = description(tmp_path)["operations"]
    (operation,) = [o for o in operations if o["library_call"] or not library_call]
    assert operation["library_call"] == library_call
    assert operation["flops"] == flops


def test_around_matching_passes(tmp_path: Path) -> None:
    """As XLA does: before and after each pass that matches, unless nothing changed."""
    compiled("lstm", dump_to=str(tmp_path), dump_hlo_pass_re="fuse|unshare_control_flow")
    names = [
        n.name.split(".", 2)[2] for n in sorted(tmp_path.iterdir()) if ".optimization." in n.name
    ]
    assert names
    assert all(
        re.fullmatch(r"\d{4}\.optimization\.after_[\w-]+\.before_[\w-]+\.txt", n) for n in names
    )
    assert all("fuse" in n or "unshare_control_flow" in n for n in names)
    assert names[-1].endswith("after_fuse.before_chain_loops.txt")
    assert sum("before_fuse" in n for n in names) == 1
    before, after = ((tmp_path / p).read_text() for p in sorted_passes(tmp_path)[-2:])
    assert " fusion(" not in before
    assert " fusion(" in after


def sorted_passes(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if ".optimization." in p.name)


def test_passes_in_the_description(tmp_path: Path) -> None:
    compiled("attention", dump_to=str(tmp_path), dump_hlo_pass_re=".*")
    passes = description(tmp_path)["passes"]
    assert [p["number"] for p in passes] == list(range(1, len(passes) + 1))
    changed = [p for p in passes if p["changed"]]
    assert {"inline_calls", "fuse"} <= {p["name"] for p in changed}
    assert all((tmp_path / p["file"]).exists() for p in changed)
    assert all("file" not in p for p in passes if not p["changed"])
    assert passes[0]["instructions"] > 0


def test_bytecode_is_kept_as_it_was_received(tmp_path: Path) -> None:
    import jax.export

    exported = jax.export.export(jax.jit(lambda x: x + 1))(jax.ShapeDtypeStruct((4,), "float32"))
    program = exported.mlir_module_serialized
    compile_program(program, "mlir", b"", {"dump_to": str(tmp_path)})
    (received,) = tmp_path.glob("*.received.mlirbc")
    assert received.read_bytes() == program
    (text,) = tmp_path.glob("*.stablehlo.mlir")
    assert "stablehlo.add" in text.read_text()


def test_only_the_modules_that_match(tmp_path: Path) -> None:
    compiled("attention", dump_to=str(tmp_path), dump_hlo_module_re="no_such_name")
    assert list(tmp_path.iterdir()) == []
    compiled("attention", dump_to=str(tmp_path), dump_hlo_module_re="jit_.*")
    assert list(tmp_path.iterdir())


def test_a_compilation_that_failed_says_so(tmp_path: Path) -> None:
    program = b"""module @bad { func.func @main(%a: tensor<4xf64>) -> tensor<4xf64> {
      %0 = stablehlo.sine %a : tensor<4xf64>
      return %0 : tensor<4xf64> } }"""
    options = {"dump_to": str(tmp_path), "target": "sycl", "device": "cpu"}
    with pytest.raises(CompileError, match="f64"):
        compile_program(program, "mlir", b"", options)
    module = description(tmp_path)
    assert module["complete"] is False
    assert module["name"] == "bad"


def test_settings() -> None:
    environment = {
        "XLA_FLAGS": "--xla_dump_to=/somewhere --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*"
    }
    flags = dump.xla_flags(environment["XLA_FLAGS"])
    assert flags["xla_dump_to"] == "/somewhere"
    assert flags["xla_dump_hlo_as_text"] == "true"
    assert not dump.from_options({}, {}).enabled


def test_xla_flags(tmp_path: Path) -> None:
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_pass_re=fuse --xla_dump_hlo_module_re=jit_f"
    dumping = dump.from_options({}, {"XLA_FLAGS": flags})
    assert dumping.folder == tmp_path
    assert dumping.pass_pattern is not None
    assert dumping.pass_pattern.pattern == "fuse"
    assert dumping.module_pattern is not None
    assert dumping.module_pattern.pattern == "jit_f"


@pytest.mark.parametrize("target", CODE)
def test_an_impossible_folder_is_a_warning(tmp_path: Path, caplog: Any, target: str) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with caplog.at_level(logging.WARNING):
        data = compiled("elementwise", dump_to=str(blocked / "dumps"), target=target)
        again = compiled("elementwise", dump_to=str(blocked / "dumps"), target=target)
    assert data == again == compiled("elementwise", target=target)
    assert caplog.text.count("cannot write dumps") == 1  # for each folder, not for each program


def test_a_folder_that_goes_away_is_a_warning(tmp_path: Path, caplog: Any) -> None:
    dumping = dump.Dump(str(tmp_path / "dumps"))
    dumping.begin("f")
    dumping.write("a.txt", "a")
    for path in (tmp_path / "dumps").iterdir():
        path.unlink()
    (tmp_path / "dumps").rmdir()
    with caplog.at_level(logging.WARNING):
        dumping.write("b.txt", "b")
        dumping.write("c.txt", "c")
    assert caplog.text.count("cannot write dumps") == 1
    assert not dumping.enabled


@pytest.mark.parametrize("option", ["dump_hlo_pass_re", "dump_hlo_module_re"])
def test_a_bad_pattern_is_a_warning(tmp_path: Path, caplog: Any, option: str) -> None:
    with caplog.at_level(logging.WARNING):
        compiled("elementwise", dump_to=str(tmp_path), **{option: "("})
    assert "not a regular expression" in caplog.text
    assert list(tmp_path.iterdir())


# Begins as many dumps as argv[2] says in the folder argv[1], when it is told to.
_BEGIN = """
import sys
from tripont.core.compiler.observe import dump

print("ready", flush=True)
input()
for _ in range(int(sys.argv[2])):
    dumping = dump.Dump(sys.argv[1])
    dumping.begin("f")
    print(dumping.prefix)
"""


def test_processes_that_write_to_one_folder_take_different_numbers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _BEGIN, str(tmp_path), "20"]
    pipe = subprocess.PIPE
    children = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    prefixes = [prefix for child in children for prefix in child.communicate()[0].splitlines()]
    assert len(set(prefixes)) == len(prefixes) == 40


def test_names_are_safe_and_short(tmp_path: Path) -> None:
    dumping = dump.Dump(str(tmp_path))
    dumping.begin("../a b/" + "c" * 1000)
    assert re.fullmatch(r"module_0001\.[\w.-]+", dumping.prefix)
    assert len(dumping.prefix) < 150
