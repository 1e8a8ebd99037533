"""``tripont explain`` on everything it takes, and what it says when that is wrong."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.observe.dump import SCHEMA_VERSION

from tests.cli.test_commands import PROGRAM, tripont
from tests.library_cpu import ENVIRONMENT
from tripont.explain.measure import measure

LOOP = """
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %limit = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<512x512xf32>
    cond {
      %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.dot_general %a, %x, contracting_dims = [1] x [1]
        : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
      %b = stablehlo.tanh %d : tensor<512x512xf32>
      stablehlo.return %j, %b : tensor<i32>, tensor<512x512xf32>
    }
  return %r#1 : tensor<512x512xf32>
}
"""
HLO = """HloModule from_xla, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT t = f32[8]{0} tanh(x)
}
"""


def report_of(page: Path) -> dict[str, Any]:
    """The data in a page."""
    match = re.search(r'id="data">([\w+/=]+)</script>', page.read_text())
    assert match
    return json.loads(zlib.decompress(base64.b64decode(match[1])))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """program.mlir, its dump and its artifact."""
    folder = tmp_path_factory.mktemp("explain")
    (folder / "program.mlir").write_text(PROGRAM)
    command = ["compile", folder / "program.mlir", "-o", folder / "program.tripont"]
    result = tripont(*command, "--dump", folder / "dump")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.parametrize("given", ["dump", "program.mlir", "program.tripont"])
def test_everything_it_takes(folder: Path, tmp_path: Path, given: str) -> None:
    page = tmp_path / "page.html"
    asked = [] if given == "program.mlir" else ["--measure"]
    result = tripont("explain", folder / given, "-o", page, *asked)
    assert result.returncode == 0, result.stderr
    assert "scale_and_add" in result.stdout
    report = report_of(page)
    assert report["name"] == "scale_and_add"
    assert report["timeline"]["measured"], report["timeline"]
    assert report["timeline"]["events"]
    assert {o["opcode"] for o in report["operations"]} == {"fusion"}
    stages = {s["key"] for s in report["stages"]}
    assert {"after_optimizations.txt", "thunk_sequence.txt"} <= stages
    if given != "program.tripont":
        assert {"stablehlo.mlir", "ir-no-opt.ll", "ir-with-opt.ll", "s"} <= stages
        assert all(set(o["lines"]) >= {"ir-with-opt.ll", "s"} for o in report["operations"])
    timed = {t for t, *_ in report["timeline"]["events"]}
    assert {o["thunk"] for o in report["operations"]} == timed
    assert {o["name"]: o["flops"] for o in report["operations"]} == flops_of(
        folder / "program.mlir"
    )


def flops_of(program: Path) -> dict[str, float]:
    """What the compiler says of each kernel of a program."""
    executable = artifact.deserialize(compile_program(program.read_bytes(), "mlir", b"", {}))
    assert all(d.flops > 0 for d in executable.debug)
    return {d.name: d.flops for d in executable.debug}


def test_hlo_text_and_proto(tmp_path: Path) -> None:
    from jaxlib import _hlo

    (tmp_path / "f.txt").write_text(HLO)
    proto = _hlo.hlo_module_from_text(HLO).as_serialized_hlo_module_proto()
    (tmp_path / "f.pb").write_bytes(proto)
    for name in ("f.txt", "f.pb"):
        page = tmp_path / f"{name}.html"
        result = tripont("explain", tmp_path / name, "-o", page, "--no-measure")
        assert result.returncode == 0, result.stderr
        assert report_of(page)["name"] == "from_xla"


def test_a_loop_and_what_runs_in_it(tmp_path: Path) -> None:
    (tmp_path / "loop.mlir").write_text(LOOP)
    page = tmp_path / "page.html"
    result = tripont("explain", tmp_path / "loop.mlir", "-o", page, environment=ENVIRONMENT)
    assert result.returncode == 0, result.stderr
    report = report_of(page)
    (gemm,) = [o for o in report["operations"] if o["library_call"] == "gemm"]
    events = [e for e in report["timeline"]["events"] if e[0] == gemm["thunk"]]
    assert len(events) == 5
    loop = report["thunks"][gemm["thunk"]]["parent"]
    assert report["thunks"][loop]["kind"] == "while"
    (around,) = [e for e in report["timeline"]["events"] if e[0] == loop]
    assert all(around[1] <= start and start + n <= around[1] + around[2] for _, start, n in events)


def test_several_modules(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "loop.mlir").write_text(LOOP)
    dump = tmp_path / "dump"
    for program in (folder / "program.mlir", tmp_path / "loop.mlir"):
        assert tripont("compile", program, "-o", tmp_path / "a", "--dump", dump).returncode == 0
    page = tmp_path / "page.html"
    names = {}
    for module in ("", "1", "0002", "scale_and_add"):
        choice = ["--module", module] if module else []
        result = tripont("explain", dump, "-o", page, "--no-measure", *choice)
        assert result.returncode == 0, result.stderr
        names[module] = report_of(page)["name"]
    assert names["1"] == names["scale_and_add"] == "scale_and_add"
    assert names["0002"] == names[""] != "scale_and_add"  # the one with most work
    assert "other modules" in result.stdout
    result = tripont("explain", dump, "-o", page, "--module", "7")
    assert result.returncode == 1
    assert "0001 scale_and_add" in result.stderr


def test_estimates_where_it_cannot_run(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    program = folder / "program.mlir"
    result = tripont("explain", program, "-o", page, "--cpu", "neoverse-n1")
    assert result.returncode == 0, result.stderr
    timeline = report_of(page)["timeline"]
    assert timeline["measured"] is False
    assert "aarch64" in timeline["reason"]
    assert "estimates" in result.stdout


def test_sycl(folder: Path, tmp_path: Path) -> None:
    """SPIR-V is shown whether there is a device or not."""
    page = tmp_path / "page.html"
    program = folder / "program.mlir"
    result = tripont("explain", program, "-o", page, "--target", "sycl", "--no-measure")
    assert result.returncode == 0, result.stderr
    report = report_of(page)
    (spirv,) = [s for s in report["stages"] if s["key"] == "spvasm"]
    lines = spirv["text"].split("\n")
    for operation in report["operations"]:
        (first, last), *_ = operation["lines"]["spvasm"]
        assert "OpFunction" in lines[first]
        assert "OpFunctionEnd" in lines[last]
    artifact = tmp_path / "program.tripont"
    tripont("compile", program, "-o", artifact, "--target", "sycl")
    result = tripont("explain", artifact, "-o", page, "--no-measure")
    assert result.returncode == 0, result.stderr
    assert "OpEntryPoint" in {s["key"]: s["text"] for s in report_of(page)["stages"]}["spvasm"]


def test_a_program_that_does_not_end() -> None:
    from tripont.core.compiler.compile import compile_program

    program = LOOP.replace("dense<5>", "dense<-1>").replace("compare LT", "compare GT")
    timeline = measure(compile_program(program.encode(), "mlir", b"", {}), "host", seconds=3)
    assert "did not end" in timeline.reason


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"schema": "tripont.module", "version": SCHEMA_VERSION + 1}, "make the dump again"),
        ({"schema": "something else"}, "not a description"),
        ("{ this is no JSON", "damaged"),
    ],
    ids=["version", "schema", "damaged"],
)
def test_dumps_of_another_kind(tmp_path: Path, content: Any, message: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "module_0001.f.module.json").write_text(text)
    result = tripont("explain", tmp_path, "-o", tmp_path / "page.html")
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_wrong_input(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "garbage").write_bytes(b"not anything")
    (tmp_path / "empty").mkdir()
    (tmp_path / "xla").mkdir()
    (tmp_path / "xla" / "module_0001.f.txt").write_text("HloModule")
    (tmp_path / "truncated").write_bytes((folder / "program.tripont").read_bytes()[:300])
    (tmp_path / "bad.txt").write_text("HloModule f\n\nENTRY main { nonsense }\n")
    cases = {
        "/no/such/file": "cannot read",
        str(tmp_path / "garbage"): "error:",
        str(tmp_path / "empty"): "no dumps",
        str(tmp_path / "xla"): "older tripont",
        str(tmp_path / "truncated"): "truncated",
        str(tmp_path / "bad.txt"): "not HLO text",
    }
    for given, message in cases.items():
        result = tripont("explain", given, "-o", tmp_path / "page.html", "--no-measure")
        assert result.returncode == 1, given
        assert message in result.stderr, (given, result.stderr)
        assert "Traceback" not in result.stderr


def test_a_page_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    page = tmp_path / "file" / "page.html"
    result = tripont("explain", folder / "dump", "-o", page, "--no-measure")
    assert result.returncode == 1
    assert "cannot write" in result.stderr
