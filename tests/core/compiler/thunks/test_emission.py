"""Which functions the target is told of while others are still being written: those that the runtime will call."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tripont.core.compiler import pipeline, stages
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.thunks.emission import CodeEmitter

from tests.core.compiler import programs

LOOPS = ("swap_loop", "rotate_loop", "nested_loop", "branch_in_loop")


def told_and_written(name, monkeypatch):
    """What the target is told of when ``name`` is compiled, and the module."""
    told, modules = [], []

    def launched(self, functions):
        told.extend(functions)

    def emit(lowered, context):
        emitted = emit_original(lowered, context)
        modules.append(emitted.code)
        return emitted

    emit_original = stages.emit
    steps = [
        replace(stage, run=emit) if stage.run is emit_original else stage
        for stage in pipeline.STAGES
    ]
    with monkeypatch.context() as patch:
        patch.setattr(CodeEmitter, "launched", launched)
        patch.setattr(pipeline, "STAGES", tuple(steps))
        compile_program(programs.stablehlo(name), "mlir", b"", {})
    (module,) = modules
    return told, module


@pytest.mark.parametrize("name", sorted(programs.PROGRAMS))
def test_nothing_is_told_that_only_other_functions_call(name, monkeypatch):
    told, module = told_and_written(name, monkeypatch)
    assert set(told) <= module.launched


def test_kernels_of_loops_that_become_functions_are_among_the_programs(monkeypatch):
    """Otherwise the test above would say nothing."""
    written = {}
    for name in LOOPS:
        _, module = told_and_written(name, monkeypatch)
        external = {f.name for f in module.functions.values() if not f.is_internal}
        written[name] = external - module.launched
    assert any(written.values()), written


@pytest.mark.parametrize("name", LOOPS)
def test_kernels_of_loops_that_stay_are_told(name, monkeypatch):
    monkeypatch.setattr(CodeEmitter, "makes_sequences", False)
    told, module = told_and_written(name, monkeypatch)
    assert set(told) == module.launched
