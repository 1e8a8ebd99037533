"""The driver: artifacts, options, errors, dumps, debug information and bounded time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.compile import compile_module, compile_program
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.cost import of_module
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Instruction

from tests.core.compiler import programs
from tests.core.compiler.builders import module, number, op, parameter


def compiled(name: str, **options: str) -> artifact.Executable:
    return artifact.deserialize(compile_program(programs.stablehlo(name), "mlir", b"", options))


def test_signature_and_debug_information() -> None:
    executable = compiled("mlp_gradient")
    assert [str(v.shape) for v in executable.parameters][:2] == ["f32[12,16]", "f32[16]"]
    assert [str(v.shape) for v in executable.results][-1] == "f32[5]"
    kernels = [t for t in executable.thunks if isinstance(t, artifact.Kernel)]
    assert kernels
    assert all(0 <= t.debug < len(executable.debug) for t in kernels)
    assert any(d.source_line for d in executable.debug)
    assert executable.costs.flops > 0
    assert executable.costs.optimal_nanoseconds > 0
    assert executable.target == "host"
    assert executable.code
    assert executable.program


def test_same_program_same_artifact() -> None:
    program = programs.stablehlo("attention")
    assert compile_program(program, "mlir", b"", {}) == compile_program(program, "mlir", b"", {})


COMPILE = """
import pathlib, sys
from tripont.core.compiler.compile import compile_program
pathlib.Path(sys.argv[2]).write_bytes(compile_program(pathlib.Path(sys.argv[1]).read_bytes(), "mlir", b"", {}))
"""


def test_imports_that_wait_until_they_are_used(tmp_path: Path) -> None:
    """Python 3.15 puts all imports of modules off where it is told to; older ones do not know the variable."""
    program = Path(__file__).parents[2] / "data" / "programs" / "jax_qr.mlir"
    subprocess.run(
        [sys.executable, "-c", COMPILE, str(program), str(tmp_path / "artifact")],
        env=os.environ | {"PYTHON_LAZY_IMPORTS": "all"},
        check=True,
        timeout=300,
    )
    expected = compile_program(program.read_bytes(), "mlir", b"", {})
    assert (tmp_path / "artifact").read_bytes() == expected


def test_fingerprint_depends_on_program_and_options() -> None:
    program = programs.stablehlo("elementwise")
    prints = {
        artifact.deserialize(compile_program(p, "mlir", options, {})).fingerprint
        for p, options in ((program, b""), (program + b"\n", b""), (program, b"\x18\x01"))
    }
    assert len(prints) == 3


def test_other_cpu() -> None:
    executable = compiled("softmax", cpu="x86-64-v2")
    assert "avx" not in executable.cpu_features


def test_donated_parameters_are_listed() -> None:
    program = programs.stablehlo("elementwise", donate=(0,))
    assert artifact.deserialize(compile_program(program, "mlir", b"", {})).donatable_parameters == (
        0,
    )


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, 0),
        ({"num_threads": "3"}, 3),
        ({"xla_cpu_multi_thread_eigen": "false"}, 1),
        ({"xla_cpu_multi_thread_eigen": "true"}, 0),
        ({"xla_cpu_multi_thread_eigen": "False", "num_threads": "2"}, 2),
    ],
)
def test_limit_of_threads(options: dict[str, str], limit: int) -> None:
    assert compiled("elementwise", **options).num_threads == limit


@pytest.mark.parametrize(
    "options",
    [
        {"target": "moon"},
        {"cpu": "z80"},
        {"num_threads": "-1"},
        {"num_threads": "two"},
        {"num_threads": "9" * 5000},
        {"num_threads": ""},
        {"num_threads": "99999999999999999999"},
    ],
)
def test_unknown_option_values(options: dict[str, str]) -> None:
    with pytest.raises(CompileError) as error:
        compile_program(programs.stablehlo("elementwise"), "mlir", b"", options)
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("program", [b"", b"garbage", b"ML\xefR" + bytes(20), b"module {"])
@pytest.mark.parametrize("format", ["mlir", "hlo", "tar"])
def test_garbage(program: bytes, format: str) -> None:
    if format == "hlo" and not program:
        pytest.skip("no bytes are an empty HloModuleProto")
    with pytest.raises(CompileError):
        compile_program(program, format, b"", {})


def test_an_attribute_that_cannot_be_passed_names_the_call() -> None:
    x = parameter(0, 4)
    attributes = {
        "custom_call_target": "somebody_elses_call",
        "backend_config": {"rate": [1, 2]},
        "api_version": 4,
        "has_side_effect": False,
        "output_operand_aliases": (),
    }
    call = Instruction("custom-call", x.shape, [x], attributes, name="foreign")
    with pytest.raises(CompileError) as error:
        compile_module(module([x], op("negate", call)))
    assert error.value.code == "INVALID_ARGUMENT"
    assert "custom-call" in str(error.value)
    assert "'rate' of the custom call 'somebody_elses_call' is a list" in str(error.value)
    assert "f32[4]" in str(error.value)


def test_costs() -> None:
    a, b = parameter(0, 8, 16), parameter(1, 16, 4)
    numbers = hlo.DotDimensionNumbers((1,), (0,))
    dot = op("dot", a, b, dims=(8, 4), dimension_numbers=numbers, precision=("DEFAULT",) * 2)
    costs = of_module(module([a, b], op("tanh", dot)))
    assert costs.flops == 2 * 8 * 16 * 4
    assert costs.transcendentals == 32
    assert costs.bytes_accessed == 4 * (8 * 16 + 16 * 4 + 32 + 32 + 32)


def test_long_straight_line_program() -> None:
    """20,000 instructions: every pass is (nearly) linear and none recurses."""
    x, y = parameter(0, 64), parameter(1, 64)
    top = x
    for n in range(20_000):
        top = op(("add", "multiply", "subtract", "maximum")[n % 4], top, y if n % 3 else x)
    begin = time.process_time()
    executable = compile_module(module([x, y], top))
    assert time.process_time() - begin < 8
    assert len(executable.thunks) < 400


def test_deep_nesting() -> None:
    """Branches in branches beyond the recursion limit that Python has outside of the compiler.

    That is lowered: LLVM takes a second for 250 branches, and twenty for the 350 that Python's own would need.
    """
    program = programs.nested_branches(250).encode()
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(700)
    try:
        assert artifact.deserialize(compile_program(program, "mlir", b"", {})).thunks
    finally:
        sys.setrecursionlimit(before)


def test_wide_program() -> None:
    """Thousands of results and parameters."""
    parameters = [parameter(n, 3) for n in range(3000)]
    results = [op("add", p, number(n, 3)) for n, p in enumerate(parameters)]
    begin = time.process_time()
    executable = compile_module(module(parameters, *results))
    assert time.process_time() - begin < 20
    assert len(executable.results) == 3000


def test_pipeline_names_are_unique() -> None:
    names = [step.__name__ for step in pipeline.PASSES]
    assert all(not n.startswith("<") for n in names)


def test_several_partitions() -> None:
    x = parameter(0, 4)
    executable = compile_module(module([x], op("negate", x), num_partitions=2))
    assert (executable.num_replicas, executable.num_partitions) == (1, 2)
