"""Which computations of a module are executed as they are, and not folded into the kernels of others."""

from __future__ import annotations

from .hlo import Computation, Module
from .registry import OPS


def executable_computations(module: Module) -> list[Computation]:
    """The entry and the bodies, conditions and branches of control flow in it, callees first: what thunks are made for.

    The bodies of reductions, sorts and fusions are not among them.
    """
    executed = {module.entry}
    computations = module.computations()
    for computation in reversed(computations):  # callers first
        if computation in executed:
            for instruction in computation.instructions:
                if OPS[instruction.opcode].runs_thunks:
                    executed.update(instruction.called)
    return [computation for computation in computations if computation in executed]
