"""Lengths of Fourier transforms that the "fft" kernel does, and what they cost: registers, room on the stack, time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .butterflies import instructions, radices

if TYPE_CHECKING:
    from ...targets.target import Target

#: Bytes of numbers on the stack that one kernel may have: room for powers of two, with the number that the real forms
#: have besides.
LARGEST_STACK: Final = (1 << 18) + (1 << 12)

#: Bytes whose addresses a CPU translates together.
PAGE: Final = 1 << 12


def registers_of(target: Target) -> int:
    """How many vectors the machine has."""
    return 16 if target.is_x86 and target.vector_bytes < 64 else 32


def radices_of(n: int, target: Target) -> tuple[int, ...] | None:
    """:func:`.butterflies.radices` on a target."""
    return radices(n, registers_of(target), target.costs.transforms)


def inner_length(config: Mapping[str, Any]) -> int:
    """The complex numbers that are transformed."""
    n: int = config["n"]
    return n // 2 if config["form"] != "complex" and n % 2 == 0 else n


def stack_bytes(n: int, lanes: int, size: int) -> int:
    """Bytes on the stack for transforms of ``n`` complex numbers with parts of ``size`` bytes."""
    return 2 * 2 * (n + 1) * lanes * size


def vector_instructions(n: int, lanes: int, size: int, target: Target) -> float:
    """Vector instructions for each number of transforms of length ``n``, roughly."""
    found = radices_of(n, target)
    assert found is not None
    costs = target.costs.transforms
    is_near = stack_bytes(n, lanes, size) <= target.costs.memory.panel
    through = costs.through if is_near else costs.far_through
    return costs.through + sum(instructions(radix) for radix in found) + through * (len(found) - 1)
