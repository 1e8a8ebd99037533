"""Options by name: XLA's names and types are known, others are the user's mistakes."""

from __future__ import annotations

import pytest
from jaxlib import _jax
from tripont.core.compiler.compile import OPTIONS, compile_program
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.xla.option_overrides import Value, check


def proto(*overrides: tuple[str, Value]) -> bytes:
    options = _jax.CompileOptions()
    options.env_option_overrides = list(overrides)
    return options.SerializeAsString()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("xla_embed_ir_in_executable", True),
        ("xla_embed_ir_in_executable", "false"),  # as the runtime hands it on
        ("xla_backend_optimization_level", "2"),
        ("xla_cpu_parallel_codegen_split_count", 4),
        ("xla_dump_hlo_pass_re", ".*"),
        ("cpu", "x86-64-v2"),
    ],
)
def test_what_is_taken(name: str, value: Value) -> None:
    check(proto((name, value)), OPTIONS)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("xla_backend_optimisation_level", "2", "No such compile option: '.*isation_level'"),
        ("xla_embed_ir_in_executable", "maybe", "'maybe' is not a valid bool value"),
        ("xla_backend_optimization_level", "two", "'two' is not a valid int32 value"),
    ],
)
def test_what_is_refused(name: str, value: Value, message: str) -> None:
    good = ("xla_embed_ir_in_executable", "true")
    with pytest.raises(CompileError, match=message) as caught:
        compile_program(b"module {}", "mlir", proto(good, (name, value)), {})
    assert caught.value.code == "INVALID_ARGUMENT"
