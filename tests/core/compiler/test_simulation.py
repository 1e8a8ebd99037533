"""Whole programs through passes, fusion, buffer assignment and lowering, run by the simulator."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library import match_library
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler import programs
from tests.core.compiler.simulate import Simulation

# Library calls are not simulated: everything is generated code here.
GENERATED = [step for step in pipeline.PASSES if step is not match_library]


def close(actual: list[np.ndarray], expected: list[np.ndarray], tolerance: float = 1e-4) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape
        assert a.dtype == e.dtype
        if a.dtype.kind in "iub":
            np.testing.assert_array_equal(a, e)
        else:
            loose = 0.05 if a.dtype.itemsize < 4 else tolerance
            np.testing.assert_allclose(
                a.astype(np.float64), e.astype(np.float64), rtol=loose, atol=loose
            )


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_reference_agrees_with_jax(name: str) -> None:
    module = read_program(programs.stablehlo(name), "mlir")
    close(evaluate(module, programs.arguments_of(name)), programs.expected(name))


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_program(name: str) -> None:
    module = read_program(programs.stablehlo(name), "mlir")
    reference = evaluate(module, programs.arguments_of(name))
    simulation = Simulation(pipeline.run(module, for_cpu(), Dump(), GENERATED))
    close(simulation.run(programs.arguments_of(name)), reference)


@pytest.mark.parametrize(
    "name",
    ["adam", "updates", "swap_loop", "rotate_loop", "branch_in_loop", "identity", "elementwise"],
)
def test_donation(name: str) -> None:
    count = len(programs.PROGRAMS[name][1])
    program = programs.stablehlo(name, donate=tuple(range(count)))
    module = read_program(program, "mlir")
    reference = evaluate(module, programs.arguments_of(name))
    simulation = Simulation(pipeline.run(module, for_cpu(), Dump(), GENERATED))
    close(simulation.run(programs.arguments_of(name)), reference)
