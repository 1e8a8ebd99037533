"""Estimates of time, good enough to decide how much work is worth a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..ir import hlo
from ..ir.registry import OPS

if TYPE_CHECKING:
    from ..targets.target import Target

_BYTE_NS: Final = 0.015  # reading or writing memory beyond the nearest caches
GRAIN_NS: Final = 8000.0  # less than this is not worth waking a thread


def _vector_ns(i: hlo.Instruction) -> float:
    """Nanoseconds that a full vector of an instruction takes."""
    price = OPS[i.opcode].price
    if price.of_integers is not None and i.operands[0].dtype.is_integer:
        price = price.of_integers
    return price.nanoseconds


def weight(i: hlo.Instruction) -> float:
    """What an element costs to compute, in cheap vector instructions."""
    nanoseconds = _vector_ns(i)
    return max(1.0, 4 * nanoseconds) if nanoseconds else 0.0


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
        nanoseconds = _vector_ns(i)
        if nanoseconds and shapes:
            size = max(s.elements for s in shapes)
            vectors += nanoseconds * size / target.lanes(shapes[0].dtype)
    moved = sum(a.shape.bytes for a in arrays if isinstance(a.shape, hlo.Shape))
    return 10.0 + max(vectors, moved * _BYTE_NS)


def grain(cost_ns: float, units: int) -> int:
    """The number of units that take GRAIN_NS."""
    return max(1, int(GRAIN_NS * units / max(cost_ns, 1.0)))
