"""How long thunks take, by the estimates of their kernels and calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..formats.artifact import Conditional, Copy, Kernel, LibraryCall, Thunk, While

if TYPE_CHECKING:
    from ..targets.costs import Thunks


def of_thunks(thunks: Iterable[Thunk], costs: Thunks) -> float:
    """Nanoseconds on one core."""
    total = 0.0
    for thunk in thunks:
        match thunk:
            case Kernel() | LibraryCall():
                total += thunk.cost_ns
            case Copy():
                total += costs.copy + thunk.source.size / costs.copied
            case While():
                once = of_thunks(thunk.body, costs) + of_thunks(thunk.condition, costs)
                total += once * max(1, thunk.trip_count)
            case Conditional():
                may_run = thunk.branches if thunk.usual < 0 else (thunk.branches[thunk.usual],)
                total += max((of_thunks(b, costs) for b in may_run), default=0.0)
    return total
