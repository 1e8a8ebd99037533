"""The registry of targets: what the driver and the tools ask of a target, of every one that is registered."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tripont.core.compiler import stages, targets
from tripont.core.compiler.compile import OPTIONS, compile_program
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.ir.errors import CompileError

PROGRAM = b"""func.func @main(%x: tensor<300xf32>) -> tensor<300xf32> {
  %0 = stablehlo.add %x, %x : tensor<300xf32>
  return %0 : tensor<300xf32>
}"""


@pytest.mark.parametrize("name", targets.REGISTERED)
def test_a_registered_target_compiles(name: str) -> None:
    target = targets.from_options({"target": name})
    assert target.name == name
    executable = artifact.deserialize(compile_program(PROGRAM, "mlir", b"", {"target": name}))
    assert executable.target == name
    texts = targets.texts_of(name, executable.code)
    assert all(text for text in texts.values())
    assert targets.REGISTERED[name].device_option in OPTIONS


@pytest.mark.parametrize("name", targets.REGISTERED)
def test_what_decides_is_in_the_fingerprint(name: str) -> None:
    def fingerprint(**options: str) -> str:
        options = {"target": name, "cpu": "x86-64-v3", **options}
        return artifact.deserialize(compile_program(PROGRAM, "mlir", b"", options)).fingerprint

    assert fingerprint() == fingerprint()
    assert len({fingerprint(), fingerprint(cpu="x86-64-v4"), fingerprint(onednn="0")}) == 3
    chosen = [
        {"num_threads": "1"},
        {"overlap_collectives": "false"},
        {"xla_allow_excess_precision": "false"},
    ]
    assert len({fingerprint(), *(fingerprint(**options) for options in chosen)}) == 4


@pytest.mark.parametrize("name", targets.REGISTERED)
def test_targets_with_other_costs_differ(name: str) -> None:
    """Also one that another package makes of a target of ours, whose fingerprint it keeps."""
    target = targets.from_options({"target": name})
    kernels = dataclasses.replace(target.costs.kernels, cheap=target.costs.kernels.cheap * 2)
    other = dataclasses.replace(target, costs=dataclasses.replace(target.costs, kernels=kernels))
    assert other.fingerprint == target.fingerprint
    assert dataclasses.replace(target).identity == target.identity
    assert " at 0x" not in repr(target.costs)  # which would differ from process to process
    contexts = [stages.Context(t) for t in (target, other)]
    assert len({stages.fingerprint(PROGRAM, "mlir", b"", context) for context in contexts}) == 2


@pytest.mark.parametrize(
    ("options", "bound"),
    [({"target": "host"}, 1), ({"target": "sycl"}, 1), ({"target": "sycl", "device": "gpu"}, 3)],
)
def test_the_accuracy_that_a_program_asks_for_is_the_targets(
    options: dict[str, str], bound: int
) -> None:
    def text(ulps: int) -> bytes:
        accuracy = f"atol = 0.0, rtol = 0.0, ulps = {ulps}, mode = #stablehlo.result_accuracy_mode<TOLERANCE>"
        return f"""func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
          %0 = "stablehlo.sqrt"(%x) {{result_accuracy = #stablehlo.result_accuracy<{accuracy}>}}
            : (tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }}""".encode()

    assert compile_program(text(bound), "mlir", b"", options)
    with pytest.raises(CompileError, match=f"sqrt of f32 is within {bound} ulps"):
        compile_program(text(bound - 1), "mlir", b"", options)


def test_an_option_by_its_older_name() -> None:
    older, newer = (
        targets.from_options({"target": "sycl", n: "gpu,fp64"}) for n in ("sycl_device", "device")
    )
    assert older is newer
    assert older.cpu == "gpu"


def test_a_target_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin of the host, which an installed package registers by an entry point; one that is broken says so."""
    folder = tmp_path / "abacus-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(
        "[tripont.targets]\nabacus = abacus_target:REGISTRATION\nslide-rule = abacus_target:nothing\n"
    )
    (tmp_path / "abacus_target.py").write_text(
        "import dataclasses\n"
        "from tripont.core.compiler.targets import Registration\n"
        "from tripont.core.compiler.targets.host import for_cpu, texts_of\n"
        "REGISTRATION = Registration('abacus', 'beads', module=__name__)\n"
        "def from_options(options):\n"
        "    return dataclasses.replace(for_cpu(), name='abacus', fingerprint=options.get('device', ''))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    targets.find.cache_clear()
    try:
        options = {"target": "abacus", "device": "7 beads"}
        assert targets.from_options(options).fingerprint == "7 beads"
        executable = artifact.deserialize(compile_program(PROGRAM, "mlir", b"", options))
        assert executable.target == "abacus"
        assert targets.texts_of("abacus", executable.code) == {}
        with pytest.raises(CompileError, match=r"slide-rule.* cannot be loaded"):
            targets.from_options({"target": "slide-rule"})
    finally:
        targets.find.cache_clear()


def test_a_target_that_is_not_registered() -> None:
    with pytest.raises(CompileError, match="unknown target 'tpu': there are host and sycl"):
        targets.from_options({"target": "tpu"})
    assert targets.texts_of("tpu", b"") == {}
