"""Whole programs through the compiler, their kernels as native code, run thunk by thunk in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen import sequence
from tripont.core.compiler.codegen.kernels import emit as kernels
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler import programs
from tests.core.compiler.builders import arguments
from tests.core.compiler.codegen.native import NativeImage, needs
from tests.core.compiler.fusion.test_fusion import programs as random_programs
from tests.core.compiler.simulate import Simulation
from tests.core.compiler.test_simulation import GENERATED, close


class NativeSimulation(Simulation):
    """A simulation whose kernels are compiled code, each run in ``pieces``, uneven ones, of its work."""

    pieces = 3

    def __init__(self, module: Module, cpu: str = "host") -> None:
        self.target = for_cpu(cpu)
        self.code = self.target.module()
        super().__init__(module)
        self.image = NativeImage(self.target.compile(self.code)) if self.lowered.symbols else None

    makes_sequences = True

    def run(self, *arguments, **options):
        needs(self.target)
        return super().run(*arguments, **options)

    def kernel(self, instruction: Instruction, name: str) -> kernels.EmittedKernel:
        emitted = kernels.emit_kernel(self.code, self.target, instruction, name)
        self.instructions[emitted.function] = instruction
        return emitted

    def sequence(self, thunks, symbols, name, placed):
        return sequence.emit_sequence(self.code, self.target, thunks, symbols, name, placed=placed)

    def _run_kernel(self, thunk, instruction) -> None:
        arrays = [self._bytes(s) for s in thunk.arguments]
        step = max(1, thunk.work_count // self.pieces)
        for begin in range(0, thunk.work_count, step):
            end = min(begin + step, thunk.work_count)
            self.image.run_kernel(self.lowered.symbols[thunk.function], arrays, begin, end)


# A convolution is always a library call.
@pytest.mark.parametrize("name", [n for n in programs.PROGRAMS if n != "convolution"])
@pytest.mark.parametrize("loops", ["thunks", "functions"])
def test_program(name: str, loops: str, monkeypatch) -> None:
    if loops == "thunks":
        monkeypatch.setattr(NativeSimulation, "makes_sequences", False)
    module = read_program(programs.stablehlo(name), "mlir")
    reference = evaluate(module, programs.arguments_of(name))
    simulation = NativeSimulation(pipeline.run(module, for_cpu(), Dump(), GENERATED))
    close(simulation.run(programs.arguments_of(name)), reference)


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(random_programs())
def test_random_programs(before: Module) -> None:
    values = arguments(before)
    expected = evaluate(before, values)
    actual = NativeSimulation(pipeline.run(before, for_cpu(), Dump(), GENERATED)).run(values)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)
