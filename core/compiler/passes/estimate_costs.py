"""What the program costs as the user wrote it, before passes change it."""

from __future__ import annotations

from dataclasses import replace

from ..ir import cost
from ..ir.errors import unimplemented
from ..ir.hlo import Module, Shape


def estimate_costs(module: Module) -> Module:
    """``module`` with :attr:`.hlo.Module.costs`: arithmetic and memory traffic, as PJRT's cost analysis reports them.

    Raises CompileError (UNIMPLEMENTED) for a program whose parameters or results are other values than arrays.
    """
    for what, values in (("parameter", module.entry.parameters), ("result", module.entry.results)):
        for n, value in enumerate(values):
            if not isinstance(value.shape, Shape):
                problem = f"{what} {n} of the program is {value.shape}: only arrays are supported"
                raise unimplemented(problem)
    return replace(module, costs=cost.of_module(module))
