"""Estimates of time, good enough to decide how much work is worth a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .. import hlo

if TYPE_CHECKING:
    from ..targets.target import Target

# Nanoseconds a full vector takes; anything else elementwise takes _CHEAP.
_CHEAP: Final = 0.25
_VECTOR_NS: Final[dict[str, float]] = {
    **dict.fromkeys("exponential logistic tanh exponential-minus-one log log-plus-one erf".split(), 6.0),
    **dict.fromkeys("sine cosine tan cbrt".split(), 10.0),
    **dict.fromkeys("power atan2".split(), 15.0),
    **dict.fromkeys("divide sqrt rsqrt".split(), 3.0),
    "remainder": 60.0,
    "gather": 12.0,
}
_FREE: Final = frozenset("parameter constant broadcast reshape bitcast tuple get-tuple-element slice".split())
_BYTE_NS: Final = 0.03  # reading or writing memory beyond the nearest caches
GRAIN_NS: Final = 8000.0  # less than this is not worth waking a thread


def of_computation(target: Target, computation: hlo.Computation) -> float:
    """Nanoseconds on one core for a whole fused computation."""
    vectors = 0.0
    for i in computation.instructions:
        if i.opcode in _FREE or not isinstance(i.shape, hlo.Shape):
            continue
        elements = max([i.shape.elements, *(o.shape.elements for o in i.operands if isinstance(o.shape, hlo.Shape))])
        vectors += _VECTOR_NS.get(i.opcode, _CHEAP) * elements / target.lanes(i.dtype)
    moved = sum(p.shape.bytes for p in computation.parameters if isinstance(p.shape, hlo.Shape))
    moved += sum(r.shape.bytes for r in computation.results if isinstance(r.shape, hlo.Shape))
    return 10.0 + max(vectors, moved * _BYTE_NS)


def grain(cost_ns: float, units: int) -> int:
    """The number of units that take GRAIN_NS."""
    return max(1, int(GRAIN_NS * units / max(cost_ns, 1.0)))
