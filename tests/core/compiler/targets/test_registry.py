"""The registry of targets: what the driver and the tools ask of a target, of every one that is registered."""

from __future__ import annotations

import pytest
from tripont.core.compiler import artifact, targets
from tripont.core.compiler.compile import OPTIONS, compile_program
from tripont.core.compiler.errors import CompileError

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
    assert set(targets.REGISTERED[name].options) <= set(OPTIONS)


@pytest.mark.parametrize("name", targets.REGISTERED)
def test_what_decides_is_in_the_fingerprint(name: str) -> None:
    def fingerprint(**options: str) -> str:
        options = {"target": name, "cpu": "x86-64-v3", **options}
        return artifact.deserialize(compile_program(PROGRAM, "mlir", b"", options)).fingerprint

    assert fingerprint() == fingerprint()
    assert len({fingerprint(), fingerprint(cpu="x86-64-v4"), fingerprint(onednn="0")}) == 3


def test_a_target_that_is_not_registered() -> None:
    with pytest.raises(CompileError, match="unknown target 'tpu': there are host and sycl"):
        targets.from_options({"target": "tpu"})
    assert targets.texts_of("tpu", b"") == {}
