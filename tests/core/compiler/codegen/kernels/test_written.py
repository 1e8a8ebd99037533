"""A kernel is written once by a process: programs that have it again take its text, and their code is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tripont.core.compiler import compile
from tripont.core.compiler.codegen import effort
from tripont.core.compiler.codegen.kernels import written
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import F32
from tripont.core.compiler.targets import code_cache, host

from tests.core.compiler.codegen import harness
from tests.core.compiler.codegen.harness import fusion, op

PROGRAMS = Path(__file__).parents[4] / "data" / "programs"


def program(name: str, *lines: str) -> bytes:
    """A StableHLO program of values of 300 floats: each line makes the next of %0 and the parameter %a."""
    text = [f"module @{name} {{ func.func public @main(%a: tensor<300xf32>) -> tensor<300xf32> {{"]
    text += [f"%{n} = stablehlo.{line} : tensor<300xf32>" for n, line in enumerate(lines)]
    text.append(f"return %{len(lines) - 1} : tensor<300xf32> }} }}")
    return "\n".join(text).encode()


def artifact(data: bytes, cpu: str = "x86-64-v3") -> bytes:
    """What ``data`` compiles to, with nothing in the cache of whole parts."""
    code_cache.clear()
    return compile.compile_program(data, "mlir", b"", {"target": "host", "cpu": cpu})


FIRST = program("first", "sine %a", "reverse %0, dims = [0]", "exponential %1")


def test_what_programs_share_is_written_once():
    artifact(FIRST)
    before = written.count()
    artifact(FIRST.replace(b"@first", b"@second"))
    assert written.count() == before
    artifact(FIRST, "x86-64-v4")
    assert written.count() > before


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(
    "name", ["jax_training_step", "jax_random_normal", "jax_qr", "jax_scan", "jax_top_k"]
)
def test_artifacts_are_the_same_whatever_was_compiled_before(name, cpu):
    data = (PROGRAMS / f"{name}.mlir").read_bytes()
    first = artifact(data, cpu)
    before = written.count()
    assert artifact(data, cpu) == first
    assert written.count() == before


def many(name: str, steps: int, first: int = 0) -> bytes:
    """A program of ``steps`` products with something around each, a kernel or two a step, all different."""
    kind = "tensor<24x24xf32>"
    text = [f"module @{name} {{ func.func public @main(%a: {kind}) -> {kind} {{"]
    value = "%a"
    for n in range(first, first + steps):
        text.append(f"%c{n} = stablehlo.constant dense<{n + 0.5}> : {kind}")
        text.append(f"%m{n} = stablehlo.multiply {value}, %c{n} : {kind}")
        text.append(
            f"%d{n} = stablehlo.dot_general %m{n}, %a, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}"
        )
        text.append(f"%s{n} = stablehlo.sine %d{n} : {kind}")
        value = f"%s{n}"
    return "\n".join([*text, f"return {value} : {kind} }} }}"]).encode()


def test_artifacts_of_programs_that_grow_are_the_same_warm_and_cold():
    """As a loop of PyTorch/XLA's makes them; code comes from parts that earlier programs had."""
    warm = [
        compile.compile_program(many("grows", steps, first), "mlir", b"", {})
        for steps, first in ((12, 0), (16, 0), (20, 3), (40, 0))
    ]
    for artifact_, (steps, first) in zip(warm, ((12, 0), (16, 0), (20, 3), (40, 0)), strict=True):
        written.clear()
        assert artifact(many("grows", steps, first), "host") == artifact_
    hits = code_cache.hits()
    compile.compile_program(many("grows", 41), "mlir", b"", {})
    assert code_cache.hits() > hits


def test_helpers_come_with_a_kernel():
    """The second program takes a kernel whose functions and tables it has not."""
    both = program("both", "tan %a", "reverse %0, dims = [0]", "cosine %1")
    one = program("one", "cosine %a")
    alone = artifact(one)
    written.clear()
    artifact(both)
    assert artifact(one) == alone


def test_effort_that_ends_in_the_middle_counts(monkeypatch):
    """What was written at full effort is not taken where effort would end in its middle."""
    data = program("effort", "tan %a")
    full = artifact(data)
    monkeypatch.setattr(effort, "CAREFUL", 100)
    written.clear()
    short = artifact(data)
    assert short == artifact(data) != full
    written.clear()
    monkeypatch.undo()
    assert artifact(data) == full
    monkeypatch.setattr(effort, "CAREFUL", 100)
    assert artifact(data) == short


def test_no_more_than_the_limit_is_kept(monkeypatch):
    monkeypatch.setattr(written, "LIMIT", 0)
    artifact(FIRST)
    before = written.count()
    artifact(FIRST)
    assert written.count() > before
    assert not written._kept
    assert written._size == 0


def sums_from(*starts: hlo.Instruction) -> hlo.Instruction:
    """A fusion of two sums of 1000 numbers in one reduction, which begin with values of outside."""
    scalar = hlo.Shape(F32)
    a, b, c, d = (hlo.parameter(n, scalar) for n in range(4))
    pair = hlo.TupleShape((scalar, scalar))
    root = op("tuple", pair, op("add", scalar, a, c), op("add", scalar, b, d))
    body = hlo.Computation.from_root("sums", [a, b, c, d], root)
    x = hlo.parameter(0, hlo.Shape(F32, (1000,)))
    inside = [x, hlo.parameter(1, scalar), hlo.parameter(2, scalar)]
    reduce = op("reduce", pair, x, x, *inside[1:], called=[body], dimensions=(0,))
    parts = [op("get-tuple-element", scalar, reduce, index=n) for n in range(2)]
    return fusion("reduce", inside, *parts).replace(operands=[x, *starts])


@pytest.mark.parametrize("computed_first", [False, True])
def test_a_kernel_does_not_go_by_what_is_outside_of_its_fusion(monkeypatch, computed_first):
    """Every lane may begin with a constant zero, but not with a computed number. The two fusions are equal: the one
    that is compiled first is the other's kernel too.
    """
    monkeypatch.setattr(harness, "emit_kernel", written.kernel)
    constant = sums_from(hlo.constant(0.0, F32), hlo.constant(0.0, F32))
    computed = sums_from(*(hlo.parameter(n, hlo.Shape(F32)) for n in (1, 2)))
    starts = {constant: (0.0, 0.0), computed: (5.0, 7.0)}
    x = np.arange(1000, dtype=np.float32) % 8  # sums that are exact
    written.clear()
    before = written.count()
    for instruction in [computed, constant] if computed_first else [constant, computed]:
        first, second = starts[instruction]
        kernel = harness.Kernel(instruction, host.for_cpu())
        got = kernel.run([x, np.float32(first), np.float32(second)])
        assert [float(v) for v in got] == [x.sum() + first, x.sum() + second]
    assert written.count() == before + 1
