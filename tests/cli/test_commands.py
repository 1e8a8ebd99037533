"""The command line: a program goes through compile, inspect and run; errors say what is wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.starter import starter_of
from tests.sycl_packages import needs_sycl

PROGRAM = """
module @scale_and_add {
  func.func @main(%x: tensor<3x4xf32>, %y: tensor<4xf32>, %n: tensor<5xi32>) -> (tensor<3x4xf32>, tensor<5xi32>) {
    %0 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
    %1 = stablehlo.multiply %x, %0 : tensor<3x4xf32>
    %2 = stablehlo.add %n, %n : tensor<5xi32>
    return %1, %2 : tensor<3x4xf32>, tensor<5xi32>
  }
}
"""


# What the commands import of others, which is most of their time: typer looks for pydantic's types.
_IMPORTS = ["typer.main", "rich.table", "numpy.random", "ml_dtypes"]
if importlib.util.find_spec("pydantic"):
    _IMPORTS.append("pydantic.types")


def tripont(
    *arguments: str | Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, which has imported what is not tripont's."""
    program = "from tripont.cli.main import main; main()"
    variables = os.environ | (environment or {})
    return starter_of(*_IMPORTS).run(program, variables, *map(str, arguments), timeout=180)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact, from a command as a user starts it."""
    folder = tmp_path_factory.mktemp("artifact")
    program, made = folder / "program.mlir", folder / "program.tripont"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "tripont", "compile", str(program), "-o", str(made)]
    command += ["--dump", str(folder / "dump")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert result.returncode == 0, result.stderr
    return folder / "program.tripont"


def test_compile_dumps_every_stage(artifact: Path) -> None:
    names = {path.name.split(".", 2)[2] for path in (artifact.parent / "dump").iterdir()}
    assert {
        "before_optimizations.txt",
        "after_optimizations.txt",
        "ir-no-opt.ll",
        "ir-with-opt.ll",
        "s",
    } <= names
    assert {"thunk_sequence.txt", "buffer_assignment.txt"} <= names


def test_inspect(artifact: Path) -> None:
    result = tripont("inspect", artifact, "--memory", "--hlo")
    assert result.returncode == 0, result.stderr
    for text in (
        "scale_and_add",
        "0: f32[3,4], 1: f32[4], 2: s32[5]",
        "kernel",
        "parameter 2",
        "ENTRY",
    ):
        assert text in result.stdout


def test_inspect_says_which_sizes_are_bounds(tmp_path: Path) -> None:
    program = tmp_path / "program.mlir"
    program.write_text("""
    func.func @main(%x: tensor<5x3xf32>, %n: tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<5, ?>> {
      %y = stablehlo.set_dimension_size %x, %n, dim = 0
          : (tensor<5x3xf32>, tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<5, ?>>
      return %y : tensor<?x3xf32, #stablehlo.bounds<5, ?>>
    }""")
    made = tmp_path / "program.tripont"
    assert tripont("compile", program, "-o", made).returncode == 0
    shown = tripont("inspect", made).stdout
    assert "0: f32[<=5,3]" in shown
    assert "1: s32[]" not in shown.split("results")[1]


def test_run_with_inputs(artifact: Path, tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.array([1, 2, 3, 4], np.float32)
    n = np.arange(5, dtype=np.int32)
    for name, array in (("x", x), ("y", y), ("n", n)):
        np.save(tmp_path / f"{name}.npy", array)
    files = [tmp_path / f"{name}.npy" for name in "xyn"]
    result = tripont("run", artifact, *files, "-o", tmp_path / "results", "--repeat", "3")
    assert result.returncode == 0, result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "results" / "result_0.npy"), x * y)
    np.testing.assert_array_equal(np.load(tmp_path / "results" / "result_1.npy"), n + n)
    assert "median" in result.stdout


def test_run_with_random_inputs_is_repeatable(artifact: Path, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        result = tripont("run", artifact, "-o", tmp_path / folder, "--seed", "3", "--repeat", "1")
        assert result.returncode == 0, result.stderr
    a, b = (np.load(tmp_path / folder / "result_0.npy") for folder in "ab")
    np.testing.assert_array_equal(a, b)


def test_run_needs_no_compiler(artifact: Path) -> None:
    """Neither jaxlib nor llvmlite is imported, and the worker cannot start."""
    code = (
        "import sys\n"
        "for name in ('jax', 'jaxlib', 'llvmlite'): sys.modules[name] = None\n"
        "from tripont.cli.main import main\n"
        f"sys.argv = ['tripont', 'run', {str(artifact)!r}]\n"
        "main()"
    )
    environment = os.environ | {"TRIPONT_PYTHON": "/no/such/python"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert "median" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "{artifact}", "{artifact}"], "takes 3 arguments"),
        (["run", "/no/such/file"], "cannot read /no/such/file"),
        (["inspect", "{garbage}"], "not a tripont artifact"),
        (["run", "{garbage}"], "not a tripont artifact"),
        (["inspect", "{truncated}"], "truncated"),
        (["run", "{truncated}"], "truncated"),
        (["compile", "{artifact}", "-o", "x"], "already an executable artifact"),
        (["compile", "{garbage}", "-o", "x"], "error:"),
        (["compile", "{program}", "-o", "x", "--target", "abacus"], "abacus"),
        (["compile", "{program}", "-o", "x", "--cpu", "z80"], "known: host, x86-64-v2"),
        (["compile", "{program}", "-o", "x", "--format", "fortran"], "give mlir or hlo"),
        (["compile", "{program}", "-o", "{garbage}/x"], "cannot write"),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, list) else "",
)
def test_errors(artifact: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "garbage").write_bytes(b"not anything")
    (tmp_path / "truncated").write_bytes(artifact.read_bytes()[:300])
    names = {
        "artifact": artifact,
        "garbage": tmp_path / "garbage",
        "truncated": tmp_path / "truncated",
        "program": artifact.parent / "program.mlir",
    }
    result = tripont(*[argument.format(**names) for argument in arguments])
    assert result.returncode == 1, (result.stdout, result.stderr)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("options", "needs", "reason"),
    [
        (["--cpu", "x86-64-v2"], "compiled for x86-64-v2", ""),
        (["--cpu", "x86-64-v3"], "avx2", ""),
        (["--cpu", "skylake-avx512"], "avx512f", None),
        (["--cpu", "znver4"], "avx512bf16", None),
        (["--cpu", "neoverse-n1"], "aarch64-unknown-linux-gnu", "this machine is x86_64"),
        (["--target", "sycl"], "compiled for cpu", "TRIPONT_DEVICE=sycl"),
        (["--target", "sycl", "--device", "gpu,fp64"], "fp64", "TRIPONT_DEVICE=sycl"),
        (["--target", "sycl", "--sycl-device", "gpu,fp64"], "fp64", "TRIPONT_DEVICE=sycl"),
        (["--target", "host", "--device", "x86-64-v2"], "compiled for x86-64-v2", ""),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_compile_for_another_machine(
    artifact: Path, tmp_path: Path, options: list[str], needs: str, reason: str | None
) -> None:
    """What runs here runs, and what does not is refused with the reason (None: depends on this CPU)."""
    made = tmp_path / "made.tripont"
    result = tripont("compile", artifact.parent / "program.mlir", "-o", made, *options)
    assert result.returncode == 0, result.stderr
    assert needs in tripont("inspect", made).stdout
    result = tripont("run", made, "--repeat", "1", environment={"TRIPONT_DEVICE": "host"})
    if reason is None:
        assert result.returncode == 0 or "with features that this CPU" in result.stderr
    elif reason:
        assert result.returncode == 1
        assert reason in result.stderr
    else:
        assert result.returncode == 0, result.stderr


def test_run_names_the_feature_that_is_missing(artifact: Path, tmp_path: Path) -> None:
    """An artifact that needs what no CPU has."""
    from tripont.core.compiler.formats import artifact as format_

    executable = format_.deserialize(artifact.read_bytes())
    executable.cpu_features = (*executable.cpu_features, "telepathy")
    (tmp_path / "made.tripont").write_bytes(format_.serialize(executable))
    result = tripont("run", tmp_path / "made.tripont")
    assert result.returncode == 1
    assert "lacks: telepathy" in result.stderr


def test_a_dump_folder_that_cannot_be_written(artifact: Path, tmp_path: Path) -> None:
    """A warning, and the program is compiled as without one (with dumps, what is assembled from the text of the dump
    may have other no-ops behind a function).
    """
    (tmp_path / "file").write_text("")
    made, plain = tmp_path / "made.tripont", tmp_path / "plain.tripont"
    program = artifact.parent / "program.mlir"
    assert tripont("compile", program, "-o", plain).returncode == 0
    result = tripont("compile", program, "-o", made, "--dump", tmp_path / "file" / "dump")
    assert result.returncode == 0, result.stderr
    assert "cannot write dumps" in result.stderr
    assert "the stages are in" not in result.stdout
    assert made.read_bytes() == plain.read_bytes()


def test_wrong_shape_of_an_input(artifact: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros((3, 3), np.float32))
    result = tripont("run", artifact, *[tmp_path / "wrong.npy"] * 3)
    assert result.returncode == 1
    assert "parameter 0 is f32[3,4]" in result.stderr


@needs_sycl
def test_devices() -> None:
    result = tripont("devices", environment={"TRIPONT_NUM_DEVICES": "3"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("host (") == 3
    for column in ("backend", "driver", "fp64", "sub-groups", "USM"):  # of the SYCL devices
        assert column in result.stdout
    assert "opencl" in result.stdout
    assert "sycl:cpu" in result.stdout  # the value of TRIPONT_DEVICE that means it


def test_devices_without_a_sycl_runtime() -> None:
    result = tripont("devices", environment={"TRIPONT_DPCTL_PATH": "/nowhere"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("host (") == 1
    assert "no SYCL runtime is installed" in result.stdout


@needs_sycl
def test_doctor_says_which_sycl_devices_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    from tripont.cli import doctor
    from tripont.cli.finding import Finding

    def finding() -> Finding:
        (found,) = (f for f in doctor.check_backends() if f.name == "SYCL")
        return found

    assert finding().status == "ok"
    assert "(opencl:cpu)" in finding().detail
    monkeypatch.setenv("TRIPONT_DPCTL_PATH", "/nowhere")
    assert finding().status == "warning"
    assert "pip install 'tripont[sycl]'" in finding().fix


@pytest.mark.slow
def test_doctor_finds_nothing_wrong() -> None:
    """The whole command, with every framework; it computes in every element type."""
    result = tripont("doctor", "--json")
    findings = json.loads(result.stdout)
    assert result.returncode == 0, findings
    named = {f["name"]: f for f in findings}
    assert named.keys() >= {
        "plugin",
        "oneDNN",
        "oneTBB",
        "LLVM",
        "JAX",
        "PyTorch/XLA",
        "TensorFlow",
        "SYCL",
        "environment",
        "cache",
    }
    assert all(f["status"] != "error" for f in findings)
    assert "exact in 30 element types" in named["results"]["detail"]


def test_doctor_says_which_kernels_the_cpu_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside what the machine reaches; as another CPU."""
    from tripont.cli import doctor

    x86 = platform.machine() == "x86_64"
    if x86:
        monkeypatch.setenv("TRIPONT_CPU", "x86-64-v2")
    named = {f.name: f for f in doctor.check_arithmetic()}
    assert named["results"].status == "ok"
    assert "exact in 30 element types" in named["results"].detail
    assert "GFLOP/s (f32 peak" in named["speed"].detail
    assert "f32 products by" in named["kernels"].detail
    if x86:
        assert "as x86-64-v2" in named["results"].detail
        assert "vectors of 16 bytes; f32 products by oneDNN; bf16 products by generated code" in (
            named["kernels"].detail
        )


def test_doctor_leaves_out_64_bit_floats_where_the_device_has_none() -> None:
    """SYCL devices refuse the types by name, as this client does; another refusal is told as it is."""
    from tripont.core import _tripont

    from tripont.cli import arithmetic

    class Narrow:
        def __init__(self, lacks: bytes) -> None:
            self.client = _tripont.Client({"cache": False})
            self.devices = self.client.devices
            self.lacks = lacks

        def compile(self, program: bytes) -> tuple[bytes, bool]:
            if self.lacks in program:
                error = _tripont.StatusError("it computes with 64-bit floats")
                error.code = "UNIMPLEMENTED"
                raise error
            return self.client.compile(program)

        def load(self, artifact: bytes) -> _tripont.Executable:
            return self.client.load(artifact)

    types, wrong = arithmetic.types_of(Narrow(b"f64"))
    assert len(types) == 28
    assert not {"f64", "complex<f64>"} & set(types)
    assert wrong == []
    with pytest.raises(_tripont.StatusError, match="64-bit"):
        arithmetic.types_of(Narrow(b"f32"))


def test_doctor_tries_each_operation_in_each_element_type() -> None:
    """All results of a device that gives zeros are wrong. Only sums of powers of two, which round, are not tried."""
    from tripont.core import _tripont
    from tripont.core.compiler.ir import dtypes
    from tripont.core.schema.element_types import ELEMENT_TYPES

    from tripont.cli import arithmetic

    class Zeros:
        def __init__(self) -> None:
            self.client = _tripont.Client({"cache": False})
            self.devices = self.client.devices
            self.compile = self.client.compile

        def load(self, artifact: bytes) -> Zeros:
            self.loaded = self.client.load(artifact)
            return self

        def run(self, device: Any, arguments: list[Any]) -> list[Any]:
            return [np.zeros_like(np.asarray(r)) for r in self.loaded.run(device, arguments)]

    types, wrong = arithmetic.types_of(Zeros())
    names = {t.name for t in ELEMENT_TYPES if t.kind != "token"}
    assert {dtypes.from_numpy(arithmetic.TYPES[t][0]).name for t in types} == names
    operations = ("product", "convolution", "sum", "sort")
    assert {*wrong} == {f"{o} of {t}" for o in operations for t in types} - {"sum of f8E8M0FNU"}


def test_doctor_says_how_to_mend_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tripont.cli import doctor

    monkeypatch.setenv("TRIPONT_NUM_DEVICES", "many")
    monkeypatch.setattr(doctor, "CHECKS", [doctor.check_jax])
    assert doctor.run(json_output=False) == 1
    said = capsys.readouterr().out
    assert "TRIPONT_NUM_DEVICES" in said
    assert "->" in said
    assert "xpu does not work" in said


def test_doctor_warns_about_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning is shown with its cure, and is not a failure."""
    from tripont.cli import doctor

    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert doctor.check_environment in doctor.CHECKS
    monkeypatch.setattr(doctor, "CHECKS", [doctor.check_environment])
    monkeypatch.setattr(doctor, "check_arithmetic", list)
    assert doctor.run(json_output=False) == 0
    said = capsys.readouterr().out
    assert "JAX_PLATFORMS=cpu leaves xpu out" in said
    assert "unset JAX_PLATFORMS" in said
    assert "xpu works" in said
    assert doctor.run(json_output=True) == 0
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["status"] == "warning"


def test_doctor_names_a_cache_that_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tripont.cli import doctor

    monkeypatch.setenv("TRIPONT_CACHE_DIR", str(tmp_path))
    assert doctor.check_cache().status == "ok"
    tmp_path.chmod(0o777)
    finding = doctor.check_cache()
    assert finding.status == "warning"
    assert "others may write to it (mode 0777)" in finding.detail
    assert "chmod go-w" in finding.fix
    monkeypatch.setenv("TRIPONT_CACHE_SHARED", "1")
    assert doctor.check_cache().status == "ok"


def test_version() -> None:
    from tripont import __version__

    assert tripont("--version").stdout.strip() == f"tripont {__version__}"
