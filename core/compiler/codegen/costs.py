"""Estimates of time, good enough to decide how much work is worth a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..ir import hlo

if TYPE_CHECKING:
    from ..targets.target import Target

# Nanoseconds a full vector takes; anything else elementwise takes _CHEAP.
_CHEAP: Final = 0.15
_VECTOR_NS: Final[dict[str, float]] = {
    "exponential": 1.5,
    **dict.fromkeys(["logistic", "tanh", "exponential-minus-one"], 2.2),
    **dict.fromkeys(["log", "log-plus-one", "erf"], 3.5),
    **dict.fromkeys(["cbrt", "erfc", "erf-inv", "sine", "cosine", "sinh", "cosh"], 6.0),
    **dict.fromkeys(["tan", "atan2", "asin", "acos"], 9.0),
    "power": 8.0,
    **dict.fromkeys(["lgamma", "digamma"], 60.0),  # four times that below 0
    **dict.fromkeys(["igamma", "igammac", "regularized-incomplete-beta"], 1500.0),
    **dict.fromkeys(["igamma-grad-a", "zeta", "polygamma"], 1500.0),
    **dict.fromkeys(["divide", "sqrt", "rsqrt"], 1.0),
    "remainder": 60.0,
    "gather": 8.0,
}
_FREE: Final = frozenset(
    ["bitcast", "broadcast", "constant", "get-tuple-element", "parameter", "reshape", "slice"]
    + ["tuple"]
)
_BYTE_NS: Final = 0.015  # reading or writing memory beyond the nearest caches
GRAIN_NS: Final = 8000.0  # less than this is not worth waking a thread


def _vector_ns(i: hlo.Instruction) -> float:
    """Nanoseconds that a full vector of an instruction takes."""
    if i.opcode in _FREE:
        return 0.0
    if i.opcode in ("divide", "remainder", "power") and i.operands[0].dtype.is_integer:
        return 4.0
    return _VECTOR_NS.get(i.opcode, _CHEAP)


def weight(i: hlo.Instruction) -> float:
    """What an element costs to compute, in cheap vector instructions."""
    if i.opcode in _FREE:
        return 0.0
    return max(1.0, 4 * _vector_ns(i))


def of_computation(target: Target, computation: hlo.Computation) -> float:
    """Nanoseconds on one core for a whole fused computation."""
    return of_instructions(
        target, computation.instructions, [*computation.parameters, *computation.results]
    )


def of_instructions(
    target: Target, instructions: Iterable[hlo.Instruction], arrays: Iterable[hlo.Instruction]
) -> float:
    """Nanoseconds on one core for computing ``instructions`` and reading or writing ``arrays``."""
    vectors = 0.0
    for i in instructions:
        shapes = [s for x in (i, *i.operands) for s in x.result_shapes if isinstance(s, hlo.Shape)]
        if i.opcode not in _FREE and shapes:
            size = max(s.elements for s in shapes)
            vectors += _vector_ns(i) * size / target.lanes(shapes[0].dtype)
    moved = sum(a.shape.bytes for a in arrays if isinstance(a.shape, hlo.Shape))
    return 10.0 + max(vectors, moved * _BYTE_NS)


def grain(cost_ns: float, units: int) -> int:
    """The number of units that take GRAIN_NS."""
    return max(1, int(GRAIN_NS * units / max(cost_ns, 1.0)))
