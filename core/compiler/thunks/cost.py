"""How long thunks take, by the estimates of their kernels and calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..formats.artifact import Conditional, Copy, Kernel, LibraryCall, Thunk, While

_BYTES_PER_NANOSECOND: Final = 20.0


def of_thunks(thunks: Iterable[Thunk]) -> float:
    """Nanoseconds on one core."""
    total = 0.0
    for thunk in thunks:
        match thunk:
            case Kernel() | LibraryCall():
                total += thunk.cost_ns
            case Copy():
                total += 20 + thunk.source.size / _BYTES_PER_NANOSECOND
            case While():
                once = of_thunks(thunk.body) + of_thunks(thunk.condition)
                total += once * max(1, thunk.trip_count)
            case Conditional():
                total += max((of_thunks(b) for b in thunk.branches), default=0.0)
    return total
