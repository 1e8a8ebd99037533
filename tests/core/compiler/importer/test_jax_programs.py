"""Every operation that JAX makes: read, verified, printed, written, and run by XLA with the result that JAX gets."""

from __future__ import annotations

import io
from typing import Any

import jax
import numpy as np
import pytest
from tripont.core.compiler.formats import hlo_proto
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir import printer, verifier

from tests.core.compiler.importer import jax_programs, oracle

try:
    from jax.experimental import enable_x64
except ImportError:  # newer JAX
    enable_x64 = jax.enable_x64

_PROGRAMS = [
    pytest.param(program, family in ("elementwise", "constants"), id=f"{family}-{name}")
    for family, programs in jax_programs.FAMILIES.items()
    for name, program in programs.items()
]


@pytest.mark.parametrize(("program", "wide"), _PROGRAMS)
def test_means_what_jax_means(
    program: tuple[Any, ...], wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, *arguments = program
    with enable_x64(wide):
        lowered = oracle.lower(function, *arguments)
        artifact = oracle.portable_artifact(oracle.program_text(lowered))
        module = read_program(artifact, "mlir")
        verifier.verify(module)
        printer.print_module(module, large_constants=True)
        kept = oracle.kept_arguments(lowered, arguments)
        expected = oracle.execute(artifact, kept)
        results = oracle.run_with_xla(module, kept, monkeypatch)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype
        assert result.shape == wanted.shape
        if wanted.dtype.kind in "fc":
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("name", jax_programs.CUSTOM_CALLS)
def test_reads_custom_calls(name: str) -> None:
    function, *arguments = jax_programs.CUSTOM_CALLS[name]
    lowered = oracle.lower(function, *arguments)
    module = read_program(oracle.portable_artifact(oracle.program_text(lowered)), "mlir")
    verifier.verify(module)
    calls = [i for c in module.computations() for i in c.instructions if i.opcode == "custom-call"]
    assert calls
    for call in calls:
        assert isinstance(call.attributes["backend_config"], (bytes, dict))
    assert calls[0].attributes["custom_call_target"] in oracle.xla_text(
        hlo_proto.write_module(module)
    )


def test_artifacts_of_any_version_are_read_alike() -> None:
    function, *arguments = jax_programs.CONTROL_FLOW["scan_gradient"]
    text = oracle.program_text(oracle.lower(function, *arguments))
    programs = [
        oracle.portable_artifact(text, version) for version in ("1.0.0", "1.13.7", "1.17.0")
    ]
    first, *others = (printer.print_module(read_program(p, "mlir")) for p in programs)
    assert "while" in first
    assert all(other == first for other in others)


def test_reads_bytecode() -> None:
    lowered = oracle.lower(lambda x: x * 2, jax_programs.X)
    stream = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(file=stream)
    module = read_program(stream.getvalue(), "mlir")
    assert [i.opcode for i in module.entry.instructions] == [
        "parameter",
        "constant",
        "broadcast",
        "multiply",
    ]
