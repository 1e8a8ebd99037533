"""Loops written in JAX for the tests of loops that run element by element, and the fusions that they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from tripont.core.compiler import pipeline
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.control_flow import executable_computations
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library import match_library
from tripont.core.compiler.targets.host import for_cpu

# Library calls are not evaluated: everything is generated code here.
GENERATED = [step for step in pipeline.PASSES if step is not match_library]


def read(function: Callable[..., Any], arguments: Sequence[np.ndarray]) -> Module:
    """The program as it is before all passes."""
    return read_program(
        jax.jit(function, keep_unused=True).lower(*arguments).as_text().encode(), "mlir"
    )


def compiled(function: Callable[..., Any], arguments: Sequence[np.ndarray]) -> Module:
    """The program after all passes."""
    return pipeline.run(read(function, arguments), for_cpu(), Dump(), GENERATED)


def fused_loops(module: Module) -> list[Instruction]:
    """The fusions of a module that are whole loops."""
    return [
        i
        for c in executable_computations(module)
        for i in c.instructions
        if i.opcode == "fusion" and i.attributes["kind"] == "while"
    ]


def loops(module: Module) -> list[Instruction]:
    """The loops of a module that run step by step."""
    return [
        i for c in executable_computations(module) for i in c.instructions if i.opcode == "while"
    ]
