"""Estimates of time, good enough to decide how much work is worth a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..ir import hlo

if TYPE_CHECKING:
    from ..targets.target import Target


def of_computation(target: Target, computation: hlo.Computation) -> float:
    """Nanoseconds on one core for a whole fused computation."""
    return of_instructions(
        target, computation.instructions, [*computation.parameters, *computation.results]
    )


def of_instructions(
    target: Target, instructions: Iterable[hlo.Instruction], arrays: Iterable[hlo.Instruction]
) -> float:
    """Nanoseconds on one core for computing ``instructions`` and reading or writing ``arrays``."""
    costs = target.costs
    vectors = 0.0
    for i in instructions:
        shapes = [s for x in (i, *i.operands) for s in x.result_shapes if isinstance(s, hlo.Shape)]
        nanoseconds = costs.nanoseconds(i)
        if nanoseconds and shapes:
            size = max(s.elements for s in shapes)
            vectors += nanoseconds * size / target.lanes(shapes[0].dtype)
    moved = sum(a.shape.bytes for a in arrays if isinstance(a.shape, hlo.Shape))
    return costs.kernels.call + max(vectors, moved * costs.kernels.byte)


def grain(target: Target, cost_ns: float, units: int) -> int:
    """The number of units of work, of ``units`` that take ``cost_ns``, that are not worth another thread."""
    return max(1, int(target.costs.threads.grain * units / max(cost_ns, 1.0)))
